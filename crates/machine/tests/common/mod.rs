//! Programs, an ELF writer and shared output, so that tests need no RISC-V tools.
#![allow(dead_code, unused_imports, reason = "each test file uses a part")]

use std::io::Write;
use std::sync::{Arc, Mutex};

pub use trapless_asm::reg::{A0, A1, RA, S0, S1, T0, T1, T2, ZERO};
pub use trapless_asm::{Asm, Label};
pub use trapless_isa::csr::{MCAUSE, MCYCLE, MEPC, MHARTID, MIE, MSTATUS, MTVAL, MTVEC};
use trapless_machine::{MachineConfig, Payload, Peripherals};

pub const RAM: u64 = 0x8000_0000;
/// Where programs leave results.
pub const DATA: u64 = RAM + 0x10_0000;

/// What programs at the start of RAM do in a machine.
pub trait Program {
    /// Powers the machine off through the test finisher.
    fn power_off(&mut self);

    /// Stores `value` in `size` bytes; uses T0 and T1.
    fn store(&mut self, addr: u64, size: u8, value: u64);

    /// Waits until bits of the word at `addr` are `value`; uses T0 to T2 and A0.
    fn wait(&mut self, addr: u64, bits: u64, value: u64);

    /// The program as firmware.
    fn payload(&self) -> Payload;
}

impl Program for Asm {
    fn power_off(&mut self) {
        self.li(T0, 0x10_0000).li(T1, 0x5555).sw(T1, T0, 0);
        let forever = self.here();
        self.j(forever);
    }

    fn store(&mut self, addr: u64, size: u8, value: u64) {
        self.li(T0, addr).li(T1, value);
        // sb, sh, sw, sd
        self.word(trapless_asm::s(0x23, size.ilog2(), T0, T1, 0));
    }

    fn wait(&mut self, addr: u64, bits: u64, value: u64) {
        self.li(T1, bits).li(T2, value).li(A0, addr);
        let again = self.here();
        self.lw(T0, A0, 0).and(T0, T0, T1).bne(T0, T2, again);
    }

    fn payload(&self) -> Payload {
        Payload {
            firmware: Some(self.finish()),
            ..Payload::default()
        }
    }
}

pub fn config(machine: &str, harts: usize) -> MachineConfig {
    let mut config = MachineConfig::preset(machine).unwrap();
    config.harts = harts;
    config.ram = 32 << 20;
    config
}

/// Output that the test can read.
#[derive(Clone, Default)]
pub struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub fn quiet() -> Peripherals {
    Peripherals::new(Box::new(std::io::sink()))
}

/// Two or more harts that wait for timers and send each other interrupts while they count.
pub fn timers_and_ipis() -> Asm {
    const MTIME: u64 = 0x200_bff8;
    const MTIMECMP: u64 = 0x200_4000;
    const MSIP: u64 = 0x200_0000;
    let mut a = Asm::new(RAM);
    let (start, handler, ipi, back) = (a.label(), a.label(), a.label(), a.label());
    a.j(start);
    a.bind(handler);
    // Timers are set again, 3 ticks later; each sends an interrupt to the other hart.
    a.csrr(T0, MCAUSE).slli(T0, T0, 1).addi(T1, ZERO, 14);
    a.bne(T0, T1, ipi);
    a.li(T0, MTIME).ld(T0, T0, 0).addi(T0, T0, 3);
    a.csrr(T1, MHARTID)
        .slli(T1, T1, 3)
        .li(T2, MTIMECMP)
        .add(T2, T2, T1)
        .sd(T0, T2, 0);
    a.csrr(T1, MHARTID)
        .addi(T1, T1, 1)
        .slli(T1, T1, 63)
        .srli(T1, T1, 61);
    a.li(T2, MSIP).add(T2, T2, T1);
    a.addi(T0, ZERO, 1).sw(T0, T2, 0);
    a.j(back);
    a.bind(ipi);
    a.csrr(T1, MHARTID)
        .slli(T1, T1, 2)
        .li(T2, MSIP)
        .add(T2, T2, T1)
        .sw(ZERO, T2, 0);
    a.bind(back);
    // A letter to the console.
    a.li(T0, 0x1000_0000)
        .andi(T1, S0, 15)
        .addi(T1, T1, 97)
        .sb(T1, T0, 0);
    a.addi(S0, S0, 1);
    a.w(trapless_asm::MRET);
    a.bind(start);
    let vector = a.address(handler);
    a.li(T0, vector).csrw(MTVEC, T0);
    a.csrr(T1, MHARTID)
        .slli(T1, T1, 3)
        .li(T2, MTIMECMP)
        .add(T2, T2, T1);
    a.li(T0, 10).sd(T0, T2, 0);
    a.li(T0, 1 << 7 | 1 << 3).csrw(MIE, T0);
    a.li(T0, 8).csrs(MSTATUS, T0);
    let (wait, done) = (a.here(), a.label());
    a.wfi().srli(A0, S0, 7).bne(A0, ZERO, done).j(wait);
    a.bind(done);
    a.power_off();
    a
}

/// An ELF program with one segment at [`RAM`] and these absolute symbols.
pub fn elf(code: &[u8], memory: u64, symbols: &[(&str, u64)]) -> Vec<u8> {
    let mut strings = vec![0];
    let mut table = vec![0; 24];
    for (name, value) in symbols {
        table.extend((strings.len() as u32).to_le_bytes());
        table.extend([0x10, 0, 0xf1, 0xff]); // global, absolute
        table.extend(value.to_le_bytes());
        table.extend([0; 8]);
        strings.extend(name.as_bytes());
        strings.push(0);
    }
    let (code_at, table_at) = (0x1000u64, 0x1000 + code.len() as u64);
    let strings_at = table_at + table.len() as u64;
    let sections_at = strings_at + strings.len() as u64;

    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2, 0, 243, 0]); // ET_EXEC, EM_RISCV
    file.extend(1u32.to_le_bytes());
    [RAM, 64, sections_at]
        .map(u64::to_le_bytes)
        .iter()
        .for_each(|w| file.extend(w));
    file.extend(0u32.to_le_bytes());
    [64u16, 56, 1, 64, 3, 2]
        .map(u16::to_le_bytes)
        .iter()
        .for_each(|w| file.extend(w));
    file.extend(1u32.to_le_bytes()); // PT_LOAD
    file.extend(7u32.to_le_bytes());
    for word in [code_at, RAM, RAM, code.len() as u64, memory, 0x1000] {
        file.extend(word.to_le_bytes());
    }
    file.resize(code_at as usize, 0);
    file.extend(code);
    file.extend(&table);
    file.extend(&strings);
    let mut section = |kind: u32, at: u64, len: u64, link: u32, entry: u64| {
        file.extend(0u32.to_le_bytes());
        file.extend(kind.to_le_bytes());
        [0, 0, at, len]
            .map(u64::to_le_bytes)
            .iter()
            .for_each(|w| file.extend(w));
        file.extend(link.to_le_bytes());
        file.extend(1u32.to_le_bytes());
        [8, entry]
            .map(u64::to_le_bytes)
            .iter()
            .for_each(|w| file.extend(w));
    };
    section(0, 0, 0, 0, 0);
    section(2, table_at, table.len() as u64, 2, 24); // symbols
    section(3, strings_at, strings.len() as u64, 0, 0); // their names
    file
}

/// Every hart adds its number plus one to a common counter 500 times; the last powers off.
pub fn counters(harts: u64) -> Asm {
    let mut a = Asm::new(RAM);
    a.csrr(S0, MHARTID).addi(S0, S0, 1).li(S1, DATA).li(A0, 500);
    let again = a.here();
    a.amoadd(ZERO, S0, S1).addi(A0, A0, -1).bne(A0, ZERO, again);
    // Each hart leaves a mark of its own and counts itself out.
    let (done, sleep) = (a.label(), a.label());
    a.slli(T0, S0, 3).add(T0, T0, S1).sd(S0, T0, 64);
    a.addi(T0, ZERO, 1).addi(T1, S1, 8).amoadd(T2, T0, T1);
    a.li(T0, harts - 1).beq(T2, T0, done);
    a.bind(sleep);
    a.wfi().j(sleep);
    a.bind(done);
    a.power_off();
    a
}
