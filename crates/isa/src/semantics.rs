//! Results of operations that depend only on registers, the immediate and the program counter
//! (unprivileged specification), defined once.
//!
//! The interpreter executes these, the compiler's tests compare its code with them, and generated
//! programs use these operations.

use crate::op_table::Op;

/// The table, passed to the macro `$with`: for each kind of operands, operations, the names of
/// their operands (`u64`; immediates are sign-extended), and the value of `rd`.
// A macro instead of a function, so that the interpreter has one match for everything: a call of
// `result` costs it a second jump per instruction.
#[macro_export]
macro_rules! semantics {
    ($with:ident) => {
        $with! {
            // rd = f(rs1, rs2)
            registers {
                // I
                Add |a, b| a.wrapping_add(b);
                Sub |a, b| a.wrapping_sub(b);
                Sll |a, b| a << (b & 63);
                Slt |a, b| u64::from((a as i64) < b as i64);
                Sltu |a, b| u64::from(a < b);
                Xor |a, b| a ^ b;
                Srl |a, b| a >> (b & 63);
                Sra |a, b| (a as i64 >> (b & 63)) as u64;
                Or |a, b| a | b;
                And |a, b| a & b;
                Addw |a, b| a.wrapping_add(b) as i32 as u64;
                Subw |a, b| a.wrapping_sub(b) as i32 as u64;
                Sllw |a, b| (a << (b & 31)) as i32 as u64;
                Srlw |a, b| (a as u32 >> (b & 31)) as i32 as u64;
                Sraw |a, b| (a as i32 >> (b & 31)) as u64;

                // M
                Mul |a, b| a.wrapping_mul(b);
                Mulh |a, b| ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64;
                Mulhsu |a, b| ((i128::from(a as i64) * i128::from(b)) >> 64) as u64;
                Mulhu |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64;
                Div |a, b| if b == 0 { u64::MAX } else { (a as i64).wrapping_div(b as i64) as u64 };
                Divu |a, b| a.checked_div(b).unwrap_or(u64::MAX);
                Rem |a, b| if b == 0 { a } else { (a as i64).wrapping_rem(b as i64) as u64 };
                Remu |a, b| a.checked_rem(b).unwrap_or(a);
                Mulw |a, b| a.wrapping_mul(b) as i32 as u64;
                Divw |a, b| {
                    let (a, b) = (a as i32, b as i32);
                    (if b == 0 { -1 } else { a.wrapping_div(b) }) as u64
                };
                Divuw |a, b| (a as u32).checked_div(b as u32).unwrap_or(u32::MAX) as i32 as u64;
                Remw |a, b| {
                    let (a, b) = (a as i32, b as i32);
                    (if b == 0 { a } else { a.wrapping_rem(b) }) as u64
                };
                Remuw |a, b| (a as u32).checked_rem(b as u32).unwrap_or(a as u32) as i32 as u64;

                // Zba
                AddUw |a, b| (a & 0xFFFF_FFFF).wrapping_add(b);
                Sh1add |a, b| (a << 1).wrapping_add(b);
                Sh2add |a, b| (a << 2).wrapping_add(b);
                Sh3add |a, b| (a << 3).wrapping_add(b);
                Sh1addUw |a, b| ((a & 0xFFFF_FFFF) << 1).wrapping_add(b);
                Sh2addUw |a, b| ((a & 0xFFFF_FFFF) << 2).wrapping_add(b);
                Sh3addUw |a, b| ((a & 0xFFFF_FFFF) << 3).wrapping_add(b);

                // Zbb
                Andn |a, b| a & !b;
                Orn |a, b| a | !b;
                Xnor |a, b| !(a ^ b);
                Min |a, b| (a as i64).min(b as i64) as u64;
                Minu |a, b| a.min(b);
                Max |a, b| (a as i64).max(b as i64) as u64;
                Maxu |a, b| a.max(b);
                Rol |a, b| a.rotate_left((b & 63) as u32);
                Ror |a, b| a.rotate_right((b & 63) as u32);
                Rolw |a, b| (a as u32).rotate_left((b & 31) as u32) as i32 as u64;
                Rorw |a, b| (a as u32).rotate_right((b & 31) as u32) as i32 as u64;

                // Zbs
                Bclr |a, b| a & !(1 << (b & 63));
                Bext |a, b| a >> (b & 63) & 1;
                Binv |a, b| a ^ 1 << (b & 63);
                Bset |a, b| a | 1 << (b & 63);

                // Zicond
                CzeroEqz |a, b| if b == 0 { 0 } else { a };
                CzeroNez |a, b| if b != 0 { 0 } else { a };
            }
            // rd = f(rs1)
            register {
                // Zbb
                Clz |a| a.leading_zeros().into();
                Ctz |a| a.trailing_zeros().into();
                Cpop |a| a.count_ones().into();
                SextB |a| a as i8 as u64;
                SextH |a| a as i16 as u64;
                ZextH |a| a & 0xFFFF;
                Clzw |a| (a as u32).leading_zeros().into();
                Ctzw |a| (a as u32).trailing_zeros().into();
                Cpopw |a| (a as u32).count_ones().into();
                // Bytes other than 0 become 0xFF.
                OrcB |a| u64::from_le_bytes(a.to_le_bytes().map(|b| if b == 0 { 0 } else { !0 }));
                Rev8 |a| a.swap_bytes();
            }
            // rd = f(rs1, immediate)
            immediate {
                // I
                Addi |a, imm| a.wrapping_add(imm);
                Slti |a, imm| u64::from((a as i64) < imm as i64);
                Sltiu |a, imm| u64::from(a < imm);
                Xori |a, imm| a ^ imm;
                Ori |a, imm| a | imm;
                Andi |a, imm| a & imm;
                Slli |a, imm| a << (imm & 63);
                Srli |a, imm| a >> (imm & 63);
                Srai |a, imm| (a as i64 >> (imm & 63)) as u64;
                Addiw |a, imm| a.wrapping_add(imm) as i32 as u64;
                Slliw |a, imm| (a << (imm & 31)) as i32 as u64;
                Srliw |a, imm| (a as u32 >> (imm & 31)) as i32 as u64;
                Sraiw |a, imm| (a as i32 >> (imm & 31)) as u64;

                // Zba
                SlliUw |a, imm| (a & 0xFFFF_FFFF) << (imm & 63);

                // Zbb
                Rori |a, imm| a.rotate_right((imm & 63) as u32);
                Roriw |a, imm| (a as u32).rotate_right((imm & 31) as u32) as i32 as u64;

                // Zbs
                Bclri |a, imm| a & !(1 << (imm & 63));
                Bexti |a, imm| a >> (imm & 63) & 1;
                Binvi |a, imm| a ^ 1 << (imm & 63);
                Bseti |a, imm| a | 1 << (imm & 63);
            }
            // rd = f(pc, immediate)
            upper {
                Lui |_pc, imm| imm;
                Auipc |pc, imm| pc.wrapping_add(imm);
            }
        }
    };
}

macro_rules! define {
    (
        registers { $($r:ident |$ra:ident, $rb:ident| $rv:expr;)+ }
        register { $($u:ident |$ua:ident| $uv:expr;)+ }
        immediate { $($i:ident |$ia:ident, $ib:ident| $iv:expr;)+ }
        upper { $($p:ident |$pa:ident, $pb:ident| $pv:expr;)+ }
    ) => {
        /// The value of `rd`, for `rs1` = `a`, `rs2` = `b`, and the sign-extended immediate; `None`
        /// if the operation does not only compute a value.
        pub fn result(op: Op, a: u64, b: u64, imm: u64, pc: u64) -> Option<u64> {
            Some(match op {
                $(Op::$r => { let ($ra, $rb) = (a, b); $rv })+
                $(Op::$u => { let $ua = a; $uv })+
                $(Op::$i => { let ($ia, $ib) = (a, imm); $iv })+
                $(Op::$p => { let ($pa, $pb) = (pc, imm); $pv })+
                _ => return None,
            })
        }

        /// Whether it only computes a value, see [`result`].
        pub const fn computes(op: Op) -> bool {
            matches!(op, $(Op::$r)|+ $(| Op::$u)+ $(| Op::$i)+ $(| Op::$p)+)
        }
    };
}

semantics!(define);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op_class::{CostClass, Format};

    /// Promise: what the table of operations describes as arithmetic on integer registers has a
    /// meaning here.
    #[test]
    fn every_integer_operation_is_here() {
        for op in Op::ALL {
            let integer = matches!(
                op.class(),
                CostClass::Simple | CostClass::Mul | CostClass::Div
            );
            assert_eq!(computes(*op), integer, "{op:?}");
            assert_eq!(result(*op, 1, 1, 1, 1).is_some(), integer, "{op:?}");
        }
    }

    /// Promise: operands are those that the table's format says.
    #[test]
    fn formats_say_what_is_read() {
        let of = |op, a, b, imm, pc| result(op, a, b, imm, pc);
        for &op in Op::ALL.iter().filter(|op| computes(**op)) {
            let (mut reads_rs1, mut reads_rs2, mut reads_imm) = (false, false, false);
            for (a, b, imm) in [(5, 3, 2), (0x8000_0081, 1, 1), (u64::MAX - 9, 0, 7)] {
                for other in [0, 1, 6, 40, u64::MAX, 1 << 63] {
                    let usual = of(op, a, b, imm, 0);
                    reads_rs1 |= usual != of(op, other, b, imm, 0);
                    reads_rs2 |= usual != of(op, a, other, imm, 0);
                    reads_imm |= usual != of(op, a, b, other, 0);
                }
            }
            let expected = match op.format() {
                Format::R => (true, true, false),
                Format::Unary => (true, false, false),
                Format::I | Format::Shift | Format::ShiftW => (true, false, true),
                Format::U => (false, false, true),
                other => panic!("{op:?} has format {other:?}"),
            };
            assert_eq!((reads_rs1, reads_rs2, reads_imm), expected, "{op:?}");
        }
    }

    #[test]
    fn divisions_have_no_exceptions() {
        let of = |op, a, b| result(op, a, b, 0, 0).unwrap();
        let least = i64::MIN as u64;
        assert_eq!(of(Op::Div, 7, 0), u64::MAX);
        assert_eq!(of(Op::Div, least, u64::MAX), least);
        assert_eq!(of(Op::Rem, least, u64::MAX), 0);
        assert_eq!(of(Op::Remu, 7, 0), 7);
        assert_eq!(of(Op::Divuw, 0x1_0000_0007, 0), u64::MAX);
        assert_eq!(of(Op::Remuw, 0xFFFF_FFFF, 0), u64::MAX);
        assert_eq!(
            of(Op::Divw, 0x8000_0000, u64::MAX),
            i64::from(i32::MIN) as u64
        );
    }
}
