//! One test per rule of `docs/ledger.md`, section "PCI".

mod script;

use script::{Script, V0};
use trapless_isa::Mode::{HS, M, VS};
use trapless_isa::cause::interrupt;
use trapless_ledger::event::StepKind::{
    Attached, Claimed, FileClaimed, FileSelected, Hit, Notified, PostHost, PostSource,
};
use trapless_ledger::event::{
    Event, IommuAct, IommuStep, PciInterrupt, PciWay, Sink, StepKind, VirtualStep,
};
use trapless_ledger::{Class, Config, Ledger};

fn interrupt(s: &mut Script, time: u64, hart: usize, way: PciWay) {
    let event = Event::PciInterrupt(PciInterrupt { time, hart, way });
    s.ledger.record(&event);
}

fn message(file: u8, merged: bool) -> PciWay {
    PciWay::Message {
        device: 8,
        file,
        identity: 9,
        merged,
    }
}

/// Each way of interrupting has its counter; a ledger without any says nothing of PCI.
#[test]
fn interrupts_are_counted_by_way() {
    let mut s = Script::new();
    s.ret(M, HS);
    assert_eq!(s.ledger.total_section().pci, None);
    for _ in 0..3 {
        interrupt(&mut s, 10, 0, PciWay::Intx { source: 33 });
    }
    interrupt(&mut s, 10, 1, message(0, false));
    interrupt(&mut s, 10, 1, message(0, true));
    let lost = PciWay::Lost {
        device: 8,
        addr: 0x1000,
    };
    interrupt(&mut s, 10, 0, lost);
    let pci = s.ledger.total_section().pci.unwrap();
    assert_eq!((pci.intx, pci.messages, pci.merged), (3, 2, 1));
    assert_eq!((pci.lost, pci.guest_messages), (1, 0));
    let by_iommu = PciWay::Lost {
        device: 0xff_ffff,
        addr: 0x1000,
    };
    interrupt(&mut s, 10, 0, by_iommu);
    let pci = s.ledger.total_section().pci.unwrap();
    let function = &pci.functions["00:01.0"];
    assert_eq!((function.messages, function.merged), (2, 1));
    assert_eq!((function.lost, function.guest_messages), (1, 0));
    assert_eq!((pci.functions["iommu"].lost, pci.functions.len()), (1, 2));
}

/// Commands of the IOMMU and what it refuses are counted by kind.
#[test]
fn steps_of_the_iommu_are_counted_by_kind() {
    let mut s = Script::new();
    s.ret(M, HS);
    let refused = IommuAct::Refused {
        device: 8,
        cause: 262,
        addr: 0x2800_0000,
    };
    let stored = IommuAct::Stored {
        device: 8,
        file: 0x8000_0200,
        identity: 3,
    };
    let acts = [
        (stored, 5),
        (IommuAct::InvalidatedTables, 4),
        (IommuAct::InvalidatedDirectory, 3),
        (IommuAct::Fenced, 2),
        (refused, 1),
    ];
    for (act, times) in acts {
        for time in 10..10 + times {
            let event = Event::Iommu(IommuStep { time, hart: 0, act });
            s.ledger.record(&event);
        }
    }
    let pci = s.ledger.total_section().pci.unwrap();
    let invalidations = (pci.iommu_invalidations, pci.iommu_directory_invalidations);
    assert_eq!(invalidations, (4, 3));
    assert_eq!((pci.iommu_fences, pci.iommu_faults), (2, 1));
    assert_eq!((pci.memory_messages, pci.messages), (5, 0));
}

/// A message to a guest's file is an interrupt of class device, which its vCPU takes without an
/// exit.
#[test]
fn messages_to_guests_are_device_interrupts() {
    let mut s = Script::new();
    s.ledger = Ledger::new(Config::new(2).with_aia());
    s.on(0, V0)
        .ret(M, HS)
        .step(HS, FileSelected { file: 1 }, 0)
        .ret(HS, VS);
    let now = s.time;
    interrupt(&mut s, now, 0, message(1, false));
    interrupt(&mut s, now, 0, message(1, true));
    s.irq(VS, VS, interrupt::SEI);
    s.step(
        VS,
        FileClaimed {
            file: 1,
            identity: 9,
        },
        0,
    );
    let section = s.ledger.total_section();
    let device = &section.interrupts[&trapless_ledger::Class::Device];
    assert_eq!((device.sent, device.coalesced, device.taken), (2, 1, 1));
    assert_eq!((device.claims, device.exits), (1, 0));
    assert_eq!(section.pci.unwrap().guest_messages, 2);
}

/// A step of the controller that a device has caused.
fn device_step(s: &mut Script, time: u64, kind: StepKind) {
    s.ledger.record(&Event::Virtual(VirtualStep {
        time,
        hart: 0,
        mode: M,
        by_device: true,
        domain: 5,
        kind,
        memory: 3,
    }));
}

/// Messages through windows have counters of their own, which ledgers without them leave out.
#[test]
fn messages_through_windows_are_counted() {
    let mut s = Script::new();
    s.ret(M, HS);
    interrupt(&mut s, 10, 0, PciWay::Intx { source: 33 });
    let text = serde_json::to_string(&s.ledger.total_section().pci).unwrap();
    assert!(!text.contains("window"), "{text}");
    for merged in [false, true] {
        let way = PciWay::Window {
            device: 8,
            window: 1,
            domain: 5,
            source: 7,
            merged,
        };
        interrupt(&mut s, 10, 0, way);
    }
    let dropped = PciWay::Dropped {
        device: 8,
        window: 1,
        data: 99,
    };
    interrupt(&mut s, 10, 0, dropped);
    let pci = s.ledger.total_section().pci.unwrap();
    assert_eq!((pci.window_messages, pci.window_merged), (2, 1));
    assert_eq!((pci.window_dropped, pci.messages, pci.lost), (1, 0, 0));
}

/// What a device posts is an interrupt of class device that its vCPU takes without an exit; no hart
/// is charged for it.
#[test]
fn posts_of_devices_are_device_interrupts_and_charged_to_no_hart() {
    let mut s = Script::new();
    s.on(0, V0)
        .ret(M, HS)
        .step(HS, Attached { vhart: 0 }, 0)
        .ret(HS, VS);
    let cycles = |s: &mut Script| format!("{:?}", s.ledger.total_section().harts);
    let before = cycles(&mut s);
    let later = s.time + 1000;
    let post = |merged| PostSource {
        vhart: 0,
        source: 7,
        merged,
    };
    for merged in [false, true] {
        device_step(&mut s, later, post(merged));
        device_step(&mut s, later, Hit { vhart: 0, on: 0 });
    }
    assert_eq!(cycles(&mut s), before);
    s.at(later);
    s.irq(VS, VS, interrupt::SEI);
    let claimed = Claimed {
        vhart: 0,
        source: 7,
    };
    s.step(VS, claimed, 0);
    let device = s.ledger.total_section().interrupts[&Class::Device].clone();
    assert_eq!((device.sent, device.coalesced, device.taken), (2, 1, 1));
    assert_eq!((device.exits, device.memory_words), (0, 12));
}

/// Sources of the host are no interrupts of guests; what is queued for it is a notification.
#[test]
fn sources_of_the_host_are_notifications() {
    let mut s = Script::new();
    s.ret(M, HS);
    let post = PostHost {
        source: 7,
        merged: false,
    };
    device_step(&mut s, 20, post);
    let notified = Notified {
        vhart: 7,
        to: 1,
        kind: 0,
    };
    device_step(&mut s, 20, notified);
    s.step(HS, StepKind::Fetched { id: 7, kind: 0 }, 0);
    let section = s.ledger.total_section();
    assert_eq!(section.interrupts[&Class::Device].sent, 0);
    let (name, queue) = section.notifications.kinds.first_key_value().unwrap();
    assert_eq!(
        (name.to_string(), queue.queued, queue.fetched),
        ("source".into(), 1, 1)
    );
}
