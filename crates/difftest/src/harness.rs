//! The fixed part of every program: reset, step loop, trap handlers.
//!
//! A step is: write the CSRs, memory words and registers of its record, fence, `mret` into its
//! code; on every trap log what the handler sees and either go on behind the instruction or end
//! the step; at the end log all registers and CSRs. Nothing here depends on the model.

use trapless_isa::csr;

use crate::asm::reg::{A7, RA, S0, SP, T0, T1, T2, T3, T4, T5, T6, ZERO};
use crate::asm::{self, Asm, Label};
use crate::layout::{self, CTX, END_MAGIC, MAX_TRAPS, Policy, SETUP, SNAPSHOT, ctx, kind, record};

const BEQ: u32 = 0;
const BNE: u32 = 1;
const BLT: u32 = 4;
const BGEU: u32 = 7;

/// The assembled harness and the addresses the generator needs.
pub struct Harness {
    /// Code from [`layout::RAM`] on.
    pub code: Vec<u8>,
    /// Value for `stvec`.
    pub s_trap: u64,
    /// Value for `vstvec`.
    pub vs_trap: u64,
}

/// What differs between the handlers of M, HS and VS.
struct Level {
    kind: u64,
    frame: i32,
    scratch: u16,
    cause: u16,
    epc: u16,
    /// CSRs logged behind cause and epc.
    logged: &'static [u16],
    ret: u32,
}

const M: Level = Level {
    kind: kind::M,
    frame: ctx::FRAME_M,
    scratch: csr::MSCRATCH,
    cause: csr::MCAUSE,
    epc: csr::MEPC,
    logged: &[csr::MTVAL, csr::MTVAL2, csr::MTINST, csr::MSTATUS],
    ret: asm::MRET,
};
const HS: Level = Level {
    kind: kind::HS,
    frame: ctx::FRAME_HS,
    scratch: csr::SSCRATCH,
    cause: csr::SCAUSE,
    epc: csr::SEPC,
    logged: &[
        csr::STVAL,
        csr::HTVAL,
        csr::HTINST,
        csr::SSTATUS,
        csr::HSTATUS,
    ],
    ret: asm::SRET,
};
/// In VS-mode the supervisor CSR names reach the VS CSRs.
const VS: Level = Level {
    kind: kind::VS,
    frame: ctx::FRAME_VS,
    scratch: csr::SSCRATCH,
    cause: csr::SCAUSE,
    epc: csr::SEPC,
    logged: &[csr::STVAL, csr::SSTATUS],
    ret: asm::SRET,
};

/// CSRs that every implementation has and whose setting must not be observable as a harness trap.
fn save(a: &mut Asm, level: &Level) {
    a.w(asm::csr_op(1, SP, level.scratch, SP)); // csrrw sp, scratch, sp
    for r in 1..32 {
        if r != SP {
            a.w(asm::sd(r, SP, level.frame + 8 * r as i32));
        }
    }
    a.w(asm::csrr(T0, level.scratch));
    a.w(asm::sd(T0, SP, level.frame + 8 * SP as i32));
    a.w(asm::csrw(level.scratch, SP));
}

fn restore(a: &mut Asm, level: &Level) {
    for r in 1..32 {
        if r != SP {
            a.w(asm::ld(r, SP, level.frame + 8 * r as i32));
        }
    }
    a.w(asm::ld(SP, SP, level.frame + 8 * SP as i32));
}

/// Body of a handler after `save`: logs, counts, decides where to go on.
///
/// Jumps to `end` with `sp` = context if the step is over. Leaves `t0` = epc, `t1` = cause.
fn handle(a: &mut Asm, level: &Level, end: Label) {
    let (count_ok, exception, resume, skip, len2, in_window) = (
        a.label(),
        a.label(),
        a.label(),
        a.label(),
        a.label(),
        a.label(),
    );
    // An ecall with the magic number ends the step (causes 8..=11).
    let not_end = a.label();
    a.w(asm::addi(T2, T1, -8));
    a.w(asm::i(0x13, 3, T2, T2, 4)); // sltiu
    a.branch(BEQ, T2, ZERO, not_end);
    a.w(asm::ld(T2, SP, level.frame + 8 * A7 as i32));
    a.w(asm::addi(T3, ZERO, END_MAGIC as i32));
    a.branch(BEQ, T2, T3, end);
    a.bind(not_end);

    // Log entry, unless the log is full.
    let full = a.label();
    a.w(asm::ld(T3, SP, ctx::LOG));
    a.w(asm::ld(T4, SP, ctx::LOG_END));
    a.branch(BGEU, T3, T4, full);
    a.w(asm::addi(T2, ZERO, level.kind as i32));
    a.w(asm::sd(T2, T3, 0));
    a.w(asm::sd(T1, T3, 8));
    a.w(asm::sd(T0, T3, 16));
    for (n, csr) in level.logged.iter().enumerate() {
        a.w(asm::csrr(T2, *csr));
        a.w(asm::sd(T2, T3, 24 + 8 * n as i32));
    }
    a.w(asm::addi(T3, T3, 24 + 8 * level.logged.len() as i32));
    a.w(asm::sd(T3, SP, ctx::LOG));
    a.w(asm::ld(T2, SP, ctx::COUNT));
    a.w(asm::addi(T2, T2, 1));
    a.w(asm::sd(T2, SP, ctx::COUNT));
    a.w(asm::addi(T3, ZERO, MAX_TRAPS as i32));
    a.branch(BLT, T2, T3, count_ok);
    a.bind(full);
    a.j(end);
    a.bind(count_ok);

    // An interrupt is disabled and the interrupted code goes on.
    a.branch(5, T1, ZERO, exception); // bge
    a.w(asm::addi(T2, ZERO, 1));
    a.w(asm::r(0x33, 1, 0, T2, T2, T1)); // sll
    match level.kind {
        kind::M => a.w(asm::csrc(csr::MIE, T2)),
        kind::HS => {
            a.w(asm::csrc(csr::SIE, T2));
            a.w(asm::csrc(csr::HIE, T2));
        }
        _ => a.w(asm::csrc(csr::SIE, T2)),
    }
    a.j(resume);

    a.bind(exception);
    a.w(asm::ld(T2, SP, ctx::POLICY));
    a.w(asm::addi(T3, ZERO, Policy::EndStep as i32));
    a.branch(BEQ, T2, T3, end);
    // A trap of a handler itself (sret under TSR) ends the step.
    a.w(asm::i(0x13, 5, T2, T0, 20)); // srli
    a.li(T3, layout::RAM >> 20);
    a.branch(BEQ, T2, T3, end);
    // Inside the code window: go on behind the instruction, read through the identity mapping.
    a.li(T4, layout::CODE >> 20);
    a.branch(BEQ, T2, T4, in_window);
    a.li(T3, (layout::CODE - layout::USER_DELTA) >> 20);
    a.branch(BEQ, T2, T3, in_window);
    // A jump out of the window faulted: go on where `ra` points, if that is inside.
    a.w(asm::ld(T0, SP, level.frame + 8 * RA as i32));
    a.w(asm::i(0x13, 5, T2, T0, 20));
    a.branch(BEQ, T2, T4, skip);
    a.branch(BEQ, T2, T3, skip);
    a.j(end);
    a.bind(in_window);
    a.w(asm::i(0x13, 1, T2, T0, 44)); // slli
    a.w(asm::i(0x13, 5, T2, T2, 44)); // srli
    a.w(asm::i(0x13, 1, T3, T4, 20)); // window base
    a.w(asm::r(0x33, 6, 0, T2, T2, T3)); // or
    a.w(asm::i(0x03, 5, T2, T2, 0)); // lhu
    a.w(asm::addi(T0, T0, 2));
    a.w(asm::i(0x13, 7, T2, T2, 3)); // andi
    a.w(asm::addi(T3, ZERO, 3));
    a.branch(BNE, T2, T3, len2);
    a.w(asm::addi(T0, T0, 2));
    a.bind(len2);
    a.bind(skip);
    a.w(asm::csrw(level.epc, T0));
    a.bind(resume);
    restore(a, level);
    a.w(level.ret);
}

/// Assembles the harness.
pub fn build() -> Harness {
    let mut a = Asm::new(layout::RAM);
    let (start, m_trap, run_step, step_end, finish) =
        (a.label(), a.label(), a.label(), a.label(), a.label());

    a.bind(start);
    let here = a.pc();
    a.w(asm::u(0x17, T0, 0)); // auipc t0, 0; m_trap is patched in below
    let patch = a.pc();
    a.w(asm::NOP);
    a.w(asm::csrw(csr::MTVEC, T0));
    a.li(T0, CTX);
    a.w(asm::csrw(csr::MSCRATCH, T0));
    a.bind(run_step);

    // ---- start a step ----
    a.li(SP, CTX);
    a.w(asm::ld(S0, SP, ctx::STEP));
    a.w(asm::ld(T0, SP, ctx::STEPS_END));
    a.branch(BGEU, S0, T0, finish);
    a.w(asm::sd(ZERO, SP, ctx::COUNT));
    a.w(asm::ld(T0, S0, record::POLICY));
    a.w(asm::sd(T0, SP, ctx::POLICY));
    // A trap from M-mode clears MPV and GVA; QEMU 10.0 ignores writes to them.
    a.w(asm::ECALL);
    a.w(asm::csrw(csr::MSTATUS, ZERO));
    a.w(asm::csrw(csr::MIE, ZERO));
    a.w(asm::csrw(csr::MCOUNTINHIBIT, ZERO));
    a.w(asm::csrw(0x3a0, ZERO));
    a.w(asm::csrw(0x3a2, ZERO));
    // With menvcfg.STCE set, QEMU cannot clear hvip.VSTIP.
    a.w(asm::csrw(csr::MENVCFG, ZERO));
    a.w(asm::csrw(csr::HVIP, ZERO));
    // Bits that mstateen0 masks cannot be written below it, and keep what they were.
    a.w(asm::addi(T0, ZERO, -1));
    a.w(asm::csrw(csr::MSTATEEN0, T0));
    a.w(asm::csrw(csr::HSTATEEN0, T0));
    for (n, csr) in SETUP.iter().enumerate() {
        if *csr == csr::MSTATUS {
            continue;
        }
        a.w(asm::ld(T0, S0, record::CSRS + 8 * n as i32));
        a.w(asm::csrw(*csr, T0));
    }
    // No timer interrupt unless a step asks for it.
    a.li(T0, layout::MTIMECMP);
    a.li(T1, u64::MAX);
    a.w(asm::sd(T1, T0, 0));
    // Memory words.
    let (poke, poked) = (a.label(), a.label());
    a.w(asm::ld(T0, S0, record::POKES));
    a.w(asm::addi(T1, S0, record::POKE));
    a.bind(poke);
    a.branch(BEQ, T0, ZERO, poked);
    a.w(asm::ld(T2, T1, 0));
    a.w(asm::ld(T3, T1, 8));
    a.w(asm::sd(T3, T2, 0));
    a.w(asm::addi(T1, T1, 16));
    a.w(asm::addi(T0, T0, -1));
    a.j(poke);
    a.bind(poked);
    a.w(asm::FENCE_I);
    a.w(asm::sfence_vma(0, 0));
    a.w(asm::hfence_gvma(0, 0));
    a.w(asm::hfence_vvma(0, 0));
    // Floating-point registers.
    a.li(T0, csr::status::FS);
    a.w(asm::csrs(csr::MSTATUS, T0));
    for f in 0..32 {
        a.w(asm::i(0x07, 3, f, S0, record::F + 8 * f as i32)); // fld
    }
    a.w(asm::ld(T0, S0, record::FCSR));
    a.w(asm::csrw(csr::FCSR, T0));
    // The drop into the step.
    a.w(asm::ld(T0, S0, record::CSRS + 8 * (SETUP.len() as i32 - 1)));
    a.w(asm::csrw(csr::MSTATUS, T0));
    a.w(asm::addi(T6, S0, 0));
    a.w(asm::ld(T0, S0, record::ENTRY));
    let by_sret = a.label();
    a.branch(BNE, T0, ZERO, by_sret);
    for r in 1..32 {
        a.w(asm::ld(r, T6, record::X + 8 * r as i32));
    }
    a.w(asm::MRET);
    a.bind(by_sret);
    for r in 1..32 {
        a.w(asm::ld(r, T6, record::X + 8 * r as i32));
    }
    a.w(asm::SRET);

    // ---- end of a step: sp = context, frame of M = its registers ----
    a.bind(step_end);
    a.w(asm::ld(S0, SP, ctx::LOG));
    a.w(asm::addi(T0, ZERO, kind::END as i32));
    a.w(asm::sd(T0, S0, 0));
    a.w(asm::addi(S0, S0, 8));
    for r in 1..32 {
        a.w(asm::ld(T0, SP, ctx::FRAME_M + 8 * r));
        a.w(asm::sd(T0, S0, 8 * (r - 1)));
    }
    a.w(asm::addi(S0, S0, 31 * 8));
    // mstatus first: turning the FPU on changes it.
    a.w(asm::csrr(T1, csr::MSTATUS));
    a.li(T0, csr::status::FS);
    a.w(asm::csrs(csr::MSTATUS, T0));
    for f in 0..32 {
        a.w(asm::s(0x27, 3, S0, f, 8 * f as i32)); // fsd
    }
    a.w(asm::csrr(T0, csr::FCSR));
    a.w(asm::sd(T0, S0, 32 * 8));
    a.w(asm::addi(S0, S0, 33 * 8));
    a.w(asm::sd(T1, S0, 0));
    for (n, csr) in SNAPSHOT.iter().enumerate().skip(1) {
        a.w(asm::addi(T0, ZERO, 0));
        a.w(asm::csrr(T0, *csr));
        a.w(asm::sd(T0, S0, 8 * n as i32));
    }
    a.w(asm::addi(S0, S0, 8 * SNAPSHOT.len() as i32));
    a.w(asm::sd(S0, SP, ctx::LOG));
    a.w(asm::ld(T0, SP, ctx::STEP));
    a.w(asm::addi(T0, T0, record::SIZE));
    a.w(asm::sd(T0, SP, ctx::STEP));
    a.j(run_step);

    // ---- end of the program ----
    a.bind(finish);
    a.w(asm::ld(S0, SP, ctx::LOG));
    a.w(asm::sd(ZERO, S0, 0));
    a.w(asm::ld(T0, SP, ctx::SKIPPED));
    a.w(asm::sd(T0, S0, 8));
    a.li(T0, layout::TOHOST);
    a.w(asm::addi(T1, ZERO, 1));
    a.li(T2, 50_000);
    // A model that watches tohost only now and then gets time to; one that does not know it has
    // the test device of QEMU's `virt` machine.
    let spin = a.label();
    a.bind(spin);
    a.w(asm::sd(T1, T0, 0));
    a.w(asm::addi(T2, T2, -1));
    a.branch(BNE, T2, ZERO, spin);
    a.li(T2, layout::FINISHER);
    a.li(T3, 0x5555);
    a.w(asm::s(0x23, 2, T2, T3, 0)); // sw
    a.j(spin);

    // ---- M ----
    while a.pc() % 64 != 0 {
        a.w(asm::NOP);
    }
    let m_addr = a.pc();
    a.bind(m_trap);
    save(&mut a, &M);
    a.w(asm::csrr(T0, M.epc));
    a.w(asm::csrr(T1, M.cause));
    // A trap of the harness itself: its ecall, or a CSR that this model lacks. Go on behind it.
    let foreign = a.label();
    a.w(asm::csrr(T2, csr::MSTATUS));
    a.w(asm::i(0x13, 5, T2, T2, 11));
    a.w(asm::i(0x13, 7, T2, T2, 3));
    a.w(asm::addi(T3, ZERO, 3));
    a.branch(BNE, T2, T3, foreign);
    a.w(asm::i(0x13, 5, T2, T0, 20));
    a.li(T3, layout::RAM >> 20);
    a.branch(BNE, T2, T3, foreign);
    a.w(asm::ld(T2, SP, ctx::SKIPPED));
    a.w(asm::addi(T2, T2, 1));
    a.w(asm::sd(T2, SP, ctx::SKIPPED));
    a.w(asm::addi(T0, T0, 4));
    a.w(asm::csrw(csr::MEPC, T0));
    // mret would leave M-mode if MPP did not say M: it does, a trap has just set it.
    restore(&mut a, &M);
    a.w(asm::MRET);
    a.bind(foreign);
    handle(&mut a, &M, step_end);

    // ---- HS ----
    while a.pc() % 64 != 0 {
        a.w(asm::NOP);
    }
    let s_trap = a.pc();
    let (hs_end, hs_exit, hs_exit2) = (a.label(), a.label(), a.label());
    save(&mut a, &HS);
    a.w(asm::csrr(T0, HS.epc));
    a.w(asm::csrr(T1, HS.cause));
    handle(&mut a, &HS, hs_end);
    a.bind(hs_end);
    // If our own exit ecall was delegated to us, leave by an illegal instruction instead.
    let exit_at = a.pc();
    a.w(asm::u(0x17, T2, 0)); // auipc
    let exit_patch = a.pc();
    a.w(asm::NOP); // addi t2, t2, hs_exit - exit_at
    a.branch(BEQ, T0, T2, hs_exit2);
    restore(&mut a, &HS);
    a.w(asm::addi(A7, ZERO, END_MAGIC as i32));
    let hs_exit_pc = a.pc();
    a.bind(hs_exit);
    a.w(asm::ECALL);
    a.bind(hs_exit2);
    restore(&mut a, &HS);
    a.w(asm::addi(A7, ZERO, END_MAGIC as i32));
    a.w(asm::csrr(ZERO, csr::MSCRATCH));
    a.j(hs_exit2);

    // ---- VS ----
    while a.pc() % 64 != 0 {
        a.w(asm::NOP);
    }
    let vs_trap = a.pc();
    let vs_end = a.label();
    save(&mut a, &VS);
    a.w(asm::csrr(T0, VS.epc));
    a.w(asm::csrr(T1, VS.cause));
    handle(&mut a, &VS, vs_end);
    a.bind(vs_end);
    restore(&mut a, &VS);
    a.w(asm::addi(A7, ZERO, END_MAGIC as i32));
    a.w(asm::ECALL);
    a.j(vs_end);

    assert!(a.pc() < layout::TOHOST, "harness fits below tohost");
    let mut code = a.finish();
    let mut patch_addi = |at: u64, word: u32| {
        let at = (at - layout::RAM) as usize;
        code[at..at + 4].copy_from_slice(&word.to_le_bytes());
    };
    let m_off = m_addr - here;
    // auipc covers the upper part, addi the signed rest.
    let hi = ((m_off + 0x800) >> 12) as u32;
    patch_addi(here, asm::u(0x17, T0, hi));
    patch_addi(
        patch,
        asm::addi(T0, T0, (m_off as i64 - (i64::from(hi) << 12)) as i32),
    );
    patch_addi(exit_patch, asm::addi(T2, T2, (hs_exit_pc - exit_at) as i32));
    let _ = T5;
    Harness {
        code,
        s_trap,
        vs_trap,
    }
}
