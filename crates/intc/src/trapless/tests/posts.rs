//! Posts with hit and miss, lines of sources, EVAL, grants.

use trapless_isa::Mode;
use trapless_isa::xtrapless::{
    csr, file, hgrant, hnqbase, htlcfg, kind, op, sgenipi, source, state, ugenvsei, vhart,
};

use super::world::*;
use crate::{CsrFault, CsrOp, StepKind};

#[test]
fn hit_raises_the_line_and_arrives_once() {
    let mut w = World::new();
    w.attach(2, 1, 3);
    w.steps();
    w.take_changed();
    w.generate(0, op::SOFT, 1, 3);
    assert_eq!(w.take_changed(), 1 << 2);
    let (first, second) = (w.lines(2), w.lines(2));
    assert_eq!((first.level, first.arrived), (SOFT, SOFT));
    assert_eq!((second.level, second.arrived), (SOFT, 0));
    // Pending already: posted and looked up, but nothing rises.
    w.generate(0, op::SOFT, 1, 3);
    assert_eq!(w.lines(2).arrived, 0);
    let steps = |merged| {
        [
            StepKind::PostSoft { vhart: 3, merged },
            StepKind::Hit { vhart: 3, on: 2 },
        ]
    };
    assert_eq!(w.steps(), [steps(false), steps(true)].concat());
    assert_eq!(w.ctl(1, 3), ctl(state::LOADED, 2, file::CTL_SOFT));
    assert_eq!(w.level(0) | w.level(1), 0);
}

#[test]
fn guest_ipi_reaches_each_vhart_of_its_mask() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    w.attach(1, 1, 1);
    w.vs(0, csr::SGENIPI, 0b111);
    assert_eq!((w.level(0), w.level(1)), (SOFT, SOFT));
    assert_eq!(w.ctl(1, 2), ctl(state::STOPPED, 0, file::CTL_SOFT));
    assert_eq!(w.ctl(1, 3), 0);
    // Base and mask beyond the vharts that exist.
    let before = w.ram.words();
    w.vs(0, csr::SGENIPI, sgenipi::BASE | sgenipi::MASK);
    w.vs(
        0,
        csr::SGENIPI,
        u64::from(VHARTS - 1) << sgenipi::BASE_SHIFT | sgenipi::MASK,
    );
    assert_eq!(w.ram.words(), before);
}

/// What a miss does to a vhart last run on hart 2, if hart 0 posts.
#[test]
fn miss_notifies_as_the_state_says() {
    let cases = [
        (state::STOPPED, None),
        (state::LOADED, None),
        (state::HALTED, Some(kind::WAKE)),
        (state::PREEMPTED, Some(kind::YIELD)),
    ];
    for (state, want) in cases {
        let mut w = World::new();
        w.set_ctl(1, 1, ctl(state, 2, 0));
        w.generate(0, op::SOFT, 1, 1);
        let soft = file::CTL_SOFT;
        match want {
            None => {
                assert_eq!(
                    w.ctl(1, 1),
                    ctl(state, 2, soft),
                    "ON is for notifications only"
                );
                assert_eq!(w.steps()[1..], [StepKind::Silent { vhart: 1 }]);
            }
            Some(kind) => {
                assert_eq!(w.ctl(1, 1), ctl(state, 2, soft | file::CTL_ON));
                assert_eq!(w.level(2), NOTIFY);
                assert_eq!(w.fetch(2), notification(kind, 1, 1));
                assert_eq!(w.level(2), 0);
            }
        }
        for hart in 0..HARTS {
            assert_eq!(w.fetch(hart), 0);
        }
    }
}

#[test]
fn one_notification_is_outstanding_until_on_is_cleared() {
    let mut w = World::new();
    w.set_ctl(1, 1, ctl(state::HALTED, 2, 0));
    for _ in 0..3 {
        w.generate(0, op::SOFT, 1, 1);
        w.generate(1, op::SOFT, 1, 1);
    }
    assert_eq!(w.fetch(2), notification(kind::WAKE, 1, 1));
    assert_eq!(w.fetch(2), 0);
    // Taking the notification is not enough: the host clears ON before it wakes the vCPU.
    w.generate(0, op::SOFT, 1, 1);
    assert_eq!(w.fetch(2), 0);
    w.set_ctl(1, 1, w.ctl(1, 1) & !file::CTL_ON);
    w.generate(0, op::SOFT, 1, 1);
    assert_eq!(w.fetch(2), notification(kind::WAKE, 1, 1));
    // Attach and detach leave it alone.
    w.attach(0, 1, 1);
    w.detach(0, state::PREEMPTED);
    w.generate(1, op::SOFT, 1, 1);
    assert_eq!(w.fetch(1), 0);
    w.set_ctl(1, 1, w.ctl(1, 1) & !file::CTL_ON);
    w.generate(1, op::SOFT, 1, 1);
    assert_eq!(w.fetch(0), notification(kind::YIELD, 1, 1));
}

#[test]
fn any_takes_turns_over_harts_with_queues() {
    let mut w = World::new();
    w.hs(1, csr::HNQBASE, 0);
    w.hs(0, csr::HTLCFG, htlcfg::EN | htlcfg::ANY);
    for (vhart, to) in [(0, 0), (1, 2), (2, 0), (3, 2)] {
        w.set_ctl(1, vhart, ctl(state::HALTED, 1, 0));
        w.generate(0, op::SOFT, 1, vhart);
        assert_eq!(w.fetch(to), notification(kind::WAKE, 1, vhart));
    }
    // The setting is that of the sender's hart.
    w.set_ctl(1, 0, ctl(state::HALTED, 2, 0));
    w.generate(1, op::SOFT, 1, 0);
    assert_eq!(w.fetch(2), notification(kind::WAKE, 1, 0));
}

#[test]
fn without_queue_the_lowest_hart_with_one_is_notified() {
    let mut w = World::new();
    w.hs(0, csr::HNQBASE, 0);
    // Hart 7 does not exist.
    for last in [0, 7, 0xffff] {
        w.set_ctl(1, 1, ctl(state::HALTED, last, 0));
        w.generate(0, op::SOFT, 1, 1);
        assert_eq!(w.fetch(1), notification(kind::WAKE, 1, 1));
    }
    w.hs(1, csr::HNQBASE, 0);
    w.hs(2, csr::HNQBASE, 0);
    for any in [0, htlcfg::ANY] {
        w.hs(0, csr::HTLCFG, htlcfg::EN | any);
        w.set_ctl(1, 1, ctl(state::HALTED, 0, 0));
        w.steps();
        w.generate(0, op::SOFT, 1, 1);
        let unheard = file::CTL_SOFT | file::CTL_ON;
        assert_eq!(w.ctl(1, 1), ctl(state::HALTED, 0, unheard));
        assert_eq!(w.steps()[1..], [StepKind::Silent { vhart: 1 }]);
    }
}

#[test]
fn a_source_that_cannot_be_delivered_pends_without_notification() {
    type Prepare = fn(&mut World);
    let cases: [(bool, Prepare); 4] = [
        (true, |w| w.route(1, 66, EDGE)),
        (false, |w| w.route_only(1, 66, EDGE)),
        (false, |w| {
            let priority = 0;
            w.route(1, 66, Routing { priority, ..EDGE });
        }),
        (false, |w| {
            w.route(1, 66, EDGE);
            w.ram.set(file_of(1, 0) + file::THRESHOLD, 1);
        }),
    ];
    for (i, (notified, prepare)) in cases.into_iter().enumerate() {
        let mut w = World::new();
        prepare(&mut w);
        w.set_ctl(1, 0, ctl(state::HALTED, 1, 0));
        w.generate(0, op::EDGE, 1, 66);
        assert!(w.pending(1, 0, 66), "case {i}");
        assert_eq!(w.fetch(1) != 0, notified, "case {i}");
        w.attach(0, 1, 0);
        assert_eq!(w.level(0) == EXTERNAL, notified, "case {i}");
    }
}

#[test]
fn posts_to_what_does_not_exist_change_nothing() {
    let mut w = World::new();
    // Source 5 goes to a vhart whose entry is not valid, source 6 to one beyond the domain.
    for (number, vhart) in [(5, VHARTS - 1), (6, VHARTS), (SOURCES + 1, 0), (0, 0)] {
        w.route_only(1, number, Routing { vhart, ..LEVEL });
    }
    // The entry of a source counts only with V.
    let entry = source_table(1) + 7 * source::SIZE;
    w.ram.set(entry, source::ENTRY_LEVEL | source::ENTRY_PRIO);
    let before = w.ram.words();
    for op in [op::EDGE, op::DEASSERT, op::ASSERT] {
        for id in [0, 7, SOURCES + 1, 1023, 1024, 0xffff] {
            w.generate(0, op, 1, id);
        }
        w.generate(0, op, 0, 1);
        w.generate(0, op, 0xffff, 1);
    }
    for id in [5, 6] {
        w.generate(0, op::EDGE, 1, id);
    }
    for op in [op::SOFT, op::EVAL, op::SYNC, 6, 15] {
        for id in [VHARTS - 1, VHARTS, 0xffff] {
            w.generate(0, op, 1, id);
        }
        w.generate(0, op, 3, 0);
    }
    assert_eq!(w.ram.words(), before);
    assert!(
        w.steps()
            .iter()
            .all(|step| matches!(step, StepKind::Lowered { .. }))
    );
    // Outside RAM.
    w.ram.set(vhart_table(1), vhart::ENTRY_V);
    let before = w.ram.words();
    w.generate(0, op::SOFT, 1, 0);
    assert_eq!(w.ram.words(), before);
}

#[test]
fn a_line_pends_when_it_rises_and_no_more_when_it_falls() {
    let mut w = World::new();
    w.route(1, 8, LEVEL);
    w.attach(1, 1, 0);
    w.generate(0, op::ASSERT, 1, 8);
    assert!(w.line(1, 8) && w.pending(1, 0, 8));
    assert_eq!(w.lines(1).arrived, EXTERNAL);
    assert_eq!(w.claim(1), 8);
    // High already: the claim is not undone.
    w.generate(0, op::ASSERT, 1, 8);
    assert!(!w.pending(1, 0, 8));
    assert_eq!(w.level(1), 0);
    w.generate(0, op::DEASSERT, 1, 8);
    assert!(!w.line(1, 8));
    w.generate(0, op::ASSERT, 1, 8);
    assert_eq!(w.level(1), EXTERNAL);
    w.take_changed();
    w.steps();
    w.generate(0, op::DEASSERT, 1, 8);
    assert!(!w.line(1, 8) && !w.pending(1, 0, 8));
    assert_eq!(
        w.level(1),
        0,
        "the hart is notified that nothing is pending any more"
    );
    assert!(w.take_changed() & 1 << 1 != 0);
    assert_eq!(w.steps(), [StepKind::Lowered { source: 8 }]);
}

#[test]
fn an_edge_survives_the_fall_of_its_line() {
    let mut w = World::new();
    w.route(1, 8, EDGE);
    w.generate(0, op::ASSERT, 1, 8);
    w.generate(0, op::DEASSERT, 1, 8);
    assert!(!w.line(1, 8) && w.pending(1, 0, 8));
}

#[test]
fn edge_leaves_the_line_alone() {
    let mut w = World::new();
    w.route(1, 8, LEVEL);
    w.generate(0, op::EDGE, 1, 8);
    assert!(!w.line(1, 8) && w.pending(1, 0, 8));
}

#[test]
fn eval_notifies_only_if_something_can_be_delivered() {
    for (state, kind) in [(state::HALTED, kind::WAKE), (state::PREEMPTED, kind::YIELD)] {
        let mut w = World::new();
        w.route(1, 8, EDGE);
        w.set_ctl(1, 0, ctl(state, 2, 0));
        w.generate(0, op::EVAL, 1, 0);
        assert_eq!((w.ctl(1, 0), w.steps()), (ctl(state, 2, 0), vec![]));
        // The host puts it there without a post, as it does on a change of affinity.
        w.ram.set(word(1, 0, file::PENDING, 8), 1 << 8);
        w.generate(0, op::EVAL, 1, 0);
        assert_eq!(w.fetch(2), notification(kind, 1, 0));
        w.set_ctl(1, 0, ctl(state, 2, file::CTL_SOFT));
        w.ram.set(word(1, 0, file::PENDING, 8), 0);
        w.generate(0, op::EVAL, 1, 0);
        assert_eq!(w.fetch(2), notification(kind, 1, 0));
    }
}

#[test]
fn eval_of_a_loaded_vhart_makes_its_hart_look() {
    let mut w = World::new();
    w.route(1, 8, EDGE);
    w.attach(1, 1, 0);
    w.ram.set(word(1, 0, file::PENDING, 8), 1 << 8);
    assert_eq!(w.level(1), 0);
    w.generate(0, op::EVAL, 1, 0);
    assert_eq!(w.lines(1).arrived, EXTERNAL);
    w.ram.set(word(1, 0, file::PENDING, 8), 0);
    w.generate(0, op::EVAL, 1, 0);
    assert_eq!(w.level(1), 0);
}

fn grant(domain: u16, first: u16, count: u64) -> u64 {
    hgrant::V
        | u64::from(domain) << hgrant::DOM_SHIFT
        | count << hgrant::COUNT_SHIFT
        | u64::from(first)
}

#[test]
fn ugenvsei_reaches_the_granted_sources_of_the_granted_domain() {
    for mode in [Mode::U, Mode::HS, Mode::M] {
        let mut w = World::new();
        for number in 1..=SOURCES {
            w.route(1, number, EDGE);
            w.route(2, number, EDGE);
        }
        let send = |w: &mut World, op: u64, id: u64| {
            let value = op << ugenvsei::OP_SHIFT | id;
            w.access(0, mode, csr::UGENVSEI, CsrOp::Write(value))
        };
        assert_eq!(send(&mut w, op::EDGE, 10), Err(CsrFault::Illegal));
        w.hs(0, csr::HGRANT, grant(2, 10, 3));
        for id in 0..=SOURCES {
            let inside = (10..13).contains(&id);
            let done = send(&mut w, op::EDGE, u64::from(id));
            assert_eq!(
                done,
                if inside {
                    Ok(0)
                } else {
                    Err(CsrFault::Illegal)
                }
            );
            assert_eq!(w.pending(2, 0, id), inside);
            assert!(!w.pending(1, 0, id));
        }
        for op in [op::SOFT, op::EVAL, op::SYNC, 15] {
            assert_eq!(send(&mut w, op, 10), Err(CsrFault::Illegal));
        }
        assert_eq!(send(&mut w, op::ASSERT, 11), Ok(0));
        assert!(w.line(2, 11));
        // The grant is the hart's, and ends.
        let other = w.access(1, mode, csr::UGENVSEI, CsrOp::Write(10));
        assert_eq!(other, Err(CsrFault::Illegal));
        w.hs(0, csr::HGRANT, grant(2, 0xffff, 0xffff));
        assert_eq!(send(&mut w, op::EDGE, 0xfffe), Err(CsrFault::Illegal));
        assert_eq!(send(&mut w, op::EDGE, 0xffff), Ok(0), "no such source");
        w.hs(0, csr::HGRANT, grant(2, 10, 3) & !hgrant::V);
        assert_eq!(send(&mut w, op::EDGE, 10), Err(CsrFault::Illegal));
    }
}

#[test]
fn ugenvsei_notifies_like_any_post() {
    let mut w = World::new();
    w.route(2, 10, EDGE);
    w.set_ctl(2, 0, ctl(state::HALTED, 1, 0));
    w.hs(0, csr::HGRANT, grant(2, 10, 1));
    w.access(0, Mode::U, csr::UGENVSEI, CsrOp::Write(10))
        .unwrap();
    assert_eq!(w.fetch(1), notification(kind::WAKE, 2, 0));
    let steps = w.take_steps();
    let post = StepKind::PostSource {
        vhart: 0,
        source: 10,
        merged: false,
    };
    let posted = steps.iter().find(|step| step.kind == post).unwrap();
    assert_eq!((posted.hart, posted.mode, posted.domain), (0, Mode::U, 2));
    // Domain, source table and entry, vhart table and entry, pending word.
    assert_eq!(posted.memory, 6);
}

#[test]
fn host_ipi_pulses_each_hart_of_its_mask_once() {
    let mut w = World::new();
    for mode in [Mode::HS, Mode::M] {
        let send = |w: &mut World, value| {
            w.access(0, mode, csr::SGENIPI, CsrOp::Write(value))
                .unwrap();
        };
        // Harts 1 and 2, and many that do not exist.
        send(&mut w, 1 << sgenipi::BASE_SHIFT | sgenipi::MASK);
        send(&mut w, sgenipi::BASE | sgenipi::MASK);
        let ipi = 1 << 1;
        let pulses: Vec<_> = (0..HARTS).map(|hart| w.lines(hart).pulse).collect();
        assert_eq!(pulses, [0, ipi, ipi]);
        assert_eq!(w.lines(1).pulse, 0);
        assert_eq!(w.take_changed(), 0b110);
        assert_eq!(
            w.steps(),
            [StepKind::HartIpi { to: 1 }, StepKind::HartIpi { to: 2 }]
        );
    }
}

#[test]
fn nothing_happens_without_memory() {
    use super::super::Trapless;
    let mut w = World::new();
    w.intc = Trapless::new(config(true));
    w.hs(0, csr::HTLCFG, htlcfg::EN);
    w.hs(0, csr::HVTABLEBASE, 1 << 63 | RAM | 2);
    w.hs(0, csr::HNQBASE, hnqbase::EN | queue_of(0));
    w.hs(0, csr::HIFMAP, slot(1, 0));
    assert_eq!(w.hs_read(0, csr::HIFMAP), 0);
    w.generate(0, op::SOFT, 1, 0);
    assert_eq!((w.level(0), w.fetch(0)), (0, 0));
}
