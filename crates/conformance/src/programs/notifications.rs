//! Notifications.

use super::prelude::*;

pub(super) const PROGRAMS: &[Program] = &[
    Program::new("notification-level", &["NTF-1"], level),
    Program::new("notification-delegation", &["NTF-2"], delegation),
    Program::new("notification-taken", &["NTF-2"], taken),
    Program::new("notification-order", &["NTF-3", "NTF-4"], order),
    Program::new("queue-overflow", &["NTF-5"], overflow),
    Program::new("queue-of-one", &["NTF-5"], queue_of_one),
    Program::new("queue-opened", &["NTF-6"], opened),
    Program::new("queue-closing", &["NTF-7"], closing),
    Program::new("queue-without-en", &["NTF-8"], without_en),
    Program::new("one-outstanding", &["NTF-9"], one_outstanding),
    Program::new("told-once", &["NTF-11", "PROP-4"], told_once),
    Program::new("resample-once", &["NTF-10", "PROP-4"], resample_once),
];

/// Posts to a vhart that is `HALTED`, whose notification is wanted.
fn notify(s: &mut Script<'_>, vhart: u64) {
    s.leave(1, vhart, state::HALTED);
    s.generate(op::SOFT, 1, vhart);
    s.sync();
}

fn wake(vhart: u64) -> u64 {
    notification(kind::WAKE, 1, vhart)
}

fn level(s: &mut Script<'_>) {
    s.world();
    s.expect_bits(std_csr::MIP, NOTIFY, 0, "the queue is empty");
    notify(s, 0);
    notify(s, 1);
    s.expect_soon(std_csr::MIP, NOTIFY, NOTIFY, "pending in mip");
    s.expect_bits(std_csr::SIP, NOTIFY, NOTIFY, "pending in sip");
    s.clear(std_csr::MIP, NOTIFY);
    s.clear(std_csr::SIP, NOTIFY);
    s.write(std_csr::SIP, 0);
    s.write(std_csr::MIP, 0);
    s.expect_bits(
        std_csr::MIP,
        NOTIFY,
        NOTIFY,
        "writes of mip and sip do not clear it",
    );
    s.expect_notification(wake(0), "the first");
    s.expect_bits(
        std_csr::MIP,
        NOTIFY,
        NOTIFY,
        "pending while there is another",
    );
    s.expect_notification(wake(1), "the second");
    s.expect_soon(
        std_csr::MIP,
        NOTIFY,
        0,
        "not pending when all have been read",
    );
    s.set(std_csr::MIP, NOTIFY);
    s.set(std_csr::SIP, NOTIFY);
    s.expect_bits(std_csr::MIP, NOTIFY, 0, "writes do not set it");
}

fn delegation(s: &mut Script<'_>) {
    for value in [0, ALL & !NOTIFY] {
        s.write(std_csr::MIDELEG, value);
        s.expect_bits(std_csr::MIDELEG, NOTIFY, NOTIFY, "mideleg: read-only one");
    }
    s.write(std_csr::HIDELEG, ALL);
    s.expect_bits(std_csr::HIDELEG, NOTIFY, 0, "hideleg: read-only zero");
    s.write(std_csr::SIE, ALL);
    s.expect_bits(std_csr::SIE, NOTIFY, NOTIFY, "sie enables it");
    s.write(std_csr::SIE, 0);
    s.expect_bits(std_csr::SIE, NOTIFY, 0, "and disables it");
}

fn taken(s: &mut Script<'_>) {
    s.world();
    notify(s, 0);
    s.expect_soon(std_csr::SIP, NOTIFY, NOTIFY, "it is pending");
    s.set(std_csr::SSTATUS, status::SIE);
    s.wait_in(Mode::HS);
    s.expect_not_taken("not without sie");
    s.write(std_csr::SIE, NOTIFY);
    s.wait_in(Mode::HS);
    s.expect_taken(Level::Hs, limits::NOTIFY_IRQ, "taken in HS-mode");
    s.clear(std_csr::SSTATUS, status::SIE);
    s.wait_in(Mode::HS);
    s.expect_not_taken("not in HS-mode without SIE");
    for mode in [Mode::U, Mode::VS, Mode::VU] {
        s.wait_in(mode);
        s.expect_taken(Level::Hs, limits::NOTIFY_IRQ, "taken from modes below");
    }
    // The lowest default priority.
    s.set(std_csr::MIP, SS);
    s.write(std_csr::SIE, NOTIFY | SS);
    s.wait_in(Mode::U);
    s.expect_taken(Level::Hs, 1, "a supervisor software interrupt comes first");
    s.clear(std_csr::MIP, SS);
    s.attach(1, 1);
    s.generate(op::SOFT, 1, 1);
    s.expect_soon(std_csr::HIP, VSS, VSS, "a VS-level interrupt is pending");
    s.write(std_csr::HIE, VSS);
    s.wait_in(Mode::U);
    s.expect_taken(Level::Hs, 2, "a VS-level interrupt comes first");
    s.write(std_csr::HIE, 0);
    s.wait_in(Mode::U);
    s.expect_taken(Level::Hs, limits::NOTIFY_IRQ, "then the notification");
}

fn order(s: &mut Script<'_>) {
    s.route(2, 3, RESAMPLE);
    s.world();
    // A queue of four entries; its positions wrap around.
    s.repeat(3, |s| {
        notify(s, 3);
        s.leave(2, 1, state::PREEMPTED);
        s.generate(op::SOFT, 2, 1);
        s.sync();
        s.attach(2, 0);
        s.guest(|s| s.write(csr::VSCLAIM, 3));
        s.sync();
        s.expect_notification(wake(3), "the first: vhart, domain and kind");
        s.expect_notification(notification(kind::YIELD, 2, 1), "the second");
        let third = notification(kind::RESAMPLE, 2, 3);
        s.expect_only_notification(third, "the third");
        let outstanding = s.resample(2, 3);
        s.amo(Amo::And, outstanding, 0);
        s.answer(1, 3);
        s.answer(2, 1);
    });
    s.expect(csr::HNOTIFY, 0, "nothing is left");
}

fn overflow(s: &mut Script<'_>) {
    s.world();
    s.write(csr::HNQBASE, s.queue_base(0) & !hnqbase::SIZE | 1);
    for vhart in 0..4 {
        notify(s, vhart);
    }
    s.settle();
    s.expect(
        csr::HNOTIFY,
        wake(0) | hnotify::OVF,
        "the next read tells of the overflow",
    );
    s.expect(csr::HNOTIFY, wake(1), "once");
    s.expect(csr::HNOTIFY, 0, "the others were dropped");
    s.expect_soon(std_csr::MIP, NOTIFY, 0, "nothing is pending");
    for vhart in 0..4 {
        let at = s.ctl(1, vhart);
        s.expect_word(
            at,
            file::CTL_ON,
            file::CTL_ON,
            "ON stays set, dropped or not",
        );
    }
    s.answer(1, 2);
    notify(s, 2);
    s.expect_only_notification(wake(2), "the queue takes notifications again");
}

fn queue_of_one(s: &mut Script<'_>) {
    s.world();
    s.write(csr::HNQBASE, s.queue_base(0) & !hnqbase::SIZE);
    s.repeat(3, |s| {
        notify(s, 0);
        s.settle();
        s.expect(csr::HNOTIFY, wake(0), "one fits");
        s.answer(1, 0);
        notify(s, 0);
        notify(s, 1);
        s.settle();
        s.expect(csr::HNOTIFY, wake(0) | hnotify::OVF, "two do not");
        s.expect(csr::HNOTIFY, 0, "and the second is lost");
        s.answer(1, 0);
        s.answer(1, 1);
    });
}

fn opened(s: &mut Script<'_>) {
    s.world();
    let base = s.queue_base(0) & !hnqbase::SIZE;
    s.write(csr::HNQBASE, base);
    notify(s, 0);
    notify(s, 1);
    s.settle();
    s.expect_bits(
        std_csr::MIP,
        NOTIFY,
        NOTIFY,
        "the queue is full, and one is lost",
    );
    s.write(csr::HNQBASE, base);
    s.expect(csr::HNQBASE, base, "hnqbase");
    s.expect_soon(
        std_csr::MIP,
        NOTIFY,
        0,
        "opening makes it empty and forgets the overflow",
    );
    s.expect(csr::HNOTIFY, 0, "there is nothing to read");
    notify(s, 2);
    s.expect_only_notification(wake(2), "it takes notifications");
}

fn closing(s: &mut Script<'_>) {
    s.world();
    let (base, ring) = (s.queue_base(0), s.queue(0));
    notify(s, 0);
    notify(s, 1);
    s.settle();
    s.write(csr::HNQBASE, (ring + 0x1000) | 7);
    s.expect(
        csr::HNQBASE,
        base & !hnqbase::EN,
        "closing changes nothing but EN",
    );
    s.expect_bits(
        std_csr::MIP,
        NOTIFY,
        NOTIFY,
        "what it holds keeps the interrupt pending",
    );
    notify(s, 2);
    s.expect_notification(wake(0), "the first can be read");
    s.expect_notification(wake(1), "the second can be read");
    s.expect_no_notification("nothing has been added");
    s.expect_soon(std_csr::MIP, NOTIFY, 0, "the interrupt is pending no more");
    for at in 0..4 {
        s.store(ring + 8 * at, 0x1111 * (at + 1));
    }
    notify(s, 3);
    s.read(csr::HNOTIFY);
    s.settle();
    for at in 0..4 {
        s.expect_word(
            ring + 8 * at,
            ALL,
            0x1111 * (at + 1),
            "the ring is not accessed",
        );
    }
}

fn without_en(s: &mut Script<'_>) {
    s.world();
    s.leave(1, 0, state::HALTED);
    s.write(csr::HTLCFG, 0);
    s.generate(op::SOFT, 1, 0);
    s.expect_soon(
        std_csr::SIP,
        NOTIFY,
        NOTIFY,
        "the interrupt is pending with EN=0",
    );
    s.set(std_csr::SSTATUS, status::SIE);
    s.write(std_csr::SIE, NOTIFY);
    s.wait_in(Mode::HS);
    s.expect_taken(Level::Hs, limits::NOTIFY_IRQ, "and taken");
    s.expect_only_notification(wake(0), "and the notification can be read");
}

fn one_outstanding(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world();
    let at = s.ctl(1, 0);
    let on = file::CTL_ON;
    s.leave(1, 0, state::STOPPED);
    s.generate(op::SOFT, 1, 0);
    s.sync();
    s.settle();
    s.expect_word(at, on, 0, "STOPPED: ON stays 0");
    s.attach(1, 0);
    s.generate(op::SOFT, 1, 0);
    s.sync();
    s.expect_word(at, on, 0, "a hit: ON stays 0");
    s.guest(|s| s.clear(std_csr::SIP, SS));
    s.detach(state::HALTED);
    s.generate(op::SOFT, 1, 0);
    s.generate(op::SOFT, 1, 0);
    s.generate(op::EDGE, 1, 3);
    s.generate(op::EVAL, 1, 0);
    s.expect_only_notification(wake(0), "one, whatever is posted");
    s.expect_word(at, on, on, "ON is 1");
    s.leave(1, 0, state::PREEMPTED);
    s.leave(1, 0, state::HALTED);
    s.generate(op::SOFT, 1, 0);
    s.expect_no_notification("it is outstanding after attaches and detaches, too");
    s.expect_word(at, on, on, "ON becomes 0 by software only");
}

fn told_once(s: &mut Script<'_>) {
    s.world();
    let (at, hart) = (s.ctl(1, 0), s.id(0));
    for left in [state::HALTED, state::PREEMPTED] {
        let kind = if left == state::HALTED {
            kind::WAKE
        } else {
            kind::YIELD
        };
        s.leave(1, 0, left);
        s.generate(op::SOFT, 1, 0);
        s.expect_only_notification(notification(kind, 1, 0), "the first post");
        s.answer(1, 0);
        s.repeat(5, |s| s.generate(op::SOFT, 1, 0));
        s.expect_no_notification("further posts after the answer");
        s.expect_word(at, ALL, ctl(state::STOPPED, hart, file::CTL_SOFT), "CTL");
        s.attach(1, 0);
        s.guest(|s| s.clear(std_csr::SIP, SS));
        s.detach(left);
        s.generate(op::SOFT, 1, 0);
        s.expect_only_notification(notification(kind, 1, 0), "after the next attach");
        s.answer(1, 0);
        s.attach(1, 0);
        s.guest(|s| s.clear(std_csr::SIP, SS));
        s.detach(state::STOPPED);
    }
}

fn resample_once(s: &mut Script<'_>) {
    s.route(1, 3, RESAMPLE);
    s.route(1, 4, RESAMPLE);
    s.world();
    let outstanding = s.resample(1, 3);
    s.attach(1, 0);
    s.repeat(3, |s| {
        s.guest(|s| s.repeat(5, |s| s.write(csr::VSCLAIM, 3)));
        let told = notification(kind::RESAMPLE, 1, 3);
        s.expect_only_notification(told, "five completions make one notification");
        s.guest(|s| s.write(csr::VSCLAIM, 4));
        let told = notification(kind::RESAMPLE, 1, 4);
        s.expect_only_notification(told, "another source has its own");
        s.amo(Amo::And, outstanding, 0);
    });
}
