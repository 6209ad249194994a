//! Triggers at accesses that are more than one load or store of a page.

mod common;

use std::sync::Arc;

use common::Nothing;
use trapless_hart::{CodeCache, DataTrigger, Hart, HartConfig, Observer, Ram, Tiers, Triggers};
use trapless_isa::inst::Inst;

const RAM: u64 = 0x8000_0000;
/// Between two pages.
const EDGE: u64 = RAM + 0x9000;

/// The program: each of the accesses below many times, so that all are compiled.
const PROGRAM: [u32; 14] = [
    0xfea4_be23, // 00 sd        a0, -4(s1)     4 bytes before the edge, and 4 behind it
    0xffc4_b583, // 04 ld        a1, -4(s1)
    0xfea4_9fa3, // 08 sh        a0, -1(s1)
    0xfea4_bc23, // 0c sd        a0, -8(s1)     the last of the page
    0xff84_b583, // 10 ld        a1, -8(s1)
    0x00a4_b023, // 14 sd        a0, 0(s1)      the first of the next
    0x0004_b583, // 18 ld        a1, 0(s1)
    0x00a9_302f, // 1c amoadd.d  zero, a0, (s2) at the edge
    0x1009_35af, // 20 lr.d      a1, (s2)
    0x18a9_362f, // 24 sc.d      a2, a0, (s2)
    0x0049_a00f, // 28 cbo.zero  (s3)           64 bytes from the edge on
    0xfff4_0413, // 2c addi      s0, s0, -1
    0xfc04_18e3, // 30 bne       s0, zero, -48
    0x0000_006f, // 34 j         .
];

/// Offsets of the instructions that an observer with this trigger sees, all times together, and the
/// time at the end.
fn seen(trigger: Option<DataTrigger>, compiled: bool) -> (Vec<u64>, u64) {
    struct Seen {
        triggers: Arc<Triggers>,
        /// Those that match; the observer may see others.
        trigger: DataTrigger,
        offsets: Vec<u64>,
    }
    impl Observer for Seen {
        fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
            let trigger = &self.trigger;
            if let Some(access) = hart.memory_access(inst) {
                let kind = access.load && trigger.load || access.store && trigger.store;
                if kind && access.overlaps(trigger.addr, trigger.len) {
                    self.offsets.push(pc - RAM);
                }
            }
            true
        }

        fn triggers(&self) -> Option<&Arc<Triggers>> {
            Some(&self.triggers)
        }
    }
    let ram = Ram::new(RAM, 1 << 20).expect("RAM");
    for (at, word) in (RAM..).step_by(4).zip(PROGRAM) {
        ram.store(at, 4, word.into()).expect("in RAM");
    }
    let config = HartConfig {
        reset_pc: RAM,
        misaligned: true,
        ..HartConfig::default()
    };
    let mut code = CodeCache::new(&ram, config.extensions, config.cost);
    if compiled && !code.compile(Tiers::EAGER, &config) {
        eprintln!("this host has no compiler");
    }
    let mut hart = Hart::new(0, config, ram.clone());
    for (register, value) in [(8, 20), (9, EDGE), (18, EDGE), (19, EDGE), (10, 5)] {
        hart.set_x(register, value);
    }
    let mut observer = trigger.map(|trigger| Seen {
        triggers: Arc::new(Triggers::new(Vec::new(), vec![trigger])),
        trigger,
        offsets: Vec::new(),
    });
    while hart.pc() != RAM + 0x34 {
        let observer = observer.as_mut().map(|seen| seen as &mut dyn Observer);
        hart.run(&mut code, &mut Nothing, hart.now() + 100, observer);
    }
    let mut offsets = observer.map(|seen| seen.offsets).unwrap_or_default();
    assert!(
        offsets.len() % 20 == 0,
        "each is seen each time: {offsets:x?}"
    );
    offsets.sort_unstable();
    offsets.dedup();
    (offsets, hart.now())
}

/// Promise: an access is found by any of its bytes, in either of its pages, by what it does.
#[test]
fn accesses_are_found_by_any_byte_and_by_kind() {
    let (load, store, both) = ((true, false), (false, true), (true, true));
    for compiled in [false, true] {
        let (_, end) = seen(None, compiled);
        for (addr, len, (load, store), expected) in [
            (EDGE - 4, 1, store, &[0x00, 0x0c][..]),
            (EDGE - 5, 1, store, &[0x0c]),
            (EDGE - 1, 1, store, &[0x00, 0x08, 0x0c]),
            (EDGE, 1, store, &[0x00, 0x08, 0x14, 0x1c, 0x24, 0x28]),
            (EDGE + 3, 1, store, &[0x00, 0x14, 0x1c, 0x24, 0x28]),
            (EDGE + 4, 1, store, &[0x14, 0x1c, 0x24, 0x28]),
            (EDGE + 63, 1, store, &[0x28]),
            (EDGE + 64, 1, both, &[]),
            (EDGE + 63, 2, both, &[0x28]),
            (EDGE - 9, 1, both, &[]),
            (EDGE - 1, 1, load, &[0x04, 0x10]),
            (EDGE, 1, load, &[0x04, 0x18, 0x1c, 0x20]),
            (EDGE + 4, 4, load, &[0x18, 0x1c, 0x20]),
            (EDGE - 1, 2, load, &[0x04, 0x10, 0x18, 0x1c, 0x20]),
            (EDGE - 0x5000, 0x4FFC, both, &[0x0c, 0x10]),
            (EDGE - 0x5000, 0x4FF8, both, &[]),
        ] {
            let trigger = DataTrigger {
                addr,
                len,
                load,
                store,
            };
            let seen = seen(Some(trigger), compiled);
            assert_eq!(seen, (expected.to_vec(), end), "{trigger:#x?} {compiled}");
        }
    }
}

/// What ran of a loop of 10000 rounds, followed by an instruction at offset 8: times that the
/// observer of a trigger at an instruction saw that, and others; blocks that were interpreted.
fn looped(trigger: u64, compiled: bool) -> (usize, usize, u64) {
    struct Seen {
        triggers: Arc<Triggers>,
        at: u64,
        counts: [usize; 2],
    }
    impl Observer for Seen {
        fn before(&mut self, _: &Hart, pc: u64, _: &Inst) -> bool {
            self.counts[usize::from(pc != self.at)] += 1;
            true
        }

        fn triggers(&self) -> Option<&Arc<Triggers>> {
            Some(&self.triggers)
        }
    }
    let ram = Ram::new(RAM, 1 << 20).expect("RAM");
    let program = [
        0xfff4_0413, // 0 addi  s0, s0, -1
        0xfe04_1ee3, // 4 bne   s0, zero, -4
        0x0010_0493, // 8 addi  s1, zero, 1
        0x0000_006f, // c j     .
    ];
    for (at, word) in (RAM..).step_by(4).zip(program) {
        ram.store(at, 4, word).expect("in RAM");
    }
    let config = HartConfig {
        reset_pc: RAM,
        ..HartConfig::default()
    };
    let mut code = CodeCache::new(&ram, config.extensions, config.cost);
    if compiled && !code.compile(Tiers::default(), &config) {
        eprintln!("this host has no compiler");
    }
    let mut hart = Hart::new(0, config, ram.clone());
    hart.set_x(8, 10_000);
    let at = RAM + trigger;
    let mut seen = Seen {
        triggers: Arc::new(Triggers::new(vec![at], Vec::new())),
        at,
        counts: [0; 2],
    };
    while hart.x(9) == 0 {
        let until = hart.now() + 100;
        hart.run(&mut code, &mut Nothing, until, Some(&mut seen));
    }
    let [matching, others] = seen.counts;
    (matching, others, hart.statistics().interpreted_blocks)
}

/// Promise: a breakpoint costs nothing in the code before it, and is met.
#[test]
fn only_blocks_with_a_triggering_address_are_slow() {
    for compiled in [false, true] {
        let (matching, others, interpreted) = looped(100, compiled);
        assert_eq!((matching, others), (0, 0), "nothing is seen of {compiled}");
        assert!(interpreted < 100, "the loop is hot: {interpreted}");
        let (matching, others, interpreted) = looped(8, compiled);
        assert_eq!(matching, 1, "of the instruction behind the loop");
        assert!(others < 100 && interpreted < 100, "{others} {interpreted}");
        let (matching, ..) = looped(4, compiled);
        assert_eq!(matching, 10_000, "each time");
    }
}

/// Promise: `watch` of gdb does not stop for stores that leave what is watched as it is.
#[test]
fn stores_that_change_nothing_are_recognised_byte_by_byte() {
    const WATCHED: [(u64, u64); 5] = [
        (EDGE - 4, 4),
        (EDGE - 4, 8),
        (EDGE, 1),
        (EDGE + 1, 3),
        (EDGE + 4, 8),
    ];
    struct Seen(Vec<[bool; 5]>);
    impl Observer for Seen {
        fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
            if pc < RAM + 8 {
                let changes = WATCHED.map(|(addr, len)| hart.store_changes(inst, addr, len));
                self.0.push(changes);
            }
            true
        }
    }
    let ram = Ram::new(RAM, 1 << 20).expect("RAM");
    // sd a0, -4(s1) twice: across the edge; j .
    for (at, word) in (RAM..)
        .step_by(4)
        .zip([0xfea4_be23, 0xfea4_be23, 0x0000_006f])
    {
        ram.store(at, 4, word).expect("in RAM");
    }
    let config = HartConfig {
        reset_pc: RAM,
        misaligned: true,
        ..HartConfig::default()
    };
    let mut code = CodeCache::new(&ram, config.extensions, config.cost);
    let mut hart = Hart::new(0, config, ram.clone());
    hart.set_x(9, EDGE);
    hart.set_x(10, 5 << 32);
    let mut seen = Seen(Vec::new());
    hart.run(&mut code, &mut Nothing, 100, Some(&mut seen));
    let first = [false, true, true, false, false];
    assert_eq!(seen.0, [first, [false; 5]]);
}
