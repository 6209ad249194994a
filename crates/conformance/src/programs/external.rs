//! External interrupts of a domain.

use trapless_asm::reg::{A0, T0, T1, ZERO};

use super::prelude::*;
use crate::layout::context;
use crate::script::{TP, xor};

pub(super) const PROGRAMS: &[Program] = &[
    Program::new("lines-level", &["EXT-1"], level_lines),
    Program::new("lines-edge", &["EXT-1"], edge_lines),
    Program::new("lines-in-order", &["EXT-1"], lines_in_order),
    Program::new("deassert-against-completion", &["EXT-2"], deassert_races).harts(2),
    Program::new("claim-order", &["EXT-3"], claim_order),
    Program::new("claim-threshold", &["EXT-3"], claim_threshold),
    Program::new("claim-priorities", &["EXT-4"], claim_priorities),
    Program::new("claim-once", &["EXT-5", "PROP-3"], claim_once),
    Program::new(
        "claim-once-against-posts",
        &["EXT-5", "PROP-3"],
        claim_races,
    )
    .harts(2),
    Program::new("complete-anybody", &["EXT-6"], complete_anybody),
    Program::new("complete-resample", &["EXT-7", "NTF-10"], complete_resample),
    Program::new(
        "complete-resample-elsewhere",
        &["EXT-7"],
        resample_elsewhere,
    )
    .harts(2),
    Program::new("complete-level", &["EXT-8"], complete_level),
    Program::new("complete-edge", &["EXT-9"], complete_edge),
    Program::new("move-source", &["EXT-10"], move_source),
    Program::new("complete-and-claim", &["EXT-11"], complete_and_claim),
    Program::new("claim-interrupted", &["EXT-11", "CSR-4"], claim_interrupted)
        .needs(&[Need::Hypervisor, Need::Sstc]),
];

fn level_lines(s: &mut Script<'_>) {
    s.route(1, 3, LEVEL);
    s.world();
    s.attach(1, 0);
    let (line, pending) = (s.line(1, 3), s.pending(1, 0, 3));
    let both = |s: &mut Script<'_>, high: bool, posted: bool, text: &str| {
        s.sync();
        let word = |on| if on { bit(3) } else { 0 };
        s.expect_word(line, ALL, word(high), &format!("{text}: line"));
        s.expect_word(pending, ALL, word(posted), &format!("{text}: pending"));
        let vsip = if posted { SE } else { 0 };
        s.expect_soon(std_csr::VSIP, SE, vsip, &format!("{text}: vsip"));
    };
    s.generate(op::EDGE, 1, 3);
    both(s, false, true, "EDGE posts and leaves the line");
    s.generate(op::ASSERT, 1, 3);
    both(s, true, true, "ASSERT of what is pending");
    s.amo(Amo::And, pending, 0);
    s.generate(op::EVAL, 1, 0);
    s.generate(op::ASSERT, 1, 3);
    both(s, true, false, "ASSERT of a high line does not post");
    s.generate(op::EDGE, 1, 3);
    both(s, true, true, "EDGE posts whatever the line is");
    s.generate(op::DEASSERT, 1, 3);
    both(
        s,
        false,
        false,
        "DEASSERT lowers the line and takes the post back",
    );
    s.generate(op::ASSERT, 1, 3);
    both(s, true, true, "ASSERT of a low line posts");
    s.generate(op::DEASSERT, 1, 3);
    s.generate(op::DEASSERT, 1, 3);
    both(s, false, false, "DEASSERT of a low line");
}

fn edge_lines(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.attach(1, 0);
    let (line, pending) = (s.line(1, 3), s.pending(1, 0, 3));
    s.generate(op::ASSERT, 1, 3);
    s.sync();
    s.expect_word(line, ALL, bit(3), "ASSERT raises the line");
    s.expect_word(pending, ALL, bit(3), "ASSERT posts");
    s.guest(|s| s.expect_claim(3, "the guest claims"));
    s.generate(op::ASSERT, 1, 3);
    s.sync();
    s.expect_word(pending, ALL, 0, "ASSERT of a high line does not post");
    s.generate(op::DEASSERT, 1, 3);
    s.generate(op::ASSERT, 1, 3);
    s.generate(op::DEASSERT, 1, 3);
    s.sync();
    s.expect_word(line, ALL, 0, "DEASSERT lowers the line");
    s.expect_word(pending, ALL, bit(3), "what is pending stays so");
    s.guest(|s| {
        s.expect_claim(3, "and is claimed");
        s.expect_claim(0, "once");
    });
}

/// LIT-15.
fn lines_in_order(s: &mut Script<'_>) {
    s.route(1, 3, LEVEL);
    s.world();
    s.write(csr::HGRANT, grant(1, 3, 1));
    let (line, pending) = (s.line(1, 3), s.pending(1, 0, 3));
    let (assert, deassert) = (op::ASSERT << 60 | 3, op::DEASSERT << 60 | 3);
    s.repeat(50, |s| {
        s.in_mode(Mode::U, |s| {
            s.write(csr::UGENVSEI, deassert);
            s.write(csr::UGENVSEI, assert);
        });
        s.expect_word(line, ALL, bit(3), "DEASSERT, then ASSERT: the line");
        s.expect_word(pending, ALL, bit(3), "DEASSERT, then ASSERT: pending");
        s.generate(op::ASSERT, 1, 3);
        s.generate(op::DEASSERT, 1, 3);
        s.expect_word(line, ALL, 0, "ASSERT, then DEASSERT: the line");
        s.expect_word(pending, ALL, 0, "ASSERT, then DEASSERT: pending");
    });
}

fn deassert_races(s: &mut Script<'_>) {
    s.route(1, 3, LEVEL);
    s.world();
    let (line, pending) = (s.line(1, 3), s.pending(1, 0, 3));
    s.on(1, |s| s.attach(1, 0));
    s.repeat(100, |s| {
        s.generate(op::ASSERT, 1, 3);
        s.start(1, |s| {
            s.guest(|s| {
                s.read(csr::VSCLAIM);
                s.write(csr::VSCLAIM, 3);
            });
        });
        s.stagger(0xff);
        s.generate(op::DEASSERT, 1, 3);
        s.generate(op::ASSERT, 1, 3);
        s.wait(1);
        s.sync();
        s.expect_word(line, ALL, bit(3), "the line is that of the last ASSERT");
        // What the guest has claimed since is completed with a high line.
        s.on(1, |s| {
            s.guest(|s| s.write(csr::VSCLAIM, 3));
            s.fence();
        });
        s.expect_word(pending, ALL, bit(3), "the last ASSERT is not lost");
        s.generate(op::DEASSERT, 1, 3);
        s.sync();
        s.expect_word(pending, ALL, 0, "DEASSERT alone takes it back");
    });
}

fn claim_order(s: &mut Script<'_>) {
    let sources = [
        (1, 2),
        (2, 5),
        (9, 5),
        (63, 7),
        (64, 7),
        (65, 1),
        (69, 5),
        (70, 2),
    ];
    for (source, priority) in sources {
        s.route(1, source, EDGE.priority(priority));
    }
    s.route_only(1, 20, EDGE.priority(7));
    s.world();
    s.attach(1, 0);
    for (source, _) in sources {
        s.generate(op::EDGE, 1, source);
    }
    s.generate(op::EDGE, 1, 20);
    s.sync();
    s.guest(|s| {
        for source in [63, 64, 2, 9, 69, 1, 70, 65] {
            s.expect_bits(std_csr::SIP, SE, SE, "more is pending");
            s.expect_claim(source, "by priority, then by number");
        }
        s.expect_bits(std_csr::SIP, SE, 0, "nothing is left");
        s.expect_claim(0, "what is not enabled is not claimed");
    });
    let pending = s.pending(1, 0, 20);
    s.expect_word(pending, ALL, bit(20), "and stays pending");
    let pending = s.pending(1, 0, 64);
    s.expect_word(pending, ALL, 0, "what is claimed is pending no more");
}

fn claim_threshold(s: &mut Script<'_>) {
    s.route(1, 3, EDGE.priority(3));
    s.route(1, 4, EDGE.priority(4));
    s.route(1, 5, EDGE.priority(7));
    s.world();
    s.attach(1, 0);
    s.guest(|s| s.write(csr::VSTHRESHOLD, 3));
    s.generate(op::EDGE, 1, 3);
    s.expect_bits(std_csr::VSIP, SE, 0, "the priority is the threshold: vsip");
    s.guest(|s| s.expect_claim(0, "the priority is the threshold: claim"));
    s.generate(op::EDGE, 1, 4);
    s.expect_bits(
        std_csr::VSIP,
        SE,
        SE,
        "the priority is above the threshold: vsip",
    );
    s.guest(|s| {
        s.expect_claim(4, "the priority is above the threshold: claim");
        s.expect_claim(0, "the other is not claimed");
        s.write(csr::VSTHRESHOLD, 7);
    });
    s.generate(op::EDGE, 1, 5);
    s.expect_bits(std_csr::VSIP, SE, 0, "threshold 7 masks everything");
    s.guest(|s| {
        s.write(csr::VSTHRESHOLD, 0);
        s.expect_claim(5, "threshold 0: the highest priority");
        s.expect_claim(3, "threshold 0: the lowest");
    });
}

fn claim_priorities(s: &mut Script<'_>) {
    for source in [3, 4, 5] {
        s.route(1, source, EDGE.priority(source));
    }
    s.world();
    s.attach(1, 0);
    for source in [3, 4, 5] {
        s.generate(op::EDGE, 1, source);
    }
    let entries = [3, 4, 5].map(|source| s.source(1, source));
    s.store(entries[0], EDGE.priority(7).vhart(2).entry());
    s.store(entries[2], EDGE.priority(7).entry() & !(1 << 63));
    s.sync();
    s.guest(|s| {
        let text = "by the priority at the time of the claim, whatever vhart the entry names";
        s.expect_claim(3, text);
        s.expect_claim(4, "the next");
        s.expect_claim(0, "a source without a valid entry has priority 0");
    });
    s.expect_bits(std_csr::VSIP, SE, 0, "and does not show");
    let pending = s.pending(1, 0, 5);
    s.expect_word(pending, ALL, bit(5), "it stays pending");
    s.store(entries[2], EDGE.entry());
    s.sync();
    s.generate(op::EVAL, 1, 0);
    s.guest(|s| s.expect_claim(5, "and is claimed when the entry is valid"));
}

fn claim_once(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.attach(1, 0);
    s.generate(op::EDGE, 1, 3);
    s.generate(op::EDGE, 1, 3);
    s.guest(|s| {
        s.expect_claim(3, "two posts of one source merge");
        s.expect_claim(0, "and are claimed once");
    });
    s.generate(op::EDGE, 1, 3);
    s.guest(|s| {
        s.expect_claim(3, "a later post is claimed, before the source is completed");
        s.write(csr::VSCLAIM, 3);
        s.expect_claim(0, "completing claims nothing");
    });
}

fn claim_races(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    let pending = s.pending(1, 0, 3);
    let claimed = s.word(0);
    s.on(1, |s| s.attach(1, 0));
    s.repeat(100, |s| {
        s.store(claimed, 0);
        s.start(1, |s| {
            s.guest(|s| {
                s.repeat(8, |s| {
                    s.read(csr::VSCLAIM);
                    // Word += (a0 == 3).
                    s.a.addi(A0, A0, -3).sltiu(A0, A0, 1);
                    s.a.li(T0, claimed).amoadd(ZERO, A0, T0);
                });
            });
        });
        s.stagger(0xff);
        s.generate(op::EDGE, 1, 3);
        s.wait(1);
        s.sync();
        // Claimed once, or pending still.
        s.load(pending);
        s.a.srli(A0, A0, 3).andi(A0, A0, 1);
        s.a.li(T0, claimed).ld(T1, T0, 0).add(A0, A0, T1);
        s.compare(ALL, 1, "one post is claimed once, or stays pending");
        s.on(1, |s| {
            s.guest(|s| {
                s.read(csr::VSCLAIM);
            });
        });
        s.expect_word(pending, ALL, 0, "a last claim takes it");
    });
}

fn complete_anybody(s: &mut Script<'_>) {
    s.route(1, 3, LEVEL.vhart(1));
    s.route(2, 3, LEVEL.vhart(0));
    s.world();
    let pending = s.pending(1, 1, 3);
    s.generate(op::ASSERT, 1, 3);
    s.generate(op::ASSERT, 2, 3);
    s.sync();
    s.amo(Amo::And, pending, 0);
    let other = s.pending(2, 0, 3);
    s.amo(Amo::And, other, 0);
    s.attach(1, 0);
    s.guest(|s| {
        s.write(csr::VSCLAIM, 0);
        s.write(csr::VSCLAIM, 4);
        s.write(csr::VSCLAIM, SOURCES + 1);
        s.write(csr::VSCLAIM, 0xffff);
        s.write(csr::VSCLAIM, 3);
    });
    s.sync();
    let text = "a vhart that neither claimed it nor is named completes it: posted again";
    s.expect_word(pending, ALL, bit(3), text);
    s.expect_word(other, ALL, 0, "in its own domain only");
    let own = s.pending(1, 0, 3);
    s.expect_word(own, ALL, 0, "to the vhart of the entry only");
}

fn complete_resample(s: &mut Script<'_>) {
    s.route(1, 3, RESAMPLE);
    s.route(
        1,
        4,
        Source {
            level: false,
            ..RESAMPLE
        },
    );
    s.world();
    let (line, outstanding, pending) = (s.line(1, 3), s.resample(1, 3), s.pending(1, 0, 3));
    s.attach(1, 0);
    for source in [3, 4] {
        let told = notification(kind::RESAMPLE, 1, source);
        s.generate(op::ASSERT, 1, source);
        s.guest(|s| {
            s.expect_claim(source, "the guest claims");
            s.write(csr::VSCLAIM, source);
        });
        s.expect_only_notification(told, "the host is told of the completion");
        s.expect_word(line, ALL, 0, "the line is low");
        s.expect_word(pending, ALL, 0, "it is not posted again");
        s.expect_word(outstanding, ALL, bit(source), "it is outstanding");
        s.generate(op::ASSERT, 1, source);
        s.guest(|s| {
            s.expect_claim(source, "an ASSERT after the completion posts");
            s.write(csr::VSCLAIM, source);
        });
        s.expect_no_notification("the host is not told again while it is outstanding");
        s.expect_word(line, ALL, 0, "the line is low again");
        s.amo(Amo::And, outstanding, !bit(source));
        s.guest(|s| s.write(csr::VSCLAIM, source));
        s.expect_only_notification(told, "after software has cleared the bit it is");
        s.amo(Amo::And, outstanding, 0);
    }
}

fn resample_elsewhere(s: &mut Script<'_>) {
    s.route(1, 3, RESAMPLE);
    s.world();
    let outstanding = s.resample(1, 3);
    let told = notification(kind::RESAMPLE, 1, 3);
    s.on(1, |s| {
        s.attach(1, 0);
        s.guest(|s| s.write(csr::VSCLAIM, 3));
        s.expect_only_notification(told, "the notification is for the hart of the guest");
    });
    s.expect_no_notification("and for no other");
    s.amo(Amo::And, outstanding, 0);
    s.on(1, |s| {
        s.write(csr::HNQBASE, 0);
        s.guest(|s| s.write(csr::VSCLAIM, 3));
    });
    s.expect_only_notification(told, "another queue takes the place of one that is closed");
    s.amo(Amo::And, outstanding, 0);
    let queue = s.queue_base(0);
    s.write(csr::HNQBASE, 0);
    s.on(1, |s| s.guest(|s| s.write(csr::VSCLAIM, 3)));
    s.sync();
    s.expect_word_soon(
        outstanding,
        ALL,
        bit(3),
        "with no queue open the bit stays set",
    );
    s.write(csr::HNQBASE, queue);
    s.expect_no_notification("and nobody is told");
}

fn complete_level(s: &mut Script<'_>) {
    s.route(1, 3, LEVEL);
    s.world();
    let (line, pending) = (s.line(1, 3), s.pending(1, 0, 3));
    s.attach(1, 0);
    s.generate(op::ASSERT, 1, 3);
    s.guest(|s| {
        s.expect_claim(3, "the guest claims");
        s.expect_claim(0, "it is not pending before its completion");
        s.write(csr::VSCLAIM, 3);
        s.expect_bits(std_csr::SIP, SE, SE, "its line is high: posted again");
        s.expect_claim(3, "and claimed again");
    });
    s.expect_word(line, ALL, bit(3), "the line stays high");
    s.generate(op::DEASSERT, 1, 3);
    s.guest(|s| {
        s.write(csr::VSCLAIM, 3);
        s.expect_claim(0, "its line is low: not posted again");
    });
    s.expect_word(pending, ALL, 0, "nor pending");
    // To the vhart that the entry names now.
    s.generate(op::ASSERT, 1, 3);
    s.guest(|s| s.expect_claim(3, "claimed before the source moves"));
    s.leave(1, 1, state::HALTED);
    let enable = s.enable(1, 1, 3);
    s.store(enable, bit(3));
    let entry = s.source(1, 3);
    s.store(entry, LEVEL.vhart(1).entry());
    s.sync();
    s.attach(1, 0);
    s.guest(|s| s.write(csr::VSCLAIM, 3));
    let text = "posted to the vhart that the entry names now, with all steps";
    s.expect_only_notification(notification(kind::WAKE, 1, 1), text);
    let pending = s.pending(1, 1, 3);
    s.expect_word(pending, ALL, bit(3), "pending there");
}

fn complete_edge(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    let (line, pending) = (s.line(1, 3), s.pending(1, 0, 3));
    s.attach(1, 0);
    s.generate(op::ASSERT, 1, 3);
    s.guest(|s| {
        s.expect_claim(3, "the guest claims");
        s.write(csr::VSCLAIM, 3);
        s.expect_claim(0, "the completion of an edge posts nothing");
    });
    s.expect_word(line, ALL, bit(3), "its line stays high");
    s.expect_word(pending, ALL, 0, "nothing is pending");
    s.expect_no_notification("nobody is told");
}

fn move_source(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    let entry = s.source(1, 3);
    s.generate(op::EDGE, 1, 3);
    s.store(entry, EDGE.vhart(2).entry());
    s.sync();
    let (old, new) = (s.pending(1, 0, 3), s.pending(1, 2, 3));
    s.expect_word(old, ALL, bit(3), "what is pending stays in the old file");
    s.expect_word(new, ALL, 0, "and is not in the new one");
    s.generate(op::EDGE, 1, 3);
    s.sync();
    s.expect_word(new, ALL, bit(3), "posts that follow use the new entry");
    s.attach(1, 0);
    s.guest(|s| s.expect_claim(3, "the old vhart can claim what it has"));
    s.store(entry, 0);
    s.sync();
    s.generate(op::EDGE, 1, 3);
    s.sync();
    s.expect_word(old, ALL, 0, "a source that is removed is not posted");
}

fn complete_and_claim(s: &mut Script<'_>) {
    s.route(1, 3, LEVEL);
    s.route(1, 4, EDGE);
    s.world();
    s.attach(1, 0);
    s.generate(op::ASSERT, 1, 3);
    s.generate(op::EDGE, 1, 4);
    s.guest(|s| {
        s.expect_claim(3, "the first");
        s.swap(csr::VSCLAIM, 3);
        s.compare(ALL, 3, "completed first: it is pending again, and claimed");
    });
    s.generate(op::DEASSERT, 1, 3);
    s.guest(|s| {
        s.swap(csr::VSCLAIM, 3);
        s.compare(ALL, 4, "completed first: its line is low");
        s.swap(csr::VSCLAIM, 4);
        s.compare(ALL, 0, "nothing is left");
        s.expect_bits(std_csr::SIP, SE, 0, "and sip says so");
    });
}

/// A guest that claims in a loop, interrupted by the host's timer at many places: each post is
/// claimed once.
fn claim_interrupted(s: &mut Script<'_>) {
    const TIMER: u64 = 1 << 5;
    for source in 1..=SOURCES {
        s.route(1, source, EDGE);
    }
    s.world();
    let (claimed, posted) = (s.word(0), s.word(1));
    s.attach(1, 0);
    s.continue_after_interrupts();
    s.repeat(200, |s| {
        for source in [1, 64, 70] {
            s.generate(op::EDGE, 1, source);
        }
        s.sync();
        // The timer comes after some passes.
        s.a.csrr(A0, std_csr::TIME).ld(T1, TP, context::LOOPS);
        s.a.andi(T1, T1, 15).add(A0, A0, T1);
        s.a.csrw(std_csr::STIMECMP, A0);
        s.write(std_csr::SIE, TIMER);
        s.guest(|s| {
            s.repeat(10, |s| {
                s.read(csr::VSCLAIM);
                // Word += (a0 != 0).
                s.a.sltiu(A0, A0, 1).li(T1, 1).word(xor(A0, A0, T1));
                s.a.li(T0, claimed).amoadd(ZERO, A0, T0);
            });
        });
        s.write(std_csr::STIMECMP, ALL);
        s.amo(Amo::Add, posted, 3);
        s.load(posted);
        s.a.li(T0, claimed).ld(T1, T0, 0).word(xor(A0, A0, T1));
        s.compare(ALL, 0, "each post is claimed once");
    });
}
