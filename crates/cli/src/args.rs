//! The command line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use trapless_experiments::Value;
use trapless_machine::preset::Size;

/// A deterministic RISC-V computer that counts every trap of the virtual machines it runs.
#[derive(Parser)]
#[command(version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  trapless compare --machines sbi,trapless --workload timer   compare two interrupt architectures
  trapless boot                                           a KVM host with a shell on this terminal
  trapless boot --kernel Image --disk root.img --append 'root=/dev/vda console=ttyS0'
  trapless exec program.elf                               a bare-metal program

Exit status: that of the program for exec; else 0, 1 if a workload failed, 2 after a wrong option or
file, 130 after Ctrl-C.";

/// The subcommands.
#[derive(Subcommand)]
pub enum Command {
    /// Boot a kernel with the console on this terminal.
    Boot(BootArgs),
    /// Run a workload in a guest of a KVM host and write the ledger of its traps.
    Run(RunArgs),
    /// Run a workload on several machines and compare their ledgers.
    Compare(CompareArgs),
    /// Disturb a workload at every instruction boundary of functions of the host's KVM.
    Explore(ExploreArgs),
    /// Run a bare-metal ELF program from reset in M-mode.
    Exec(ExecArgs),
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
}

/// Options of every command that makes a machine.
#[derive(Args, Clone)]
pub struct HartArgs {
    /// Size of RAM.
    #[arg(long, value_name = "SIZE", help_heading = "Machine")]
    pub ram: Option<Size>,
    /// ISA string (`rv64gc_h_sstc`), or extensions to switch (`-svadu,+zicond`).
    #[arg(
        long,
        value_name = "LIST",
        allow_hyphen_values = true,
        help_heading = "Machine"
    )]
    pub isa: Option<String>,
    /// Cost model to use instead of the built-in one.
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    pub cost: Option<PathBuf>,
    /// Let misaligned loads and stores trap instead of supporting them.
    #[arg(long, help_heading = "Machine")]
    pub trap_misaligned: bool,
    /// Cycles that a hart runs before it is the next one's turn.
    #[arg(long, value_name = "CYCLES", help_heading = "Machine")]
    pub quantum: Option<u64>,
    /// Seed of everything random that the guest can see.
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub seed: Option<u64>,
    /// What executes instructions; results are the same.
    #[arg(
        long,
        value_enum,
        value_name = "ENGINE",
        default_value_t,
        help_heading = "Machine"
    )]
    pub engine: EngineName,
    /// Runs of a block that are interpreted before it is compiled [default: what pays; few for both].
    #[arg(long, value_name = "RUNS", help_heading = "Machine")]
    pub hot: Option<u32>,
    /// Most memory for compiled code; what does not fit is compiled again when it is needed [default: 48M].
    #[arg(long, value_name = "SIZE", help_heading = "Machine")]
    pub code_cache: Option<Size>,
}

/// Options for looking into a run.
#[derive(Args, Clone, Default)]
pub struct ObserveArgs {
    /// Write logs as text: any of exec, trap, csr, intc, as in `exec,trap:FILE`.
    #[arg(long, value_name = "WHAT:FILE", help_heading = "Looking inside")]
    pub log: Option<String>,
    /// Wait for gdb on this TCP port, as in `:1234`.
    #[arg(long, value_name = "[HOST]:PORT", help_heading = "Looking inside")]
    pub gdb: Option<String>,
    /// Draw the way of one interrupt as a sequence diagram (Mermaid): CLASS[.STATE][:NUMBER], as in
    /// `ipi.scheduled_off:3=FILE`. Repeat for more.
    #[arg(long, value_name = "INTERRUPT=FILE", help_heading = "Looking inside")]
    pub diagram: Vec<crate::diagram::Request>,
    /// Show at the end where the host's time went and what the engine did; `--profile=FILE` writes it as
    /// JSON, too.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        help_heading = "Looking inside"
    )]
    pub profile: Option<Option<PathBuf>>,
}

/// `trapless boot`.
#[derive(Args)]
#[command(after_help = "\
Keys on the console: Ctrl-A x leaves, Ctrl-A h lists more.

Examples:
  trapless boot                                  Debian's kernel as KVM host, with a shell
  trapless boot --machine sbi --harts 4 --ram 4G
  trapless boot --kernel Image --initrd initrd.img --append 'console=ttyS0'")]
pub struct BootArgs {
    /// Machine preset; `trapless machines` lists them.
    #[arg(long, short, default_value = "sstc", value_name = "NAME")]
    pub machine: String,
    /// Linux Image (plain or gzip) or ELF kernel [default: Debian's].
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
    /// Initial RAM disk [default with the default kernel: the KVM host image].
    #[arg(long, value_name = "FILE")]
    pub initrd: Option<PathBuf>,
    /// Raw disk image on virtio-blk; what the guest writes stays in memory. Repeat for more.
    #[arg(long, value_name = "FILE")]
    pub disk: Vec<PathBuf>,
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
    /// Device that the terminal is connected to; output of the other is shown, too. Linux calls them
    /// ttyS0 and hvc0.
    #[arg(long, default_value = "uart", value_parser = ["uart", "virtio"], value_name = "DEVICE")]
    pub console: String,
    /// Number of harts.
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub harts: usize,
    /// Write the ledger of the run to this file.
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Write a trace that Perfetto opens.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Set what only this machine has, as in `aia.guests=3`. Repeat for more.
    #[arg(long = "set", short = 's', value_name = "NAME=VALUE", value_parser = parameter, help_heading = "Machine")]
    pub settings: Vec<(String, Value)>,
    #[command(flatten)]
    pub harts_options: HartArgs,
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// Options of `run` and `compare`.
#[derive(Args, Clone)]
pub struct WorkloadArgs {
    /// Workload; `trapless workloads` lists them.
    #[arg(long, short, value_name = "NAME")]
    pub workload: String,
    /// Set a parameter of the workload, or of the machine `aia` (`aia.guests=3`). Repeat for more.
    #[arg(long = "set", short = 's', value_name = "NAME=VALUE", value_parser = parameter)]
    pub parameters: Vec<(String, Value)>,
    /// Number of vCPUs [default: what the workload says].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    pub guest_harts: Option<u32>,
    /// Number of harts of the machine [default: what the workload says].
    #[arg(long, value_name = "N")]
    pub host_harts: Option<u32>,
    /// VMM in the host.
    #[arg(long, default_value = "trapless", value_parser = ["trapless", "qemu"])]
    pub vmm: String,
    /// Show the host's console.
    #[arg(long)]
    pub console: bool,
    /// Give up after this much virtual time.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    pub time_limit: u64,
    #[command(flatten)]
    pub harts_options: HartArgs,
}

impl WorkloadArgs {
    /// Parameters of the workload.
    pub fn workload_parameters(&self) -> BTreeMap<String, Value> {
        let of_workload = |(name, _): &&(String, Value)| !name.contains('.');
        self.parameters
            .iter()
            .filter(of_workload)
            .cloned()
            .collect()
    }

    /// Settings of a machine: names with a dot. Those of others are for them, if there are several.
    pub fn settings_of(&self, machine: &str) -> Vec<(String, Value)> {
        let of_machine =
            |(name, _): &&(String, Value)| machine_of(name).is_some_and(|of| of == machine);
        self.parameters.iter().filter(of_machine).cloned().collect()
    }

    /// Refuses settings of machines that do not run.
    pub fn check_settings(&self, machines: &[&str]) -> anyhow::Result<()> {
        for (name, _) in &self.parameters {
            if let Some(machine) = machine_of(name).filter(|of| !machines.contains(of)) {
                anyhow::bail!(
                    "{name} belongs to the machine {machine}, which does not run; leave it out"
                );
            }
        }
        Ok(())
    }
}

/// The machine that a setting belongs to; `None` for a parameter of a workload.
fn machine_of(name: &str) -> Option<&str> {
    name.split_once('.').map(|(machine, _)| machine)
}

/// `trapless run`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  trapless run --machine sbi --workload timer --set wakeups=200
  trapless run --machine sstc --workload ipi --ledger ipi.json --trace ipi.trace.json
  trapless run --machine sstc --workload mixed --profile       where the time goes")]
pub struct RunArgs {
    /// Machine preset; `trapless machines` lists them.
    #[arg(long, short, value_name = "NAME")]
    pub machine: String,
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Where to write the ledger [default: out/WORKLOAD-MACHINE.json].
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Write a trace that Perfetto opens.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Print the ledger as JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// `trapless compare`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  trapless compare --machines sbi,sstc,aia,trapless --workload mixed
  trapless compare --machines sbi,sstc --workload net --set pings=100 --out net-report")]
pub struct CompareArgs {
    /// Machines to compare, the baseline first.
    #[arg(long, value_delimiter = ',', required = true, value_name = "NAMES")]
    pub machines: Vec<String>,
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Where to write NAME.json and NAME.html [default: out/WORKLOAD-MACHINES].
    #[arg(long, value_name = "NAME")]
    pub out: Option<PathBuf>,
    /// Print the ledgers as JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// What executes instructions.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EngineName {
    /// Compiles what runs often to machine code (x86-64 hosts; others interpret).
    #[default]
    Jit,
    /// Interprets everything.
    Interp,
    /// Runs two machines side by side, one by each engine, and stops at the first difference.
    Both,
}

/// What `trapless explore` does to a hart at an instruction boundary.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disturbance {
    /// The other harts run first, for a quantum.
    Turn,
    /// The hart stands still until its next timer interrupt is due.
    Tick,
    /// The hart gets a supervisor software interrupt that nobody sent.
    Ipi,
}

impl std::fmt::Display for Disturbance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Turn => "turn",
            Self::Tick => "tick",
            Self::Ipi => "ipi",
        })
    }
}

/// `trapless explore`.
#[derive(Args)]
#[command(after_help = "\
Each run is the same up to the boundary; what follows must end as well as without the disturbance.

Examples:
  trapless explore --machine trapless --workload sequence --function kvm_arch_vcpu_put
  trapless explore --machine trapless --workload sequence --function kvm_arch_vcpu_load --disturb turn --calls 3")]
pub struct ExploreArgs {
    /// Machine preset.
    #[arg(long, short, default_value = "trapless", value_name = "NAME")]
    pub machine: String,
    /// What to run.
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Function of the host's KVM module, with what it calls there. Repeat for more.
    #[arg(long = "function", short, required = true, value_name = "NAME")]
    pub functions: Vec<String>,
    /// Calls of each function to go through.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub calls: u32,
    /// Virtual time that passes in the workload before the first, in cycles.
    #[arg(long, default_value_t = 0, value_name = "CYCLES")]
    pub skip: u64,
    /// Take an instruction at most N times in each call, as when a loop polls [default: each time].
    #[arg(long, value_name = "N")]
    pub visits: Option<u64>,
    /// Take only each Nth boundary.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub stride: u64,
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
    /// Write the words between `begin_signature` and `end_signature` to this file, as riscv-arch-test
    /// wants them.
    #[arg(long, value_name = "FILE")]
    pub signature: Option<PathBuf>,
    /// Bytes in a line of the signature.
    #[arg(long, default_value = "4", value_parser = ["4", "8", "16"], value_name = "BYTES")]
    pub signature_granularity: String,
    /// Write the ledger of the run to this file.
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Machine preset.
    #[arg(long, short, default_value = "sstc", value_name = "NAME")]
    pub machine: String,
    /// Number of harts.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub harts: usize,
    /// Give up after this many instructions.
    #[arg(long, default_value_t = 10_000_000_000, value_name = "N")]
    pub max_instructions: u64,
    /// Set what only this machine has, as in `aia.guests=3`. Repeat for more.
    #[arg(long = "set", short = 's', value_name = "NAME=VALUE", value_parser = parameter, help_heading = "Machine")]
    pub settings: Vec<(String, Value)>,
    #[command(flatten)]
    pub harts_options: HartArgs,
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// `trapless images`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  trapless images                list them
  trapless images host           make the KVM host image and print where it is
  trapless images --refresh all  look for newer packages, then make all")]
pub struct ImagesArgs {
    /// Images to make; `all` for all.
    pub names: Vec<String>,
    /// Look for newer packages first.
    #[arg(long)]
    pub refresh: bool,
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
    /// Print tables as Markdown instead: exits for each class of interrupts (workload density), or the cost of a move (pairs
    /// of migrate with moving=1 and moving=0).
    #[arg(long)]
    pub phases: bool,
}

fn parameter(text: &str) -> Result<(String, Value), String> {
    let wrong = || format!("{text} is not NAME=NUMBER or NAME=WORD");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    Ok((name.into(), value.parse().map_err(|_| wrong())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn parameters_are_numbers_or_words() {
        let number = Value::Number(1000);
        assert_eq!(parameter("pings=1_000"), Ok(("pings".into(), number)));
        let word = Value::Word("native".into());
        assert_eq!(parameter("wfi=native"), Ok(("wfi".into(), word)));
        assert!(parameter("pings").is_err() && parameter("pings=-1").is_err());
    }
}
