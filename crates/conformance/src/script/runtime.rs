//! Entry, handlers, waiting for blocks, end.

use trapless_asm::reg::{A0, A1, T0, T1, T5, T6, ZERO};
use trapless_asm::{Asm, Label};
use trapless_isa::csr;

use super::control::Level;
use super::{A2, FENCE, Script, TP, jr};
use crate::layout::{self, context};

/// Context word with the hart ID.
const HART: i32 = 40;
/// Context word with what `a1` was at the entry.
pub(super) const DEVICE_TREE: i32 = 48;

/// What each hart writes before anything else, as far as it has the register: everything else is
/// switched off, memory is open to all modes, and nothing is delegated that need not be.
fn setup() -> Vec<(u16, u64)> {
    let state_enable = csr::stateen0::SE0 | csr::stateen0::ENVCFG | csr::stateen0::C;
    vec![
        (csr::MSTATUS, 0),
        (csr::MIE, 0),
        (csr::MEDELEG, 0),
        // Standard supervisor interrupts.
        (csr::MIDELEG, 0x222),
        (csr::PMPADDR0, u64::MAX >> 10),
        // NAPOT, read, write, execute.
        (csr::PMPCFG0, 0x1f),
        (csr::MCOUNTEREN, 7),
        (csr::MENVCFG, csr::envcfg::STCE),
        (csr::MSTATEEN0, state_enable),
        (csr::SATP, 0),
        (csr::STIMECMP, u64::MAX),
        (csr::SCOUNTEREN, 7),
        (csr::SSTATEEN0, csr::stateen0::C),
        (csr::HSTATUS, 0),
        (csr::HEDELEG, 0),
        (csr::HIDELEG, 0x444),
        (csr::HIE, 0),
        (csr::HVIP, 0),
        (csr::HGATP, 0),
        (csr::HCOUNTEREN, 7),
        (csr::HENVCFG, csr::envcfg::STCE),
        (csr::HSTATEEN0, state_enable),
        (csr::HTIMEDELTA, 0),
        (csr::VSATP, 0),
        (csr::VSSTATUS, 0),
        (csr::VSTIMECMP, u64::MAX),
    ]
}

impl Script<'_> {
    /// The entry; then the lead hart goes on, and others wait for blocks.
    pub(super) fn begin(&mut self) {
        let (lead, known) = (self.a.label(), self.a.label());
        let handlers = [Level::M, Level::Hs, Level::Vs].map(|level| (level, self.a.label()));
        let a = &mut self.a;
        a.csrr(T0, csr::MHARTID);
        for (index, id) in self.platform.harts.iter().enumerate() {
            let other = a.label();
            a.li(T1, *id).bne(T0, T1, other);
            let to = self.platform.ram + layout::CONTEXTS + layout::CONTEXT * index as u64;
            a.li(TP, to).j(known);
            a.bind(other);
        }
        let park = a.here();
        a.wfi().j(park);
        a.bind(known);
        a.sd(T0, TP, HART).sd(A1, TP, DEVICE_TREE);
        for (level, label) in handlers {
            a.la(T0, label).csrw(level.vector(), T0);
        }
        for (register, value) in setup() {
            a.li(T0, value).csrw(register, T0);
        }
        // What the harts lack has made exceptions.
        a.sd(ZERO, TP, context::EXCEPTION);
        a.sd(ZERO, TP, context::EXCEPTIONS);
        a.li(T0, self.platform.ram + layout::CONTEXTS);
        a.beq(TP, T0, lead);
        self.wait_for_blocks();
        for (level, label) in handlers {
            self.a.align(4);
            self.a.bind(label);
            match level {
                Level::M => machine_handler(&mut self.a),
                _ => lower_handler(&mut self.a, level),
            }
        }
        self.failed();
        self.a.bind(lead);
    }

    /// What harts other than the lead do.
    fn wait_for_blocks(&mut self) {
        let done = self.done;
        let a = &mut self.a;
        let wait = a.here();
        a.word(FENCE).ld(T0, TP, context::BLOCK);
        a.beq(T0, ZERO, wait).word(jr(T0));
        a.bind(done);
        a.word(FENCE).sd(ZERO, TP, context::BLOCK).j(wait);
    }

    /// A check has failed: `a0` was found, `a1` expected, `a2` is its number. From every mode.
    fn failed(&mut self) {
        let fail = self.fail;
        self.a.bind(fail);
        let signature = self.at(layout::SIGNATURE);
        let a = &mut self.a;
        a.li(T0, signature);
        a.sd(A2, T0, 0).sd(A0, T0, 8).sd(A1, T0, 16);
        a.ld(T1, TP, HART).sd(T1, T0, 24).word(FENCE);
        self.tell();
    }

    /// Ends the run with the check in `a2`, or 0.
    fn tell(&mut self) {
        let tohost = self.at(layout::TOHOST);
        let finisher = self.platform.finisher;
        let a = &mut self.a;
        a.slli(T1, A2, 1).addi(T1, T1, 1).li(T0, tohost);
        let again = a.here();
        a.sd(T1, T0, 0).word(FENCE);
        if let Some(finisher) = finisher {
            let (failed, tell) = (a.label(), a.label());
            a.li(A0, finisher.address);
            a.bne(A2, ZERO, failed);
            a.li(A1, finisher.pass.into()).j(tell);
            a.bind(failed);
            a.slli(A1, A2, 16).li(T6, finisher.fail.into());
            a.or(A1, A1, T6);
            a.bind(tell);
            a.sw(A1, A0, 0);
        }
        // Some models look at tohost rarely.
        a.j(again);
    }

    /// The lead hart has passed all checks.
    pub(super) fn end(&mut self) {
        for hart in 1..self.harts {
            self.wait(hart);
        }
        self.a.li(A2, 0);
        self.tell();
    }
}

/// Stores which interrupt was taken at `level`, whose cause is in `t5`.
fn note(a: &mut Asm, level: Level) {
    a.slli(T5, T5, 56).srli(T5, T5, 56);
    a.li(T6, context::TAKEN | (level as u64) << 8);
    a.or(T5, T5, T6).sd(T5, TP, context::INTERRUPT);
}

/// An interrupt or an `ecall` ends the block; other exceptions are counted, and their instruction
/// is left out.
fn machine_handler(a: &mut Asm) {
    let (exception, resume): (Label, Label) = (a.label(), a.label());
    a.csrr(T5, csr::MCAUSE).bge(T5, ZERO, exception);
    note(a, Level::M);
    a.j(resume);
    a.bind(exception);
    a.addi(T6, T5, -8).sltiu(T6, T6, 4).bne(T6, ZERO, resume);
    a.li(T6, context::TAKEN).or(T5, T5, T6);
    a.sd(T5, TP, context::EXCEPTION);
    a.ld(T5, TP, context::EXCEPTIONS).addi(T5, T5, 1);
    a.sd(T5, TP, context::EXCEPTIONS);
    a.csrr(T5, csr::MEPC).addi(T5, T5, 4).csrw(csr::MEPC, T5);
    a.mret();
    a.bind(resume);
    a.ld(T5, TP, context::RESUME).word(jr(T5));
}

/// An interrupt ends the block, or in HS-mode is disabled.
fn lower_handler(a: &mut Asm, level: Level) {
    a.csrr(T5, csr::SCAUSE);
    note(a, level);
    if level == Level::Hs {
        let end = a.label();
        a.ld(T5, TP, context::GO_ON).beq(T5, ZERO, end);
        a.csrw(csr::SIE, ZERO).csrw(csr::HIE, ZERO).sret();
        a.bind(end);
    }
    a.ecall();
}
