//! Runs of the image `test-host`, whose scripts (`images/tests`) do with guests what no workload
//! does.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use trapless_ledger::document::LedgerFile;

use crate::log::{Event, Kind, Log};
use crate::runs::trapless;

/// Longer than any of them takes on a busy computer.
const PATIENCE: Duration = Duration::from_secs(3000);
/// Virtual time in seconds that no run needs. A host that hangs must not be waited for.
const TIME_LIMIT: u64 = 600;
/// The same for a crash kernel, which may hang in an interrupt that it cannot end: then each second
/// of virtual time costs one of the computer's, and more.
const CRASH_TIME_LIMIT: u64 = 20;

/// A run that has ended.
pub struct Host {
    /// What the host printed, and what it repeats of its guests' consoles.
    pub console: String,
    /// `@trapless result KEY=VALUE` lines.
    results: BTreeMap<String, String>,
    /// The steps of the interrupt controller.
    pub log: Log,
    /// Of the whole run.
    pub ledger: LedgerFile,
}

impl Host {
    /// Asserts that these checks of `trapless_test` were made and passed.
    pub fn assert_passed(&self, checks: &[&str]) {
        for check in checks {
            let line = format!("ok   {check}");
            assert!(self.console.contains(&line), "{line} in\n{}", self.console);
        }
    }

    /// Asserts that result `key` is `value`, and else shows everything that was printed.
    pub fn assert_result(&self, key: &str, value: &str) {
        let result = self.results.get(key).map(String::as_str);
        assert_eq!(result, Some(value), "{key} in\n{}", self.console);
    }

    /// All results.
    pub fn results(&self) -> impl Iterator<Item = (&str, &str)> {
        self.results.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// A result that is a number.
    pub fn number(&self, key: &str) -> u64 {
        let number = self.results.get(key).and_then(|text| text.parse().ok());
        number.unwrap_or_else(|| panic!("no number {key} in\n{}", self.console))
    }
}

/// Programs and guests that try to reach what is not theirs.
pub fn isolation() -> &'static Host {
    static RUN: OnceLock<Result<Host, String>> = OnceLock::new();
    get(RUN.get_or_init(|| boot("trapless", "isolation", "", TIME_LIMIT)))
}

/// The test of the KVM device (`linux/tests`).
pub fn device() -> &'static Host {
    static RUN: OnceLock<Result<Host, String>> = OnceLock::new();
    get(RUN.get_or_init(|| boot("trapless", "kvm", "", TIME_LIMIT)))
}

/// A guest with this interrupt controller, which takes interrupts away from a CPU.
pub fn lines(machine: &str, controller: &str) -> Result<Host, String> {
    let append = format!(" trapless.irqchip={controller}");
    boot(machine, "lines", &append, TIME_LIMIT)
}

/// Guests on `machine` with this interrupt controller that leave asserted sources to the next
/// kernel in these ways (`images/tests/module/trapless_lines.c`).
pub fn kexec(machine: &str, controller: &str, ways: &[&str]) -> Result<Host, String> {
    let append = format!(
        " trapless.kvm=patched trapless.irqchip={controller} trapless.leave={}",
        ways.join(",")
    );
    boot(machine, "kexec", &append, TIME_LIMIT)
}

/// Processes whose handlers interrupt guests (Xhcs).
pub fn contexts() -> Result<Host, String> {
    boot(
        "full",
        "kvm",
        " trapless.tests=hog,events,contexts,context-hostile,context-rights,context-stress",
        TIME_LIMIT,
    )
}

/// A host that panics while a guest runs, and its crash kernel.
pub fn crash() -> &'static Host {
    static RUN: OnceLock<Result<Host, String>> = OnceLock::new();
    get(RUN.get_or_init(|| boot("trapless", "crash", " crashkernel=192M", CRASH_TIME_LIMIT)))
}

/// A host that loses track of a vCPU.
pub fn faults() -> &'static Host {
    static RUN: OnceLock<Result<Host, String>> = OnceLock::new();
    get(RUN.get_or_init(|| boot("full", "faults", "", TIME_LIMIT)))
}

/// A CPU that loses its registers in a suspend.
pub fn suspend() -> &'static Host {
    static RUN: OnceLock<Result<Host, String>> = OnceLock::new();
    get(RUN.get_or_init(|| boot("trapless", "suspend", "", TIME_LIMIT)))
}

/// A program that handles accesses of its guest in user mode, on a machine with Xuer.
pub fn uer(machine: &'static str) -> Result<Host, String> {
    let machine = format!("{machine} --isa +xuer");
    boot(&machine, "uer", " trapless.kvm=patched", TIME_LIMIT)
}

/// A host that says how often it has switched, and ends at once.
pub fn switches(machine: &str) -> Result<Host, String> {
    boot(machine, "switches", " trapless.irqchip=plic", TIME_LIMIT)
}

/// A CPU that injects interrupts while it goes off line.
pub fn unplug() -> &'static Host {
    static RUN: OnceLock<Result<Host, String>> = OnceLock::new();
    get(RUN.get_or_init(|| boot("trapless", "unplug", "", TIME_LIMIT)))
}

/// Guests that are paused, saved, killed and restored, to huge pages and back.
pub fn restore() -> &'static Host {
    static RUN: OnceLock<Result<Host, String>> = OnceLock::new();
    get(RUN.get_or_init(|| boot("trapless", "restore", " trapless.hugepages=1", TIME_LIMIT)))
}

/// The same on machines with Xuer, while the guest's serial port is busy.
pub fn restore_with_uer(machine: &str) -> Result<Host, String> {
    let machine = format!("{machine} --isa +xuer");
    boot(&machine, "restore", "", TIME_LIMIT)
}

/// The same on AIA, with the APLIC in KVM (`ioctl`) or in the VMM (`irqfd`).
pub fn restore_with_aia(inject: &str) -> Result<Host, String> {
    let words = format!(" trapless.irqchip=aia trapless.inject={inject}");
    boot("aia", "restore", &words, TIME_LIMIT)
}

fn get(run: &'static Result<Host, String>) -> &'static Host {
    run.as_ref().unwrap_or_else(|what| panic!("{what}"))
}

/// Path of the image, made if it is not in the cache.
fn image() -> Result<PathBuf, String> {
    let out = trapless()
        .args(["images", "--json", "test-host"])
        .output()
        .map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).into_owned());
    }
    let made: serde_json::Value = serde_json::from_slice(&out.stdout).map_err(|e| e.to_string())?;
    let path = made["test-host"]["path"].as_str();
    Ok(path.ok_or("images --json names no path")?.into())
}

/// Boots the host on `machine` (with options), where it runs `script` and powers off within `limit`
/// seconds of virtual time; `more` goes to its command line.
fn boot(machine: &str, script: &str, more: &str, limit: u64) -> Result<Host, String> {
    let name = format!("{machine}-{script}{more}").replace(' ', "-");
    let scratch = |kind| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{kind}"));
    let (printed, log_file) = (scratch("out"), scratch("log"));
    let ledger_file = scratch("json");
    let words = format!("console=ttyS0 quiet cryptomgr.notests trapless.run={script}{more}");
    let stdout = std::fs::File::create(&printed).map_err(|e| e.to_string())?;
    let mut child = trapless()
        .args(["boot", "--harts", "2", "--machine"])
        .args(machine.split(' '))
        .args(["--time-limit", &limit.to_string()])
        .args(["--append", &words, "--initrd"])
        .arg(image()?)
        .arg("--log")
        .arg(format!("trap:{}", log_file.display()))
        .arg("--ledger")
        .arg(&ledger_file)
        .stderr(stdout.try_clone().map_err(|e| e.to_string())?)
        .stdout(stdout)
        .spawn()
        .map_err(|e| e.to_string())?;
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            break Some(status);
        }
        if begin.elapsed() > PATIENCE {
            child
                .kill()
                .and_then(|()| child.wait())
                .map_err(|e| e.to_string())?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let console = std::fs::read(&printed).map_err(|e| e.to_string())?;
    let console = String::from_utf8_lossy(&console).replace('\r', "");
    if !status.is_some_and(|s| s.success()) {
        return Err(format!("{script}: {status:?}\n{console}"));
    }
    let results = console
        .lines()
        .filter_map(|line| line.split_once("@trapless result ")?.1.split_once('='))
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    let log = steps(&log_file).map_err(|e| e.to_string())?;
    std::fs::remove_file(&log_file).map_err(|e| e.to_string())?;
    let ledger = LedgerFile::read(&ledger_file).map_err(|e| e.to_string())?;
    Ok(Host {
        console,
        results,
        log,
        ledger,
    })
}

/// The controller's steps, and the interrupts by which it notifies, of a log that is too long to be
/// kept as a whole.
fn steps(path: &Path) -> std::io::Result<Log> {
    let mut text = String::new();
    for line in BufReader::new(std::fs::File::open(path)?).lines() {
        let line = line?;
        if line.contains(" virt ") || line.contains(" NOTIFY ") {
            text.push_str(&line);
            text.push('\n');
        }
    }
    Ok(Log::parse(text))
}

/// Steps `name` of the controller in `mode`.
pub fn steps_of<'a>(log: &'a Log, mode: &'a str, name: &'a str) -> impl Iterator<Item = &'a Event> {
    let events = log.events.iter().filter(|e| e.kind == Kind::Virtual);
    events.filter(move |e| e.is_step(mode, name))
}
