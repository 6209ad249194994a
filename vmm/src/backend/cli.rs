//! Command line of `trapless-backend`.

use crate::error::{Error, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::{Path, PathBuf};
use vm_memory::{GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};

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
  trapless-backend blk --socket /run/blk.sock --disk disk.img --loop handler --cpu own
  trapless-backend net --socket /run/a.sock --socket /run/b.sock &
  trapless-vmm --vhost-user-net /run/a.sock Image";

/// Devices.
#[derive(Subcommand, Debug)]
pub enum Device {
    /// A disk
    Blk(Blk),
    /// A link between the network cards of two guests
    Net(Net),
}

/// Options of a disk.
#[derive(Args, Debug)]
pub struct Blk {
    /// Unix socket to listen at; an existing one is replaced
    #[arg(long)]
    pub socket: PathBuf,

    /// Raw image, a multiple of 512 bytes
    #[arg(long)]
    pub disk: PathBuf,

    /// The guest may not write
    #[arg(long)]
    pub read_only: bool,

    /// How it waits for requests.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// Options of a link.
#[derive(Args, Debug)]
pub struct Net {
    /// Unix socket to listen at for the VMM of one end; twice
    #[arg(long, num_args = 1, required = true)]
    pub socket: Vec<PathBuf>,

    /// How it waits for frames.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// How a back end waits for requests.
#[derive(Args, Clone, Copy, Debug)]
pub struct Waiting {
    /// How it waits for buffers that guests make available
    #[arg(long = "loop", value_enum, default_value_t = Loop::Epoll)]
    pub event_loop: Loop,

    /// With --loop handler: CPU whose guest the handler interrupts: a number, `own` for the CPU of
    /// the guest that makes the request, `thread` for the one on which the handler's thread last
    /// ran
    #[arg(long, value_parser = parse_cpu, default_value = "thread")]
    pub cpu: Cpu,

    /// Populate all RAM of the guest at the start: handlers have no page faults, but the guest
    /// takes all its RAM from the host
    #[arg(long)]
    pub populate: bool,
}

impl Waiting {
    /// Prepares the memory of a guest.
    pub fn prepare(&self, memory: &GuestMemoryMmap) {
        if !self.populate {
            return;
        }
        for region in memory.iter() {
            // If the kernel does not support it, page faults occur later. SAFETY: changes no
            // content of the mapping.
            let _ = unsafe {
                libc::madvise(
                    region.as_ptr().cast(),
                    region.len() as usize,
                    libc::MADV_POPULATE_WRITE,
                )
            };
        }
    }
}

impl Net {
    /// The two ends.
    ///
    /// # Errors
    /// [`Error::User`] if there are not two.
    pub fn ends(&self) -> Result<[&Path; 2]> {
        match self.socket.as_slice() {
            [a, b] if a != b => Ok([a, b]),
            _ => Err(Error::user(
                "a link has two ends: give --socket twice, with two different paths",
            )),
        }
    }
}

/// Ways of waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Loop {
    /// In epoll, for the eventfd that a kick signals
    Epoll,
    /// By polling
    Poll,
    /// In KVM, with a handler in user mode that interrupts guests (harts with Xhcs and this
    /// project's KVM)
    Handler,
}

/// CPU whose guest a handler interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cpu {
    /// This CPU of the host.
    Number(u64),
    /// The CPU of the guest that makes the request.
    Own,
    /// The CPU where the handler's thread last ran.
    Thread,
}

fn parse_cpu(text: &str) -> std::result::Result<Cpu, String> {
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
