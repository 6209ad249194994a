//! Comparisons. Each has a number, which the program ends with if it fails.

use trapless_asm::reg::{A0, A1, T0, T1, T2, ZERO};
use trapless_isa::xtrapless::{csr, hnotify};

use super::control::Level;
use super::{A2, FENCE, Script, TP, and};
use crate::layout::context;

/// All bits.
pub const ALL: u64 = u64::MAX;

impl Script<'_> {
    /// Number of a new check.
    fn number(&mut self, text: &str) -> u64 {
        self.checks.push(text.to_owned());
        self.checks.len() as u64
    }

    /// `a0` AND `mask` must be `want`.
    pub fn compare(&mut self, mask: u64, want: u64, text: &str) {
        let number = self.number(text);
        let (ok, fail) = (self.a.label(), self.fail);
        if mask != ALL {
            self.a.li(A1, mask).word(and(A0, A0, A1));
        }
        self.a.li(A1, want).beq(A0, A1, ok);
        self.a.li(A2, number).j(fail);
        self.a.bind(ok);
    }

    /// `a0` must not be `other`.
    pub fn differs(&mut self, other: u64, text: &str) {
        let number = self.number(text);
        let (ok, fail) = (self.a.label(), self.fail);
        self.a.li(A1, other).bne(A0, A1, ok);
        self.a.li(A2, number).j(fail);
        self.a.bind(ok);
    }

    /// Repeats `load`, which leaves something in `a0` and keeps `t2`, until `a0` AND `mask` is
    /// `want`, for as long as may take what happens in finite time.
    pub fn until(&mut self, mask: u64, want: u64, text: &str, load: impl Fn(&mut Self)) {
        let number = self.number(text);
        let (ok, again, fail) = (self.a.label(), self.a.label(), self.fail);
        self.a.li(T2, self.platform.settle);
        self.a.bind(again);
        load(self);
        self.a.li(A1, mask).word(and(A0, A0, A1));
        self.a.li(A1, want).beq(A0, A1, ok);
        self.a.addi(T2, T2, -1).bne(T2, ZERO, again);
        self.a.li(A2, number).j(fail);
        self.a.bind(ok);
    }

    /// Waits for as long as anything may take that happens in finite time.
    pub fn settle(&mut self) {
        self.pause(self.platform.settle);
    }

    /// Waits for some passes of a loop.
    pub fn pause(&mut self, passes: u64) {
        self.a.li(T0, passes);
        let again = self.a.here();
        self.a.addi(T0, T0, -1).bne(T0, ZERO, again);
    }

    /// A CSR must read as `want`.
    pub fn expect(&mut self, register: u16, want: u64, text: &str) {
        self.expect_bits(register, ALL, want, text);
    }

    /// Some bits of a CSR must read as `want`.
    pub fn expect_bits(&mut self, register: u16, mask: u64, want: u64, text: &str) {
        self.a.csrr(A0, register);
        self.compare(mask, want, text);
    }

    /// Some bits of a CSR must become `want` in finite time.
    pub fn expect_soon(&mut self, register: u16, mask: u64, want: u64, text: &str) {
        self.until(mask, want, text, |s| {
            s.a.csrr(A0, register);
        });
    }

    /// Some bits of a CSR must read as `want` after everything has settled.
    pub fn expect_still(&mut self, register: u16, mask: u64, want: u64, text: &str) {
        self.settle();
        self.expect_bits(register, mask, want, text);
    }

    /// A word of memory must be `want` after a fence.
    pub fn expect_word(&mut self, addr: u64, mask: u64, want: u64, text: &str) {
        self.a.word(FENCE).li(T0, addr).ld(A0, T0, 0);
        self.compare(mask, want, text);
    }

    /// A word of memory must become `want` in finite time.
    pub fn expect_word_soon(&mut self, addr: u64, mask: u64, want: u64, text: &str) {
        self.until(mask, want, text, |s| {
            s.a.word(FENCE).li(T0, addr).ld(A0, T0, 0);
        });
    }

    /// `hnotify` of this hart must return `want` in finite time.
    pub fn expect_notification(&mut self, want: u64, text: &str) {
        let (got, again) = (self.a.label(), self.a.label());
        self.a.li(T1, self.platform.settle);
        self.a.bind(again);
        self.a.csrr(A0, csr::HNOTIFY).bne(A0, ZERO, got);
        self.a.addi(T1, T1, -1).bne(T1, ZERO, again);
        self.a.bind(got);
        self.compare(ALL, want, text);
    }

    /// Neither a notification nor an overflow must be in the queue of this hart, after everything
    /// has settled.
    pub fn expect_no_notification(&mut self, text: &str) {
        self.sync();
        self.settle();
        self.expect(csr::HNOTIFY, 0, text);
    }

    /// The next notification must be `want`, and be the only one.
    pub fn expect_only_notification(&mut self, want: u64, text: &str) {
        self.expect_notification(want | hnotify::V, text);
        self.expect_no_notification(&format!("{text}: and no other"));
    }

    /// The steps of `body` must raise exactly one exception, with this cause.
    pub fn expect_exception(&mut self, cause: u64, text: &str, body: impl FnOnce(&mut Self)) {
        self.a.sd(ZERO, TP, context::EXCEPTION);
        self.a.sd(ZERO, TP, context::EXCEPTIONS);
        body(self);
        self.a.ld(A0, TP, context::EXCEPTION);
        self.compare(ALL, context::TAKEN | cause, text);
        self.a.ld(A0, TP, context::EXCEPTIONS);
        self.compare(ALL, 1, &format!("{text}: once"));
    }

    /// The steps of `body` must raise no exception.
    pub fn expect_no_exception(&mut self, text: &str, body: impl FnOnce(&mut Self)) {
        self.a.sd(ZERO, TP, context::EXCEPTION);
        body(self);
        self.a.ld(A0, TP, context::EXCEPTION);
        self.compare(ALL, 0, text);
    }

    /// The last block in another mode must have been ended by this interrupt.
    pub fn expect_taken(&mut self, level: Level, cause: u64, text: &str) {
        self.a.ld(A0, TP, context::INTERRUPT);
        let want = context::TAKEN | (level as u64) << 8 | cause;
        self.compare(ALL, want, text);
    }

    /// The last block in another mode must have been ended by no interrupt.
    pub fn expect_not_taken(&mut self, text: &str) {
        self.a.ld(A0, TP, context::INTERRUPT);
        self.compare(ALL, 0, text);
    }
}
