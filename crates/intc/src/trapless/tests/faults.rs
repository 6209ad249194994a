//! Memory that the controller cannot access (MEM-6, NTF-5).

use trapless_isa::Mode;
use trapless_isa::xtrapless::{
    csr, domain, file, hnotify, hnqbase, htlcfg, kind, op, state, vhart,
};

use super::world::*;
use crate::CsrOp;

/// Beyond the end of RAM, aligned to everything.
const NOWHERE: u64 = RAM + RAM_SIZE;

fn failed(w: &mut World, hart: usize) -> bool {
    w.hs_read(hart, csr::HTLCFG) & htlcfg::FLT != 0
}

#[test]
fn a_failed_access_is_reported_at_the_hart_that_caused_it() {
    // Each makes another step of a post fail; the last one that of a claim.
    let breakages: [fn(&World); 4] = [
        |w| w.ram.set(domain_entry(1) + domain::VHART_TABLE, NOWHERE),
        |w| w.ram.set(domain_entry(1) + domain::SOURCE_TABLE, NOWHERE),
        |w| w.ram.set(domain_entry(1) + domain::LINES, NOWHERE),
        |w| w.ram.set(vhart_table(1), vhart::ENTRY_V | NOWHERE),
    ];
    for (i, breaks) in breakages.into_iter().enumerate() {
        let mut w = World::new();
        w.route(1, 3, LEVEL);
        w.attach(1, 1, 0);
        w.generate(0, op::ASSERT, 1, 3);
        breaks(&w);
        assert!(!failed(&mut w, 0) && !failed(&mut w, 1));
        w.generate(2, op::DEASSERT, 1, 3);
        w.generate(2, op::ASSERT, 1, 3);
        assert!(failed(&mut w, 2), "breakage {i}");
        assert!(!failed(&mut w, 0) && !failed(&mut w, 1), "breakage {i}");
    }
}

/// What a store would have recorded did not happen: no later step may act as if it had.
#[test]
fn an_operation_ends_at_the_store_that_fails() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    w.route(1, 65, RESAMPLE);
    w.generate(1, op::ASSERT, 1, 65);
    assert_eq!(w.claim(0), 65);
    w.route(1, 3, LEVEL);
    w.generate(1, op::ASSERT, 1, 3);
    w.ram.set(domain_entry(1) + domain::LINES, NOWHERE);
    w.generate(1, op::DEASSERT, 1, 3);
    assert!(w.pending(1, 0, 3) && failed(&mut w, 1));
    w.vs(0, csr::VSCLAIM, 65);
    assert_eq!((w.level(0) & NOTIFY, w.fetch(0)), (0, 0));
    assert!(failed(&mut w, 0));
}

#[test]
fn the_report_stays_until_software_clears_it() {
    let mut w = World::new();
    w.hs(0, csr::HNQBASE, hnqbase::EN | NOWHERE);
    w.set_ctl(1, 0, ctl(state::HALTED, 0, 0));
    w.generate(1, op::SOFT, 1, 0);
    assert!(failed(&mut w, 1));
    w.generate(1, op::SOFT, 1, 1);
    w.hs(1, csr::HTLCFG, htlcfg::EN | htlcfg::FLT);
    assert!(failed(&mut w, 1), "writing 1 leaves it");
    w.hs(1, csr::HTLCFG, htlcfg::EN);
    assert!(!failed(&mut w, 1));
    w.hs(1, csr::HTLCFG, htlcfg::EN | htlcfg::FLT);
    assert!(!failed(&mut w, 1), "writing 1 does not set it");
}

#[test]
fn what_does_not_exist_is_no_failed_access() {
    let mut w = World::new();
    for (domain, id) in [(0, 0), (9, 0), (1, VHARTS - 1), (1, VHARTS), (1, u16::MAX)] {
        w.generate(0, op::SOFT, domain, id);
        w.generate(0, op::EVAL, domain, id);
    }
    for source in [0, 1, SOURCES + 1, u16::MAX] {
        w.generate(0, op::EDGE, 1, source);
    }
    w.attach(0, 1, 0);
    assert_eq!(w.claim(0), 0);
    assert!(!failed(&mut w, 0));
}

/// A vhart whose notification could not be stored must not stay silent: the host learns that
/// something was lost, and finds the vhart by its `ON`.
#[test]
fn a_notification_that_cannot_be_stored_counts_as_overflow() {
    let mut w = World::new();
    w.hs(1, csr::HNQBASE, hnqbase::EN | NOWHERE | QUEUE_SIZE);
    w.set_ctl(1, 0, ctl(state::HALTED, 1, 0));
    w.generate(0, op::SOFT, 1, 0);
    assert_eq!(w.level(1), NOTIFY);
    assert_ne!(w.ctl(1, 0) & file::CTL_ON, 0);
    assert_eq!(w.fetch(1), hnotify::OVF);
    assert_eq!((w.level(1), w.fetch(1)), (0, 0));
}

#[test]
fn a_notification_that_cannot_be_read_counts_as_overflow() {
    let mut w = World::new();
    w.set_ctl(1, 0, ctl(state::HALTED, 1, 0));
    w.generate(0, op::SOFT, 1, 0);
    w.ram.lose(queue_of(1));
    let read = w.access(1, Mode::HS, csr::HNOTIFY, CsrOp::Read);
    assert_eq!(read, Ok(hnotify::OVF));
    assert!(failed(&mut w, 1));
    w.ram.lose(0);
    // What comes next is not affected.
    w.set_ctl(1, 1, ctl(state::HALTED, 1, 0));
    w.generate(0, op::SOFT, 1, 1);
    assert_eq!(w.fetch(1), notification(kind::WAKE, 1, 1));
}
