//! Decoding of instruction words.
//!
//! The operation table is indexed by the major opcode and funct3, so a word is compared with the
//! few rows that share these bits.

use crate::compressed;
use crate::inst::{Format, Inst};
use crate::op_table::{INFO, Op};

/// Index of a word in [`INDEX`]: bits 6:2 and 14:12 (bits 1:0 are always 3).
const fn slot(word: u32) -> usize {
    ((word >> 2 & 0x1f) << 3 | word >> 12 & 7) as usize
}

const SLOTS: usize = 256;
/// Enough for all rows: only those without fixed funct3 are in more than one slot.
const CAPACITY: usize = 1024;

/// Rows of the operation table by slot.
struct Index {
    /// Rows of slot `s` are `rows[start[s]..start[s + 1]]`, in table order.
    start: [u16; SLOTS + 1],
    rows: [Op; CAPACITY],
}

static INDEX: Index = build_index();

const fn build_index() -> Index {
    let mut index = Index {
        start: [0; SLOTS + 1],
        rows: [Op::Illegal; CAPACITY],
    };
    let mut next = 0;
    let mut s = 0;
    while s < SLOTS {
        index.start[s] = next;
        let slot_bits = (s as u32 >> 3) << 2 | (s as u32 & 7) << 12 | 3;
        let mut row = 1;
        while row < Op::COUNT {
            let op = Op::ALL[row];
            let code = op.info().code;
            if (slot_bits ^ code.bits) & code.mask & 0x707f == 0 {
                index.rows[next as usize] = op;
                next += 1;
            }
            row += 1;
        }
        s += 1;
    }
    index.start[SLOTS] = next;
    index
}

/// Decodes one instruction.
///
/// `raw` is a 32-bit instruction, or a 16-bit parcel in the low half if its low two bits are not 3
/// (the high half is then ignored). Reserved and unknown encodings give [`Op::Illegal`] with `raw`
/// and `len` kept; hints decode to the operation they are encoded as. Every supported extension is
/// always accepted: see [`Op::extension`].
///
/// ```
/// use trapless_isa::{Op, decode, disasm};
///
/// let inst = decode(0xffc1_0113);
/// assert_eq!((inst.op, inst.rd, inst.rs1, inst.imm, inst.len), (Op::Addi, 2, 2, -4, 4));
/// assert_eq!(disasm(inst, 0x8000_0000), "addi sp,sp,-4");
/// // A compressed instruction is expanded to its base operation.
/// let ret = decode(0x8082);
/// assert_eq!((ret.op, ret.len), (Op::Jalr, 2));
/// assert_eq!(disasm(ret, 0x8000_0000), "ret");
/// assert_eq!(decode(0).op, Op::Illegal);
/// ```
pub fn decode(raw: u32) -> Inst {
    if raw & 3 != 3 {
        return compressed::expand(raw as u16);
    }
    let s = slot(raw);
    let candidates = &INDEX.rows[INDEX.start[s] as usize..INDEX.start[s + 1] as usize];
    for &op in candidates {
        let info = &INFO[op as usize];
        if raw & info.code.mask == info.code.bits {
            return operands(op, info.format, raw);
        }
    }
    Inst {
        op: Op::Illegal,
        rd: 0,
        rs1: 0,
        rs2: 0,
        rs3: 0,
        rm: 0,
        len: 4,
        imm: 0,
        raw,
    }
}

/// Extracts the operands of `raw` according to `format`.
fn operands(op: Op, format: Format, raw: u32) -> Inst {
    let field = |low: u32| (raw >> low & 0x1f) as u8;
    let (rd, rs1, rs2, rs3) = (field(7), field(15), field(20), field(27));
    let rm = (raw >> 12 & 7) as u8;
    let mut inst = Inst {
        op,
        rd: 0,
        rs1: 0,
        rs2: 0,
        rs3: 0,
        rm: 0,
        len: 4,
        imm: 0,
        raw,
    };
    match format {
        Format::None => {}
        Format::R | Format::Amo | Format::F | Format::FCompare => {
            (inst.rd, inst.rs1, inst.rs2) = (rd, rs1, rs2);
        }
        Format::FRm => (inst.rd, inst.rs1, inst.rs2, inst.rm) = (rd, rs1, rs2, rm),
        Format::F4Rm => {
            (inst.rd, inst.rs1, inst.rs2, inst.rs3, inst.rm) = (rd, rs1, rs2, rs3, rm);
        }
        Format::Unary | Format::LoadReserved | Format::HLoad | Format::FToX | Format::XToF => {
            (inst.rd, inst.rs1) = (rd, rs1);
        }
        Format::FUnaryRm | Format::FToXRm | Format::XToFRm => {
            (inst.rd, inst.rs1, inst.rm) = (rd, rs1, rm);
        }
        Format::I | Format::Load | Format::FLoad => {
            (inst.rd, inst.rs1, inst.imm) = (rd, rs1, imm_i(raw));
        }
        Format::Shift => (inst.rd, inst.rs1, inst.imm) = (rd, rs1, (raw >> 20 & 0x3f) as i32),
        Format::ShiftW => (inst.rd, inst.rs1, inst.imm) = (rd, rs1, i32::from(rs2)),
        Format::Store | Format::FStore => {
            (inst.rs1, inst.rs2, inst.imm) = (rs1, rs2, imm_s(raw));
        }
        Format::Branch => (inst.rs1, inst.rs2, inst.imm) = (rs1, rs2, imm_b(raw)),
        Format::U => (inst.rd, inst.imm) = (rd, (raw & 0xffff_f000) as i32),
        Format::J => (inst.rd, inst.imm) = (rd, imm_j(raw)),
        Format::Fence => inst.imm = (raw >> 20) as i32,
        Format::Csr | Format::CsrImm => {
            (inst.rd, inst.rs1, inst.imm) = (rd, rs1, (raw >> 20) as i32);
        }
        Format::HStore | Format::Vma => (inst.rs1, inst.rs2) = (rs1, rs2),
        Format::Cbo => inst.rs1 = rs1,
        Format::Prefetch => (inst.rs1, inst.imm) = (rs1, imm_s(raw) & !0x1f),
    }
    inst
}

fn imm_i(raw: u32) -> i32 {
    raw as i32 >> 20
}

fn imm_s(raw: u32) -> i32 {
    (raw as i32 >> 25 << 5) | (raw >> 7 & 0x1f) as i32
}

fn imm_b(raw: u32) -> i32 {
    (raw as i32 >> 31 << 12)
        | ((raw >> 7 & 1) << 11 | (raw >> 25 & 0x3f) << 5 | (raw >> 8 & 0xf) << 1) as i32
}

fn imm_j(raw: u32) -> i32 {
    (raw as i32 >> 31 << 20)
        | ((raw >> 12 & 0xff) << 12 | (raw >> 20 & 1) << 11 | (raw >> 21 & 0x3ff) << 1) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_rows_are_ordered_narrow_first() {
        for (n, a) in Op::ALL.iter().enumerate().skip(1) {
            let code = a.info().code;
            assert_eq!(code.bits & !code.mask, 0, "{a:?} has bits outside its mask");
            for b in &Op::ALL[n + 1..] {
                let other = b.info().code;
                let overlap = (code.bits ^ other.bits) & code.mask & other.mask == 0;
                let is_narrower = code.mask & other.mask == other.mask;
                assert!(!overlap || is_narrower, "{a:?} hides {b:?}");
            }
        }
    }

    #[test]
    fn every_row_decodes_to_itself() {
        for op in &Op::ALL[1..] {
            let code = op.info().code;
            // All free bits one: outside the encodings of hints that share a row's bits.
            assert_eq!(decode(code.bits | !code.mask).op, *op);
        }
    }

    #[test]
    fn zicond_decodes() {
        // Not known to the binutils that tests/objdump.rs may find.
        for (raw, op) in [(0x0eb5_5533, Op::CzeroEqz), (0x0eb5_7533, Op::CzeroNez)] {
            let inst = decode(raw);
            assert_eq!((inst.op, inst.rd, inst.rs1, inst.rs2), (op, 10, 10, 11));
        }
    }

    #[test]
    fn reserved_words_are_illegal() {
        for raw in [
            0x0200_101b,           // slliw with shamt bit 5
            0x1000_362f | 1 << 20, // lr.d with rs2 = 1
            0x0030_a00f,           // cbo operation 3
            0x1020_00f3,           // sret with rd = 1
            0x0600_0043,           // fmadd.q
            0xffff_ffff,
        ] {
            let inst = decode(raw);
            assert_eq!(
                (inst.op, inst.len, inst.raw),
                (Op::Illegal, 4, raw),
                "{raw:#x}"
            );
        }
    }
}
