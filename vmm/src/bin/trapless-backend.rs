//! The `trapless-backend` command.

use clap::Parser;
use std::process::ExitCode;
use trapless_vmm::backend::cli::{Cli, Device};
use trapless_vmm::backend::server;

fn main() -> ExitCode {
    let Device::Blk(options) = Cli::parse().device;
    match server::serve(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trapless-backend: {error}");
            ExitCode::from(error.code())
        }
    }
}
