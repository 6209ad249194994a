//! Reasons of exits to user space, their counts, and how a run ends.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Why a vCPU came back from `KVM_RUN`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// Load from a device's window; the number is that of the bus slot.
    MmioRead(u16),
    /// Store to a device's window.
    MmioWrite(u16),
    /// Load from an address nobody answers.
    UnmappedRead,
    /// Store to an address nobody answers.
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

    fn json(&self, slots: &[String]) -> Value {
        let by_reason: BTreeMap<String, u64> = self
            .0
            .iter()
            .map(|(reason, &n)| (reason.text(slots), n))
            .collect();
        json!({ "total": self.0.values().sum::<u64>(), "exits": by_reason })
    }
}

/// How the VMM interrupted a guest with Xtrapless or AIA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injections {
    /// Executions of `ugenvsei`, without a system call.
    pub ugenvsei: u64,
    /// Writes of irqfds, one system call each.
    pub irqfd: u64,
    /// Calls of `KVM_IRQ_LINE` by threads without a grant.
    pub ioctl: u64,
    /// Resample notifications read, one system call each.
    pub resampled: u64,
    /// Sources routed for the guest, one system call each.
    pub routed: u64,
    /// Grants taken, one system call each.
    pub grants: u64,
    /// Injections that the system refused.
    pub failed: u64,
}

impl Injections {
    /// Adds those of another run.
    pub fn add(&mut self, more: &Self) {
        self.ugenvsei += more.ugenvsei;
        self.irqfd += more.irqfd;
        self.ioctl += more.ioctl;
        self.resampled += more.resampled;
        self.routed += more.routed;
        self.grants += more.grants;
        self.failed += more.failed;
    }

    fn json(&self) -> Value {
        json!({
            "ugenvsei": self.ugenvsei,
            "irqfd": self.irqfd,
            "ioctl": self.ioctl,
            "resampled": self.resampled,
            "routed": self.routed,
            "grants": self.grants,
            "failed": self.failed,
        })
    }
}

/// Everything `--stats` writes.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Per vCPU.
    pub vcpus: Vec<Counts>,
    /// Names of the bus slots.
    pub slots: Vec<String>,
    /// External-interrupt lines raised and lowered by `KVM_INTERRUPT`.
    pub lines: (u64, u64),
    /// The guest's interrupt controller, as `--irqchip` names it.
    pub irqchip: &'static str,
    /// What was done for interrupts of a guest with Xtrapless or AIA.
    pub injections: Injections,
    /// How often the guest was started again.
    pub reboots: u64,
}

impl Stats {
    /// The JSON text.
    pub fn json(&self) -> String {
        format!("{:#}\n", self.value())
    }

    /// The same as a value.
    pub fn value(&self) -> Value {
        let vcpus: Vec<Value> = self
            .vcpus
            .iter()
            .map(|counts| counts.json(&self.slots))
            .collect();
        json!({
            "schema": "trapless-vmm-stats-1",
            "vcpus": vcpus,
            "external_interrupts": { "raised": self.lines.0, "lowered": self.lines.1 },
            "irqchip": self.irqchip,
            "injections": self.injections.json(),
            "interrupt_system_calls": {
                "inject": self.lines.0 + self.lines.1 + self.injections.irqfd + self.injections.ioctl,
                "resample": self.injections.resampled,
                "route": self.injections.routed,
                "grant": self.injections.grants,
            },
            "reboots": self.reboots,
        })
    }
}

/// How a run of the guest ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The guest powered off.
    PowerOff,
    /// The guest asked for a reboot.
    Reboot,
    /// The user left with Ctrl-A x or the command `quit`, or saved the guest.
    Quit,
    /// This signal arrived.
    Signal(i32),
    /// The guest or KVM failed; the text says how.
    Failure(String),
}

impl Outcome {
    /// Exit code of the process.
    pub fn code(&self) -> u8 {
        match self {
            Self::PowerOff | Self::Reboot | Self::Quit => 0,
            Self::Signal(number) => 128u8.saturating_add(u8::try_from(*number).unwrap_or(0)),
            Self::Failure(_) => 3,
        }
    }

    /// From the numbers of `KVM_EXIT_SYSTEM_EVENT` (Linux `Documentation/virt/kvm/api.rst`); `data[0]` is the SBI
    /// reset reason, 1 meaning system failure (SBI specification, SRST extension).
    pub fn from_system_event(event: u32, data: &[u64]) -> Self {
        const SHUTDOWN: u32 = 1;
        const RESET: u32 = 2;
        match event {
            SHUTDOWN if data.first() == Some(&1) => {
                Self::Failure("the guest reported a system failure".into())
            }
            SHUTDOWN => Self::PowerOff,
            RESET => Self::Reboot,
            3 => Self::Failure("the guest crashed".into()),
            other => Self::Failure(format!(
                "KVM reported system event {other}, which is not supported"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_events_become_outcomes() {
        assert_eq!(Outcome::from_system_event(1, &[0]).code(), 0);
        assert_eq!(Outcome::from_system_event(1, &[1]).code(), 3);
        assert_eq!(Outcome::from_system_event(2, &[]), Outcome::Reboot);
        assert_eq!(Outcome::from_system_event(3, &[]).code(), 3);
        assert_eq!(Outcome::Signal(15).code(), 143);
    }

    #[test]
    fn statistics_name_devices_and_add_up() {
        let mut counts = Counts::default();
        counts.add(Reason::MmioWrite(1));
        counts.add(Reason::MmioWrite(1));
        let mut all = counts.clone();
        all.merge(&counts);
        all.add(Reason::Sbi(0x4442_434e));
        let stats = Stats {
            vcpus: vec![all],
            slots: vec!["plic".into(), "uart".into()],
            ..Stats::default()
        };
        let value: Value = serde_json::from_str(&stats.json()).unwrap();
        assert_eq!(value["vcpus"][0]["exits"]["mmio_write:uart"], 4);
        assert_eq!(value["vcpus"][0]["exits"]["sbi:0x4442434e"], 1);
        assert_eq!(value["vcpus"][0]["total"], 5);
    }
}
