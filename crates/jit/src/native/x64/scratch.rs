//! Computations of integers in scratch registers.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::Inst;

use super::compiler::BlockCompiler;
use super::encode::{Alu, Assembler, Width};
use super::integer::{Part, Sign};
use super::regs::{Host, RAX, RCX};

/// How a result is computed in `rax`: its initial content, and the code that changes it. `rcx` and
/// `rdx` are free.
#[derive(Clone, Copy)]
pub(super) enum Scratch {
    /// `rs1` is changed by `rcx`, which holds `rs2`.
    Pair(fn(&mut Assembler)),
    /// `rs1` is changed by `b`.
    With(fn(&mut Assembler, Host)),
    /// `rs1` is changed by `rdx`, which holds the bit of number `rs2`.
    Bit(fn(&mut Assembler)),
    /// `rs1` is changed by the 6-bit immediate.
    Immediate(fn(&mut Assembler, i8)),
    /// The word in `rs1` is changed by `b`.
    ZeroExtended(fn(&mut Assembler, Host)),
    /// The word in `rs1` plus `rs2`.
    AddZeroExtended,
    /// A division of words.
    DivideWord(Sign, Part),
}

impl BlockCompiler<'_> {
    /// Emits a computation in `rax`.
    pub fn scratch(&mut self, inst: &Inst, how: Scratch) {
        let by = (inst.imm & 63) as i8;
        match how {
            Scratch::Pair(compute) => {
                self.fetch(RAX, inst.rs1);
                self.fetch(RCX, inst.rs2);
                compute(&mut self.ops);
            }
            Scratch::With(compute) => {
                self.fetch(RAX, inst.rs1);
                let b = self.value(inst.rs2, RCX);
                compute(&mut self.ops, b);
            }
            Scratch::Bit(compute) => {
                self.fetch(RAX, inst.rs1);
                let b = self.value(inst.rs2, RCX);
                dynasm!(self.ops; .arch x64; mov edx, 1; shlx rdx, rdx, Rq(b));
                compute(&mut self.ops);
            }
            Scratch::Immediate(compute) => {
                self.fetch(RAX, inst.rs1);
                compute(&mut self.ops, by);
            }
            Scratch::ZeroExtended(compute) => {
                self.fetch_word(inst.rs1);
                let b = self.value(inst.rs2, RCX);
                compute(&mut self.ops, b);
            }
            Scratch::AddZeroExtended => {
                self.fetch_word(inst.rs1);
                let b = self.operand(inst.rs2);
                self.alu(Alu::Add, Width::Bits64, RAX, b);
            }
            Scratch::DivideWord(sign, part) => self.divide_word(inst, sign, part),
        }
        self.put(inst.rd, RAX);
    }

    /// `rax` = the low word of a register.
    fn fetch_word(&mut self, x: u8) {
        let a = self.value(x, RAX);
        dynasm!(self.ops; .arch x64; mov eax, Rd(a));
    }

    /// A division of words: after a division by zero all ones, or the dividend.
    fn divide_word(&mut self, inst: &Inst, sign: Sign, part: Part) {
        self.fetch(RAX, inst.rs1);
        self.fetch(RCX, inst.rs2);
        match sign {
            // In 64 bits no quotient of words overflows.
            Sign::Signed => dynasm!(self.ops
                ; .arch x64
                ; movsxd rcx, ecx
                ; cdqe
                ; test ecx, ecx
                ; jz >zero
                ; cqo
                ; idiv rcx
            ),
            Sign::Unsigned => dynasm!(self.ops
                ; .arch x64
                ; test ecx, ecx
                ; jz >zero
                ; xor edx, edx
                ; div ecx
            ),
        }
        match part {
            Part::Quotient => dynasm!(self.ops
                ; .arch x64
                ; jmp >done
                ; zero:
                ; mov eax, -1
                ; done:
                ; cdqe
            ),
            Part::Remainder => dynasm!(self.ops
                ; .arch x64
                ; mov eax, edx
                ; zero:
                ; cdqe
            ),
        }
    }
}
