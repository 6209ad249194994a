//! Notification queues.

use trapless_isa::Mode;
use trapless_isa::xtrapless::{csr, hnotify, hnqbase, kind, op, state};

use super::world::*;
use crate::{CsrOp, StepKind};

/// Makes vhart `vhart` of domain 1 wake up hart `to`.
fn wake(w: &mut World, vhart: u16, to: u64) {
    w.set_ctl(1, vhart, ctl(state::HALTED, to, 0));
    w.generate(0, op::SOFT, 1, vhart);
}

#[test]
fn notifications_come_in_order_through_host_memory() {
    let mut w = World::new();
    // More than the ring holds, one and two at a time.
    for round in 0..7u16 {
        let (a, b) = (round % 4, (round + 1) % 4);
        wake(&mut w, a, 1);
        wake(&mut w, b, 1);
        assert_eq!(w.level(1), NOTIFY);
        assert_eq!(w.fetch(1), notification(kind::WAKE, 1, a));
        assert_eq!(w.level(1), NOTIFY);
        assert_eq!(w.fetch(1), notification(kind::WAKE, 1, b));
        assert_eq!((w.level(1), w.fetch(1)), (0, 0));
    }
    let entries = 1 << QUEUE_SIZE;
    for i in 0..entries + 1 {
        let used = w.ram.get(queue_of(1) + 8 * i) != 0;
        assert_eq!(used, i < entries);
    }
}

#[test]
fn overflow_is_reported_with_the_next_read() {
    let mut w = World::new();
    for vhart in 0..4 {
        wake(&mut w, vhart, 1);
    }
    w.steps();
    w.set_ctl(2, 0, ctl(state::HALTED, 1, 0));
    w.generate(0, op::SOFT, 2, 0);
    assert_eq!(w.steps()[1..], [StepKind::Overflow { on: 1 }]);
    assert_eq!(w.fetch(1), notification(kind::WAKE, 1, 0) | hnotify::OVF);
    for vhart in 1..4 {
        assert_eq!(w.fetch(1), notification(kind::WAKE, 1, vhart));
    }
    assert_eq!(w.fetch(1), 0);
}

#[test]
fn overflow_without_memory_is_reported_alone() {
    let mut w = World::new();
    w.hs(1, csr::HNQBASE, hnqbase::EN | QUEUE_SIZE);
    wake(&mut w, 0, 1);
    assert_eq!(w.level(1), NOTIFY);
    assert_eq!(w.fetch(1), hnotify::OVF);
    assert_eq!((w.level(1), w.fetch(1)), (0, 0));
}

#[test]
fn only_reading_takes_a_notification() {
    let mut w = World::new();
    for vhart in 0..4 {
        wake(&mut w, vhart, 1);
    }
    w.hs(1, csr::HNOTIFY, 0);
    w.hs(1, csr::HNOTIFY, !0);
    w.steps();
    for (vhart, op) in [CsrOp::Read, CsrOp::Swap(0), CsrOp::Set(1), CsrOp::Clear(1)]
        .into_iter()
        .enumerate()
    {
        let read = w.access(1, Mode::HS, csr::HNOTIFY, op);
        assert_eq!(read, Ok(notification(kind::WAKE, 1, vhart as u16)));
        let step = StepKind::Fetched {
            id: vhart as u16,
            kind: kind::WAKE as u8,
        };
        assert_eq!(w.steps(), [step]);
    }
}

#[test]
fn a_closed_queue_takes_nothing_but_keeps_what_it_holds() {
    let mut w = World::new();
    wake(&mut w, 0, 1);
    wake(&mut w, 1, 1);
    w.hs(1, csr::HNQBASE, 0);
    assert_eq!(w.hs_read(1, csr::HNQBASE), queue_of(1) | QUEUE_SIZE);
    assert_eq!(w.fetch(1), notification(kind::WAKE, 1, 0));
    wake(&mut w, 2, 1);
    assert_eq!(w.fetch(1), notification(kind::WAKE, 1, 1));
    assert_eq!((w.fetch(1), w.level(1)), (0, 0));
    assert_eq!(w.fetch(0), notification(kind::WAKE, 1, 2));
}

#[test]
fn a_new_queue_is_empty() {
    let mut w = World::new();
    for vhart in 0..4 {
        wake(&mut w, vhart, 1);
    }
    w.set_ctl(2, 0, ctl(state::HALTED, 1, 0));
    w.generate(0, op::SOFT, 2, 0);
    w.hs(1, csr::HNQBASE, hnqbase::EN | queue_of(1));
    assert_eq!((w.level(1), w.fetch(1)), (0, 0));
    wake(&mut w, 0, 1);
    wake(&mut w, 1, 1);
    assert_eq!(
        w.fetch(1),
        notification(kind::WAKE, 1, 0) | hnotify::OVF,
        "size 0 is one entry"
    );
}

#[test]
fn what_the_host_writes_into_the_ring_stays_a_notification() {
    let mut w = World::new();
    wake(&mut w, 0, 1);
    w.ram.set(queue_of(1), 0);
    assert_eq!(w.fetch(1), hnotify::V);
    wake(&mut w, 0, 1);
    w.ram.set(queue_of(1) + 8, !0);
    let fields = hnotify::V | hnotify::KIND | hnotify::DOM | hnotify::ID;
    assert_eq!(w.fetch(1), fields);
}
