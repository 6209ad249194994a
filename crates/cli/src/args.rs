//! The command line: subcommands and their own options. Groups of options that several share stand
//! where they are used: [`HartArgs`], [`ObserveArgs`], [`WorkloadArgs`].

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
use trapless_backends::disk::Image;
use trapless_backends::net::Network;
use trapless_backends::share::Share;
use trapless_experiments::Value;
use trapless_machine::preset::Size;
use trapless_machine::{MachineConfig, Machines};

use crate::checkpoint::Request;
use crate::commands::explore::disturbance::Disturbance;
use crate::commands::sweep::SweepArgs;
use crate::copy::Copied;
use crate::machine::{self, HartArgs};
use crate::observe::ObserveArgs;
use crate::rtc::{self, Rtc};
use crate::workload::WorkloadArgs;

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

/// Harts of a machine that `boot` makes, unless the user says otherwise.
pub const BOOT_HARTS: usize = 2;
/// Harts of a machine that `exec` makes, unless the user says otherwise.
pub const EXEC_HARTS: usize = 1;

/// Runs that `compare` makes on each machine, unless the user says otherwise: the fewest whose
/// smallest and largest value enclose the median with more than 90 %.
pub const COMPARE_SEEDS: u32 = 5;
/// Most runs on a machine.
const MAX_SEEDS: i64 = 10_000;

const EXAMPLES: &str = "\
Examples:
  trapless compare --machines sbi,trapless --workload timer   two interrupt architectures
  trapless boot                                           a KVM host with a shell on this terminal
  trapless boot --kernel Image --disk root.img --append 'root=/dev/vda console=ttyS0'
  trapless disk debian debian.img                         a disk with Debian, installed by a machine
  trapless exec program.elf                               a bare-metal program

Exit status: that of the program for exec; else 0, 1 if a workload failed or a kernel panicked, 2 after
a wrong option or file, 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, 141 if nobody reads the
output any more.";

/// The subcommands.
#[derive(Subcommand)]
pub enum Command {
    /// Boot a kernel with the console on this terminal.
    Boot(Box<BootArgs>),
    /// Run a workload in a guest of a KVM host and write the ledger of its traps.
    Run(RunArgs),
    /// Go on with a run or a session where it made a checkpoint.
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
    /// Print a script that completes options and names in a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write those of all subcommands to a folder.
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
without a network installs them: nothing of them runs on this computer, and no rights are needed. The
same packages give the same disk. It takes some minutes.

Examples:
  trapless disk debian debian.img
  trapless boot --ram 2G --disk debian.img,rw --net user --append 'root=/dev/vda rw console=ttyS0'")]
pub struct DebianArgs {
    /// The disk image to make (raw; what is empty in it takes no room).
    pub file: PathBuf,
    /// Its size.
    #[arg(long, default_value = "2G", value_name = "SIZE")]
    pub size: Size,
}

/// What becomes of a machine whose kernel has panicked.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnPanic {
    /// The command ends with status 1.
    Exit,
    /// The machine runs on, for a debugger or to be looked at.
    Keep,
}

/// `trapless boot`.
#[derive(Args)]
#[command(after_help = "\
Keys on the console: Ctrl-A x leaves, Ctrl-A h lists more.

Input need not come from a terminal: lines in a pipe or file reach the guest when it listens. When they
have ended the machine runs on. Then, once the guest has been idle and silent for 10 s of its time, that
time passes no faster than the clock on the wall, so that an idle machine costs next to nothing.

Examples:
  trapless boot                                  Debian's kernel as KVM host, with a shell
  trapless boot --machine sbi --harts 4 --ram 4G
  trapless boot --disk debian.img --append 'root=/dev/vda rw console=ttyS0'   a system on a disk
  trapless boot --disk data.img,rw                               a disk that keeps what is written
  trapless boot --share results                                  a folder of this computer
  trapless boot --net user,hostfwd=tcp::2222-:22                 the network, and a port
  trapless boot --copy prog:/bin/prog --copy data                a program and a folder
  trapless boot --kernel Image --initrd initrd.img --append 'console=ttyS0'
  trapless boot --firmware u-boot.bin                                         nothing but that")]
pub struct BootArgs {
    /// Machine preset; `trapless machines` lists them.
    #[arg(long, short, default_value = "sstc", value_name = "NAME", value_parser = machine::name)]
    pub machine: String,
    /// Linux Image (plain or gzip), ELF or flat binary; `debian`, `patched` (built from Debian's
    /// source with this project's patches) or `none` [default: debian, with --firmware FILE none].
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
    /// Initial RAM disk [default with these two kernels: one that starts the system on the disk if
    /// --append has root=, else the KVM host image].
    #[arg(long, value_name = "FILE")]
    pub initrd: Option<PathBuf>,
    /// Disk image (raw or qcow2) on virtio-blk; what the guest writes stays in memory. With `rw` it
    /// goes to the file, with `ro` the guest cannot write. Repeat for more.
    #[arg(long, value_name = "FILE[,rw|,ro][,format=raw|qcow2]")]
    pub disk: Vec<Image>,
    /// Share a folder with the guest by virtio-fs: `mount -t virtiofs share /mnt`, which the host
    /// image does by itself. With `ro` the guest cannot write; `tag` is the name to mount it by
    /// [default: share]. Repeat for more.
    #[arg(long, value_name = "FOLDER[,ro][,tag=NAME]")]
    pub share: Vec<Share>,
    /// What the network card is connected to: `user` (the network of this computer, without any
    /// rights; ports of it lead into the guest by hostfwd), `peer` (a machine at 10.0.2.2 that
    /// answers pings) or `none` [default: peer].
    #[arg(
        long,
        value_name = "user[,hostfwd=tcp:[ADDR]:PORT-:PORT]|peer|none",
        default_value = "peer",
        hide_default_value = true
    )]
    pub net: Network,
    /// Date of the machine's clock at power-on, in UTC: `now` is that of this computer, or with
    /// --replay that of the record [default: now with --net user, else 2025-01-01, so that a run is
    /// the same each time].
    #[arg(long, value_name = "now|DATE")]
    pub rtc: Option<Rtc>,
    /// Write a checkpoint at this virtual time, out of which `trapless resume` goes on, as in
    /// `20=booted.checkpoint`. Repeat for more. Ctrl-A c makes one at any time.
    #[arg(long, value_name = "SECONDS=FILE", conflicts_with = "replay")]
    pub checkpoint: Vec<Request>,
    /// Record what comes from outside, with virtual times: typed lines, frames of --net user,
    /// answers of --share.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Repeat the run of a record, made with the same other options: its ledger is the same.
    /// Folders and networks are not needed, and disks are not written to.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "script", "until"])]
    pub replay: Option<PathBuf>,
    /// Put a file or folder of this computer into the guest's initial RAM file system [default
    /// place: /root]. Repeat for more.
    #[arg(long, value_name = "FILE[:/PATH]")]
    pub copy: Vec<Copied>,
    /// Kernel command line.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub append: Option<String>,
    /// M-mode firmware; `none` starts the kernel in M-mode [default: OpenSBI].
    #[arg(long, value_name = "FILE")]
    pub firmware: Option<PathBuf>,
    /// Device tree to use instead of the machine's own.
    #[arg(long, value_name = "FILE")]
    pub dtb: Option<PathBuf>,
    /// Write the machine's device tree to this file and stop.
    #[arg(long, value_name = "FILE")]
    pub dump_dtb: Option<PathBuf>,
    /// Device that the terminal is connected to; output of the other is shown, too. Linux calls
    /// them ttyS0 and hvc0.
    #[arg(long, default_value = "uart", value_parser = ["uart", "virtio"], value_name = "DEVICE")]
    pub console: String,
    /// What happens when the kernel panics and says no more [default: exit, or keep if standard
    /// input is a terminal].
    #[arg(long, value_enum, value_name = "ACTION")]
    pub on_panic: Option<OnPanic>,
    /// Type what this file says, in virtual time, so that it is the same each time. Lines are
    /// `expect REGEX`, `send TEXT`, `timeout SECONDS` (of virtual time; 60) and `end`, which leaves
    /// the machine; else it has to power off. Exit status 1 if something expected does not come.
    /// Standard input is not read.
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Leave the machine with exit status 0 when the console has printed what this matches.
    /// Standard input is not read.
    #[arg(long, value_name = "REGEX", conflicts_with = "script")]
    pub until: Option<String>,
    /// Let virtual time run no faster than the clock, as for somebody who types.
    #[arg(long)]
    pub real_time: bool,
    /// Give up after this much virtual time [default: never].
    #[arg(long, value_name = "SECONDS")]
    pub time_limit: Option<u64>,
    /// Number of harts.
    #[arg(long, default_value_t = BOOT_HARTS, value_name = "N")]
    pub harts: usize,
    /// Write the ledger of the run to this file.
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Write a trace that Perfetto opens, as in `ipi.perfetto-trace`.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Set what only this machine has, as in `aia.guests=3`. Repeat for more.
    #[arg(long = "set", short = 's', value_name = "NAME=VALUE", value_parser = machine::setting, help_heading = "Machine")]
    pub settings: Vec<(String, Value)>,
    #[command(flatten)]
    pub harts_options: HartArgs,
    #[command(flatten)]
    pub observe: ObserveArgs,
}

impl BootArgs {
    /// The machine out of `machines` that they describe. It is that of a run with the date
    /// `recorded`, in seconds since 1970, if it repeats one.
    pub fn config(&self, machines: &Machines, recorded: Option<u64>) -> Result<MachineConfig> {
        let (options, settings) = (&self.harts_options, &self.settings);
        let mut config = machine::config(machines, &self.machine, self.harts, options, settings)?;
        // Networks have certificates and signatures, which a guest checks against its clock.
        let networked = matches!(self.net, Network::User(_)).then_some(Rtc::Now);
        config.epoch = match (self.rtc.or(networked), recorded) {
            (Some(Rtc::At(epoch)), _) | (_, Some(epoch)) => epoch,
            (Some(Rtc::Now), None) => rtc::now(),
            (None, None) => config.epoch,
        };
        Ok(config)
    }
}

/// `trapless run`.
#[derive(Args)]
#[command(after_help = "\
With several seeds each run writes a ledger of its own, and the report shows medians and intervals.
Runs share nothing: their results do not depend on how many go on at a time.

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
    /// Write a checkpoint, out of which `trapless resume` goes on: SECONDS of virtual time, as in
    /// `1.5=half.checkpoint`, or `workload=FILE` for where the measured part begins. Repeat for
    /// more.
    #[arg(long, value_name = "WHEN=FILE")]
    pub checkpoint: Vec<Request>,
    /// Make the images, print what determines the result of the run as JSON, and do not run it.
    #[arg(long, conflicts_with = "seeds")]
    pub identity: bool,
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// `trapless resume`.
#[derive(Args)]
#[command(after_help = "\
The run goes on as if it had never stopped: its ledger, which counts from the beginning, is the
same. Logs, traces and gdb see what comes from here on. What the run is, the checkpoint says.
A session of boot goes on with the console on this terminal, with the same files; what a guest had
written to disks is in the checkpoint. Connections to a network outside are broken.

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
    /// Only show what the checkpoint is, as JSON.
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
    /// Write a trace that Perfetto opens, of what comes from here on.
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
Each machine is run with each seed: figures are medians, with intervals that tell whether machines
differ. One run alone cannot tell that.
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
    /// Calls of each function to go through.
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
    /// Take an instruction at most N times in all calls together, so that what few of them do is
    /// not lost among what all do [default: each time].
    #[arg(long, value_name = "N")]
    pub times: Option<u64>,
    /// Take only each Nth boundary [default: as many as --runs allows, spread evenly].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub stride: Option<u64>,
    /// Most disturbed runs, unless --stride says which.
    #[arg(long, default_value_t = 60, value_name = "N", conflicts_with = "stride", value_parser = clap::value_parser!(u64).range(1..))]
    pub runs: u64,
    /// What to do there.
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
    #[arg(long, default_value_t = EXEC_HARTS, value_name = "N")]
    pub harts: usize,
    /// Give up soon after this many instructions, executed or trapped, of all harts together: with
    /// each engine at the same instant.
    #[arg(long, default_value_t = 10_000_000_000, value_name = "N")]
    pub max_instructions: u64,
    /// Set what only this machine has, as in `aia.guests=3`. Repeat for more.
    #[arg(long = "set", short = 's', value_name = "NAME=VALUE", value_parser = machine::setting, help_heading = "Machine")]
    pub settings: Vec<(String, Value)>,
    #[command(flatten)]
    pub harts_options: HartArgs,
    #[command(flatten)]
    pub observe: ObserveArgs,
}

impl ExecArgs {
    /// The machine out of `machines` that they describe.
    pub fn config(&self, machines: &Machines) -> Result<MachineConfig> {
        let (options, settings) = (&self.harts_options, &self.settings);
        machine::config(machines, &self.machine, self.harts, options, settings)
    }
}

/// `trapless images`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  trapless images                list them
  trapless images host           make the KVM host image and print where it is
  trapless images --refresh all  look for newer packages, then make all
  trapless images --export DIR   for packages of Trapless: build what users are not to compile")]
pub struct ImagesArgs {
    /// Images to make; `all` for all.
    pub names: Vec<String>,
    /// Look for newer packages first.
    #[arg(long)]
    pub refresh: bool,
    /// Build what workloads need that would have to be compiled, and write it to this new folder:
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
