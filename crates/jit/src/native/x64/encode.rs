//! Short encodings of instructions whose operands are known only at run time. The assembler's macro
//! spends 32 bits on each such displacement and immediate, which makes code a third longer.

use dynasm::dynasm;
use dynasmrt::x64::X64Relocation;
use dynasmrt::{DynasmApi, VecAssembler};

use super::regs::Host;

/// Assembles position-dependent code.
pub(super) type Assembler = VecAssembler<X64Relocation>;

/// Bits of operands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Bits32,
    Bits64,
}

/// An instruction with a register and a memory operand.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// A prefix that comes first; 0 for none.
    prefix: u8,
    width: Width,
    opcode: &'static [u8],
}

const fn form(width: Width, opcode: &'static [u8]) -> Form {
    Form {
        prefix: 0,
        width,
        opcode,
    }
}

const fn prefixed(prefix: u8, opcode: &'static [u8]) -> Form {
    Form {
        prefix,
        ..form(Width::Bits32, opcode)
    }
}

/// A memory operand: the sum of these.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub base: Host,
    pub index: Option<Host>,
    pub at: i32,
}

/// `mov`, `movsx`, `movzx` from memory: size, and `S` if the sign is extended.
pub(super) const LOAD_64: Form = form(Width::Bits64, &[0x8B]);
pub(super) const LOAD_32: Form = form(Width::Bits32, &[0x8B]);
pub(super) const LOAD_S32: Form = form(Width::Bits64, &[0x63]);
pub(super) const LOAD_16: Form = form(Width::Bits32, &[0x0F, 0xB7]);
pub(super) const LOAD_S16: Form = form(Width::Bits64, &[0x0F, 0xBF]);
pub(super) const LOAD_8: Form = form(Width::Bits32, &[0x0F, 0xB6]);
pub(super) const LOAD_S8: Form = form(Width::Bits64, &[0x0F, 0xBE]);
/// `mov` to memory.
pub(super) const STORE_64: Form = form(Width::Bits64, &[0x89]);
pub(super) const STORE_32: Form = form(Width::Bits32, &[0x89]);
pub(super) const STORE_16: Form = prefixed(0x66, &[0x89]);
pub(super) const STORE_8: Form = form(Width::Bits32, &[0x88]);
/// `movss` and `movsd`; the register is of SSE.
pub(super) const LOAD_SINGLE: Form = prefixed(0xF3, &[0x0F, 0x10]);
pub(super) const LOAD_DOUBLE: Form = prefixed(0xF2, &[0x0F, 0x10]);
pub(super) const STORE_SINGLE: Form = prefixed(0xF3, &[0x0F, 0x11]);
pub(super) const STORE_DOUBLE: Form = prefixed(0xF2, &[0x0F, 0x11]);
/// `lea`.
pub(super) const ADDRESS: Form = form(Width::Bits64, &[0x8D]);
pub(super) const ADDRESS_32: Form = form(Width::Bits32, &[0x8D]);
/// `imul`.
pub(super) const MULTIPLY_64: Form = form(Width::Bits64, &[0x0F, 0xAF]);
pub(super) const MULTIPLY_32: Form = form(Width::Bits32, &[0x0F, 0xAF]);

/// Arithmetic with two operands, by number in the opcode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Alu {
    Add = 0,
    Or = 1,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// `form reg, [base + at]`, or `form [base + at], reg`.
pub(super) fn memory(ops: &mut Assembler, form: Form, reg: Host, base: Host, at: i32) {
    let index = None;
    memory_at(ops, form, reg, Memory { base, index, at });
}

/// The same for any memory operand.
pub(super) fn memory_at(ops: &mut Assembler, form: Form, reg: Host, memory: Memory) {
    let Memory { base, index, at } = memory;
    if form.prefix != 0 {
        ops.push(form.prefix);
    }
    // Without REX, byte registers 4 to 7 are `ah` .. `bh`.
    let byte = form.opcode == STORE_8.opcode && reg.0 >= 4;
    let bits = index.map_or(0, |index| index.0 >> 3 << 1);
    prefix_with(ops, bits, form.width, reg, base, byte);
    ops.extend(form.opcode);
    match index {
        None => place(ops, reg, base, at),
        Some(index) => {
            let (size, short) = displacement(base, at);
            ops.push(size | (reg.0 & 7) << 3 | 4);
            ops.push((index.0 & 7) << 3 | base.0 & 7);
            if size != 0 {
                immediate(ops, short, at);
            }
        }
    }
}

/// `op reg, [base + at]`.
pub(super) fn alu_memory(
    ops: &mut Assembler,
    op: Alu,
    width: Width,
    reg: Host,
    base: Host,
    at: i32,
) {
    prefix(ops, width, reg, base, false);
    ops.push((op as u8) << 3 | 3);
    place(ops, reg, base, at);
}

/// `op reg, other`.
pub(super) fn alu(ops: &mut Assembler, op: Alu, width: Width, reg: Host, other: Host) {
    prefix(ops, width, reg, other, false);
    ops.push((op as u8) << 3 | 3);
    ops.push(0xC0 | (reg.0 & 7) << 3 | other.0 & 7);
}

/// `op QWORD [base + at], reg`.
pub(super) fn alu_to_memory(ops: &mut Assembler, op: Alu, base: Host, at: i32, reg: Host) {
    prefix(ops, Width::Bits64, reg, base, false);
    ops.push((op as u8) << 3 | 1);
    place(ops, reg, base, at);
}

/// `reg = a + b`, which leaves flags as they are.
pub(super) fn sum(ops: &mut Assembler, width: Width, reg: Host, a: Host, b: Host) {
    match width {
        Width::Bits32 => dynasm!(ops; .arch x64; lea Rd(reg), [Rq(a) + Rq(b)]),
        Width::Bits64 => dynasm!(ops; .arch x64; lea Rq(reg), [Rq(a) + Rq(b)]),
    }
}

/// `reg = -reg`.
pub(super) fn negate(ops: &mut Assembler, width: Width, reg: Host) {
    match width {
        Width::Bits32 => dynasm!(ops; .arch x64; neg Rd(reg)),
        Width::Bits64 => dynasm!(ops; .arch x64; neg Rq(reg)),
    }
}

/// `reg = reg * other`.
pub(super) fn multiply(ops: &mut Assembler, width: Width, reg: Host, other: Host) {
    match width {
        Width::Bits32 => dynasm!(ops; .arch x64; imul Rd(reg), Rd(other)),
        Width::Bits64 => dynasm!(ops; .arch x64; imul Rq(reg), Rq(other)),
    }
}

/// `op reg, value`.
pub(super) fn alu_value(ops: &mut Assembler, op: Alu, width: Width, reg: Host, value: i32) {
    prefix(ops, width, Host(0), reg, false);
    let short = i8::try_from(value);
    ops.push(if short.is_ok() { 0x83 } else { 0x81 });
    ops.push(0xC0 | (op as u8) << 3 | reg.0 & 7);
    immediate(ops, short, value);
}

/// `op QWORD [base + at], value`.
pub(super) fn alu_memory_value(ops: &mut Assembler, op: Alu, base: Host, at: i32, value: i32) {
    prefix(ops, Width::Bits64, Host(0), base, false);
    let short = i8::try_from(value);
    ops.push(if short.is_ok() { 0x83 } else { 0x81 });
    place(ops, Host(op as u8), base, at);
    immediate(ops, short, value);
}

/// `mov QWORD [base + at], value`.
pub(super) fn store_value(ops: &mut Assembler, base: Host, at: i32, value: i32) {
    prefix(ops, Width::Bits64, Host(0), base, false);
    ops.push(0xC7);
    place(ops, Host(0), base, at);
    ops.push_i32(value);
}

/// `reg = value`; flags are preserved.
pub(super) fn set(ops: &mut Assembler, reg: Host, value: i32) {
    if value < 0 {
        prefix(ops, Width::Bits64, Host(0), reg, false);
        ops.push(0xC7);
        ops.push(0xC0 | reg.0 & 7);
    } else {
        prefix(ops, Width::Bits32, Host(0), reg, false);
        ops.push(0xB8 | reg.0 & 7);
    }
    ops.push_i32(value);
}

/// Moves between registers.
pub(super) fn copy(ops: &mut Assembler, to: Host, from: Host) {
    if to != from {
        dynasm!(ops; .arch x64; mov Rq(to), Rq(from));
    }
}

fn prefix(ops: &mut Assembler, width: Width, reg: Host, base: Host, always: bool) {
    prefix_with(ops, 0, width, reg, base, always);
}

/// The same with further bits of REX.
fn prefix_with(ops: &mut Assembler, bits: u8, width: Width, reg: Host, base: Host, always: bool) {
    let bits = bits | u8::from(width == Width::Bits64) << 3 | (reg.0 >> 3) << 2 | base.0 >> 3;
    if bits != 0 || always {
        ops.push(0x40 | bits);
    }
}

/// The mode for a displacement from `base`, and its value if it is short.
fn displacement(base: Host, at: i32) -> (u8, Result<i8, std::num::TryFromIntError>) {
    let short = i8::try_from(at);
    // Base 5 without displacement encodes RIP-relative addressing, or none.
    let mode = match short {
        Ok(0) if base.0 & 7 != 5 => 0,
        Ok(_) => 0x40,
        Err(_) => 0x80,
    };
    (mode, short)
}

fn place(ops: &mut Assembler, reg: Host, base: Host, at: i32) {
    let (size, short) = displacement(base, at);
    ops.push(size | (reg.0 & 7) << 3 | base.0 & 7);
    if base.0 & 7 == 4 {
        ops.push(0x24);
    }
    if size != 0 {
        immediate(ops, short, at);
    }
}

fn immediate(ops: &mut Assembler, short: Result<i8, std::num::TryFromIntError>, value: i32) {
    match short {
        Ok(short) => ops.push_i8(short),
        Err(_) => ops.push_i32(value),
    }
}

/// Instructions of 1 to 9 bytes that do nothing, as Intel and AMD recommend them.
const NOPS: [&[u8]; 9] = [
    &[0x90],
    &[0x66, 0x90],
    &[0x0F, 0x1F, 0x00],
    &[0x0F, 0x1F, 0x40, 0x00],
    &[0x0F, 0x1F, 0x44, 0x00, 0x00],
    &[0x66, 0x0F, 0x1F, 0x44, 0x00, 0x00],
    &[0x0F, 0x1F, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0F, 0x1F, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    &[0x66, 0x0F, 0x1F, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];

/// Emits `bytes` bytes that do nothing.
pub(super) fn pad(ops: &mut Assembler, mut bytes: usize) {
    while bytes != 0 {
        let nop = NOPS[bytes.min(NOPS.len()) - 1];
        ops.extend(nop);
        bytes -= nop.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(emit: impl FnOnce(&mut Assembler)) -> Vec<u8> {
        let mut ops = Assembler::new(0);
        emit(&mut ops);
        ops.finalize().expect("no labels")
    }

    /// The assembler's macro encodes constants in the shortest form: ours must agree.
    #[test]
    fn instructions_are_those_of_the_assembler() {
        macro_rules! same {
            ($emit:expr, $($text:tt)+) => {
                let expected = bytes(|ops| dynasm!(ops; .arch x64; $($text)+));
                assert_eq!(bytes($emit), expected, stringify!($($text)+));
            };
        }
        same!(|o| memory(o, LOAD_64, Host(10), Host(0), 0), mov r10, [rax]);
        same!(|o| memory(o, LOAD_64, Host(0), Host(3), -128), mov rax, [rbx - 128]);
        same!(|o| memory(o, LOAD_64, Host(9), Host(3), 128), mov r9, [rbx + 128]);
        same!(|o| memory(o, LOAD_32, Host(6), Host(12), 0), mov esi, [r12]);
        same!(|o| memory(o, LOAD_S32, Host(6), Host(13), 0), movsxd rsi, DWORD [r13]);
        same!(|o| memory(o, LOAD_16, Host(8), Host(0), 4), movzx r8d, WORD [rax + 4]);
        same!(|o| memory(o, LOAD_S16, Host(7), Host(0), 4), movsx rdi, WORD [rax + 4]);
        same!(|o| memory(o, LOAD_8, Host(7), Host(0), 4), movzx edi, BYTE [rax + 4]);
        same!(|o| memory(o, LOAD_S8, Host(1), Host(5), 0), movsx rcx, BYTE [rbp]);
        same!(
            |o| memory(o, STORE_64, Host(11), Host(4), 8),
            mov[rsp + 8],
            r11
        );
        same!(
            |o| memory(o, STORE_32, Host(2), Host(0), 1000),
            mov[rax + 1000],
            edx
        );
        same!(
            |o| memory(o, STORE_16, Host(8), Host(0), 1),
            mov[rax + 1],
            r8w
        );
        same!(
            |o| memory(o, STORE_16, Host(2), Host(0), 1),
            mov[rax + 1],
            dx
        );
        same!(
            |o| memory(o, STORE_8, Host(6), Host(0), 1),
            mov[rax + 1],
            sil
        );
        same!(|o| memory(o, STORE_8, Host(2), Host(0), 0), mov[rax], dl);
        let sum = |base, at| Memory {
            base: Host(base),
            index: Some(Host(1)),
            at,
        };
        same!(|o| memory_at(o, LOAD_64, Host(8), sum(8, 0)), mov r8, [r8 + rcx]);
        same!(|o| memory_at(o, LOAD_S8, Host(6), sum(0, 4)), movsx rsi, BYTE [rax + rcx + 4]);
        same!(|o| memory_at(o, LOAD_32, Host(9), sum(12, 300)), mov r9d, [r12 + rcx + 300]);
        // The macro encodes no displacement of 0 otherwise than with 8 bits.
        same!(|o| memory_at(o, LOAD_64, Host(0), sum(13, 0)), mov rax, [r13 + rcx]);
        same!(
            |o| memory_at(o, STORE_8, Host(6), sum(0, -1)),
            mov[rax + rcx - 1],
            sil
        );
        let high = Memory {
            index: Some(Host(9)),
            ..sum(10, 8)
        };
        same!(|o| memory_at(o, LOAD_64, Host(2), high), mov rdx, [r10 + r9 + 8]);
        same!(|o| memory_at(o, LOAD_SINGLE, Host(12), sum(8, 0)), movss xmm12, [r8 + rcx]);
        same!(|o| memory_at(o, LOAD_DOUBLE, Host(4), sum(0, 16)), movsd xmm4, [rax + rcx + 16]);
        same!(
            |o| memory_at(o, STORE_DOUBLE, Host(5), sum(0, 0)),
            movsd[rax + rcx],
            xmm5
        );
        same!(|o| memory(o, ADDRESS, Host(0), Host(12), 24), lea rax, [r12 + 24]);
        same!(|o| memory(o, ADDRESS_32, Host(0), Host(8), -1), lea eax, [r8 - 1]);
        same!(|o| memory(o, MULTIPLY_64, Host(9), Host(3), 8), imul r9, [rbx + 8]);
        same!(|o| memory(o, MULTIPLY_32, Host(0), Host(3), 8), imul eax, [rbx + 8]);
        same!(|o| alu_memory(o, Alu::Add, Width::Bits64, Host(9), Host(3), 8), add r9, [rbx + 8]);
        same!(|o| alu_memory(o, Alu::Cmp, Width::Bits32, Host(0), Host(3), 8), cmp eax, [rbx + 8]);
        same!(|o| alu_value(o, Alu::Sub, Width::Bits64, Host(15), 100), sub r15, 100);
        same!(|o| alu_value(o, Alu::Or, Width::Bits32, Host(7), 0x1234), or edi, 0x1234);
        same!(|o| alu_value(o, Alu::And, Width::Bits64, Host(8), -4096), and r8, -4096);
        // And here.
        assert_eq!(
            bytes(|o| alu_memory_value(o, Alu::Add, Host(3), 8, 1)),
            [0x48, 0x83, 0x43, 8, 1]
        );
        same!(|o| alu_memory_value(o, Alu::Xor, Host(3), 8, 300), xor QWORD [rbx + 8], 300);
        same!(
            |o| alu_to_memory(o, Alu::Sub, Host(3), 8, Host(9)),
            sub[rbx + 8],
            r9
        );
        same!(|o| store_value(o, Host(3), -8, 7), mov QWORD [rbx - 8], 7);
        same!(|o| set(o, Host(9), -1), mov r9, -1);
        same!(|o| set(o, Host(9), 77), mov r9d, 77);
        same!(|o| set(o, Host(6), 77), mov esi, 77);
        // Of two equivalent encodings, the macro takes the other one here.
        assert_eq!(
            bytes(|o| alu(o, Alu::Xor, Width::Bits64, Host(9), Host(6))),
            [0x4C, 0x33, 0xCE]
        );
        assert_eq!(
            bytes(|o| alu(o, Alu::Add, Width::Bits32, Host(0), Host(1))),
            [0x03, 0xC1]
        );
    }

    #[test]
    fn padding_is_instructions_that_do_nothing() {
        for size in 0..70 {
            let code = bytes(|ops| pad(ops, size));
            assert_eq!(code.len(), size);
            let mut decoder = iced_x86::Decoder::new(64, &code, 0);
            assert!(
                decoder
                    .iter()
                    .all(|inst| inst.mnemonic() == iced_x86::Mnemonic::Nop)
            );
        }
    }
}
