//! Random messages, wires and changes of entries, beside a model that is nothing but the rules MSG
//! and WIRE.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use trapless_isa::port::MessageArrival;
use trapless_isa::xtrapless::csr;

use super::world::*;

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
