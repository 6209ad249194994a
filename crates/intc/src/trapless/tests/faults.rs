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

/// An AMO needs permission to write even if it leaves the word as it is (MEM-5).
#[test]
fn an_atomic_operation_that_changes_nothing_fails_where_it_must_not_write() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    w.route(1, 65, RESAMPLE);
    w.ram.protect(lines_of(1) + 8);
    w.vs(0, csr::VSCLAIM, 65);
    assert!(failed(&mut w, 0));
    assert_eq!(w.fetch(0), 0, "the line could not become 0");
    w.ram.protect(file_of(1, 0) + file::THRESHOLD);
    let threshold = w.access(0, Mode::VS, csr::VSTHRESHOLD, CsrOp::Read);
    assert_eq!(threshold, Ok(0));
    w.hs(0, csr::HTLCFG, htlcfg::EN);
    w.vs(0, csr::VSTHRESHOLD, 0);
    assert!(failed(&mut w, 0));
}

/// One word of a file with an error does not hide what the others hold, and a claim returns
/// something if and only if `vsip.SEIP` is 1 (MEM-6).
#[test]
fn a_word_of_a_file_that_cannot_be_read_counts_as_zero() {
    let mut w = World::new();
    w.attach(0, 1, 0);
    for number in [3, 65] {
        w.route(1, number, EDGE);
        w.generate(0, op::EDGE, 1, number);
    }
    for (lost, found) in [(3, 65), (65, 3)] {
        w.ram.lose(word(1, 0, file::ENABLE, lost));
        w.generate(0, op::EVAL, 1, 0);
        assert_ne!(w.level(0) & EXTERNAL, 0);
        assert_eq!(w.claim(0), u64::from(found));
        assert_eq!(w.level(0) & EXTERNAL, 0);
        w.generate(0, op::EDGE, 1, found);
    }
}
