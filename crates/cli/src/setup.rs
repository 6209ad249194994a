//! From command-line options to a machine's configuration, and from a configuration to what the
//! ledger records of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use trapless_experiments::Value;
use trapless_images::{Images, Progress};
use trapless_ledger::Config;
use trapless_ledger::document::{Clock, Cost, RunInfo};
use trapless_machine::cost::CostTable;
use trapless_machine::preset::Interrupts;
use trapless_machine::{Content, Engine, MachineConfig};

use crate::args::{EngineName, HartArgs, ObserveArgs};

/// RAM of machines whose user does not say.
const DEFAULT_RAM: u64 = 2 << 30;
/// Runs of a block before it is compiled if engines are compared: nearly all code is to be compiled.
const HOT_BOTH: u32 = 1;

/// The machine that the options describe.
pub fn config(
    machine: &str,
    harts: usize,
    args: &HartArgs,
    settings: &[(String, Value)],
) -> Result<MachineConfig> {
    let mut config = MachineConfig::preset(machine)?;
    for (name, value) in settings {
        config.set(name, &value.to_string())?;
    }
    config.harts = harts;
    config.ram = args.ram.map_or(DEFAULT_RAM, |size| size.0);
    if let Some(isa) = &args.isa {
        config.set_isa(isa)?;
    }
    if let Some(file) = &args.cost {
        config.set_cost(CostTable::from_file(file)?);
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

/// Whether the options ask for engines side by side; refuses what cannot be seen then.
pub fn both(args: &HartArgs, observe: &ObserveArgs) -> Result<bool> {
    let both = args.engine == EngineName::Both;
    if both && (observe.log.is_some() || observe.gdb.is_some() || observe.profile.is_some()) {
        bail!(
            "--log, --gdb and --profile look into one machine; leave them out, or choose --engine jit or interp"
        );
    }
    Ok(both)
}

/// Reads a file the user named.
pub fn read(path: &Path, what: &str) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read the {what} {}", path.display()))
}

/// What is in a file the user named, which may be large.
pub fn content(path: &Path, what: &str) -> Result<Content> {
    Content::of_file(path).with_context(|| format!("cannot read the {what} {}", path.display()))
}

/// The project folder: the one above that holds `images/` and `experiments/`.
pub fn project() -> Result<PathBuf> {
    let here = std::env::current_dir().context("cannot find the current folder")?;
    let program = std::env::current_exe().unwrap_or_default();
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .chain(program.ancestors())
        .chain(source.ancestors())
        .find(|folder| folder.join("images").is_dir() && folder.join("experiments").is_dir())
        .map(Path::to_path_buf)
        .context("cannot find the folders images/ and experiments/; run this inside the project")
}

/// The project's images, with progress on standard error.
pub fn images() -> Result<Images> {
    Ok(Images::open(&project()?, Progress::auto())?)
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

/// What a ledger says about the machine.
pub fn run_info(config: &MachineConfig) -> RunInfo {
    let e = serde_json::to_value(config.hart.extensions).unwrap_or_default();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for (name, on) in e.as_object().into_iter().flatten() {
        if on.as_bool() == Some(true) {
            &mut with
        } else {
            &mut without
        }
        .push(name.clone());
    }
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

/// Makes the folder a file will be written to.
pub fn make_parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display())),
        _ => Ok(()),
    }
}

/// Whether a result file can be written later.
pub fn check_output(path: &Path) -> Result<()> {
    if path.is_dir() {
        bail!("{} is a folder; name a file", path.display());
    }
    make_parent(path)
}

/// Writes a result file.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    check_output(path)?;
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
