//! Messages of a PCI function reach their vhart through a message window, with the data that the
//! function wrote before, and no further.

mod common;

use common::*;
use trapless_devices::virtio::rng::{Rng, SeededEntropy};
use trapless_isa::xtrapless::{
    csr, domain, file, hifmap, hnotify, hnqbase, htlcfg, hvtablebase, kind, limits, source, state,
    vhart, wcontrol, window,
};
use trapless_ledger::event::{Event, PciWay, Sink};
use trapless_machine::{Limits, Machine, MachineConfig, Outcome, Shared, Transport, map};

/// Registers and pages of windows.
const CONTROL: u64 = 0x302_0000;
const PAGES: u64 = 0x2800_0000;
const ECAM: u64 = 0x3000_0000;
/// Configuration space of device 1, and where the program puts its BARs 1 and 4.
const FUNCTION: u64 = ECAM + 0x8000;
const MSIX: u64 = 0x4000_0000;
const BAR: u64 = 0x4000_4000;

const DOMAINS: u64 = RAM + 0x20_0000;
const VHARTS: u64 = DOMAINS + 0x1000;
const SOURCES: u64 = DOMAINS + 0x2000;
const LINES: u64 = DOMAINS + 0x3000;
const FILE: u64 = DOMAINS + 0x4000;
const QUEUE: u64 = DOMAINS + 0x5000;
const TABLE: u64 = DOMAINS + 0x6000;
const DESCRIPTORS: u64 = RAM + 0x30_0000;
const AVAILABLE: u64 = DESCRIPTORS + 0x1000;
const USED: u64 = DESCRIPTORS + 0x2000;
const BUFFER: u64 = DESCRIPTORS + 0x3000;
/// Directory of devices, and a second stage of three levels.
const DIRECTORY: u64 = RAM + 0x40_0000;
const STAGE: u64 = DIRECTORY + 0x4000;

/// Window of the function, and its sources: 40 to 42.
const WINDOW: u64 = 3;
const FIRST: u64 = 40;
const COUNT: u64 = 3;
/// Address at which the IOMMU maps the window.
const MAPPED: u64 = 0x1_0000;

/// Interrupts of PCI functions.
#[derive(Default)]
struct Ways(Vec<PciWay>);

impl Sink for Ways {
    fn record(&mut self, event: &Event) {
        if let Event::PciInterrupt(interrupt) = event {
            self.0.push(interrupt.way);
        }
    }
}

/// A host that has a vhart halted, and a function that interrupts once by a message of `data` to
/// `addr`. It reads `hnotify`, and whether the function's used ring has moved by then.
fn program(addr: u64, data: u64, iommu: bool) -> Asm {
    let mut a = Asm::new(RAM);
    let set = |a: &mut Asm, csr: u16, value: u64| {
        a.li(T0, value).csrw(csr, T0);
    };
    // PMP: everything.
    set(&mut a, 0x3b0, u64::MAX);
    set(&mut a, 0x3a0, 3 << 3 | 7);
    set(&mut a, csr::HVTABLEBASE, hvtablebase::V | DOMAINS | 1);
    set(&mut a, csr::HTLCFG, htlcfg::EN);
    set(&mut a, csr::HNQBASE, hnqbase::EN | QUEUE);
    set(&mut a, csr::HIFMAP, hifmap::V | 1 << hifmap::DOM_SHIFT);
    set(&mut a, csr::HIFMAP, state::HALTED << hifmap::STATE_SHIFT);
    a.store(
        CONTROL + wcontrol::DOMAINS,
        8,
        wcontrol::DOMAINS_V | DOMAINS | 1,
    );
    a.store(CONTROL + wcontrol::TABLE, 8, wcontrol::TABLE_V | TABLE | 3);
    if iommu {
        // A directory of one level.
        a.store(map::IOMMU + 0x10, 8, DIRECTORY >> 2 | 2);
    }
    // BARs; memory and bus master.
    a.store(FUNCTION + 0x14, 4, MSIX);
    a.store(FUNCTION + 0x20, 4, BAR);
    a.store(FUNCTION + 0x24, 4, 0);
    a.store(FUNCTION + 4, 2, 6);
    // MSI-X: the first entry, then its capability.
    for (offset, value) in [(0, addr & 0xffff_ffff), (4, addr >> 32), (8, data), (12, 0)] {
        a.store(MSIX + offset, 4, value);
    }
    a.li(S0, FUNCTION).lbu(T2, S0, 0x34).li(A0, 0x11);
    let (search, found) = (a.here(), a.label());
    a.add(T1, S0, T2).lbu(T0, T1, 0);
    a.beq(T0, A0, found);
    a.lbu(T2, T1, 1).j(search);
    a.bind(found);
    a.li(T0, 1 << 31).sw(T0, T1, 0);
    // Virtio: features VERSION_1 and, behind an IOMMU, ACCESS_PLATFORM; one queue of eight.
    let features = if iommu { 3 } else { 1 };
    for (offset, size, value) in [
        (0x14, 1, 0),
        (0x14, 1, 3),
        (0x08, 4, 1),
        (0x0c, 4, features),
        (0x14, 1, 0xb),
        (0x16, 2, 0),
        (0x18, 2, 8),
        (0x1a, 2, 0),
        (0x20, 4, DESCRIPTORS),
        (0x28, 4, AVAILABLE),
        (0x30, 4, USED),
        (0x1c, 2, 1),
        (0x14, 1, 0xf),
        (0x3000, 2, 0),
    ] {
        a.store(BAR + offset, size, value);
    }
    a.li(S0, DATA);
    a.csrr(T0, csr::HNOTIFY).sd(T0, S0, 0);
    a.li(T1, USED).lhu(T0, T1, 2).sd(T0, S0, 8);
    a.power_off();
    a
}

/// What comes out: `hnotify`, index of the used ring, pending sources 0 to 63, dropped messages,
/// and how the function interrupted.
struct Outcomes {
    notified: u64,
    used: u64,
    pending: u64,
    dropped: u64,
    ways: Vec<PciWay>,
}

fn run(addr: u64, data: u64, iommu: bool) -> Outcomes {
    let mut config = config("trapless", 1);
    config.set("windows", "on").unwrap();
    config.iommu = iommu;
    let mut devices = quiet();
    let rng = Rng::new(Box::new(SeededEntropy::new(1)));
    devices.plug(Transport::Pci, rng, Box::new(())).unwrap();
    let payload = program(addr, data, iommu).payload();
    let mut machine = Machine::boot(config, &payload, devices).unwrap();
    let ways = Shared::new(Ways::default());
    machine.add_sink(Box::new(ways.clone()));
    tables(&machine);
    let limits = Limits {
        instret: 100_000,
        ..Limits::default()
    };
    assert_eq!(machine.run(&limits), Outcome::PoweredOff);
    let word = |addr| machine.ram().load(addr, 8).unwrap();
    let found = ways.lock().0.clone();
    Outcomes {
        notified: word(DATA),
        used: word(DATA + 8),
        pending: word(FILE + file::PENDING),
        dropped: word(TABLE + WINDOW * window::SIZE + window::DROPPED),
        ways: found,
    }
}

/// Domain 1 with a vhart and a window, the ring of the function, and what the IOMMU maps.
fn tables(machine: &Machine) {
    let store = |addr, value| machine.ram().store(addr, 8, value).unwrap();
    let entry = DOMAINS + domain::SIZE;
    let config = 63 << domain::CONFIG_SOURCES_SHIFT | 1;
    store(entry + domain::CONFIG, domain::CONFIG_V | config);
    store(entry + domain::VHART_TABLE, VHARTS);
    store(entry + domain::SOURCE_TABLE, SOURCES);
    store(entry + domain::LINES, LINES);
    store(VHARTS, vhart::ENTRY_V | FILE);
    for number in 1..64 {
        let priority = 1 << source::ENTRY_PRIO_SHIFT;
        store(SOURCES + number * source::SIZE, source::ENTRY_V | priority);
    }
    store(FILE + file::ENABLE, u64::MAX);
    let open =
        window::ENTRY_V | 1 << window::ENTRY_DOM_SHIFT | COUNT << window::ENTRY_COUNT_SHIFT | FIRST;
    store(TABLE + WINDOW * window::SIZE, open);
    // One buffer of 16 bytes for the function to write.
    store(DESCRIPTORS, BUFFER);
    store(DESCRIPTORS + 8, 16 | 2 << 32);
    store(AVAILABLE, 1 << 16);
    // Context of device 8: V, and a second stage Sv39x4.
    store(DIRECTORY + 8 * 64, 1);
    store(DIRECTORY + 8 * 64 + 8, 8 << 60 | STAGE >> 12);
    let entry = |addr: u64, flags: u64| addr >> 12 << 10 | flags;
    let (middle, last) = (STAGE + 0x4000, STAGE + 0x5000);
    store(STAGE, entry(middle, 1));
    store(middle, entry(last, 1));
    let page = PAGES + WINDOW * limits::WINDOW_BYTES;
    // V, R, W, U, A, D; RAM is mapped as it is.
    store(last + (MAPPED >> 12) * 8, entry(page, 0xd7));
    store(STAGE + (RAM >> 30) * 8, entry(RAM, 0xd7));
}

fn page(number: u64) -> u64 {
    PAGES + number * limits::WINDOW_BYTES
}

/// Promise: a message posts the source that the entry and its data name, with and without an IOMMU;
/// whoever is told of it finds what the function wrote before.
#[test]
fn a_function_interrupts_a_vhart_through_its_window() {
    for (addr, iommu) in [(page(WINDOW), false), (MAPPED, true)] {
        let found = run(addr, 2, iommu);
        let wake = kind::WAKE << hnotify::KIND_SHIFT | 1 << hnotify::DOM_SHIFT;
        assert_eq!(found.notified, hnotify::V | wake, "IOMMU: {iommu}");
        assert_eq!((found.used, found.dropped), (1, 0));
        assert_eq!(found.pending, 1 << (FIRST + 2));
        let way = PciWay::Window {
            device: 8,
            window: WINDOW as u16,
            domain: 1,
            source: FIRST as u16 + 2,
            merged: false,
        };
        assert_eq!(found.ways, [way]);
    }
}

/// Promise: data at and beyond the count posts nothing and is counted; a window that the IOMMU does
/// not map is not reached, nor one without an entry.
#[test]
fn a_function_cannot_interrupt_beyond_its_window() {
    for data in [COUNT, COUNT + 1, 0xffff, 0x1_0000, 0xffff_ffff] {
        let found = run(MAPPED, data, true);
        assert_eq!((found.notified, found.pending, found.used), (0, 0, 1));
        assert_eq!(found.dropped, 1);
        let dropped = PciWay::Dropped {
            device: 8,
            window: WINDOW as u16,
            data: data as u32,
        };
        assert_eq!(found.ways, [dropped]);
    }
    for addr in [page(WINDOW), page(0), MAPPED + 0x1000, CONTROL] {
        let found = run(addr, 0, true);
        assert_eq!((found.notified, found.pending), (0, 0));
        assert_eq!((found.dropped, found.ways.len()), (0, 0), "{addr:#x}");
    }
    for addr in [page(0), page(WINDOW + 1), page(255)] {
        let found = run(addr, 0, false);
        assert_eq!((found.notified, found.pending, found.dropped), (0, 0, 0));
        assert!(matches!(found.ways[..], [PciWay::Dropped { .. }]));
    }
    // Registers are no windows: a device cannot write them.
    let found = run(CONTROL + wcontrol::TABLE, 0, false);
    assert!(matches!(found.ways[..], [PciWay::Lost { .. }]));
}

/// Promise: windows are there on request, and only where harts can use them.
#[test]
fn windows_are_a_setting() {
    let mut aia = MachineConfig::preset("aia").unwrap();
    assert!(aia.set("windows", "on").is_err());
    let mut config = MachineConfig::preset("trapless").unwrap();
    assert!(config.set("windows", "perhaps").is_err());
    let tree = |config: MachineConfig| {
        let mut program = Asm::new(RAM);
        program.power_off();
        let machine = Machine::boot(config, &program.payload(), quiet()).unwrap();
        String::from_utf8_lossy(machine.device_tree()).into_owned()
    };
    let name = "message-windows@3020000";
    assert!(!tree(config.clone()).contains(name));
    config.set("windows", "on").unwrap();
    assert!(tree(config.clone()).contains(name));
    config.set_isa("-h").unwrap();
    assert!(config.check().is_err());
}
