//! Expansion of 16-bit instructions (C extension with D, RV64).
//!
//! Encodings are those of the unprivileged specification, chapter "C". Hints expand to the
//! operation they are encoded as (which then does nothing); reserved encodings are illegal.

use crate::inst::{Inst, Op};

/// Operands of a compressed instruction. `rd'` is a 3-bit register field naming x8..=x15.
#[derive(Clone, Copy)]
enum Format {
    /// No operands (`c.ebreak`).
    None,
    /// `rd', x2, nzuimm`: `c.addi4spn`.
    Addi4spn,
    /// `rd', uimm(rs1')` scaled by 4.
    LoadW,
    /// `rd', uimm(rs1')` scaled by 8.
    LoadD,
    /// `rs2', uimm(rs1')` scaled by 4.
    StoreW,
    /// `rs2', uimm(rs1')` scaled by 8.
    StoreD,
    /// `rd, rd, imm`.
    Imm,
    /// `rd, x0, imm`: `c.li`.
    Li,
    /// `x2, x2, nzimm`: `c.addi16sp`.
    Addi16sp,
    /// `rd, nzimm`: `c.lui`.
    Lui,
    /// `rd', rd', shamt`.
    Shift,
    /// `rd', rd', imm`: `c.andi`.
    Andi,
    /// `rd', rd', rs2'`.
    Arith,
    /// `x0, offset`: `c.j`.
    Jump,
    /// `rs1', x0, offset`.
    Branch,
    /// `rd, rd, shamt`: `c.slli`.
    Slli,
    /// `rd, uimm(x2)` scaled by 4.
    LoadWsp,
    /// `rd, uimm(x2)` scaled by 8.
    LoadDsp,
    /// `rs2, uimm(x2)` scaled by 4.
    StoreWsp,
    /// `rs2, uimm(x2)` scaled by 8.
    StoreDsp,
    /// `x0, 0(rs1)`: `c.jr`.
    Jr,
    /// `x1, 0(rs1)`: `c.jalr`.
    Jalr,
    /// `rd, x0, rs2`: `c.mv`.
    Mv,
    /// `rd, rd, rs2`: `c.add`.
    Add,
}

struct Row {
    bits: u16,
    mask: u16,
    op: Op,
    format: Format,
}

const fn row(bits: u16, mask: u16, op: Op, format: Format) -> Row {
    Row {
        bits,
        mask,
        op,
        format,
    }
}

/// The first match counts, so narrower encodings come first. `Op::Illegal` rows are reserved.
static TABLE: &[Row] = &[
    // Quadrant 0
    row(0x0000, 0xffe3, Op::Illegal, Format::None), // c.addi4spn with nzuimm = 0
    row(0x0000, 0xe003, Op::Addi, Format::Addi4spn),
    row(0x2000, 0xe003, Op::Fld, Format::LoadD),
    row(0x4000, 0xe003, Op::Lw, Format::LoadW),
    row(0x6000, 0xe003, Op::Ld, Format::LoadD),
    row(0xa000, 0xe003, Op::Fsd, Format::StoreD),
    row(0xc000, 0xe003, Op::Sw, Format::StoreW),
    row(0xe000, 0xe003, Op::Sd, Format::StoreD),
    // Quadrant 1
    row(0x0001, 0xe003, Op::Addi, Format::Imm),
    row(0x2001, 0xef83, Op::Illegal, Format::None), // c.addiw with rd = 0
    row(0x2001, 0xe003, Op::Addiw, Format::Imm),
    row(0x4001, 0xe003, Op::Addi, Format::Li),
    row(0x6001, 0xf07f, Op::Illegal, Format::None), // c.lui or c.addi16sp with imm = 0
    row(0x6101, 0xef83, Op::Addi, Format::Addi16sp),
    row(0x6001, 0xe003, Op::Lui, Format::Lui),
    row(0x8001, 0xec03, Op::Srli, Format::Shift),
    row(0x8401, 0xec03, Op::Srai, Format::Shift),
    row(0x8801, 0xec03, Op::Andi, Format::Andi),
    row(0x8c01, 0xfc63, Op::Sub, Format::Arith),
    row(0x8c21, 0xfc63, Op::Xor, Format::Arith),
    row(0x8c41, 0xfc63, Op::Or, Format::Arith),
    row(0x8c61, 0xfc63, Op::And, Format::Arith),
    row(0x9c01, 0xfc63, Op::Subw, Format::Arith),
    row(0x9c21, 0xfc63, Op::Addw, Format::Arith),
    row(0xa001, 0xe003, Op::Jal, Format::Jump),
    row(0xc001, 0xe003, Op::Beq, Format::Branch),
    row(0xe001, 0xe003, Op::Bne, Format::Branch),
    // Quadrant 2
    row(0x0002, 0xe003, Op::Slli, Format::Slli),
    row(0x2002, 0xe003, Op::Fld, Format::LoadDsp),
    row(0x4002, 0xef83, Op::Illegal, Format::None), // c.lwsp with rd = 0
    row(0x4002, 0xe003, Op::Lw, Format::LoadWsp),
    row(0x6002, 0xef83, Op::Illegal, Format::None), // c.ldsp with rd = 0
    row(0x6002, 0xe003, Op::Ld, Format::LoadDsp),
    row(0x8002, 0xffff, Op::Illegal, Format::None), // c.jr with rs1 = 0
    row(0x8002, 0xf07f, Op::Jalr, Format::Jr),
    row(0x8002, 0xf003, Op::Add, Format::Mv),
    row(0x9002, 0xffff, Op::Ebreak, Format::None),
    row(0x9002, 0xf07f, Op::Jalr, Format::Jalr),
    row(0x9002, 0xf003, Op::Add, Format::Add),
    row(0xa002, 0xe003, Op::Fsd, Format::StoreDsp),
    row(0xc002, 0xe003, Op::Sw, Format::StoreWsp),
    row(0xe002, 0xe003, Op::Sd, Format::StoreDsp),
];

/// Index of a parcel: bits 1:0 and 15:13.
const fn slot(parcel: u16) -> usize {
    ((parcel & 3) << 3 | parcel >> 13) as usize
}

/// First row of each slot; the table is sorted by slot.
static START: [u8; 33] = {
    let mut start = [0; 33];
    let mut s = 0;
    let mut n = 0;
    while s < 32 {
        while n < TABLE.len() && slot(TABLE[n].bits) < s {
            n += 1;
        }
        start[s] = n as u8;
        s += 1;
    }
    start[32] = TABLE.len() as u8;
    start
};

/// Expands a parcel whose low two bits are not 3.
pub(crate) fn expand(parcel: u16) -> Inst {
    let s = slot(parcel);
    let raw = u32::from(parcel);
    let mut inst = Inst {
        op: Op::Illegal,
        rd: 0,
        rs1: 0,
        rs2: 0,
        rs3: 0,
        rm: 0,
        len: 2,
        imm: 0,
        raw,
    };
    let rows = &TABLE[START[s] as usize..START[s + 1] as usize];
    let Some(row) = rows.iter().find(|row| parcel & row.mask == row.bits) else {
        return inst;
    };
    inst.op = row.op;

    let p = raw;
    let rd = (p >> 7 & 0x1f) as u8;
    let rs2 = (p >> 2 & 0x1f) as u8;
    // The 3-bit fields in bits 9:7 and 4:2.
    let high = 8 + (p >> 7 & 7) as u8;
    let low = 8 + (p >> 2 & 7) as u8;
    // Signed 6-bit immediate in bits 12 and 6:2; its low six bits are the shift amount.
    let imm6 = ((p >> 12 & 1) << 5 | p >> 2 & 0x1f) as i32;
    let simm6 = imm6 << 26 >> 26;

    match row.format {
        Format::None => {}
        Format::Addi4spn => {
            let imm =
                (p >> 7 & 0xf) << 6 | (p >> 11 & 3) << 4 | (p >> 5 & 1) << 3 | (p >> 6 & 1) << 2;
            (inst.rd, inst.rs1, inst.imm) = (low, 2, imm as i32);
        }
        Format::LoadW => (inst.rd, inst.rs1, inst.imm) = (low, high, offset_w(p)),
        Format::LoadD => (inst.rd, inst.rs1, inst.imm) = (low, high, offset_d(p)),
        Format::StoreW => (inst.rs2, inst.rs1, inst.imm) = (low, high, offset_w(p)),
        Format::StoreD => (inst.rs2, inst.rs1, inst.imm) = (low, high, offset_d(p)),
        Format::Imm => (inst.rd, inst.rs1, inst.imm) = (rd, rd, simm6),
        Format::Li => (inst.rd, inst.imm) = (rd, simm6),
        Format::Addi16sp => {
            let imm = (p >> 12 & 1) << 9
                | (p >> 3 & 3) << 7
                | (p >> 5 & 1) << 6
                | (p >> 2 & 1) << 5
                | (p >> 6 & 1) << 4;
            (inst.rd, inst.rs1, inst.imm) = (2, 2, (imm as i32) << 22 >> 22);
        }
        Format::Lui => (inst.rd, inst.imm) = (rd, simm6 << 12),
        Format::Shift => (inst.rd, inst.rs1, inst.imm) = (high, high, imm6),
        Format::Andi => (inst.rd, inst.rs1, inst.imm) = (high, high, simm6),
        Format::Arith => (inst.rd, inst.rs1, inst.rs2) = (high, high, low),
        Format::Jump => {
            let imm = (p >> 12 & 1) << 11
                | (p >> 8 & 1) << 10
                | (p >> 9 & 3) << 8
                | (p >> 6 & 1) << 7
                | (p >> 7 & 1) << 6
                | (p >> 2 & 1) << 5
                | (p >> 11 & 1) << 4
                | (p >> 3 & 7) << 1;
            inst.imm = (imm as i32) << 20 >> 20;
        }
        Format::Branch => {
            let imm = (p >> 12 & 1) << 8
                | (p >> 5 & 3) << 6
                | (p >> 2 & 1) << 5
                | (p >> 10 & 3) << 3
                | (p >> 3 & 3) << 1;
            (inst.rs1, inst.imm) = (high, (imm as i32) << 23 >> 23);
        }
        Format::Slli => (inst.rd, inst.rs1, inst.imm) = (rd, rd, imm6),
        Format::LoadWsp => {
            let imm = (p >> 2 & 3) << 6 | (p >> 12 & 1) << 5 | (p >> 4 & 7) << 2;
            (inst.rd, inst.rs1, inst.imm) = (rd, 2, imm as i32);
        }
        Format::LoadDsp => {
            let imm = (p >> 2 & 7) << 6 | (p >> 12 & 1) << 5 | (p >> 5 & 3) << 3;
            (inst.rd, inst.rs1, inst.imm) = (rd, 2, imm as i32);
        }
        Format::StoreWsp => {
            let imm = (p >> 7 & 3) << 6 | (p >> 9 & 0xf) << 2;
            (inst.rs2, inst.rs1, inst.imm) = (rs2, 2, imm as i32);
        }
        Format::StoreDsp => {
            let imm = (p >> 7 & 7) << 6 | (p >> 10 & 7) << 3;
            (inst.rs2, inst.rs1, inst.imm) = (rs2, 2, imm as i32);
        }
        Format::Jr => inst.rs1 = rd,
        Format::Jalr => (inst.rd, inst.rs1) = (1, rd),
        Format::Mv => (inst.rd, inst.rs2) = (rd, rs2),
        Format::Add => (inst.rd, inst.rs1, inst.rs2) = (rd, rd, rs2),
    }
    inst
}

/// Offset of the register-based loads and stores of words.
fn offset_w(p: u32) -> i32 {
    ((p >> 5 & 1) << 6 | (p >> 10 & 7) << 3 | (p >> 6 & 1) << 2) as i32
}

/// Offset of the register-based loads and stores of doublewords.
fn offset_d(p: u32) -> i32 {
    ((p >> 5 & 3) << 6 | (p >> 10 & 7) << 3) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_by_slot() {
        for pair in TABLE.windows(2) {
            assert!(slot(pair[0].bits) <= slot(pair[1].bits));
        }
    }

    #[test]
    fn reserved_parcels_are_illegal() {
        for parcel in [
            0x0000, // all zero
            0x001c, // c.addi4spn with nzuimm = 0
            0x2001, 0x3005, // c.addiw with rd = 0
            0x4002, 0x6002, // c.lwsp, c.ldsp with rd = 0
            0x6101, // c.addi16sp with nzimm = 0
            0x6081, 0x6001, // c.lui with nzimm = 0
            0x8002, // c.jr with rs1 = 0
            0x8000, // quadrant 0, funct3 = 4
            0x9c41, 0x9c61, // reserved for other extensions
        ] {
            let inst = expand(parcel);
            assert_eq!(
                (inst.op, inst.len, inst.raw),
                (Op::Illegal, 2, parcel.into()),
                "{parcel:#x}"
            );
        }
    }

    #[test]
    fn hints_are_legal() {
        for (parcel, op) in [
            (0x0005, Op::Addi), // c.nop with imm = 1
            (0x0081, Op::Addi), // c.addi x1, 0
            (0x4005, Op::Addi), // c.li x0, 1
            (0x6005, Op::Lui),  // c.lui x0, 1
            (0x0002, Op::Slli), // c.slli x0, 0
            (0x8001, Op::Srli), // c.srli x8, 0
            (0x8006, Op::Add),  // c.mv x0, x1
            (0x9006, Op::Add),  // c.add x0, x1
        ] {
            assert_eq!(expand(parcel).op, op, "{parcel:#x}");
        }
    }
}
