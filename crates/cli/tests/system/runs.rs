//! Runs the command, each combination once, a few at a time.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use trapless_ledger::document::LedgerFile;

use crate::console::Console;
use crate::log::Log;

/// How a run is watched, which must not change it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watched {
    /// `--log trap:FILE` and `--console`.
    Log,
    /// `--trace FILE`.
    Trace,
    /// Nothing but the ledger.
    Plain,
}

/// What a run changes about how its guest is started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// Nothing: what `trapless run` does without `--set`.
    Usual,
    /// A guest without Xtrapless: PLIC of the VMM, IPIs by SBI.
    PlicGuest,
    /// A host with the KVM module that comes with its kernel, and IPIs by firmware.
    StockHost,
    /// WFI waits on the hart instead of trapping.
    NativeWfi,
}

impl Variant {
    /// What `--set` makes of it.
    fn set(self) -> &'static [&'static str] {
        match self {
            Self::Usual => &[],
            Self::PlicGuest => &["irqchip=plic"],
            Self::StockHost => &["kvm=stock", "hostipi=sbi"],
            Self::NativeWfi => &["wfi=native"],
        }
    }
}

/// How instructions are executed, which must not change anything either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// As for a user who says nothing.
    Usual,
    /// Interpreted.
    Interpreted,
    /// With memory for a tenth of the code that gets compiled.
    SmallCache,
}

impl Engine {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Usual => &[],
            Self::Interpreted => &["--engine", "interp"],
            Self::SmallCache => &["--code-cache", "1M"],
        }
    }
}

/// A run to make. Parameters are small: every promise shows on a few repetitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    pub machine: &'static str,
    pub workload: &'static str,
    /// `--set`, for parameters of the workload.
    pub set: &'static [&'static str],
    pub variant: Variant,
    pub vmm: &'static str,
    pub watched: Watched,
    pub engine: Engine,
    pub seed: u64,
}

const fn job(machine: &'static str, workload: &'static str, set: &'static [&'static str]) -> Job {
    Job {
        machine,
        workload,
        set,
        variant: Variant::Usual,
        vmm: "trapless",
        watched: Watched::Log,
        engine: Engine::Usual,
        seed: 0,
    }
}

/// Wake-ups of the timer workload.
pub const WAKEUPS: u64 = 200;
/// A seed that is not the usual one, 0, but follows it.
pub const OTHER_SEED: u64 = 1;
pub const TIMER: &[&str] = &["wakeups=200"];
const IPI: &[&str] = &["loops=20"];
const NET: &[&str] = &["pings=20"];
/// Frames moved by the host's kernel.
pub const NET_VHOST: &[&str] = &["pings=200", "vhost=1"];
/// Written with checksums, and checked after the measured part.
const FIO: &[&str] = &["requests=100", "operation=randwrite", "verify=1"];
/// Several requests at a time.
const FIO_HANDLER: &[&str] = &[
    "requests=300",
    "operation=randread",
    "verify=1",
    "engine=libaio",
    "depth=4",
    "backend=handler",
    "backend_cpu=own",
];
const STREAM: &[&str] = &["messages=500", "vhost=1"];
const CABLE: &[&str] = &["requests=100"];
/// Messages from guest to guest, moved by handlers.
pub const CABLE_HANDLER: &[&str] = &[
    "requests=300",
    "backend=handler",
    "backend_cpu=own",
    "napi_tx=0",
    "populate=1",
];
const BLK: &[&str] = &["requests=100", "operation=randwrite"];
/// Requests of the disk whose back end is a user context.
pub const REQUESTS: u64 = 300;
pub const BLK_HANDLER: &[&str] = &["requests=300", "backend=handler", "backend_cpu=own"];
/// Times that `micro` does each operation.
pub const TIMES: u64 = 500;
pub const MICRO: &[&str] = &["count=500"];
pub const MICRO_FAST: &[&str] = &["count=500", "run_loop=fast"];
const MIXED: &[&str] = &["pings=20", "wakeups=50", "loops=10"];

/// Without a log, for what is looked at in the ledger alone.
const fn plain(machine: &'static str, workload: &'static str, set: &'static [&'static str]) -> Job {
    Job {
        watched: Watched::Plain,
        ..job(machine, workload, set)
    }
}

const fn variant(variant: Variant, workload: &'static str, set: &'static [&'static str]) -> Job {
    Job {
        variant,
        ..job("trapless", workload, set)
    }
}

/// Every workload on every preset, guests and hosts that do not know Xtrapless, the other VMM, and
/// repetitions.
const JOBS: [Job; 45] = [
    job("sbi", "timer", TIMER),
    job("sstc", "timer", TIMER),
    job("trapless", "timer", TIMER),
    job("sbi", "ipi", IPI),
    job("sstc", "ipi", IPI),
    job("trapless", "ipi", IPI),
    job("sbi", "boot", &[]),
    job("sstc", "boot", &[]),
    job("trapless", "boot", &[]),
    job("sbi", "net", NET),
    job("sstc", "net", NET),
    job("trapless", "net", NET),
    job("sbi", "mixed", MIXED),
    job("sstc", "mixed", MIXED),
    job("trapless", "mixed", MIXED),
    job("haiov", "net", NET),
    job("full", "net", NET),
    job("full", "mixed", MIXED),
    plain("full", "net", NET_VHOST),
    plain("full", "stream", STREAM),
    plain("sstc", "fio", FIO),
    plain("full", "fio", FIO_HANDLER),
    plain("aia", "micro", MICRO),
    plain("trapless", "micro", MICRO),
    job("sstc", "micro", MICRO),
    job("sstc", "micro", MICRO_FAST),
    plain("sstc", "cable", CABLE),
    plain("full", "cable", CABLE_HANDLER),
    job("sstc", "blk", BLK),
    job("full", "blk", BLK),
    job("full", "blk", BLK_HANDLER),
    variant(Variant::PlicGuest, "timer", TIMER),
    variant(Variant::PlicGuest, "ipi", IPI),
    variant(Variant::PlicGuest, "net", NET),
    variant(Variant::StockHost, "timer", TIMER),
    variant(Variant::StockHost, "ipi", IPI),
    variant(Variant::StockHost, "net", NET),
    variant(Variant::NativeWfi, "timer", TIMER),
    Job {
        vmm: "qemu",
        ..job("sstc", "boot", &[])
    },
    Job {
        vmm: "qemu",
        ..job("haiov", "net", NET)
    },
    Job {
        watched: Watched::Plain,
        ..job("sstc", "timer", TIMER)
    },
    Job {
        watched: Watched::Trace,
        ..job("trapless", "ipi", IPI)
    },
    Job {
        watched: Watched::Plain,
        engine: Engine::Interpreted,
        ..job("trapless", "mixed", MIXED)
    },
    Job {
        watched: Watched::Plain,
        engine: Engine::SmallCache,
        ..job("trapless", "mixed", MIXED)
    },
    Job {
        seed: OTHER_SEED,
        ..job("trapless", "timer", TIMER)
    },
];

/// Runs at a time: one for each core would starve whoever else uses the machine.
const PARALLEL: usize = 2;

/// A run that has ended.
pub struct Run {
    pub job: Job,
    /// The ledger as text, and read.
    pub json: String,
    pub ledger: LedgerFile,
    /// What the host and the guest printed; empty unless watched by [`Watched::Log`].
    pub console: Console,
    /// Every event; empty unless watched by [`Watched::Log`].
    pub log: Log,
    /// Empty unless watched by [`Watched::Trace`].
    pub trace: Vec<u8>,
}

impl Run {
    /// For messages: `timer on sbi with VMM trapless (Usual)`.
    pub fn name(&self) -> String {
        let Job {
            machine,
            workload,
            vmm,
            variant,
            ..
        } = self.job;
        format!("{workload} on {machine} with VMM {vmm} ({variant:?})")
    }
}

/// The command, with its folder inside the project. Its runs boot: what is looked at are whole
/// runs.
pub fn trapless() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapless"));
    command.stdin(Stdio::null());
    command.env("TRAPLESS_CHECKPOINTS", "0");
    command
}

/// The ledger of a short run that is not one of [`JOBS`].
///
/// # Panics
/// If the run failed, with what it printed.
pub fn ledger(name: &str, machine: &str, workload: &str, more: &[&str]) -> LedgerFile {
    let file = scratch(&format!("{name}.json"));
    let output = trapless()
        .args(["run", "--machine", machine, "--workload", workload])
        .args(["--time-limit", "60", "--ledger"])
        .arg(&file)
        .args(more)
        .output()
        .expect("trapless starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {error}");
    let text = std::fs::read_to_string(&file).expect("the ledger is there");
    LedgerFile::from_json(&text).expect("the ledger is valid")
}

/// A command that ends with its test, however that ends.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended; the manner does not matter.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All runs, in the order of [`JOBS`]. The first caller makes them.
///
/// # Panics
/// If a run failed, with what it printed.
pub fn runs() -> &'static [Run] {
    static RUNS: OnceLock<Result<Vec<Run>, String>> = OnceLock::new();
    match RUNS.get_or_init(make_all) {
        Ok(runs) => runs,
        Err(what) => panic!("{what}"),
    }
}

/// The runs that have a log and dumps.
pub fn logged() -> impl Iterator<Item = &'static Run> {
    runs().iter().filter(|r| r.job.watched == Watched::Log)
}

/// A run with our VMM.
pub fn run(machine: &str, workload: &str, watched: Watched) -> &'static Run {
    find(machine, workload, watched, Variant::Usual)
}

/// A logged run of a variant, on preset `trapless`.
pub fn varied(variant: Variant, workload: &str) -> &'static Run {
    find("trapless", workload, Watched::Log, variant)
}

/// The run that an engine other than the usual one made.
pub fn by_engine(engine: Engine) -> &'static Run {
    let wanted = |r: &&Run| r.job.engine == engine;
    runs().iter().find(wanted).expect("it is in JOBS")
}

/// The logged run with the other seed, of workload `timer` on preset `trapless`.
pub fn other_seed() -> &'static Run {
    let wanted = |r: &&Run| r.job.seed == OTHER_SEED;
    runs().iter().find(wanted).expect("it is in JOBS")
}

fn find(machine: &str, workload: &str, watched: Watched, variant: Variant) -> &'static Run {
    let wanted = |r: &&Run| {
        let j = r.job;
        (j.machine, j.workload, j.vmm, j.seed) == (machine, workload, "trapless", 0)
            && (j.watched, j.variant, j.engine) == (watched, variant, Engine::Usual)
    };
    runs().iter().find(wanted).expect("it is in JOBS")
}

fn make_all() -> Result<Vec<Run>, String> {
    // Made first, so that the runs do not wait for each other's downloads.
    let images = trapless()
        .args([
            "images",
            "kernel",
            "opensbi",
            "host",
            "qemu-host",
            "bare-host",
            "fio-host",
            "netperf-host",
        ])
        .output()
        .map_err(|e| e.to_string())?;
    if !images.status.success() {
        return Err(String::from_utf8_lossy(&images.stderr).into_owned());
    }
    let queue: Mutex<VecDeque<Job>> = Mutex::new(JOBS.into());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL {
            scope.spawn(|| {
                loop {
                    let Some(job) = queue.lock().unwrap().pop_front() else {
                        return;
                    };
                    let run = make(job);
                    done.lock().unwrap().push(run);
                }
            });
        }
    });
    let runs: Result<Vec<Run>, String> = done.into_inner().unwrap().into_iter().collect();
    let mut runs = runs?;
    runs.sort_by_key(|r| JOBS.iter().position(|j| *j == r.job));
    Ok(runs)
}

/// A file of a test.
pub fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn make(job: Job) -> Result<Run, String> {
    let Job {
        machine,
        workload,
        set,
        vmm,
        watched,
        variant,
        engine,
        seed,
    } = job;
    // With the settings: jobs that differ in nothing else must not share files.
    let set_name: String = set.iter().map(|word| format!("-{word}")).collect();
    let name =
        format!("{workload}-{machine}-{vmm}-{variant:?}-{watched:?}-{engine:?}-{seed}{set_name}");
    let ledger_file = scratch(&format!("{name}.json"));
    let log_file = scratch(&format!("{name}.log"));
    let trace_file = scratch(&format!("{name}.perfetto-trace"));
    let mut command = trapless();
    command
        .args(["run", "--machine", machine, "--workload", workload])
        .args(["--vmm", vmm, "--seed", &seed.to_string()])
        .args(engine.options())
        .args(["--time-limit", "60", "--ledger"])
        .arg(&ledger_file);
    for set in set.iter().chain(variant.set()) {
        command.args(["--set", set]);
    }
    match watched {
        Watched::Log => {
            command.arg("--console").arg("--log");
            command.arg(format!("trap:{}", log_file.display()));
        }
        Watched::Trace => {
            command.arg("--trace").arg(&trace_file);
        }
        Watched::Plain => {}
    }
    let output = command.output().map_err(|e| e.to_string())?;
    let error = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{name}: {}\n{error}", output.status));
    }
    let read = |file: &Path| std::fs::read_to_string(file).map_err(|e| format!("{name}: {e}"));
    let json = read(&ledger_file)?;
    let ledger = LedgerFile::from_json(&json).map_err(|e| format!("{name}: {e}"))?;
    let (console, log) = match watched {
        Watched::Log => (Console::parse(&error), Log::parse(read(&log_file)?)),
        _ => Default::default(),
    };
    let trace = match watched {
        Watched::Trace => std::fs::read(&trace_file).map_err(|e| format!("{name}: {e}"))?,
        _ => Vec::new(),
    };
    // Megabytes that are no longer needed.
    for file in [log_file, trace_file] {
        if file.exists() {
            std::fs::remove_file(&file).map_err(|e| format!("{name}: {e}"))?;
        }
    }
    Ok(Run {
        job,
        json,
        ledger,
        console,
        log,
        trace,
    })
}
