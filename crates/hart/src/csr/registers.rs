//! CSRs of a hart besides those in the compiler's context.

use serde::{Deserialize, Serialize};
use trapless_isa::csr::{hstatus, status};

use super::aia::registers::Aia;
use super::user_traps::UserTraps;
use crate::memory::pmp::Pmp;

/// CSRs that exist once for HS-mode and once for VS-mode; both are kept instead of being swapped.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Bank {
    pub tvec: u64,
    pub scratch: u64,
    pub epc: u64,
    pub cause: u64,
    pub tval: u64,
    /// `satp`, `vsatp`.
    pub atp: u64,
}

/// Number of `mhpmcounter`s that count something (3..=6); the others read zero.
pub(crate) const HPM_COUNTERS: usize = 4;

/// Events that `mhpmevent` can select, in the order of [`Csrs::events`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HpmEvent {
    /// Traps into M-mode.
    TrapM = 1,
    /// Traps into HS-mode from V=0.
    TrapHs = 2,
    /// Guest exits: traps from V=1 into HS-mode.
    GuestExit = 3,
    /// Traps into VS-mode.
    TrapVs = 4,
    /// Guest entries: `sret` and `mret` into V=1.
    GuestEntry = 5,
    /// TLB misses.
    TlbMiss = 6,
}

/// Highest event number plus one.
pub(crate) const HPM_EVENTS: usize = 7;

/// Control and status registers, except those that compiled code uses, which are in
/// [`Context`](trapless_jit::Context).
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Csrs {
    /// Holds the `sstatus` fields too.
    pub mstatus: u64,
    pub vsstatus: u64,
    pub hs: Bank,
    pub vs: Bank,
    pub medeleg: u64,
    pub mideleg: u64,
    pub hedeleg: u64,
    pub hideleg: u64,
    /// Bits of `mip` that software sets: SSIP, STIP (without Sstc), SEIP.
    pub mip: u64,
    pub hvip: u64,
    /// With [`Lines::split`](trapless_isa::port::Lines::split): the bits of `hip` that arrivals at
    /// V=0 set.
    pub host_pending: u64,
    pub mtvec: u64,
    pub mscratch: u64,
    pub mepc: u64,
    pub mcause: u64,
    pub mtval: u64,
    pub mtval2: u64,
    pub mtinst: u64,
    pub hstatus: u64,
    pub htval: u64,
    pub htinst: u64,
    pub hgatp: u64,
    pub hgeie: u64,
    pub htimedelta: u64,
    pub mcounteren: u64,
    pub hcounteren: u64,
    pub scounteren: u64,
    pub mcountinhibit: u64,
    pub menvcfg: u64,
    pub henvcfg: u64,
    pub senvcfg: u64,
    pub mstateen: [u64; 4],
    pub hstateen: [u64; 4],
    pub sstateen: [u64; 4],
    pub aia: Aia,
    pub user: UserTraps,
    pub pmp: Pmp,
    /// Offset of `mcycle` and `minstret` from the free-running counts.
    pub cycle_offset: u64,
    pub instret_offset: u64,
    /// `mcycle` and `minstret` while `mcountinhibit` stops them.
    pub cycle_stopped: u64,
    pub instret_stopped: u64,
    pub hpm_event: [u64; HPM_COUNTERS],
    pub hpm_offset: [u64; HPM_COUNTERS],
    /// Free-running counts behind the hardware performance monitor.
    pub events: [u64; HPM_EVENTS],
}

impl Csrs {
    /// After reset.
    pub fn new() -> Self {
        Self {
            mstatus: status::UXL_64 | status::SXL_64,
            vsstatus: status::UXL_64,
            hstatus: hstatus::VSXL_64,
            ..Self::default()
        }
    }
}
