//! Converts options to a machine's configuration, and a configuration to its description in the
//! ledger.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use anyhow::{Result, anyhow};
use trapless_experiments::Value;
use trapless_hart::Tiers;
use trapless_isa::Extensions;
use trapless_ledger::document::{Clock, Cost, RunInfo};
use trapless_ledger::{Config, Ledger};
use trapless_machine::preset::{EPOCH, Interrupts};
use trapless_machine::{Engine, Machine, MachineConfig, Machines};
use trapless_recorder::{Recorder, SharedRecorder};

use crate::spec::DEFAULT_RAM;
use crate::spec::{EngineChoice, MachineOptions, RegionTime};

/// Default machine of commands.
pub const USUAL: &str = "sstc";
/// If engines are compared nearly all code is to be compiled.
const TIERS_BOTH: Tiers = Tiers {
    hot: 1,
    ..Tiers::EAGER
};

/// The machine of `machines` that the options describe.
pub fn config(
    machines: &Machines,
    machine: &str,
    harts: usize,
    options: &MachineOptions,
    settings: &BTreeMap<String, Value>,
) -> Result<MachineConfig> {
    let mut config = machines.config(machine)?;
    for (name, value) in settings {
        config.set(name, &value.to_string())?;
    }
    config.harts = harts;
    config.ram = options.ram.map_or(DEFAULT_RAM, |size| size.0);
    if let Some(isa) = &options.isa {
        config.set_isa(isa)?;
    }
    if let Some(cost) = &options.cost {
        config.set_cost(cost.table()?);
    }
    if !options.prices.is_empty() {
        let changed = config.cost.repriced(&options.prices);
        config.set_cost(changed.map_err(|reason| anyhow!("cannot use these prices: {reason}"))?);
    }
    config.hart.misaligned = !options.trap_misaligned;
    if let Some(quantum) = options.quantum {
        config.quantum = quantum;
    }
    if let Some(seed) = options.seed {
        config.seed = seed;
    }
    config.engine = match options.engine {
        EngineChoice::Jit => Engine::Jit(tiers(options, Tiers::default())),
        EngineChoice::Interp => Engine::Interp,
        EngineChoice::Both => Engine::Jit(tiers(options, TIERS_BOTH)),
    };
    if let Some(size) = options.code_cache {
        config.code.compiled = usize::try_from(size.0).unwrap_or(usize::MAX);
    }
    config.check()?;
    Ok(config)
}

/// When code is compiled: what the options say, else what `usual` says.
fn tiers(options: &MachineOptions, usual: Tiers) -> Tiers {
    Tiers {
        hot: options.hot.unwrap_or(usual.hot),
        region: match options.region {
            None => usual.region,
            Some(RegionTime::Never) => None,
            Some(RegionTime::After(cycles)) => Some(cycles),
        },
    }
}

/// With `--engine both`, lets a twin of `machine` run beside it in lock-step. `boot` makes the
/// twin: the same machine with another engine, whose output is dropped.
///
/// # Errors
/// If the twin cannot be made.
pub fn accompany(
    machine: &mut Machine,
    options: &MachineOptions,
    config: &MachineConfig,
    boot: impl Fn(MachineConfig) -> Result<Machine, trapless_machine::Error> + Send + 'static,
) -> Result<()> {
    if options.engine != EngineChoice::Both {
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

/// A recorder for a machine with this configuration; `measured` as for [`Recorder::new`].
pub fn recorder(config: &MachineConfig, measured: String) -> SharedRecorder {
    SharedRecorder::new(Recorder::new(Ledger::new(ledger_config(config)), measured))
}

/// Configuration of the machine's ledger.
pub fn ledger_config(config: &MachineConfig) -> Config {
    let plain = Config {
        cycles_per_tick: config.hart.cycles_per_tick,
        ..Config::new(config.harts)
    };
    let plain = match config.interrupts {
        Interrupts::Aia { .. } => plain.with_aia(),
        _ => plain,
    };
    let high = config.pci_windows().high.start;
    let devices = plain.devices.with_pci(high);
    let devices = if config.windows {
        devices.with_message_windows()
    } else {
        devices
    };
    Config { devices, ..plain }
}

/// Names of the extensions that are enabled, and of those that are not.
fn extensions(extensions: &Extensions) -> (Vec<&'static str>, Vec<&'static str>) {
    // Extensions that only few machines have are named only where they are enabled.
    let usual = Extensions::default();
    let usual: Vec<_> = usual.switches().filter(|(_, on)| *on).collect();
    let mut switches: Vec<_> = extensions.switches().collect();
    switches.retain(|(name, on)| *on || usual.contains(&(name, true)));
    switches.sort_unstable();
    let (with, without): (Vec<_>, Vec<_>) = switches.into_iter().partition(|(_, on)| *on);
    let names = |switches: Vec<(&'static str, bool)>| switches.into_iter().map(|s| s.0).collect();
    (names(with), names(without))
}

/// Description of the machine in a ledger.
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
