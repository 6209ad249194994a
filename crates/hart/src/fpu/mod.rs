//! Floating-point computation of the F and D extensions (unprivileged specification, chapters
//! "F" and "D").
//!
//! Pure functions of register contents: registers, `frm` and `fflags` are read and written by the
//! interpreter. [`soft`] has the arithmetic; this file has the operations of the instruction set:
//! NaN boxing, canonical NaNs, comparisons, conversions.
//!
//! The arithmetic is written in integers because neither library that could do it fits: Berkeley
//! SoftFloat's bindings build on x86-64 Linux only and keep modes and flags in C globals, and
//! `rustc_apfloat` decides underflow by the rounded subnormal result, where RISC-V wants tininess
//! after rounding with unbounded exponent, and has no square root.

mod rounding;
mod soft;

pub use rounding::{Rounding, flag};

use soft::{Class, Double, Format, Integer, Single};
use trapless_isa::Op;

/// Computes a floating-point operation; gives the raw result and the flags it raises.
///
/// `a`, `b` and `c` are the contents of rs1, rs2 and rs3: 64 bits of a floating-point register, or
/// of an integer register for operations that take an integer. The result is what goes into rd:
/// NaN-boxed for single precision, sign-extended for 32-bit integers. `rm` does not matter to
/// operations without rounding.
///
/// # Panics
///
/// If `op` is not a computation of F or D: the caller dispatches on it.
pub fn execute(op: Op, a: u64, b: u64, c: u64, rm: Rounding) -> (u64, u8) {
    let mut flags = 0;
    let f = &mut flags;
    let sign_s = Single::SIGN;
    let sign_d = Double::SIGN;
    // Operands of single precision. Operations on integers and doubles ignore them.
    let (sa, sb, sc) = (unbox(a), unbox(b), unbox(c));
    let result = match op {
        Op::FaddS => boxed(soft::add::<Single>(sa, sb, rm, f)),
        Op::FsubS => boxed(soft::add::<Single>(sa, sb ^ sign_s, rm, f)),
        Op::FmulS => boxed(soft::mul::<Single>(sa, sb, rm, f)),
        Op::FdivS => boxed(soft::div::<Single>(sa, sb, rm, f)),
        Op::FsqrtS => boxed(soft::sqrt::<Single>(sa, rm, f)),
        Op::FmaddS => boxed(soft::mul_add::<Single>(sa, sb, sc, rm, f)),
        Op::FmsubS => boxed(soft::mul_add::<Single>(sa, sb, sc ^ sign_s, rm, f)),
        Op::FnmsubS => boxed(soft::mul_add::<Single>(sa ^ sign_s, sb, sc, rm, f)),
        Op::FnmaddS => boxed(soft::mul_add::<Single>(sa ^ sign_s, sb, sc ^ sign_s, rm, f)),
        Op::FaddD => soft::add::<Double>(a, b, rm, f),
        Op::FsubD => soft::add::<Double>(a, b ^ sign_d, rm, f),
        Op::FmulD => soft::mul::<Double>(a, b, rm, f),
        Op::FdivD => soft::div::<Double>(a, b, rm, f),
        Op::FsqrtD => soft::sqrt::<Double>(a, rm, f),
        Op::FmaddD => soft::mul_add::<Double>(a, b, c, rm, f),
        Op::FmsubD => soft::mul_add::<Double>(a, b, c ^ sign_d, rm, f),
        Op::FnmsubD => soft::mul_add::<Double>(a ^ sign_d, b, c, rm, f),
        Op::FnmaddD => soft::mul_add::<Double>(a ^ sign_d, b, c ^ sign_d, rm, f),

        Op::FsgnjS => boxed(sa & !sign_s | sb & sign_s),
        Op::FsgnjnS => boxed(sa & !sign_s | !sb & sign_s),
        Op::FsgnjxS => boxed(sa ^ sb & sign_s),
        Op::FminS => boxed(select::<Single>(sa, sb, false, f)),
        Op::FmaxS => boxed(select::<Single>(sa, sb, true, f)),
        Op::FeqS => compare::<Single>(sa, sb, Relation::Equal, f),
        Op::FltS => compare::<Single>(sa, sb, Relation::Less, f),
        Op::FleS => compare::<Single>(sa, sb, Relation::LessOrEqual, f),
        Op::FclassS => classify::<Single>(sa),
        Op::FsgnjD => a & !sign_d | b & sign_d,
        Op::FsgnjnD => a & !sign_d | !b & sign_d,
        Op::FsgnjxD => a ^ b & sign_d,
        Op::FminD => select::<Double>(a, b, false, f),
        Op::FmaxD => select::<Double>(a, b, true, f),
        Op::FeqD => compare::<Double>(a, b, Relation::Equal, f),
        Op::FltD => compare::<Double>(a, b, Relation::Less, f),
        Op::FleD => compare::<Double>(a, b, Relation::LessOrEqual, f),
        Op::FclassD => classify::<Double>(a),

        Op::FcvtWS => soft::to_integer::<Single>(sa, Integer::W, rm, f),
        Op::FcvtWuS => soft::to_integer::<Single>(sa, Integer::Wu, rm, f),
        Op::FcvtLS => soft::to_integer::<Single>(sa, Integer::L, rm, f),
        Op::FcvtLuS => soft::to_integer::<Single>(sa, Integer::Lu, rm, f),
        Op::FcvtWD => soft::to_integer::<Double>(a, Integer::W, rm, f),
        Op::FcvtWuD => soft::to_integer::<Double>(a, Integer::Wu, rm, f),
        Op::FcvtLD => soft::to_integer::<Double>(a, Integer::L, rm, f),
        Op::FcvtLuD => soft::to_integer::<Double>(a, Integer::Lu, rm, f),
        Op::FcvtSW => boxed(soft::from_integer::<Single>(a, Integer::W, rm, f)),
        Op::FcvtSWu => boxed(soft::from_integer::<Single>(a, Integer::Wu, rm, f)),
        Op::FcvtSL => boxed(soft::from_integer::<Single>(a, Integer::L, rm, f)),
        Op::FcvtSLu => boxed(soft::from_integer::<Single>(a, Integer::Lu, rm, f)),
        Op::FcvtDW => soft::from_integer::<Double>(a, Integer::W, rm, f),
        Op::FcvtDWu => soft::from_integer::<Double>(a, Integer::Wu, rm, f),
        Op::FcvtDL => soft::from_integer::<Double>(a, Integer::L, rm, f),
        Op::FcvtDLu => soft::from_integer::<Double>(a, Integer::Lu, rm, f),
        Op::FcvtSD => boxed(soft::convert::<Double, Single>(a, rm, f)),
        Op::FcvtDS => soft::convert::<Single, Double>(sa, rm, f),

        // Moves transfer bits: no check of the NaN box.
        Op::FmvXW => i64::from(a as i32) as u64,
        Op::FmvWX => boxed(a & 0xffff_ffff),
        Op::FmvXD | Op::FmvDX => a,
        _ => panic!("not a floating-point computation: {op:?}"),
    };
    (result, flags)
}

/// The upper half of a register that holds a single: all ones.
const BOX: u64 = 0xffff_ffff_0000_0000;

/// NaN-boxes a single.
fn boxed(single: u64) -> u64 {
    BOX | single
}

/// The single in a register; what is not NaN-boxed counts as the canonical NaN.
fn unbox(register: u64) -> u64 {
    if register & BOX == BOX {
        register & !BOX
    } else {
        Single::NAN
    }
}

/// `fmin` (`max` = false) and `fmax`: minimumNumber and maximumNumber of IEEE 754-2019, where
/// -0 < +0 and a number wins over a NaN.
fn select<F: Format>(a: u64, b: u64, max: bool, flags: &mut u8) -> u64 {
    let (ca, cb) = (soft::class::<F>(a), soft::class::<F>(b));
    if ca == Class::SignalingNan || cb == Class::SignalingNan {
        *flags |= flag::NV;
    }
    match (ca.is_nan(), cb.is_nan()) {
        (true, true) => F::NAN,
        (true, false) => b,
        (false, true) => a,
        (false, false) => {
            if (order::<F>(a) < order::<F>(b)) != max {
                a
            } else {
                b
            }
        }
    }
}

/// Key that orders numbers (not NaNs) as `-inf .. -0 < +0 .. +inf`.
fn order<F: Format>(bits: u64) -> i64 {
    let magnitude = (bits & !F::SIGN) as i64;
    if bits & F::SIGN != 0 {
        !magnitude
    } else {
        magnitude
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    Equal,
    Less,
    LessOrEqual,
}

/// `feq`, `flt`, `fle`: 1 if the relation holds. A quiet NaN is invalid except for equality.
fn compare<F: Format>(a: u64, b: u64, relation: Relation, flags: &mut u8) -> u64 {
    let (ca, cb) = (soft::class::<F>(a), soft::class::<F>(b));
    if ca.is_nan() || cb.is_nan() {
        let signaling = ca == Class::SignalingNan || cb == Class::SignalingNan;
        if signaling || relation != Relation::Equal {
            *flags |= flag::NV;
        }
        return 0;
    }
    let both_zero = (a | b) & !F::SIGN == 0;
    let (a, b) = (order::<F>(a), order::<F>(b));
    u64::from(match relation {
        Relation::Equal => a == b || both_zero,
        Relation::Less => a < b && !both_zero,
        Relation::LessOrEqual => a <= b || both_zero,
    })
}

/// `fclass`: one bit of ten.
fn classify<F: Format>(bits: u64) -> u64 {
    let negative = bits & F::SIGN != 0;
    let subnormal = bits & F::EXPONENT == 0;
    1 << match (soft::class::<F>(bits), negative) {
        (Class::Infinite, true) => 0,
        (Class::Finite, true) if !subnormal => 1,
        (Class::Finite, true) => 2,
        (Class::Zero, true) => 3,
        (Class::Zero, false) => 4,
        (Class::Finite, false) if subnormal => 5,
        (Class::Finite, false) => 6,
        (Class::Infinite, false) => 7,
        (Class::SignalingNan, _) => 8,
        (Class::QuietNan, _) => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_isa::Ext;

    #[test]
    fn results_and_flags_equal_recorded_vectors() {
        let mut count = 0;
        let lines = include_str!("vectors.txt")
            .lines()
            .filter(|line| !line.starts_with('#'));
        for line in lines {
            let mut fields = line.split(' ');
            let name = fields.next().unwrap();
            let op = *Op::ALL.iter().find(|op| op.mnemonic() == name).unwrap();
            let v: Vec<u64> = fields
                .map(|field| u64::from_str_radix(field, 16).unwrap())
                .collect();
            let [rm, a, b, c, result, flags] = v[..] else {
                panic!("{line}")
            };
            let rm = Rounding::from_bits(rm as u8).unwrap();
            assert_eq!(execute(op, a, b, c, rm), (result, flags as u8), "{line}");
            count += 1;
        }
        assert!(count > 800);
    }

    #[test]
    fn every_computation_has_vectors() {
        let vectors = include_str!("vectors.txt");
        for op in Op::ALL
            .iter()
            .filter(|op| matches!(op.extension(), Ext::F | Ext::D))
        {
            let is_memory = matches!(op, Op::Flw | Op::Fld | Op::Fsw | Op::Fsd);
            let has_vectors = vectors.contains(&format!("\n{} ", op.mnemonic()));
            assert!(is_memory || has_vectors, "{op:?}");
        }
    }

    #[test]
    fn tininess_is_detected_after_rounding_with_unbounded_exponent() {
        // 2^-126 - 2^-150 is tiny although the nearest single is the normal 2^-126.
        let tiny = (2f64.powi(-126) - 2f64.powi(-150)).to_bits();
        let result = execute(Op::FcvtSD, tiny, 0, 0, Rounding::Rne);
        assert_eq!(result, (boxed(0x0080_0000), flag::UF | flag::NX));
        // 2^-126 - 2^-151 rounds to 2^-126 at full precision already: inexact, not tiny.
        let not_tiny = (2f64.powi(-126) - 2f64.powi(-151)).to_bits();
        let result = execute(Op::FcvtSD, not_tiny, 0, 0, Rounding::Rne);
        assert_eq!(result, (boxed(0x0080_0000), flag::NX));
    }

    #[test]
    fn infinity_times_zero_plus_quiet_nan_is_invalid() {
        let result = execute(Op::FmaddD, Double::EXPONENT, 0, Double::NAN, Rounding::Rne);
        assert_eq!(result, (Double::NAN, flag::NV));
    }

    #[test]
    fn single_without_nan_box_is_canonical_nan_except_for_moves() {
        let unboxed = 1.0f32.to_bits().into();
        assert_eq!(
            execute(Op::FclassS, unboxed, 0, 0, Rounding::Rne),
            (1 << 9, 0)
        );
        assert_eq!(
            execute(Op::FmvXW, unboxed, 0, 0, Rounding::Rne),
            (unboxed, 0)
        );
    }
}
