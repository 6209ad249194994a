//! Message windows. A hart stores what a device would.

use trapless_asm::reg::{A0, S0, S1, S2, T0, T1, ZERO};
use trapless_isa::xtrapless::{source, wcontrol, window};

use super::super::prelude::*;
use crate::layout::context;
use crate::script::TP;

const NEEDS: &[Need] = &[Need::Hypervisor, Need::Windows];

pub(in super::super) const PROGRAMS: &[Program] = &[
    Program::new("message", &["MSG-1", "MSG-2"], message).needs(NEEDS),
    Program::new("message-range", &["MSG-2"], range).needs(NEEDS),
    Program::new("message-dropped", &["MSG-3"], dropped).needs(NEEDS),
    Program::new("message-other-access", &["MSG-4"], other_access).needs(NEEDS),
    Program::new("message-merges", &["MSG-5"], merging).needs(NEEDS),
    Program::new("message-no-hart", &["MSG-6"], no_hart)
        .needs(NEEDS)
        .harts(2),
    Program::new("message-rights", &["MSG-6"], rights)
        .needs(&[Need::Hypervisor, Need::Windows, Need::Pmp])
        .harts(2),
    Program::new("window-registers", &["MSG-7"], registers).needs(NEEDS),
    Program::new("window-changes", &["MSG-8", "ORD-11"], changes).needs(NEEDS),
    Program::new("source-of-host", &["MSG-10"], source_of_host).needs(NEEDS),
    Program::new("source-of-host-elsewhere", &["MSG-10"], source_elsewhere)
        .needs(NEEDS)
        .harts(2),
    Program::new("source-of-host-once", &["MSG-11", "PROP-4"], source_once).needs(NEEDS),
    Program::new("window-limits", &["MSG-12"], limits_of_windows).needs(NEEDS),
    Program::new("window-reset", &["MSG-13"], reset).needs(&[
        Need::Hypervisor,
        Need::Windows,
        Need::Reset,
    ]),
];

impl Script<'_> {
    fn register(&self, offset: u64) -> u64 {
        let windows = self.platform().windows.expect("the program needs windows");
        windows.control + offset
    }

    fn page(&self, window: u64) -> u64 {
        let windows = self.platform().windows.expect("the program needs windows");
        windows.pages + window * limits::WINDOW_BYTES
    }

    /// The entry of a window.
    fn entry(&self, window: u64) -> u64 {
        self.window_table() + window * window::SIZE
    }

    /// [`world`](Self::world), and windows use the same tables; the window table has two entries.
    pub(super) fn world_with_windows(&mut self) {
        self.world();
        let tables = self.tables();
        let table = wcontrol::TABLE_V | self.window_table() | 1;
        for (register, value) in [(wcontrol::DOMAINS, tables), (wcontrol::TABLE, table)] {
            let at = self.register(register);
            self.store(at, value);
        }
    }

    /// Gives a window sources of a domain.
    fn open_window(&mut self, window: u64, domain: u64, first: u64, count: u64) {
        let at = self.entry(window);
        self.store(at, grant(domain, first, count));
        self.sync();
    }

    fn send(&mut self, window: u64, data: u64) {
        let page = self.page(window);
        self.store_bytes(page, 4, data);
        // ORD-8, ORD-19: nothing else is needed.
        self.sync();
    }
}

// An entry of the window table is like a grant.
const _: () = assert!(
    window::ENTRY_V == hgrant::V
        && window::ENTRY_DOM == hgrant::DOM
        && window::ENTRY_COUNT == hgrant::COUNT
        && window::ENTRY_FIRST == hgrant::FIRST
);

fn message(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.route(1, 4, EDGE);
    s.route(1, 70, EDGE.vhart(1));
    s.world_with_windows();
    s.open_window(0, 1, 3, 2);
    s.open_window(1, 1, 70, 1);
    s.attach(1, 0);
    s.send(0, 0);
    s.expect_soon(
        std_csr::VSIP,
        SE,
        SE,
        "a message interrupts the vhart that is loaded",
    );
    s.expect_soon(std_csr::HIP, VSE, VSE, "by an arrival");
    s.send(0, 1);
    s.guest(|s| {
        s.expect_claim(3, "data 0 is the first source");
        s.expect_claim(4, "data 1 is the next");
        s.expect_claim(0, "and no other");
    });
    s.leave(1, 1, state::HALTED);
    s.send(1, 0);
    let text = "another window has another source; the host is told";
    s.expect_only_notification(notification(kind::WAKE, 1, 1), text);
    let dropped = s.entry(0) + window::DROPPED;
    s.expect_word(dropped, ALL, 0, "nothing was dropped");
}

fn range(s: &mut Script<'_>) {
    for source in 1..8 {
        s.route(1, source, EDGE);
    }
    s.world_with_windows();
    let (pending, dropped) = (s.pending(1, 0, 1), s.entry(0) + window::DROPPED);
    s.open_window(0, 1, 4, 2);
    for data in [0, 1, 2, 0x100, 0x1_0000, 0xffff_ffff] {
        s.send(0, data);
    }
    s.expect_word(
        pending,
        ALL,
        bit(4) | bit(5),
        "data below COUNT posts, all other does not",
    );
    s.expect_word(dropped, ALL, 4, "and is counted");
    s.open_window(0, 1, 0xffff, 8);
    s.send(0, 2);
    s.expect_word(
        pending,
        ALL,
        bit(4) | bit(5),
        "the sum does not wrap around",
    );
    s.open_window(0, 1, 0, 0xffff);
    s.send(0, 0);
    s.send(0, 71);
    s.send(0, 1024);
    s.open_window(0, 3, 0, 8);
    s.send(0, 3);
    s.expect_word(
        pending,
        ALL,
        bit(4) | bit(5),
        "sources and domains that do not exist",
    );
    s.expect_word(dropped, ALL, 4, "are allowed, and not counted");
    let status = s.register(wcontrol::STATUS);
    s.load(status);
    s.compare(ALL, 0, "and are no failure");
}

fn dropped(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world_with_windows();
    let (pending, count) = (s.pending(1, 0, 3), s.entry(0) + window::DROPPED);
    s.store(count, ALL);
    s.send(0, 0);
    s.expect_word(
        count,
        ALL,
        0,
        "V=0: dropped and counted; the counter wraps around",
    );
    s.open_window(0, 1, 3, 1);
    s.send(0, 1);
    s.expect_word(count, ALL, 1, "data out of range: dropped and counted");
    s.open_window(0, 1, 3, 0);
    s.send(0, 0);
    s.expect_word(count, ALL, 2, "COUNT=0: dropped and counted");
    s.expect_no_notification("nobody is told");
    // Windows without an entry. The table has two; a third would look valid.
    s.open_window(2, 1, 3, 1);
    let other = s.entry(2) + window::DROPPED;
    s.load(s.register(wcontrol::CAP));
    s.a.andi(A0, A0, 31);
    let few = s.a.label();
    s.a.sltiu(A0, A0, 2).bne(A0, ZERO, few);
    s.send(2, 0);
    s.send(2, 1);
    s.expect_word(other, ALL, 0, "a window beyond the table counts nothing");
    s.a.bind(few);
    let table = s.register(wcontrol::TABLE);
    s.open_window(0, 1, 3, 1);
    s.store(table, s.window_table() | 1);
    s.send(0, 0);
    s.send(0, 1);
    s.expect_word(count, ALL, 2, "TABLE.V=0: no effect at all");
    s.expect_word(pending, ALL, 0, "nothing was posted");
}

fn other_access(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world_with_windows();
    s.open_window(0, 1, 3, 1);
    let (page, pending, count) = (s.page(0), s.pending(1, 0, 3), s.entry(0) + window::DROPPED);
    for (offset, size) in [(0, 1), (0, 8), (4, 4), (8, 8), (0xffc, 4)] {
        s.store_bytes(page + offset, size, 0);
    }
    s.fence();
    s.sync();
    s.expect_word(
        pending,
        ALL,
        0,
        "stores of other sizes and to other offsets post nothing",
    );
    s.load(count);
    s.a.sltiu(A0, A0, 6);
    s.compare(ALL, 1, "each counts once at most");
    s.a.sd(ZERO, TP, context::EXCEPTIONS)
        .li(A0, 0)
        .li(T0, page)
        .lw(A0, T0, 0);
    s.compare(ALL, 0, "a load returns 0, or is answered with an error");
    s.sync();
    s.expect_word(pending, ALL, 0, "and has no effect");
    s.send(0, 0);
    s.expect_word(pending, ALL, bit(3), "a message posts");
}

fn merging(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.route(1, 4, LEVEL);
    s.world_with_windows();
    s.open_window(0, 1, 3, 2);
    s.attach(1, 0);
    for data in [0, 0, 1] {
        s.send(0, data);
    }
    let line = s.line(1, 4);
    s.expect_word(
        line,
        ALL,
        0,
        "a message leaves the line of a level-sensitive source",
    );
    s.guest(|s| {
        s.expect_claim(3, "two messages merge");
        s.expect_claim(4, "a level-sensitive source is posted");
        s.write(csr::VSCLAIM, 4);
        s.expect_claim(0, "and its completion finds the line low");
    });
    s.send(0, 0);
    s.guest(|s| s.expect_claim(3, "a later message is claimed"));
}

fn no_hart(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world_with_windows();
    let pending = s.pending(1, 0, 3);
    s.open_window(0, 1, 3, 1);
    let status = s.register(wcontrol::STATUS);
    s.on(1, |s| s.leave(1, 0, state::HALTED));
    // Neither the table nor ANY of the hart that stores matters.
    s.write(csr::HVTABLEBASE, 0);
    s.write(csr::HTLCFG, htlcfg::EN | htlcfg::ANY);
    let at = s.ctl(1, 0);
    s.repeat(4, |s| {
        s.send(0, 0);
        s.on(1, |s| {
            let text = "the notification goes to the hart of the vhart, whatever ANY is";
            s.expect_only_notification(notification(kind::WAKE, 1, 0), text);
        });
        s.amo(Amo::And, at, !file::CTL_ON);
    });
    s.expect_word(pending, ALL, bit(3), "the domain table is that of DOMAINS");
    s.load(status);
    s.compare(ALL, 0, "nothing has failed");
    // A failure shows in STATUS.
    let entry = s.domain(1);
    s.amo(Amo::And, pending, 0);
    let absent = s.platform().absent;
    if let Some(absent) = absent {
        s.store(entry + domain::SOURCE_TABLE, absent);
        s.write(csr::HVTABLEBASE, s.tables());
        s.sync();
        s.send(0, 0);
        s.until(ALL, 1, "a failed access makes STATUS.FLT 1", |s| {
            s.load(status)
        });
        s.expect_bits(csr::HTLCFG, htlcfg::FLT, 0, "and FLT of no hart");
        s.store(status, 1);
        s.load(status);
        s.compare(ALL, 1, "writing 1 leaves it");
        s.store(status, 0);
        s.load(status);
        s.compare(ALL, 0, "writing 0 clears it");
    }
}

/// Memory is accessed with the rights of the hart that wrote `DOMAINS` last.
fn rights(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.world_with_windows();
    s.open_window(0, 1, 3, 1);
    let (pending, status) = (s.pending(1, 0, 3), s.register(wcontrol::STATUS));
    let (domains, tables, file) = (s.register(wcontrol::DOMAINS), s.tables(), s.file(1, 0));
    s.on(1, |s| s.store(domains, tables));
    s.write(std_csr::PMPADDR0, file >> 2 | 0x7f);
    s.write(std_csr::PMPADDR0 + 1, ALL >> 10);
    s.write(std_csr::PMPCFG0, 0x18 | 0x1f << 8);
    s.a.sfence_vma(0, 0);
    s.sync();
    s.send(0, 0);
    s.expect_word(
        pending,
        ALL,
        bit(3),
        "with the rights of the hart that wrote DOMAINS",
    );
    s.load(status);
    s.compare(ALL, 0, "nothing has failed");
    s.amo(Amo::And, pending, 0);
    s.store(domains, tables);
    s.on(1, |s| s.send(0, 0));
    s.until(
        ALL,
        1,
        "now with those of another hart, which may not",
        |s| s.load(status),
    );
    s.expect_word(pending, ALL, 0, "and nothing is posted");
}

fn registers(s: &mut Script<'_>) {
    let tables = s.tables() & !hvtablebase::SIZE;
    for (offset, name) in [(wcontrol::DOMAINS, "DOMAINS"), (wcontrol::TABLE, "TABLE")] {
        let at = s.register(offset);
        for (value, want, what) in [
            (tables | 3, tables | 3, "its fields"),
            (tables | 17, tables | 16, "a SIZE of 17"),
            (tables | 31, tables | 16, "a SIZE of 31"),
            (tables | 0xfe0, tables, "reserved bits"),
            (0, 0, "0"),
        ] {
            s.store(at, value);
            s.load(at);
            s.compare(ALL, want, &format!("{name} holds {what}"));
        }
        s.expect_exception(7, &format!("a store of 4 bytes to {name}"), |s| {
            s.store_bytes(at, 4, 0);
        });
        s.expect_exception(5, &format!("a load of 4 bytes of {name}"), |s| {
            s.a.li(T0, at).lw(A0, T0, 0);
        });
    }
    let status = s.register(wcontrol::STATUS);
    s.store(status, ALL);
    s.load(status);
    s.compare(ALL, 0, "software cannot set STATUS.FLT");
    let cap = s.register(wcontrol::CAP);
    s.store(cap, 0);
    s.load(cap);
    s.compare(0x0fff_ffff_fc00_ffe0, 0, "reserved bits of CAP are 0");
}

/// LIT-21 with a hart as the device.
fn changes(s: &mut Script<'_>) {
    s.route(1, 3, EDGE);
    s.route(1, 4, EDGE);
    s.world_with_windows();
    let (entry, pending) = (s.entry(0), s.pending(1, 0, 3));
    s.repeat(20, |s| {
        s.open_window(0, 1, 3, 1);
        let page = s.page(0);
        s.store_bytes(page, 4, 0);
        s.fence();
        s.store(entry, grant(1, 4, 1));
        s.sync();
        s.amo(Amo::And, pending, 0);
        s.compare(
            !bit(4),
            bit(3),
            "what the former entry permitted is in the file",
        );
        s.send(0, 0);
        s.expect_word(
            pending,
            ALL,
            bit(4),
            "messages after the SYNC use the new entry",
        );
        s.store(entry, 0);
        s.sync();
        s.store(pending, 0);
        s.send(0, 0);
        s.expect_word(pending, ALL, 0, "or are dropped");
    });
}

/// Makes domain 3 one of the host; its source names the hart `hart` of the platform's list.
fn host_domain(s: &mut Script<'_>, number: u64, hart: usize, priority: u64) {
    let entry = s.domain(3);
    s.init(
        entry + domain::CONFIG,
        config(0, SOURCES) | domain::CONFIG_HOST,
    );
    s.init(entry + domain::SOURCE_TABLE, s.source(3, 0));
    s.init(entry + domain::LINES, s.line(3, 0));
    let at = s.source(3, number);
    s.init(
        at,
        source::ENTRY_V | priority << source::ENTRY_PRIO_SHIFT | s.id(hart),
    );
}

fn source_of_host(s: &mut Script<'_>) {
    host_domain(s, 3, 0, 1);
    host_domain(s, 4, 0, 0);
    s.world_with_windows();
    s.open_window(0, 3, 3, 2);
    let (pending, line) = (s.resample(3, 3), s.line(3, 3));
    let told = notification(kind::SOURCE, 3, 3);
    s.send(0, 0);
    s.expect_only_notification(told, "a message for a source of the host");
    s.expect_word(pending, ALL, bit(3), "its bit is set in the second bitmap");
    s.expect_word(line, ALL, 0, "and the line is not changed");
    s.send(0, 1);
    s.expect_no_notification("a source of priority 0 is not told");
    s.expect_word(pending, ALL, bit(3) | bit(4), "its bit is set all the same");
    s.amo(Amo::And, pending, 0);
    s.generate(op::EDGE, 3, 3);
    s.expect_only_notification(told, "EDGE posts it, too");
    s.amo(Amo::And, pending, 0);
    s.generate(op::ASSERT, 3, 3);
    s.expect_only_notification(told, "and so does ASSERT");
    s.expect_word(line, ALL, bit(3), "which raises the line");
    s.write(csr::HIFMAP, slot(3, 0));
    s.expect(csr::HIFMAP, 0, "a domain of the host has no vharts");
}

fn source_elsewhere(s: &mut Script<'_>) {
    host_domain(s, 3, 1, 1);
    s.world_with_windows();
    s.open_window(0, 3, 3, 1);
    let pending = s.resample(3, 3);
    let told = notification(kind::SOURCE, 3, 3);
    s.send(0, 0);
    s.on(1, |s| {
        s.expect_only_notification(told, "the hart that the entry names is told")
    });
    s.expect_no_notification("and no other");
    s.amo(Amo::And, pending, 0);
    s.on(1, |s| s.write(csr::HNQBASE, 0));
    s.send(0, 0);
    s.expect_only_notification(told, "another if its queue is closed");
    s.amo(Amo::And, pending, 0);
    s.write(csr::HNQBASE, 0);
    s.send(0, 0);
    s.expect_word_soon(
        pending,
        ALL,
        bit(3),
        "without an open queue the bit stays set",
    );
    s.write(csr::HNQBASE, s.queue_base(0));
    s.expect_no_notification("and nobody is told");
}

fn source_once(s: &mut Script<'_>) {
    host_domain(s, 3, 0, 1);
    s.world_with_windows();
    s.open_window(0, 3, 3, 1);
    let pending = s.resample(3, 3);
    let told = notification(kind::SOURCE, 3, 3);
    s.repeat(3, |s| {
        s.repeat(5, |s| s.send(0, 0));
        s.expect_only_notification(told, "once until the bit is cleared");
        s.amo(Amo::And, pending, !bit(3));
        s.compare(bit(3), bit(3), "the bit was set");
    });
}

fn limits_of_windows(s: &mut Script<'_>) {
    let cap = s.register(wcontrol::CAP);
    s.load(cap);
    s.a.andi(A0, A0, 31)
        .sltiu(A0, A0, limits::MAX_WINDOWS.ilog2() as i32 + 1);
    s.compare(ALL, 1, "there are 2^16 windows at most");
    // The last window takes messages as well.
    s.route(1, 3, EDGE);
    s.world_with_windows();
    let table = s.at(crate::layout::LARGE);
    let register = s.register(wcontrol::TABLE);
    s.store(register, wcontrol::TABLE_V | table | 16);
    s.load(cap);
    // s0: number of the last window; s1: its entry; s2: its page.
    s.a.andi(T1, A0, 31)
        .li(T0, 1)
        .sll(S0, T0, T1)
        .addi(S0, S0, -1);
    s.a.li(T0, table).slli(T1, S0, 4).add(S1, T0, T1);
    s.a.li(T0, s.page(0)).slli(T1, S0, 12).add(S2, T0, T1);
    s.a.li(T0, grant(1, 3, 1)).sd(T0, S1, 0);
    s.sync();
    s.a.sw(ZERO, S2, 0);
    s.fence();
    s.sync();
    let pending = s.pending(1, 0, 3);
    s.expect_word(pending, ALL, bit(3), "the last window posts");
}

fn reset(s: &mut Script<'_>) {
    for (offset, name) in [
        (wcontrol::DOMAINS, "DOMAINS"),
        (wcontrol::TABLE, "TABLE"),
        (wcontrol::STATUS, "STATUS"),
        (wcontrol::WIRE + 8, "WIRE[1]"),
    ] {
        let at = s.register(offset);
        s.load(at);
        s.compare(ALL, 0, &format!("{name} after reset"));
    }
}
