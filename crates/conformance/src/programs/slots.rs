//! Slots.

use trapless_asm::reg::{A0, T0, T1};

use super::prelude::*;

pub(super) const PROGRAMS: &[Program] = &[
    Program::new("attach-another", &["SLOT-1"], attach_another),
    Program::new("attach-refused", &["SLOT-2"], refused),
    Program::new("attach-no-memory", &["SLOT-2", "MEM-6"], no_memory)
        .needs(&[Need::Hypervisor, Need::Absent]),
    Program::new("attach", &["SLOT-3"], attach),
    Program::new("attach-no-arrival", &["SLOT-4"], no_arrival),
    Program::new("attach-again", &["SLOT-4", "SLOT-5"], again),
    Program::new("detach", &["SLOT-6"], detach),
    Program::new("detach-halted", &["SLOT-6"], detach_halted),
    Program::new("detach-loaded", &["SLOT-7"], detach_loaded),
    Program::new("detach-keeps-latches", &["SLOT-8"], keeps_latches),
    Program::new("two-slots", &["SLOT-9"], two_slots).harts(2),
];

fn attach_another(s: &mut Script<'_>) {
    s.world();
    let hart = s.id(0);
    let (first, second) = (s.ctl(1, 0), s.ctl(2, 0));
    s.attach(1, 0);
    s.generate(op::SOFT, 1, 0);
    s.attach(2, 0);
    s.expect(csr::HIFMAP, slot(2, 0), "the other vhart is in the slot");
    let want = ctl(state::PREEMPTED, hart, file::CTL_SOFT);
    s.expect_word(first, ALL, want, "the former is PREEMPTED");
    s.expect_word(
        second,
        ALL,
        ctl(state::LOADED, hart, 0),
        "the other is LOADED",
    );
    s.expect(std_csr::VSIP, 0, "vsip is that of the other");
    s.generate(op::SOFT, 1, 0);
    let text = "posts to the former miss";
    s.expect_only_notification(notification(kind::YIELD, 1, 0), text);
    s.attach(2, 1);
    s.expect_word(
        second,
        ALL,
        ctl(state::PREEMPTED, hart, 0),
        "the same within a domain",
    );
}

fn refused(s: &mut Script<'_>) {
    // What lies beyond the tables looks valid.
    let entry = s.domain(4);
    s.init(entry + domain::CONFIG, config(VHARTS, SOURCES));
    s.init(entry + domain::VHART_TABLE, s.vhart(1, 0));
    s.init(s.vhart(1, 5), vhart::ENTRY_V | s.file(1, 5));
    s.world();
    let (at, hart) = (s.ctl(1, 0), s.id(0));
    for (operand, what) in [
        (slot(3, 0), "a domain with V=0"),
        (slot(4, 0), "a domain beyond the table"),
        (slot(0xffff, 0), "a domain far beyond the table"),
        (slot(1, 4), "a vhart without a valid entry"),
        (slot(1, 5), "a vhart beyond VHARTS"),
        (slot(1, 0xffff), "a vhart far beyond VHARTS"),
    ] {
        s.write(csr::HIFMAP, operand);
        s.expect(csr::HIFMAP, 0, &format!("{what}: the slot stays invalid"));
        s.attach(1, 0);
        s.write(csr::HIFMAP, operand);
        s.expect(csr::HIFMAP, 0, &format!("{what}: the slot becomes invalid"));
        let text = format!("{what}: the vhart that it held is PREEMPTED");
        s.expect_word(at, ALL, ctl(state::PREEMPTED, hart, 0), &text);
    }
    s.attach(1, 0);
    s.write(csr::HTLCFG, 0);
    s.expect(csr::HIFMAP, 0, "clearing EN detaches");
    s.expect_word(at, ALL, ctl(state::PREEMPTED, hart, 0), "as PREEMPTED");
    s.attach(1, 0);
    s.expect(csr::HIFMAP, 0, "with EN=0 nothing is attached");
    s.expect_word(
        at,
        ALL,
        ctl(state::PREEMPTED, hart, 0),
        "and no file is changed",
    );
    s.write(csr::HTLCFG, htlcfg::EN);
    s.write(csr::HVTABLEBASE, s.tables() & !hvtablebase::V);
    s.attach(1, 0);
    s.expect(csr::HIFMAP, 0, "without a table nothing is attached");
}

fn no_memory(s: &mut Script<'_>) {
    let absent = s.platform().absent.unwrap_or_default();
    s.world();
    let (at, hart, entry) = (s.ctl(1, 0), s.id(0), s.vhart(1, 1));
    s.store(entry, vhart::ENTRY_V | absent);
    s.sync();
    s.attach(1, 0);
    s.attach(1, 1);
    s.expect(
        csr::HIFMAP,
        0,
        "a file that cannot be changed leaves the slot invalid",
    );
    s.expect_word(
        at,
        ALL,
        ctl(state::PREEMPTED, hart, 0),
        "the former vhart is PREEMPTED",
    );
    s.expect_soon(csr::HTLCFG, htlcfg::FLT, htlcfg::FLT, "and FLT is set");
    s.expect_still(std_csr::VSIP, SS | SE, 0, "and vsip shows nothing");
}

fn attach(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    let (at, hart) = (s.ctl(1, 0), s.id(0));
    s.store(
        at,
        ctl(state::HALTED, 0xffff, file::CTL_SOFT | file::CTL_ON),
    );
    s.generate(op::EDGE, 1, 3);
    s.sync();
    s.attach(1, 0);
    s.expect(csr::HIFMAP, slot(1, 0), "the slot is valid");
    s.expect(
        std_csr::VSIP,
        SS | SE,
        "vsip shows at once what the file holds",
    );
    let want = ctl(state::LOADED, hart, file::CTL_SOFT | file::CTL_ON);
    s.expect_word(
        at,
        ALL,
        want,
        "CTL: LOADED, the hart, SOFT and ON as they were",
    );
    s.expect_no_notification("an attach tells nobody");
}

fn no_arrival(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.generate(op::SOFT, 1, 0);
    s.generate(op::EDGE, 1, 3);
    s.sync();
    s.attach(1, 0);
    s.expect(std_csr::VSIP, SS | SE, "both are pending");
    s.expect_still(std_csr::HIP, VSS | VSE, 0, "an attach sets no latch");
    s.generate(op::EVAL, 1, 0);
    s.expect_still(
        std_csr::HIP,
        VSS | VSE,
        0,
        "nor does a poke that finds the same",
    );
}

fn again(s: &mut Script<'_>) {
    s.world();
    let (at, hart) = (s.ctl(1, 0), s.id(0));
    s.attach(1, 0);
    s.amo(Amo::Or, at, file::CTL_SOFT | file::CTL_ON);
    s.attach(1, 0);
    s.expect(std_csr::VSIP, SS, "the file is read again");
    let want = ctl(state::LOADED, hart, file::CTL_SOFT | file::CTL_ON);
    s.expect_word(at, ALL, want, "the vhart stays LOADED");
    s.expect_still(std_csr::HIP, VSS, 0, "which is no arrival");
    s.expect_no_notification("and nobody is told");
}

fn detach(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    let (at, hart) = (s.ctl(1, 0), s.id(0));
    for (left, on, name) in [
        (state::STOPPED, 0, "STOPPED"),
        (state::PREEMPTED, 0, "PREEMPTED"),
        (state::STOPPED, file::CTL_ON, "STOPPED with ON"),
        (state::PREEMPTED, file::CTL_ON, "PREEMPTED with ON"),
    ] {
        s.attach(1, 0);
        s.generate(op::SOFT, 1, 0);
        s.generate(op::EDGE, 1, 3);
        s.amo(Amo::Or, at, on);
        s.detach(left);
        s.expect(csr::HIFMAP, 0, &format!("{name}: the slot is invalid"));
        let text = format!("{name}: vsip does not depend on the file");
        s.expect(std_csr::VSIP, 0, &text);
        let text = format!("{name}: what was pending before is not told");
        s.expect_no_notification(&text);
        let want = ctl(left, hart, file::CTL_SOFT | on);
        let text = format!("{name}: CTL keeps HART, SOFT and ON");
        s.expect_word(at, ALL, want, &text);
        s.amo(Amo::And, at, !file::CTL_ON);
    }
    s.detach(state::HALTED);
    let want = ctl(state::PREEMPTED, hart, file::CTL_SOFT);
    s.expect_word(at, ALL, want, "a detach of an invalid slot does nothing");
    s.expect_no_notification("and tells nobody");
}

fn detach_halted(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.route_only(1, 4, EDGE);
    s.world();
    let (at, hart) = (s.ctl(1, 0), s.id(0));
    let wake = notification(kind::WAKE, 1, 0);
    s.attach(1, 0);
    s.generate(op::EDGE, 1, 4);
    s.detach(state::HALTED);
    s.expect_no_notification("HALTED with nothing deliverable");
    s.expect_word(at, ALL, ctl(state::HALTED, hart, 0), "CTL");
    for (operation, id) in [(op::SOFT, 0), (op::EDGE, 3)] {
        s.attach(1, 0);
        s.generate(operation, 1, id);
        s.detach(state::HALTED);
        let text = format!("HALTED with something deliverable, operation {operation}");
        s.expect_only_notification(wake, &text);
        let mask = !file::CTL_SOFT;
        s.expect_word(
            at,
            mask,
            ctl(state::HALTED, hart, file::CTL_ON),
            "CTL has ON",
        );
        s.attach(1, 0);
        s.detach(state::HALTED);
        s.expect_no_notification("not again while ON is 1");
        s.amo(Amo::And, at, !(file::CTL_ON | file::CTL_SOFT));
    }
}

fn detach_loaded(s: &mut Script<'_>) {
    s.world();
    let (at, hart) = (s.ctl(1, 0), s.id(0));
    s.attach(1, 0);
    s.detach(state::LOADED);
    s.expect(csr::HIFMAP, 0, "the slot is invalid");
    s.expect_word(
        at,
        ALL,
        ctl(state::PREEMPTED, hart, 0),
        "LOADED acts as PREEMPTED",
    );
}

fn keeps_latches(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.attach(1, 0);
    s.generate(op::SOFT, 1, 0);
    s.generate(op::EDGE, 1, 3);
    s.expect_soon(std_csr::HIP, VSS | VSE, VSS | VSE, "both latches are set");
    s.detach(state::STOPPED);
    s.expect_still(std_csr::HIP, VSS | VSE, VSS | VSE, "a detach leaves them");
    s.attach(1, 1);
    s.expect_still(std_csr::HIP, VSS | VSE, VSS | VSE, "and so does an attach");
}

/// What holds although software must not do this: one of the harts is hit, and nobody is told.
fn two_slots(s: &mut Script<'_>) {
    s.world();
    s.attach(1, 0);
    s.on(1, |s| s.attach(1, 0));
    s.generate(op::SOFT, 1, 0);
    s.sync();
    let (first, second) = (s.word(0), s.word(1));
    s.settle();
    for (hart, word) in [(0, first), (1, second)] {
        s.on(hart, |s| {
            s.a.csrr(A0, std_csr::VSIP).li(T0, word).sd(A0, T0, 0);
        });
    }
    s.load(first);
    s.a.li(T0, second).ld(T1, T0, 0).or(A0, A0, T1);
    s.compare(SS, SS, "a lookup hits one of the harts");
    s.expect_no_notification("and does not miss");
    let at = s.ctl(1, 0);
    s.expect_word(at, file::CTL_ON, 0, "ON stays 0");
}
