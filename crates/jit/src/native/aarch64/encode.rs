//! Encodings of instructions whose operands are known only at run time: constants of any size,
//! offsets, and jumps to addresses, which the assembler's macro does not have for this host.

use std::ops::{Deref, DerefMut};

use dynasmrt::aarch64::{Aarch64Relocation, encode_logical_immediate_64bit};
use dynasmrt::{DynasmApi, VecAssembler};

use super::regs::{Host, X17, ZERO};
use crate::native::compile::assembler;

/// Assembles code for an address.
pub(super) struct Assembler {
    ops: VecAssembler<Aarch64Relocation>,
    base: usize,
}

impl Assembler {
    /// For code that will be at address `base`.
    pub fn new(base: usize) -> Self {
        Self {
            ops: VecAssembler::new(base),
            base,
        }
    }

    /// The same, for so many blocks.
    pub fn for_blocks(base: usize, blocks: usize) -> Self {
        Self {
            ops: assembler(base, blocks),
            base,
        }
    }

    /// The code; `None` if a jump does not reach its label.
    pub fn finalize(self) -> Option<Vec<u8>> {
        self.ops.finalize().ok()
    }

    /// Address of the next instruction.
    pub fn here(&self) -> usize {
        self.base + self.ops.offset().0
    }

    /// Distance in words to code at `to`, in the 26 bits of a jump: all code is in reach.
    fn words_to(&self, to: usize) -> u32 {
        let distance = to.wrapping_sub(self.here()) as isize;
        assert!((-1 << 27..1 << 27).contains(&distance), "{distance}");
        (distance >> 2) as u32 & ((1 << 26) - 1)
    }

    /// `b`.
    pub fn jump(&mut self, to: usize) {
        let words = self.words_to(to);
        self.push_u32(0x1400_0000 | words);
    }

    /// `bl`.
    pub fn call(&mut self, to: usize) {
        let words = self.words_to(to);
        self.push_u32(0x9400_0000 | words);
    }

    /// `ldr to, [at]`, for an address less than 4 GiB away.
    pub fn load_from(&mut self, to: Host, at: usize) {
        let pages = (at >> 12).wrapping_sub(self.here() >> 12) as u32;
        let (low, high) = (pages & 3, pages >> 2 & 0x7_FFFF);
        // adrp
        self.push_u32(0x9000_0000 | low << 29 | high << 5 | u32::from(to.0));
        memory(self, LOAD_64, to, to, at as u32 & 0xFFF);
    }
}

/// The assembler's macro calls methods of what assembles.
impl Deref for Assembler {
    type Target = VecAssembler<Aarch64Relocation>;

    fn deref(&self) -> &Self::Target {
        &self.ops
    }
}

impl DerefMut for Assembler {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.ops
    }
}

/// A load or store, or its register: size of the access, kind, and whether it moves a
/// floating-point register.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Binary logarithm of the bytes.
    size: u32,
    /// Field `opc`.
    kind: u32,
    float: bool,
}

const fn form(size: u32, kind: u32) -> Form {
    Form {
        size,
        kind,
        float: false,
    }
}

/// Loads of so many bits, with `S` if the sign is extended.
pub(super) const LOAD_64: Form = form(3, 1);
pub(super) const LOAD_32: Form = form(2, 1);
pub(super) const LOAD_S32: Form = form(2, 2);
pub(super) const LOAD_16: Form = form(1, 1);
pub(super) const LOAD_S16: Form = form(1, 2);
pub(super) const LOAD_8: Form = form(0, 1);
pub(super) const LOAD_S8: Form = form(0, 2);
pub(super) const STORE_64: Form = form(3, 0);
pub(super) const STORE_32: Form = form(2, 0);
pub(super) const STORE_16: Form = form(1, 0);
pub(super) const STORE_8: Form = form(0, 0);

impl Form {
    /// The bits that all addressing modes share, and the register.
    fn bits(self, register: Host) -> u32 {
        self.size << 30 | u32::from(self.float) << 26 | self.kind << 22 | u32::from(register.0)
    }

    /// The same of a floating-point register.
    pub const fn float(self) -> Self {
        Self {
            float: true,
            ..self
        }
    }
}

/// Emits an access at `base + offset`; `offset` is a multiple of its size, less than 4096 times it.
pub(super) fn memory(ops: &mut Assembler, form: Form, register: Host, base: Host, offset: u32) {
    let scaled = offset >> form.size;
    assert!(scaled < 4096 && scaled << form.size == offset, "{offset}");
    ops.push_u32(0x3900_0000 | form.bits(register) | scaled << 10 | u32::from(base.0) << 5);
}

/// Emits an access at `base + index`.
pub(super) fn indexed(ops: &mut Assembler, form: Form, register: Host, base: Host, index: Host) {
    let registers = u32::from(index.0) << 16 | u32::from(base.0) << 5;
    ops.push_u32(0x3820_6800 | form.bits(register) | registers);
}

/// Emits `to = value`.
pub(super) fn set(ops: &mut Assembler, to: Host, value: u64) {
    let part = |at: u32| (value >> (16 * at)) as u16;
    let count = |filler| (0..4).filter(|&at| part(at) == filler).count();
    // movz and movn set the other bits to 0 and to 1.
    let (first, filler) = if count(0xFFFF) > count(0) {
        (0x9280_0000, 0xFFFF)
    } else {
        (0xD280_0000, 0)
    };
    let word = |opcode: u32, at: u32, part: u16| {
        opcode | at << 21 | u32::from(part) << 5 | u32::from(to.0)
    };
    let mut rest = (0..4).filter(|&at| part(at) != filler);
    let at = rest.next().unwrap_or(0);
    ops.push_u32(word(first, at, part(at) ^ filler));
    for at in rest {
        // movk
        ops.push_u32(word(0xF280_0000, at, part(at)));
    }
}

/// Emits `to = from`.
pub(super) fn copy(ops: &mut Assembler, to: Host, from: Host) {
    if to != from {
        ops.push_u32(0xAA00_03E0 | u32::from(from.0) << 16 | u32::from(to.0));
    }
}

/// Emits `to = from + value`. Changes `x17` if the value is large.
pub(super) fn add(ops: &mut Assembler, to: Host, from: Host, value: i64) {
    if from == ZERO {
        return set(ops, to, value as u64);
    }
    let opcode = if value < 0 { 0xD100_0000 } else { 0x9100_0000 };
    let size = value.unsigned_abs();
    let registers = |from: Host| u32::from(from.0) << 5 | u32::from(to.0);
    match (size >> 12, (size & 0xFFF) as u32) {
        (0, 0) => copy(ops, to, from),
        (0, low) => ops.push_u32(opcode | low << 10 | registers(from)),
        (high @ 1..=0xFFF, low) => {
            ops.push_u32(opcode | 1 << 22 | (high as u32) << 10 | registers(from));
            if low != 0 {
                ops.push_u32(opcode | low << 10 | registers(to));
            }
        }
        _ => {
            set(ops, X17, value as u64);
            ops.push_u32(0x8B00_0000 | u32::from(X17.0) << 16 | registers(from));
        }
    }
}

/// Bitwise operations, by their opcode's field.
#[derive(Clone, Copy)]
pub(super) enum Logical {
    And = 0,
    Or = 1,
    Xor = 2,
}

/// Emits `to = from` combined with `value`, which changes `x17` if it is no immediate operand.
pub(super) fn logical(ops: &mut Assembler, how: Logical, to: Host, from: Host, value: u64) {
    let (how, registers) = ((how as u32) << 29, u32::from(from.0) << 5 | u32::from(to.0));
    if let Some(immediate) = encode_logical_immediate_64bit(value) {
        ops.push_u32(0x9200_0000 | how | u32::from(immediate) << 10 | registers);
    } else {
        set(ops, X17, value);
        ops.push_u32(0x8A00_0000 | how | u32::from(X17.0) << 16 | registers);
    }
}

#[cfg(test)]
mod tests {
    use dynasm::dynasm;

    use super::super::regs::{X0, X1, X2};
    use super::super::trampolines::FPSR;
    use super::*;

    /// What the encoders emit is what the assembler's macro emits.
    macro_rules! same {
        ($emit:expr, $($text:tt)+) => {{
            let (mut ops, mut expected) = (Assembler::new(0x1_0000), Assembler::new(0x1_0000));
            let emit: fn(&mut Assembler) = $emit;
            emit(&mut ops);
            dynasm!(expected; .arch aarch64; $($text)+);
            assert_eq!(ops.finalize(), expected.finalize(), stringify!($($text)+));
        }};
    }

    #[test]
    fn encoders_agree_with_the_assembler() {
        same!(|ops| memory(ops, LOAD_64, X0, X1, 32), ldr x0, [x1, 32]);
        same!(|ops| memory(ops, LOAD_S8, X0, X1, 3), ldrsb x0, [x1, 3]);
        same!(|ops| memory(ops, LOAD_16, X0, X1, 6), ldrh w0, [x1, 6]);
        same!(|ops| memory(ops, STORE_32, X0, X1, 8), str w0, [x1, 8]);
        same!(|ops| memory(ops, LOAD_64.float(), X0, X1, 8), ldr d0, [x1, 8]);
        same!(|ops| memory(ops, STORE_32.float(), X0, X1, 8), str s0, [x1, 8]);
        same!(|ops| indexed(ops, LOAD_S32, X0, X1, X2), ldrsw x0, [x1, x2]);
        same!(|ops| indexed(ops, STORE_8, X0, X1, X2), strb w0, [x1, x2]);
        same!(|ops| indexed(ops, LOAD_32.float(), X0, X1, X2), ldr s0, [x1, x2]);
        same!(|ops| ops.push_u32(0xD53B_4420), mrs x0, FPSR);
        same!(|ops| copy(ops, X0, X1), mov x0, x1);
        same!(|ops| copy(ops, X0, ZERO), mov x0, xzr);
        same!(|ops| add(ops, X0, X1, 0xFFF), add x0, x1, 0xFFF);
        same!(|ops| add(ops, X0, X1, -1), sub x0, x1, 1);
        same!(|ops| add(ops, X0, X1, 0x1001), add x0, x1, 1, lsl 12; add x0, x0, 1);
        same!(|ops| add(ops, X0, X1, 1 << 24), movz x17, 0x100, lsl 16; add x0, x1, x17);
        same!(|ops| add(ops, X0, ZERO, -2), movn x0, 1);
        same!(|ops| set(ops, X0, 0), movz x0, 0);
        same!(|ops| set(ops, X0, 0x1234_0000_5678), movz x0, 0x5678; movk x0, 0x1234, lsl 32);
        same!(|ops| set(ops, X0, !0x1234_0000), movn x0, 0x1234, lsl 16);
        same!(|ops| logical(ops, Logical::And, X0, X1, !7), and x0, x1, !7_u64);
        same!(|ops| logical(ops, Logical::Xor, X0, X1, u64::MAX), movn x17, 0; eor x0, x1, x17);
        same!(|ops| logical(ops, Logical::Or, X0, X1, 5), movz x17, 5; orr x0, x1, x17);
    }
}
