//! The command line: subcommands and their own options. Groups of options that several share have
//! files of their own: [`MachineArgs`], [`ObserveArgs`], [`WorkloadArgs`].

mod boot;
mod machine;
mod observe;
mod workload;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use trapless_experiments::Value;
use trapless_machine::preset::Size;
use trapless_run::checkpoint::Request;
use trapless_run::{ExecSpec, ObserveOptions, RunSpec};

use crate::commands::explore::disturbance::Disturbance;
use crate::commands::sweep::SweepArgs;

pub use boot::{BootArgs, Driving};
pub use machine::{EngineName, MachineArgs};
pub use observe::ObserveArgs;
pub use workload::WorkloadArgs;

/// A deterministic RISC-V computer that counts every trap of the virtual machines it runs.
#[derive(Parser)]
#[command(name = "trapless", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Project folder with images/ and experiments/ [default: the one installed with this program,
    /// or the source tree it was built from].
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "TRAPLESS_PROJECT",
        hide_env_values = true
    )]
    pub project: Option<PathBuf>,
}

/// Default number of runs that `compare` makes on each machine: the fewest whose smallest and
/// largest value enclose the median with more than 90 %.
pub const COMPARE_SEEDS: u32 = 5;
/// Maximum number of runs on a machine.
const MAX_SEEDS: i64 = 10_000;

const EXAMPLES: &str = "\
Examples:
  trapless compare --machines sbi,trapless --workload timer   two interrupt architectures
  trapless boot                                           a KVM host with a shell on this terminal
  trapless boot --kernel Image --disk root.img --append 'root=/dev/vda console=ttyS0'
  trapless disk debian debian.img                         a disk with Debian, installed by a machine
  trapless exec program.elf                               a bare-metal program

Exit status: that of the program for exec; else 0, 1 if a workload failed or a kernel panicked, 2 after
a wrong option or file, 3 if the computer failed (a full disk, for one), 130 after Ctrl-C, 143 after
SIGTERM, 129 after SIGHUP, 141 if the reader of the output has gone.";

/// The subcommands.
#[derive(Subcommand)]
pub enum Command {
    /// Boot a kernel with the console on this terminal.
    Boot(Box<BootArgs>),
    /// Run a workload in a guest of a KVM host and write the ledger of its traps.
    Run(RunArgs),
    /// Resume a run or a session from a checkpoint.
    Resume(ResumeArgs),
    /// Run a workload on several machines and compare their ledgers.
    Compare(CompareArgs),
    /// Make many runs and keep their results: machines, settings, prices, seeds.
    Sweep(SweepArgs),
    /// Disturb a workload at every instruction boundary of functions of the host's KVM.
    Explore(ExploreArgs),
    /// Run a bare-metal ELF program from reset in M-mode.
    Exec(ExecArgs),
    /// Make a disk with a system for `boot`.
    Disk {
        /// The system.
        #[command(subcommand)]
        system: DiskSystem,
    },
    /// List and explain the machines.
    Machines {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Show everything about this machine, with its cost model.
        name: Option<String>,
    },
    /// List and explain the workloads.
    Workloads {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Show everything about this workload.
        name: Option<String>,
    },
    /// List images and make them from Debian packages.
    Images(ImagesArgs),
    /// Print reports from ledgers written earlier.
    Report(ReportArgs),
    /// Execute a request in JSON on standard input, for other programs (docs/python.md).
    #[command(hide = true)]
    Call,
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write the pages of all subcommands to a folder.
    Man {
        /// Folder for the pages.
        folder: Option<PathBuf>,
    },
}

/// A system that `trapless disk` installs.
#[derive(Subcommand)]
pub enum DiskSystem {
    /// Debian with systemd, apt and a network, whose root has the password `trapless`.
    Debian(DebianArgs),
}

/// `trapless disk debian`.
#[derive(Args)]
#[command(after_help = "\
The packages are fetched from the mirror that apt has here, or from TRAPLESS_MIRROR, and a machine
without a network installs them: nothing of them runs on this computer, and no privileges are
needed. The same packages give the same disk. It takes some minutes.

Examples:
  trapless disk debian debian.img
  trapless boot --ram 2G --disk debian.img,rw --net user --append 'root=/dev/vda rw console=ttyS0'")]
pub struct DebianArgs {
    /// The disk image to make (raw and sparse).
    pub file: PathBuf,
    /// Its size.
    #[arg(long, default_value = "2G", value_name = "SIZE")]
    pub size: Size,
}

/// `trapless run`.
#[derive(Args)]
#[command(after_help = "\
With several seeds each run writes a ledger of its own, and the report shows medians and intervals.
Runs are independent: their results do not depend on how many run at a time.

Examples:
  trapless run --machine sbi --workload timer --set wakeups=200
  trapless run --machine sstc --workload ipi --seeds 10
  trapless run --machine sstc --workload ipi --ledger ipi.json --trace ipi.perfetto-trace
  trapless run --machine sstc --workload mixed --profile       where the time goes")]
pub struct RunArgs {
    /// Machine preset; `trapless machines` lists them.
    #[arg(long, short, value_name = "NAME", value_parser = machine::name)]
    pub machine: String,
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Number of runs, with consecutive seeds from --seed.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_SEEDS))]
    pub seeds: u32,
    /// Runs at a time [default: one for each processor, as far as there is memory].
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<usize>,
    /// Where to write the ledger [default: out/WORKLOAD-MACHINE.json; options that change the run
    /// are in the name, as in out/ipi-sstc-seed=3.json]. A folder with --seeds.
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Write a trace that Perfetto opens, as in `ipi.perfetto-trace`.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Print the ledger as JSON instead of a table; a list of ledgers with --seeds.
    #[arg(long)]
    pub json: bool,
    /// Write a checkpoint, from which `trapless resume` continues: SECONDS of virtual time, as in
    /// `1.5=half.checkpoint`, or `workload=FILE` for where the measured part begins. Repeat for
    /// more.
    #[arg(long, value_name = "WHEN=FILE")]
    pub checkpoint: Vec<Request>,
    /// Make the images and print what determines the result of the run as JSON, without running it.
    #[arg(long, conflicts_with = "seeds")]
    pub identity: bool,
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// `trapless resume`.
#[derive(Args)]
#[command(after_help = "\
The run continues as if it had never stopped: its ledger, which counts from the beginning, is the
same. Logs, traces and gdb see only what follows. The checkpoint says what is run.
A session of boot continues with the console on this terminal, with the same files; what a guest had
written to disks is in the checkpoint. Connections to an outside network are lost.

Examples:
  trapless run --machine sstc --workload mixed --checkpoint workload=mixed.checkpoint
  trapless resume mixed.checkpoint
  trapless resume mixed.checkpoint --trace mixed.perfetto-trace
  trapless resume mixed.checkpoint --engine interp --gdb :1234
  trapless resume mixed.checkpoint --show             what it is, without going on
  trapless boot --checkpoint 20=booted.checkpoint
  trapless resume booted.checkpoint                   a booted machine, on this terminal")]
pub struct ResumeArgs {
    /// The checkpoint.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only describe the checkpoint, as JSON.
    #[arg(long)]
    pub show: bool,
    /// What executes instructions from here on; results are the same.
    #[arg(long, value_name = "ENGINE", value_parser = ["jit", "interp"])]
    pub engine: Option<String>,
    /// Give up after this much virtual time [default: that of the run].
    #[arg(long, value_name = "SECONDS")]
    pub time_limit: Option<u64>,
    /// Show the host's console. That of boot is always shown.
    #[arg(long)]
    pub console: bool,
    /// Where to write the ledger [default: as the run would have; none of boot].
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Write a trace that Perfetto opens, of what happens from here on.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Print the ledger as JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Write another checkpoint, as with `trapless run` and `trapless boot`.
    #[arg(long, value_name = "WHEN=FILE")]
    pub checkpoint: Vec<Request>,
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// `trapless compare`.
#[derive(Args)]
#[command(after_help = "\
Each machine is run with each seed: figures are medians, with intervals that show whether machines
differ. One run alone cannot show that.
Ctrl-C stops it and keeps the ledgers of runs that have ended, in NAME.unfinished.json.

Examples:
  trapless compare --machines sbi,sstc,aia,trapless --workload mixed
  trapless compare --machines sbi,sstc --workload net --set pings=100 --out net-report")]
pub struct CompareArgs {
    /// Machines to compare, the baseline first.
    #[arg(long, value_delimiter = ',', required = true, value_name = "NAMES", value_parser = machine::name)]
    pub machines: Vec<String>,
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Number of runs on each machine, with consecutive seeds from --seed.
    #[arg(long, default_value_t = COMPARE_SEEDS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_SEEDS))]
    pub seeds: u32,
    /// Runs at a time [default: one for each processor, as far as there is memory].
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<usize>,
    /// Where to write NAME.json and NAME.html [default: out/WORKLOAD-MACHINES, and as for `run`
    /// options that change the run].
    #[arg(long, value_name = "NAME")]
    pub out: Option<PathBuf>,
    /// Print the ledgers as JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// `trapless explore`.
#[derive(Args)]
#[command(after_help = "\
Each run is the same up to the boundary; after it, the workload must still succeed.
First the boundaries are counted and one run is timed, so that you know how long it will take.
`--stride 1` takes every boundary. Ctrl-C stops it and keeps the results of runs that have ended.

Examples:
  trapless explore --machine trapless --workload sequence --function kvm_arch_vcpu_put
  trapless explore --machine trapless --workload sequence --function kvm_arch_vcpu_load \\
      --disturb turn --calls 3 --stride 1")]
pub struct ExploreArgs {
    /// Machine preset.
    #[arg(long, short, default_value = "trapless", value_name = "NAME", value_parser = machine::name)]
    pub machine: String,
    /// What to run.
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Function of the host's KVM module, including its callees in the module. Repeat for more.
    #[arg(long = "function", short, required = true, value_name = "NAME")]
    pub functions: Vec<String>,
    /// Take only boundaries in the text of this function, which those of --function call. Repeat
    /// for more.
    #[arg(long, value_name = "NAME")]
    pub within: Vec<String>,
    /// Calls of each function to explore.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub calls: u32,
    /// Begin when the host has loaded KVM, not with the workload's measured part: for functions
    /// that are called while guests and devices are set up.
    #[arg(long)]
    pub early: bool,
    /// Cycles of virtual time to skip there before the first call.
    #[arg(long, default_value_t = 0, value_name = "CYCLES")]
    pub skip: u64,
    /// Take an instruction at most N times in each call, as when a loop polls [default: each time].
    #[arg(long, value_name = "N")]
    pub visits: Option<u64>,
    /// Take an instruction at most N times in all calls together, so that rare paths are not lost
    /// among common ones [default: each time].
    #[arg(long, value_name = "N")]
    pub times: Option<u64>,
    /// Take only each Nth boundary [default: as many as --runs allows, spread evenly].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub stride: Option<u64>,
    /// Maximum number of disturbed runs, unless --stride is given.
    #[arg(long, default_value_t = 60, value_name = "N", conflicts_with = "stride", value_parser = clap::value_parser!(u64).range(1..))]
    pub runs: u64,
    /// Disturbances to apply at each boundary.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["turn", "tick", "ipi"])]
    pub disturb: Vec<Disturbance>,
    /// Runs at a time [default: one for each processor].
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<usize>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `trapless exec`.
#[derive(Args)]
#[command(after_help = "\
The program ends by writing to `tohost`, as for Spike; its exit status is this command's.

Example:
  trapless exec rv64ui-p-add.elf --signature add.sig")]
pub struct ExecArgs {
    /// The program.
    pub file: PathBuf,
    /// Write the words between `begin_signature` and `end_signature` to this file, as
    /// riscv-arch-test wants them.
    #[arg(long, value_name = "FILE")]
    pub signature: Option<PathBuf>,
    /// Bytes in a line of the signature.
    #[arg(long, default_value = "4", value_parser = ["4", "8", "16"], value_name = "BYTES")]
    pub signature_granularity: String,
    /// Write the ledger of the run to this file.
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Machine preset.
    #[arg(long, short, default_value = "sstc", value_name = "NAME", value_parser = machine::name)]
    pub machine: String,
    /// Number of harts.
    #[arg(long, default_value_t = ExecSpec::HARTS, value_name = "N")]
    pub harts: usize,
    /// Stop soon after this many instructions, executed or trapped, of all harts together: with
    /// each engine at the same instant.
    #[arg(long, default_value_t = 10_000_000_000, value_name = "N")]
    pub max_instructions: u64,
    /// Set what only this machine has, as in `aia.guests=3`. Repeat for more.
    #[arg(long = "set", short = 's', value_name = "NAME=VALUE", value_parser = machine::setting, help_heading = "Machine")]
    pub settings: Vec<(String, Value)>,
    #[command(flatten)]
    pub machine_options: MachineArgs,
    #[command(flatten)]
    pub observe: ObserveArgs,
}

impl ExecArgs {
    /// The machine that they describe.
    pub fn spec(&self) -> ExecSpec {
        ExecSpec {
            file: self.file.clone(),
            machine: self.machine.clone(),
            harts: self.harts,
            settings: self.settings.iter().cloned().collect(),
            options: self.machine_options.options(),
        }
    }
}

impl RunArgs {
    /// The run that these options describe, or the first of several.
    pub fn spec(&self) -> RunSpec {
        RunSpec {
            machine: self.machine.clone(),
            workload: self.workload.spec(),
        }
    }

    /// What looks into it.
    pub fn observe(&self) -> ObserveOptions {
        self.observe.options(self.trace.as_deref())
    }
}

/// `trapless images`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  trapless images                list them
  trapless images host           make the KVM host image and print where it is
  trapless images --refresh all  look for newer packages, then make all
  trapless images --export DIR   for packages of Trapless: build what users need not compile")]
pub struct ImagesArgs {
    /// Images to make; `all` for all.
    pub names: Vec<String>,
    /// Look for newer packages first.
    #[arg(long)]
    pub refresh: bool,
    /// Build everything of workloads that has to be compiled, and write it to this new folder:
    /// `share/trapless/prebuilt` of an installed program. Images that are named are added.
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    pub export: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `trapless report`.
#[derive(Args)]
pub struct ReportArgs {
    /// Ledgers, the baseline first.
    #[arg(required = true)]
    pub ledgers: Vec<PathBuf>,
    /// Write an HTML page to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the figures of the report as JSON instead.
    #[arg(long, conflicts_with_all = ["phases", "counters"])]
    pub json: bool,
    /// Print every counter of each ledger by its name, in the measured part and the phases after
    /// it, as JSON instead.
    #[arg(long, conflicts_with = "phases")]
    pub counters: bool,
    /// Print tables as Markdown instead: exits for each class of interrupts (workload density), or
    /// the cost of a move (pairs of migrate with moving=1 and moving=0).
    #[arg(long)]
    pub phases: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
