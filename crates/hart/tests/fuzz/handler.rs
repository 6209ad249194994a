//! The trap handler of programs, and what it keeps.

use std::collections::BTreeMap;

use trapless_isa::csr;

use super::tables::{FRAMES, HANDLER};

/// Address of what the handler of hart `hart` keeps.
pub fn frame(hart: usize) -> u64 {
    FRAMES + 0x400 * hart as u64
}

/// Offsets in a frame.
pub const FRAME_DEVICE: u64 = 24;
pub const FRAME_STEP: u64 = 32;
pub const FRAME_SPACES: u64 = 40;
pub const FRAME_ENTRIES: u64 = 64;

/// The trap handler: an interrupt is acknowledged, after an exception execution continues 4 bytes
/// behind, and at the next entry if fetching failed or there are only zeros, perhaps in another
/// address space.
pub fn handler() -> BTreeMap<u64, u64> {
    const SP: u32 = 2;
    const T0: u32 = 5;
    const T1: u32 = 6;
    let i = |opcode: u32, funct3: u32, rd: u32, rs1: u32, imm: i32| {
        (imm as u32) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode
    };
    let ld = |rd, rs1, imm| i(0x03, 3, rd, rs1, imm);
    let li = |rd, imm| i(0x13, 0, rd, 0, imm);
    let sd = |rs2: u32, rs1: u32, imm: u32| {
        (imm >> 5) << 25 | rs2 << 20 | rs1 << 15 | 3 << 12 | (imm & 31) << 7 | 0x23
    };
    let csrrw = |rd, csr: u16, rs1| i(0x73, 1, rd, rs1, i32::from(csr));
    let csrr = |rd, csr: u16| i(0x73, 2, rd, 0, i32::from(csr));
    let add = |rd: u32, rs1: u32, rs2: u32| rs2 << 20 | rs1 << 15 | rd << 7 | 0x33;
    let branch = |funct3: u32, rs1: u32, rs2: u32, from: u32, to: u32| {
        let o = 4 * (to - from);
        (o >> 5 & 63) << 25
            | rs2 << 20
            | rs1 << 15
            | funct3 << 12
            | (o >> 1 & 15) << 8
            | (o >> 11 & 1) << 7
            | 0x63
    };
    let (beq, bne, blt) = (0, 1, 4);
    let j = |from: u32, to: u32| (4 * (to - from)) >> 1 << 21 | 0x6F;
    let (skip, next, interrupt, out) = (18, 22, 38, 44);
    let code = [
        csrrw(SP, csr::MSCRATCH, SP),
        sd(T0, SP, 0),
        sd(T1, SP, 8),
        csrr(T0, csr::MCAUSE),
        branch(blt, T0, 0, 4, interrupt),
        li(T1, 12),
        branch(beq, T0, T1, 6, next),
        li(T1, 20),
        branch(beq, T0, T1, 8, next),
        li(T1, 1),
        branch(beq, T0, T1, 10, next),
        branch(beq, T0, 0, 11, next),
        li(T1, 8),
        branch(beq, T0, T1, 13, next),
        li(T1, 2),
        branch(bne, T0, T1, 15, skip),
        csrr(T1, csr::MTVAL),
        branch(beq, T1, 0, 17, next),
        // skip:
        csrr(T1, csr::MEPC),
        i(0x13, 0, T1, T1, 4),
        csrrw(0, csr::MEPC, T1),
        j(21, out),
        // next:
        ld(T0, SP, 16),
        i(0x13, 0, T1, T0, 8),
        i(0x13, 7, T1, T1, 56),
        sd(T1, SP, 16),
        add(T0, T0, SP),
        ld(T1, T0, FRAME_ENTRIES as i32),
        csrrw(0, csr::MEPC, T1),
        csrr(T0, csr::SATP),
        ld(T1, SP, FRAME_SPACES as i32),
        add(T0, T0, T1),
        csrrw(0, csr::SATP, T0),
        csrr(T0, csr::VSATP),
        ld(T1, SP, FRAME_SPACES as i32 + 8),
        add(T0, T0, T1),
        csrrw(0, csr::VSATP, T0),
        j(37, out),
        // interrupt:
        ld(T0, SP, FRAME_DEVICE as i32),
        sd(0, T0, 0),
        csrr(T0, csr::TIME),
        ld(T1, SP, FRAME_STEP as i32),
        add(T0, T0, T1),
        csrrw(0, csr::STIMECMP, T0),
        // out:
        ld(T1, SP, 8),
        ld(T0, SP, 0),
        csrrw(SP, csr::MSCRATCH, SP),
        0x3020_0073,
    ];
    let pair = |pair: &[u32]| u64::from(pair[0]) | u64::from(pair[1]) << 32;
    let words = code.chunks_exact(2).map(pair);
    let mut words: BTreeMap<u64, u64> = (HANDLER..).step_by(8).zip(words).collect();
    // mret
    words.insert(HANDLER + 0x400, 0x3020_0073);
    words
}
