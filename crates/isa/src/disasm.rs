//! Assembly text of decoded instructions, in the manner of GNU objdump.

use crate::csr;
use crate::inst::{Format, Inst, Op};
use std::fmt::{self, Display, Formatter};

/// Style of registers and common short forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// ABI register names, and short forms such as `li`, `mv`, `ret`.
    Abi,
    /// `x10`, `f10`, and no short forms: `objdump -M no-aliases,numeric`.
    Numeric,
}

/// Text of `inst` at address `pc` (which makes the targets of branches and jumps absolute), with
/// ABI register names. Compressed instructions are shown expanded.
pub fn disasm(inst: Inst, pc: u64) -> String {
    disasm_with(inst, pc, Style::Abi)
}

/// As [`disasm`], in a chosen style.
pub fn disasm_with(inst: Inst, pc: u64, style: Style) -> String {
    Text { inst, pc, style }.to_string()
}

const X_NAMES: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4",
    "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4",
    "t5", "t6",
];

const F_NAMES: [&str; 32] = [
    "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2",
    "fa3", "fa4", "fa5", "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9",
    "fs10", "fs11", "ft8", "ft9", "ft10", "ft11",
];

/// Static rounding modes; 7 is `frm` and not written.
const RM_NAMES: [&str; 7] = ["rne", "rtz", "rdn", "rup", "rmm", "unknown", "unknown"];

/// ABI name of integer register `n` (0..=31; higher bits are ignored).
pub fn x_name(n: u8) -> &'static str {
    X_NAMES[usize::from(n & 31)]
}

/// ABI name of floating-point register `n` (0..=31; higher bits are ignored).
pub fn f_name(n: u8) -> &'static str {
    F_NAMES[usize::from(n & 31)]
}

struct Text {
    inst: Inst,
    pc: u64,
    style: Style,
}

enum Reg {
    X(u8, Style),
    F(u8, Style),
}

impl Display for Reg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Reg::X(n, Style::Abi) => f.write_str(x_name(n)),
            Reg::F(n, Style::Abi) => f.write_str(f_name(n)),
            Reg::X(n, Style::Numeric) => write!(f, "x{n}"),
            Reg::F(n, Style::Numeric) => write!(f, "f{n}"),
        }
    }
}

impl Display for Text {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.style == Style::Abi && self.write_short_form(f)? {
            return Ok(());
        }
        self.write_full(f)
    }
}

impl Text {
    fn x(&self, n: u8) -> Reg {
        Reg::X(n, self.style)
    }

    fn f(&self, n: u8) -> Reg {
        Reg::F(n, self.style)
    }

    /// Absolute target of a branch or jump.
    fn target(&self) -> u64 {
        self.pc.wrapping_add_signed(self.inst.imm.into())
    }

    /// Writes the common short form if there is one; returns whether there was.
    fn write_short_form(&self, f: &mut Formatter<'_>) -> Result<bool, fmt::Error> {
        let Inst {
            op,
            rd,
            rs1,
            rs2,
            imm,
            ..
        } = self.inst;
        let (d, s1, s2) = (self.x(rd), self.x(rs1), self.x(rs2));
        match op {
            Op::Addi if rd == 0 && rs1 == 0 && imm == 0 => write!(f, "nop")?,
            Op::Addi if rs1 == 0 => write!(f, "li {d},{imm}")?,
            Op::Addi if imm == 0 => write!(f, "mv {d},{s1}")?,
            // `c.mv` expands to this.
            Op::Add if rs1 == 0 && self.inst.len == 2 => write!(f, "mv {d},{s2}")?,
            Op::Addiw if imm == 0 => write!(f, "sext.w {d},{s1}")?,
            Op::Xori if imm == -1 => write!(f, "not {d},{s1}")?,
            Op::Andi if imm == 255 => write!(f, "zext.b {d},{s1}")?,
            Op::AddUw if rs2 == 0 => write!(f, "zext.w {d},{s1}")?,
            Op::Sub if rs1 == 0 => write!(f, "neg {d},{s2}")?,
            Op::Subw if rs1 == 0 => write!(f, "negw {d},{s2}")?,
            Op::Sltiu if imm == 1 => write!(f, "seqz {d},{s1}")?,
            Op::Sltu if rs1 == 0 => write!(f, "snez {d},{s2}")?,
            Op::Jal if rd == 0 => write!(f, "j {:#x}", self.target())?,
            Op::Jal if rd == 1 => write!(f, "jal {:#x}", self.target())?,
            Op::Jalr if rd == 0 && rs1 == 1 && imm == 0 => write!(f, "ret")?,
            Op::Jalr if rd == 0 && imm == 0 => write!(f, "jr {s1}")?,
            Op::Jalr if rd == 1 && imm == 0 => write!(f, "jalr {s1}")?,
            Op::Beq | Op::Bne | Op::Bge | Op::Blt if rs2 == 0 => {
                write!(f, "{}z {s1},{:#x}", op.mnemonic(), self.target())?;
            }
            Op::Csrrs if rs1 == 0 => write!(f, "csrr {d},{}", csr_name(imm))?,
            Op::Csrrw | Op::Csrrs | Op::Csrrc if rd == 0 => {
                write!(f, "csr{} {},{s1}", &op.mnemonic()[4..], csr_name(imm))?;
            }
            Op::Csrrwi | Op::Csrrsi | Op::Csrrci if rd == 0 => {
                write!(f, "csr{} {},{rs1}", &op.mnemonic()[4..], csr_name(imm))?;
            }
            Op::Fence if imm == 0xff => write!(f, "fence")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn write_full(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let i = self.inst;
        if i.op == Op::Illegal {
            return if i.len == 2 {
                write!(f, ".2byte {:#x}", i.raw)
            } else {
                write!(f, ".4byte {:#x}", i.raw)
            };
        }
        if i.op == Op::Fence && i.raw == 0x8330_000f {
            return f.write_str("fence.tso");
        }
        f.write_str(i.op.mnemonic())?;
        if matches!(i.op.format(), Format::LoadReserved | Format::Amo) {
            f.write_str(["", ".rl", ".aq", ".aqrl"][(i.raw >> 25 & 3) as usize])?;
        }
        let (d, s1, s2) = (self.x(i.rd), self.x(i.rs1), self.x(i.rs2));
        let (fd, fs1, fs2, fs3) = (self.f(i.rd), self.f(i.rs1), self.f(i.rs2), self.f(i.rs3));
        let imm = i.imm;
        match i.op.format() {
            Format::None => Ok(()),
            Format::R => write!(f, " {d},{s1},{s2}"),
            Format::Unary => write!(f, " {d},{s1}"),
            Format::I => write!(f, " {d},{s1},{imm}"),
            Format::Shift | Format::ShiftW => write!(f, " {d},{s1},{imm:#x}"),
            Format::Load => write!(f, " {d},{imm}({s1})"),
            Format::Store => write!(f, " {s2},{imm}({s1})"),
            Format::Branch => write!(f, " {s1},{s2},{:#x}", self.target()),
            Format::U => write!(f, " {d},{:#x}", imm as u32 >> 12),
            Format::J => write!(f, " {d},{:#x}", self.target()),
            Format::Fence => {
                write!(f, " {},{}", FenceSet(imm >> 4 & 15), FenceSet(imm & 15))
            }
            Format::Csr => write!(f, " {d},{},{s1}", csr_name(imm)),
            Format::CsrImm => write!(f, " {d},{},{}", csr_name(imm), i.rs1),
            Format::LoadReserved | Format::HLoad => write!(f, " {d},({s1})"),
            Format::Amo => write!(f, " {d},{s2},({s1})"),
            Format::HStore => write!(f, " {s2},({s1})"),
            Format::Vma => write!(f, " {s1},{s2}"),
            Format::Cbo => write!(f, " ({s1})"),
            Format::Prefetch => write!(f, " {imm}({s1})"),
            Format::FLoad => write!(f, " {fd},{imm}({s1})"),
            Format::FStore => write!(f, " {fs2},{imm}({s1})"),
            Format::F | Format::FRm => write!(f, " {fd},{fs1},{fs2}"),
            Format::F4Rm => write!(f, " {fd},{fs1},{fs2},{fs3}"),
            Format::FUnaryRm => write!(f, " {fd},{fs1}"),
            Format::FCompare => write!(f, " {d},{fs1},{fs2}"),
            Format::FToX | Format::FToXRm => write!(f, " {d},{fs1}"),
            Format::XToF | Format::XToFRm => write!(f, " {fd},{s1}"),
        }?;
        match RM_NAMES.get(usize::from(i.rm)) {
            Some(rm) if i.op.has_rm() && !is_always_exact(i.op) => write!(f, ",{rm}"),
            _ => Ok(()),
        }
    }
}

/// Conversions that never round: assemblers write no rounding mode for them.
fn is_always_exact(op: Op) -> bool {
    matches!(op, Op::FcvtDS | Op::FcvtDW | Op::FcvtDWu)
}

fn csr_name(imm: i32) -> String {
    csr::name((imm & 0xfff) as u16)
}

/// Predecessor or successor set of a `fence`.
struct FenceSet(i32);

impl Display for FenceSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("unknown");
        }
        for (bit, name) in [(8, "i"), (4, "o"), (2, "r"), (1, "w")] {
            if self.0 & bit != 0 {
                f.write_str(name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;

    #[test]
    fn short_forms_are_used_in_abi_style_only() {
        for (raw, abi, numeric) in [
            (0x0000_8067, "ret", "jalr x0,0(x1)"),
            (0x0000_0001, "nop", "addi x0,x0,0"),
            (0x0000_852e, "mv a0,a1", "add x10,x0,x11"),
            (0xfe05_0ee3, "beqz a0,0xffc", "beq x10,x0,0xffc"),
            (0x3005_1073, "csrw mstatus,a0", "csrrw x0,mstatus,x10"),
            (0xc010_2573, "csrr a0,time", "csrrs x10,time,x0"),
            (0x0ff0_000f, "fence", "fence iorw,iorw"),
            (0x1004_2e2f, "lr.w t3,(s0)", "lr.w x28,(x8)"),
            (0x02b5_7553, "fadd.d fa0,fa0,fa1", "fadd.d f10,f10,f11"),
            (
                0x02b5_1553,
                "fadd.d fa0,fa0,fa1,rtz",
                "fadd.d f10,f10,f11,rtz",
            ),
        ] {
            let inst = decode(raw);
            assert_eq!(disasm(inst, 0x1000), abi);
            assert_eq!(disasm_with(inst, 0x1000, Style::Numeric), numeric);
        }
    }
}
