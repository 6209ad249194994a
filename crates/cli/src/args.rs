//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use trapless_machine::preset::Size;

/// A deterministic RISC-V computer that counts every trap of the virtual machines it runs.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand)]
pub enum Command {
    /// Boot a kernel with the console on this terminal.
    Boot(BootArgs),
}

/// Options of every command that makes a machine.
#[derive(Args, Clone)]
pub struct MachineArgs {
    /// Machine preset; `trapless machines` lists them.
    #[arg(long, short, default_value = "sstc", value_name = "NAME")]
    pub machine: String,
    /// Size of RAM.
    #[arg(long, value_name = "SIZE")]
    pub ram: Option<Size>,
    /// Switch extensions, for instance `-svadu,+zicond`.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub isa: Option<String>,
    /// Cost model to use instead of the built-in one.
    #[arg(long, value_name = "FILE")]
    pub cost: Option<PathBuf>,
    /// Let misaligned loads and stores trap instead of supporting them.
    #[arg(long)]
    pub trap_misaligned: bool,
    /// Cycles that a hart runs before it is the next one's turn.
    #[arg(long, value_name = "CYCLES")]
    pub quantum: Option<u64>,
    /// Seed of everything random that the guest can see.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// `trapless boot`.
#[derive(Args)]
pub struct BootArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Linux Image (plain or gzip) or ELF kernel [default: Debian's stock kernel].
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
    /// Initial RAM disk [default with the default kernel: the host image with a shell].
    #[arg(long, value_name = "FILE")]
    pub initrd: Option<PathBuf>,
    /// Raw disk image on virtio-blk; writes stay in memory. Repeat for more.
    #[arg(long, value_name = "FILE")]
    pub disk: Vec<PathBuf>,
    /// Kernel command line.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub append: Option<String>,
    /// M-mode firmware, `none` to start the kernel in M-mode [default: OpenSBI].
    #[arg(long, value_name = "FILE")]
    pub firmware: Option<PathBuf>,
    /// Device tree to use instead of the machine's own.
    #[arg(long, value_name = "FILE")]
    pub dtb: Option<PathBuf>,
    /// Number of harts.
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub harts: usize,
}
