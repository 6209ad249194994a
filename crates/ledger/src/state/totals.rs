//! The counters of one phase of a run. Nearly all are plain arrays: counting an event allocates
//! nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trapless_isa::Mode;

use crate::class::{Class, Left, NotificationKind, PLACES};
use crate::counters::merged;
use crate::document::{
    DirectCounts, EventCounts, ExitCounts, FirmwareCounts, GuestFileCounts, GuestInterruptCounts,
    HartCounts, InterruptCounts, NotificationCounts, PciCounts, PciFunctionCounts, QueueCounts,
    RedirectedCounts, SectionCounts, SlotCounts,
};
use crate::histogram::Histogram;
use crate::per_mode::Slot;
use crate::reason::{CAUSES, table_len};

/// Index of idle time in [`HartTotals::cycles`]; lower indices are [`Mode`]s.
pub const IDLE: usize = Slot::Idle as usize;

/// Kinds of interrupt for [`Totals::raised_to_taken`]: bit positions in `mip`.
pub const IRQS: usize = 32;

merged! {
    /// Counters of one hart.
    #[derive(Clone, Debug, Serialize, Deserialize)]
    pub struct HartTotals {
        /// Traps by from mode, to mode and cause index, flattened.
        traps: Vec<u64>,
        /// Returns by from mode and to mode.
        pub returns: [[u64; 5]; 5],
        /// Cycles by mode, then idle.
        pub cycles: [u64; 6],
        /// Entries and exits.
        pub counts: HartCounts,
    }
}

impl Default for HartTotals {
    fn default() -> Self {
        Self {
            traps: vec![0; 25 * CAUSES],
            returns: [[0; 5]; 5],
            cycles: [0; 6],
            counts: HartCounts::default(),
        }
    }
}

impl HartTotals {
    /// Counter of one kind of trap.
    pub fn trap_mut(&mut self, from: Mode, to: Mode, cause: u8) -> &mut u64 {
        &mut self.traps[(from as usize * 5 + to as usize) * CAUSES + usize::from(cause)]
    }

    /// Whether it has all kinds of traps.
    pub fn is_sound(&self) -> bool {
        self.traps.len() == 25 * CAUSES
    }

    /// Every kind of trap that occurred, in a fixed order.
    pub fn traps(&self) -> impl Iterator<Item = (Mode, Mode, u8, u64)> + '_ {
        self.traps
            .iter()
            .enumerate()
            .filter(|(_, n)| **n != 0)
            .map(|(i, n)| {
                let (pair, cause) = (i / CAUSES, i % CAUSES);
                (Mode::ALL[pair / 5], Mode::ALL[pair % 5], cause as u8, *n)
            })
    }
}

merged! {
    /// Counters of one thread of the host.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ThreadTotals {
        /// Times that a hart switched to it.
        pub switches: u64,
        /// Cycles by mode, then idle.
        pub cycles: [u64; 6],
    }
}

merged! {
    /// Counters of one exit reason.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ExitTotals {
        /// Exits and what was charged to them.
        pub counts: ExitCounts,
        /// Cycles until the guest was entered again, by mode, then idle.
        pub cycles: [u64; 6],
        /// Instructions by mode.
        pub instructions: [u64; 6],
    }
}

merged! {
    /// Counters of one interrupt class.
    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    pub struct ClassTotals {
        /// Plain counts.
        pub counts: InterruptCounts,
        /// Arrivals by [`Place`](crate::class::Place).
        pub arrived: [u64; PLACES],
        /// From sent to the trap in the guest, by [`Place`](crate::class::Place).
        pub latency: [Histogram; PLACES],
    }
}

merged! {
    /// Notifications of one kind.
    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    pub struct QueueTotals {
        /// Plain counts.
        pub counts: QueueCounts,
        /// From queued to taken from the queue.
        pub latency: Histogram,
    }
}

merged! {
    /// Counters of a phase.
    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    pub struct Totals {
        /// Length of the phase, and IPIs of the host. Entries and exits are counted per hart.
        pub counts: SectionCounts,
        /// Per hart.
        pub harts: Vec<HartTotals>,
        /// By index of the thread; as long as needed.
        pub threads: Vec<ThreadTotals>,
        /// By [`Reason::index`](crate::Reason::index).
        pub exits: Vec<ExitTotals>,
        /// Accesses that user mode handles, by [`Reason::index`](crate::Reason::index).
        pub redirected: Vec<RedirectedCounts>,
        /// M-mode traps that belong to no exit; the others are counted per hart and per exit.
        pub firmware: FirmwareCounts,
        /// M-mode traps taken straight from V=1 that led to no exit, by cause.
        pub direct_firmware: Vec<DirectCounts>,
        /// By number of the chain.
        pub chains: Vec<u64>,
        /// Interrupts from the guests' view.
        pub guest_interrupts: GuestInterruptCounts,
        /// Deadline to VS timer trap.
        pub timer_latency: Histogram,
        /// Send to VS software trap of the target.
        pub ipi_latency: Histogram,
        /// Signalled to VS external trap (or claim).
        pub device_latency: Histogram,
        /// Pending on a hart to taken on it, by interrupt number.
        pub raised_to_taken: Vec<Histogram>,
        /// Device accesses by device (last: unknown), then by mode, then load and store.
        pub devices: Vec<[[u64; 2]; 5]>,
        /// By [`Class`].
        pub classes: [ClassTotals; Class::ALL.len()],
        /// Notifications of all kinds.
        pub notifications: NotificationCounts,
        /// By [`NotificationKind`].
        pub queues: [QueueTotals; NotificationKind::ALL.len()],
        /// Events.
        pub events: EventCounts,
        /// Events from queued to taken from the queue.
        pub event_latency: Histogram,
        /// Uses of slots by the host.
        pub slots: SlotCounts,
        /// Slots that became invalid, by [`Left`].
        pub detached: [u64; Left::ALL.len()],
        /// Guest interrupt files.
        pub files: GuestFileCounts,
        /// Interrupts of PCI devices.
        pub pci: PciCounts,
        /// Messages of PCI functions, by routing ID.
        pub pci_functions: BTreeMap<u32, PciFunctionCounts>,
    }
}

impl Totals {
    /// Zeros for `harts` harts and maps of the given numbers of device windows.
    pub fn new(harts: usize, guest_devices: usize, devices: usize) -> Self {
        Self {
            harts: vec![HartTotals::default(); harts],
            exits: vec![ExitTotals::default(); table_len(guest_devices)],
            redirected: vec![RedirectedCounts::default(); table_len(guest_devices)],
            direct_firmware: vec![DirectCounts::default(); CAUSES],
            raised_to_taken: vec![Histogram::default(); IRQS],
            devices: vec![[[0; 2]; 5]; devices + 1],
            ..Self::default()
        }
    }

    /// Counts one more occurrence of chain `number`.
    pub fn count_chain(&mut self, number: usize) {
        if self.chains.len() <= number {
            self.chains.resize(number + 1, 0);
        }
        self.chains[number] += 1;
    }

    /// Counters of the thread of this index.
    #[inline]
    pub fn thread(&mut self, index: usize) -> &mut ThreadTotals {
        if self.threads.len() <= index {
            self.threads.resize(index + 1, ThreadTotals::default());
        }
        &mut self.threads[index]
    }

    /// Counters of notifications of one `hnotify.KIND`.
    pub fn queue(&mut self, kind: u8) -> &mut QueueTotals {
        &mut self.queues[NotificationKind::of(kind) as usize]
    }
}
