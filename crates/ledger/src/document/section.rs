//! Counts of a run or of one of its phases.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interrupts::{
    Events, GuestFiles, GuestInterrupts, InterruptClass, Notifications, Pci, Slots,
};
use crate::class::Class;
use crate::counters::{Merge, counters};
use crate::histogram::Latency;
use crate::per_mode::PerMode;
use crate::reason_key::{ExitReason, ReasonKey};

counters! {
    /// Counts of a run or a phase.
    pub struct Section, counted as SectionCounts {
        /// Virtual time it lasted.
        cycles: u64 as Cycles shown Elsewhere,
        /// Entries into V=1 from V=0.
        guest_entries: u64 as Entries = "guest entries",
        /// Traps from V=1 handled by HS-mode.
        guest_exits: u64 as Exits shown Elsewhere,
        /// Exits by reason.
        exits: BTreeMap<ReasonKey, Exit>,
        /// Accesses that a handler in user mode answered (Xuer), by the reason they would have as
        /// exits.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        redirected: BTreeMap<ReasonKey, Redirected>,
        /// M-mode traps.
        firmware: Firmware,
        /// Reason chains: traps from an exit until the guest ran again, and how often.
        chains: BTreeMap<String, u64>,
        /// Interrupts from the guest's view.
        guest_interrupts: GuestInterrupts,
        /// Interrupts by class.
        #[serde(default)]
        interrupts: BTreeMap<Class, InterruptClass>,
        /// Notifications of the interrupt controller to the host.
        #[serde(default)]
        notifications: Notifications,
        /// Events and doorbells (Xvei), if there are any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        events: Option<Events>,
        /// Uses of slots by the host.
        #[serde(default)]
        slots: Slots,
        /// Software interrupts that the host sent to its harts without firmware.
        #[serde(default)]
        host_ipis: u64 as Interrupts = "IPIs of the host without firmware",
        /// Guest interrupt files (AIA), if there are any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guest_files: Option<GuestFiles>,
        /// Interrupts of PCI devices, if there are any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pci: Option<Pci>,
        /// Latencies by name: `guest_timer`, `guest_ipi`, `guest_device`, `guest_external`,
        /// `raised.IRQ`.
        #[schemars(extend("propertyNames" = { "pattern": LATENCIES }))]
        latency: BTreeMap<String, Latency>,
        /// Traps by kind.
        traps: Vec<TrapCount>,
        /// Returns (mret, sret) by kind.
        returns: Vec<ReturnCount>,
        /// Time and entries by hart.
        harts: Vec<HartInfo>,
        /// Times that a hart switched to another thread of the host.
        #[serde(default)]
        context_switches: u64 as Switches shown Elsewhere,
        /// Threads of the host that ran, in order of appearance; none in ledgers of older versions.
        /// The sum of their cycles is that of the harts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        threads: Vec<Thread>,
        /// Accesses to the machine's own devices, by device.
        devices: BTreeMap<String, Vec<DeviceCount>>,
    }
}

impl Section {
    /// Exits of reason `class`, or of all reasons `class.…`.
    pub fn exits_of(&self, class: &str) -> Exit {
        self.exits_that(|key| key.class() == class || key.as_str() == class)
    }

    /// Exits whose reason is one that `wanted` accepts.
    pub fn exits_with(&self, wanted: impl Fn(&ExitReason) -> bool) -> Exit {
        self.exits_that(|key| wanted(key.reason()))
    }

    fn exits_that(&self, wanted: impl Fn(&ReasonKey) -> bool) -> Exit {
        let mut sum = Exit::default();
        let found = self.exits.iter().filter(|(key, _)| wanted(key));
        found.for_each(|(_, exit)| sum.add(exit));
        sum
    }
}

counters! {
    /// Exits of one reason with the traps and time that they caused until the guest ran again.
    pub struct Exit, counted as ExitCounts {
        /// Exits.
        exits: u64 as Exits shown Elsewhere,
        /// M-mode traps charged to them.
        firmware_traps: u64 as Traps shown Elsewhere,
        /// Those for timers: machine timer interrupts, and SBI calls that set the timer.
        #[serde(default)]
        timer_traps: u64 as Traps = "firmware traps for timers, of those",
        /// HS-mode traps taken from HS and U.
        host_traps: u64 as Traps = "host traps charged to guest exits",
        /// Those that are system calls.
        syscalls: u64 as Calls = "  system calls among them",
        /// Those after which HS-mode entered a guest before it enabled its interrupts.
        #[serde(default)]
        fast: u64 as Exits shown Elsewhere,
        /// Cycles from these exits to the entries.
        #[serde(default)]
        fast_cycles: u64 as Cycles shown Elsewhere,
        /// Cycles by mode (`HS`, `U`, `M`, `idle`).
        cycles: PerMode<u64>,
        /// Instructions by mode (`HS`, `U`, `M`).
        #[serde(default)]
        instructions: PerMode<u64>,
    }
}

impl Exit {
    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        self.add_counters(other);
        Merge::merge(&mut self.cycles, &other.cycles);
        Merge::merge(&mut self.instructions, &other.instructions);
    }
}

counters! {
    /// Accesses of guests that trapped to a handler in user mode.
    pub struct Redirected, counted as RedirectedCounts {
        /// Traps from V=1 to U-mode.
        accesses: u64 as Accesses,
        /// Those that the handler left to the host, or for which it called the host: these are also
        /// exits.
        left: u64 as Exits,
        /// Cycles in the handler.
        cycles: u64 as Cycles,
    }
}

counters! {
    /// M-mode traps. `total` = `charged_to_exits` + all `direct` + `host`.
    pub struct Firmware, counted as FirmwareCounts {
        /// All of them.
        total: u64 as Traps = "firmware traps, all",
        /// By mode they came from.
        #[schemars(extend("propertyNames" = { "enum": MODES }))]
        from: BTreeMap<String, u64>,
        /// Charged to exits.
        charged_to_exits: u64 as Traps = "  charged to guest exits",
        /// Taken straight from V=1 without leading to an exit, by cause.
        direct: BTreeMap<String, DirectFirmware>,
        /// On harts that had not run a guest yet.
        host: u64 as Traps = "  before the first guest",
    }
}

counters! {
    /// M-mode traps that interrupted a guest without leading to an exit.
    pub struct DirectFirmware, counted as DirectCounts {
        /// Traps.
        traps: u64 as Traps,
        /// Cycles in M-mode.
        cycles: u64 as Cycles,
    }
}

/// A kind of trap and how often it occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct TrapCount {
    /// Hart.
    pub hart: usize,
    /// Mode it left.
    #[cfg_attr(test, schemars(extend("enum" = MODES)))]
    pub from: String,
    /// Mode that handled it.
    #[cfg_attr(test, schemars(extend("enum" = MODES)))]
    pub to: String,
    /// Whether it was an interrupt.
    pub interrupt: bool,
    /// Code in `xcause`, without the interrupt bit (63: this or any higher one).
    #[cfg_attr(test, schemars(range(max = 63)))]
    pub code: u8,
    /// Name of the cause.
    pub cause: String,
    /// How often.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub count: u64,
}

/// A kind of return and how often it occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct ReturnCount {
    /// Hart.
    pub hart: usize,
    /// Mode it left.
    #[cfg_attr(test, schemars(extend("enum" = MODES)))]
    pub from: String,
    /// Mode it entered.
    #[cfg_attr(test, schemars(extend("enum" = MODES)))]
    pub to: String,
    /// How often.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub count: u64,
}

counters! {
    /// Figures of one hart.
    pub struct HartInfo, counted as HartCounts {
        /// Hart.
        hart: usize,
        /// Entries into V=1 from V=0.
        guest_entries: u64 as Entries,
        /// Traps from V=1 handled by HS-mode.
        guest_exits: u64 as Exits,
        /// Cycles by mode (`VU`, `VS`, `U`, `HS`, `M`) and `idle` (waiting in WFI).
        cycles: PerMode<u64>,
    }
}

counters! {
    /// A thread of the host: of the machine's own kernel, not of a guest's.
    pub struct Thread, counted as ThreadCounts {
        /// Number in this ledger, in order of appearance. 0 stands for the time before there was a
        /// thread, 1 for handlers of user contexts that interrupted a guest.
        number: u64,
        /// Its last name in the kernel, if that could be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Its number in the kernel, if that could be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// Number of its process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<u32>,
        /// Times that a hart switched to it.
        switches: u64 as Switches,
        /// Cycles by mode, and `idle`, without modes that have none. In `VU` and `VS` it ran a
        /// guest.
        cycles: PerMode<u64>,
    }
}

/// Accesses to a device from one mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct DeviceCount {
    /// Mode of the accesses.
    #[cfg_attr(test, schemars(extend("enum" = MODES)))]
    pub mode: String,
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
}

/// Names of the modes in ledgers.
#[cfg(test)]
const MODES: [&str; 5] = ["VU", "VS", "U", "HS", "M"];
/// Keys of [`Section::latency`].
#[cfg(test)]
const LATENCIES: &str = r"^(guest_(timer|ipi|device|external)|raised\..+)$";
