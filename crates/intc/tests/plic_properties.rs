//! The PLIC against a naive model of the specification, and against hostile accesses.

use proptest::prelude::*;
use trapless_intc::aclint_plic::{AclintPlic, Config};
use trapless_intc::plic::{MAX_PRIORITY, Plic};
use trapless_intc::{Effects, InterruptArchitecture, MmioAccess, NoRegister, Snapshot};
use trapless_isa::Mode;

const SOURCES: u32 = 40;
const CONTEXTS: usize = 3;

fn access(addr: u64, size: u8) -> MmioAccess {
    MmioAccess {
        hart: 0,
        mode: Mode::M,
        now: 0,
        addr,
        size,
    }
}

/// Straight from the specification, one record per source and no caching.
#[derive(Default)]
struct Model {
    sources: Vec<Source>,
    threshold: [u32; CONTEXTS],
}

#[derive(Default, Clone)]
struct Source {
    edge: bool,
    wire: bool,
    /// Driven high since the claim, and not low.
    again: bool,
    pending: bool,
    claimed: bool,
    priority: u32,
    enabled: [bool; CONTEXTS],
}

impl Model {
    fn new() -> Self {
        let source = |number| Source {
            edge: is_edge(number),
            ..Source::default()
        };
        Self {
            sources: (0..=SOURCES).map(source).collect(),
            ..Self::default()
        }
    }

    /// Gateways forward requests: a level while the wire is high, an edge once. Nothing but a claim
    /// takes a request back.
    fn latch(&mut self) {
        for source in &mut self.sources[1..] {
            let request = if source.edge {
                source.again
            } else {
                source.wire
            };
            if request && !source.claimed {
                source.pending = true;
                source.again = false;
            }
        }
    }

    /// The register of pending bits with this number.
    fn pending(&self, word: u32) -> u32 {
        let bits = (0..32).filter(|bit| {
            let source = self.sources.get((word * 32 + bit) as usize);
            source.is_some_and(|source| source.pending)
        });
        bits.fold(0, |set, bit| set | 1 << bit)
    }

    fn best(&self, context: usize) -> Option<usize> {
        (1..self.sources.len())
            .filter(|&i| {
                let s = &self.sources[i];
                s.pending && s.enabled[context] && s.priority > 0
            })
            .max_by_key(|&i| (self.sources[i].priority, std::cmp::Reverse(i)))
    }

    fn raised(&self, context: usize) -> bool {
        self.best(context)
            .is_some_and(|i| self.sources[i].priority > self.threshold[context])
    }
}

/// Every third source is edge-triggered.
fn is_edge(source: u32) -> bool {
    source % 3 == 0
}

#[derive(Debug, Clone)]
enum Op {
    Wire(u32, bool),
    Priority(u32, u32),
    Enable(usize, u32, u32),
    Threshold(usize, u32),
    Claim(usize),
    Complete(usize, u32),
}

fn op() -> impl Strategy<Value = Op> {
    let source = 0..SOURCES + 3;
    let context = 0..CONTEXTS;
    prop_oneof![
        4 => (source.clone(), any::<bool>()).prop_map(|(s, l)| Op::Wire(s, l)),
        1 => (source.clone(), 0..10u32).prop_map(|(s, p)| Op::Priority(s, p)),
        1 => (context.clone(), 0..2u32, any::<u32>()).prop_map(|(c, w, b)| Op::Enable(c, w, b)),
        1 => (context.clone(), 0..9u32).prop_map(|(c, t)| Op::Threshold(c, t)),
        3 => context.clone().prop_map(Op::Claim),
        3 => (context, source).prop_map(|(c, s)| Op::Complete(c, s)),
    ]
}

proptest! {
    /// Every claim the PLIC hands out is the one the specification asks for: none is lost, none is
    /// handed out twice, what is pending stays so until it is claimed, and the interrupt outputs
    /// follow.
    #[test]
    fn plic_matches_specification(ops in proptest::collection::vec(op(), 1..300)) {
        let mut plic = Plic::new(SOURCES, CONTEXTS);
        (1..=SOURCES).filter(|source| is_edge(*source)).for_each(|source| plic.set_edge_triggered(source));
        let mut model = Model::new();
        for op in ops {
            match op {
                Op::Wire(s, level) => {
                    plic.set_level(s, level);
                    if (1..=SOURCES).contains(&s) {
                        model.sources[s as usize].wire = level;
                        model.sources[s as usize].again = level;
                    }
                }
                Op::Priority(s, p) => {
                    plic.store(u64::from(s) * 4, 4, p).unwrap();
                    if (1..=SOURCES).contains(&s) {
                        model.sources[s as usize].priority = p & MAX_PRIORITY;
                    }
                }
                Op::Enable(c, word, bits) => {
                    plic.store(0x2000 + 0x80 * c as u64 + 4 * u64::from(word), 4, bits).unwrap();
                    for bit in 0..32 {
                        let s = word * 32 + bit;
                        if (1..=SOURCES).contains(&s) {
                            model.sources[s as usize].enabled[c] = bits >> bit & 1 != 0;
                        }
                    }
                }
                Op::Threshold(c, t) => {
                    plic.store(0x20_0000 + 0x1000 * c as u64, 4, t).unwrap();
                    model.threshold[c] = t & MAX_PRIORITY;
                }
                Op::Claim(c) => {
                    let got = plic.load(0x20_0004 + 0x1000 * c as u64, 4).unwrap();
                    let want = model.best(c).unwrap_or(0);
                    prop_assert_eq!(got as usize, want);
                    if want != 0 {
                        model.sources[want].pending = false;
                        model.sources[want].claimed = true;
                    }
                }
                Op::Complete(c, s) => {
                    plic.store(0x20_0004 + 0x1000 * c as u64, 4, s).unwrap();
                    if (1..=SOURCES).contains(&s) && model.sources[s as usize].enabled[c] {
                        model.sources[s as usize].claimed = false;
                    }
                }
            }
            model.latch();
            for word in 0..2 {
                let pending = plic.load(0x1000 + 4 * u64::from(word), 4);
                prop_assert_eq!(pending, Ok(model.pending(word)), "word {}", word);
            }
            for c in 0..CONTEXTS {
                prop_assert_eq!(plic.context_pending(c), model.raised(c), "context {}", c);
            }
        }
    }

    /// Any access is answered or refused; reported changes of lines are complete.
    #[test]
    fn hostile_mmio_is_answered_and_changes_are_reported(
        accesses in proptest::collection::vec(
            (0..3usize, prop_oneof![Just(0u64), 0..0x20u64, 0..0x2_0000u64, any::<u64>()],
             0..9u8, any::<bool>(), prop_oneof![0..8u64, any::<u64>()], 0..4usize),
            1..200),
    ) {
        let harts = 3;
        let mut arch = AclintPlic::new(Config { harts, cycles_per_tick: 100, sswi: true, edge_triggered: 0 });
        let windows = arch.describe().windows;
        let mut effects = Effects::default();
        let regions: [&[u64]; 3] = [
            &[0, 0x4000, 0xbff8, 0xc000],
            &[0, 0x1000, 0x2000, 0x20_0000],
            &[0, 0x3ff8, 0, 0],
        ];
        let mut seen: Vec<_> = (0..harts).map(|h| arch.lines(h, 0).level).collect();
        for (i, (w, offset, size, write, value, region)) in accesses.into_iter().enumerate() {
            effects.changed = 0;
            arch.set_source(0, (i % 100) as u32, i % 3 == 0, &mut effects);
            let addr = windows[w].base.wrapping_add(regions[w][region]).wrapping_add(offset);
            let done = if write {
                arch.store(&access(addr, size), value, &mut effects)
            } else {
                arch.load(&access(addr, size), &mut effects).map(|_| ())
            };
            if !matches!(size, 4 | 8) {
                prop_assert_eq!(done, Err(NoRegister));
            }
            for (hart, seen) in seen.iter_mut().enumerate() {
                let lines = arch.lines(hart, 0);
                if lines.level != *seen || lines.pulse != 0 {
                    prop_assert!(effects.changed >> hart & 1 != 0, "hart {} changed silently", hart);
                }
                *seen = lines.level;
            }
        }
        let saved = arch.save();
        let mut copy = AclintPlic::new(Config { harts, cycles_per_tick: 100, sswi: true, edge_triggered: 0 });
        copy.restore(&saved).unwrap();
        prop_assert_eq!(copy.save(), saved);
    }
}

#[test]
fn broken_snapshots_are_refused() {
    let mut arch = AclintPlic::new(Config {
        harts: 1,
        cycles_per_tick: 100,
        sswi: false,
        edge_triggered: 0,
    });
    let other = AclintPlic::new(Config {
        harts: 2,
        cycles_per_tick: 100,
        sswi: false,
        edge_triggered: 0,
    });
    assert!(arch.restore(&other.save()).is_err());
    assert!(arch.restore(&serde_json::json!({"plic": 1})).is_err());
    // More harts than a set of harts has bits.
    for path in ["/aclint/mswi/harts", "/sswi/harts"] {
        let mut bad = arch.save();
        *bad.pointer_mut(path).unwrap() = 100.into();
        assert!(arch.restore(&bad).is_err(), "{path}");
    }
}

#[test]
fn supervisor_lines_follow_plic_contexts() {
    let mut arch = AclintPlic::new(Config {
        harts: 2,
        cycles_per_tick: 100,
        sswi: false,
        edge_triggered: 0,
    });
    let plic = 0xc00_0000;
    let mut effects = Effects::default();
    for (register, value) in [(4 * 10, 1), (0x2000 + 0x80 * 3, 1 << 10)] {
        arch.store(&access(plic + register, 4), value, &mut effects)
            .unwrap();
    }
    assert_eq!(effects.changed, 0);
    arch.set_source(0, 10, true, &mut effects);
    assert_eq!(effects.changed, 0b10);
    assert_eq!(arch.lines(0, 0).level, 0);
    assert_eq!(
        arch.lines(1, 0).level,
        1 << 9,
        "context 3 is S-mode of hart 1"
    );
}
