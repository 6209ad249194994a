//! What the machine tells the ledger. Times are virtual time in cycles.

use serde::{Deserialize, Serialize};
use trapless_isa::Mode;
pub use trapless_isa::port::{EventOrigin, StepKind, VirtualStep};

/// Identity of the guest context a hart runs, as hardware sees it.
///
/// KVM keeps the vCPU's address in HS-mode's `sscratch` while V=1, which tells the vCPUs of one
/// VMID apart without help from the host.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize,
)]
pub struct Guest {
    /// `hgatp.VMID`.
    pub vmid: u16,
    /// HS-mode's `sscratch`.
    pub context: u64,
}

/// A trap: synchronous exception or interrupt taken by a hart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Trap {
    /// Time of the trap, before its own cost is charged.
    pub time: u64,
    /// Hart that traps.
    pub hart: usize,
    /// Mode it leaves.
    pub from: Mode,
    /// Mode that handles it.
    pub to: Mode,
    /// Guest context, meaningful if `from` or `to` has V=1.
    pub guest: Guest,
    /// `xcause` value with the interrupt bit.
    pub cause: u64,
    /// Program counter of the trapped instruction.
    pub epc: u64,
    /// Value written to `xtval`.
    pub tval: u64,
    /// Guest physical address (already shifted) of a guest-page fault, else 0.
    pub gpa: u64,
    /// Bits of the trapped instruction for illegal and virtual-instruction exceptions, else 0.
    pub insn: u32,
    /// `a0`, `a1`, `a6`, `a7`: the SBI call, if the cause is an `ecall`.
    pub args: [u64; 4],
    /// Guest-visible time minus host-visible time, in ticks of `time` (`htimedelta`).
    pub htimedelta: u64,
    /// Instructions that the hart has retired; 0 if not known.
    pub instret: u64,
}

/// A return from a trap: `mret` or `sret`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Return {
    /// Time after its cost.
    pub time: u64,
    /// Hart that returns.
    pub hart: usize,
    /// Mode it leaves.
    pub from: Mode,
    /// Mode it enters.
    pub to: Mode,
    /// Guest context, meaningful if `from` or `to` has V=1.
    pub guest: Guest,
    /// Address where execution continues.
    pub pc: u64,
    /// Instructions that the hart has retired, this return not; 0 if not known.
    pub instret: u64,
    /// From HS-mode to V=1: HS-mode has not enabled its interrupts since it left V=1.
    pub masked: bool,
}

/// An interrupt became pending for a hart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Raise {
    /// Time at which it was raised.
    pub time: u64,
    /// Hart it is raised for.
    pub hart: usize,
    /// Bit position in `mip` (VS-level ones included).
    pub irq: u8,
    /// Guest context of the hart at that time.
    pub guest: Guest,
}

/// A guest or host wrote a supervisor-level timer comparator directly (Sstc).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerSet {
    /// Time of the write.
    pub time: u64,
    /// Hart that wrote.
    pub hart: usize,
    /// Mode of the write: VS means the guest wrote `vstimecmp` through its alias without a trap.
    pub mode: Mode,
    /// Guest context, meaningful for VS.
    pub guest: Guest,
    /// Virtual time in cycles at which it will fire; `u64::MAX` for never.
    pub deadline: u64,
}

/// Several writes by a guest with no other event of the hart in between; none of their deadlines
/// passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerSets {
    /// The last one.
    pub last: TimerSet,
    /// Time of the first one in cycles.
    pub first: u64,
    /// How many there were, at least 1.
    pub writes: u64,
    /// How many of them had a deadline.
    pub armed: u64,
}

/// An access to a device window by a hart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceAccess {
    /// Time of the access.
    pub time: u64,
    /// Hart.
    pub hart: usize,
    /// Mode of the access.
    pub mode: Mode,
    /// Physical address.
    pub addr: u64,
    /// Store (`true`) or load.
    pub write: bool,
}

/// A hart goes on with another thread of the host's kernel.
///
/// A thread is told by the address of its `task_struct`, which Linux keeps in `tp` in HS-mode and
/// in `sscratch` while a program runs. Guests have threads of their own, which no event tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switch {
    /// Time of the switch.
    pub time: u64,
    /// Hart.
    pub hart: usize,
    /// Virtual address of the thread that ran until now; 0 for the first that is seen.
    pub from: u64,
    /// Virtual address of the thread that runs from now on.
    pub to: u64,
    /// `satp` of HS-mode, which translates both.
    pub satp: u64,
}

/// Everything a run can report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// See [`Trap`].
    Trap(Trap),
    /// See [`Return`].
    Return(Return),
    /// See [`Raise`].
    Raise(Raise),
    /// See [`TimerSet`].
    TimerSet(TimerSet),
    /// See [`DeviceAccess`].
    DeviceAccess(DeviceAccess),
    /// See [`Switch`].
    Switch(Switch),
    /// A step of an architecture that delivers virtual interrupts by itself.
    Virtual(VirtualStep),
    /// A hart starts (`true`) or ends waiting in WFI.
    Wait {
        /// Time.
        time: u64,
        /// Hart.
        hart: usize,
        /// Mode that executed WFI.
        mode: Mode,
        /// Start or end.
        begin: bool,
    },
}

impl Event {
    /// When it happened.
    pub fn time(&self) -> u64 {
        match self {
            Self::Trap(t) => t.time,
            Self::Return(r) => r.time,
            Self::Raise(r) => r.time,
            Self::TimerSet(t) => t.time,
            Self::DeviceAccess(d) => d.time,
            Self::Switch(s) => s.time,
            Self::Virtual(s) => s.time,
            Self::Wait { time, .. } => *time,
        }
    }

    /// Hart on which, or for which, it happened.
    pub fn hart(&self) -> usize {
        match self {
            Self::Trap(t) => t.hart,
            Self::Return(r) => r.hart,
            Self::Raise(r) => r.hart,
            Self::TimerSet(t) => t.hart,
            Self::DeviceAccess(d) => d.hart,
            Self::Switch(s) => s.hart,
            Self::Virtual(s) => s.hart,
            Self::Wait { hart, .. } => *hart,
        }
    }
}

/// Receives events. The default does nothing, so that a run without a ledger costs nothing.
pub trait Sink {
    /// Called once for each event, in execution order.
    fn record(&mut self, _event: &Event) {}

    /// Whether [`timer_sets`](Self::timer_sets) may stand for single [`TimerSet`]s.
    fn sums_timer_sets(&self) -> bool {
        false
    }

    /// Counts as if each of the writes had been recorded. Called only if
    /// [`sums_timer_sets`](Self::sums_timer_sets).
    fn timer_sets(&mut self, _sets: &TimerSets) {}
}

/// Drops everything.
#[derive(Default, Debug)]
pub struct Discard;
impl Sink for Discard {
    fn sums_timer_sets(&self) -> bool {
        true
    }
}
