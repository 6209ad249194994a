//! Detach: the state a vhart is left in, and which hart is notified.

use trapless_isa::xtrapless::{csr, file, hifmap, htlcfg, kind, op, state};

use super::world::*;
use crate::StepKind;
use crate::trapless::tests::world::World;

#[test]
fn detach_leaves_the_state_of_the_operand_and_keeps_soft() {
    let states = [
        (state::STOPPED, state::STOPPED),
        (state::PREEMPTED, state::PREEMPTED),
        (state::HALTED, state::HALTED),
        // Only the controller writes LOADED.
        (state::LOADED, state::PREEMPTED),
    ];
    for (written, want) in states {
        for soft in [0, file::CTL_SOFT] {
            let mut w = World::new();
            w.attach(1, 1, 2);
            w.set_ctl(1, 2, w.ctl(1, 2) | soft | file::CTL_ON);
            w.hs(1, csr::HNQBASE, 0);
            for hart in [0, 2] {
                w.hs(hart, csr::HNQBASE, 0);
            }
            w.take_switched();
            w.detach(1, written);
            assert_eq!(w.ctl(1, 2), ctl(want, 1, soft | file::CTL_ON));
            assert_eq!(w.level(1), 0);
            assert_eq!(w.take_switched(), 1 << 1);
        }
    }
}

#[test]
fn only_detaching_as_halted_looks_for_what_is_pending() {
    for (state, notified) in [
        (state::HALTED, true),
        (state::PREEMPTED, false),
        (state::STOPPED, false),
    ] {
        let mut w = World::new();
        w.attach(1, 1, 2);
        w.write_ssip(1, 2);
        w.steps();
        w.detach(1, state);
        let mut steps = vec![StepKind::Detached {
            vhart: 2,
            state: state as u8,
        }];
        if notified {
            steps.push(StepKind::Notified {
                vhart: 2,
                to: 1,
                kind: kind::WAKE as u8,
            });
        }
        assert_eq!(w.steps(), steps);
        let want = if notified {
            notification(kind::WAKE, 1, 2)
        } else {
            0
        };
        assert_eq!(w.fetch(1), want);
        let on = if notified { file::CTL_ON } else { 0 };
        assert_eq!(w.ctl(1, 2), ctl(state, 1, file::CTL_SOFT | on));
    }
}

#[test]
fn halted_with_nothing_deliverable_wakes_no_hart() {
    let mut w = World::new();
    // Pending but not enabled, and pending but of priority 0.
    w.route_only(1, 3, EDGE);
    w.route(
        1,
        4,
        Routing {
            priority: 0,
            ..EDGE
        },
    );
    w.attach(0, 1, 0);
    w.generate(0, op::EDGE, 1, 3);
    w.generate(0, op::EDGE, 1, 4);
    assert_eq!(w.level(0), 0);
    w.take_steps();
    let mut memory = |state| {
        w.attach(0, 1, 0);
        w.detach(0, state);
        assert_eq!(w.ctl(1, 0), ctl(state, 0, 0));
        assert_eq!(w.level(0), 0);
        let steps = w.take_steps();
        assert_eq!(steps.len(), 2);
        steps[1].memory
    };
    // What it read to find nothing belongs to the detach: domain, vhart table and entry, CTL.
    assert_eq!(memory(state::STOPPED), 4);
    assert!(memory(state::HALTED) > 4 + 4);
}

#[test]
fn detach_of_an_invalid_slot_does_nothing() {
    let mut w = World::new();
    let before = w.ram.words();
    w.detach(0, state::HALTED);
    assert_eq!((w.steps(), w.take_switched()), (vec![], 0));
    assert_eq!(w.ram.words(), before);
}

#[test]
fn an_arrival_that_nobody_saw_is_forgotten_with_its_vhart() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    w.generate(1, op::SOFT, 1, 0);
    w.detach(0, state::PREEMPTED);
    w.attach(0, 1, 1);
    assert_eq!(w.lines(0).arrived, 0);
    assert_eq!(w.ctl(1, 0), ctl(state::PREEMPTED, 0, file::CTL_SOFT));
}

#[test]
fn put_and_load_elsewhere_carry_everything_along() {
    let mut w = World::new();
    w.route(1, 9, EDGE);
    w.attach(0, 1, 0);
    w.generate(1, op::SOFT, 1, 0);
    w.generate(1, op::EDGE, 1, 9);
    assert_eq!(w.level(0), SOFT | EXTERNAL);
    w.detach(0, state::PREEMPTED);
    assert_eq!(w.level(0), 0);
    w.attach(2, 1, 0);
    assert_eq!(w.level(2), SOFT | EXTERNAL);
    assert_eq!(w.claim(2), 9);
}

#[test]
fn detach_with_csrrc_stops_the_vhart() {
    use crate::CsrOp;
    use trapless_isa::Mode;
    let mut w = World::new();
    w.attach(0, 1, 0);
    let old = w
        .access(0, Mode::HS, csr::HIFMAP, CsrOp::Clear(hifmap::V))
        .unwrap();
    assert_eq!(old, slot(1, 0));
    assert_eq!(w.ctl(1, 0), ctl(state::STOPPED, 0, 0));
    assert_eq!(w.hs_read(0, csr::HTLCFG), VERSION | htlcfg::EN);
}
