//! The ledger as it is written to disk: JSON, schema [`SCHEMA`], described in
//! `docs/ledger.schema.json` and `docs/ledger.md`.
//!
//! Everything but [`LedgerFile::host`] depends only on images and configuration: two runs write
//! the same bytes. Maps are sorted by key, lists by hart and then by code.

use std::io;
use std::path::Path;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod flat;
mod interrupts;
mod run;
#[cfg(test)]
mod schema;
mod section;
mod table;

pub use flat::Figure;
pub(crate) use interrupts::{
    EventCounts, GuestFileCounts, GuestInterruptCounts, InterruptCounts, NotificationCounts,
    PciCounts, PciFunctionCounts, QueueCounts, SlotCounts,
};
pub use interrupts::{
    Events, GuestFiles, GuestInterrupts, InterruptClass, LeftArrivals, NotificationQueue,
    Notifications, Pci, PciFunction, Slots,
};
pub use run::{Clock, Cost, Measurement, RunInfo, Work};
pub use section::{
    DeviceCount, DirectFirmware, Exit, Firmware, HartInfo, Redirected, ReturnCount, Section,
    Thread, TrapCount,
};
pub(crate) use section::{
    DirectCounts, ExitCounts, FirmwareCounts, HartCounts, RedirectedCounts, SectionCounts,
    ThreadCounts,
};
pub use table::counters_markdown;

/// Name and version of the format. The number is increased when a reader of the old format would be
/// misled.
pub const SCHEMA: &str = "trapless-ledger/2";

/// Version without `interrupts`, `notifications`, `slots` and `host_ipis`; it is read as well.
pub const SCHEMA_1: &str = "trapless-ledger/1";

/// Their JSON Schema (2020-12), derived from the types. Counters carry their unit under the keyword
/// `unit`.
pub const JSON_SCHEMA: &str = include_str!("../../../../docs/ledger.schema.json");

/// Exact counts of every trap of a run. Rules: `docs/ledger.md`. All times are virtual time in
/// cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(
    test,
    schemars(deny_unknown_fields, title = "Trapless ledger, version 2")
)]
pub struct LedgerFile {
    /// [`SCHEMA`], or [`SCHEMA_1`] in an old file.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    pub schema: String,
    /// What ran, as given by the caller.
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
        // Serialization of these types has no failing case: keys are strings, floats finite or
        // null.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Writes the JSON text to `path`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.to_json())
    }

    /// Reads a ledger back.
    ///
    /// # Errors
    /// If the file is not readable, not JSON of this form, or of another version; the message names
    /// it.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|e| ReadError(format!("cannot read ledger {name}: {e}")))?;
        Self::from_json(&text).map_err(|e| ReadError(format!("{name} is not a ledger: {e}")))
    }

    /// Parses a ledger.
    ///
    /// # Errors
    /// If it is not JSON of this form, or of another version.
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

/// An integer above 2^53, which no run reaches (100 days at 1 GHz), or `None`. Rejecting these
/// keeps sums from overflowing.
fn find_huge(value: &Value) -> Option<u64> {
    match value {
        Value::Number(n) => n.as_u64().filter(|n| *n > 1 << 53),
        Value::Array(list) => list.iter().find_map(find_huge),
        Value::Object(map) => map.values().find_map(find_huge),
        _ => None,
    }
}

/// Time on the host computer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct HostInfo {
    /// Wall-clock seconds of the run.
    pub wall_seconds: f64,
    /// Guest instructions per second of wall-clock time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_per_second: Option<f64>,
    /// Virtual time in cycles at which it was resumed from a checkpoint, if it was: the other
    /// figures cover only the time after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<u64>,
    /// When the run began (UTC, RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// Host processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
}

/// A named part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct Phase {
    /// Name given by the mark; `start` before the first one.
    pub name: String,
    /// Virtual time of its first mark.
    pub from: u64,
    /// Its counts.
    pub totals: Section,
}

/// A vCPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct VcpuInfo {
    /// `hgatp.VMID` it ran with.
    pub vmid: u16,
    /// HS-mode's `sscratch` while it ran, in hexadecimal.
    #[cfg_attr(test, schemars(regex(pattern = r"^0x[0-9a-f]+$")))]
    pub context: String,
    /// Interrupt domain of its VM, if the controller delivers by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<u16>,
    /// Hart number in its VM, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vhart: Option<u64>,
    /// Entries into it.
    pub entries: u64,
    /// Exits from it.
    pub exits: u64,
}
