//! Counts of guest interrupts, and of what controller and host do for them.

use std::collections::BTreeMap;

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
        timer_set_with_exit: u64 as Interrupts,
        /// Timer programmings without one (`stimecmp` written by the guest).
        timer_set_without_exit: u64 as Interrupts,
        /// Timer interrupts taken without a deadline behind them.
        timer_unmatched: u64 as Interrupts,
        /// SBI send_ipi calls.
        ipi_sends: u64 as Calls,
        /// vCPUs named by them.
        ipi_targets: u64 as Interrupts,
        /// Targets that still had an unanswered IPI.
        ipi_coalesced: u64 as Interrupts,
        /// Targets whose vCPU was not known, so that their latency is not measured.
        ipi_unmatched: u64 as Interrupts,
    }
}

counters! {
    /// One class of guest interrupts. Rules: `docs/ledger.md`.
    #[serde(default)]
    pub struct InterruptClass, counted as InterruptCounts {
        /// Timer: deadlines programmed. IPI: vCPUs named by sends. Device: interrupts made pending.
        sent: u64 as Interrupts,
        /// Arrivals by what the vCPU was doing.
        arrived: BTreeMap<State, u64>,
        /// Arrivals at vCPUs that are scheduled off by how they were left, where slots tell.
        left: BTreeMap<Left, LeftArrivals>,
        /// Sent while the same one was pending already.
        coalesced: u64 as Interrupts,
        /// Timer: programmed anew or stopped before the deadline.
        superseded: u64 as Interrupts,
        /// Traps to VS-mode.
        taken: u64 as Interrupts,
        /// Exits.
        exits: u64 as Exits,
        /// M-mode traps charged to those exits, or taken on behalf of a call that signals one.
        firmware_traps: u64 as Traps,
        /// HS-mode traps from HS and U charged to those exits.
        host_traps: u64 as Traps,
        /// System calls charged to those exits, and others that signal an interrupt of the class.
        syscalls: u64 as Calls,
        /// VS-level interrupts that the host took at V=0.
        host_interrupts: u64 as Interrupts,
        /// Device: reads of the claim register, those that found nothing included.
        claims: u64 as Accesses,
        /// Device: those that found nothing, where that can be seen (claims without a trap).
        empty_claims: u64 as Accesses,
        /// Device: completions.
        completions: u64 as Accesses,
        /// Device: those after which the source was pending again. Part of `sent`.
        repended: u64 as Interrupts,
        /// Device: times that a source's line was driven low.
        lowered: u64 as Accesses,
        /// Device: those that withdrew what was pending and not claimed.
        withdrawn: u64 as Interrupts,
        /// Device: exits at the interrupt registers of virtio devices. Not part of `exits`.
        acknowledgements: u64 as Exits,
        /// Words of memory that the interrupt controller read and wrote.
        memory_words: u64 as Words,
        /// From sent to the trap in the guest, by what the vCPU was doing at the arrival.
        latency: BTreeMap<State, Latency>,
    }
}

impl InterruptClass {
    /// Arrivals in `state`.
    pub fn arrived_in(&self, state: State) -> u64 {
        self.arrived.get(&state).copied().unwrap_or(0)
    }
}

/// Arrivals at vCPUs that were left in one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
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
        /// Posts for a vCPU on no hart that told nobody: one was outstanding, or the state wants
        /// none.
        silent: u64 as Notifications,
        /// Notifications dropped because a queue was full.
        overflows: u64 as Notifications,
        /// Exits that notification interrupts caused.
        exits: u64 as Exits,
        /// Notification interrupts that the host took at V=0.
        host_interrupts: u64 as Interrupts,
        /// Words of memory that reading the queues and evaluating without a post touched.
        memory_words: u64 as Words,
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
        guest: u64 as Events,
        /// Posted by stores of guests to doorbells.
        doorbell: u64 as Events,
        /// Posted by the host.
        host: u64 as Events,
        /// Those of the above that were posted already, so that nobody was told again.
        merged: u64 as Events,
        /// Put into the queue of a hart.
        queued: u64 as Events,
        /// Taken from a queue by the host.
        taken: u64 as Events,
        /// Taken from a queue by handlers of user contexts, which interrupted a guest.
        handled: u64 as Events,
        /// Exits that event interrupts caused.
        exits: u64 as Exits,
        /// Event interrupts that the host took at V=0.
        host_interrupts: u64 as Interrupts,
        /// Words of memory that posting and taking touched.
        memory_words: u64 as Words,
        /// From queued to taken from the queue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        latency: Option<Latency>,
    }
}

counters! {
    /// What the host does with the slots of harts.
    pub struct Slots, counted as SlotCounts {
        /// A slot became valid.
        attached: u64 as Moves,
        /// A slot became invalid, by the state the vCPU was left in.
        detached: BTreeMap<Left, u64>,
        /// Words of memory touched by it.
        memory_words: u64 as Words,
    }
}

counters! {
    /// What happened to guest interrupt files (AIA).
    #[derive(Copy)]
    #[serde(default)]
    pub struct GuestFiles, counted as GuestFileCounts {
        /// A vCPU without a file was entered with one.
        assigned: u64 as Moves,
        /// A vCPU was entered with another file than before, on another hart.
        moved: u64 as Moves,
        /// A vCPU was entered without the file that it had before: there was none left.
        evicted: u64 as Moves,
        /// Messages that guests stored, without an exit.
        direct_messages: u64 as Messages,
        /// Messages that the host stored to guest files.
        host_messages: u64 as Messages,
        /// Guest external interrupts (SGEI) that the host took at V=0: vCPUs that waited are woken.
        wakeups: u64 as Interrupts,
    }
}
