//! IEEE 754 arithmetic on bit patterns, in integers.
//!
//! A finite number is taken apart into sign, exponent and a significand whose leading one is at a
//! fixed place; an operation computes enough bits of the exact result, with everything below them
//! folded into the lowest bit ("sticky"); [`round`] makes the result from it. So each operation
//! rounds once and in one place.

use super::rounding::{Rounding, flag};

/// A binary interchange format.
pub(super) trait Format {
    /// Bits of the fraction.
    const FRACTION_BITS: u32;
    /// Bits of the exponent.
    const EXPONENT_BITS: u32;

    /// The sign bit.
    const SIGN: u64 = 1 << (Self::FRACTION_BITS + Self::EXPONENT_BITS);
    /// The fraction field.
    const FRACTION: u64 = (1 << Self::FRACTION_BITS) - 1;
    /// The exponent field; alone it is +infinity.
    const EXPONENT: u64 = Self::SIGN - 1 - Self::FRACTION;
    /// The canonical NaN: positive, quiet, no payload.
    const NAN: u64 = Self::EXPONENT | Self::QUIET;
    /// The fraction bit that makes a NaN quiet.
    const QUIET: u64 = 1 << (Self::FRACTION_BITS - 1);
    /// Bias of the exponent, which is also the greatest exponent.
    const BIAS: i32 = (1 << (Self::EXPONENT_BITS - 1)) - 1;
}

/// binary32, in the low half of a `u64`.
pub(super) enum Single {}

impl Format for Single {
    const FRACTION_BITS: u32 = 23;
    const EXPONENT_BITS: u32 = 8;
}

/// binary64.
pub(super) enum Double {}

impl Format for Double {
    const FRACTION_BITS: u32 = 52;
    const EXPONENT_BITS: u32 = 11;
}

/// An integer type that numbers are converted to and from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Integer {
    W,
    Wu,
    L,
    Lu,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Zero,
    /// Finite and not zero.
    Finite,
    Infinite,
    QuietNan,
    SignalingNan,
}

impl Class {
    pub(super) fn is_nan(self) -> bool {
        matches!(self, Class::QuietNan | Class::SignalingNan)
    }
}

pub(super) fn class<F: Format>(bits: u64) -> Class {
    let magnitude = bits & !F::SIGN;
    if magnitude == 0 {
        Class::Zero
    } else if magnitude < F::EXPONENT {
        Class::Finite
    } else if magnitude == F::EXPONENT {
        Class::Infinite
    } else if magnitude & F::QUIET != 0 {
        Class::QuietNan
    } else {
        Class::SignalingNan
    }
}

/// A number taken apart. Of a finite one the magnitude is `significand * 2^(exponent - 63)`, with
/// bit 63 of the significand set; otherwise both are without meaning.
#[derive(Clone, Copy)]
struct Parts {
    class: Class,
    negative: bool,
    exponent: i32,
    significand: u64,
}

fn unpack<F: Format>(bits: u64) -> Parts {
    let fraction = bits & F::FRACTION;
    let biased = ((bits & F::EXPONENT) >> F::FRACTION_BITS) as i32;
    let align = 63 - F::FRACTION_BITS;
    let (exponent, significand) = if biased != 0 {
        (
            biased - F::BIAS,
            (fraction | 1 << F::FRACTION_BITS) << align,
        )
    } else {
        let shift = (fraction << align).leading_zeros();
        // Zero has no leading one; its fields are not used.
        (
            1 - F::BIAS - shift as i32,
            (fraction << align).checked_shl(shift).unwrap_or(0),
        )
    };
    Parts {
        class: class::<F>(bits),
        negative: bits & F::SIGN != 0,
        exponent,
        significand,
    }
}

fn with_sign<F: Format>(negative: bool, magnitude: u64) -> u64 {
    if negative {
        magnitude | F::SIGN
    } else {
        magnitude
    }
}

/// Raises invalid operation; gives the canonical NaN.
fn invalid<F: Format>(flags: &mut u8) -> u64 {
    *flags |= flag::NV;
    F::NAN
}

/// Result of an operation with a NaN among its operands.
fn nan<F: Format>(operands: &[Parts], flags: &mut u8) -> u64 {
    if operands.iter().any(|p| p.class == Class::SignalingNan) {
        *flags |= flag::NV;
    }
    F::NAN
}

/// Sign of an exact zero that is the sum of numbers of opposite signs.
fn zero_is_negative(rm: Rounding) -> bool {
    rm == Rounding::Rdn
}

/// Right shift that keeps bits shifted out as sticky bit 0.
fn shift_right_sticky(value: u128, shift: u32) -> u128 {
    match value.checked_shr(shift) {
        Some(kept) => kept | u128::from(kept << shift != value),
        None => u128::from(value != 0),
    }
}

/// The upper 64 bits, with the lower ones as sticky bit 0.
fn fold(value: u128) -> u64 {
    (value >> 64) as u64 | u64::from(value as u64 != 0)
}

/// Whether a magnitude is rounded up: `rest` is what is cut off and `half` the half of the last
/// place, `odd` says whether the last bit kept is 1.
fn rounds_up(rm: Rounding, negative: bool, odd: bool, rest: u64, half: u64) -> bool {
    match rm {
        Rounding::Rne => rest > half || rest == half && odd,
        Rounding::Rtz => false,
        Rounding::Rdn => negative && rest != 0,
        Rounding::Rup => !negative && rest != 0,
        Rounding::Rmm => rest >= half,
    }
}

/// Cuts `significand` to the precision of `F` (plus one bit in front if it carries); tells whether
/// that was inexact.
fn cut<F: Format>(negative: bool, significand: u64, rm: Rounding) -> (u64, bool) {
    let extra = 63 - F::FRACTION_BITS;
    let kept = significand >> extra;
    let rest = significand & ((1 << extra) - 1);
    let up = rounds_up(rm, negative, kept & 1 == 1, rest, 1 << (extra - 1));
    (kept + u64::from(up), rest != 0)
}

/// Rounds `significand * 2^(exponent - 63)`; bit 63 of the significand is set, bit 0 is sticky.
fn round<F: Format>(
    negative: bool,
    exponent: i32,
    significand: u64,
    rm: Rounding,
    flags: &mut u8,
) -> u64 {
    let least = 1 - F::BIAS;
    let carry = 1 << (F::FRACTION_BITS + 1);
    let (kept, inexact) = cut::<F>(negative, significand, rm);
    if exponent < least {
        // Tiny means less than the least normal number after rounding as if the exponent had no
        // bound (chapter "F", "tininess is detected after rounding").
        let tiny = exponent < least - 1 || kept != carry;
        let shift = (least - exponent) as u32;
        let shifted = shift_right_sticky(u128::from(significand) << 64, shift);
        let (kept, inexact) = cut::<F>(negative, fold(shifted), rm);
        if inexact {
            *flags |= flag::NX | if tiny { flag::UF } else { 0 };
        }
        // If it became the least normal number, the leading one is already the exponent field.
        return with_sign::<F>(negative, kept);
    }
    let (exponent, kept) = if kept == carry {
        (exponent + 1, kept >> 1)
    } else {
        (exponent, kept)
    };
    if exponent > F::BIAS {
        *flags |= flag::OF | flag::NX;
        let to_infinity = match rm {
            Rounding::Rne | Rounding::Rmm => true,
            Rounding::Rtz => false,
            Rounding::Rdn => negative,
            Rounding::Rup => !negative,
        };
        return with_sign::<F>(negative, F::EXPONENT - u64::from(!to_infinity));
    }
    if inexact {
        *flags |= flag::NX;
    }
    let biased = (exponent + F::BIAS) as u64;
    with_sign::<F>(negative, biased << F::FRACTION_BITS | kept & F::FRACTION)
}

/// As [`round`] for a significand of 128 bits with any leading one; `exponent` is that of bit 126.
fn round_wide<F: Format>(
    negative: bool,
    exponent: i32,
    significand: u128,
    rm: Rounding,
    flags: &mut u8,
) -> u64 {
    let shift = significand.leading_zeros();
    let exponent = exponent + 1 - shift as i32;
    round::<F>(negative, exponent, fold(significand << shift), rm, flags)
}

/// A finite non-zero addend: its leading one is bit 126, and at least 20 bits below are zero, so
/// that sums are exact wherever leading ones can cancel.
#[derive(Clone, Copy)]
struct Addend {
    negative: bool,
    exponent: i32,
    significand: u128,
}

impl Addend {
    fn new(p: Parts) -> Self {
        Self {
            negative: p.negative,
            exponent: p.exponent,
            significand: u128::from(p.significand) << 63,
        }
    }

    fn product(a: Parts, b: Parts) -> Self {
        let product = u128::from(a.significand) * u128::from(b.significand);
        // Leading one at bit 126 or 127; bit 0 is zero, both factors being of at most 53 bits.
        let carry = (product >> 127) as u32;
        Self {
            negative: a.negative != b.negative,
            exponent: a.exponent + b.exponent + carry as i32,
            significand: product >> carry,
        }
    }
}

fn add_finite<F: Format>(a: Addend, b: Addend, rm: Rounding, flags: &mut u8) -> u64 {
    let (large, small) = if (a.exponent, a.significand) >= (b.exponent, b.significand) {
        (a, b)
    } else {
        (b, a)
    };
    let distance = (large.exponent - small.exponent) as u32;
    let aligned = shift_right_sticky(small.significand, distance);
    let sum = if large.negative == small.negative {
        large.significand + aligned
    } else {
        large.significand - aligned
    };
    if sum == 0 {
        return with_sign::<F>(zero_is_negative(rm), 0);
    }
    round_wide::<F>(large.negative, large.exponent, sum, rm, flags)
}

/// `a + b`.
pub(super) fn add<F: Format>(a: u64, b: u64, rm: Rounding, flags: &mut u8) -> u64 {
    let (pa, pb) = (unpack::<F>(a), unpack::<F>(b));
    match (pa.class, pb.class) {
        (Class::Finite, Class::Finite) => {
            add_finite::<F>(Addend::new(pa), Addend::new(pb), rm, flags)
        }
        (x, y) if x.is_nan() || y.is_nan() => nan::<F>(&[pa, pb], flags),
        (Class::Infinite, Class::Infinite) if pa.negative != pb.negative => invalid::<F>(flags),
        (Class::Infinite, _) => a,
        (_, Class::Infinite) => b,
        (Class::Zero, Class::Zero) if pa.negative == pb.negative => a,
        (Class::Zero, Class::Zero) => with_sign::<F>(zero_is_negative(rm), 0),
        (Class::Zero, _) => b,
        _ => a,
    }
}

/// `a * b`.
pub(super) fn mul<F: Format>(a: u64, b: u64, rm: Rounding, flags: &mut u8) -> u64 {
    let (pa, pb) = (unpack::<F>(a), unpack::<F>(b));
    let negative = pa.negative != pb.negative;
    match (pa.class, pb.class) {
        (Class::Finite, Class::Finite) => {
            let p = Addend::product(pa, pb);
            round_wide::<F>(p.negative, p.exponent, p.significand, rm, flags)
        }
        (x, y) if x.is_nan() || y.is_nan() => nan::<F>(&[pa, pb], flags),
        (Class::Infinite, Class::Zero) | (Class::Zero, Class::Infinite) => invalid::<F>(flags),
        (Class::Infinite, _) | (_, Class::Infinite) => with_sign::<F>(negative, F::EXPONENT),
        _ => with_sign::<F>(negative, 0),
    }
}

/// `a * b + c`, rounded once.
pub(super) fn mul_add<F: Format>(a: u64, b: u64, c: u64, rm: Rounding, flags: &mut u8) -> u64 {
    let (pa, pb, pc) = (unpack::<F>(a), unpack::<F>(b), unpack::<F>(c));
    if matches!(
        (pa.class, pb.class),
        (Class::Infinite, Class::Zero) | (Class::Zero, Class::Infinite)
    ) {
        // Invalid even if c is a quiet NaN.
        return invalid::<F>(flags);
    }
    if pa.class.is_nan() || pb.class.is_nan() || pc.class.is_nan() {
        return nan::<F>(&[pa, pb, pc], flags);
    }
    let negative = pa.negative != pb.negative;
    if pa.class == Class::Infinite || pb.class == Class::Infinite {
        return if pc.class == Class::Infinite && pc.negative != negative {
            invalid::<F>(flags)
        } else {
            with_sign::<F>(negative, F::EXPONENT)
        };
    }
    if pc.class == Class::Infinite {
        return c;
    }
    if pa.class == Class::Zero || pb.class == Class::Zero {
        return add::<F>(with_sign::<F>(negative, 0), c, rm, flags);
    }
    let product = Addend::product(pa, pb);
    if pc.class == Class::Zero {
        return round_wide::<F>(negative, product.exponent, product.significand, rm, flags);
    }
    add_finite::<F>(product, Addend::new(pc), rm, flags)
}

/// `a / b`.
pub(super) fn div<F: Format>(a: u64, b: u64, rm: Rounding, flags: &mut u8) -> u64 {
    let (pa, pb) = (unpack::<F>(a), unpack::<F>(b));
    let negative = pa.negative != pb.negative;
    match (pa.class, pb.class) {
        (Class::Finite, Class::Finite) => {
            // Scale the dividend such that the quotient has exactly 64 bits.
            let less = pa.significand < pb.significand;
            let dividend = u128::from(pa.significand) << if less { 64 } else { 63 };
            let divisor = u128::from(pb.significand);
            let sticky = u64::from(dividend % divisor != 0);
            let quotient = (dividend / divisor) as u64 | sticky;
            let exponent = pa.exponent - pb.exponent - i32::from(less);
            round::<F>(negative, exponent, quotient, rm, flags)
        }
        (x, y) if x.is_nan() || y.is_nan() => nan::<F>(&[pa, pb], flags),
        (Class::Zero, Class::Zero) | (Class::Infinite, Class::Infinite) => invalid::<F>(flags),
        (Class::Infinite, _) => with_sign::<F>(negative, F::EXPONENT),
        (_, Class::Zero) => {
            *flags |= flag::DZ;
            with_sign::<F>(negative, F::EXPONENT)
        }
        _ => with_sign::<F>(negative, 0),
    }
}

/// Square root.
pub(super) fn sqrt<F: Format>(a: u64, rm: Rounding, flags: &mut u8) -> u64 {
    let p = unpack::<F>(a);
    match p.class {
        Class::Zero => a,
        _ if p.class.is_nan() => nan::<F>(&[p], flags),
        _ if p.negative => invalid::<F>(flags),
        Class::Infinite => a,
        _ => {
            // Scale by an even power of two such that the root has exactly 64 bits.
            let radicand = u128::from(p.significand) << (63 + (p.exponent & 1));
            let root = radicand.isqrt();
            let sticky = u64::from(root * root != radicand);
            round::<F>(false, p.exponent >> 1, root as u64 | sticky, rm, flags)
        }
    }
}

/// Conversion between formats.
pub(super) fn convert<From: Format, To: Format>(a: u64, rm: Rounding, flags: &mut u8) -> u64 {
    let p = unpack::<From>(a);
    match p.class {
        Class::Finite => round::<To>(p.negative, p.exponent, p.significand, rm, flags),
        Class::Zero => with_sign::<To>(p.negative, 0),
        Class::Infinite => with_sign::<To>(p.negative, To::EXPONENT),
        _ => nan::<To>(&[p], flags),
    }
}

/// Conversion from an integer register.
pub(super) fn from_integer<F: Format>(
    register: u64,
    integer: Integer,
    rm: Rounding,
    flags: &mut u8,
) -> u64 {
    let (negative, magnitude) = match integer {
        Integer::W => (
            (register as i32) < 0,
            u64::from((register as i32).unsigned_abs()),
        ),
        Integer::Wu => (false, register & 0xffff_ffff),
        Integer::L => ((register as i64) < 0, (register as i64).unsigned_abs()),
        Integer::Lu => (false, register),
    };
    if magnitude == 0 {
        return 0;
    }
    let shift = magnitude.leading_zeros();
    round::<F>(negative, 63 - shift as i32, magnitude << shift, rm, flags)
}

/// Conversion to an integer register. What does not fit is invalid and gives the nearest integer
/// that does; NaN counts as +infinity.
pub(super) fn to_integer<F: Format>(a: u64, integer: Integer, rm: Rounding, flags: &mut u8) -> u64 {
    // Least and greatest value as magnitudes of a negative and a positive number.
    let (least, greatest): (u64, u64) = match integer {
        Integer::W => (1 << 31, i32::MAX as u64),
        Integer::Wu => (0, u32::MAX.into()),
        Integer::L => (1 << 63, i64::MAX as u64),
        Integer::Lu => (0, u64::MAX),
    };
    let p = unpack::<F>(a);
    let negative = p.negative && !p.class.is_nan();
    let limit = if negative { least } else { greatest };

    // Magnitude rounded to an integer, `None` if above 64 bits.
    let (rounded, inexact) = match p.class {
        Class::Zero => (Some(0), false),
        Class::Finite if p.exponent < 64 => {
            // Integer part in the upper half, fraction in the lower.
            let fixed =
                shift_right_sticky(u128::from(p.significand) << 64, (63 - p.exponent) as u32);
            let (whole, rest) = ((fixed >> 64) as u64, fixed as u64);
            let up = rounds_up(rm, negative, whole & 1 == 1, rest, 1 << 63);
            (whole.checked_add(u64::from(up)), rest != 0)
        }
        _ => (None, false),
    };
    let magnitude = match rounded {
        Some(magnitude) if magnitude <= limit => {
            if inexact {
                *flags |= flag::NX;
            }
            magnitude
        }
        _ => {
            *flags |= flag::NV;
            limit
        }
    };
    let value = if negative {
        magnitude.wrapping_neg()
    } else {
        magnitude
    };
    match integer {
        Integer::W | Integer::Wu => i64::from(value as i32) as u64,
        Integer::L | Integer::Lu => value,
    }
}
