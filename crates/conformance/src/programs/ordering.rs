//! Memory ordering: the litmus tests of the specification, many times at different distances.

use trapless_asm::reg::{A0, S0, T0, T1};

use super::prelude::*;
use crate::layout::context;
use crate::script::{FENCE, FENCE_O_R, FENCE_O_W, TP, and, xor};

pub(super) const PROGRAMS: &[Program] = &[
    Program::new(
        "lit-1-message-passing",
        &["ORD-8", "ORD-9", "ORD-5"],
        message_passing,
    )
    .harts(2),
    Program::new(
        "lit-2-post-attach",
        &["ORD-2", "ORD-6", "PROP-1"],
        post_attach,
    )
    .harts(2),
    Program::new(
        "lit-3-post-detach",
        &["ORD-4", "ORD-7", "PROP-1"],
        post_detach,
    )
    .harts(2),
    Program::new("lit-4-post-answer", &["ORD-1", "PROP-1"], post_answer).harts(2),
    Program::new("lit-5-post-table", &["ORD-11"], post_table).harts(2),
    Program::new(
        "lit-7-notification",
        &["ORD-4", "ORD-9"],
        notification_passing,
    )
    .harts(2),
    Program::new(
        "lit-8-two-senders",
        &["ORD-4", "NTF-9", "PROP-4"],
        two_senders,
    )
    .harts(3),
    Program::new("lit-9-merging", &["ORD-10"], merging).harts(2),
    Program::new("lit-10-before-detach", &["ORD-7", "ORD-9"], before_detach).harts(3),
    Program::new("lit-11-thread-moves", &["ORD-13"], thread_moves).harts(2),
    Program::new("lit-12-resample", &["ORD-8", "EXT-7"], resample_answer).harts(2),
    Program::new("lit-13-fence", &["ORD-13"], fence).harts(2),
    Program::new("lit-14-attach-over", &["ORD-3", "ORD-6"], attach_over).harts(2),
    Program::new("lit-16-closing", &["ORD-16"], closing).harts(2),
    Program::new("lit-17-enable", &["ORD-15"], enable).harts(2),
    Program::new("lit-18-search", &["ORD-17"], search).harts(3),
    Program::new("lit-19-two-pokes", &["ORD-14", "ORD-12"], two_pokes).harts(3),
];

/// Times that each test is tried.
const ROUNDS: u64 = 60;
/// Passes by which the lead hart is late at most; another hart waits for half of that.
const LATE: i32 = 0x7f;
const HALF: u64 = 0x40;

/// Passes that are left of the outermost loop of this hart, into `t1`.
fn left(s: &mut Script<'_>) {
    s.a.ld(T1, TP, context::LOOPS);
}

/// LIT-1. Both harts count their rounds down.
fn message_passing(s: &mut Script<'_>) {
    s.world();
    let (x, y) = (s.word(0), s.word(1));
    s.attach(1, 0);
    s.start(1, |s| {
        s.attach(1, 1);
        s.guest(|s| {
            s.repeat(ROUNDS, |s| {
                s.expect_soon(std_csr::SIP, SS, SS, "the interrupt comes");
                s.a.li(T0, SS).csrc(std_csr::SIP, T0);
                s.load(x);
                left(s);
                s.a.word(xor(A0, A0, T1));
                s.compare(
                    ALL,
                    0,
                    "what was stored before the interrupt is seen after it",
                );
                left(s);
                s.a.li(T0, y).word(FENCE).sd(T1, T0, 0);
            });
        });
    });
    s.guest(|s| {
        s.repeat(ROUNDS, |s| {
            left(s);
            s.a.li(T0, x).sd(T1, T0, 0);
            s.write(csr::SGENIPI, 0b10);
            s.until(ALL, 0, "the receiver answers", |s| {
                s.load(y);
                left(s);
                s.a.word(xor(A0, A0, T1));
            });
        });
    });
}

/// LIT-2.
fn post_attach(s: &mut Script<'_>) {
    s.world();
    s.repeat(ROUNDS, |s| {
        s.start(1, |s| {
            s.pause(HALF);
            s.attach(1, 0);
        });
        s.stagger(LATE);
        s.generate(op::SOFT, 1, 0);
        s.wait(1);
        s.on(1, |s| {
            s.expect_soon(
                std_csr::VSIP,
                SS,
                SS,
                "the attached vhart has what was posted",
            );
            s.clear(std_csr::VSIP, SS);
            s.expect_bits(std_csr::VSIP, SS, 0, "it is cleared");
            s.detach(state::STOPPED);
        });
    });
    s.expect_no_notification("nobody is told");
}

/// LIT-3.
fn post_detach(s: &mut Script<'_>) {
    s.world();
    let at = s.ctl(1, 0);
    s.repeat(ROUNDS, |s| {
        s.on(1, |s| s.attach(1, 0));
        s.start(1, |s| {
            s.pause(HALF);
            s.detach(state::HALTED);
        });
        s.stagger(LATE);
        s.generate(op::SOFT, 1, 0);
        s.wait(1);
        s.sync();
        s.on(1, |s| {
            let text = "the host is told, by the post or by the detach";
            s.expect_notification(notification(kind::WAKE, 1, 0), text);
            s.expect(csr::HNOTIFY, 0, "once");
        });
        s.store(at, 0);
    });
}

/// LIT-4.
fn post_answer(s: &mut Script<'_>) {
    s.world();
    let at = s.ctl(1, 0);
    let told = notification(kind::WAKE, 1, 0);
    s.repeat(ROUNDS, |s| {
        s.on(1, |s| {
            s.leave(1, 0, state::HALTED);
            s.generate(op::SOFT, 1, 0);
            s.expect_notification(told, "the first post is told");
            s.amo(Amo::And, at, !file::CTL_SOFT);
        });
        s.start(1, |s| {
            s.pause(HALF);
            s.answer(1, 0);
            s.attach(1, 0);
        });
        s.stagger(LATE);
        s.generate(op::SOFT, 1, 0);
        s.wait(1);
        s.on(1, |s| {
            let text = "the vhart that was woken has what was posted meanwhile";
            s.expect_soon(std_csr::VSIP, SS, SS, text);
            s.clear(std_csr::VSIP, SS);
            s.detach(state::STOPPED);
            s.expect(csr::HNOTIFY, 0, "and the host was not told again");
        });
    });
}

/// LIT-5.
fn post_table(s: &mut Script<'_>) {
    s.route(1, 3, EDGE.vhart(1));
    s.world();
    let entry = s.source(1, 3);
    let files = [s.pending(1, 1, 3), s.pending(1, 2, 3)];
    let moved = s.word(0);
    s.repeat(ROUNDS, |s| {
        s.start(1, |s| {
            s.pause(HALF);
            s.store(entry, EDGE.vhart(2).entry());
            s.sync();
            s.amo(Amo::And, files[0], 0);
            s.a.li(T0, moved).sd(A0, T0, 0);
        });
        s.stagger(LATE);
        s.generate(op::EDGE, 1, 3);
        s.wait(1);
        s.sync();
        s.expect_word(
            files[0],
            ALL,
            0,
            "nothing is posted to the former vhart after the SYNC",
        );
        s.load(moved);
        s.a.li(T0, files[1]).ld(T1, T0, 0).or(A0, A0, T1);
        s.compare(ALL, bit(3), "the post is in one of the files");
        s.store(files[1], 0);
        s.store(entry, EDGE.vhart(1).entry());
        s.sync();
    });
}

/// LIT-7.
fn notification_passing(s: &mut Script<'_>) {
    const BITS: u64 = file::CTL_SOFT | file::CTL_ON;
    s.world();
    let (at, x) = (s.ctl(1, 0), s.word(0));
    s.repeat(ROUNDS, |s| {
        s.on(1, |s| s.leave(1, 0, state::HALTED));
        s.store(x, 0);
        s.start(1, |s| {
            s.expect_notification(notification(kind::WAKE, 1, 0), "the notification comes");
            s.load(x);
            s.compare(
                ALL,
                1,
                "what was stored before the post is seen after the notification",
            );
            s.amo(Amo::And, at, !file::CTL_ON);
            s.compare(BITS, BITS, "and SOFT and ON are 1");
        });
        s.stagger(LATE);
        s.store(x, 1);
        s.generate(op::SOFT, 1, 0);
        s.wait(1);
        s.store(at, 0);
    });
}

/// LIT-8.
fn two_senders(s: &mut Script<'_>) {
    s.world();
    let at = s.ctl(1, 0);
    s.repeat(ROUNDS, |s| {
        s.on(2, |s| s.leave(1, 0, state::PREEMPTED));
        s.start(1, |s| {
            s.pause(HALF);
            s.generate(op::SOFT, 1, 0);
        });
        s.stagger(LATE);
        s.generate(op::SOFT, 1, 0);
        s.wait(1);
        s.sync();
        s.on(2, |s| {
            s.expect_notification(notification(kind::YIELD, 1, 0), "two senders, one is told");
            s.expect(csr::HNOTIFY, 0, "two senders, not both are told");
        });
        s.store(at, 0);
    });
    for hart in 0..2 {
        s.on(hart, |s| s.expect_no_notification("and no other hart"));
    }
}

/// LIT-9.
fn merging(s: &mut Script<'_>) {
    s.world();
    let (at, x, seen) = (s.ctl(1, 1), s.word(0), s.word(1));
    s.attach(1, 0);
    s.on(1, |s| s.attach(1, 1));
    s.repeat(ROUNDS, |s| {
        s.store(x, 0);
        s.amo(Amo::Or, at, file::CTL_SOFT);
        s.start(1, |s| {
            s.pause(HALF);
            s.guest(|s| {
                s.clear(std_csr::SIP, SS);
                s.load(x);
                s.a.li(T0, seen).sd(A0, T0, 0);
            });
        });
        s.guest(|s| {
            s.stagger(LATE);
            s.store(x, 1);
            s.write(csr::SGENIPI, 0b10);
        });
        s.wait(1);
        s.sync();
        s.load(seen);
        s.a.li(T0, at).ld(T1, T0, 0).or(A0, A0, T1);
        s.compare(1, 1, "the data was seen, or the interrupt is pending still");
        s.on(1, |s| s.clear(std_csr::VSIP, SS));
    });
}

/// LIT-10.
fn before_detach(s: &mut Script<'_>) {
    s.world();
    let (at, x) = (s.ctl(1, 0), s.word(0));
    for hart in 0..2 {
        s.on(hart, |s| s.write(csr::HNQBASE, 0));
    }
    s.repeat(ROUNDS, |s| {
        s.store(x, 0);
        s.on(1, |s| s.attach(1, 0));
        s.start(2, |s| {
            s.expect_notification(notification(kind::WAKE, 1, 0), "the notification comes");
            s.load(x);
            s.compare(
                ALL,
                1,
                "what the host stored before the detach is seen after it",
            );
        });
        s.start(1, |s| {
            s.pause(HALF);
            s.store(x, 1);
            s.detach(state::HALTED);
        });
        s.stagger(LATE);
        s.generate(op::SOFT, 1, 0);
        s.wait(1);
        s.wait(2);
        s.store(at, 0);
    });
}

/// LIT-11.
fn thread_moves(s: &mut Script<'_>) {
    s.route(1, 3, LEVEL);
    s.world();
    let (x, line, pending) = (s.word(0), s.line(1, 3), s.pending(1, 0, 3));
    for hart in 0..2 {
        s.on(hart, |s| s.write(csr::HGRANT, grant(1, 3, 1)));
    }
    s.repeat(ROUNDS, |s| {
        s.store(x, 0);
        s.start(1, |s| {
            s.until(ALL, 1, "the thread arrives", |s| s.load(x));
            s.write(csr::UGENVSEI, op::ASSERT << 60 | 3);
        });
        s.stagger(LATE);
        s.write(csr::UGENVSEI, op::DEASSERT << 60 | 3);
        s.a.word(FENCE_O_W);
        s.store(x, 1);
        s.wait(1);
        s.sync();
        s.expect_word(line, ALL, bit(3), "the ASSERT comes last: line");
        s.expect_word(pending, ALL, bit(3), "the ASSERT comes last: pending");
    });
}

/// LIT-12.
fn resample_answer(s: &mut Script<'_>) {
    s.route(1, 3, RESAMPLE);
    s.world();
    let (line, outstanding, pending) = (s.line(1, 3), s.resample(1, 3), s.pending(1, 0, 3));
    s.on(1, |s| s.attach(1, 0));
    s.repeat(ROUNDS, |s| {
        s.store(line, bit(3));
        s.store(outstanding, bit(3));
        s.store(pending, 0);
        s.start(1, |s| {
            s.pause(HALF);
            s.guest(|s| s.write(csr::VSCLAIM, 3));
        });
        s.stagger(LATE);
        s.amo(Amo::And, outstanding, !bit(3));
        s.generate(op::ASSERT, 1, 3);
        s.wait(1);
        s.sync();
        // Told again (outstanding is 1), or posted by the ASSERT.
        s.load(pending);
        s.a.li(T0, outstanding).ld(T1, T0, 0).or(A0, A0, T1);
        s.compare(bit(3), bit(3), "the host is told, or its ASSERT posts");
        s.on(1, |s| {
            s.settle();
            s.read(csr::HNOTIFY);
            s.guest(|s| s.read(csr::VSCLAIM));
        });
    });
}

/// LIT-13.
fn fence(s: &mut Script<'_>) {
    s.world();
    let (at, y, seen) = (s.ctl(1, 1), s.word(0), s.word(1));
    s.attach(1, 0);
    s.repeat(ROUNDS, |s| {
        s.store(y, 0);
        s.store(at, 0);
        s.start(1, |s| {
            s.pause(HALF);
            s.store(y, 1);
            s.a.word(FENCE);
            s.load(at);
            s.a.li(T0, seen).sd(A0, T0, 0);
        });
        s.stagger(LATE);
        s.guest(|s| s.write(csr::SGENIPI, 0b10));
        s.a.word(FENCE_O_R);
        s.load(y);
        s.a.addi(S0, A0, 0);
        s.wait(1);
        s.load(seen);
        s.a.or(A0, A0, S0);
        s.compare(1, 1, "the store is seen, or the post");
    });
}

/// LIT-14.
fn attach_over(s: &mut Script<'_>) {
    s.world();
    let (x, at) = (s.word(0), s.ctl(1, 0));
    s.repeat(ROUNDS, |s| {
        s.store(x, 0);
        s.store(at, ctl(state::HALTED, s.id(0), 0));
        s.start(1, |s| {
            s.attach(1, 0);
            s.store(x, 1);
            s.pause(HALF);
        });
        s.until(ALL, 1, "the attach is over", |s| s.load(x));
        s.generate(op::SOFT, 1, 0);
        s.wait(1);
        s.sync();
        s.expect(csr::HNOTIFY, 0, "the lookup hits: nobody is told");
        s.expect_word(at, file::CTL_ON, 0, "and ON stays 0");
        s.on(1, |s| {
            s.expect_soon(std_csr::VSIP, SS, SS, "and the hart is poked");
            s.expect_soon(std_csr::HIP, VSS, VSS, "by an arrival");
            s.write(std_csr::HIP, 0);
            s.clear(std_csr::VSIP, SS);
            s.detach(state::STOPPED);
        });
    });
}

/// LIT-16.
fn closing(s: &mut Script<'_>) {
    s.world();
    let (at, first) = (s.ctl(1, 0), s.word(0));
    let told = notification(kind::WAKE, 1, 0);
    s.repeat(ROUNDS, |s| {
        s.on(1, |s| {
            s.write(csr::HNQBASE, s.queue_base(1));
            s.leave(1, 0, state::HALTED);
            s.sync();
        });
        s.start(1, |s| {
            s.pause(HALF);
            s.write(csr::HNQBASE, 0);
            s.a.csrr(A0, csr::HNOTIFY).li(T0, first).sd(A0, T0, 0);
        });
        s.stagger(LATE);
        s.generate(op::SOFT, 1, 0);
        s.wait(1);
        s.sync();
        s.on(1, |s| {
            s.expect(csr::HNOTIFY, 0, "nothing comes into a closed queue")
        });
        // In the queue that was closed, or in that of this hart.
        s.a.csrr(S0, csr::HNOTIFY);
        s.load(first);
        s.a.or(A0, A0, S0);
        s.compare(ALL, told, "the notification is in one queue");
        s.load(first);
        s.a.word(and(A0, A0, S0));
        s.compare(ALL, 0, "and not in both");
        s.store(at, 0);
    });
}

/// LIT-17.
fn enable(s: &mut Script<'_>) {
    s.route_only(1, 3, EDGE);
    s.world();
    let (at, enable, pending) = (s.ctl(1, 0), s.enable(1, 0, 3), s.pending(1, 0, 3));
    s.repeat(ROUNDS, |s| {
        s.on(1, |s| s.attach(1, 0));
        s.start(1, |s| {
            s.pause(HALF);
            s.guest(|s| s.guest_enables(3, true));
            s.detach(state::HALTED);
        });
        s.stagger(LATE);
        s.generate(op::EDGE, 1, 3);
        s.wait(1);
        s.sync();
        s.on(1, |s| {
            let text = "the post finds the source enabled, or the detach finds it pending";
            s.expect_notification(notification(kind::WAKE, 1, 0), text);
            s.expect(csr::HNOTIFY, 0, "once");
        });
        for word in [at, enable, pending] {
            s.store(word, 0);
        }
    });
}

/// LIT-18.
fn search(s: &mut Script<'_>) {
    s.world();
    let (at, y) = (s.ctl(1, 0), s.word(0));
    let counts = [s.word(1), s.word(2)];
    s.write(csr::HNQBASE, 0);
    s.repeat(ROUNDS, |s| {
        s.store(y, 0);
        s.leave(1, 0, state::HALTED);
        s.on(1, |s| s.write(csr::HNQBASE, 0));
        s.on(2, |s| s.write(csr::HNQBASE, s.queue_base(2)));
        s.sync();
        s.start(2, |s| {
            s.until(ALL, 1, "the other queue is open", |s| s.load(y));
            s.write(csr::HNQBASE, 0);
        });
        s.start(1, |s| {
            s.pause(HALF);
            s.write(csr::HNQBASE, s.queue_base(1));
            s.sync();
            s.store(y, 1);
        });
        s.stagger(LATE);
        s.generate(op::SOFT, 1, 0);
        s.wait(1);
        s.wait(2);
        s.sync();
        for (hart, word) in [(1, counts[0]), (2, counts[1])] {
            s.on(hart, |s| {
                s.settle();
                s.a.csrr(A0, csr::HNOTIFY).li(T0, word).sd(A0, T0, 0);
            });
        }
        s.load(counts[0]);
        s.a.li(T0, counts[1]).ld(T1, T0, 0).or(A0, A0, T1);
        let text = "one of the queues was open at any time: the notification is in it";
        s.compare(ALL, notification(kind::WAKE, 1, 0), text);
        s.store(at, 0);
    });
}

/// LIT-19.
fn two_pokes(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    s.on(2, |s| s.attach(1, 0));
    s.repeat(ROUNDS, |s| {
        s.start(1, |s| {
            s.pause(HALF);
            s.generate(op::EDGE, 1, 3);
        });
        s.stagger(LATE);
        s.generate(op::SOFT, 1, 0);
        s.wait(1);
        s.on(2, |s| {
            s.expect_soon(std_csr::VSIP, SS | SE, SS | SE, "both posts show");
            s.expect_soon(std_csr::HIP, VSS | VSE, VSS | VSE, "both have arrived");
            s.guest(|s| {
                s.clear(std_csr::SIP, SS);
                s.expect_claim(3, "the guest claims");
            });
        });
    });
}
