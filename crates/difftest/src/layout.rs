//! Memory layout of a generated program, and format of log entries.
//!
//! ```text
//! 8000_0000  harness: reset, handlers of M, HS and VS, step loop
//! 8000_8000  tohost, fromhost
//! 8000_9000  context: variables of the harness, register frames of the handlers
//! 8010_0000  code window: the blocks of the steps (1 MiB)
//! 8020_0000  step records
//! 8030_0000  begin_signature: data area (64 KiB)
//! 8031_0000  page tables (as many pages as the program uses)
//!     ...    log of traps and final states; end_signature
//! ```
//!
//! With translation on, every space maps the first gigabyte of RAM onto itself for S-mode, and a
//! second time at [`USER_ALIAS`] for U-mode. Addresses used by the families are elsewhere.

use trapless_isa::csr;

/// Start of RAM and reset address.
pub const RAM: u64 = 0x8000_0000;
/// Bytes of RAM a program may use; runners give the models this much.
pub const RAM_SIZE: u64 = 16 << 20;
/// The `tohost` word.
pub const TOHOST: u64 = 0x8000_8000;
/// `mtimecmp` of hart 0 (ACLINT).
pub const MTIMECMP: u64 = 0x0200_4000;
/// Test device of QEMU's `virt` machine: 0x5555 ends it with status 0.
pub const FINISHER: u64 = 0x10_0000;
/// Context page of the harness.
pub const CTX: u64 = 0x8000_9000;
/// Start of the code window.
pub const CODE: u64 = 0x8010_0000;
/// Size of the code window; must be the 1 MiB the handlers assume.
pub const CODE_SIZE: u64 = 1 << 20;
/// Start of the step records.
pub const STEPS: u64 = 0x8020_0000;
/// Start of the data area and of the signature.
pub const DATA: u64 = 0x8030_0000;
/// Size of the data area.
pub const DATA_SIZE: u64 = 0x1_0000;
/// Start of the page tables; 16 KiB aligned, as G-stage roots must be.
pub const TABLES: u64 = 0x8031_0000;
/// Virtual address at which U-mode sees RAM when translation is on.
pub const USER_ALIAS: u64 = 0x4000_0000;
/// Offset from a physical RAM address to its alias for U-mode.
pub const USER_DELTA: u64 = RAM - USER_ALIAS;

/// `a7` of an `ecall` that ends a step.
pub const END_MAGIC: u64 = 0x5a5;
/// Traps after which a step is ended by force.
pub const MAX_TRAPS: u64 = 40;

/// Offsets in the context page.
pub mod ctx {
    /// Next free word of the log.
    pub const LOG: i32 = 0;
    /// End of the log less room for a final state.
    pub const LOG_END: i32 = 8;
    /// Current step record.
    pub const STEP: i32 = 16;
    /// End of the step records.
    pub const STEPS_END: i32 = 24;
    /// Traps of the current step.
    pub const COUNT: i32 = 32;
    /// Policy of the current step.
    pub const POLICY: i32 = 40;
    /// Harness instructions skipped since they trapped (CSR not present).
    pub const SKIPPED: i32 = 48;
    /// Frame of the M handler: x0..x31.
    pub const FRAME_M: i32 = 256;
    /// Frame of the HS handler.
    pub const FRAME_HS: i32 = 512;
    /// Frame of the VS handler.
    pub const FRAME_VS: i32 = 768;
}

/// CSRs that a step record sets, in the order in which they are written.
///
/// Those that must exist (trap CSRs of M) come last, since a missing one among the others traps
/// in the harness and overwrites them.
pub const SETUP: &[u16] = &[
    0x3b0,
    0x3b1,
    0x3b2,
    0x3b3,
    0x3b4,
    0x3b5,
    0x3b6,
    0x3b7,
    0x3b8,
    0x3b9,
    0x3ba,
    0x3bb,
    0x3bc,
    0x3bd,
    0x3be,
    0x3bf,
    0x3a0,
    0x3a2,
    csr::MEDELEG,
    csr::MIDELEG,
    csr::MENVCFG,
    csr::SSTATEEN0,
    csr::HSTATEEN0,
    csr::MSTATEEN0,
    csr::MCOUNTEREN,
    csr::HCOUNTEREN,
    csr::SCOUNTEREN,
    csr::HEDELEG,
    csr::HIDELEG,
    csr::HENVCFG,
    csr::SENVCFG,
    csr::STIMECMP,
    csr::VSTIMECMP,
    csr::HTIMEDELTA,
    csr::MIE,
    csr::MIP,
    csr::HVIP,
    csr::VSIE,
    csr::SATP,
    csr::VSATP,
    csr::HGATP,
    csr::HSTATUS,
    csr::VSSTATUS,
    csr::STVEC,
    csr::VSTVEC,
    csr::SSCRATCH,
    csr::VSSCRATCH,
    csr::SEPC,
    csr::VSEPC,
    csr::SCAUSE,
    csr::VSCAUSE,
    csr::STVAL,
    csr::VSTVAL,
    csr::HTVAL,
    csr::HTINST,
    csr::MCAUSE,
    csr::MTVAL,
    csr::MTVAL2,
    csr::MTINST,
    csr::MEPC,
    csr::MSTATUS,
];

/// CSRs in a final state, in the order in which they are read.
pub const SNAPSHOT: &[u16] = &[
    csr::MSTATUS,
    csr::MEPC,
    csr::MCAUSE,
    csr::MTVAL,
    csr::MTVAL2,
    csr::MTINST,
    csr::MEDELEG,
    csr::MIDELEG,
    csr::MIE,
    csr::MIP,
    csr::MCOUNTEREN,
    csr::MENVCFG,
    csr::MSTATEEN0,
    csr::SSTATUS,
    csr::SIE,
    csr::SIP,
    csr::STVEC,
    csr::SCOUNTEREN,
    csr::SENVCFG,
    csr::SSTATEEN0,
    csr::SSCRATCH,
    csr::SEPC,
    csr::SCAUSE,
    csr::STVAL,
    csr::STIMECMP,
    csr::SATP,
    csr::HSTATUS,
    csr::HEDELEG,
    csr::HIDELEG,
    csr::HIE,
    csr::HIP,
    csr::HVIP,
    csr::HTVAL,
    csr::HTINST,
    csr::HGATP,
    csr::HCOUNTEREN,
    csr::HENVCFG,
    csr::HSTATEEN0,
    csr::HTIMEDELTA,
    csr::VSSTATUS,
    csr::VSIE,
    csr::VSIP,
    csr::VSTVEC,
    csr::VSSCRATCH,
    csr::VSEPC,
    csr::VSCAUSE,
    csr::VSTVAL,
    csr::VSTIMECMP,
    csr::VSATP,
    0x3a0,
    0x3a2,
    0x3b0,
    0x3b1,
    0x3b2,
    0x3b3,
    0x3b4,
    0x3b5,
    0x3b6,
    0x3b7,
    0x3b8,
    0x3b9,
    0x3ba,
    0x3bb,
    0x3bc,
    0x3bd,
    0x3be,
    0x3bf,
];

/// Effect of a trap on its step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Policy {
    /// Continue after the trapping instruction (or at `ra` after a wild jump).
    Skip = 0,
    /// End the step.
    EndStep = 1,
}

/// Offsets in a step record.
pub mod record {
    use super::SETUP;
    /// Effect of a trap: see [`Policy`](super::Policy).
    pub const POLICY: i32 = 0;
    /// `fcsr` at the start.
    pub const FCSR: i32 = 8;
    /// 0: enter the step by `mret`, 1: by `sret` executed in M-mode.
    pub const ENTRY: i32 = 24;
    /// Number of memory words written before the step.
    pub const POKES: i32 = 16;
    /// Up to [`MAX_POKES`] pairs of address and value.
    pub const POKE: i32 = 32;
    /// Room for memory writes.
    pub const MAX_POKES: usize = 8;
    /// x0..x31.
    pub const X: i32 = POKE + 16 * MAX_POKES as i32;
    /// f0..f31.
    pub const F: i32 = X + 256;
    /// The CSRs of `SETUP`.
    pub const CSRS: i32 = F + 256;
    /// Size of a record.
    pub const SIZE: i32 = CSRS + 8 * SETUP.len() as i32;
}

/// First word of a log entry.
pub mod kind {
    /// Trap taken in M-mode: cause, epc, tval, tval2, tinst, mstatus.
    pub const M: u64 = 1;
    /// Trap taken in HS-mode: cause, epc, tval, htval, htinst, sstatus, hstatus.
    pub const HS: u64 = 2;
    /// Trap taken in VS-mode: cause, epc, tval, vsstatus.
    pub const VS: u64 = 3;
    /// End of a step: x1..x31, f0..f31, fcsr, the CSRs of `SNAPSHOT`.
    pub const END: u64 = 14;
}

/// Words of a final state, with its kind word.
pub const END_WORDS: usize = 1 + 31 + 32 + 1 + SNAPSHOT.len();
/// Words of the longest trap entry.
pub const TRAP_WORDS: usize = 8;
