//! Division, high multiplication, and the less frequent of Zba, Zbb, Zbs and Zicond.

use trapless_isa::inst::{Inst, Op};

use super::integer::sext32;
use crate::hart::Hart;

fn div(a: i64, b: i64) -> i64 {
    if b == 0 { -1 } else { a.wrapping_div(b) }
}

fn rem(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { a.wrapping_rem(b) }
}

fn orc_b(v: u64) -> u64 {
    u64::from_le_bytes(v.to_le_bytes().map(|b| if b != 0 { 0xFF } else { 0 }))
}

impl Hart {
    pub(super) fn exec_bits(&mut self, inst: &Inst) {
        let a = self.state.x[usize::from(inst.rs1 & 63)];
        let b = self.state.x[usize::from(inst.rs2 & 63)];
        let (sa, sb) = (a as i64, b as i64);
        let (wa, wb) = (a as i32, b as i32);
        let shift = inst.imm as u32;
        let value = match inst.op {
            Op::Mulh => ((i128::from(sa) * i128::from(sb)) >> 64) as u64,
            Op::Mulhsu => ((i128::from(sa) * i128::from(b)) >> 64) as u64,
            Op::Div => div(sa, sb) as u64,
            Op::Divu => a.checked_div(b).unwrap_or(u64::MAX),
            Op::Rem => rem(sa, sb) as u64,
            Op::Remu => a.checked_rem(b).unwrap_or(a),
            Op::Divw => sext32(div(wa.into(), wb.into()) as u64),
            Op::Divuw => sext32((a as u32).checked_div(b as u32).unwrap_or(u32::MAX).into()),
            Op::Remw => sext32(rem(wa.into(), wb.into()) as u64),
            Op::Remuw => sext32((a as u32).checked_rem(b as u32).unwrap_or(a as u32).into()),

            Op::Sh1addUw => ((a & 0xFFFF_FFFF) << 1).wrapping_add(b),
            Op::Sh2addUw => ((a & 0xFFFF_FFFF) << 2).wrapping_add(b),
            Op::Sh3addUw => ((a & 0xFFFF_FFFF) << 3).wrapping_add(b),
            Op::SlliUw => (a & 0xFFFF_FFFF) << (shift & 63),

            Op::Andn => a & !b,
            Op::Orn => a | !b,
            Op::Xnor => !(a ^ b),
            Op::Clz => a.leading_zeros().into(),
            Op::Ctz => a.trailing_zeros().into(),
            Op::Cpop => a.count_ones().into(),
            Op::Clzw => (a as u32).leading_zeros().into(),
            Op::Ctzw => (a as u32).trailing_zeros().into(),
            Op::Cpopw => (a as u32).count_ones().into(),
            Op::SextB => a as i8 as u64,
            Op::SextH => a as i16 as u64,
            Op::OrcB => orc_b(a),
            Op::Rev8 => a.swap_bytes(),
            Op::Min => sa.min(sb) as u64,
            Op::Minu => a.min(b),
            Op::Max => sa.max(sb) as u64,
            Op::Maxu => a.max(b),
            Op::Rol => a.rotate_left(b as u32 & 63),
            Op::Ror => a.rotate_right(b as u32 & 63),
            Op::Rori => a.rotate_right(shift & 63),
            Op::Rolw => sext32((a as u32).rotate_left(b as u32 & 31).into()),
            Op::Rorw => sext32((a as u32).rotate_right(b as u32 & 31).into()),
            Op::Roriw => sext32((a as u32).rotate_right(shift & 31).into()),

            Op::Bclr => a & !(1 << (b & 63)),
            Op::Bclri => a & !(1 << (shift & 63)),
            Op::Bext => a >> (b & 63) & 1,
            Op::Bexti => a >> (shift & 63) & 1,
            Op::Binv => a ^ 1 << (b & 63),
            Op::Binvi => a ^ 1 << (shift & 63),
            Op::Bset => a | 1 << (b & 63),
            Op::Bseti => a | 1 << (shift & 63),

            Op::CzeroEqz => {
                if b == 0 {
                    0
                } else {
                    a
                }
            }
            Op::CzeroNez => {
                if b != 0 {
                    0
                } else {
                    a
                }
            }
            other => unreachable!("{other:?} is executed elsewhere"),
        };
        self.state.x[usize::from(inst.rd & 63)] = value;
    }
}
