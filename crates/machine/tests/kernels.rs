//! `boot` takes the kernels that QEMU's `virt` takes.

mod common;

use common::*;
use trapless_machine::{Content, Limits, Machine, Outcome, Payload};

/// Boots a file as the kernel, in M-mode at the start of RAM; whether it powers the machine off.
fn powers_off(kernel: Vec<u8>) -> bool {
    let payload = Payload {
        kernel: Some(Content::Bytes(kernel)),
        ..Payload::default()
    };
    let mut machine = Machine::boot(config("sbi", 1), &payload, quiet()).unwrap();
    let limits = Limits {
        instret: 1_000_000,
        ..Limits::default()
    };
    machine.run(&limits) == Outcome::PoweredOff
}

fn program() -> Vec<u8> {
    let mut a = Asm::new(RAM);
    a.power_off();
    let mut code = a.finish();
    // Shorter files are taken for images that were cut off.
    code.resize(code.len().max(64), 0);
    code
}

#[test]
fn flat_binary_starts_at_its_first_byte() {
    assert!(powers_off(program()));
}

#[test]
fn elf_kernel_linked_to_virtual_addresses_only_starts_at_its_first_byte() {
    let mut file = elf(&program(), 0x4000, &[]);
    // Entry, and virtual and physical address of the segment.
    for at in [24, 64 + 16, 64 + 24] {
        file[at..at + 8].copy_from_slice(&0xffff_ffff_8000_0000_u64.to_le_bytes());
    }
    assert!(powers_off(file));
}

#[test]
fn kernel_without_firmware_finds_hardware_that_updates_page_tables() {
    let mut a = Asm::new(RAM);
    a.w(trapless_asm::csrr(T0, trapless_isa::csr::MENVCFG));
    a.li(T1, trapless_isa::csr::envcfg::ADUE);
    let missing = a.label();
    a.bne(T0, T1, missing);
    a.power_off();
    a.bind(missing);
    a.j(missing);
    let mut code = a.finish();
    code.resize(code.len().max(64), 0);
    assert!(powers_off(code.clone()));
    // Behind firmware it is the firmware's to set.
    let payload = Payload {
        firmware: Some(code),
        ..Payload::default()
    };
    let mut machine = Machine::boot(config("sbi", 1), &payload, quiet()).unwrap();
    let limits = Limits {
        instret: 1_000,
        ..Limits::default()
    };
    assert_eq!(machine.run(&limits), Outcome::Limit);
}
