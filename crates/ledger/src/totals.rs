//! The counters of one phase of a run. Plain arrays: counting an event allocates nothing.

use trapless_isa::Mode;

use crate::class::{ClassTotals, HostTotals};
use crate::histogram::Histogram;
use crate::interrupt_files::GuestFiles;
use crate::reason::{CAUSES, table_len};

/// Index of idle time in [`HartTotals::cycles`]; lower indices are [`Mode`]s.
pub const IDLE: usize = 5;

/// Kinds of interrupt for [`Totals::raised_to_taken`]: bit positions in `mip`.
pub const IRQS: usize = 32;

/// Counters of one hart.
#[derive(Clone, Debug)]
pub struct HartTotals {
    /// Traps by from mode, to mode and cause index, flattened.
    traps: Vec<u64>,
    /// Returns by from mode and to mode.
    pub returns: [[u64; 5]; 5],
    /// Cycles by mode, then idle.
    pub cycles: [u64; 6],
    /// Entries into V=1.
    pub guest_entries: u64,
    /// Traps from V=1 that HS-mode handles.
    pub guest_exits: u64,
}

impl Default for HartTotals {
    fn default() -> Self {
        Self {
            traps: vec![0; 25 * CAUSES],
            returns: [[0; 5]; 5],
            cycles: [0; 6],
            guest_entries: 0,
            guest_exits: 0,
        }
    }
}

impl HartTotals {
    /// Counter of one kind of trap.
    pub fn trap_mut(&mut self, from: Mode, to: Mode, cause: u8) -> &mut u64 {
        &mut self.traps[(from as usize * 5 + to as usize) * CAUSES + usize::from(cause)]
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

    fn merge(&mut self, other: &Self) {
        add(&mut self.traps, &other.traps);
        for (mine, theirs) in self.returns.iter_mut().zip(&other.returns) {
            add(mine, theirs);
        }
        add(&mut self.cycles, &other.cycles);
        self.guest_entries += other.guest_entries;
        self.guest_exits += other.guest_exits;
    }
}

/// Counters of one exit reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitTotals {
    /// Exits.
    pub exits: u64,
    /// M-mode traps charged to them.
    pub firmware_traps: u64,
    /// HS-mode traps taken from HS and U until the guest was entered again.
    pub host_traps: u64,
    /// Those of them that are system calls (`ecall` from U).
    pub syscalls: u64,
    /// Cycles until the guest was entered again, by mode, then idle.
    pub cycles: [u64; 6],
}

impl ExitTotals {
    fn merge(&mut self, other: &Self) {
        self.exits += other.exits;
        self.firmware_traps += other.firmware_traps;
        self.host_traps += other.host_traps;
        self.syscalls += other.syscalls;
        add(&mut self.cycles, &other.cycles);
    }
}

/// Counters of a phase.
#[derive(Clone, Debug)]
pub struct Totals {
    /// Length of the phase in cycles.
    pub cycles: u64,
    /// Per hart.
    pub harts: Vec<HartTotals>,
    /// By [`Reason::index`](crate::Reason::index).
    pub exits: Vec<ExitTotals>,
    /// M-mode traps taken straight from V=1 that led to no exit: traps and M-mode cycles by cause.
    pub direct_firmware: Vec<(u64, u64)>,
    /// M-mode traps from V=0 on a hart that has not run a guest yet.
    pub host_firmware: u64,
    /// By number of the chain.
    pub chains: Vec<u64>,
    /// Timer programmings with an exit (SBI set_timer).
    pub timer_set_with_exit: u64,
    /// Timer programmings without one (`vstimecmp` written from VS-mode).
    pub timer_set_without_exit: u64,
    /// SBI send_ipi calls.
    pub ipi_sends: u64,
    /// vCPUs they named.
    pub ipi_targets: u64,
    /// Targets whose identity was not known, so that their latency is not measured.
    pub ipi_unmatched: u64,
    /// Targets that had an unanswered IPI already.
    pub ipi_coalesced: u64,
    /// Guest timer interrupts taken without a deadline behind them.
    pub timer_unmatched: u64,
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
    /// By [`Class`](crate::class::Class).
    pub classes: [ClassTotals; 3],
    /// Notifications, slots and IPIs of the host.
    pub host: HostTotals,
    /// Guest interrupt files.
    pub files: GuestFiles,
}

impl Totals {
    /// Zeros for `harts` harts and maps of the given numbers of device windows.
    pub fn new(harts: usize, guest_devices: usize, devices: usize) -> Self {
        Self {
            cycles: 0,
            harts: vec![HartTotals::default(); harts],
            exits: vec![ExitTotals::default(); table_len(guest_devices)],
            direct_firmware: vec![(0, 0); CAUSES],
            host_firmware: 0,
            chains: Vec::new(),
            timer_set_with_exit: 0,
            timer_set_without_exit: 0,
            ipi_sends: 0,
            ipi_targets: 0,
            ipi_unmatched: 0,
            ipi_coalesced: 0,
            timer_unmatched: 0,
            timer_latency: Histogram::default(),
            ipi_latency: Histogram::default(),
            device_latency: Histogram::default(),
            raised_to_taken: vec![Histogram::default(); IRQS],
            devices: vec![[[0; 2]; 5]; devices + 1],
            classes: Default::default(),
            host: HostTotals::default(),
            files: GuestFiles::default(),
        }
    }

    /// Counts one more occurrence of chain `number`.
    pub fn count_chain(&mut self, number: usize) {
        if self.chains.len() <= number {
            self.chains.resize(number + 1, 0);
        }
        self.chains[number] += 1;
    }

    /// Adds the counters of another phase of the same ledger.
    pub fn merge(&mut self, other: &Self) {
        self.cycles += other.cycles;
        if self.harts.len() < other.harts.len() {
            self.harts.resize(other.harts.len(), HartTotals::default());
        }
        self.harts
            .iter_mut()
            .zip(&other.harts)
            .for_each(|(a, b)| a.merge(b));
        self.exits
            .iter_mut()
            .zip(&other.exits)
            .for_each(|(a, b)| a.merge(b));
        for (a, b) in self.direct_firmware.iter_mut().zip(&other.direct_firmware) {
            *a = (a.0 + b.0, a.1 + b.1);
        }
        self.host_firmware += other.host_firmware;
        if self.chains.len() < other.chains.len() {
            self.chains.resize(other.chains.len(), 0);
        }
        add(&mut self.chains, &other.chains);
        self.timer_set_with_exit += other.timer_set_with_exit;
        self.timer_set_without_exit += other.timer_set_without_exit;
        self.ipi_sends += other.ipi_sends;
        self.ipi_targets += other.ipi_targets;
        self.ipi_unmatched += other.ipi_unmatched;
        self.ipi_coalesced += other.ipi_coalesced;
        self.timer_unmatched += other.timer_unmatched;
        self.timer_latency.merge(&other.timer_latency);
        self.ipi_latency.merge(&other.ipi_latency);
        self.device_latency.merge(&other.device_latency);
        self.raised_to_taken
            .iter_mut()
            .zip(&other.raised_to_taken)
            .for_each(|(a, b)| a.merge(b));
        for (a, b) in self
            .devices
            .iter_mut()
            .flatten()
            .zip(other.devices.iter().flatten())
        {
            add(a, b);
        }
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            mine.merge(theirs);
        }
        self.host.merge(&other.host);
        self.files.merge(&other.files);
    }
}

fn add(mine: &mut [u64], theirs: &[u64]) {
    mine.iter_mut().zip(theirs).for_each(|(a, b)| *a += b);
}
