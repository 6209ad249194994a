//! Trap handlers.
//!
//! They log the trap, and either continue after the instruction or end the step. In all of them
//! `sp` is the context, `t0` the epc and `t1` the cause.

use trapless_isa::csr;

use super::level::{HS, Level, M, VS, restore, save};
use crate::asm::reg::{A7, RA, SP, T0, T1, T2, T3, T4, ZERO};
use crate::asm::{Asm, Label};
use crate::layout::{self, END_MAGIC, MAX_TRAPS, Policy, ctx};

/// The handler of M; a step ends at `step_end`.
pub(super) fn machine(a: &mut Asm, step_end: Label) {
    save(a, &M);
    // A trap of the harness itself: its ecall, or a CSR that this model lacks. Continue after it.
    let foreign = a.label();
    a.csrr(T2, csr::MSTATUS);
    a.srli(T2, T2, 11);
    a.andi(T2, T2, 3);
    a.li(T3, 3);
    a.bne(T2, T3, foreign);
    a.srli(T2, T0, 20);
    a.li(T3, layout::RAM >> 20);
    a.bne(T2, T3, foreign);
    a.ld(T2, SP, ctx::SKIPPED);
    a.addi(T2, T2, 1);
    a.sd(T2, SP, ctx::SKIPPED);
    a.addi(T0, T0, 4);
    a.csrw(csr::MEPC, T0);
    // mret stays in M-mode, since the trap has just set MPP to M.
    restore(a, &M);
    a.mret();
    a.bind(foreign);
    handle(a, &M, step_end);
}

/// The handler of HS. It ends a step by an ecall.
pub(super) fn supervisor(a: &mut Asm) {
    let (end, exit, refused) = (a.label(), a.label(), a.label());
    save(a, &HS);
    handle(a, &HS, end);
    a.bind(end);
    // If our own exit ecall was delegated to us, leave by an illegal instruction instead.
    a.la(T2, exit);
    a.beq(T0, T2, refused);
    restore(a, &HS);
    a.li(A7, END_MAGIC);
    a.bind(exit);
    a.ecall();
    a.bind(refused);
    restore(a, &HS);
    a.li(A7, END_MAGIC);
    a.csrr(ZERO, csr::MSCRATCH);
    a.j(refused);
}

/// The handler of VS, likewise.
pub(super) fn guest(a: &mut Asm) {
    let end = a.label();
    save(a, &VS);
    handle(a, &VS, end);
    a.bind(end);
    restore(a, &VS);
    a.li(A7, END_MAGIC);
    a.ecall();
    a.j(end);
}

/// Body of a handler after `save`: logs, counts, decides where to continue. Goes to `end` if the
/// step is over.
fn handle(a: &mut Asm, level: &Level, end: Label) {
    let (exception, resume, behind) = (a.label(), a.label(), a.label());
    // An ecall with the magic number ends the step (causes 8..=11).
    let not_end = a.label();
    a.addi(T2, T1, -8);
    a.sltiu(T2, T2, 4);
    a.beq(T2, ZERO, not_end);
    a.ld(T2, SP, level.frame + 8 * A7 as i32);
    a.li(T3, END_MAGIC);
    a.beq(T2, T3, end);
    a.bind(not_end);
    log(a, level, end);

    // An interrupt is disabled and the interrupted code continues.
    a.bge(T1, ZERO, exception);
    a.li(T2, 1);
    a.sll(T2, T2, T1);
    for csr in level.enables {
        a.csrc(*csr, T2);
    }
    a.j(resume);

    a.bind(exception);
    a.ld(T2, SP, ctx::POLICY);
    a.li(T3, Policy::EndStep as u64);
    a.beq(T2, T3, end);
    // A trap of a handler itself (sret under TSR) ends the step.
    a.srli(T2, T0, 20);
    a.li(T3, layout::RAM >> 20);
    a.beq(T2, T3, end);
    skip(a, level, behind, end);
    a.bind(behind);
    a.csrw(level.epc, T0);
    a.bind(resume);
    restore(a, level);
    a.w(level.ret);
}

/// Appends to the log, or goes to `end` if it is full or there were too many traps.
fn log(a: &mut Asm, level: &Level, end: Label) {
    let (full, go_on) = (a.label(), a.label());
    a.ld(T3, SP, ctx::LOG);
    a.ld(T4, SP, ctx::LOG_END);
    a.bgeu(T3, T4, full);
    a.li(T2, level.kind);
    a.sd(T2, T3, 0);
    a.sd(T1, T3, 8);
    a.sd(T0, T3, 16);
    for (n, csr) in level.logged.iter().enumerate() {
        a.csrr(T2, *csr);
        a.sd(T2, T3, 24 + 8 * n as i32);
    }
    a.addi(T3, T3, 24 + 8 * level.logged.len() as i32);
    a.sd(T3, SP, ctx::LOG);
    a.ld(T2, SP, ctx::COUNT);
    a.addi(T2, T2, 1);
    a.sd(T2, SP, ctx::COUNT);
    a.li(T3, MAX_TRAPS);
    a.blt(T2, T3, go_on);
    a.bind(full);
    a.j(end);
    a.bind(go_on);
}

/// Moves `t0` behind the instruction that trapped, whose address without the low 20 bits is in
/// `t2`. Goes to `behind` if it is past it already, and to `end` if it is outside the code.
fn skip(a: &mut Asm, level: &Level, behind: Label, end: Label) {
    let (in_window, short) = (a.label(), a.label());
    // Inside the code window: continue after the instruction, which is read through the identity
    // mapping.
    a.li(T4, layout::CODE >> 20);
    a.beq(T2, T4, in_window);
    a.li(T3, (layout::CODE - layout::USER_DELTA) >> 20);
    a.beq(T2, T3, in_window);
    // A jump out of the window faulted: continue at `ra`, if that is inside.
    a.ld(T0, SP, level.frame + 8 * RA as i32);
    a.srli(T2, T0, 20);
    a.beq(T2, T4, behind);
    a.beq(T2, T3, behind);
    a.j(end);
    a.bind(in_window);
    a.slli(T2, T0, 44);
    a.srli(T2, T2, 44);
    // The window's base.
    a.slli(T3, T4, 20);
    a.or(T2, T2, T3);
    a.lhu(T2, T2, 0);
    a.addi(T0, T0, 2);
    a.andi(T2, T2, 3);
    a.li(T3, 3);
    a.bne(T2, T3, short);
    a.addi(T0, T0, 2);
    a.bind(short);
}
