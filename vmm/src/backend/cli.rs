//! Command line of `trapless-backend`.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Serves devices of guests by the vhost-user protocol.
#[derive(Parser, Debug)]
#[command(version, after_help = EXAMPLES)]
pub struct Cli {
    /// Which device.
    #[command(subcommand)]
    pub device: Device,
}

const EXAMPLES: &str = "Examples:
  trapless-backend blk --socket /run/blk.sock --disk disk.img &
  trapless-vmm --vhost-user-blk /run/blk.sock Image
  trapless-backend blk --socket /run/blk.sock --disk disk.img --loop handler --cpu own";

/// Devices.
#[derive(Subcommand, Debug)]
pub enum Device {
    /// A disk
    Blk(Blk),
}

/// Options of a disk.
#[derive(Args, Debug)]
pub struct Blk {
    /// Unix socket to listen at; what is there is replaced
    #[arg(long)]
    pub socket: PathBuf,

    /// Raw image, a multiple of 512 bytes
    #[arg(long)]
    pub disk: PathBuf,

    /// The guest may not write
    #[arg(long)]
    pub read_only: bool,

    /// How it waits for requests
    #[arg(long = "loop", value_enum, default_value_t = Loop::Epoll)]
    pub event_loop: Loop,

    /// With --loop handler: CPU whose guest the handler interrupts: a number, `own` for that of the
    /// guest that makes the request, `thread` for that on which the handler's thread last ran
    #[arg(long, value_parser = parse_cpu, default_value = "thread")]
    pub cpu: Cpu,
}

/// Ways of waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Loop {
    /// In epoll, for the eventfd that a kick signals
    Epoll,
    /// By looking again and again
    Poll,
    /// In KVM, for what no guest is interrupted by (harts with Xhcs and this project's KVM)
    Handler,
}

/// Whose guest a handler interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cpu {
    /// That of a CPU of the host.
    Number(u64),
    /// The one that makes the request.
    Own,
    /// That of the CPU where the handler's thread last ran.
    Thread,
}

fn parse_cpu(text: &str) -> Result<Cpu, String> {
    match text {
        "own" => Ok(Cpu::Own),
        "thread" => Ok(Cpu::Thread),
        number => number
            .parse()
            .map(Cpu::Number)
            .map_err(|_| "use a number, own or thread".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_parse() {
        for line in EXAMPLES
            .lines()
            .filter(|line| line.contains("trapless-backend"))
        {
            let line = line.trim().trim_end_matches(" &");
            Cli::try_parse_from(line.split_whitespace()).unwrap();
        }
    }

    #[test]
    fn a_cpu_is_a_number_or_one_of_two_words() {
        assert_eq!(parse_cpu("3"), Ok(Cpu::Number(3)));
        assert_eq!(parse_cpu("own"), Ok(Cpu::Own));
        assert!(parse_cpu("-1").is_err());
    }
}
