//! One test per rule of `docs/ledger.md`, section "PCI".

mod script;

use script::{Script, V0};
use trapless_isa::Mode::{HS, M, VS};
use trapless_isa::cause::interrupt;
use trapless_ledger::event::StepKind::{FileClaimed, FileSelected};
use trapless_ledger::event::{Event, PciInterrupt, PciWay, Sink};
use trapless_ledger::{Config, Ledger};

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
