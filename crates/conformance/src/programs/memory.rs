//! Structures in memory.

use super::prelude::*;

pub(super) const PROGRAMS: &[Program] = &[
    Program::new("file-is-the-record", &["MEM-1"], record),
    Program::new("nothing-outside-the-file", &["MEM-2"], nothing_outside).harts(2),
    Program::new("other-bits-stay", &["MEM-3"], other_bits),
    Program::new("sources-beyond", &["MEM-4"], beyond),
    Program::new(
        "software-changes-a-file",
        &["MEM-4", "DEL-12"],
        changed_by_software,
    ),
    Program::new("pmp-denies", &["MEM-5"], pmp_denies).needs(&[Need::Hypervisor, Need::Pmp]),
    Program::new("pmp-read-only", &["MEM-5", "MEM-6"], pmp_read_only)
        .needs(&[Need::Hypervisor, Need::Pmp]),
    Program::new("pmp-of-the-sender", &["MEM-5"], pmp_of_sender)
        .needs(&[Need::Hypervisor, Need::Pmp])
        .harts(2),
    Program::new("memory-fails", &["MEM-6", "NTF-1", "NTF-5"], memory_fails)
        .needs(&[Need::Hypervisor, Need::Absent]),
    Program::new("part-of-a-file-fails", &["MEM-6"], part_fails)
        .needs(&[Need::Hypervisor, Need::Pmp]),
    Program::new("own-tables", &["MEM-7"], own_tables).harts(2),
    Program::new("tables-in-turn", &["MEM-7"], tables_in_turn),
];

fn record(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.route(1, 70, EDGE);
    s.world();
    let (at, first, second) = (s.ctl(1, 0), s.pending(1, 0, 3), s.pending(1, 0, 70));
    let check = |s: &mut Script<'_>, soft: bool, sources: bool, text: &str| {
        s.sync();
        let word = |on, bits| if on { bits } else { 0 };
        s.expect_word(at, file::CTL_SOFT, word(soft, 1), &format!("{text}: SOFT"));
        s.expect_word(
            first,
            ALL,
            word(sources, bit(3)),
            &format!("{text}: source 3"),
        );
        s.expect_word(
            second,
            ALL,
            word(sources, bit(70)),
            &format!("{text}: source 70"),
        );
    };
    check(s, false, false, "at first");
    s.attach(1, 0);
    s.generate(op::SOFT, 1, 0);
    s.generate(op::EDGE, 1, 3);
    s.generate(op::EDGE, 1, 70);
    check(s, true, true, "loaded and posted to");
    s.guest(|s| {
        s.clear(std_csr::SIP, SS);
        s.expect_claim(3, "the first");
        s.expect_claim(70, "the second");
    });
    check(s, false, false, "taken");
    s.detach(state::STOPPED);
    s.generate(op::SOFT, 1, 0);
    s.generate(op::EDGE, 1, 3);
    s.generate(op::EDGE, 1, 70);
    check(s, true, true, "not loaded and posted to");
    let enable = s.enable(1, 0, 3);
    s.attach(1, 0);
    s.guest(|s| {
        s.guest_enables(3, false);
        s.guest_enables(5, true);
        s.guest_enables(0, true);
        s.guest_enables(SOURCES + 1, true);
    });
    let text = "enable bits are in the file, also without an entry of the source";
    s.expect_word(enable, ALL, bit(5), text);
    let enable = s.enable(1, 0, 70);
    s.expect_word(
        enable,
        ALL,
        bit(70),
        "sources beyond SOURCES are not enabled",
    );
}

fn nothing_outside(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.route(1, 4, LEVEL);
    s.world();
    s.attach(1, 0);
    s.generate(op::SOFT, 1, 0);
    s.generate(op::EDGE, 1, 3);
    s.generate(op::ASSERT, 1, 4);
    s.detach(state::STOPPED);
    let (pending, line) = (s.pending(1, 0, 3), s.line(1, 4));
    s.expect_word(
        pending,
        ALL,
        bit(3) | bit(4),
        "sources are in the file after the detach",
    );
    s.expect_word(line, ALL, bit(4), "lines are in the bitmap");
    // As if the vhart had been moved to another machine: the file says something else.
    s.store(pending, bit(4));
    let at = s.ctl(1, 0);
    s.store(at, 0);
    s.store(line, 0);
    s.on(1, |s| {
        s.attach(1, 0);
        s.expect(std_csr::VSIP, SE, "another hart has what the file holds");
        s.guest(|s| {
            s.expect_claim(4, "the file has this");
            s.write(csr::VSCLAIM, 4);
            s.expect_claim(0, "and nothing else");
        });
        s.detach(state::STOPPED);
    });
    s.attach(1, 0);
    s.expect(std_csr::VSIP, 0, "the first hart remembers nothing");
}

fn other_bits(s: &mut Script<'_>) {
    const OTHERS: u64 = !(file::CTL_HART | file::CTL_STATE | file::CTL_ON | file::CTL_SOFT);
    s.route(1, 3, LEVEL);
    s.route(1, 4, RESAMPLE);
    s.world();
    let (at, hart) = (s.ctl(1, 0), s.id(0));
    let (pending, enable) = (s.pending(1, 0, 3), s.enable(1, 0, 3));
    let (line, outstanding) = (s.line(1, 3), s.resample(1, 3));
    let marks = 0x5555_5555_5555_5500;
    s.amo(Amo::Or, at, OTHERS);
    for word in [pending, line, outstanding] {
        s.store(word, marks);
    }
    s.store(enable, marks);
    s.attach(1, 0);
    s.generate(op::SOFT, 1, 0);
    s.guest(|s| {
        s.clear(std_csr::SIP, SS);
        s.guest_enables(3, true);
        s.guest_enables(4, true);
        s.guest_enables(6, true);
        s.guest_enables(6, false);
    });
    s.generate(op::ASSERT, 1, 3);
    s.generate(op::ASSERT, 1, 4);
    s.sync();
    s.expect_word(
        pending,
        ALL,
        marks | bit(3) | bit(4),
        "posts leave other pending bits",
    );
    s.expect_word(
        enable,
        ALL,
        marks | bit(3) | bit(4),
        "vsenable leaves other enable bits",
    );
    s.expect_word(
        line,
        ALL,
        marks | bit(3) | bit(4),
        "ASSERT leaves other lines",
    );
    s.guest(|s| {
        s.expect_claim(3, "the first");
        s.expect_claim(4, "the second");
        s.write(csr::VSCLAIM, 4);
    });
    s.expect_word(pending, ALL, marks, "claims leave other pending bits");
    s.expect_word(line, ALL, marks | bit(3), "a completion leaves other lines");
    let text = "a completion leaves other outstanding resamples";
    s.expect_word(outstanding, ALL, marks | bit(4), text);
    s.generate(op::DEASSERT, 1, 3);
    s.detach(state::HALTED);
    s.generate(op::SOFT, 1, 0);
    s.sync();
    let want = OTHERS | ctl(state::HALTED, hart, file::CTL_ON | file::CTL_SOFT);
    s.expect_word_soon(at, ALL, want, "all operations on CTL leave its other bits");
    s.expect_word(line, ALL, marks, "DEASSERT leaves other lines");
}

fn beyond(s: &mut Script<'_>) {
    s.world();
    let last = SOURCES;
    for source in 1..=last {
        let at = s.source(1, source);
        s.init(at, EDGE.entry());
    }
    // Entries of sources that do not exist look valid.
    for source in [0, last + 1, 127, 128] {
        let at = s.source(1, source);
        s.init(at, EDGE.priority(7).entry());
    }
    let words = [0, 64, 128].map(|source| (s.pending(1, 0, source), s.enable(1, 0, source)));
    let exist = bit(last) | (bit(last) - 1);
    for ((pending, enable), bits) in words.into_iter().zip([1, !exist, ALL]) {
        s.init(pending, bits);
        s.init(enable, bits);
    }
    s.attach(1, 0);
    s.expect(
        std_csr::VSIP,
        0,
        "bits without a source are not deliverable",
    );
    s.guest(|s| s.expect_claim(0, "and are not claimed"));
    s.detach(state::HALTED);
    s.generate(op::EVAL, 1, 0);
    s.expect_no_notification("and nobody is told");
    for ((pending, _), bits) in words.into_iter().zip([1, !exist, ALL]) {
        s.expect_word(pending, ALL, bits, "they stay as they are");
    }
    s.generate(op::EDGE, 1, 0);
    s.generate(op::EDGE, 1, last + 1);
    s.attach(1, 0);
    let first = s.enable(1, 0, 1);
    s.store(first, ALL);
    s.generate(op::EDGE, 1, 2);
    s.guest(|s| {
        s.expect_claim(2, "a source that exists is claimed among them");
        s.expect_claim(0, "once");
    });
}

/// `EVAL` makes known what software has changed; nothing happens by itself.
fn changed_by_software(s: &mut Script<'_>) {
    s.route(1, 3, EDGE.priority(0));
    s.world();
    let entry = s.source(1, 3);
    let pending = s.pending(1, 0, 3);
    s.leave(1, 0, state::HALTED);
    s.generate(op::EDGE, 1, 3);
    s.store(entry, EDGE.entry());
    s.sync();
    s.expect_no_notification("a change of the priority tells nobody by itself");
    s.generate(op::EVAL, 1, 0);
    let text = "EVAL tells of it";
    s.expect_only_notification(notification(kind::WAKE, 1, 0), text);
    s.answer(1, 0);
    s.attach(1, 0);
    s.expect(std_csr::VSIP, SE, "an attach finds it");
    s.amo(Amo::And, pending, 0);
    s.generate(op::EVAL, 1, 0);
    s.expect_soon(
        std_csr::VSIP,
        SE,
        0,
        "EVAL takes notice of what is no longer pending",
    );
}

/// Denies S-mode the naturally aligned 1024 bytes at `addr`, but for `rights`.
fn protect(s: &mut Script<'_>, addr: u64, rights: u64) {
    // NAPOT of 1024 bytes; the second entry is everything else.
    s.write(std_csr::PMPADDR0, addr >> 2 | 0x7f);
    s.write(std_csr::PMPADDR0 + 1, ALL >> 10);
    s.write(std_csr::PMPCFG0, 0x18 | rights | 0x1f << 8);
    s.a.sfence_vma(0, 0);
    s.sync();
}

fn pmp_denies(s: &mut Script<'_>) {
    s.world();
    let (file, at, hart) = (s.file(1, 1), s.ctl(1, 1), s.id(0));
    s.attach(1, 0);
    protect(s, file, 0);
    s.attach(1, 1);
    s.expect(
        csr::HIFMAP,
        0,
        "a file that HS-mode may not access is not attached",
    );
    s.expect_soon(
        csr::HTLCFG,
        htlcfg::FLT,
        htlcfg::FLT,
        "the access has failed",
    );
    s.expect_word(at, ALL, 0, "and nothing was stored");
    s.write(csr::HTLCFG, htlcfg::EN | htlcfg::FLT);
    s.expect_bits(
        csr::HTLCFG,
        htlcfg::FLT,
        htlcfg::FLT,
        "writing 1 leaves FLT",
    );
    s.write(csr::HTLCFG, htlcfg::EN);
    s.expect_bits(csr::HTLCFG, htlcfg::FLT, 0, "writing 0 clears FLT");
    s.generate(op::SOFT, 1, 1);
    s.expect_soon(csr::HTLCFG, htlcfg::FLT, htlcfg::FLT, "a post fails, too");
    s.expect_word(at, ALL, 0, "and stores nothing");
    s.write(csr::HTLCFG, htlcfg::EN);
    protect(s, file, 3);
    s.generate(op::SOFT, 1, 1);
    s.attach(1, 1);
    let want = ctl(state::LOADED, hart, file::CTL_SOFT);
    s.expect_word(at, ALL, want, "with permission it is accessed");
    s.expect_bits(csr::HTLCFG, htlcfg::FLT, 0, "and nothing fails");
}

/// An AMO needs permission to write, a load does not.
fn pmp_read_only(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    let (file, at, hart) = (s.file(1, 0), s.ctl(1, 0), s.id(0));
    s.attach(1, 0);
    s.generate(op::SOFT, 1, 0);
    s.generate(op::EDGE, 1, 3);
    protect(s, file, 1);
    s.generate(op::EVAL, 1, 0);
    s.sync();
    s.expect_still(std_csr::VSIP, SS | SE, SS | SE, "a poke only reads");
    s.expect_bits(csr::HTLCFG, htlcfg::FLT, 0, "and has not failed");
    s.guest(|s| {
        s.write(csr::VSTHRESHOLD, 7);
        s.swap(csr::VSTHRESHOLD, 5);
        s.compare(ALL, 0, "an instruction whose AMO fails reads 0");
        s.guest_enables(3, false);
        s.expect_claim(0, "a claim needs permission to write");
    });
    s.expect_soon(csr::HTLCFG, htlcfg::FLT, htlcfg::FLT, "these have failed");
    let (pending, enable) = (s.pending(1, 0, 3), s.enable(1, 0, 3));
    s.expect_word(pending, ALL, bit(3), "nothing was claimed");
    s.expect_word(enable, ALL, bit(3), "nothing was disabled");
    s.expect_word(file + file::THRESHOLD, ALL, 0, "the threshold is as before");
    let want = ctl(state::LOADED, hart, file::CTL_SOFT);
    s.expect_word(at, ALL, want, "CTL is as before");
}

fn pmp_of_sender(s: &mut Script<'_>) {
    s.world();
    let (file, at) = (s.file(1, 1), s.ctl(1, 1));
    protect(s, file, 0);
    s.on(1, |s| {
        s.generate(op::SOFT, 1, 1);
        s.sync();
        s.expect_still(csr::HTLCFG, htlcfg::FLT, 0, "another hart may access it");
    });
    s.expect_word(at, file::CTL_SOFT, file::CTL_SOFT, "and does");
    s.store(at, 0);
    s.generate(op::SOFT, 1, 1);
    s.expect_soon(
        csr::HTLCFG,
        htlcfg::FLT,
        htlcfg::FLT,
        "the hart that may not fails",
    );
    s.expect_word(at, ALL, 0, "and posts nothing");
    s.on(1, |s| {
        s.expect_still(
            csr::HTLCFG,
            htlcfg::FLT,
            0,
            "the other hart has caused no failure",
        );
    });
}

fn memory_fails(s: &mut Script<'_>) {
    let absent = s.platform().absent.unwrap_or_default();
    s.world();
    let fails = |s: &mut Script<'_>, text: &str| {
        s.expect_soon(csr::HTLCFG, htlcfg::FLT, htlcfg::FLT, text);
        s.write(csr::HTLCFG, htlcfg::EN);
        s.expect(csr::HTLCFG, VERSION | htlcfg::EN, "FLT is cleared");
    };
    let entry = s.domain(1);
    let (tables, vharts, sources) = (s.tables(), s.vhart(1, 0), s.source(1, 0));
    s.write(csr::HVTABLEBASE, hvtablebase::V | absent | TABLE_SIZE);
    s.expect_no_exception("a failed access raises no exception", |s| {
        s.generate(op::SOFT, 1, 0);
        s.sync();
        s.settle();
    });
    fails(s, "a domain table where no memory is");
    s.write(csr::HVTABLEBASE, tables);
    s.store(entry + domain::VHART_TABLE, absent);
    s.sync();
    s.generate(op::SOFT, 1, 0);
    fails(s, "a vhart table where no memory is");
    s.store(entry + domain::VHART_TABLE, vharts);
    s.store(entry + domain::SOURCE_TABLE, absent);
    s.sync();
    s.generate(op::EDGE, 1, 3);
    fails(s, "a source table where no memory is");
    s.store(entry + domain::SOURCE_TABLE, sources);
    let at = s.source(1, 3);
    s.store(at, EDGE.entry());
    s.store(entry + domain::LINES, absent);
    s.sync();
    s.generate(op::ASSERT, 1, 3);
    fails(s, "lines where no memory is");
    let pending = s.pending(1, 0, 3);
    s.expect_word(
        pending,
        ALL,
        0,
        "an ASSERT whose line cannot be changed ends there",
    );
    s.write(csr::HNQBASE, hnqbase::EN | absent | 2);
    s.leave(1, 1, state::HALTED);
    s.generate(op::SOFT, 1, 1);
    let text = "an overflow keeps the interrupt pending";
    s.expect_soon(std_csr::MIP, NOTIFY, NOTIFY, text);
    let text = "a notification that cannot be stored is an overflow";
    s.expect_notification(hnotify::OVF, text);
    fails(s, "a queue where no memory is");
    let at = s.ctl(1, 1);
    s.expect_word(at, file::CTL_ON, file::CTL_ON, "ON stays set");
}

/// What cannot be read of a file counts as 0.
fn part_fails(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    let file = s.file(1, 0);
    s.attach(1, 0);
    s.generate(op::SOFT, 1, 0);
    s.generate(op::EDGE, 1, 3);
    s.expect(std_csr::VSIP, SS | SE, "both are pending");
    // Bitmaps are in the first half of a file, CTL and THRESHOLD in the second.
    protect_half(s, file);
    s.generate(op::EVAL, 1, 0);
    let text = "bitmaps that cannot be read count as 0, SOFT is what it is";
    s.expect_soon(std_csr::VSIP, SS | SE, SS, text);
    s.expect_soon(csr::HTLCFG, htlcfg::FLT, htlcfg::FLT, "and FLT is set");
    s.guest(|s| s.expect_claim(0, "nothing is claimed"));
    protect(s, file, 7);
    s.generate(op::EVAL, 1, 0);
    s.expect_soon(std_csr::VSIP, SS | SE, SS | SE, "nothing is lost");
    protect_half(s, file + 512);
    s.guest(|s| {
        s.expect_claim(0, "without THRESHOLD no source can be claimed");
        s.expect_bits(std_csr::SIP, SE, 0, "nor is one deliverable");
    });
    protect(s, file, 7);
    s.guest(|s| s.expect_claim(3, "with permission it can"));
}

/// Denies S-mode the naturally aligned 512 bytes at `addr`.
fn protect_half(s: &mut Script<'_>, addr: u64) {
    s.write(std_csr::PMPADDR0, addr >> 2 | 0x3f);
    s.write(std_csr::PMPADDR0 + 1, ALL >> 10);
    s.write(std_csr::PMPCFG0, 0x18 | 0x1f << 8);
    s.a.sfence_vma(0, 0);
    s.sync();
}

/// Each hart uses the table that its own register names.
fn own_tables(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    let at = s.ctl(1, 0);
    s.write(csr::HVTABLEBASE, 0);
    s.generate(op::SOFT, 1, 0);
    s.sync();
    s.expect_word(at, ALL, 0, "a hart without a table posts nothing");
    s.expect_bits(csr::HTLCFG, htlcfg::FLT, 0, "which is no failure");
    s.on(1, |s| {
        s.generate(op::SOFT, 1, 0);
        s.sync();
    });
    s.expect_word(at, ALL, file::CTL_SOFT, "another hart uses its own table");
    // Accesses of a guest to its file use the table of the hart whose slot it is.
    s.on(1, |s| {
        s.attach(1, 0);
        s.guest(|s| {
            s.expect(std_csr::SIP, SS, "the guest's file is found");
            s.clear(std_csr::SIP, SS);
        });
        s.detach(state::STOPPED);
    });
    s.expect_word(at, file::CTL_SOFT, 0, "and changed");
}

/// What instructions before a write of `hvtablebase` have caused uses the old table, what later
/// ones cause the new one.
fn tables_in_turn(s: &mut Script<'_>) {
    s.world();
    let tables = s.tables();
    // A table of one entry does not have domain 1.
    let small = tables & !hvtablebase::SIZE;
    let files = [1, 2, 3].map(|vhart| s.ctl(1, vhart));
    let own = s.ctl(1, 0);
    s.attach(1, 0);
    s.repeat(20, |s| {
        for at in files {
            s.store(at, 0);
        }
        s.guest(|s| s.write(csr::SGENIPI, 0b1110));
        s.write(csr::HVTABLEBASE, small);
        s.sync();
        for at in files {
            s.expect_word(
                at,
                file::CTL_SOFT,
                file::CTL_SOFT,
                "the posts have the old table",
            );
        }
        for at in files {
            s.store(at, 0);
        }
        s.generate(op::SOFT, 1, 1);
        s.sync();
        s.expect_word(files[0], ALL, 0, "a later post has the new one");
        s.write(csr::HVTABLEBASE, tables);
    });
    s.write(csr::HVTABLEBASE, 0);
    s.store(own, 0x1234);
    s.write(csr::HTLCFG, 0);
    s.expect(csr::HIFMAP, 0, "taking a hart over: the slot is invalid");
    s.expect_word(own, ALL, 0x1234, "and no file was written");
}
