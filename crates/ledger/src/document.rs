//! The ledger as it is written to disk: JSON, schema [`SCHEMA`], described in
//! `docs/ledger.schema.json` and `docs/ledger.md`.
//!
//! Everything but [`LedgerFile::host`] depends only on images and configuration: two runs write
//! the same bytes. Maps are sorted by key, lists by hart and then by code.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::class::{InterruptClass, Notifications, Slots};
use crate::histogram::Latency;
use crate::interrupt_files::GuestFiles;

/// Name and version of the format. The number grows when a reader of the old one would be misled.
pub const SCHEMA: &str = "trapless-ledger/2";

/// Version without `interrupts`, `notifications`, `slots` and `host_ipis`; it is read as well.
pub const SCHEMA_1: &str = "trapless-ledger/1";

/// A whole ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerFile {
    /// [`SCHEMA`], or [`SCHEMA_1`] in an old file.
    pub schema: String,
    /// What ran, as told by the caller.
    pub run: RunInfo,
    /// The whole run.
    pub total: Section,
    /// Its phases, in order of first mark; together they make up `total`.
    pub phases: Vec<Phase>,
    /// Every vCPU seen, in order of appearance.
    pub vcpus: Vec<VcpuInfo>,
    /// Time on the host computer. Not reproducible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostInfo>,
}

/// Error of [`LedgerFile::read`].
#[derive(Debug)]
pub struct ReadError(String);

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReadError {}

impl LedgerFile {
    /// The JSON text, indented, with a final newline.
    pub fn to_json(&self) -> String {
        // Serialization of these types has no failing case: keys are strings, floats finite or null.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Writes the JSON text to `path`.
    ///
    /// # Errors
    /// What the file system reports.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.to_json())
    }

    /// Reads a ledger back.
    ///
    /// # Errors
    /// A sentence that names the file: not readable, not JSON of this shape, or another version.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|e| ReadError(format!("cannot read ledger {name}: {e}")))?;
        Self::from_json(&text).map_err(|e| ReadError(format!("{name} is not a ledger: {e}")))
    }

    /// Parses a ledger.
    ///
    /// # Errors
    /// A sentence: not JSON of this shape, or another version.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let head: Head = serde_json::from_str(text).map_err(|e| ReadError(e.to_string()))?;
        if head.schema != SCHEMA && head.schema != SCHEMA_1 {
            let text = format!(
                "its schema is {:?}, this program reads {SCHEMA:?} and {SCHEMA_1:?}",
                head.schema
            );
            return Err(ReadError(text));
        }
        let file: Self = serde_json::from_str(text).map_err(|e| ReadError(e.to_string()))?;
        let clock = &file.run.clock;
        if clock.cycles_per_second == 0 || clock.cycles_per_tick == 0 {
            return Err(ReadError("its clock stands still".to_string()));
        }
        let value: Value = serde_json::from_str(text).map_err(|e| ReadError(e.to_string()))?;
        match find_huge(&value) {
            Some(n) => Err(ReadError(format!("{n} is too large for a count or a time"))),
            None => Ok(file),
        }
    }

    /// The part of the run in which the workload ran: phase `workload`, or all of it if that phase
    /// was not marked.
    pub fn workload(&self) -> &Section {
        self.phases
            .iter()
            .find(|p| p.name == "workload")
            .map_or(&self.total, |p| &p.totals)
    }
}

/// An integer above 2^53, which no run reaches (100 days at 1 GHz), or `None`. Whoever sums up a
/// ledger can then rely on sums to fit.
fn find_huge(value: &Value) -> Option<u64> {
    match value {
        Value::Number(n) => n.as_u64().filter(|n| *n > 1 << 53),
        Value::Array(list) => list.iter().find_map(find_huge),
        Value::Object(map) => map.values().find_map(find_huge),
        _ => None,
    }
}

/// What ran: passed in by the program that runs the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Machine preset, for instance `sstc`.
    pub machine: String,
    /// Workload, for instance `timer`.
    pub workload: String,
    /// What the workload did, to normalise counts by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Virtual clock.
    pub clock: Clock,
    /// Every setting of the run, by name.
    #[serde(default)]
    pub configuration: BTreeMap<String, String>,
    /// Prices of the cost model.
    #[serde(default)]
    pub cost_model: Vec<Cost>,
    /// Versions of the packages the images are made of, by package.
    #[serde(default)]
    pub packages: BTreeMap<String, String>,
    /// Revision of this program's source, with `-dirty` if it was changed.
    #[serde(default)]
    pub git_revision: String,
    /// What the workload itself printed as its result.
    #[serde(default)]
    pub measurements: Vec<Measurement>,
    /// Counters of the machine that the ledger does not keep, for instance retired instructions.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
}

/// Amount of work a workload did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Unit in the plural, for instance `wake-ups`.
    pub unit: String,
    /// How many.
    pub count: u64,
}

/// Virtual clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Cycles of virtual time in a second.
    pub cycles_per_second: u64,
    /// Cycles in a tick of `time`.
    pub cycles_per_tick: u64,
}

impl Default for Clock {
    /// 1 GHz, `time` at 10 MHz.
    fn default() -> Self {
        Self {
            cycles_per_second: 1_000_000_000,
            cycles_per_tick: 100,
        }
    }
}

/// One price of the cost model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// What it prices.
    pub name: String,
    /// Cycles.
    pub cycles: u64,
    /// Where the figure comes from.
    pub source: String,
}

/// A result the workload printed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Name.
    pub name: String,
    /// Value.
    pub value: f64,
    /// Unit.
    pub unit: String,
}

/// Time on the host computer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostInfo {
    /// Wall-clock seconds of the run.
    pub wall_seconds: f64,
    /// Guest instructions per second of wall-clock time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_per_second: Option<f64>,
    /// When the run began (UTC, RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// Host processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
}

/// A named part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Name given by the mark; `start` before the first one.
    pub name: String,
    /// Virtual time of its first mark.
    pub from: u64,
    /// What happened in it.
    pub totals: Section,
}

/// Counts of a run or a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Virtual time it lasted, in cycles.
    pub cycles: u64,
    /// Entries into V=1 from V=0.
    pub guest_entries: u64,
    /// Traps from V=1 handled by HS-mode.
    pub guest_exits: u64,
    /// Exits by reason.
    pub exits: BTreeMap<String, Exit>,
    /// M-mode traps.
    pub firmware: Firmware,
    /// Reason chains: what exits set off until the guest ran again, and how often.
    pub chains: BTreeMap<String, u64>,
    /// Interrupts as the guest sees them.
    pub guest_interrupts: GuestInterrupts,
    /// Interrupts by class: `timer`, `ipi`, `device`.
    #[serde(default)]
    pub interrupts: BTreeMap<String, InterruptClass>,
    /// Notifications of the interrupt controller to the host.
    #[serde(default)]
    pub notifications: Notifications,
    /// What the host does with slots.
    #[serde(default)]
    pub slots: Slots,
    /// Software interrupts that the host sent to its harts without firmware.
    #[serde(default)]
    pub host_ipis: u64,
    /// Guest interrupt files, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_files: Option<GuestFiles>,
    /// Latencies by what they measure.
    pub latency: BTreeMap<String, Latency>,
    /// Traps by kind.
    pub traps: Vec<TrapCount>,
    /// Returns by kind.
    pub returns: Vec<ReturnCount>,
    /// Time and entries by hart.
    pub harts: Vec<HartInfo>,
    /// Accesses to the machine's devices, by device.
    pub devices: BTreeMap<String, Vec<DeviceCount>>,
}

impl Section {
    /// Exits of reason `class`, or of all reasons `class.…`.
    pub fn exits_of(&self, class: &str) -> Exit {
        let mut sum = Exit::default();
        for (key, exit) in &self.exits {
            if key.split('.').next() == Some(class) || key == class {
                sum.add(exit);
            }
        }
        sum
    }
}

/// Exits of one reason with what they set off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exits.
    pub exits: u64,
    /// M-mode traps charged to them.
    pub firmware_traps: u64,
    /// HS-mode traps taken from HS and U until the guest ran again.
    pub host_traps: u64,
    /// Those that are system calls.
    pub syscalls: u64,
    /// Cycles until the guest ran again, by mode (`HS`, `U`, `M`, `idle`).
    pub cycles: BTreeMap<String, u64>,
}

impl Exit {
    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        self.exits += other.exits;
        self.firmware_traps += other.firmware_traps;
        self.host_traps += other.host_traps;
        self.syscalls += other.syscalls;
        for (mode, cycles) in &other.cycles {
            *self.cycles.entry(mode.clone()).or_default() += cycles;
        }
    }
}

/// M-mode traps. `total` = `charged_to_exits` + all `direct` + `host`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firmware {
    /// All of them.
    pub total: u64,
    /// By mode they came from.
    pub from: BTreeMap<String, u64>,
    /// Charged to exits.
    pub charged_to_exits: u64,
    /// Taken straight from V=1 without leading to an exit, by cause.
    pub direct: BTreeMap<String, DirectFirmware>,
    /// On harts that had not run a guest yet.
    pub host: u64,
}

/// M-mode traps that interrupted a guest without leading to an exit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectFirmware {
    /// Traps.
    pub traps: u64,
    /// Cycles in M-mode.
    pub cycles: u64,
}

/// Interrupts as guests see them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestInterrupts {
    /// Traps to VS-mode by interrupt: `software`, `timer`, `external` or a number.
    pub taken: BTreeMap<String, u64>,
    /// Timer programmings with an exit (SBI set_timer).
    pub timer_set_with_exit: u64,
    /// Timer programmings without one (`stimecmp` written by the guest).
    pub timer_set_without_exit: u64,
    /// Timer interrupts taken without a deadline behind them.
    pub timer_unmatched: u64,
    /// SBI send_ipi calls.
    pub ipi_sends: u64,
    /// vCPUs named by them.
    pub ipi_targets: u64,
    /// Targets that still had an unanswered IPI.
    pub ipi_coalesced: u64,
    /// Targets whose vCPU was not known.
    pub ipi_unmatched: u64,
}

/// A kind of trap and how often it occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrapCount {
    /// Hart.
    pub hart: usize,
    /// Mode it left.
    pub from: String,
    /// Mode that handled it.
    pub to: String,
    /// Whether it was an interrupt.
    pub interrupt: bool,
    /// Code in `xcause`, without the interrupt bit (63: this or any higher one).
    pub code: u8,
    /// Name of the cause.
    pub cause: String,
    /// How often.
    pub count: u64,
}

/// A kind of return and how often it occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnCount {
    /// Hart.
    pub hart: usize,
    /// Mode it left.
    pub from: String,
    /// Mode it entered.
    pub to: String,
    /// How often.
    pub count: u64,
}

/// Figures of one hart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HartInfo {
    /// Hart.
    pub hart: usize,
    /// Entries into V=1.
    pub guest_entries: u64,
    /// Exits from V=1.
    pub guest_exits: u64,
    /// Cycles by mode (`VU`, `VS`, `U`, `HS`, `M`) and `idle` (waiting in WFI).
    pub cycles: BTreeMap<String, u64>,
}

/// Accesses to a device from one mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCount {
    /// Mode of the accesses.
    pub mode: String,
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
}

/// A vCPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcpuInfo {
    /// `hgatp.VMID` it ran with.
    pub vmid: u16,
    /// HS-mode's `sscratch` while it ran, in hexadecimal.
    pub context: String,
    /// Interrupt domain of its VM, if the controller delivers by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<u16>,
    /// Hart number in its VM, if it could be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vhart: Option<u64>,
    /// Entries into it.
    pub entries: u64,
    /// Exits from it.
    pub exits: u64,
}
