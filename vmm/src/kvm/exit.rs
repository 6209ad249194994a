//! Reasons of exits to user space, and their counts.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Why a vCPU returned from `KVM_RUN`.
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
    /// SBI call of an extension beyond the [`SBI_EXTENSIONS`] that are counted one by one.
    OtherSbi,
    /// CSR access that KVM forwards, by CSR number.
    Csr(u64),
    /// Power-off, reset, crash.
    SystemEvent,
    /// A handler in user mode left work to be done.
    Settle,
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
            Self::OtherSbi => "sbi:other".into(),
            Self::Csr(csr) => format!("csr:{csr:#x}"),
            Self::SystemEvent => "system_event".into(),
            Self::Settle => "settle".into(),
            Self::Signal => "signal".into(),
            Self::Other(number) => format!("other:{number}"),
        }
    }
}

/// Maximum number of SBI extensions that are counted separately per vCPU. KVM forwards 2^25 ids,
/// and the guest chooses which it calls.
pub const SBI_EXTENSIONS: usize = 64;

/// Exits of one vCPU by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<Reason, u64>);

impl Counts {
    /// Counts one exit.
    pub fn add(&mut self, reason: Reason) {
        self.add_many(reason, 1);
    }

    fn add_many(&mut self, reason: Reason, number: u64) {
        let reason = match reason {
            Reason::Sbi(id) => self.sbi(id),
            reason => reason,
        };
        *self.0.entry(reason).or_default() += number;
    }

    /// Reason of a call of SBI extension `id`.
    fn sbi(&self, id: u64) -> Reason {
        let own = Reason::Sbi(id);
        let all = Reason::Sbi(0)..=Reason::Sbi(u64::MAX);
        if self.0.contains_key(&own) || self.0.range(all).count() < SBI_EXTENSIONS {
            own
        } else {
            Reason::OtherSbi
        }
    }

    /// Adds the counts of an earlier run (before a reboot) of the same vCPU.
    pub fn merge(&mut self, other: &Self) {
        for (&reason, &number) in &other.0 {
            self.add_many(reason, number);
        }
    }

    /// Statistics of a vCPU for `--stats`; `slots` holds the names of the bus slots.
    pub fn json(&self, slots: &[String]) -> Value {
        let by_reason: BTreeMap<String, u64> = self
            .0
            .iter()
            .map(|(reason, &n)| (reason.text(slots), n))
            .collect();
        json!({ "total": self.0.values().sum::<u64>(), "exits": by_reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KVM forwards 2^25 extension ids, those for experiments and vendors.
    #[test]
    fn a_guest_that_calls_every_sbi_extension_does_not_make_the_counts_grow() {
        let mut counts = Counts::default();
        let ids = 0x0900_0000..0x0900_1000;
        ids.clone().for_each(|id| counts.add(Reason::Sbi(id)));
        let mut all = counts.clone();
        let mut next = Counts::default();
        ids.clone()
            .for_each(|id| next.add(Reason::Sbi(id + 0x1000)));
        all.merge(&next);
        counts.add(Reason::MmioRead(0));
        for counts in [&counts, &all] {
            assert!(counts.0.len() <= 100, "{}", counts.0.len());
        }
        assert_eq!(all.json(&[])["total"], 2 * ids.count());
        assert_eq!(counts.0[&Reason::MmioRead(0)], 1);
    }
}
