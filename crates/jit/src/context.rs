//! The state of a hart that compiled code reads or writes.
//!
//! [`Context`] is the only list of these fields: the compiler takes displacements from it with
//! `offset_of!`, and the hart embeds it. A field that is added here can be used on both sides at
//! once.
//!
//! The compiler's base register points into [`Context::x`], so that `fetch_tlb`, `base` and
//! the registers up to `x29`, which most blocks use, are within reach of 8-bit displacements.

use crate::{DataEntry, FetchEntry, REGION_BASES};
use std::ptr;

/// Registers and bookkeeping of one hart.
///
/// Pointers are null until the owner sets them, which it does before each
/// [`Jit::enter`](crate::Jit::enter) and at the end of each helper that may have changed what they
/// depend on.
#[repr(C)]
pub struct Context {
    /// Opaque owner pointer for helpers; compiled code does not use it.
    pub session: *const (),
    /// CSRs that compiled code accesses.
    pub csr: CsrState,
    /// Floating point.
    pub float: FloatState,
    /// Pending and enabled interrupts.
    pub interrupts: Interrupts,
    /// Cycles and instructions while compiled code runs.
    pub counters: Counters,
    /// Timer comparators.
    pub timer: Timer,
    /// Reservation of LR.
    pub reservation: Reservation,
    /// Array of the data TLB for the other value of SUM in the register behind `sstatus`; null if
    /// that array is not known here. Compiled code exchanges the two arrays when it changes SUM.
    pub twin_tlb: *mut DataEntry,
    /// Number of those exchanges.
    pub sum_changes: u64,
    /// The host's stack pointer while no frame of a guest's call is on the stack. Set when compiled
    /// code is entered.
    pub stack: u64,
    /// Frames are dropped before another one is pushed at or below this.
    pub stack_floor: u64,
    /// While compiled code is in a region: host addresses of base registers that it does not
    /// change, 0 for those that are not known.
    pub region_hosts: [u64; REGION_BASES],
    /// Floating-point registers.
    pub f: [u64; 32],
    /// Program counter.
    pub pc: u64,
    /// Local virtual time in cycles. While compiled code runs on x86-64, it is in [`Counters`].
    pub cycles: u64,
    /// Instructions retired since reset, likewise.
    pub instret: u64,
    /// Blocks begin only while `cycles` is less than this.
    pub limit: u64,
    /// Array of the data TLB: [`TLB_ENTRIES`](crate::TLB_ENTRIES) entries of the first way, then as
    /// many of the second.
    pub data_tlb: *mut DataEntry,
    /// Array of the fetch TLB, likewise.
    pub fetch_tlb: *mut FetchEntry,
    /// [`Jit::base`](crate::Jit::base).
    pub base: u64,
    /// Integer registers. Slot 32 takes results meant for `x0`; the rest pads the range of a masked
    /// index.
    pub x: [u64; 64],
}

// SAFETY: the pointers are used by compiled code only, between a call of `Jit::enter` and its
// return; its caller has set them since the context came to this thread.
unsafe impl Send for Context {}

/// CSRs, and access rights of the present mode.
#[repr(C)]
pub struct CsrState {
    /// Bank of supervisor CSRs that the mode sees; null if it is neither HS nor VS.
    pub bank: *mut u8,
    /// Register behind `sstatus`; null if the mode is neither HS nor VS.
    pub status: *mut u64,
    /// The register behind `vsie` in HS-mode, which has its bits one position to the left. Null if
    /// `vsie` has further bits.
    pub vsie_from: *const u64,
    /// The bits of that register that `vsie` shows.
    pub vsie_shown: u64,
    /// How far the mode's `time` is ahead of the machine's, in ticks.
    pub time_delta: u64,
    /// The mode is HS-mode of a hart with the hypervisor extension, and M-mode denies none of the
    /// CSRs at [`CsrPlace::Host`](crate::CsrPlace::Host): 0 or 1.
    pub hs: u8,
    /// The mode is M-mode: 0 or 1.
    pub machine: u8,
    /// The mode may read `time`: 0 or 1.
    pub time_readable: u8,
    /// The mode may execute `cbo.zero`: 0 or 1.
    pub zero_block: u8,
    /// Bits of the low half of `sstatus` that writes have changed, in HS- and VS-mode, since it was
    /// set to 0.
    pub status_changed: u32,
}

/// Floating-point state besides the registers.
#[repr(C)]
pub struct FloatState {
    /// `frm`.
    pub frm: u8,
    /// `fflags` without flags that compiled code has raised since it was entered.
    pub fflags: u8,
    /// [`FLOAT_DIRTY`](crate::FLOAT_DIRTY) and [`FLOAT_NEAREST`](crate::FLOAT_NEAREST).
    pub state: u8,
    /// Value of [`state`](Self::state) while FS of the mode's own status register is dirty.
    pub ready: u8,
    /// Compiled code has computed in floating point since it was entered: 0 or 1.
    pub used: u8,
    /// On x86-64, `mxcsr` with all exceptions masked, to nearest, and no flags.
    pub clean: u32,
    /// The host's exception flags when compiled code was left or a helper called, if
    /// [`used`](Self::used): `mxcsr`, or on aarch64 `FPSR`.
    pub host_flags: u32,
}

/// Pending and enabled interrupts. Compiled code leaves setting SIE to a helper while anything is
/// both.
#[derive(Default)]
#[repr(C)]
pub struct Interrupts {
    /// `mip` as last derived from its inputs.
    pub mip: u64,
    /// `mie`.
    pub mie: u64,
    /// The guest's own pending bits at `hip` positions, if they are separate from `mip`; with AIA,
    /// interrupts that are pending and enabled besides those in `mip`; else 0.
    pub vsip: u64,
    /// Enable bits of [`vsip`](Self::vsip): `vsie` at `hip` positions, or with AIA all ones.
    pub vsie: u64,
}

impl Interrupts {
    /// Whether a pending interrupt is enabled, in any mode, which ends WFI (privileged
    /// specification, "Wait for Interrupt").
    #[inline]
    #[must_use]
    pub fn enabled_pending(&self) -> bool {
        self.mip & self.mie | self.vsip & self.vsie != 0
    }
}

/// Cycles and instructions while compiled code runs, on x86-64 in one number, so that a block adds
/// to both at once, and finds by its sign that the limit is reached.
#[derive(Default)]
#[repr(C)]
pub struct Counters {
    /// Cycles until [`zero`](Self::zero), negative, above 18 bits with the instructions that are
    /// not in [`Context::instret`] yet.
    pub count: i64,
    /// Virtual time in cycles: the limit, or an earlier time if that is far away.
    pub zero: u64,
}

/// Low bits of [`Counters::count`].
pub(crate) const INSTRUCTION_BITS: u32 = 18;
/// Most cycles from where counting begins to where blocks begin no more. An instruction that is
/// counted in the low bits takes a cycle or more, so these do not overflow.
const MOST_AHEAD: u64 = 1 << (INSTRUCTION_BITS - 1);

impl Context {
    /// Begins counting by compiled code, up to the limit. To be called before compiled code is
    /// entered, and when a helper returns.
    #[inline]
    pub fn begin_counting(&mut self) {
        if cfg!(target_arch = "x86_64") {
            let ahead = self.limit.saturating_sub(self.cycles).min(MOST_AHEAD);
            self.counters.zero = self.cycles.wrapping_add(ahead);
            self.counters.count = -((ahead << INSTRUCTION_BITS) as i64);
        }
    }

    /// Takes over what compiled code has counted. To be called when it has returned, or calls a
    /// helper.
    #[inline]
    pub fn end_counting(&mut self) {
        if cfg!(target_arch = "x86_64") {
            let Counters { count, zero } = self.counters;
            self.cycles = zero.wrapping_add_signed(count >> INSTRUCTION_BITS);
            let instructions = count as u64 & ((1 << INSTRUCTION_BITS) - 1);
            self.instret = self.instret.wrapping_add(instructions);
        }
    }
}

/// Timer comparators, and writes of `stimecmp` in VS-mode that compiled code has only noted, which
/// is allowed while neither the old value nor the new one is due before the hart checks its limit
/// again.
#[repr(C)]
pub struct Timer {
    /// `stimecmp` and `vstimecmp` in ticks.
    pub compare: [u64; 2],
    /// Compare values at or below this may be due soon: `u64::MAX` where writes must not be noted.
    pub floor: u64,
    /// Compare values at or above this never fire.
    pub ceiling: u64,
    /// Writes noted.
    pub writes: u64,
    /// Those of them whose value will fire.
    pub armed: u64,
    /// Virtual time of the first of them in cycles.
    pub first: u64,
    /// Virtual time of the last of them in cycles.
    pub last: u64,
}

/// Reservation of LR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Reservation {
    /// Host address; 0 if nothing is reserved.
    pub host: u64,
    /// Bytes.
    pub size: u64,
    /// Value that LR loaded, zero-extended.
    pub value: u64,
}

impl Reservation {
    /// Nothing is reserved.
    pub const NONE: Self = Self {
        host: 0,
        size: 0,
        value: 0,
    };
}

/// Exception flags of RISC-V (unprivileged specification, "Floating-Point Control and Status
/// Register"), each by the number of its bit in [`FloatState::host_flags`]: invalid, division by 0,
/// overflow, underflow, inexact.
///
/// On aarch64 they are those of `FPSR`, elsewhere those of `mxcsr` (AMD64 manual, volume 1, "MXCSR
/// Register"), which has a bit for denormal operands, too.
pub(crate) const HOST_FLAGS: [(u32, u8); 5] = if cfg!(target_arch = "aarch64") {
    [(0, 16), (1, 8), (2, 4), (3, 2), (4, 1)]
} else {
    [(0, 16), (2, 8), (3, 4), (4, 2), (5, 1)]
};

impl FloatState {
    /// The flags that compiled code has raised, as in `fflags`.
    #[must_use]
    pub fn raised(&self) -> u8 {
        if self.used == 0 {
            return 0;
        }
        let raised = |(bit, flag)| {
            if self.host_flags >> bit & 1 != 0 {
                flag
            } else {
                0
            }
        };
        HOST_FLAGS
            .map(raised)
            .into_iter()
            .fold(0, |all, flag| all | flag)
    }
}

/// `mxcsr`: all exceptions masked, to nearest, no flags.
const MXCSR_DEFAULT: u32 = 0x1F80;

impl Default for Context {
    /// All registers 0, comparators off, pointers null.
    fn default() -> Self {
        Self {
            session: ptr::null(),
            csr: CsrState {
                bank: ptr::null_mut(),
                status: ptr::null_mut(),
                vsie_from: ptr::null(),
                vsie_shown: 0,
                time_delta: 0,
                hs: 0,
                machine: 0,
                time_readable: 0,
                zero_block: 0,
                status_changed: 0,
            },
            float: FloatState {
                frm: 0,
                fflags: 0,
                state: 0,
                ready: 0,
                used: 0,
                clean: MXCSR_DEFAULT,
                host_flags: 0,
            },
            interrupts: Interrupts::default(),
            counters: Counters::default(),
            timer: Timer {
                compare: [u64::MAX; 2],
                floor: u64::MAX,
                ceiling: 0,
                writes: 0,
                armed: 0,
                first: 0,
                last: 0,
            },
            reservation: Reservation::NONE,
            twin_tlb: ptr::null_mut(),
            sum_changes: 0,
            stack: 0,
            stack_floor: 0,
            region_hosts: [0; REGION_BASES],
            f: [0; 32],
            pc: 0,
            cycles: 0,
            instret: 0,
            data_tlb: ptr::null_mut(),
            fetch_tlb: ptr::null_mut(),
            base: 0,
            limit: 0,
            x: [0; 64],
        }
    }
}
