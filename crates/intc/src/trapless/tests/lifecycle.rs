//! The devices underneath, device tree, snapshots.

use trapless_isa::Mode;
use trapless_isa::xtrapless::{csr, htlcfg, op, sgenipi, state};
use vm_fdt::FdtWriter;

use super::world::*;
use crate::aclint_plic::{ACLINT_BASE, AclintPlic, PLIC_BASE};
use crate::trapless::Trapless;
use crate::{Effects, InterruptArchitecture, MmioAccess, Snapshot};

#[test]
fn aclint_and_plic_work_as_before() {
    let mut w = World::new();
    let mut plain = AclintPlic::new(config(true).aclint);
    let mut effects = Effects::default();
    let stores = [
        (ACLINT_BASE + 4, 1),
        (PLIC_BASE + 4 * 10, 1),
        (PLIC_BASE + 0x2080, 1 << 10),
    ];
    for (addr, value) in stores {
        let access = MmioAccess {
            hart: 0,
            mode: Mode::M,
            now: 0,
            addr,
            size: 4,
        };
        let mut both = [&mut w.intc as &mut dyn InterruptArchitecture, &mut plain];
        for intc in &mut both {
            intc.store(&access, value, &mut effects).unwrap();
        }
    }
    w.intc.set_source(0, 10, true, &mut effects);
    plain.set_source(0, 10, true, &mut effects);
    for hart in 0..HARTS {
        let (with, without) = (w.lines(hart), plain.lines(hart, 0));
        assert_eq!(with.level, without.level);
        assert_eq!(with.deadline, without.deadline);
    }
    assert_eq!(w.level(0), 1 << 9);
    assert_eq!(w.intc.describe().windows, plain.describe().windows);
}

fn tree(h: bool) -> Vec<u8> {
    let intc = Trapless::new(config(h));
    let mut fdt = FdtWriter::new().unwrap();
    let root = fdt.begin_node("").unwrap();
    intc.fdt(&mut fdt, &[1, 2, 3]).unwrap();
    fdt.end_node(root).unwrap();
    fdt.finish().unwrap()
}

#[test]
fn device_tree_names_the_notification_interrupt_of_each_hart() {
    let holds = |tree: &[u8], part: &[u8]| tree.windows(part.len()).any(|at| at == part);
    let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_be_bytes()).collect() };
    let wires = words(&[1, 24, 2, 24, 3, 24]);
    let with = tree(true);
    assert!(holds(&with, b"virtual-interrupts\0"));
    assert!(holds(&with, b"trapless,virtual-interrupts\0"));
    assert!(holds(&with, &wires));
    assert!(holds(&with, b"trapless,ipi\0"));
    let without = tree(false);
    assert!(!holds(&without, b"virtual-interrupts\0"));
    assert!(!holds(&without, &wires));
    assert!(holds(&without, b"trapless,ipi\0"));
}

/// A world with something of everything on its way.
fn busy() -> World {
    let mut w = World::new();
    w.route(1, 9, LEVEL);
    w.attach(0, 1, 0);
    w.attach(1, 2, 1);
    w.hs(2, csr::HTLCFG, htlcfg::EN | htlcfg::ANY);
    w.generate(2, op::SOFT, 1, 0);
    w.generate(2, op::ASSERT, 1, 9);
    w.hs(0, csr::SGENIPI, 1 << sgenipi::BASE_SHIFT | 0b10);
    for vhart in [1, 2] {
        w.set_ctl(1, vhart, ctl(state::HALTED, 0, 0));
        w.generate(2, op::SOFT, 1, vhart);
    }
    w.intc.set_source(0, 3, true, &mut w.effects);
    w.hs(0, csr::HGRANT, 1 << 63 | 5);
    w
}

#[test]
fn a_snapshot_holds_everything_in_flight() {
    let mut original = busy();
    let saved = original.intc.save();
    let mut copy = World::new();
    copy.ram.fill(&original.ram.words());
    copy.intc.restore(&saved).unwrap();
    assert_eq!(copy.intc.save(), saved);
    for w in [&mut original, &mut copy] {
        let lines: Vec<_> = (0..HARTS).map(|hart| w.lines(hart)).collect();
        assert_eq!(lines[0].arrived, SOFT | EXTERNAL);
        assert_eq!(lines[0].level, SOFT | EXTERNAL | NOTIFY);
        assert_eq!(lines[1].level, NOTIFY);
        assert_eq!(lines[2].pulse, 1 << 1);
        assert_eq!(w.claim(0), 9);
        assert_eq!(w.fetch(0) & 0xffff, 1);
        assert_eq!(w.fetch(1) & 0xffff, 2);
        // Whose turn it is with ANY.
        w.set_ctl(1, 3, ctl(state::HALTED, 0, 0));
        w.generate(2, op::SOFT, 1, 3);
        assert_eq!(w.fetch(2) & 0xffff, 3);
    }
    assert_eq!(copy.ram.words(), original.ram.words());
    assert_eq!(copy.intc.save(), original.intc.save());
}

#[test]
fn impossible_snapshots_are_refused() {
    let mut w = busy();
    let good = w.intc.save();
    let mut plain = Trapless::new(config(false));
    assert!(plain.restore(&good).is_err(), "other harts");
    let spoilt = |path: &str, value: u64| {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value.into();
        bad
    };
    let cases = [
        ("/xtrapless/next", 3),
        ("/xtrapless/harts", 0),
        ("/xtrapless/harts/0/config", 0),
        ("/xtrapless/harts/0/config", 1 << 7),
        ("/xtrapless/harts/0/slot/lines", 1),
        ("/xtrapless/harts/0/queue/base", 15),
        ("/xtrapless/harts/0/queue/tail", 100),
        ("/xtrapless/harts/0/tables", 17),
        ("/xtrapless/harts/0/arrived", 1),
        ("/aclint_plic/aclint", 0),
    ];
    for (path, value) in cases {
        assert!(w.intc.restore(&spoilt(path, value)).is_err(), "{path}");
        assert_eq!(w.intc.save(), good, "a refused snapshot changes nothing");
    }
    w.intc.restore(&good).unwrap();
}
