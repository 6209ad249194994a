//! Bare-metal ELF programs with Spike's conventions.

mod common;

use common::*;
use trapless_machine::{Limits, Machine, Outcome};

const TOHOST: u64 = RAM + 0x1000;
const FROMHOST: u64 = RAM + 0x1040;
const SIGNATURE: u64 = RAM + 0x2000;

fn exec(program: &Asm, output: &Output) -> Machine {
    let symbols = [
        ("tohost", TOHOST),
        ("fromhost", FROMHOST),
        ("begin_signature", SIGNATURE),
        ("end_signature", SIGNATURE + 16),
    ];
    let file = elf(&program.finish(), 0x4000, &symbols);
    Machine::exec(config("sbi", 1), &file, quiet(), Box::new(output.clone())).unwrap()
}

fn run(machine: &mut Machine) -> Outcome {
    machine.run(&Limits {
        instret: 1_000_000,
        ..Limits::default()
    })
}

/// Writes `value` to `tohost` and waits until the host has cleared it.
fn request(a: &mut Asm, value: u64) {
    a.li(T0, TOHOST).li(T1, value).sd(T1, T0, 0);
    let wait = a.here();
    a.ld(T1, T0, 0).bne(T1, ZERO, wait);
}

#[test]
fn exit_code_and_signature_come_out() {
    let mut a = Asm::new(RAM);
    a.li(T0, SIGNATURE)
        .li(T1, 0x1122_3344_5566_7788)
        .sd(T1, T0, 8);
    request(&mut a, 7 << 1 | 1);
    let mut machine = exec(&a, &Output::default());
    assert_eq!(run(&mut machine), Outcome::Exit(7));
    let signature = machine.signature().unwrap();
    assert_eq!(signature.len(), 16);
    assert_eq!(signature[8..], 0x1122_3344_5566_7788u64.to_le_bytes());
}

#[test]
fn characters_and_write_calls_are_printed() {
    let output = Output::default();
    let mut a = Asm::new(RAM);
    request(&mut a, 1 << 56 | 1 << 48 | u64::from(b'A'));
    let block = RAM + 0x3000;
    // write(1, SIGNATURE, 2) of "BC"
    a.li(T0, SIGNATURE).li(T1, 0x4342).sd(T1, T0, 0);
    for (index, value) in [64, 1, SIGNATURE, 2].into_iter().enumerate() {
        a.li(T0, block).li(T1, value).sd(T1, T0, 8 * index as i32);
    }
    request(&mut a, block);
    // The answer is in fromhost and the result in the block; exit with the result.
    a.li(T0, block)
        .ld(T1, T0, 0)
        .li(T0, FROMHOST)
        .ld(T2, T0, 0)
        .add(T1, T1, T2);
    a.slli(T1, T1, 1)
        .addi(T1, T1, 1)
        .li(T0, TOHOST)
        .sd(T1, T0, 0);
    let forever = a.here();
    a.j(forever);
    let mut machine = exec(&a, &output);
    assert_eq!(
        run(&mut machine),
        Outcome::Exit(3),
        "two bytes written, fromhost = 1"
    );
    assert_eq!(output.text(), "ABC");
}

#[test]
fn hostile_requests_do_no_harm() {
    let output = Output::default();
    let mut a = Asm::new(RAM);
    for block in [8, RAM - 8, RAM + (32 << 20) - 8, 0xffff_ffff_fff0] {
        request(&mut a, block);
    }
    request(&mut a, 0xffff << 48);
    // write() of far too much from the end of RAM.
    let block = RAM + 0x3000;
    for (index, value) in [64, 1, RAM + (32 << 20) - 16, u64::MAX]
        .into_iter()
        .enumerate()
    {
        a.li(T0, block).li(T1, value).sd(T1, T0, 8 * index as i32);
    }
    request(&mut a, block);
    request(&mut a, 1);
    let mut machine = exec(&a, &output);
    assert_eq!(run(&mut machine), Outcome::Exit(0));
    assert_eq!(output.text(), "");
}

#[test]
fn every_truncated_elf_is_refused() {
    let file = elf(&[0x13; 64], 64, &[("tohost", TOHOST)]);
    let boot = |bytes: &[u8]| {
        Machine::exec(config("sbi", 1), bytes, quiet(), Box::new(std::io::sink())).map(drop)
    };
    assert!(boot(&file).is_ok());
    for len in (0..0x1000 + 64).step_by(31) {
        let error = boot(&file[..len]).unwrap_err().to_string();
        assert!(error.contains("ELF"), "{len}: {error}");
    }
}
