//! Message windows and wired windows, by rule (MSG, WIRE).

use trapless_isa::Mode;
use trapless_isa::port::MessageArrival;
use trapless_isa::xtrapless::{
    csr, domain, file, hnotify, hnqbase, htlcfg, hvtablebase, kind, limits, op, source, state,
    wcontrol, window,
};

use super::world::*;
use crate::trapless::Trapless;
use crate::{CsrOp, InterruptArchitecture, MmioAccess, NoRegister, Snapshot, StepKind};

/// Where registers and pages are, as the device tree says.
const CONTROL: u64 = 0x302_0000;
pub const PAGES: u64 = 0x2800_0000;
/// The window table, in RAM that nothing else uses.
const TABLE: u64 = RAM + 0x1_8000;
/// log2 of the number of windows; one half of them has an entry.
const SIZE: u8 = 4;
/// A wire whose gateway is level-triggered, and one whose gateway is edge-triggered.
const WIRE: u64 = 32;
const EDGE_WIRE: u64 = 10;
/// The PLIC: context of S-mode of hart 0.
const PLIC: u64 = 0xc00_0000;

impl World {
    /// [`World::new`] with windows, whose table is empty.
    pub fn with_windows() -> Self {
        let mut config = config(true);
        config.aclint.edge_triggered = 1 << EDGE_WIRE;
        let mut w = Self::around(Trapless::new(config).with_windows(SIZE));
        w.register(wcontrol::DOMAINS, hvtablebase::V | RAM | 2);
        w.register(
            wcontrol::TABLE,
            wcontrol::TABLE_V | TABLE | u64::from(SIZE - 1),
        );
        w.take_changed();
        w
    }

    fn mmio(addr: u64, size: u8) -> MmioAccess {
        MmioAccess {
            hart: 1,
            mode: Mode::HS,
            now: 0,
            addr,
            size,
        }
    }

    pub fn store(&mut self, addr: u64, size: u8, value: u64) -> Result<(), NoRegister> {
        self.intc
            .store(&Self::mmio(addr, size), value, &mut self.effects)
    }

    pub fn load(&mut self, addr: u64, size: u8) -> Result<u64, NoRegister> {
        self.intc.load(&Self::mmio(addr, size), &mut self.effects)
    }

    pub fn register(&mut self, offset: u64, value: u64) {
        self.store(CONTROL + offset, 8, value).unwrap();
    }

    pub fn read(&mut self, offset: u64) -> u64 {
        self.load(CONTROL + offset, 8).unwrap()
    }

    /// Sets the entry of a window, and its counter to 0.
    pub fn open(&self, number: u64, domain: u16, first: u16, count: u16) {
        let entry = window::ENTRY_V
            | u64::from(domain) << window::ENTRY_DOM_SHIFT
            | u64::from(count) << window::ENTRY_COUNT_SHIFT
            | u64::from(first);
        let at = TABLE + number * window::SIZE;
        self.ram.set(at + window::ENTRY, entry);
        self.ram.set(at + window::DROPPED, 0);
    }

    pub fn close(&self, number: u64) {
        self.ram
            .set(TABLE + number * window::SIZE + window::ENTRY, 0);
    }

    pub fn dropped(&self, number: u64) -> u64 {
        self.ram
            .get(TABLE + number * window::SIZE + window::DROPPED)
    }

    /// A device stores `data` to the page of a window.
    pub fn message(&mut self, number: u64, data: u32) -> Option<MessageArrival> {
        let addr = PAGES + number * limits::WINDOW_BYTES;
        self.intc.message(0, addr, data, &mut self.effects)
    }

    pub fn wire(&mut self, source: u64, level: bool) {
        self.intc
            .set_source(0, source as u32, level, &mut self.effects);
    }

    /// Gives a wire to a source of domain 1, or takes it back.
    pub fn give(&mut self, wire: u64, to: Option<u16>) {
        let value = to.map_or(0, |source| {
            wcontrol::WIRE_V | 1 << wcontrol::WIRE_DOM_SHIFT | u64::from(source)
        });
        self.register(wcontrol::WIRE + wire * 8, value);
    }

    /// Whether the PLIC has a source pending.
    pub fn plic_pending(&mut self, source: u64) -> bool {
        let word = self.load(PLIC + 0x1000 + source / 32 * 4, 4).unwrap();
        word >> (source % 32) & 1 != 0
    }
}

/// MSG-2: d below the count posts source first + d of the domain, as an edge, with all that follows
/// a post.
#[test]
fn a_message_posts_the_source_that_entry_and_data_name() {
    let mut w = World::with_windows();
    w.route(1, 12, EDGE);
    w.attach(0, 1, 0);
    w.open(3, 1, 10, 4);
    w.take_steps();
    let posted = MessageArrival::Window {
        window: 3,
        domain: 1,
        source: 12,
        merged: false,
    };
    assert_eq!(w.message(3, 2), Some(posted));
    assert_eq!((w.level(0), w.claim(0), w.level(0)), (EXTERNAL, 12, 0));
    assert!(!w.line(1, 12), "the line is not touched");
    let steps = w.take_steps();
    assert!(steps[..2].iter().all(|step| step.by_device));
    assert!(steps[0].memory > 0 && steps[1].kind == StepKind::Hit { vhart: 0, on: 0 });
    assert_eq!(w.dropped(3), 0);
}

/// MSG-5: messages are edges that merge.
#[test]
fn messages_for_a_pending_source_merge() {
    let mut w = World::with_windows();
    w.route(1, 10, EDGE);
    w.open(0, 1, 10, 1);
    w.attach(0, 1, 0);
    let merged = |arrival| matches!(arrival, Some(MessageArrival::Window { merged: true, .. }));
    assert!(!merged(w.message(0, 0)));
    assert!(merged(w.message(0, 0)));
    assert_eq!((w.claim(0), w.claim(0)), (10, 0));
}

/// MSG-3: data at and beyond the count, whatever it is, posts nothing and is counted.
#[test]
fn data_out_of_range_is_dropped_and_counted() {
    let mut w = World::with_windows();
    for number in 1..=SOURCES {
        w.route(1, number, EDGE);
        w.route(2, number, EDGE);
    }
    w.attach(0, 1, 0);
    w.attach(1, 2, 0);
    let (first, count) = (8u16, 5u16);
    w.open(1, 1, first, count);
    let mut expected = 0;
    let edges = [u32::from(u16::MAX), 1 << 16, 1 << 31, u32::MAX];
    let wrapping = (0..32).flat_map(|bit| [1u32 << bit, (1u32 << bit).wrapping_sub(1)]);
    let hostile: Vec<u32> = (0..300).chain(edges).chain(wrapping).collect();
    for data in hostile {
        let arrival = w.message(1, data);
        if data < u32::from(count) {
            assert_eq!(w.claim(0), u64::from(first) + u64::from(data));
        } else {
            expected += 1;
            assert_eq!(arrival, Some(MessageArrival::Dropped { window: 1 }));
        }
        assert_eq!((w.claim(0), w.claim(1)), (0, 0), "data {data:#x}");
    }
    assert_eq!(w.dropped(1), expected);
    assert_eq!((w.dropped(0), w.dropped(2)), (0, 0));
}

/// MSG-3: the counter wraps around.
#[test]
fn the_counter_of_dropped_messages_wraps_around() {
    let mut w = World::with_windows();
    w.ram.set(TABLE + window::DROPPED, u64::MAX);
    w.message(0, 0);
    assert_eq!(w.dropped(0), 0);
}

/// MSG-2, MSG-3: what an entry names and does not exist, and windows without an entry.
#[test]
fn messages_to_nothing_have_no_effect() {
    let mut w = World::with_windows();
    w.attach(0, 1, 0);
    let before = w.ram.words();
    let failed = |w: &mut World| w.read(wcontrol::STATUS) & wcontrol::STATUS_FLT != 0;
    // Windows at and beyond the end of the table, and beyond all windows.
    for number in [1 << (SIZE - 1), (1 << SIZE) - 1] {
        w.message(number, 0);
    }
    assert_eq!(w.message(1 << SIZE, 0), None);
    assert_eq!(w.ram.words(), before);
    // Domains and sources that there are not; the sum does not wrap around.
    for (domain, first, data) in [(0, 1, 0), (9, 1, 0), (1, 0, 0), (1, 500, 3), (1, 0xffff, 2)] {
        w.open(2, domain, first, 10);
        assert_eq!(
            w.message(2, data),
            Some(MessageArrival::Dropped { window: 2 })
        );
        assert_eq!((w.dropped(2), w.claim(0)), (0, 0));
    }
    assert!(!failed(&mut w));
    w.register(wcontrol::TABLE, 0);
    w.route(1, 10, EDGE);
    w.open(2, 1, 10, 1);
    w.message(2, 0);
    assert_eq!((w.claim(0), w.dropped(2)), (0, 0), "there is no table");
}

/// MSG-4: only a store of four bytes to offset 0 is a message. MSG-1: harts' stores are messages
/// too.
#[test]
fn other_accesses_of_the_page_are_no_messages() {
    let mut w = World::with_windows();
    w.route(1, 10, EDGE);
    w.open(2, 1, 10, 1);
    w.attach(0, 1, 0);
    let page = PAGES + 2 * limits::WINDOW_BYTES;
    for (offset, size) in [(0, 1), (0, 2), (0, 8), (4, 4), (2, 4), (0xffc, 4)] {
        w.store(page + offset, size, 0).unwrap();
    }
    assert_eq!((w.claim(0), w.dropped(2)), (0, 6));
    for size in [1, 2, 4, 8] {
        assert_eq!(w.load(page, size), Ok(0));
    }
    assert_eq!((w.claim(0), w.dropped(2)), (0, 6));
    w.intc.message(0, page + 8, 0, &mut w.effects);
    assert_eq!((w.claim(0), w.dropped(2)), (0, 7));
    // Bits above the word are no part of the data.
    w.store(page, 4, 0xffff_ffff_0000_0000).unwrap();
    assert_eq!((w.claim(0), w.dropped(2)), (10, 7));
}

/// MSG-8: an entry that the host has changed is used from the next message on.
#[test]
fn a_closed_window_posts_nothing() {
    let mut w = World::with_windows();
    w.route(1, 10, EDGE);
    w.open(2, 1, 10, 1);
    w.attach(0, 1, 0);
    w.close(2);
    w.generate(1, op::SYNC, 0, 0);
    for _ in 0..3 {
        w.message(2, 0);
    }
    assert_eq!((w.claim(0), w.dropped(2)), (0, 3));
}

/// Moving a vCPU needs no change of window or source: the lookup finds it. A vCPU that does not run
/// is told of as by any other post (DEL-9).
#[test]
fn messages_follow_the_vhart() {
    let mut w = World::with_windows();
    w.route(1, 10, EDGE);
    w.open(0, 1, 10, 1);
    for hart in [0, 2, 1] {
        w.attach(hart, 1, 0);
        w.message(0, 0);
        assert_eq!((w.level(hart), w.claim(hart)), (EXTERNAL, 10));
        w.detach(hart, state::STOPPED);
    }
    for (left, kind) in [(state::HALTED, kind::WAKE), (state::PREEMPTED, kind::YIELD)] {
        w.attach(2, 1, 0);
        w.detach(2, left);
        // Whatever ANY of the hart says that wrote DOMAINS (MSG-6).
        w.hs(1, csr::HTLCFG, htlcfg::EN | htlcfg::ANY);
        w.message(0, 0);
        w.message(0, 0);
        assert_eq!(w.fetch(2), notification(kind, 1, 0));
        assert_eq!((w.fetch(0), w.fetch(1), w.fetch(2)), (0, 0, 0), "told once");
        w.set_ctl(1, 0, ctl(state::STOPPED, 2, 0));
        w.attach(2, 1, 0);
        assert_eq!(w.claim(2), 10);
        w.detach(2, state::STOPPED);
    }
}

/// MSG-6: failures are reported in STATUS, not at a hart.
#[test]
fn failed_accesses_of_messages_are_reported() {
    let mut w = World::with_windows();
    w.route(1, 10, EDGE);
    w.open(0, 1, 10, 1);
    w.ram.lose(TABLE);
    w.message(0, 0);
    assert_eq!(w.read(wcontrol::STATUS), wcontrol::STATUS_FLT);
    w.register(wcontrol::STATUS, wcontrol::STATUS_FLT);
    assert_eq!(
        w.read(wcontrol::STATUS),
        wcontrol::STATUS_FLT,
        "1 leaves it"
    );
    w.register(wcontrol::STATUS, 0);
    w.ram.lose(source_table(1) + 10 * source::SIZE);
    w.message(0, 0);
    assert_eq!(w.read(wcontrol::STATUS), wcontrol::STATUS_FLT);
    for hart in 0..HARTS {
        assert_eq!(w.hs_read(hart, csr::HTLCFG) & htlcfg::FLT, 0);
    }
    w.register(wcontrol::STATUS, 0);
    w.register(wcontrol::STATUS, wcontrol::STATUS_FLT);
    assert_eq!(w.read(wcontrol::STATUS), 0, "1 does not set it");
}

/// MSG-7: widths, WARL fields, what is read-only.
#[test]
fn registers_are_warl() {
    let mut w = World::with_windows();
    let cap = limits::VERSION << wcontrol::CAP_VERSION_SHIFT
        | 95 << wcontrol::CAP_WIRES_SHIFT
        | u64::from(SIZE);
    assert_eq!(w.read(wcontrol::CAP), cap);
    w.register(wcontrol::CAP, 0);
    assert_eq!(w.read(wcontrol::CAP), cap);
    for register in [wcontrol::DOMAINS, wcontrol::TABLE] {
        w.register(register, u64::MAX);
        let most = wcontrol::TABLE_V | wcontrol::TABLE_PPN | 16;
        assert_eq!(w.read(register), most);
    }
    for (offset, size) in [(0, 4), (8, 4), (12, 4), (8, 1), (4, 8)] {
        assert_eq!(w.load(CONTROL + offset, size), Err(NoRegister));
        assert_eq!(w.store(CONTROL + offset, size, 0), Err(NoRegister));
    }
    // Wire 0, wires that the PLIC has not, and what no register is at.
    for offset in [
        wcontrol::WIRE,
        wcontrol::WIRE + 96 * 8,
        0x20,
        0x1ff8,
        0x3ff8,
    ] {
        w.register(offset, u64::MAX);
        assert_eq!(w.read(offset), 0);
    }
    w.register(wcontrol::WIRE + 95 * 8, u64::MAX);
    let all = wcontrol::WIRE_V | wcontrol::WIRE_DOM | wcontrol::WIRE_ID;
    assert_eq!(w.read(wcontrol::WIRE + 95 * 8), all);
    assert_eq!(w.message((CONTROL - PAGES % CONTROL) / 4096, 0), None);
}

/// Domain 2 becomes one of the host, with two sources for hart 1.
fn host_domain(w: &mut World) {
    let config = domain_entry(2) + domain::CONFIG;
    let word = w.ram.get(config) & !domain::CONFIG_VHARTS;
    w.ram.set(config, word | domain::CONFIG_HOST);
    for number in [3, 4] {
        w.route_only(2, number, Routing { vhart: 1, ..EDGE });
    }
}

fn host_pending(w: &World) -> u64 {
    w.ram.get(lines_of(2) + 128)
}

/// MSG-10, MSG-11: a source of the host is one bit, and at most one notification until the bit is
/// cleared.
#[test]
fn messages_of_the_host_are_notifications() {
    let mut w = World::with_windows();
    host_domain(&mut w);
    w.open(0, 2, 3, 2);
    w.message(0, 0);
    w.message(0, 0);
    w.message(0, 1);
    assert_eq!((w.level(1), host_pending(&w)), (NOTIFY, 0b11000));
    assert_eq!(w.fetch(1), notification(kind::SOURCE, 2, 3));
    w.message(0, 0);
    assert_eq!(w.fetch(1), notification(kind::SOURCE, 2, 4));
    assert_eq!((w.fetch(1), w.level(1)), (0, 0), "no second one for 3");
    w.ram.set(lines_of(2) + 128, 0);
    w.message(0, 0);
    assert_eq!(w.fetch(1), notification(kind::SOURCE, 2, 3));
    assert_eq!(w.dropped(0), 0);
}

/// MSG-10: `hgenvsi` posts them too; there are no vharts, even if CONFIG says so.
#[test]
fn a_domain_of_the_host_has_no_vharts() {
    let mut w = World::with_windows();
    host_domain(&mut w);
    w.generate(0, op::EDGE, 2, 4);
    assert_eq!(w.fetch(1), notification(kind::SOURCE, 2, 4));
    let config = domain_entry(2) + domain::CONFIG;
    w.ram.set(config, w.ram.get(config) | u64::from(VHARTS));
    w.generate(0, op::SOFT, 2, 0);
    w.hs(0, csr::HIFMAP, slot(2, 0));
    assert_eq!((w.hs_read(0, csr::HIFMAP), w.ctl(2, 0)), (0, 0));
}

/// MSG-10: priority 0 masks; another hart takes the place of one without a queue; without any queue
/// the bit stays for whoever opens one.
#[test]
fn messages_of_the_host_are_masked_and_find_a_queue() {
    let mut w = World::with_windows();
    host_domain(&mut w);
    w.open(0, 2, 3, 2);
    w.route_only(
        2,
        3,
        Routing {
            vhart: 1,
            priority: 0,
            ..EDGE
        },
    );
    w.message(0, 0);
    assert_eq!((host_pending(&w), w.fetch(1)), (0b1000, 0));
    w.ram.set(lines_of(2) + 128, 0);
    // A hart that does not exist, then one whose queue is closed.
    w.route_only(2, 4, Routing { vhart: 77, ..EDGE });
    w.message(0, 1);
    assert_eq!(w.fetch(0), notification(kind::SOURCE, 2, 4));
    for hart in 0..HARTS {
        w.hs(hart, csr::HNQBASE, 0);
    }
    w.ram.set(lines_of(2) + 128, 0);
    w.message(0, 1);
    w.hs(2, csr::HNQBASE, hnqbase::EN | queue_of(2) | QUEUE_SIZE);
    assert_eq!((w.fetch(2), host_pending(&w)), (0, 0b10000));
}

/// MSG-11: an overflow is reported, and the bits say what it was about.
#[test]
fn an_overflow_by_messages_of_the_host_is_reported() {
    let mut w = World::with_windows();
    host_domain(&mut w);
    for number in 1..=8 {
        w.route_only(2, number, Routing { vhart: 1, ..EDGE });
    }
    w.open(0, 2, 1, 8);
    for data in 0..8 {
        w.message(0, data);
    }
    let mut read = Vec::new();
    while let value @ 1.. = w.fetch(1) {
        read.push(value);
    }
    assert_eq!(read.len(), 1 << QUEUE_SIZE);
    assert_ne!(read[0] & hnotify::OVF, 0);
    assert_eq!(host_pending(&w), 0b1_1111_1110);
}

/// An implementation without windows ignores HOST, and has no pages.
#[test]
fn without_windows_nothing_is_there() {
    let mut w = World::new();
    host_domain(&mut w);
    assert_eq!(w.message(0, 0), None);
    assert_eq!(w.load(CONTROL, 8), Err(NoRegister));
    assert_eq!(w.intc.describe().msi_parent, None);
    w.generate(0, op::EDGE, 2, 3);
    assert_eq!((w.fetch(1), host_pending(&w)), (0, 0));
    let without_h = Trapless::new(config(false)).with_windows(SIZE);
    assert_eq!(without_h.describe().msi_parent, None);
}

/// A snapshot has the registers and wires; one of another size, or with impossible values, is
/// refused.
#[test]
fn snapshots_keep_windows() {
    let mut w = World::with_windows();
    w.wire(WIRE, true);
    w.give(WIRE, Some(5));
    let saved = w.intc.save();
    let mut copy = World::with_windows();
    copy.intc.restore(&saved).unwrap();
    assert_eq!(copy.intc.save(), saved);
    copy.give(WIRE, None);
    assert!(copy.plic_pending(WIRE), "its level was kept");
    let mut other = Trapless::new(config(true)).with_windows(SIZE + 1);
    assert!(other.restore(&saved).is_err());
    assert!(Trapless::new(config(true)).restore(&saved).is_err());
    for (name, value) in [("hart", 99), ("domains", 32), ("table", 31)] {
        let mut wrong = saved.clone();
        wrong["xtrapless"]["windows"][name] = value.into();
        assert!(copy.intc.restore(&wrong).is_err(), "{name}");
    }
}

/// WIRE-1, WIRE-3, WIRE-6: the level of a wire is the line of the source, from the moment at which
/// it is given; completion looks at it again, and nobody tells the host.
#[test]
fn a_given_wire_drives_the_line_of_its_source() {
    let mut w = World::with_windows();
    w.route(1, 7, LEVEL);
    w.attach(0, 1, 0);
    w.wire(WIRE, true);
    assert!(w.plic_pending(WIRE));
    w.give(WIRE, Some(7));
    assert!(w.line(1, 7) && !w.plic_pending(WIRE), "high when given");
    assert_eq!(w.claim(0), 7);
    w.vs(0, csr::VSCLAIM, 7);
    assert_eq!(w.claim(0), 7, "high at completion");
    w.wire(WIRE, false);
    w.vs(0, csr::VSCLAIM, 7);
    assert_eq!((w.claim(0), w.line(1, 7)), (0, false));
    w.wire(WIRE, true);
    w.wire(WIRE, true);
    assert_eq!(w.level(0), EXTERNAL);
    w.wire(WIRE, false);
    assert_eq!((w.level(0), w.claim(0)), (0, 0), "withdrawn");
    for hart in 0..HARTS {
        assert_eq!(w.fetch(hart), 0);
    }
    assert!(!w.plic_pending(WIRE));
}

/// WIRE-4: taken back at any time, the wire is the PLIC's as it is, and nothing of it is left in
/// the domain. WIRE-2, WIRE-3: the gateway starts afresh, even if the source had been claimed.
#[test]
fn a_wire_is_taken_back_at_any_time() {
    let mut w = World::with_windows();
    w.route(1, 7, LEVEL);
    w.attach(0, 1, 0);
    // The host has claimed the source when it gives the wire away.
    w.store(PLIC + 4 * WIRE, 4, 1).unwrap();
    w.store(PLIC + 0x2000 + 0x80 + WIRE / 32 * 4, 4, 1 << (WIRE % 32))
        .unwrap();
    w.wire(WIRE, true);
    assert_eq!(w.load(PLIC + 0x20_1004, 4), Ok(WIRE));
    w.give(WIRE, Some(7));
    assert_eq!(w.claim(0), 7);
    w.take_changed();
    w.give(WIRE, None);
    assert_eq!(
        w.take_changed() & 1,
        1,
        "hart 0 has an interrupt of the PLIC"
    );
    assert!(w.plic_pending(WIRE) && !w.line(1, 7));
    w.vs(0, csr::VSCLAIM, 7);
    assert_eq!(w.claim(0), 0, "a late completion has no effect");
    // Pending and not claimed: gone as well.
    assert_eq!(w.load(PLIC + 0x20_1004, 4), Ok(WIRE));
    w.store(PLIC + 0x20_1004, 4, WIRE).unwrap();
    w.give(WIRE, Some(7));
    assert_eq!(w.level(0), EXTERNAL);
    w.wire(WIRE, false);
    w.wire(WIRE, true);
    w.give(WIRE, None);
    assert_eq!((w.level(0) & EXTERNAL, w.claim(0)), (0, 0));
    w.give(WIRE, None);
    assert!(w.plic_pending(WIRE));
}

/// WIRE-3: given anew, the former source is released; WIRE-7: storing again drives what has come to
/// exist.
#[test]
fn a_wire_is_given_anew() {
    let mut w = World::with_windows();
    w.attach(0, 1, 0);
    w.wire(WIRE, true);
    w.give(WIRE, Some(7));
    w.route(1, 7, LEVEL);
    w.route(1, 8, LEVEL);
    assert_eq!(w.claim(0), 0);
    w.give(WIRE, Some(7));
    assert_eq!(w.claim(0), 7);
    w.give(WIRE, Some(8));
    assert_eq!((w.claim(0), w.line(1, 7), w.line(1, 8)), (8, false, true));
    w.vs(0, csr::VSCLAIM, 7);
    assert_eq!(w.claim(0), 0);
}

/// WIRE-1: edges of an edge-triggered wire, and no line; WIRE-4: a high one that is taken back is
/// no new edge.
#[test]
fn an_edge_triggered_wire_posts_edges() {
    let mut w = World::with_windows();
    w.route(1, 7, EDGE);
    w.attach(0, 1, 0);
    w.wire(EDGE_WIRE, true);
    w.give(EDGE_WIRE, Some(7));
    assert_eq!(w.claim(0), 0, "no edge after it was given");
    w.wire(EDGE_WIRE, true);
    assert_eq!((w.claim(0), w.line(1, 7)), (7, false));
    w.vs(0, csr::VSCLAIM, 7);
    assert_eq!(w.claim(0), 0);
    w.wire(EDGE_WIRE, false);
    w.wire(EDGE_WIRE, true);
    assert_eq!(w.claim(0), 7);
    w.give(EDGE_WIRE, None);
    assert!(!w.plic_pending(EDGE_WIRE));
    w.wire(EDGE_WIRE, true);
    assert!(w.plic_pending(EDGE_WIRE));
}

/// MSG-6: memory is accessed as the hart may that wrote DOMAINS last; that is not what CSRs of
/// others use.
#[test]
fn tables_of_windows_are_those_of_their_registers() {
    let mut w = World::with_windows();
    w.route(1, 10, EDGE);
    w.open(0, 1, 10, 1);
    w.set_ctl(1, 0, ctl(state::STOPPED, 0, 0));
    for hart in 0..HARTS {
        w.access(hart, Mode::HS, csr::HVTABLEBASE, CsrOp::Write(0))
            .unwrap();
    }
    w.message(0, 0);
    assert!(w.pending(1, 0, 10));
    w.ram.set(word(1, 0, file::PENDING, 10), 0);
    w.register(wcontrol::DOMAINS, 0);
    w.message(0, 0);
    assert!(!w.pending(1, 0, 10));
}
