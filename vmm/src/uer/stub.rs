//! Entry and exit of a handler.

use crate::uer::setup::handle;
use std::arch::global_asm;
use std::mem::offset_of;
use trapless_isa::haiov::csr;

/// Registers of the guest while its handler runs, and state of the handler. `uscratch` holds its
/// address.
#[repr(C)]
pub struct Frame {
    /// The guest's registers; those that a load changes are written here.
    pub x: [u64; 32],
    /// End of the handler's stack, 16-byte aligned.
    pub stack: u64,
    /// Thread pointer of the vCPU's thread.
    pub tp: u64,
    /// Global pointer of this program.
    pub gp: u64,
    /// Argument of [`handle`].
    pub context: *const super::setup::Context,
}

// `utval` and `utinst` are passed in registers; `handle` returns an `Ending`.
global_asm!(
    // Registers that `handle` may change, except t0, which holds the frame
    ".macro trapless_uer_caller op",
    ".irp n, 1, 2, 3, 4, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17, 28, 29, 30, 31",
    "\\op x\\n, 8 * \\n(t0)",
    ".endr",
    ".endm",
    // Those that it restores
    ".macro trapless_uer_callee op",
    ".irp n, 8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27",
    "\\op x\\n, 8 * \\n(t0)",
    ".endr",
    ".endm",
    ".text",
    ".balign 4",
    ".globl trapless_uer_entry",
    "trapless_uer_entry:",
    "csrrw t0, {uscratch}, t0",
    "trapless_uer_caller sd",
    "trapless_uer_callee sd",
    "csrrw t1, {uscratch}, t0",
    "sd t1, 8 * 5(t0)",
    "ld sp, {stack}(t0)",
    "ld tp, {tp}(t0)",
    "ld gp, {gp}(t0)",
    "mv a0, t0",
    "csrr a1, {utval}",
    "csrr a2, {utinst}",
    "call {handle}",
    "csrr t0, {uscratch}",
    "bltz a0, 2f",
    "beqz a0, 1f",
    "trapless_uer_callee ld",
    "1:",
    "trapless_uer_caller ld",
    "ld t0, 8 * 5(t0)",
    ".4byte 0x8c000073",
    "2:",
    "trapless_uer_callee ld",
    "trapless_uer_caller ld",
    "ld t0, 8 * 5(t0)",
    ".globl trapless_uer_exit",
    "trapless_uer_exit:",
    "ecall",
    uscratch = const csr::USCRATCH,
    utval = const csr::UTVAL,
    utinst = const csr::UTINST,
    stack = const offset_of!(Frame, stack),
    tp = const offset_of!(Frame, tp),
    gp = const offset_of!(Frame, gp),
    handle = sym handle,
);

/// How a handler ends.
#[repr(i64)]
pub enum Ending {
    /// ECALL leaves the rest to KVM, with the guest's registers.
    Host = -1,
    /// The guest continues, by URET.
    Guest = 0,
    /// The same; a register has changed that functions preserve.
    Changed = 1,
}

unsafe extern "C" {
    /// The handler's first instruction.
    pub safe fn trapless_uer_entry();
    /// Its ECALL.
    pub safe fn trapless_uer_exit();
}

/// `tp` and `gp` of the calling thread.
pub fn pointers() -> (u64, u64) {
    let (tp, gp);
    // SAFETY: reads two registers.
    unsafe {
        std::arch::asm!("mv {}, tp", "mv {}, gp", out(reg) tp, out(reg) gp,
            options(nomem, nostack, preserves_flags));
    }
    (tp, gp)
}

/// The handler has executed an instruction of `size` bytes: the guest continues after it.
pub fn step_over(size: u64) {
    // SAFETY: changes `uepc` only, which exists while a handler runs.
    unsafe {
        std::arch::asm!("csrr {pc}, {uepc}", "add {pc}, {pc}, {size}", "csrw {uepc}, {pc}",
            uepc = const csr::UEPC, pc = out(reg) _, size = in(reg) size, options(nostack));
    }
}

/// KVM only has to return.
pub fn answered() {
    // SAFETY: changes `ucause` only, which exists while a handler runs.
    unsafe { std::arch::asm!("csrw {}, zero", const csr::UCAUSE, options(nostack)) };
}
