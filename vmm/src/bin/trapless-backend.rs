//! The `trapless-backend` command.

use clap::Parser;
use std::process::ExitCode;
use trapless_vmm::backend::cli::{Cli, Device};
use trapless_vmm::backend::{blk, net};

fn main() -> ExitCode {
    let result = match Cli::parse().device {
        Device::Blk(options) => blk::serve(&options),
        Device::Net(options) => net::serve(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trapless-backend: {error}");
            ExitCode::from(error.code())
        }
    }
}
