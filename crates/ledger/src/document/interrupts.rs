//! Counts of guest interrupts, and of the work of controller and host for them.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::class::{Left, NotificationKind, State};
use crate::counters::counters;
use crate::histogram::Latency;

counters! {
    /// Interrupts as guests see them.
    pub struct GuestInterrupts, counted as GuestInterruptCounts {
        /// Traps to VS-mode by interrupt: `software`, `timer`, `external` or a number.
        taken: BTreeMap<String, u64>,
        /// Timer programmings with an exit (SBI set_timer).
        timer_set_with_exit: u64 as Interrupts = "timer set with an exit",
        /// Timer programmings without one (`stimecmp` written by the guest).
        timer_set_without_exit: u64 as Interrupts = "timer set without an exit",
        /// Timer interrupts taken without a deadline behind them.
        timer_unmatched: u64 as Interrupts = "timer interrupts without a deadline",
        /// SBI send_ipi calls.
        ipi_sends: u64 as Calls = "IPIs sent with an exit",
        /// vCPUs named by them.
        ipi_targets: u64 as Interrupts = "  vCPUs that they name",
        /// Targets that still had an unanswered IPI.
        ipi_coalesced: u64 as Interrupts = "  of which one was still unanswered",
        /// Targets whose vCPU was not known, so that their latency is not measured.
        ipi_unmatched: u64 as Interrupts = "  of which the vCPU is not known",
    }
}

counters! {
    /// One class of guest interrupts. Rules: `docs/ledger.md`.
    #[serde(default)]
    pub struct InterruptClass, counted as InterruptCounts {
        /// Timer: deadlines programmed. IPI: vCPUs named by sends. Device: interrupts made pending.
        sent: u64 as Interrupts = "sent" shown Always,
        /// Arrivals by the state of the vCPU.
        arrived: BTreeMap<State, u64>,
        /// Arrivals at vCPUs that are scheduled off, by their state in slots if known.
        left: BTreeMap<Left, LeftArrivals>,
        /// Sent while the same one was pending already.
        coalesced: u64 as Interrupts = "  pending already",
        /// Timer: programmed anew or stopped before the deadline.
        superseded: u64 as Interrupts = "  replaced before the deadline",
        /// Traps to VS-mode.
        taken: u64 as Interrupts = "taken by the guest" shown Always,
        /// Exits.
        exits: u64 as Exits = "exits" shown WithRate,
        /// M-mode traps charged to those exits, or taken on behalf of a call that signals one.
        firmware_traps: u64 as Traps = "firmware traps" shown WithRate,
        /// HS-mode traps from HS and U charged to those exits.
        host_traps: u64 as Traps = "host traps",
        /// System calls charged to those exits, and others that signal an interrupt of the class.
        syscalls: u64 as Calls = "system calls" shown Always,
        /// VS-level interrupts that the host took at V=0.
        host_interrupts: u64 as Interrupts = "taken by the host at V=0",
        /// Device: reads of the claim register, including those that found nothing.
        claims: u64 as Accesses = "claims",
        /// Device: those that found nothing, where that can be seen (claims without a trap).
        empty_claims: u64 as Accesses = "  known to be empty",
        /// Device: completions.
        completions: u64 as Accesses = "completions",
        /// Device: those after which the source was pending again. Part of `sent`.
        repended: u64 as Interrupts = "  pending again",
        /// Device: times that a source's line was driven low.
        lowered: u64 as Accesses = "lines driven low",
        /// Device: those that withdrew what was pending and not claimed.
        withdrawn: u64 as Interrupts = "  before the guest claimed",
        /// Device: exits at the interrupt registers of virtio devices. Not part of `exits`.
        acknowledgements: u64 as Exits = "device register exits (not above)",
        /// Words of memory that the interrupt controller read and wrote.
        memory_words: u64 as Words = "memory words of the controller",
        /// From sent to the trap in the guest, by the state of the vCPU at the arrival.
        latency: BTreeMap<State, Latency>,
    }
}

impl InterruptClass {
    /// Arrivals in `state`.
    pub fn arrived_in(&self, state: State) -> u64 {
        self.arrived.get(&state).copied().unwrap_or(0)
    }
}

/// Arrivals at vCPUs that are scheduled off in one state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct LeftArrivals {
    /// Arrivals.
    pub arrived: u64,
    /// From sent to the trap in the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

counters! {
    /// Notifications of the interrupt controller to the host.
    pub struct Notifications, counted as NotificationCounts {
        /// By kind.
        kinds: BTreeMap<NotificationKind, NotificationQueue>,
        /// Posts for a vCPU on no hart without a notification: one was outstanding, or the state
        /// wants none.
        silent: u64 as Notifications = "no notification (one outstanding, or no need)",
        /// Notifications dropped because a queue was full.
        overflows: u64 as Notifications = "dropped: queue full",
        /// Exits that notification interrupts caused.
        exits: u64 as Exits = "exits",
        /// Notification interrupts that the host took at V=0.
        host_interrupts: u64 as Interrupts = "taken by the host at V=0",
        /// Words of memory that reading the queues and evaluating without a post touched.
        memory_words: u64 as Words = "memory words of notifications",
    }
}

impl Notifications {
    /// Queued, all kinds.
    pub fn queued(&self) -> u64 {
        self.kinds.values().map(|k| k.queued).sum()
    }
}

counters! {
    /// Notifications of one kind.
    pub struct NotificationQueue, counted as QueueCounts {
        /// Put into a queue.
        queued: u64 as Notifications,
        /// Taken from a queue by the host.
        fetched: u64 as Notifications,
        /// From queued to taken from the queue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        latency: Option<Latency>,
    }
}

counters! {
    /// Events that reach the host without an exit of the guest that posts them (Xvei).
    pub struct Events, counted as EventCounts {
        /// Posted by guests with a CSR.
        guest: u64 as Events = "posted by guests with a CSR",
        /// Posted by stores of guests to doorbells.
        doorbell: u64 as Events = "stores to doorbells",
        /// Posted by the host.
        host: u64 as Events = "posted by the host",
        /// Those of the above that were posted already, so that there was no further notification.
        merged: u64 as Events = "  posted already: no further notification",
        /// Put into the queue of a hart.
        queued: u64 as Events = "put into the queue of a hart",
        /// Taken from a queue by the host.
        taken: u64 as Events = "taken by the host",
        /// Taken from a queue by handlers of user contexts, which interrupted a guest.
        handled: u64 as Events = "taken by handlers in user mode",
        /// Exits that event interrupts caused.
        exits: u64 as Exits = "exits by event interrupts",
        /// Event interrupts that the host took at V=0.
        host_interrupts: u64 as Interrupts = "event interrupts outside guests",
        /// Words of memory that posting and taking touched.
        memory_words: u64 as Words = "words of memory",
        /// From queued to taken from the queue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        latency: Option<Latency>,
    }
}

counters! {
    /// Uses of the slots of harts by the host.
    pub struct Slots, counted as SlotCounts {
        /// A slot became valid.
        attached: u64 as Moves = "vCPUs loaded",
        /// A slot became invalid, by the state the vCPU was left in.
        detached: BTreeMap<Left, u64>,
        /// Words of memory touched by it.
        memory_words: u64 as Words = "memory words of slots",
    }
}

/// Whether a counter that few machines have can be left out.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn none(count: &u64) -> bool {
    *count == 0
}

counters! {
    /// Interrupts of PCI devices.
    #[serde(default)]
    pub struct Pci, counted as PciCounts {
        /// Messages that reached interrupt files.
        messages: u64 as Messages = "messages of PCI devices",
        /// Those whose identity was pending already.
        merged: u64 as Messages = "  pending already",
        /// Those that reached guest interrupt files.
        guest_messages: u64 as Messages = "  to guest interrupt files",
        /// Messages that the IOMMU stored in interrupt files in memory (MRIF).
        #[serde(skip_serializing_if = "none")]
        memory_messages: u64 as Messages = "messages to interrupt files in memory",
        /// Messages that message windows have posted.
        #[serde(skip_serializing_if = "none")]
        window_messages: u64 as Messages = "messages through message windows",
        /// Those whose source was pending already.
        #[serde(skip_serializing_if = "none")]
        window_merged: u64 as Messages = "  pending already",
        /// Messages that message windows did not permit.
        #[serde(skip_serializing_if = "none")]
        window_dropped: u64 as Messages = "messages that windows have dropped",
        /// Messages that reached no interrupt file.
        lost: u64 as Messages = "messages to no interrupt file",
        /// Times that a wire of PCI devices went high.
        intx: u64 as Interrupts = "INTx wires driven high",
        /// Commands to forget entries of page tables and MSI tables (IOTINVAL).
        #[serde(skip_serializing_if = "none")]
        iommu_invalidations: u64 as Events = "invalidations of the IOMMU's tables",
        /// Commands to forget contexts of devices (IODIR).
        #[serde(skip_serializing_if = "none")]
        iommu_directory_invalidations: u64 as Events = "invalidations of the IOMMU's directory",
        /// Fences (IOFENCE.C).
        #[serde(skip_serializing_if = "none")]
        iommu_fences: u64 as Events = "fences of the IOMMU",
        /// Accesses and requests of devices that the IOMMU refused.
        #[serde(skip_serializing_if = "none")]
        iommu_faults: u64 as Events = "accesses that the IOMMU refused",
        /// Messages by the function that sent them, named by bus, device and function as in
        /// `00:01.0`; `iommu` is the IOMMU.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        functions: BTreeMap<String, PciFunction>,
    }
}

counters! {
    /// Messages of a PCI function.
    #[derive(Copy)]
    #[serde(default)]
    pub struct PciFunction, counted as PciFunctionCounts {
        /// Messages that reached interrupt files.
        messages: u64 as Messages,
        /// Those whose identity was pending already.
        merged: u64 as Messages,
        /// Those that reached guest interrupt files.
        guest_messages: u64 as Messages,
        /// Messages that reached no interrupt file.
        lost: u64 as Messages,
    }
}

counters! {
    /// Uses of guest interrupt files (AIA).
    #[derive(Copy)]
    #[serde(default)]
    pub struct GuestFiles, counted as GuestFileCounts {
        /// A vCPU without a file was entered with one.
        assigned: u64 as Moves = "vCPUs given a file",
        /// A vCPU was entered with another file than before, on another hart.
        moved: u64 as Moves = "vCPUs moved to the file of another hart",
        /// A vCPU was entered without the file that it had before, because none was free.
        evicted: u64 as Moves = "vCPUs that lost their file",
        /// Messages that guests stored, without an exit.
        direct_messages: u64 as Messages = "messages stored by guests without an exit",
        /// Messages that the host stored to guest files.
        host_messages: u64 as Messages = "messages stored by the host",
        /// Guest external interrupts (SGEI) that the host took at V=0: vCPUs that waited are woken.
        wakeups: u64 as Interrupts = "wake-ups of waiting vCPUs (SGEI at V=0)",
    }
}
