//! Blocks in other modes and on other harts, loops.

use trapless_asm::reg::{T0, T1, ZERO};
use trapless_isa::Mode;
use trapless_isa::csr::{self, status};

use super::{FENCE, Script, TP};
use crate::layout::context;

/// Level at which an interrupt is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// HS-mode.
    Hs = 1,
    /// VS-mode.
    Vs = 2,
    /// M-mode.
    M = 3,
}

impl Level {
    /// Its trap vector, as M-mode names it.
    pub(super) fn vector(self) -> u16 {
        match self {
            Self::M => csr::MTVEC,
            Self::Hs => csr::STVEC,
            Self::Vs => csr::VSTVEC,
        }
    }
}

impl Script<'_> {
    /// The steps of `body` are executed in another mode, without translation. An interrupt ends
    /// them early ([`expect_taken`](Self::expect_taken)).
    pub fn in_mode(&mut self, mode: Mode, body: impl FnOnce(&mut Self)) {
        let (block, resume) = (self.a.label(), self.a.label());
        let privilege = match mode {
            Mode::M => 3,
            Mode::HS | Mode::VS => 1,
            Mode::U | Mode::VU => 0,
        };
        let v = if mode.v() { status::MPV } else { 0 };
        let set = privilege << 11 | v;
        let a = &mut self.a;
        a.la(T0, block).csrw(csr::MEPC, T0);
        a.la(T0, resume).sd(T0, TP, context::RESUME);
        a.sd(ZERO, TP, context::INTERRUPT);
        a.li(T0, status::MPP | status::MPV | status::MPIE);
        a.csrc(csr::MSTATUS, T0);
        a.li(T0, set).csrs(csr::MSTATUS, T0);
        a.mret();
        a.bind(block);
        body(self);
        self.a.ecall();
        self.a.bind(resume);
    }

    /// [`in_mode`](Self::in_mode) for VS-mode.
    pub fn guest(&mut self, body: impl FnOnce(&mut Self)) {
        self.in_mode(Mode::VS, body);
    }

    /// From now on an interrupt that HS-mode takes on this hart clears `sie` and `hie`, and the
    /// block goes on.
    pub fn continue_after_interrupts(&mut self) {
        self.a.li(T0, 1).sd(T0, TP, context::GO_ON);
    }

    /// Enters a mode and waits there, for an interrupt to be taken.
    pub fn wait_in(&mut self, mode: Mode) {
        self.in_mode(mode, Self::settle);
    }

    /// The steps of `body` are executed by another hart in M-mode, while this one goes on. Only the
    /// lead hart may do this.
    pub fn start(&mut self, hart: usize, body: impl FnOnce(&mut Self)) {
        assert!((1..self.harts).contains(&hart), "the program has this hart");
        let (block, after) = (self.a.label(), self.a.label());
        let to = self.context(hart);
        let a = &mut self.a;
        a.word(FENCE).la(T0, block).li(T1, to);
        a.sd(T0, T1, context::BLOCK).j(after);
        a.bind(block);
        body(self);
        let done = self.done;
        self.a.j(done);
        self.a.bind(after);
    }

    /// Waits until another hart has executed its block.
    pub fn wait(&mut self, hart: usize) {
        let to = self.context(hart);
        let a = &mut self.a;
        a.li(T1, to);
        let again = a.here();
        a.ld(T0, T1, context::BLOCK).bne(T0, ZERO, again);
        a.word(FENCE);
    }

    /// The steps of `body` are executed by a hart in M-mode, and this one waits.
    pub fn on(&mut self, hart: usize, body: impl FnOnce(&mut Self)) {
        if hart == 0 {
            body(self);
        } else {
            self.start(hart, body);
            self.wait(hart);
        }
    }

    /// Repeats the steps of `body`.
    pub fn repeat(&mut self, passes: u64, body: impl FnOnce(&mut Self)) {
        let left = context::LOOPS + 8 * self.depth as i32;
        self.a.li(T0, passes).sd(T0, TP, left);
        let again = self.a.here();
        self.depth += 1;
        body(self);
        self.depth -= 1;
        let out = self.a.label();
        self.a.ld(T0, TP, left).addi(T0, T0, -1).sd(T0, TP, left);
        self.a.beq(T0, ZERO, out).j(again);
        self.a.bind(out);
    }

    /// Waits for `passes` AND (the passes that are left of the innermost loop), so that two harts
    /// meet each other at many distances.
    pub fn stagger(&mut self, passes: i32) {
        let left = context::LOOPS + 8 * (self.depth as i32 - 1);
        let out = self.a.label();
        self.a.ld(T0, TP, left).andi(T0, T0, passes);
        let again = self.a.here();
        self.a.beq(T0, ZERO, out).addi(T0, T0, -1).j(again);
        self.a.bind(out);
    }
}
