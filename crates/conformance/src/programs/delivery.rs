//! Posting and lookup.

use trapless_asm::reg::{A0, S0, S1, T0, ZERO};

use super::prelude::*;

pub(super) const PROGRAMS: &[Program] = &[
    Program::new("post-soft", &["DEL-1"], post_soft),
    Program::new("post-source", &["DEL-2"], post_source),
    Program::new("priority-0", &["DEL-3"], priority_zero),
    Program::new("post-twice", &["DEL-4"], post_twice),
    Program::new("lookup-hits", &["DEL-5", "DEL-6"], hit).harts(2),
    Program::new("poke-reads-the-slot", &["DEL-6", "PROP-2"], poke_of_other).harts(2),
    Program::new("poke-without-slot", &["DEL-6", "DEL-9"], poke_without_slot),
    Program::new("arrivals", &["DEL-7"], arrivals),
    Program::new("miss-not-deliverable", &["DEL-8"], not_deliverable),
    Program::new("miss", &["DEL-9"], miss),
    Program::new("miss-at-last-hart", &["DEL-9", "SLOT-3"], at_last_hart).harts(2),
    Program::new("any-queue", &["DEL-10"], any_queue).harts(2),
    Program::new("queue-closed", &["DEL-11"], queue_closed).harts(2),
    Program::new("no-queue", &["DEL-11", "NTF-9"], no_queue),
    Program::new("eval", &["DEL-12"], eval),
    Program::new("sync", &["DEL-13", "ORD-11"], sync),
];

fn post_soft(s: &mut Script<'_>) {
    s.world();
    for (domain, vhart) in [(1, 0), (1, 3), (2, 1)] {
        s.generate(op::SOFT, domain, vhart);
        s.sync();
        let at = s.ctl(domain, vhart);
        s.expect_word(at, ALL, file::CTL_SOFT, "hgenvsi sets SOFT of any vhart");
    }
    for (domain, vhart) in [(1, 4), (1, 5), (1, 0xffff), (0, 0), (3, 0), (4, 0)] {
        s.generate(op::SOFT, domain, vhart);
    }
    s.sync();
    for (domain, vhart) in [(1, 1), (1, 2), (1, 4), (2, 0), (2, 2), (2, 3)] {
        let at = s.ctl(domain, vhart);
        s.expect_word(at, ALL, 0, "no other vhart is posted to");
    }
    s.attach(2, 1);
    s.guest(|s| s.write(csr::SGENIPI, 0b1101));
    s.sync();
    for (vhart, want) in [
        (0, file::CTL_SOFT),
        (2, file::CTL_SOFT),
        (3, file::CTL_SOFT),
    ] {
        let at = s.ctl(2, vhart);
        s.expect_word(
            at,
            file::CTL_SOFT,
            want,
            "sgenipi posts in the writer's domain",
        );
    }
    let at = s.ctl(1, 2);
    s.expect_word(at, ALL, 0, "and in no other");
    s.expect_no_notification("vharts that are STOPPED make no notification");
}

fn post_source(s: &mut Script<'_>) {
    s.route(1, 3, EDGE.vhart(2));
    s.route(1, 70, EDGE.vhart(1));
    s.route(1, 5, LEVEL.vhart(1));
    s.route(2, 3, EDGE.vhart(0));
    s.world();
    let posted = |s: &mut Script<'_>, domain, vhart, source, text: &str| {
        s.sync();
        let at = s.pending(domain, vhart, source);
        s.expect_word(at, bit(source), bit(source), text);
    };
    s.generate(op::EDGE, 1, 3);
    posted(s, 1, 2, 3, "EDGE posts to the vhart that the entry names");
    let other = s.pending(2, 0, 3);
    s.expect_word(other, ALL, 0, "and not in another domain");
    s.generate(op::EDGE, 1, 70);
    posted(s, 1, 1, 70, "EDGE of the highest source");
    s.generate(op::ASSERT, 1, 5);
    posted(s, 1, 1, 5, "ASSERT posts");
    s.write(csr::HGRANT, grant(2, 3, 1));
    s.write(csr::UGENVSEI, 3);
    posted(s, 2, 0, 3, "ugenvsei posts in the domain of the grant");
    for (domain, vhart) in [(1, 0), (1, 3), (2, 1), (2, 2)] {
        for source in [0, 64] {
            let at = s.pending(domain, vhart, source);
            s.expect_word(at, ALL, 0, "nothing is posted to other vharts");
        }
    }
    s.generate(op::EDGE, 1, 0);
    s.generate(op::EDGE, 1, 4);
    s.generate(op::EDGE, 1, 71);
    s.generate(op::EDGE, 3, 3);
    s.sync();
    let at = s.pending(1, 1, 70);
    s.expect_word(at, ALL, bit(70), "sources that do not exist are ignored");
    let at = s.pending(1, 0, 4);
    s.expect_word(at, ALL, 0, "sources without a valid entry are ignored");
}

fn priority_zero(s: &mut Script<'_>) {
    s.route(1, 3, EDGE.priority(0));
    s.world();
    s.leave(1, 0, state::HALTED);
    s.generate(op::EDGE, 1, 3);
    s.sync();
    let at = s.pending(1, 0, 3);
    s.expect_word(at, ALL, bit(3), "a source of priority 0 is posted");
    s.expect_no_notification("it is not deliverable");
    s.attach(1, 0);
    s.expect(std_csr::VSIP, 0, "vsip does not show it");
    s.guest(|s| s.expect_claim(0, "it cannot be claimed"));
    let entry = s.source(1, 3);
    s.store(entry, EDGE.entry());
    s.sync();
    s.generate(op::EVAL, 1, 0);
    s.expect_soon(std_csr::VSIP, SE, SE, "with a priority it is deliverable");
    s.guest(|s| s.expect_claim(3, "and can be claimed"));
}

fn post_twice(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.leave(1, 0, state::HALTED);
    let (ctl_word, pending) = (s.ctl(1, 0), s.pending(1, 0, 3));
    let hart = s.id(0);
    for (operation, id) in [(op::SOFT, 0), (op::EDGE, 3)] {
        for pass in 0..2 {
            s.generate(operation, 1, id);
            let text = format!("operation {operation}, time {pass}: the steps take place");
            s.expect_notification(notification(kind::WAKE, 1, 0), &text);
            // Neither STOPPED nor anything taken.
            s.amo(Amo::And, ctl_word, !file::CTL_ON);
        }
    }
    let want = ctl(state::HALTED, hart, file::CTL_SOFT);
    s.expect_word(
        ctl_word,
        ALL,
        want,
        "the file is the same as after the first",
    );
    s.expect_word(
        pending,
        ALL,
        bit(3),
        "the file is the same as after the first: sources",
    );
}

fn hit(s: &mut Script<'_>) {
    s.route(1, 3, EDGE.vhart(1));
    s.world();
    for round in 0..2 {
        s.on(1, |s| s.attach(1, 1));
        s.generate(op::SOFT, 1, 1);
        s.on(1, |s| {
            s.expect_soon(std_csr::VSIP, SS, SS, "the hart of the vhart is poked");
            s.expect_soon(std_csr::HIP, VSS, VSS, "which is an arrival");
        });
        s.generate(op::EDGE, 1, 3);
        s.on(1, |s| {
            s.expect_soon(std_csr::VSIP, SS | SE, SS | SE, "likewise for a source");
            s.expect_soon(
                std_csr::HIP,
                VSS | VSE,
                VSS | VSE,
                "which is an arrival, too",
            );
        });
        s.expect(std_csr::VSIP, 0, "another hart is not");
        s.expect_bits(std_csr::HIP, VSS | VSE, 0, "another hart has no arrival");
        s.on(1, |s| {
            s.guest(|s| {
                s.clear(std_csr::SIP, SS);
                s.expect_claim(3, &format!("round {round}: the guest claims it"));
            });
            s.write(csr::HIFMAP, state::STOPPED << hifmap::STATE_SHIFT);
        });
    }
    for hart in 0..2 {
        s.on(hart, |s| {
            s.expect_no_notification("a hit makes no notification")
        });
    }
    s.on(1, |s| s.attach(1, 1));
    for (domain, vhart) in [(2, 1), (1, 2)] {
        s.leave(domain, vhart, state::HALTED);
        s.generate(op::SOFT, domain, vhart);
        let text = "the lookup compares domain and vhart";
        s.expect_only_notification(notification(kind::WAKE, domain, vhart), text);
    }
}

fn poke_of_other(s: &mut Script<'_>) {
    s.route(1, 3, EDGE.vhart(1));
    s.world();
    s.on(1, |s| s.attach(1, 2));
    s.generate(op::SOFT, 1, 1);
    s.generate(op::SOFT, 2, 2);
    s.generate(op::EDGE, 1, 3);
    s.sync();
    let only = "what is posted to other vharts does not show";
    s.on(1, |s| s.expect_still(std_csr::VSIP, SS | SE, 0, only));
    s.on(1, |s| {
        s.expect_bits(std_csr::HIP, VSS | VSE, 0, "and is no arrival")
    });
    s.on(1, |s| {
        s.attach(1, 1);
        s.expect(
            std_csr::VSIP,
            SS | SE,
            "it shows with the vhart that it is for",
        );
        s.attach(1, 2);
        s.expect(std_csr::VSIP, 0, "and not with another");
    });
}

/// A vhart that is `LOADED` in its file and in no slot: its hart was taken over.
fn poke_without_slot(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    let (at, hart, tables) = (s.ctl(1, 0), s.id(0), s.tables());
    s.attach(1, 0);
    s.write(csr::HVTABLEBASE, 0);
    s.write(csr::HTLCFG, 0);
    s.expect(csr::HIFMAP, 0, "the slot is invalid");
    s.write(csr::HVTABLEBASE, tables);
    s.write(csr::HTLCFG, htlcfg::EN);
    s.generate(op::SOFT, 1, 0);
    s.generate(op::EDGE, 1, 3);
    s.generate(op::EVAL, 1, 0);
    s.sync();
    s.expect_still(
        std_csr::VSIP,
        SS | SE,
        0,
        "posts do not show without a slot",
    );
    s.expect_bits(std_csr::HIP, VSS | VSE, 0, "nor do they arrive");
    s.expect_no_notification("and the host is not told of a vhart that is LOADED");
    let want = ctl(state::LOADED, hart, file::CTL_SOFT);
    s.expect_word(at, ALL, want, "they are in the file, and ON stays 0");
    s.attach(1, 0);
    s.expect(std_csr::VSIP, SS | SE, "where the next attach finds them");
}

fn arrivals(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.route(1, 4, EDGE);
    s.world();
    s.attach(1, 0);
    s.write(std_csr::HVIP, VSS | VSE);
    s.generate(op::SOFT, 1, 0);
    s.expect_soon(
        std_csr::HIP,
        VSS | VSE,
        VSS,
        "an arrival, whatever hvip holds",
    );
    s.generate(op::EDGE, 1, 3);
    s.expect_soon(std_csr::HIP, VSS | VSE, VSS | VSE, "likewise for a source");
    s.write(std_csr::HVIP, 0);
    s.write(std_csr::HIP, 0);
    s.generate(op::SOFT, 1, 0);
    s.generate(op::EDGE, 1, 4);
    s.expect_still(
        std_csr::HIP,
        VSS | VSE,
        0,
        "what is high already does not rise",
    );
    s.guest(|s| {
        s.clear(std_csr::SIP, SS);
        s.expect_claim(3, "the guest takes the first source");
        s.expect_claim(4, "the guest takes the second source");
        s.write(csr::SGENIPI, 1);
        s.settle();
    });
    s.expect_still(
        std_csr::HIP,
        VSS | VSE,
        0,
        "what rises while V=1 is no arrival",
    );
    s.guest(|s| s.clear(std_csr::SIP, SS));
    s.set(std_csr::VSIP, SS);
    s.expect_still(
        std_csr::HIP,
        VSS | VSE,
        0,
        "nor is what software writes to vsip",
    );
}

fn not_deliverable(s: &mut Script<'_>) {
    s.route_only(1, 3, EDGE.priority(7));
    s.route(1, 4, EDGE.priority(2));
    s.route(1, 5, EDGE.priority(3));
    s.world();
    s.attach(1, 0);
    s.guest(|s| s.write(csr::VSTHRESHOLD, 2));
    s.detach(state::HALTED);
    s.generate(op::EDGE, 1, 3);
    s.expect_no_notification("a source that is not enabled");
    s.generate(op::EDGE, 1, 4);
    s.expect_no_notification("a source whose priority is the threshold");
    let at = s.ctl(1, 0);
    s.expect_word(at, file::CTL_ON, 0, "ON stays 0");
    s.generate(op::EDGE, 1, 5);
    s.expect_only_notification(
        notification(kind::WAKE, 1, 0),
        "a source above the threshold",
    );
    let pending = s.pending(1, 0, 3);
    s.expect_word(
        pending,
        ALL,
        bit(3) | bit(4) | bit(5),
        "all of them are posted",
    );
}

fn miss(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    let (at, hart) = (s.ctl(1, 0), s.id(0));
    for (left, name, told) in [
        (state::HALTED, "HALTED", Some(kind::WAKE)),
        (state::PREEMPTED, "PREEMPTED", Some(kind::YIELD)),
        (state::STOPPED, "STOPPED", None),
    ] {
        for (operation, id) in [(op::SOFT, 0), (op::EDGE, 3)] {
            let text = format!("{name}, operation {operation}");
            s.leave(1, 0, left);
            s.generate(operation, 1, id);
            let mut bits = 0;
            match told {
                Some(kind) => {
                    s.expect_only_notification(notification(kind, 1, 0), &text);
                    bits = file::CTL_ON;
                }
                None => s.expect_no_notification(&text),
            }
            let mask = !file::CTL_SOFT;
            let text = format!("{text}: CTL");
            s.expect_word(at, mask, ctl(left, hart, bits), &text);
            s.generate(operation, 1, id);
            s.expect_no_notification(&format!("{text}: nothing while ON is 1"));
            s.amo(Amo::And, at, !(file::CTL_ON | file::CTL_SOFT));
            let pending = s.pending(1, 0, 3);
            s.amo(Amo::And, pending, 0);
        }
    }
}

fn at_last_hart(s: &mut Script<'_>) {
    s.world();
    let id = s.id(1);
    s.on(1, |s| s.leave(1, 2, state::PREEMPTED));
    s.leave(2, 0, state::HALTED);
    let at = s.ctl(1, 2);
    s.expect_word(
        at,
        ALL,
        ctl(state::PREEMPTED, id, 0),
        "CTL names the hart it last ran on",
    );
    s.generate(op::SOFT, 1, 2);
    s.on(1, |s| {
        let text = "the hart that it last ran on is told, not the sender's";
        s.expect_only_notification(notification(kind::YIELD, 1, 2), text);
    });
    s.on(1, |s| s.generate(op::SOFT, 2, 0));
    let text = "also if another hart sends";
    s.expect_only_notification(notification(kind::WAKE, 2, 0), text);
    s.on(1, |s| {
        s.expect_no_notification("and the sender is not told")
    });
}

/// Takes notifications of this hart until there are none, and adds their number to a word.
fn count_notifications(s: &mut Script<'_>, word: u64) {
    s.sync();
    s.settle();
    s.a.li(S0, 0);
    let (out, again) = (s.a.label(), s.a.here());
    s.a.csrr(A0, csr::HNOTIFY).beq(A0, ZERO, out);
    s.a.addi(S0, S0, 1).j(again);
    s.a.bind(out);
    s.a.li(T0, word).ld(S1, T0, 0).add(S1, S1, S0).sd(S1, T0, 0);
}

fn any_queue(s: &mut Script<'_>) {
    const POSTS: u64 = 16;
    s.world();
    s.write(csr::HTLCFG, htlcfg::EN | htlcfg::ANY);
    let counts = [s.word(0), s.word(1)];
    let at = s.ctl(1, 0);
    s.repeat(POSTS, |s| {
        s.leave(1, 0, state::HALTED);
        s.generate(op::SOFT, 1, 0);
        for (hart, count) in counts.into_iter().enumerate() {
            s.on(hart, |s| count_notifications(s, count));
        }
        s.amo(Amo::And, at, !(file::CTL_ON | file::CTL_SOFT));
    });
    s.load(counts[0]);
    s.differs(0, "over time the first hart has its share");
    s.load(counts[1]);
    s.differs(0, "over time the second hart has its share");
    s.a.addi(S0, A0, 0);
    s.load(counts[0]);
    s.a.add(A0, A0, S0);
    s.compare(ALL, POSTS, "each post makes one notification");
    // The hart that sends decides, not the one where the vhart was.
    s.leave(1, 0, state::HALTED);
    s.on(1, |s| s.generate(op::SOFT, 1, 0));
    let text = "ANY of another hart does not matter";
    s.expect_only_notification(notification(kind::WAKE, 1, 0), text);
    s.write(csr::HNQBASE, 0);
    for _ in 0..3 {
        s.answer(1, 0);
        s.leave(1, 0, state::PREEMPTED);
        s.generate(op::SOFT, 1, 0);
        s.on(1, |s| {
            let text = "a queue that is closed has no share";
            s.expect_only_notification(notification(kind::YIELD, 1, 0), text);
        });
    }
}

fn queue_closed(s: &mut Script<'_>) {
    s.world();
    let at = s.ctl(1, 0);
    s.leave(1, 0, state::HALTED);
    s.write(csr::HNQBASE, 0);
    s.generate(op::SOFT, 1, 0);
    s.on(1, |s| {
        let text = "another queue takes the place of one that is closed";
        s.expect_only_notification(notification(kind::WAKE, 1, 0), text);
    });
    s.expect(csr::HNOTIFY, 0, "nothing is put into the closed one");
    s.answer(1, 0);
    // A hart that does not exist.
    let nowhere = (0..0xffff)
        .rev()
        .find(|id| !s.platform().harts.contains(id));
    let nowhere = nowhere.unwrap_or(0xffff);
    s.store(at, ctl(state::HALTED, nowhere, 0));
    s.generate(op::SOFT, 1, 0);
    s.on(1, |s| {
        let text = "also if HART names no hart";
        s.expect_only_notification(notification(kind::WAKE, 1, 0), text);
    });
}

fn no_queue(s: &mut Script<'_>) {
    s.world();
    let (at, queue, hart) = (s.ctl(1, 0), s.queue_base(0), s.id(0));
    s.leave(1, 0, state::HALTED);
    s.write(csr::HNQBASE, 0);
    s.generate(op::SOFT, 1, 0);
    s.sync();
    let want = ctl(state::HALTED, hart, file::CTL_ON | file::CTL_SOFT);
    s.expect_word_soon(at, ALL, want, "with no queue open ON becomes and stays 1");
    s.expect(csr::HNOTIFY, 0, "nobody is told");
    s.write(csr::HNQBASE, queue);
    s.expect_no_notification("nor when a queue is opened");
    s.generate(op::SOFT, 1, 0);
    s.expect_no_notification("nor by the next post, since ON is 1");
    s.amo(Amo::And, at, !file::CTL_ON);
    s.generate(op::EVAL, 1, 0);
    let text = "after software has cleared ON, EVAL tells";
    s.expect_only_notification(notification(kind::WAKE, 1, 0), text);
}

fn eval(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    let (at, pending) = (s.ctl(1, 0), s.pending(1, 0, 3));
    s.attach(1, 0);
    s.amo(Amo::Or, at, file::CTL_SOFT);
    s.expect_still(
        std_csr::VSIP,
        SS,
        0,
        "a change of the file does not show by itself",
    );
    s.generate(op::EVAL, 1, 0);
    s.expect_soon(std_csr::VSIP, SS, SS, "on a hit the hart is poked");
    s.expect_soon(std_csr::HIP, VSS, VSS, "which is an arrival");
    s.amo(Amo::And, at, !file::CTL_SOFT);
    s.generate(op::EVAL, 1, 0);
    s.expect_soon(std_csr::VSIP, SS, 0, "also if nothing is pending any more");
    s.detach(state::HALTED);
    s.generate(op::EVAL, 1, 0);
    s.expect_no_notification("on a miss nothing follows if nothing is deliverable");
    s.amo(Amo::Or, pending, bit(3));
    s.generate(op::EVAL, 1, 0);
    let text = "on a miss the host is told of anything deliverable";
    s.expect_only_notification(notification(kind::WAKE, 1, 0), text);
    let on = file::CTL_ON;
    s.expect_word(at, on, on, "and ON is 1");
    s.amo(Amo::And, at, !file::CTL_ON);
    s.amo(Amo::And, pending, 0);
    s.amo(Amo::Or, at, file::CTL_SOFT);
    s.generate(op::EVAL, 1, 0);
    s.expect_only_notification(
        notification(kind::WAKE, 1, 0),
        "a software interrupt is, too",
    );
    s.answer(1, 0);
    s.leave(1, 0, state::PREEMPTED);
    s.generate(op::EVAL, 1, 0);
    s.expect_only_notification(notification(kind::YIELD, 1, 0), "PREEMPTED");
    s.answer(1, 0);
    s.generate(op::EVAL, 1, 0);
    s.expect_no_notification("STOPPED");
    s.generate(op::EVAL, 1, 4);
    s.generate(op::EVAL, 3, 0);
    s.expect_no_notification("vharts that do not exist");
}

/// What has retired before a SYNC is in memory after it, without a fence.
fn sync(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.attach(1, 0);
    let files = [1, 2, 3].map(|vhart| s.ctl(1, vhart));
    for domain_only in [0, 1] {
        for at in files {
            s.amo(Amo::And, at, !file::CTL_SOFT);
        }
        s.guest(|s| s.write(csr::SGENIPI, 0b1110));
        s.write(
            csr::HGENVSI,
            command(op::SYNC, domain_only, domain_only | 0xfffe),
        );
        for at in files {
            s.load(at);
            let text = "posts of an instruction that has retired are in the file";
            s.compare(file::CTL_SOFT, file::CTL_SOFT, text);
        }
    }
    // A change of the source table.
    let entry = s.source(1, 3);
    let moved = EDGE.vhart(1);
    for (domain_only, source, vhart) in [(0, moved, 1), (1, EDGE, 0)] {
        s.generate(op::EDGE, 1, 3);
        s.store(entry, source.entry());
        s.write(csr::HGENVSI, command(op::SYNC, 1, domain_only));
        for vhart in 0..2 {
            let at = s.pending(1, vhart, 3);
            s.amo(Amo::And, at, !bit(3));
        }
        s.generate(op::EDGE, 1, 3);
        s.sync();
        let (now, before) = (s.pending(1, vhart, 3), s.pending(1, 1 - vhart, 3));
        s.expect_word(now, bit(3), bit(3), "posts after a SYNC use the new entry");
        s.expect_word(before, bit(3), 0, "and no longer the former");
    }
}
