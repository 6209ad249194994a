//! One test per rule of `docs/ledger.md`, section "Interrupt files".

mod script;

use script::{Script, V0, V1};
use trapless_isa::Mode::{HS, M, U, VS};
use trapless_isa::cause::{exception, interrupt};
use trapless_isa::sbi::eid;
use trapless_ledger::event::StepKind::{self, *};
use trapless_ledger::{Config, Ledger, State};

const SEI: u64 = interrupt::SEI;
const IMSIC: u64 = 0x2800_0000;
const IPI: u16 = 1;
const DISK: u16 = 9;

fn script() -> Script {
    let mut script = Script::new();
    script.ledger = Ledger::new(Config::new(2).with_aia());
    script
}

fn message(on: usize, file: u8, identity: u16) -> StepKind {
    Message {
        on,
        file,
        identity,
        merged: false,
    }
}

fn claim(file: u8, identity: u16) -> StepKind {
    FileClaimed { file, identity }
}

/// V0 runs on hart 0 with file 1, V1 on hart 1 with file 2.
fn two_vcpus() -> Script {
    let mut s = script();
    s.ret(M, HS)
        .step(HS, FileSelected { file: 1 }, 0)
        .ret(HS, VS);
    // hart_start names the number of the second vCPU.
    let call = s.base(VS, HS, exception::ECALL_VS);
    s.send(trapless_ledger::event::Trap {
        args: [1, 0, 0, eid::HSM],
        ..call
    });
    s.ret(HS, VS);
    s.on(1, V1)
        .ret(M, HS)
        .step(HS, FileSelected { file: 2 }, 0)
        .ret(HS, VS);
    s.on(0, V0);
    s
}

/// An IPI between vCPUs with files is a store, a trap of the target, and no exit.
#[test]
fn message_of_a_guest_is_an_ipi_until_its_identity_is_claimed() {
    let mut s = two_vcpus();
    s.step(VS, message(1, 2, IPI), 0);
    let sent = s.time;
    s.on(1, V1).irq(VS, VS, SEI);
    let waited = s.time - sent;
    s.step(VS, claim(2, IPI), 0).step(VS, claim(2, 0), 0);
    let section = s.done();
    let ipi = &section.interrupts["ipi"];
    assert_eq!((ipi.sent, ipi.taken, ipi.exits), (1, 1, 0));
    assert_eq!(ipi.arrived_in(State::Running), 1);
    assert_eq!(ipi.latency["running"].max, waited);
    assert_eq!((ipi.claims, ipi.empty_claims), (2, 1));
    assert_eq!(section.interrupts["device"].taken, 0);
    assert_eq!(section.latency["guest_ipi"].count, 1);
    let files = section.guest_files.unwrap();
    assert_eq!((files.direct_messages, files.host_messages), (1, 0));
    assert_eq!((files.assigned, files.moved, files.evicted), (2, 0, 0));
}

/// A store to a file that is not mapped is an exit of class IPI; the host's message that follows is
/// not another IPI.
#[test]
fn store_that_exits_is_one_ipi_with_its_cost() {
    let mut s = two_vcpus();
    s.fault(exception::STORE_GUEST_PAGE, IMSIC + 0x1000);
    let sent = s.time;
    s.step(HS, message(1, 2, IPI), 0).ret(HS, VS);
    s.on(1, V1).irq(VS, VS, SEI);
    let waited = s.time - sent;
    s.step(VS, claim(2, IPI), 0);
    let section = s.done();
    let ipi = &section.interrupts["ipi"];
    assert_eq!((ipi.sent, ipi.taken, ipi.exits), (1, 1, 1));
    assert_eq!(ipi.latency["running"].max, waited);
    assert_eq!(section.exits["mmio.imsic.write"].exits, 1);
    assert_eq!(section.interrupts["device"].sent, 0);
    assert_eq!(section.guest_files.unwrap().host_messages, 1);
}

/// Without a file, the host injects the IPI, which is no device interrupt for that.
#[test]
fn ipi_to_a_vcpu_without_file_is_followed_through_its_injection() {
    let mut s = two_vcpus();
    s.on(1, V1).irq(VS, HS, interrupt::STI).ret(HS, U);
    s.on(0, V0)
        .fault(exception::STORE_GUEST_PAGE, IMSIC + 0x1000)
        .ret(HS, VS);
    s.on(1, V1).trap(U, HS, exception::ECALL_U);
    s.raise(interrupt::VSEI as u8)
        .step(HS, FileSelected { file: 0 }, 0)
        .ret(HS, VS);
    s.irq(VS, VS, SEI);
    // stopei is emulated: an exit that belongs to the IPI.
    s.insn(HS, exception::VIRTUAL_INSTRUCTION, 0x15c0_15f3)
        .ret(HS, VS);
    let section = s.done();
    let ipi = &section.interrupts["ipi"];
    assert_eq!((ipi.sent, ipi.taken, ipi.exits), (1, 1, 2));
    assert_eq!(ipi.arrived_in(State::ScheduledOff), 1);
    assert_eq!(section.interrupts["device"].sent, 0);
    assert_eq!(section.guest_files.unwrap().evicted, 1);
}

/// What the host stores by itself is a device interrupt, and costs the system call that made it do
/// so.
#[test]
fn message_of_the_host_is_a_device_interrupt() {
    let mut s = two_vcpus();
    s.on(1, V1).irq(VS, HS, interrupt::STI).ret(HS, U);
    s.ioctl(3, 0x4020_aea5)
        .step(HS, message(0, 1, DISK), 0)
        .ret(HS, U);
    s.on(0, V0).irq(VS, VS, SEI).step(VS, claim(1, DISK), 0);
    let section = s.done();
    let device = &section.interrupts["device"];
    assert_eq!(
        (device.sent, device.taken, device.exits, device.syscalls),
        (1, 1, 0, 1)
    );
    assert_eq!(device.arrived_in(State::Running), 1);
    assert_eq!(section.interrupts["ipi"].sent, 0);
}

/// IPIs of the host are external interrupts there; they are kicks and no devices.
#[test]
fn external_interrupt_behind_a_host_message_is_a_kick() {
    let mut s = two_vcpus();
    s.on(1, V1)
        .irq(VS, HS, interrupt::STI)
        .step(HS, message(0, 0, IPI), 0)
        .ret(HS, VS);
    s.on(0, V0)
        .irq(VS, HS, SEI)
        .step(HS, claim(0, IPI), 0)
        .ret(HS, VS);
    s.irq(VS, HS, SEI).step(HS, claim(0, DISK), 0).ret(HS, VS);
    let section = s.done();
    assert_eq!(section.exits["ipi_receive"].exits, 1);
    assert_eq!(section.exits["external_interrupt"].exits, 1);
    assert_eq!(section.host_ipis, 1);
}

/// A vCPU that moves takes its identity along; what waits for it at the old file is still its own.
#[test]
fn moves_and_wake_ups_are_counted() {
    let mut s = two_vcpus();
    s.irq(VS, HS, interrupt::STI)
        .wait(HS, true)
        .irq(HS, HS, interrupt::SGEI);
    s.on(1, V1).irq(VS, HS, interrupt::STI);
    s.on(1, V0)
        .step(HS, FileSelected { file: 5 }, 0)
        .ret(HS, VS);
    let files = s.done().guest_files.unwrap();
    assert_eq!((files.wakeups, files.moved), (1, 1));
}

/// A ledger of a machine without files does not mention them.
#[test]
fn other_machines_have_no_section_for_files() {
    let mut s = Script::new();
    s.enter()
        .fault(exception::STORE_GUEST_PAGE, IMSIC)
        .ret(HS, VS);
    let section = s.done();
    assert_eq!(section.guest_files, None);
    assert!(section.exits.contains_key("mmio.unknown.write"));
}
