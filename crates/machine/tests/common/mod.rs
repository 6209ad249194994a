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

    /// The program as firmware.
    fn payload(&self) -> Payload;
}

impl Program for Asm {
    fn power_off(&mut self) {
        self.li(T0, 0x10_0000).li(T1, 0x5555).sw(T1, T0, 0);
        let forever = self.here();
        self.j(forever);
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
