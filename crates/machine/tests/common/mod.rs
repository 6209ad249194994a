//! A tiny assembler, an ELF writer and shared output, so that tests need no RISC-V tools.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::Write;
use std::sync::{Arc, Mutex};

use trapless_machine::{MachineConfig, Payload, Peripherals};

pub const ZERO: u32 = 0;
pub const RA: u32 = 1;
pub const T0: u32 = 5;
pub const T1: u32 = 6;
pub const T2: u32 = 7;
pub const S0: u32 = 8;
pub const S1: u32 = 9;
pub const A0: u32 = 10;
pub const A1: u32 = 11;

pub const MSTATUS: u32 = 0x300;
pub const MIE: u32 = 0x304;
pub const MTVEC: u32 = 0x305;
pub const MEPC: u32 = 0x341;
pub const MCAUSE: u32 = 0x342;
pub const MTVAL: u32 = 0x343;
pub const MHARTID: u32 = 0xf14;
pub const MCYCLE: u32 = 0xb00;

pub const RAM: u64 = 0x8000_0000;
/// Where programs leave results.
pub const DATA: u64 = RAM + 0x10_0000;

#[derive(Clone, Copy)]
pub struct Label(usize);

/// Machine code with labels, starting at [`RAM`].
#[derive(Default)]
pub struct Asm {
    pub words: Vec<u32>,
    labels: Vec<Option<usize>>,
    fixups: Vec<(usize, Label, bool)>,
}

impl Asm {
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.words.len());
    }

    pub fn here(&mut self) -> Label {
        let label = self.label();
        self.bind(label);
        label
    }

    pub fn word(&mut self, word: u32) -> &mut Self {
        self.words.push(word);
        self
    }

    fn i(&mut self, op: u32, f3: u32, rd: u32, rs1: u32, imm: i32) -> &mut Self {
        assert!((-2048..2048).contains(&imm), "immediate {imm}");
        self.word((imm as u32) << 20 | rs1 << 15 | f3 << 12 | rd << 7 | op)
    }

    fn s(&mut self, f3: u32, rs2: u32, rs1: u32, imm: i32) -> &mut Self {
        let imm = imm as u32;
        self.word(
            (imm >> 5 & 0x7f) << 25 | rs2 << 20 | rs1 << 15 | f3 << 12 | (imm & 31) << 7 | 0x23,
        )
    }

    pub fn addi(&mut self, rd: u32, rs1: u32, imm: i32) -> &mut Self {
        self.i(0x13, 0, rd, rs1, imm)
    }

    pub fn slli(&mut self, rd: u32, rs1: u32, shift: u32) -> &mut Self {
        self.i(0x13, 1, rd, rs1, shift as i32)
    }

    pub fn andi(&mut self, rd: u32, rs1: u32, imm: i32) -> &mut Self {
        self.i(0x13, 7, rd, rs1, imm)
    }

    pub fn add(&mut self, rd: u32, rs1: u32, rs2: u32) -> &mut Self {
        self.word(rs2 << 20 | rs1 << 15 | rd << 7 | 0x33)
    }

    pub fn lw(&mut self, rd: u32, rs1: u32, imm: i32) -> &mut Self {
        self.i(0x03, 2, rd, rs1, imm)
    }

    pub fn lbu(&mut self, rd: u32, rs1: u32, imm: i32) -> &mut Self {
        self.i(0x03, 4, rd, rs1, imm)
    }

    pub fn ld(&mut self, rd: u32, rs1: u32, imm: i32) -> &mut Self {
        self.i(0x03, 3, rd, rs1, imm)
    }

    pub fn sb(&mut self, rs2: u32, rs1: u32, imm: i32) -> &mut Self {
        self.s(0, rs2, rs1, imm)
    }

    pub fn sw(&mut self, rs2: u32, rs1: u32, imm: i32) -> &mut Self {
        self.s(2, rs2, rs1, imm)
    }

    pub fn sd(&mut self, rs2: u32, rs1: u32, imm: i32) -> &mut Self {
        self.s(3, rs2, rs1, imm)
    }

    pub fn csrw(&mut self, csr: u32, rs1: u32) -> &mut Self {
        self.word(csr << 20 | rs1 << 15 | 1 << 12 | 0x73)
    }

    pub fn csrr(&mut self, rd: u32, csr: u32) -> &mut Self {
        self.word(csr << 20 | 2 << 12 | rd << 7 | 0x73)
    }

    pub fn csrs(&mut self, csr: u32, rs1: u32) -> &mut Self {
        self.word(csr << 20 | rs1 << 15 | 2 << 12 | 0x73)
    }

    /// `amoadd.d rd, rs2, (rs1)`
    pub fn amoadd(&mut self, rd: u32, rs2: u32, rs1: u32) -> &mut Self {
        self.word(rs2 << 20 | rs1 << 15 | 3 << 12 | rd << 7 | 0x2f)
    }

    pub fn wfi(&mut self) -> &mut Self {
        self.word(0x1050_0073)
    }

    pub fn mret(&mut self) -> &mut Self {
        self.word(0x3020_0073)
    }

    /// Loads any constant whose low 32 bits, shifted up piece by piece, make it.
    pub fn li(&mut self, rd: u32, value: u64) -> &mut Self {
        self.addi(rd, ZERO, (value >> 55) as i32);
        for shift in [44, 33, 22, 11, 0] {
            self.slli(rd, rd, 11)
                .addi(rd, rd, (value >> shift & 0x7ff) as i32);
        }
        self
    }

    pub fn branch(&mut self, f3: u32, rs1: u32, rs2: u32, to: Label) -> &mut Self {
        self.fixups.push((self.words.len(), to, false));
        self.word(rs2 << 20 | rs1 << 15 | f3 << 12 | 0x63)
    }

    pub fn beq(&mut self, rs1: u32, rs2: u32, to: Label) -> &mut Self {
        self.branch(0, rs1, rs2, to)
    }

    pub fn bne(&mut self, rs1: u32, rs2: u32, to: Label) -> &mut Self {
        self.branch(1, rs1, rs2, to)
    }

    pub fn j(&mut self, to: Label) -> &mut Self {
        self.fixups.push((self.words.len(), to, true));
        self.word(0x6f)
    }

    /// Powers the machine off through the test finisher.
    pub fn power_off(&mut self) -> &mut Self {
        self.li(T0, 0x10_0000).li(T1, 0x5555).sw(T1, T0, 0);
        let forever = self.here();
        self.j(forever)
    }

    /// Address of a bound label, for `li`; bind before use.
    pub fn address(&self, label: Label) -> u64 {
        RAM + 4 * self.labels[label.0].expect("label is bound") as u64
    }

    pub fn code(&self) -> Vec<u8> {
        let mut words = self.words.clone();
        for &(at, label, jump) in &self.fixups {
            let to = self.labels[label.0].expect("label is bound");
            let d = ((to as i64 - at as i64) * 4) as u32;
            words[at] |= if jump {
                (d >> 20 & 1) << 31
                    | (d >> 1 & 0x3ff) << 21
                    | (d >> 11 & 1) << 20
                    | (d >> 12 & 0xff) << 12
            } else {
                (d >> 12 & 1) << 31
                    | (d >> 5 & 0x3f) << 25
                    | (d >> 1 & 15) << 8
                    | (d >> 11 & 1) << 7
            };
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The program as firmware.
    pub fn payload(&self) -> Payload {
        Payload {
            firmware: Some(self.code()),
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
