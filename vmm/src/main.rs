//! The `trapless-vmm` command.

use clap::Parser;
use std::process::ExitCode;
use trapless_vmm::cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let code = match command(&cli).unwrap_or_else(|| run(&cli)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("trapless-vmm: {error}");
            error.code()
        }
    };
    ExitCode::from(code)
}

/// `--send`, which needs no KVM.
fn command(cli: &Cli) -> Option<trapless_vmm::error::Result<u8>> {
    let (path, text) = (cli.control.as_ref()?, cli.send.as_ref()?);
    Some(trapless_vmm::run::control::send(path, text).map(|answer| {
        if !answer.is_empty() {
            println!("{answer}");
        }
        0
    }))
}

#[cfg(target_arch = "riscv64")]
fn run(cli: &Cli) -> trapless_vmm::error::Result<u8> {
    use trapless_vmm::run::outcome::Outcome;
    let outcome = trapless_vmm::session::run(cli)?;
    if let Outcome::Failure(text) = &outcome {
        eprintln!("trapless-vmm: {text}");
    }
    Ok(outcome.code())
}

#[cfg(not(target_arch = "riscv64"))]
fn run(cli: &Cli) -> trapless_vmm::error::Result<u8> {
    cli.config.check()?;
    Err(trapless_vmm::error::Error::user(
        "this build is not for riscv64; KVM guests need a riscv64 host",
    ))
}
