//! The test function before a scripted driver: what Linux's does, and what hostile ones may.

mod rig;

use std::sync::atomic::Ordering::Relaxed;

use rig::{RAM, RAM_LEN, Rig};
use trapless_devices::{Persist, StateReader, StateWriter};
use trapless_pci::{EndpointTest, Host};
use vm_memory::{Bytes, GuestAddress};

/// Where the BARs are put.
const REGISTERS: u64 = 0x4000_0000;
const SMALL: u64 = 0x4000_1000;
const MSIX: u64 = 0x4000_2000;
const LAST: u64 = 0x4000_4000;
const LARGE: u64 = 0x4_0000_0000;

/// Offsets of registers.
const COMMAND: u64 = 0x04;
const STATUS: u64 = 0x08;
const SOURCE: u64 = 0x0c;
const DESTINATION: u64 = 0x14;
const SIZE: u64 = 0x1c;
const CHECKSUM: u64 = 0x20;
const IRQ_TYPE: u64 = 0x24;
const IRQ_NUMBER: u64 = 0x28;

fn plug(host: &mut Host) {
    host.plug(|at| Box::new(EndpointTest::new(at.memory, Box::new(()))));
}

fn place(rig: &mut Rig) {
    for (at, address) in [
        (0x10, REGISTERS),
        (0x14, SMALL),
        (0x18, LARGE & 0xffff_ffff),
        (0x1c, LARGE >> 32),
        (0x20, MSIX),
        (0x24, LAST),
        (4, 6),
    ] {
        rig.set_config(1, at, if at == 4 { 2 } else { 4 }, address);
    }
}

fn rig() -> Rig {
    let mut rig = Rig::with(plug);
    place(&mut rig);
    rig
}

/// Carries out a command, and returns its status without that of the interrupt.
fn command(rig: &mut Rig, command: u64) -> u64 {
    rig.store(REGISTERS + COMMAND, 4, command);
    rig.load(REGISTERS + STATUS, 4) & !(1 << 6)
}

/// Registers of a transfer.
fn transfer(rig: &mut Rig, source: u64, destination: u64, size: u64) {
    rig.store(REGISTERS + SOURCE, 8, source);
    rig.store(REGISTERS + DESTINATION, 8, destination);
    rig.store(REGISTERS + SIZE, 4, size);
}

/// Promise: the driver's tests of BARs pass: each byte of memory is what was written there, in
/// accesses of any width; subranges exchange the halves of a BAR.
#[test]
fn bars_are_memory() {
    let mut rig = rig();
    for (bar, size) in [(SMALL, 0x1000), (LARGE, 0x1_0000), (LAST, 0x4000)] {
        for at in (0..size).step_by(8) {
            rig.store(bar + at, 8, bar ^ at);
        }
    }
    for (bar, size) in [(SMALL, 0x1000), (LARGE, 0x1_0000), (LAST, 0x4000)] {
        for at in (0..size).step_by(8) {
            assert_eq!(rig.load(bar + at, 8), bar ^ at);
        }
    }
    for byte in 0..4 {
        rig.store(REGISTERS + byte, 1, 0xa0);
    }
    assert_eq!(rig.load(REGISTERS, 4), 0xa0a0_a0a0);
    rig.store(REGISTERS + SIZE, 4, 5);
    assert_eq!(command(&mut rig, 1 << 8), 1 << 14);
    assert_eq!(rig.load(LAST + 0x1ffc, 4), 0x7878_7878);
    assert_eq!(rig.load(LAST + 0x2000, 4), 0x7979_7979);
    rig.store(LAST, 4, 7);
    assert_eq!(rig.load(LAST, 4), 7);
    assert_eq!(command(&mut rig, 1 << 9), 1 << 16);
    assert_eq!(rig.load(LAST + 0x2000, 4), 7, "where it really is");
    rig.store(REGISTERS + SIZE, 4, 4);
    assert_eq!(command(&mut rig, 1 << 8), 1 << 15, "no memory");
}

/// Promise: transfers move what they should, and say so; checksums are those of `crc32_le(~0, ..)`;
/// what cannot be reached or is too much fails, and is said.
#[test]
fn transfers_are_checked() {
    let mut rig = rig();
    let memory = |rig: &Rig, at: u64| {
        let mut bytes = [0; 9];
        rig.ram.read_slice(&mut bytes, GuestAddress(at)).unwrap();
        bytes
    };
    rig.ram
        .write_slice(b"123456789", GuestAddress(RAM + 1))
        .unwrap();
    transfer(&mut rig, RAM + 1, RAM + 0x2003, 9);
    // The check value of CRC-32, before its last inversion.
    rig.store(REGISTERS + CHECKSUM, 4, !0xcbf4_3926 & 0xffff_ffff);
    assert_eq!(command(&mut rig, 1 << 3), 1 << 0);
    rig.store(REGISTERS + CHECKSUM, 4, 0xcbf4_3926);
    assert_eq!(command(&mut rig, 1 << 3), 1 << 1, "another checksum");
    assert_eq!(command(&mut rig, 1 << 5), 1 << 4);
    assert_eq!(&memory(&rig, RAM + 0x2003), b"123456789");
    assert_eq!(command(&mut rig, 1 << 4), 1 << 2);
    let written = memory(&rig, RAM + 0x2003);
    assert_eq!(command(&mut rig, 1 << 4), 1 << 2);
    assert_ne!(written, memory(&rig, RAM + 0x2003), "different each time");
    transfer(&mut rig, RAM + 0x2003, RAM, 9);
    assert_eq!(
        command(&mut rig, 1 << 3),
        1 << 0,
        "the checksum of the last one"
    );

    transfer(&mut rig, 16, RAM, 9);
    assert_eq!(command(&mut rig, 1 << 5), 1 << 5 | 1 << 7);
    transfer(&mut rig, RAM, RAM + RAM_LEN - 4, 9);
    assert_eq!(command(&mut rig, 1 << 5), 1 << 5 | 1 << 8);
    transfer(&mut rig, u64::MAX - 3, u64::MAX - 3, 9);
    assert_eq!(command(&mut rig, 1 << 4), 1 << 3 | 1 << 8);
    for size in [0, 0x40_0001, 0xffff_ffff] {
        transfer(&mut rig, RAM, RAM, size);
        assert_eq!(command(&mut rig, 1 << 4), 1 << 3, "{size:#x}");
    }
    assert_eq!(command(&mut rig, 1 << 4 | 1 << 3), 0, "two at once");
}

/// Promise: each kind of interrupt comes as the driver has set it up: INTA until the status is
/// read, a message of MSI with its number in the lowest bits granted, a message of MSI-X.
#[test]
fn interrupts_of_each_kind() {
    let mut rig = rig();
    rig.store(REGISTERS + COMMAND, 4, 1);
    assert!(rig.wires[1].0.load(Relaxed));
    assert_eq!(rig.load(REGISTERS + STATUS, 4), 1 << 6);
    assert!(!rig.wires[1].0.load(Relaxed));

    let msi = rig.capability(1, 0x05, 0);
    assert_eq!(rig.config(1, msi + 2, 2), 5 << 1 | 1 << 7);
    rig.set_config(1, msi + 4, 4, 0x2800_0003);
    rig.set_config(1, msi + 8, 4, 1);
    rig.set_config(1, msi + 12, 2, 0x107);
    // Enabled, with four of 32.
    rig.set_config(1, msi + 2, 2, 2 << 4 | 1);
    rig.store(REGISTERS + IRQ_TYPE, 4, 1);
    for number in [1, 4, 5, 0] {
        rig.store(REGISTERS + IRQ_NUMBER, 4, number);
        rig.store(REGISTERS + COMMAND, 4, 2);
    }
    assert_eq!(
        rig.messages(),
        [(8, 0x1_2800_0000, 0x104), (8, 0x1_2800_0000, 0x107)],
        "neither 5, which was not granted, nor 0"
    );
    for kind in [0, 2, 3] {
        rig.store(REGISTERS + IRQ_TYPE, 4, kind);
        rig.store(REGISTERS + IRQ_NUMBER, 4, 1);
        rig.store(REGISTERS + COMMAND, 4, 1);
    }
    assert_eq!(rig.messages(), [], "of other kinds");
    rig.set_config(1, msi + 2, 2, 0);
    assert!(!rig.wires[1].0.load(Relaxed));

    for vector in [0, 63] {
        rig.store(MSIX + 16 * vector, 8, 0x2400_0000);
        rig.store(MSIX + 16 * vector + 8, 4, vector);
        rig.store(MSIX + 16 * vector + 12, 4, 0);
    }
    let msix = rig.capability(1, 0x11, 0);
    rig.set_config(1, msix + 2, 2, 0x8000);
    rig.store(REGISTERS + IRQ_TYPE, 4, 2);
    for number in [1, 64, 65, 0x1_0001] {
        rig.store(REGISTERS + IRQ_NUMBER, 4, number);
        rig.store(REGISTERS + COMMAND, 4, 4);
    }
    assert_eq!(rig.messages(), [(8, 0x2400_0000, 0), (8, 0x2400_0000, 63)]);
}

/// Promise: a doorbell is one as long as it is enabled, and rings with its own word only.
#[test]
fn doorbells_ring() {
    let mut rig = rig();
    assert_eq!(rig.load(REGISTERS + 0x34, 4), 2);
    let bell = LARGE + rig.load(REGISTERS + 0x38, 4);
    let word = rig.load(REGISTERS + 0x3c, 4);
    rig.store(REGISTERS + 0x3c, 4, 1);
    assert_eq!(rig.load(REGISTERS + 0x3c, 4), word, "read-only");
    let ring = |rig: &mut Rig, word| {
        rig.store(REGISTERS + STATUS, 4, 0);
        rig.store(bell, 4, word);
        rig.load(REGISTERS + STATUS, 4)
    };
    assert_eq!(ring(&mut rig, word), 0);
    assert_eq!(command(&mut rig, 1 << 6), 1 << 10);
    assert_eq!(ring(&mut rig, word), 1 << 9 | 1 << 6);
    assert_eq!(ring(&mut rig, word + 1), 0);
    assert_eq!(command(&mut rig, 1 << 7), 1 << 12);
    assert_eq!(ring(&mut rig, word), 0);
}

/// Promise: a checkpoint holds all of it, MSI included; a reset function has nothing of before.
#[test]
fn it_is_saved_and_reset() {
    let mut rig = rig();
    let msi = rig.capability(1, 0x05, 0);
    rig.set_config(1, msi + 4, 4, 0x2800_0000);
    rig.set_config(1, msi + 2, 2, 1);
    rig.store(REGISTERS + IRQ_TYPE, 4, 1);
    rig.store(REGISTERS + IRQ_NUMBER, 4, 1);
    command(&mut rig, 1 << 6);
    rig.store(SMALL + 8, 4, 77);
    rig.messages();
    let mut state = StateWriter::default();
    rig.host.save(&mut state);
    let state = state.into_bytes();
    rig.renew(plug);
    rig.host.restore(&mut StateReader::new(&state)).unwrap();
    assert_eq!(rig.load(SMALL + 8, 4), 77);
    let word = rig.load(REGISTERS + 0x3c, 4);
    rig.store(LARGE + 0xfffc, 4, word);
    assert_eq!(rig.messages(), [(8, 0x2800_0000, 0)]);
    for cut in 0..state.len().min(200) {
        rig.renew(plug);
        let restored = rig.host.restore(&mut StateReader::new(&state[..cut]));
        assert!(restored.is_err(), "{cut}");
    }

    rig.renew(plug);
    rig.host.restore(&mut StateReader::new(&state)).unwrap();
    let express = rig.capability(1, 0x10, 0);
    rig.set_config(1, express + 8, 2, 0x8000);
    place(&mut rig);
    assert_eq!(rig.load(SMALL + 8, 4), 0);
    rig.store(LARGE + 0xfffc, 4, word);
    rig.store(REGISTERS + COMMAND, 4, 1);
    assert_eq!(rig.messages(), [], "neither doorbell nor MSI");
}
