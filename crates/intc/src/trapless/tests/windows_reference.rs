//! Random messages, wires and changes of entries, beside a model that is nothing but the rules MSG
//! and WIRE.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use trapless_isa::port::MessageArrival;
use trapless_isa::xtrapless::{csr, wcontrol};

use super::windows::PAGES;
use super::world::*;
use crate::{InterruptArchitecture, Snapshot};

/// Windows that are used; window 9 has no entry.
const WINDOWS: [u64; 4] = [0, 1, 5, 9];
const WIRES: [u64; 3] = [32, 33, 40];
/// Sources up to here exist in domain 1, all to vhart 0; every third is level-sensitive.
const LAST: u16 = 12;

#[derive(Clone, Copy, Debug)]
enum Act {
    Open(u64, u16, u16, u16),
    Close(u64),
    Message(u64, u32),
    Wire(u64, bool),
    Give(u64, u16),
    TakeBack(u64),
    Claim,
    Complete(u16),
}

fn act() -> impl Strategy<Value = Act> {
    let window = prop::sample::select(&WINDOWS[..]);
    let wire = prop::sample::select(&WIRES[..]);
    let data = prop_oneof![4 => 0..16u32, 1 => any::<u32>()];
    prop_oneof![
        2 => (window.clone(), 0..4u16, 0..LAST + 3, 0..8u16)
            .prop_map(|(w, d, f, c)| Act::Open(w, d, f, c)),
        1 => window.clone().prop_map(Act::Close),
        8 => (window, data).prop_map(|(w, d)| Act::Message(w, d)),
        6 => (wire.clone(), any::<bool>()).prop_map(|(w, l)| Act::Wire(w, l)),
        2 => (wire.clone(), 1..=LAST).prop_map(|(w, s)| Act::Give(w, s)),
        1 => wire.prop_map(Act::TakeBack),
        4 => Just(Act::Claim),
        4 => (1..=LAST).prop_map(Act::Complete),
    ]
}

fn level(source: u16) -> bool {
    source % 3 == 0
}

/// What the rules say, without memory, lookups or harts.
#[derive(Default)]
struct Rules {
    entries: BTreeMap<u64, (u16, u16, u16)>,
    dropped: BTreeMap<u64, u64>,
    pending: BTreeSet<u16>,
    lines: BTreeSet<u16>,
    high: BTreeSet<u64>,
    given: BTreeMap<u64, u16>,
}

impl Rules {
    /// The source that a message posts.
    fn message(&mut self, window: u64, data: u32) -> Option<u16> {
        if window == 9 {
            return None;
        }
        match self.entries.get(&window) {
            Some(&(domain, first, count)) if data < u32::from(count) => {
                let source = first + data as u16;
                (domain == 1 && (1..=LAST).contains(&source)).then_some(source)
            }
            _ => {
                *self.dropped.entry(window).or_default() += 1;
                None
            }
        }
    }

    fn line(&mut self, source: u16, high: bool) {
        if high {
            if self.lines.insert(source) {
                self.pending.insert(source);
            }
        } else {
            self.lines.remove(&source);
            if level(source) {
                self.pending.remove(&source);
            }
        }
    }

    fn take_back(&mut self, wire: u64) {
        if let Some(source) = self.given.remove(&wire) {
            self.line(source, false);
        }
    }
}

proptest! {
    #[test]
    fn windows_and_wires_do_what_their_rules_say(acts in prop::collection::vec(act(), 1..250)) {
        let mut w = World::with_windows();
        for number in 1..=LAST {
            let routing = if level(number) { LEVEL } else { EDGE };
            w.route(1, number, routing);
        }
        w.attach(0, 1, 0);
        let mut rules = Rules::default();
        for act in acts {
            match act {
                Act::Open(window, domain, first, count) if window != 9 => {
                    w.open(window, domain, first, count);
                    rules.entries.insert(window, (domain, first, count));
                    rules.dropped.remove(&window);
                }
                Act::Open(..) => {}
                Act::Close(window) => {
                    if rules.entries.remove(&window).is_some() {
                        w.close(window);
                    }
                }
                Act::Message(window, data) => {
                    let posted = rules.message(window, data);
                    let arrival = w.message(window, data);
                    let expected = match posted {
                        Some(source) => MessageArrival::Window {
                            window: window as u16,
                            domain: 1,
                            source,
                            merged: !rules.pending.insert(source),
                        },
                        None => MessageArrival::Dropped { window: window as u16 },
                    };
                    prop_assert_eq!(arrival, Some(expected));
                }
                Act::Wire(wire, high) => {
                    if high { rules.high.insert(wire); } else { rules.high.remove(&wire); }
                    if let Some(&source) = rules.given.get(&wire) {
                        rules.line(source, high);
                    }
                    w.wire(wire, high);
                }
                Act::Give(wire, source) => {
                    rules.take_back(wire);
                    rules.given.insert(wire, source);
                    if rules.high.contains(&wire) {
                        rules.line(source, true);
                    }
                    w.give(wire, Some(source));
                }
                Act::TakeBack(wire) => {
                    let was = rules.given.contains_key(&wire);
                    rules.take_back(wire);
                    w.give(wire, None);
                    // The PLIC may have more pending, as falling wires do not withdraw.
                    let high = rules.high.contains(&wire);
                    prop_assert!(!was || w.plic_pending(wire) == high);
                }
                Act::Claim => {
                    // Of equal priority the lowest is first.
                    let first = rules.pending.pop_first().unwrap_or(0);
                    prop_assert_eq!(w.claim(0), u64::from(first));
                }
                Act::Complete(source) => {
                    if level(source) && rules.lines.contains(&source) {
                        rules.pending.insert(source);
                    }
                    w.vs(0, csr::VSCLAIM, source.into());
                }
            }
            let pending: BTreeSet<u16> = (1..=LAST).filter(|&s| w.pending(1, 0, s)).collect();
            prop_assert_eq!(&pending, &rules.pending);
            let lines: BTreeSet<u16> = (1..=LAST).filter(|&s| w.line(1, s)).collect();
            prop_assert_eq!(&lines, &rules.lines);
            prop_assert_eq!(w.level(0) & EXTERNAL != 0, !pending.is_empty());
            for window in WINDOWS {
                let dropped = rules.dropped.get(&window).copied().unwrap_or(0);
                prop_assert!(window == 9 || w.dropped(window) == dropped);
            }
            for &wire in rules.given.keys() {
                prop_assert!(!w.plic_pending(wire));
            }
        }
    }
}

/// A store, a message or a wire of anybody, without any sense.
#[derive(Clone, Copy, Debug)]
enum Hostile {
    Store(u64, u8, u64),
    Load(u64, u8),
    Message(u64, u32),
    Wire(u64, bool),
}

fn hostile() -> impl Strategy<Value = Hostile> {
    let registers = (0..4u64, prop::bool::ANY).prop_map(|(n, wire)| match wire {
        true => wcontrol::WIRE + (n + 30) * 8,
        false => n * 8,
    });
    let control = registers.prop_map(|offset| 0x302_0000 + offset);
    let page = (0..20u64, 0..12u64).prop_map(|(n, low)| PAGES + n * 4096 + low);
    let addr = prop_oneof![4 => control, 3 => page.clone(), 1 => any::<u64>()];
    let flags = prop::sample::select(&[0u64, 1 << 63, 1 << 62][..]);
    let value = prop_oneof![
        1 => any::<u64>(),
        4 => (flags.clone(), 0..4u64, 0..80u64).prop_map(|(f, d, s)| f | d << 32 | s),
        4 => (flags, 0..RAM_SIZE / 4096, 0..18u64).prop_map(|(f, p, s)| f | (RAM + p * 4096) | s),
    ];
    let size = prop::sample::select(&[1u8, 2, 4, 8, 8, 8][..]);
    let data = prop_oneof![3 => 0..12u32, 1 => any::<u32>()];
    prop_oneof![
        6 => (addr.clone(), size.clone(), value).prop_map(|(a, s, v)| Hostile::Store(a, s, v)),
        1 => (addr, size).prop_map(|(a, s)| Hostile::Load(a, s)),
        4 => (page, data).prop_map(|(a, d)| Hostile::Message(a, d)),
        3 => (0..100u64, any::<bool>()).prop_map(|(w, l)| Hostile::Wire(w, l)),
    ]
}

proptest! {
    /// Any register, table, message and wire is answered or refused, changes of lines are reported,
    /// and a snapshot is refused or complete.
    #[test]
    fn hostile_messages_and_registers_are_answered(
        words in prop::collection::vec((0..RAM_SIZE / 8, any::<u64>()), 0..60),
        acts in prop::collection::vec(hostile(), 1..120),
    ) {
        let mut w = World::with_windows();
        for number in 1..=LAST {
            w.route(1, number, if level(number) { RESAMPLE } else { EDGE });
            w.route(2, number, LEVEL);
        }
        w.attach(0, 1, 0);
        w.attach(2, 2, 0);
        w.open(0, 1, 1, 8);
        for (index, word) in words {
            w.ram.set(RAM + index * 8, word);
        }
        w.take_changed();
        let mut seen: Vec<_> = (0..HARTS).map(|hart| w.level(hart)).collect();
        for act in acts {
            match act {
                Hostile::Store(addr, size, value) => drop(w.store(addr, size, value)),
                Hostile::Load(addr, size) => drop(w.load(addr, size)),
                Hostile::Message(addr, data) => {
                    w.intc.message(0, addr, data, &mut w.effects);
                }
                Hostile::Wire(wire, high) => w.wire(wire, high),
            }
            let changed = w.take_changed();
            for (hart, seen) in seen.iter_mut().enumerate() {
                let lines = w.lines(hart);
                let differs = lines.level != *seen || lines.pulse | lines.arrived != 0;
                prop_assert!(!differs || changed >> hart & 1 != 0, "hart {} changed silently", hart);
                *seen = lines.level;
            }
            w.intc.inspect(0);
        }
        let saved = w.intc.save();
        let mut copy = World::with_windows();
        copy.intc.restore(&saved).unwrap();
        prop_assert_eq!(copy.intc.save(), saved);
    }
}
