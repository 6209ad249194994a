//! The start and the end of a step, and of the program.

use trapless_isa::csr;

use crate::asm::reg::{S0, SP, T0, T1, T2, T3, T6, ZERO};
use crate::asm::{Asm, Label};
use crate::layout::{self, CTX, SETUP, SNAPSHOT, ctx, kind, record};

/// Starts the next step, or goes to `finish` after the last one.
pub(super) fn start(a: &mut Asm, finish: Label) {
    a.li(SP, CTX);
    a.ld(S0, SP, ctx::STEP);
    a.ld(T0, SP, ctx::STEPS_END);
    a.bgeu(S0, T0, finish);
    a.sd(ZERO, SP, ctx::COUNT);
    a.ld(T0, S0, record::POLICY);
    a.sd(T0, SP, ctx::POLICY);
    write_csrs(a);
    write_memory(a);
    a.fence_i();
    a.sfence_vma(0, 0);
    a.hfence_gvma(0, 0);
    a.hfence_vvma(0, 0);
    load_float_registers(a);
    enter(a);
}

/// Writes the CSRs of the record at `s0` except `mstatus`.
fn write_csrs(a: &mut Asm) {
    // A trap from M-mode clears MPV and GVA; QEMU 10.0 ignores writes to them.
    a.ecall();
    a.csrw(csr::MSTATUS, ZERO);
    a.csrw(csr::MIE, ZERO);
    a.csrw(csr::MCOUNTINHIBIT, ZERO);
    a.csrw(csr::PMPCFG0, ZERO);
    a.csrw(csr::PMPCFG0 + 2, ZERO);
    // With menvcfg.STCE set, QEMU cannot clear hvip.VSTIP.
    a.csrw(csr::MENVCFG, ZERO);
    a.csrw(csr::HVIP, ZERO);
    // Bits that mstateen0 masks cannot be written below it, and keep their values.
    a.li(T0, u64::MAX);
    a.csrw(csr::MSTATEEN0, T0);
    a.csrw(csr::HSTATEEN0, T0);
    for (n, csr) in SETUP.iter().enumerate() {
        if *csr == csr::MSTATUS {
            continue;
        }
        a.ld(T0, S0, record::CSRS + 8 * n as i32);
        a.csrw(*csr, T0);
    }
    // No timer interrupt unless a step sets it.
    a.li(T0, layout::MTIMECMP);
    a.li(T1, u64::MAX);
    a.sd(T1, T0, 0);
}

/// Writes the memory words of the record.
fn write_memory(a: &mut Asm) {
    let (poke, poked) = (a.label(), a.label());
    a.ld(T0, S0, record::POKES);
    a.addi(T1, S0, record::POKE);
    a.bind(poke);
    a.beq(T0, ZERO, poked);
    a.ld(T2, T1, 0);
    a.ld(T3, T1, 8);
    a.sd(T3, T2, 0);
    a.addi(T1, T1, 16);
    a.addi(T0, T0, -1);
    a.j(poke);
    a.bind(poked);
}

fn load_float_registers(a: &mut Asm) {
    a.li(T0, csr::status::FS);
    a.csrs(csr::MSTATUS, T0);
    for f in 0..32 {
        a.fld(f, S0, record::F + 8 * f as i32);
    }
    a.ld(T0, S0, record::FCSR);
    a.csrw(csr::FCSR, T0);
}

/// Loads the integer registers, and enters the step's code.
fn enter(a: &mut Asm) {
    a.ld(T0, S0, record::CSRS + 8 * (SETUP.len() as i32 - 1));
    a.csrw(csr::MSTATUS, T0);
    a.addi(T6, S0, 0);
    a.ld(T0, S0, record::ENTRY);
    let by_sret = a.label();
    a.bne(T0, ZERO, by_sret);
    load_registers(a);
    a.mret();
    a.bind(by_sret);
    load_registers(a);
    a.sret();
}

/// Loads all registers from the record at `t6`, which is the last one.
fn load_registers(a: &mut Asm) {
    for r in 1..32 {
        a.ld(r, T6, record::X + 8 * r as i32);
    }
}

/// Logs registers and CSRs at the end of a step, and goes to `next`. `sp` is the context, whose
/// frame of M holds the step's registers.
pub(super) fn end(a: &mut Asm, next: Label) {
    a.ld(S0, SP, ctx::LOG);
    a.li(T0, kind::END);
    a.sd(T0, S0, 0);
    a.addi(S0, S0, 8);
    for r in 1..32 {
        a.ld(T0, SP, ctx::FRAME_M + 8 * r);
        a.sd(T0, S0, 8 * (r - 1));
    }
    a.addi(S0, S0, 31 * 8);
    log_float_and_csrs(a);
    a.ld(T0, SP, ctx::STEP);
    a.addi(T0, T0, record::SIZE);
    a.sd(T0, SP, ctx::STEP);
    a.j(next);
}

/// Logs floating-point registers and CSRs at `s0`, and keeps the log's new end.
fn log_float_and_csrs(a: &mut Asm) {
    // mstatus first: turning the FPU on changes it.
    a.csrr(T1, csr::MSTATUS);
    a.li(T0, csr::status::FS);
    a.csrs(csr::MSTATUS, T0);
    for f in 0..32 {
        a.fsd(f, S0, 8 * f as i32);
    }
    a.csrr(T0, csr::FCSR);
    a.sd(T0, S0, 32 * 8);
    a.addi(S0, S0, 33 * 8);
    a.sd(T1, S0, 0);
    for (n, csr) in SNAPSHOT.iter().enumerate().skip(1) {
        a.li(T0, 0);
        a.csrr(T0, *csr);
        a.sd(T0, S0, 8 * n as i32);
    }
    a.addi(S0, S0, 8 * SNAPSHOT.len() as i32);
    a.sd(S0, SP, ctx::LOG);
}

/// Ends the program.
pub(super) fn finish(a: &mut Asm) {
    a.ld(S0, SP, ctx::LOG);
    a.sd(ZERO, S0, 0);
    a.ld(T0, SP, ctx::SKIPPED);
    a.sd(T0, S0, 8);
    a.li(T0, layout::TOHOST);
    a.li(T1, 1);
    a.li(T2, 50_000);
    // Some models poll tohost only rarely; those without it have the test device of QEMU's `virt`
    // machine.
    let spin = a.label();
    a.bind(spin);
    a.sd(T1, T0, 0);
    a.addi(T2, T2, -1);
    a.bne(T2, ZERO, spin);
    a.li(T2, layout::FINISHER);
    a.li(T3, 0x5555);
    a.sw(T3, T2, 0);
    a.j(spin);
}
