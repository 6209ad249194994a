//! From command-line options to a machine's configuration, and from a configuration to what the
//! ledger records of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use trapless_experiments::Value;
use trapless_isa::Extensions;
use trapless_ledger::Config;
use trapless_ledger::document::{Clock, Cost, RunInfo};
use trapless_machine::cost::CostTable;
use trapless_machine::preset::{EPOCH, Interrupts, Size};
use trapless_machine::{Engine, Machine, MachineConfig, Machines};

use crate::files;

/// RAM of machines whose user does not say.
const DEFAULT_RAM: u64 = 2 << 30;
/// Most virtual time between two looks at Ctrl-C while everything is interpreted, in cycles.
const SLOW_SLICE: u64 = 2_000_000;
/// Runs of a block before it is compiled if engines are compared: nearly all code is to be
/// compiled.
const HOT_BOTH: u32 = 1;

/// Options of every command that makes a machine.
#[derive(Args, Clone, Default)]
pub struct HartArgs {
    /// Size of RAM.
    #[arg(long, value_name = "SIZE", help_heading = "Machine")]
    pub ram: Option<Size>,
    /// ISA string (`rv64gc_h_sstc`), or extensions to switch (`-svadu,+zicond`). Our own are xuer,
    /// xvei and xhcs; device trees name them xtraplessuer, xtraplessvei and xtraplesshcs.
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
    /// Seed of everything random that the guest can see, and of when a workload starts its guests.
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
    /// Runs of a block that are interpreted before it is compiled [default: what pays; few for
    /// both].
    #[arg(long, value_name = "RUNS", help_heading = "Machine")]
    pub hot: Option<u32>,
    /// Most memory for compiled code; what does not fit is compiled again when it is needed
    /// [default: 48M].
    #[arg(long, value_name = "SIZE", help_heading = "Machine")]
    pub code_cache: Option<Size>,
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

/// `NAME=VALUE` on the command line.
pub fn setting(text: &str) -> Result<(String, Value), String> {
    let wrong = || format!("{text} is not NAME=NUMBER or NAME=WORD");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    Ok((name.into(), value.parse().map_err(|_| wrong())?))
}

/// Value of `--machine`. In QEMU `-m` is the size of RAM.
pub fn name(text: &str) -> Result<String, String> {
    if text.parse::<Size>().is_ok() {
        return Err(format!(
            "this is the machine's name, which `trapless machines` lists; for RAM use --ram {text}"
        ));
    }
    Ok(text.into())
}

fn cost_model(path: &Path) -> Result<CostTable> {
    CostTable::from_text(&files::text(path, "cost model")?)
        .map_err(|reason| anyhow!("cannot use the cost model {}: {reason}", path.display()))
}

/// The machine out of `machines` that the options describe.
pub fn config(
    machines: &Machines,
    machine: &str,
    harts: usize,
    args: &HartArgs,
    settings: &[(String, Value)],
) -> Result<MachineConfig> {
    let mut config = machines.config(machine)?;
    for (name, value) in settings {
        config.set(name, &value.to_string())?;
    }
    config.harts = harts;
    config.ram = args.ram.map_or(DEFAULT_RAM, |size| size.0);
    if let Some(isa) = &args.isa {
        config.set_isa(isa)?;
    }
    if let Some(file) = &args.cost {
        config.set_cost(cost_model(file)?);
    }
    config.hart.misaligned = !args.trap_misaligned;
    if let Some(quantum) = args.quantum {
        config.quantum = quantum;
    }
    if let Some(seed) = args.seed {
        config.seed = seed;
    }
    config.engine = match args.engine {
        EngineName::Jit => Engine::Jit {
            hot: args.hot.unwrap_or(trapless_hart::HOT),
        },
        EngineName::Interp => Engine::Interp,
        EngineName::Both => Engine::Jit {
            hot: args.hot.unwrap_or(HOT_BOTH),
        },
    };
    if let Some(size) = args.code_cache {
        config.code.compiled = usize::try_from(size.0).unwrap_or(usize::MAX);
    }
    config.check()?;
    Ok(config)
}

impl HartArgs {
    /// Virtual time between two looks at Ctrl-C in cycles: `usual`, or less where machines run much
    /// slower, because two are compared or everything is interpreted.
    pub fn slice(&self, usual: u64) -> u64 {
        match self.engine {
            EngineName::Jit => usual,
            EngineName::Interp => usual.min(SLOW_SLICE),
            EngineName::Both => usual.min(SLOW_SLICE / 4),
        }
    }

    /// Memory in bytes that RAM of the machines of a run may take.
    pub fn memory(&self) -> u64 {
        let ram = self.ram.map_or(DEFAULT_RAM, |size| size.0);
        match self.engine {
            EngineName::Both => ram.saturating_mul(2),
            EngineName::Jit | EngineName::Interp => ram,
        }
    }

    /// The options as words of a command line.
    pub fn words(&self) -> Vec<String> {
        let Self {
            ram,
            isa,
            cost,
            trap_misaligned,
            quantum,
            seed,
            engine,
            hot,
            code_cache,
        } = self;
        let engine = engine.to_possible_value();
        let engine = engine.filter(|_| self.engine != EngineName::default());
        let valued = [
            ("--ram", ram.map(|size| size.0.to_string())),
            ("--isa", isa.clone()),
            (
                "--cost",
                cost.as_ref().map(|path| path.display().to_string()),
            ),
            ("--quantum", quantum.map(|n| n.to_string())),
            ("--seed", seed.map(|n| n.to_string())),
            ("--engine", engine.map(|name| name.get_name().to_string())),
            ("--hot", hot.map(|n| n.to_string())),
            ("--code-cache", code_cache.map(|size| size.0.to_string())),
        ];
        let words = |(name, value): (&str, Option<String>)| {
            value.map_or_else(Vec::new, |value| vec![name.to_string(), value])
        };
        let misaligned = trap_misaligned.then(|| "--trap-misaligned".into());
        valued
            .into_iter()
            .flat_map(words)
            .chain(misaligned)
            .collect()
    }

    /// Options that change what a run counts, as `NAME=VALUE`, for file names.
    pub fn variant(&self) -> Vec<String> {
        let size = |size: &Size| format!("ram={}M", size.0 >> 20);
        let cost = |path: &PathBuf| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            format!("cost={stem}")
        };
        [
            self.ram.as_ref().map(size),
            self.isa.as_ref().map(|isa| format!("isa={isa}")),
            self.cost.as_ref().map(cost),
            self.trap_misaligned.then(|| "trap-misaligned".into()),
            self.quantum.map(|quantum| format!("quantum={quantum}")),
            self.seed.map(|seed| format!("seed={seed}")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// With `--engine both`, lets a twin of `machine` run beside it in lock-step. `boot` makes the
/// twin: the same machine with another engine, which nobody listens to.
///
/// # Errors
/// If the twin cannot be made.
pub fn accompany(
    machine: &mut Machine,
    args: &HartArgs,
    config: &MachineConfig,
    boot: impl Fn(MachineConfig) -> Result<Machine, trapless_machine::Error> + Send + 'static,
) -> Result<()> {
    if args.engine != EngineName::Both {
        return Ok(());
    }
    let config = config.clone();
    machine.accompany(Box::new(move |engine| {
        boot(MachineConfig {
            engine,
            ..config.clone()
        })
    }))?;
    Ok(())
}

/// What a ledger must know about the machine.
pub fn ledger_config(config: &MachineConfig) -> Config {
    let plain = Config {
        cycles_per_tick: config.hart.cycles_per_tick,
        ..Config::new(config.harts)
    };
    match config.interrupts {
        Interrupts::Aia { .. } => plain.with_aia(),
        _ => plain,
    }
}

/// Names of the extensions that are on, and of those that are off.
fn extensions(extensions: &Extensions) -> (Vec<&'static str>, Vec<&'static str>) {
    // Extensions that are off in every machine but some are named where they are on only.
    let usual = Extensions::default();
    let usual: Vec<_> = usual.switches().filter(|(_, on)| *on).collect();
    let mut switches: Vec<_> = extensions.switches().collect();
    switches.retain(|(name, on)| *on || usual.contains(&(name, true)));
    switches.sort_unstable();
    let (with, without): (Vec<_>, Vec<_>) = switches.into_iter().partition(|(_, on)| *on);
    let names = |switches: Vec<(&'static str, bool)>| switches.into_iter().map(|s| s.0).collect();
    (names(with), names(without))
}

/// What a ledger says about the machine.
pub fn run_info(config: &MachineConfig) -> RunInfo {
    let (with, without) = extensions(&config.hart.extensions);
    let configuration = [
        ("harts", config.harts.to_string()),
        ("RAM", format!("{} MiB", config.ram >> 20)),
        ("quantum", format!("{} cycles", config.quantum)),
        ("extensions", with.join(" ")),
        ("extensions off", without.join(" ")),
        (
            "misaligned accesses",
            if config.hart.misaligned {
                "supported"
            } else {
                "trap"
            }
            .into(),
        ),
        ("seed", config.seed.to_string()),
        ("cost model", config.cost.name.clone()),
    ];
    let mut configuration: BTreeMap<_, _> = configuration.map(|(k, v)| (k.to_string(), v)).into();
    if let Interrupts::Aia { guests } = config.interrupts {
        let files = guests.map_or("none".into(), |guests| guests.to_string());
        configuration.insert("guest interrupt files".into(), files);
    }
    if config.epoch != EPOCH {
        let date = SystemTime::UNIX_EPOCH + Duration::from_secs(config.epoch);
        let date = humantime::format_rfc3339_seconds(date).to_string();
        configuration.insert("date at power-on".into(), date);
    }
    RunInfo {
        machine: config.machine.clone(),
        clock: Clock {
            cycles_per_second: config.cost.clock_hz,
            cycles_per_tick: config.hart.cycles_per_tick,
        },
        configuration,
        cost_model: config
            .cost
            .figures
            .iter()
            .map(|(name, figure)| Cost {
                name: name.clone(),
                cycles: figure.cycles.into(),
                source: figure.source.clone(),
            })
            .collect(),
        git_revision: env!("TRAPLESS_REVISION").into(),
        ..RunInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_numbers_or_words() {
        let number = Value::Number(1000);
        assert_eq!(setting("pings=1_000"), Ok(("pings".into(), number)));
        let word = Value::Word("native".into());
        assert_eq!(setting("wfi=native"), Ok(("wfi".into(), word)));
        assert!(setting("pings").is_err() && setting("pings=-1").is_err());
    }
}
