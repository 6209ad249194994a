//! Reasons of exits to user space, and their counts.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Why a vCPU came back from `KVM_RUN`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// Load from a device's window; the number is that of the bus slot.
    MmioRead(u16),
    /// Store to a device's window.
    MmioWrite(u16),
    /// Load from an address without a device.
    UnmappedRead,
    /// Store to an address without a device.
    UnmappedWrite,
    /// SBI call that KVM forwards, by extension id.
    Sbi(u64),
    /// CSR access that KVM forwards, by CSR number.
    Csr(u64),
    /// Power-off, reset, crash.
    SystemEvent,
    /// A signal interrupted `KVM_RUN` (the VMM stops its vCPUs this way).
    Signal,
    /// Anything else, by the number of the `KVM_EXIT_*`.
    Other(u32),
}

impl Reason {
    /// Text for the statistics; `slots` holds the names of the bus slots.
    fn text(self, slots: &[String]) -> String {
        let slot = |n: u16| slots.get(usize::from(n)).map_or("?", String::as_str);
        match self {
            Self::MmioRead(n) => format!("mmio_read:{}", slot(n)),
            Self::MmioWrite(n) => format!("mmio_write:{}", slot(n)),
            Self::UnmappedRead => "mmio_read:unmapped".into(),
            Self::UnmappedWrite => "mmio_write:unmapped".into(),
            Self::Sbi(extension) => format!("sbi:{extension:#x}"),
            Self::Csr(csr) => format!("csr:{csr:#x}"),
            Self::SystemEvent => "system_event".into(),
            Self::Signal => "signal".into(),
            Self::Other(number) => format!("other:{number}"),
        }
    }
}

/// Exits of one vCPU by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<Reason, u64>);

impl Counts {
    /// Counts one exit.
    pub fn add(&mut self, reason: Reason) {
        *self.0.entry(reason).or_default() += 1;
    }

    /// Adds the counts of an earlier run (before a reboot) of the same vCPU.
    pub fn merge(&mut self, other: &Self) {
        for (&reason, &n) in &other.0 {
            *self.0.entry(reason).or_default() += n;
        }
    }

    /// What `--stats` says of a vCPU; `slots` holds the names of the bus slots.
    pub fn json(&self, slots: &[String]) -> Value {
        let by_reason: BTreeMap<String, u64> = self
            .0
            .iter()
            .map(|(reason, &n)| (reason.text(slots), n))
            .collect();
        json!({ "total": self.0.values().sum::<u64>(), "exits": by_reason })
    }
}
