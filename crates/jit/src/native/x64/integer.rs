//! Computations of integers: templates that several operations share.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{Inst, NO_REG};

use super::compiler::BlockCompiler;
use super::encode::{
    self, ADDRESS, ADDRESS_32, Alu, Assembler, LOAD_64, MULTIPLY_32, MULTIPLY_64, Width,
};
use super::regs::{Host, Place, R13, RAX, RBX, RCX, RDX, at, x_at};
use super::words::Seen;

/// How a result is computed: location of the operands, and the code to emit. `rax`, `rcx` and `rdx`
/// are free.
#[derive(Clone, Copy)]
pub(super) enum Integer {
    /// The immediate.
    Constant,
    /// The address of the instruction plus the immediate.
    PcRelative,
    /// `rs1` plus the immediate.
    AddImmediate,
    /// The same with words.
    AddImmediateWord,
    /// By an instruction with two operands, the second of which may be anywhere.
    Binary(Combine, Second),
    /// The same with words, and the second register.
    BinaryWord(Combine),
    /// `to`, which holds `rs1`, is shifted by the 6-bit immediate.
    Shift(fn(&mut Assembler, Host, i8)),
    /// The same with words, by the 5-bit immediate.
    ShiftWord(Fill, fn(&mut Assembler, Host, i8)),
    /// The word in `rs1`, shifted left by the 6-bit immediate.
    ShiftZeroExtended,
    /// `to` is computed of `a`.
    One(fn(&mut Assembler, Host, Host)),
    /// `to` is computed of `a` and `b`.
    Two(fn(&mut Assembler, Host, Host, Host)),
    /// `eax` is computed of `a` and `b`.
    TwoWord(fn(&mut Assembler, Host, Host)),
    /// `al` is set according to a comparison of `rs1` with the second operand.
    SetIf(Second, fn(&mut Assembler)),
    /// `rdx` becomes the high half of the product of `rax` and `b`.
    High(fn(&mut Assembler, Host)),
    /// A division.
    Divide(Sign, Part),
}

/// Instructions whose second operand may be in memory.
#[derive(Clone, Copy)]
pub(super) enum Combine {
    Alu(Alu),
    Multiply,
}

impl Combine {
    /// Operands can change places.
    fn commutes(self) -> bool {
        !matches!(self, Self::Alu(Alu::Sub | Alu::Cmp))
    }
}

/// Top bits of a word that was shifted by 1 or more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    /// Zeros: as a signed number it is not negative.
    Zeros,
    /// Anything.
    Any,
}

/// Kind of the second operand.
#[derive(Clone, Copy)]
pub(super) enum Second {
    Register,
    Immediate,
}

/// Kind of a division.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Signed,
    Unsigned,
}

/// Result of a division.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Quotient,
    Remainder,
}

/// Second operand.
#[derive(Clone, Copy)]
pub(super) enum Operand {
    Host(Host),
    Memory(i32),
    Imm(i32),
}

impl BlockCompiler<'_> {
    /// Guest register `x` as second operand.
    pub fn operand(&self, x: u8) -> Operand {
        match self.registers.place(x) {
            Place::Zero => Operand::Imm(0),
            Place::Host(host) => Operand::Host(host),
            Place::Memory(x) => Operand::Memory(x_at(x)),
        }
    }

    fn second(&self, inst: &Inst, second: Second) -> Operand {
        match second {
            Second::Register => self.operand(inst.rs2),
            Second::Immediate => Operand::Imm(inst.imm),
        }
    }

    /// Emits a computation.
    pub fn integer(&mut self, inst: &Inst, how: Integer, seen: Seen) {
        let (rd, rs1, rs2, imm) = (inst.rd, inst.rs1, inst.rs2, inst.imm);
        let by = (imm & 63) as i8;
        match how {
            Integer::Constant => self.constant(rd, imm),
            Integer::PcRelative => {
                let to = self.target(rd);
                self.pc_relative(to, imm);
                self.put(rd, to);
            }
            Integer::AddImmediate => self.add_immediate(rd, rs1, imm),
            Integer::AddImmediateWord => self.add_immediate_word(rd, rs1, imm, seen),
            Integer::Binary(op, b) => {
                let b = self.second(inst, b);
                self.binary(op, rd, rs1, b);
            }
            Integer::BinaryWord(op) => {
                let (to, b) = (self.target(rd), self.operand(rs2));
                let word = self.combine(op, Width::Bits32, to, rs1, b);
                self.sign_extended(rd, word, seen);
            }
            Integer::Shift(shift) => {
                let to = self.target(rd);
                self.fetch(to, rs1);
                shift(&mut self.ops, to, by);
                self.put(rd, to);
            }
            Integer::ShiftWord(fill, shift) => {
                let (to, by) = (self.target(rd), by & 31);
                self.fetch(to, rs1);
                shift(&mut self.ops, to, by);
                if by != 0 && fill == Fill::Zeros {
                    self.put(rd, to);
                } else {
                    self.sign_extended(rd, to, seen);
                }
            }
            Integer::ShiftZeroExtended => {
                let to = self.target(rd);
                let a = self.value(rs1, RAX);
                dynasm!(self.ops; .arch x64; mov Rd(to), Rd(a); shl Rq(to), by);
                self.put(rd, to);
            }
            Integer::One(compute) => {
                let to = self.target(rd);
                let a = self.value(rs1, RAX);
                compute(&mut self.ops, to, a);
                self.put(rd, to);
            }
            Integer::Two(compute) => {
                let to = self.target(rd);
                let (a, b) = (self.value(rs1, RAX), self.value(rs2, RCX));
                compute(&mut self.ops, to, a, b);
                self.put(rd, to);
            }
            Integer::TwoWord(compute) => {
                let (a, b) = (self.value(rs1, RAX), self.value(rs2, RCX));
                compute(&mut self.ops, a, b);
                self.sign_extended(rd, RAX, seen);
            }
            Integer::SetIf(b, set) => {
                let a = self.value(rs1, RAX);
                let b = self.second(inst, b);
                self.alu(Alu::Cmp, Width::Bits64, a, b);
                set(&mut self.ops);
                let to = self.target(rd);
                dynasm!(self.ops; .arch x64; movzx Rd(to), al);
                self.put(rd, to);
            }
            Integer::High(multiply) => {
                self.fetch(RAX, rs1);
                let b = self.value(rs2, RCX);
                multiply(&mut self.ops, b);
                self.put(rd, RDX);
            }
            Integer::Divide(sign, part) => self.divide(inst, sign, part),
        }
    }

    /// `to` = the address of the instruction plus `imm`. Changes `rax`.
    fn pc_relative(&mut self, to: Host, imm: i32) {
        let mut page = R13;
        if !self.registers.page() {
            encode::memory(&mut self.ops, LOAD_64, RAX, RBX, at!(pc));
            page = RAX;
        }
        if let Some(distance) = imm.checked_add(self.at) {
            encode::memory(&mut self.ops, ADDRESS, to, page, distance);
        } else {
            encode::memory(&mut self.ops, ADDRESS, RAX, page, self.at);
            dynasm!(self.ops; .arch x64; lea Rq(to), [rax + imm]);
        }
    }

    fn constant(&mut self, rd: u8, value: i32) {
        match self.registers.place(rd) {
            Place::Memory(NO_REG) | Place::Zero => {}
            Place::Memory(x) => {
                encode::store_value(&mut self.ops, RBX, x_at(x), value);
            }
            Place::Host(host) if value == 0 => {
                dynasm!(self.ops; .arch x64; xor Rd(host), Rd(host));
            }
            Place::Host(host) => encode::set(&mut self.ops, host, value),
        }
    }

    fn add_immediate(&mut self, rd: u8, rs1: u8, imm: i32) {
        if rs1 == 0 {
            return self.constant(rd, imm);
        }
        if rd == rs1 {
            match self.registers.place(rd) {
                Place::Host(host) => {
                    encode::alu_value(&mut self.ops, Alu::Add, Width::Bits64, host, imm)
                }
                Place::Memory(x) => {
                    encode::alu_memory_value(&mut self.ops, Alu::Add, RBX, x_at(x), imm);
                }
                Place::Zero => {}
            }
            return;
        }
        let a = self.value(rs1, RAX);
        let to = self.target(rd);
        if imm == 0 {
            self.put(rd, a);
        } else {
            encode::memory(&mut self.ops, ADDRESS, to, a, imm);
            self.put(rd, to);
        }
    }

    fn add_immediate_word(&mut self, rd: u8, rs1: u8, imm: i32, seen: Seen) {
        let to = self.target(rd);
        let a = self.value(rs1, RAX);
        if imm == 0 {
            dynasm!(self.ops; .arch x64; movsxd Rq(to), Rd(a));
        } else {
            encode::memory(&mut self.ops, ADDRESS_32, RAX, a, imm);
            return self.sign_extended(rd, RAX, seen);
        }
        self.put(rd, to);
    }

    /// `rd = rs1 op b`.
    fn binary(&mut self, op: Combine, rd: u8, rs1: u8, b: Operand) {
        if let (Combine::Alu(op), Place::Memory(x)) = (op, self.registers.place(rd))
            && rd == rs1
        {
            return self.alu_in_memory(op, x, b);
        }
        let to = self.target(rd);
        let host = self.combine(op, Width::Bits64, to, rs1, b);
        self.put(rd, host);
    }

    /// `rs1 op b`. Returns where it is: in `to`, or in `rax`.
    fn combine(&mut self, op: Combine, width: Width, to: Host, rs1: u8, b: Operand) -> Host {
        let a = self.registers.place(rs1);
        let mut to = to;
        match (a, b) {
            // `mv`
            (Place::Zero, b) if matches!(op, Combine::Alu(Alu::Add | Alu::Or | Alu::Xor)) => {
                return self.operand_host(b, to);
            }
            // `neg`
            (Place::Zero, b) if matches!(op, Combine::Alu(Alu::Sub)) => {
                let b = self.operand_host(b, to);
                encode::copy(&mut self.ops, to, b);
                encode::negate(&mut self.ops, width, to);
                return to;
            }
            (Place::Host(a), Operand::Host(b))
                if matches!(op, Combine::Alu(Alu::Add)) && a != to && b != to =>
            {
                encode::sum(&mut self.ops, width, to, a, b);
                return to;
            }
            // The second operand must not be overwritten before it is used.
            (a, Operand::Host(b)) if b == to && a != Place::Host(to) => {
                if op.commutes() {
                    let a = self.operand(rs1);
                    self.apply(op, width, to, a);
                    return to;
                }
                to = RAX;
            }
            _ => {}
        }
        self.fetch(to, rs1);
        self.apply(op, width, to, b);
        to
    }

    /// Host register with the value of an operand: its own, or `scratch`.
    fn operand_host(&mut self, operand: Operand, scratch: Host) -> Host {
        match operand {
            Operand::Host(host) => return host,
            Operand::Memory(at) => encode::memory(&mut self.ops, LOAD_64, scratch, RBX, at),
            Operand::Imm(imm) => encode::set(&mut self.ops, scratch, imm),
        }
        scratch
    }

    /// `to = to op b`.
    fn apply(&mut self, op: Combine, width: Width, to: Host, b: Operand) {
        let form = match width {
            Width::Bits32 => MULTIPLY_32,
            Width::Bits64 => MULTIPLY_64,
        };
        match (op, b) {
            (Combine::Alu(op), b) => self.alu(op, width, to, b),
            (Combine::Multiply, Operand::Host(host)) => {
                encode::multiply(&mut self.ops, width, to, host);
            }
            (Combine::Multiply, Operand::Memory(at)) => {
                encode::memory(&mut self.ops, form, to, RBX, at);
            }
            (Combine::Multiply, Operand::Imm(_)) => {
                dynasm!(self.ops; .arch x64; xor Rd(to), Rd(to));
            }
        }
    }

    /// `x = x op b`, for a register in memory.
    fn alu_in_memory(&mut self, op: Alu, x: u8, b: Operand) {
        let host = match b {
            Operand::Imm(imm) => {
                return encode::alu_memory_value(&mut self.ops, op, RBX, x_at(x), imm);
            }
            Operand::Host(host) => host,
            Operand::Memory(at) => {
                encode::memory(&mut self.ops, LOAD_64, RAX, RBX, at);
                RAX
            }
        };
        encode::alu_to_memory(&mut self.ops, op, RBX, x_at(x), host);
    }

    /// `to = to op operand` with 64 or 32 bits.
    pub fn alu(&mut self, op: Alu, width: Width, to: Host, operand: Operand) {
        match operand {
            Operand::Host(host) => encode::alu(&mut self.ops, op, width, to, host),
            Operand::Memory(at) => encode::alu_memory(&mut self.ops, op, width, to, RBX, at),
            Operand::Imm(imm) => encode::alu_value(&mut self.ops, op, width, to, imm),
        }
    }

    /// `rd` = the sign-extended word in `host`, or anything with that low word.
    fn sign_extended(&mut self, rd: u8, host: Host, seen: Seen) {
        if seen == Seen::Word {
            return self.put(rd, host);
        }
        let to = self.target(rd);
        dynasm!(self.ops; .arch x64; movsxd Rq(to), Rd(host));
        self.put(rd, to);
    }

    /// Emits a 64-bit division (unprivileged specification, "Division Operations"): division by
    /// zero gives all ones or the dividend, signed overflow the dividend or 0. The host's
    /// instruction faults in both cases.
    fn divide(&mut self, inst: &Inst, sign: Sign, part: Part) {
        let signed = sign == Sign::Signed;
        let quotient = part == Part::Quotient;
        self.fetch(RAX, inst.rs1);
        self.fetch(RCX, inst.rs2);
        dynasm!(self.ops; .arch x64; test rcx, rcx; jz >zero);
        if signed {
            dynasm!(self.ops; .arch x64; cmp rcx, -1; je >minus);
        }
        if signed {
            dynasm!(self.ops; .arch x64; cqo; idiv rcx);
        } else {
            dynasm!(self.ops; .arch x64; xor edx, edx; div rcx);
        }
        if !quotient {
            dynasm!(self.ops; .arch x64; mov rax, rdx);
        }
        dynasm!(self.ops; .arch x64; jmp >done; zero:);
        if quotient {
            dynasm!(self.ops; .arch x64; mov rax, -1);
        }
        if signed {
            dynasm!(self.ops; .arch x64; jmp >done; minus:);
            if quotient {
                dynasm!(self.ops; .arch x64; neg rax);
            } else {
                dynasm!(self.ops; .arch x64; xor eax, eax);
            }
        }
        dynasm!(self.ops; .arch x64; done:);
        self.put(inst.rd, RAX);
    }
}
