//! Wired windows.

use trapless_asm::reg::{A0, T0};
use trapless_isa::xtrapless::wcontrol;

use super::super::prelude::*;
use crate::platform::Wire;

const LEVEL_WIRE: &[Need] = &[Need::Hypervisor, Need::Windows, Need::LevelWire];
const EDGE_WIRE: &[Need] = &[Need::Hypervisor, Need::Windows, Need::EdgeWire];

pub(in super::super) const PROGRAMS: &[Program] = &[
    Program::new("wire-level", &["WIRE-1"], level).needs(LEVEL_WIRE),
    Program::new("wire-edge", &["WIRE-1"], edge).needs(EDGE_WIRE),
    Program::new("wire-is-low-for-plic", &["WIRE-2"], low_for_plic).needs(LEVEL_WIRE),
    Program::new("wire-given-high", &["WIRE-3"], given_high).needs(LEVEL_WIRE),
    Program::new("wire-taken-back", &["WIRE-4"], taken_back).needs(LEVEL_WIRE),
    Program::new("wire-in-order", &["WIRE-5"], in_order).needs(LEVEL_WIRE),
    Program::new("wire-completion", &["WIRE-6"], completion).needs(LEVEL_WIRE),
    Program::new("wire-to-nothing", &["WIRE-7"], to_nothing).needs(LEVEL_WIRE),
];

/// A wire of the platform, and what is done with it.
struct Driven {
    wire: Wire,
    register: u64,
    /// The word of the PLIC with its pending bit, and the bit.
    plic: (u64, u64),
}

impl Driven {
    fn of(s: &Script<'_>, edge: bool) -> Self {
        let platform = s.platform();
        let wire = platform.wires.iter().find(|wire| wire.edge == edge);
        let wire = wire.expect("the program needs the wire").clone();
        let windows = platform.windows.expect("the program needs windows");
        let plic = windows.plic.expect("the program needs the PLIC");
        Self {
            register: windows.control + wcontrol::WIRE + wcontrol::WIRE_STRIDE * wire.number,
            plic: (
                plic + 0x1000 + wire.number / 32 * 4,
                1 << (wire.number % 32),
            ),
            wire,
        }
    }

    fn raise(&self, s: &mut Script<'_>) {
        for (addr, size, value) in &self.wire.raise {
            s.store_bytes(*addr, *size, *value);
        }
        s.fence();
    }

    fn lower(&self, s: &mut Script<'_>) {
        for (addr, size, value) in &self.wire.lower {
            s.store_bytes(*addr, *size, *value);
        }
        s.fence();
    }

    fn give(&self, s: &mut Script<'_>, domain: u64, source: u64) {
        let value = wcontrol::WIRE_V | domain << wcontrol::WIRE_DOM_SHIFT | source;
        s.store(self.register, value);
        s.load(self.register);
        s.compare(ALL, value, "WIRE[n] holds its fields");
    }

    fn take_back(&self, s: &mut Script<'_>) {
        s.store(self.register, 0);
        s.load(self.register);
        s.compare(ALL, 0, "WIRE[n] holds 0");
    }

    /// The PLIC must see the wire as pending or not, in finite time.
    fn plic_sees(&self, s: &mut Script<'_>, pending: bool, text: &str) {
        let (at, bit) = self.plic;
        let want = if pending { bit } else { 0 };
        s.until(bit, want, text, |s| {
            s.a.li(T0, at).lw(A0, T0, 0);
        });
    }
}

/// Line and pending bit of source 3 of domain 1 must become these.
fn source_is(s: &mut Script<'_>, high: bool, pending: bool, text: &str) {
    let word = |on| if on { bit(3) } else { 0 };
    let (line, file) = (s.line(1, 3), s.pending(1, 0, 3));
    s.expect_word_soon(line, ALL, word(high), &format!("{text}: line"));
    s.expect_word_soon(file, ALL, word(pending), &format!("{text}: pending"));
}

fn level(s: &mut Script<'_>) {
    let wire = Driven::of(s, false);
    s.route(1, 3, LEVEL);
    s.world_with_windows();
    wire.lower(s);
    wire.give(s, 1, 3);
    source_is(s, false, false, "given low");
    s.attach(1, 0);
    wire.raise(s);
    source_is(s, true, true, "goes high: ASSERT");
    s.expect_soon(std_csr::VSIP, SE, SE, "the guest is interrupted");
    wire.lower(s);
    source_is(s, false, false, "goes low: DEASSERT");
    s.expect_soon(std_csr::VSIP, SE, 0, "the guest is interrupted no more");
    s.detach(state::HALTED);
    wire.raise(s);
    let text = "the host is told of a vhart that waits";
    s.expect_only_notification(notification(kind::WAKE, 1, 0), text);
    wire.lower(s);
    s.store(
        wire.register - wcontrol::WIRE_STRIDE * wire.wire.number,
        ALL,
    );
    s.load(wire.register - wcontrol::WIRE_STRIDE * wire.wire.number);
    s.compare(ALL, 0, "WIRE[0] is read-only zero");
}

fn edge(s: &mut Script<'_>) {
    let wire = Driven::of(s, true);
    s.route(1, 3, EDGE);
    s.world_with_windows();
    wire.lower(s);
    wire.give(s, 1, 3);
    s.attach(1, 0);
    wire.raise(s);
    source_is(s, false, true, "goes high: EDGE");
    wire.lower(s);
    source_is(s, false, true, "goes low: nothing");
    s.expect_soon(std_csr::VSIP, SE, SE, "the guest is interrupted");
    s.guest(|s| s.expect_claim(3, "and claims"));
    wire.raise(s);
    s.expect_soon(std_csr::VSIP, SE, SE, "the next edge");
    s.guest(|s| {
        s.expect_claim(3, "and claims");
        s.write(csr::VSCLAIM, 3);
        s.expect_claim(0, "its completion finds the line low");
    });
    wire.take_back(s);
    wire.lower(s);
}

fn low_for_plic(s: &mut Script<'_>) {
    let wire = Driven::of(s, false);
    s.route(1, 3, LEVEL);
    s.world_with_windows();
    wire.lower(s);
    wire.give(s, 1, 3);
    wire.raise(s);
    source_is(s, true, true, "the domain has the wire");
    s.settle();
    wire.plic_sees(s, false, "for the PLIC a wire that is given is low");
    wire.lower(s);
}

fn given_high(s: &mut Script<'_>) {
    let wire = Driven::of(s, false);
    s.route(1, 3, LEVEL);
    s.route(2, 3, LEVEL);
    s.world_with_windows();
    wire.raise(s);
    wire.plic_sees(s, true, "before, it is pending in the PLIC");
    wire.give(s, 1, 3);
    source_is(
        s,
        true,
        true,
        "a wire that is high when it is given: ASSERT",
    );
    wire.plic_sees(s, false, "it is pending in the PLIC no more");
    wire.give(s, 2, 3);
    source_is(s, false, false, "given to another: DEASSERT of the first");
    let (line, pending) = (s.line(2, 3), s.pending(2, 0, 3));
    s.expect_word_soon(
        line,
        ALL,
        bit(3),
        "given to another: ASSERT of the other, line",
    );
    s.expect_word_soon(
        pending,
        ALL,
        bit(3),
        "given to another: ASSERT of the other, pending",
    );
    wire.plic_sees(s, false, "and it is not pending in the PLIC");
    wire.lower(s);
}

fn taken_back(s: &mut Script<'_>) {
    let wire = Driven::of(s, false);
    s.route(1, 3, LEVEL);
    s.world_with_windows();
    wire.lower(s);
    wire.give(s, 1, 3);
    wire.raise(s);
    s.attach(1, 0);
    source_is(s, true, true, "the domain has the wire");
    s.guest(|s| s.expect_claim(3, "the guest claims, and does not complete"));
    wire.take_back(s);
    source_is(s, false, false, "taken back: DEASSERT");
    wire.plic_sees(s, true, "the PLIC sees the wire as it is");
    s.guest(|s| {
        s.write(csr::VSCLAIM, 3);
        s.expect_claim(0, "a later completion has no effect");
    });
    wire.lower(s);
    wire.raise(s);
    s.settle();
    source_is(
        s,
        false,
        false,
        "what the wire does then is not the domain's",
    );
    wire.lower(s);
}

/// A load of the register says that the operations of the store have been carried out.
fn in_order(s: &mut Script<'_>) {
    let wire = Driven::of(s, false);
    s.route(1, 3, LEVEL);
    s.world_with_windows();
    let (line, pending) = (s.line(1, 3), s.pending(1, 0, 3));
    wire.raise(s);
    s.repeat(20, |s| {
        wire.give(s, 1, 3);
        s.load(pending);
        s.compare(ALL, bit(3), "given, without a SYNC: pending");
        s.load(line);
        s.compare(ALL, bit(3), "given, without a SYNC: line");
        wire.take_back(s);
        s.load(pending);
        s.compare(ALL, 0, "taken back, without a SYNC: pending");
        s.load(line);
        s.compare(ALL, 0, "taken back, without a SYNC: line");
    });
    wire.lower(s);
}

fn completion(s: &mut Script<'_>) {
    let wire = Driven::of(s, false);
    s.route(1, 3, LEVEL);
    s.world_with_windows();
    wire.lower(s);
    wire.give(s, 1, 3);
    s.attach(1, 0);
    wire.raise(s);
    s.expect_soon(std_csr::VSIP, SE, SE, "the guest is interrupted");
    s.guest(|s| {
        s.expect_claim(3, "the guest claims");
        s.write(csr::VSCLAIM, 3);
        s.expect_claim(3, "the wire is high: posted again");
    });
    wire.lower(s);
    source_is(s, false, false, "the wire goes low");
    s.guest(|s| {
        s.write(csr::VSCLAIM, 3);
        s.expect_claim(0, "the wire is low: not posted again");
    });
    s.expect_no_notification("the host is not told");
}

fn to_nothing(s: &mut Script<'_>) {
    let wire = Driven::of(s, false);
    s.world_with_windows();
    let (entry, status) = (s.source(1, 3), wire.register - wcontrol::WIRE);
    let status = status - wcontrol::WIRE_STRIDE * wire.wire.number + wcontrol::STATUS;
    wire.give(s, 3, 3);
    wire.raise(s);
    wire.lower(s);
    wire.give(s, 1, 3);
    wire.raise(s);
    s.settle();
    source_is(s, false, false, "a source that does not exist");
    s.load(status);
    s.compare(ALL, 0, "which is no failure");
    s.store(entry, LEVEL.entry());
    s.sync();
    s.settle();
    source_is(
        s,
        false,
        false,
        "it exists now, but nothing happens by itself",
    );
    wire.give(s, 1, 3);
    source_is(
        s,
        true,
        true,
        "storing the register again gives the wire anew",
    );
    wire.lower(s);
    source_is(s, false, false, "the wire goes low");
}
