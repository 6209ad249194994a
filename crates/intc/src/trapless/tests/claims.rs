//! Claim, completion, enables and threshold of the guest.

use trapless_isa::Mode;
use trapless_isa::xtrapless::{csr, file, hnqbase, kind, op, state};

use super::world::*;
use crate::{CsrFault, CsrOp, StepKind};

fn complete(w: &mut World, hart: usize, source: u64) {
    w.vs(hart, csr::VSCLAIM, source);
}

#[test]
fn claims_come_by_priority_then_number() {
    let mut w = World::new();
    w.attach(1, 1, 0);
    for (number, priority) in [(3, 2), (64, 7), (4, 2), (70, 7), (63, 1), (1, 7)] {
        w.route(1, number, Routing { priority, ..EDGE });
        w.generate(0, op::EDGE, 1, number);
    }
    let claims: Vec<_> = (0..8).map(|_| w.claim(1)).collect();
    assert_eq!(claims, [1, 64, 70, 3, 4, 63, 0, 0]);
    assert_eq!(w.level(1), 0);
}

#[test]
fn the_line_stays_high_until_the_last_claim() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    for number in [3, 4] {
        w.route(1, number, EDGE);
        w.generate(0, op::EDGE, 1, number);
    }
    w.steps();
    let mut levels = vec![];
    for _ in 0..2 {
        levels.push(w.level(0));
        w.claim(0);
    }
    assert_eq!((levels, w.level(0)), (vec![EXTERNAL, EXTERNAL], 0));
    assert_eq!(w.claim(0), 0);
    let claimed = |source| StepKind::Claimed { vhart: 0, source };
    assert_eq!(w.steps(), [claimed(3), claimed(4), claimed(0)]);
}

#[test]
fn a_claim_takes_only_the_own_sources() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    w.attach(1, 1, 1);
    w.attach(2, 2, 0);
    w.route(1, 3, Routing { vhart: 1, ..EDGE });
    w.generate(0, op::EDGE, 1, 3);
    assert_eq!((w.level(0), w.level(1), w.level(2)), (0, EXTERNAL, 0));
    assert_eq!((w.claim(0), w.claim(2), w.claim(1)), (0, 0, 3));
}

#[test]
fn sources_at_the_threshold_do_not_interrupt() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    let priority = 3;
    w.route(1, 5, Routing { priority, ..EDGE });
    w.generate(0, op::EDGE, 1, 5);
    for (threshold, raised) in [(2, true), (3, false), (7, false), (0, true)] {
        w.vs(0, csr::VSTHRESHOLD, threshold);
        assert_eq!(w.level(0) == EXTERNAL, raised);
        assert_eq!(w.ram.get(file_of(1, 0) + file::THRESHOLD), threshold);
        let read = w.access(0, Mode::VS, csr::VSTHRESHOLD, CsrOp::Read);
        assert_eq!(read, Ok(threshold));
    }
    w.vs(0, csr::VSTHRESHOLD, !0 - 4);
    assert_eq!(w.claim(0), 0, "three bits: threshold 3");
    let old = w.access(0, Mode::VS, csr::VSTHRESHOLD, CsrOp::Clear(1));
    assert_eq!(old, Ok(3));
    assert_eq!(w.claim(0), 5);
    w.ram.set(file_of(1, 0) + file::THRESHOLD, !0);
    w.vs(0, csr::VSTHRESHOLD, 1);
    assert_eq!(w.ram.get(file_of(1, 0) + file::THRESHOLD), !6);
}

#[test]
fn enables_act_at_once_and_stay_in_range() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    w.route_only(1, 66, EDGE);
    w.generate(1, op::EDGE, 1, 66);
    assert_eq!((w.level(0), w.claim(0)), (0, 0));
    w.vs(0, csr::VSENABLE, enable(66, true));
    assert_eq!(w.level(0), EXTERNAL);
    w.vs(0, csr::VSENABLE, enable(66, false));
    assert_eq!((w.level(0), w.claim(0)), (0, 0));
    assert_eq!(w.lines(0).arrived, 0, "the guest's own doing is no arrival");
    w.vs(0, csr::VSENABLE, enable(66, true));
    assert_eq!(w.claim(0), 66);
    let before = w.ram.words();
    for number in [0, SOURCES + 1, 1023, 1024, 0xffff] {
        w.vs(0, csr::VSENABLE, enable(number, true));
    }
    assert_eq!(w.ram.words(), before);
    let read = w.access(0, Mode::VS, csr::VSENABLE, CsrOp::Read);
    assert_eq!(read, Ok(0));
}

#[test]
fn sources_beyond_the_domain_are_never_claimed() {
    let mut w = World::new();
    w.route_only(1, SOURCES + 1, EDGE);
    for part in [file::PENDING, file::ENABLE] {
        w.ram.set(word(1, 0, part, 64), !0 << (SOURCES + 1 - 64));
        w.ram.set(word(1, 0, part, 0), 1);
    }
    w.attach(0, 1, 0);
    assert_eq!((w.level(0), w.claim(0)), (0, 0));
}

#[test]
fn swap_completes_before_it_claims() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    w.route(1, 5, LEVEL);
    w.generate(1, op::ASSERT, 1, 5);
    assert_eq!(w.claim(0), 5);
    let again = w.access(0, Mode::VS, csr::VSCLAIM, CsrOp::Swap(5));
    assert_eq!(
        again,
        Ok(5),
        "the line is high: completed, pending again, claimed"
    );
}

#[test]
fn operations_on_single_bits_are_refused() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    w.route(1, 5, EDGE);
    w.generate(1, op::EDGE, 1, 5);
    let before = w.ram.words();
    for addr in [csr::VSCLAIM, csr::VSENABLE, csr::SGENIPI] {
        for op in [CsrOp::Set(5), CsrOp::Clear(5), CsrOp::Set(0)] {
            let result = w.access(0, Mode::VS, addr, op);
            assert_eq!(result, Err(CsrFault::Virtual));
        }
    }
    for addr in [csr::SGENIPI, csr::HGENVSI, csr::UGENVSEI] {
        w.hs(0, csr::HGRANT, !0);
        let result = w.access(0, Mode::HS, addr, CsrOp::Set(1));
        assert_eq!(result, Err(CsrFault::Illegal));
    }
    assert_eq!(w.ram.words(), before);
}

#[test]
fn completion_pends_again_while_the_line_is_high() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    w.route(1, 5, LEVEL);
    w.generate(1, op::ASSERT, 1, 5);
    w.claim(0);
    assert_eq!(w.level(0), 0);
    w.steps();
    complete(&mut w, 0, 5);
    let completed = |again| StepKind::Completed {
        vhart: 0,
        source: 5,
        again,
    };
    assert_eq!(w.steps()[0], completed(true));
    assert_eq!((w.level(0), w.claim(0)), (EXTERNAL, 5));
    w.generate(1, op::DEASSERT, 1, 5);
    w.steps();
    complete(&mut w, 0, 5);
    assert_eq!(w.steps(), [completed(false)]);
    assert_eq!((w.level(0), w.claim(0)), (0, 0));
}

#[test]
fn an_edge_source_does_not_pend_again() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    w.route(1, 5, EDGE);
    w.generate(1, op::ASSERT, 1, 5);
    w.claim(0);
    complete(&mut w, 0, 5);
    assert_eq!((w.level(0), w.line(1, 5)), (0, true));
}

#[test]
fn completion_of_a_moved_source_pends_where_it_is_now() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    w.attach(1, 1, 1);
    w.route(1, 5, LEVEL);
    w.generate(2, op::ASSERT, 1, 5);
    w.claim(0);
    for vhart in [1, 2] {
        w.route(1, 5, Routing { vhart, ..LEVEL });
    }
    w.set_ctl(1, 2, ctl(state::HALTED, 2, 0));
    complete(&mut w, 0, 5);
    assert_eq!((w.level(0), w.level(1)), (0, 0));
    assert_eq!(w.fetch(2), notification(kind::WAKE, 1, 2));
    w.route(1, 5, Routing { vhart: 1, ..LEVEL });
    complete(&mut w, 0, 5);
    assert_eq!((w.level(0), w.level(1)), (0, EXTERNAL));
}

#[test]
fn completion_of_what_does_not_exist_is_ignored() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    w.route(2, 5, LEVEL);
    w.generate(1, op::ASSERT, 2, 5);
    w.route_only(1, SOURCES + 1, LEVEL);
    w.ram.set(lines_of(1), !0);
    w.ram.set(lines_of(1) + 8, !0);
    let before = w.ram.words();
    w.steps();
    for id in [0, 5, u64::from(SOURCES) + 1, 1024, 0xffff, !0] {
        complete(&mut w, 0, id);
    }
    assert_eq!(w.ram.words(), before);
    assert_eq!(w.steps(), []);
}

#[test]
fn a_resample_source_is_lowered_and_reported_once() {
    let mut w = World::new();
    let outstanding = lines_of(1) + 128 + 8;
    w.attach(1, 1, 0);
    w.route(1, 65, RESAMPLE);
    w.generate(0, op::ASSERT, 1, 65);
    assert_eq!(w.claim(1), 65);
    w.steps();
    complete(&mut w, 1, 65);
    assert!(!w.line(1, 65));
    assert_eq!(w.level(1), NOTIFY, "nothing pends again by itself");
    assert_eq!(w.ram.get(outstanding), 1 << 1);
    let steps = [
        StepKind::Completed {
            vhart: 0,
            source: 65,
            again: false,
        },
        StepKind::Notified {
            vhart: 0,
            to: 1,
            kind: kind::RESAMPLE as u8,
        },
    ];
    assert_eq!(w.steps(), steps);
    complete(&mut w, 1, 65);
    assert_eq!(w.fetch(1), notification(kind::RESAMPLE, 1, 65));
    assert_eq!(w.fetch(1), 0, "one is outstanding");
    w.ram.set(outstanding, 0);
    w.generate(0, op::ASSERT, 1, 65);
    assert_eq!(w.claim(1), 65);
    complete(&mut w, 1, 65);
    assert_eq!(w.fetch(1), notification(kind::RESAMPLE, 1, 65));
}

#[test]
fn a_resample_without_a_hart_to_notify_stays_outstanding() {
    let mut w = World::new();
    w.attach(1, 1, 0);
    w.route(1, 65, RESAMPLE);
    for hart in 0..HARTS {
        w.hs(hart, csr::HNQBASE, 0);
    }
    let outstanding = lines_of(1) + 128 + 8;
    complete(&mut w, 1, 65);
    assert_eq!(w.ram.get(outstanding), 1 << (65 % 64));
    w.hs(0, csr::HNQBASE, hnqbase::EN | queue_of(0));
    w.ram.set(outstanding, 0);
    complete(&mut w, 1, 65);
    assert_eq!(w.fetch(0), notification(kind::RESAMPLE, 1, 65));
}
