//! What Xhcs promises.

use trapless_isa::haiov::{context, hucsave, hucshare, save};

use super::*;
use crate::{ContextAccess, Exchanged};

/// A context, to which events 0 and 1 post with vectors 0 and 9.
const CONTEXT: u64 = RAM + 0x4000;
const SAVE: u64 = RAM + 0x4200;
const ID: u64 = 77;
/// When handlers begin and end, in cycles.
const ENTERED: u64 = 7;
const LEFT: u64 = 500;

fn guest() -> Exchanged {
    let mut x = [0; 32];
    for (n, x) in x.iter_mut().enumerate() {
        *x = n as u64 * 0x1_0001;
    }
    Exchanged {
        pc: 0x8000,
        x,
        ustatus: 0x10,
        utvec: 0x1000,
        uscratch: 0x2000,
        satp: 0x3000,
        sscratch: 0x4000,
    }
}

impl World {
    /// Hart 1 runs a guest that the context can interrupt.
    fn with_context() -> Self {
        let mut w = Self::new();
        for (n, vector) in [(0, 0), (1, 9)] {
            let kind = 1 << event::CTL_KIND_SHIFT | vector << event::CTL_VECTOR_SHIFT;
            w.ram.set(event(n), event::CTL_V | kind);
            w.ram.set(event(n) + event::TARGET, CONTEXT);
        }
        for (offset, value) in [
            (context::UTVEC, 0x10_0000),
            (context::USCRATCH, 0x20_0000),
            (context::SUATP, 0x30_0000),
            (context::SUSCRATCH, 0x40_0000),
            (context::BUDGET, 1000),
        ] {
            w.ram.set(CONTEXT + offset, value);
        }
        w.control(context::CTL_V);
        w.host(1, csr::HUCSAVE, CsrOp::Write(hucsave::V | SAVE));
        w
    }

    /// Sets the control word of the context.
    fn control(&mut self, flags: u64) {
        let names = ID << context::CTL_ID_SHIFT | 1 << context::CTL_HART_SHIFT;
        self.ram.set(CONTEXT, flags | names);
    }

    fn control_has(&self, flag: u64) -> bool {
        self.ram.get(CONTEXT) & flag != 0
    }

    fn due(&mut self, hart: usize) -> bool {
        let lines = self.intc.lines(hart, 7);
        assert!(!lines.context || lines.withheld == IRQ);
        lines.context
    }

    fn enter(&mut self) -> Option<(u64, Exchanged)> {
        let mut registers = guest();
        let access = at(ENTERED, Mode::VS);
        let pending = self
            .intc
            .enter_context(&access, &mut registers, &mut self.effects)?;
        Some((pending, registers))
    }

    fn leave(&mut self) -> Exchanged {
        self.try_leave().unwrap()
    }

    /// `None` if nothing has changed.
    fn try_leave(&mut self) -> Option<Exchanged> {
        let handler = Exchanged {
            x: [0; 32],
            ..guest()
        };
        let mut registers = handler;
        let access = at(LEFT, Mode::U);
        let left = self
            .intc
            .leave_context(&access, &mut registers, &mut self.effects);
        assert!(left || registers == handler, "half loaded");
        left.then_some(registers)
    }
}

fn at(now: u64, mode: Mode) -> ContextAccess {
    ContextAccess { hart: 1, mode, now }
}

#[test]
fn a_handler_interrupts_the_guest_and_sees_nothing_of_it() {
    let mut w = World::with_context();
    w.post(1).unwrap();
    assert!(w.due(1) && w.interrupted(1) && !w.due(0));
    let (pending, handler) = w.enter().unwrap();
    assert_eq!((pending, handler.x), (1 << 9, [0; 32]));
    assert_eq!((handler.utvec, handler.uscratch), (0x10_0000, 0x20_0000));
    assert_eq!((handler.satp, handler.sscratch), (0x30_0000, 0x4000));
    assert_eq!(w.host(1, csr::SUATP, CsrOp::Read), 0x3000);
    assert_eq!(w.host(1, csr::HUCONTEXT, CsrOp::Read), CONTEXT);
    assert!(!w.interrupted(1));
    assert_eq!(w.leave(), guest());
    assert_eq!(w.host(1, csr::HUCONTEXT, CsrOp::Read), 0);
    assert!(!w.control_has(context::CTL_N) && !w.interrupted(1));
    assert_eq!(w.ram.get(CONTEXT + context::PENDING), 0);
    let id = ID as u32;
    let steps = w.steps();
    assert_eq!(steps[1], StepKind::EventQueued { to: 1, id });
    let handled = [
        StepKind::ContextEntered { id },
        StepKind::ContextLeft { id },
    ];
    assert_eq!(steps[2..], handled);
}

#[test]
fn the_kernel_s_scratch_register_is_exchanged_if_the_context_says_so() {
    let mut w = World::with_context();
    w.control(context::CTL_V | context::CTL_SS);
    w.post(0).unwrap();
    assert_eq!(w.enter().unwrap().1.sscratch, 0x40_0000);
    assert_eq!(w.host(1, csr::SUSCRATCH, CsrOp::Read), 0x4000);
    assert_eq!(w.leave().sscratch, 0x4000);
}

/// However many events come before the handler begins, it begins once and is notified of all.
#[test]
fn events_are_merged_until_the_handler_begins() {
    let mut w = World::with_context();
    for request in [0, 1, 0, 1, 1] {
        w.post(request).unwrap();
    }
    assert_eq!(w.enter().unwrap().0, 1 << 9 | 1);
    w.leave();
    assert!(!w.due(1));
}

/// What comes while the handler runs begins it again when it has ended, on the hart that the
/// context names then.
#[test]
fn events_that_come_while_the_handler_runs_are_not_lost() {
    let mut w = World::with_context();
    w.post(0).unwrap();
    w.enter().unwrap();
    w.post(0).unwrap();
    w.post(1).unwrap();
    assert!(!w.due(1) && !w.interrupted(1), "it runs once");
    w.leave();
    assert!(w.due(1));
    assert_eq!(w.enter().unwrap().0, 1 << 9 | 1);
    w.leave();
    assert!(!w.due(1));
}

/// HS-mode takes the event where no guest runs, and the token with it.
#[test]
fn hs_mode_takes_what_no_guest_is_interrupted_by() {
    let mut w = World::with_context();
    w.post(0).unwrap();
    let value = w.host(1, csr::HVEICLAIM, CsrOp::Read);
    assert_eq!(value, hveiclaim::V | hveiclaim::CTX | ID);
    w.post(0).unwrap();
    w.post(1).unwrap();
    assert!(
        !w.interrupted(1),
        "no further notification until N is cleared"
    );
    w.control(context::CTL_V);
    w.post(0).unwrap();
    assert!(w.due(1), "although it was pending");
    w.host(1, csr::HVEICLAIM, CsrOp::Read);
    w.control(context::CTL_V);
    w.host(1, csr::HUCSAVE, CsrOp::Write(0));
    w.ram.set(CONTEXT + context::PENDING, 0);
    w.post(0).unwrap();
    assert!(w.interrupted(1) && !w.due(1), "no save area");
}

#[test]
fn masked_and_invalid_contexts_begin_no_handler() {
    for flags in [context::CTL_V | context::CTL_M, 0] {
        let mut w = World::with_context();
        w.control(flags);
        w.post(0).unwrap();
        assert!(!w.interrupted(1));
        assert_eq!(w.ram.get(CONTEXT + context::PENDING), 1);
        // Masked after a notification.
        let mut w = World::with_context();
        w.post(0).unwrap();
        w.control(flags | context::CTL_N);
        assert!(w.due(1));
        assert!(w.enter().is_none());
        assert!(!w.due(1) && !w.control_has(context::CTL_N));
        assert_eq!(w.ram.get(CONTEXT + context::PENDING), 1);
    }
}

#[test]
fn a_context_can_follow_who_posts() {
    let mut w = World::with_context();
    w.control(context::CTL_V | context::CTL_OWN);
    w.host(0, csr::HVEIQ, CsrOp::Write(hveiq::EN | (QUEUE + 0x100) | 2));
    w.post(0).unwrap();
    assert!(w.interrupted(0) && !w.interrupted(1));
}

/// The time that a handler takes from a guest is bounded; HS-mode takes the context away.
#[test]
fn the_budget_ends_in_an_interrupt() {
    let mut w = World::with_context();
    w.post(0).unwrap();
    w.enter().unwrap();
    w.post(1).unwrap();
    let lines = w.intc.lines(1, 1006);
    assert_eq!((lines.level & IRQ, lines.withheld), (0, IRQ));
    assert_eq!(lines.deadline, 1007);
    let lines = w.intc.lines(1, 1007);
    assert_eq!((lines.level & IRQ, lines.withheld), (IRQ, 0));
    assert_eq!(w.ram.get(SAVE + save::X), 0x1_0001);
    assert_eq!(
        w.ram.get(SAVE + save::X + 30 * save::X_STRIDE),
        31 * 0x1_0001
    );
    assert_eq!(w.ram.get(SAVE + save::UTVEC), 0x1000);
    w.host(1, csr::HUCONTEXT, CsrOp::Write(CONTEXT + 0x80));
    assert_eq!(
        w.host(1, csr::HUCONTEXT, CsrOp::Read),
        CONTEXT,
        "0 or nothing"
    );
    w.host(1, csr::HUCONTEXT, CsrOp::Write(0));
    assert!(!w.interrupted(1));
    assert!(
        w.control_has(context::CTL_N),
        "the thread has the token now"
    );
}

/// What handlers take from guests of a hart in all is bounded, too: then HS-mode is interrupted,
/// until as much time has passed.
#[test]
fn the_share_of_handlers_is_bounded() {
    let mut w = World::with_context();
    let limit = 2 * (LEFT - ENTERED);
    w.host(1, csr::HUCSHARE, CsrOp::Write(hucshare::FULL | limit));
    assert_eq!(w.host(1, csr::HUCSHARE, CsrOp::Read), limit);
    for _ in 0..2 {
        w.post(0).unwrap();
        assert!(w.due(1), "what was taken is below the limit");
        w.enter().unwrap();
        w.leave();
    }
    w.post(0).unwrap();
    let lines = w.intc.lines(1, LEFT);
    assert_eq!((lines.context, lines.level & IRQ), (false, IRQ));
    assert_eq!(lines.withheld & IRQ, 0, "HS-mode takes it");
    let lines = w.intc.lines(1, LEFT + 1);
    assert_eq!((lines.context, lines.withheld), (true, IRQ));
}

#[test]
fn a_handler_of_the_state_that_was_saved_goes_on() {
    let mut w = World::with_context();
    w.post(0).unwrap();
    w.enter().unwrap();
    let saved = w.intc.save();
    w.intc = machine(&w.ram);
    w.intc.restore(&saved).unwrap();
    assert_eq!(w.leave(), guest());
}

#[test]
fn without_the_extension_there_are_no_contexts() {
    let mut w = World::with_context();
    let inner = AclintPlic::new(aclint_plic::Config {
        harts: HARTS,
        cycles_per_tick: 100,
        sswi: true,
        edge_triggered: 0,
    });
    w.intc = Vei::new(inner, HARTS, false);
    w.intc.attach_memory(Arc::new(w.ram.clone()));
    w.host(0, csr::HVEITAB, CsrOp::Write(hveitab::V | TABLE | 3));
    w.host(1, csr::HVEIQ, CsrOp::Write(hveiq::EN | QUEUE | QUEUE_SIZE));
    w.post(0).unwrap();
    assert!(!w.interrupted(1), "the kind is reserved");
    for register in super::super::csr::CONTEXT_CSRS.iter().copied() {
        let found = w.access(0, Mode::HS, register, CsrOp::Read);
        assert_eq!(found, Err(CsrFault::Illegal));
    }
}

/// HCS-15: without a context, or with a save area that cannot be read as a whole, the end of a
/// handler changes nothing; once HS-mode has mended the save area, the guest continues.
#[test]
fn a_handler_without_a_guest_to_go_on_does_not_end() {
    let mut w = World::with_context();
    assert_eq!(w.try_leave(), None);
    w.post(0).unwrap();
    w.enter().unwrap();
    for lost in [save::PC, save::X + 30 * 8, save::GRANT] {
        w.ram.lose(SAVE + lost);
        assert_eq!(w.try_leave(), None);
        w.ram.lose(0);
        assert_eq!(w.host(1, csr::HUCONTEXT, CsrOp::Read), CONTEXT);
        assert!(w.control_has(context::CTL_N));
    }
    assert_eq!(w.leave(), guest());
}

/// What is pending is still pending if the handler cannot begin.
#[test]
fn a_guest_that_cannot_be_saved_is_not_interrupted() {
    for lost in [SAVE + save::GRANT, CONTEXT + context::GRANT] {
        let mut w = World::with_context();
        w.post(1).unwrap();
        assert!(w.due(1));
        w.ram.lose(lost);
        assert_eq!(w.enter(), None);
        w.ram.lose(0);
        assert_eq!(w.host(1, csr::HUCONTEXT, CsrOp::Read), 0);
        assert_eq!(w.ram.get(CONTEXT + context::PENDING), 1 << 9);
    }
}
