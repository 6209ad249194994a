//! Computations of integers.

use dynasm::dynasm;
use dynasmrt::DynasmApi;
use trapless_isa::inst::Inst;

use super::compiler::BlockCompiler;
use super::encode::{self, Assembler, LOAD_64, Logical};
use super::regs::{CONTEXT, Host, PAGE, X0, X1, X2, ZERO, at};

/// How a result is computed. Code may change `x2`, `x3` and `x17` before it has read its operands,
/// and has the result in its first register afterwards, which may be one of the others.
#[derive(Clone, Copy)]
pub(super) enum Integer {
    /// The immediate.
    Constant,
    /// The immediate plus the program counter.
    PcRelative,
    /// `rs1` plus the immediate.
    Add,
    /// The same of words.
    AddWord,
    /// `rs1` combined with the immediate.
    Logical(Logical),
    /// `rs1` compared with the immediate.
    CompareImmediate(fn(&mut Assembler, Host)),
    /// `rs1` changed by the 6-bit immediate.
    Immediate(fn(&mut Assembler, Host, Host, u32)),
    /// `rs1` combined with the bit whose number is the immediate, or with all others.
    Bit(Logical, Bit),
    /// Of `rs1`.
    One(fn(&mut Assembler, Host, Host)),
    /// Of `rs1` and `rs2`.
    Two(fn(&mut Assembler, Host, Host, Host)),
    /// Of `rs1` and `rs2`, of which `rs2` must not be the zero register.
    Extended(fn(&mut Assembler, Host, Host, Host)),
}

/// Which bits an immediate names.
#[derive(Clone, Copy)]
pub(super) enum Bit {
    This,
    Others,
}

impl BlockCompiler<'_> {
    /// Emits a computation of integers.
    pub fn integer(&mut self, inst: &Inst, how: Integer) {
        let to = self.target(inst.rd);
        let value = i64::from(inst.imm);
        match how {
            Integer::Constant => encode::set(&mut self.ops, to, value as u64),
            Integer::PcRelative => {
                self.pc_relative(to, value);
            }
            Integer::Add => {
                let a = self.value(inst.rs1, X0);
                encode::add(&mut self.ops, to, a, value);
            }
            Integer::AddWord => {
                let a = self.value(inst.rs1, X0);
                encode::add(&mut self.ops, X2, a, value);
                dynasm!(self.ops; .arch aarch64; sxtw X(to), w2);
            }
            Integer::Logical(how) => {
                let a = self.value(inst.rs1, X0);
                encode::logical(&mut self.ops, how, to, a, value as u64);
            }
            Integer::Bit(how, bit) => {
                let a = self.value(inst.rs1, X0);
                let this = 1 << (inst.imm & 63);
                let bits = match bit {
                    Bit::This => this,
                    Bit::Others => !this,
                };
                encode::logical(&mut self.ops, how, to, a, bits);
            }
            Integer::CompareImmediate(set) => {
                let a = self.value(inst.rs1, X0);
                encode::set(&mut self.ops, X2, value as u64);
                dynasm!(self.ops; .arch aarch64; cmp X(a), x2);
                set(&mut self.ops, to);
            }
            Integer::Immediate(compute) => {
                let a = self.value(inst.rs1, X0);
                compute(&mut self.ops, to, a, inst.imm as u32 & 63);
            }
            Integer::One(compute) => {
                let a = self.value(inst.rs1, X0);
                compute(&mut self.ops, to, a);
            }
            Integer::Two(compute) => {
                let a = self.value(inst.rs1, X0);
                let b = self.value(inst.rs2, X1);
                compute(&mut self.ops, to, a, b);
            }
            Integer::Extended(compute) => {
                let a = self.value(inst.rs1, X0);
                let mut b = self.value(inst.rs2, X1);
                if b == ZERO {
                    encode::set(&mut self.ops, X1, 0);
                    b = X1;
                }
                compute(&mut self.ops, to, a, b);
            }
        }
        self.put(inst.rd, to);
    }

    /// `to` = the program counter plus a distance in bytes.
    fn pc_relative(&mut self, to: Host, distance: i64) {
        let page = if self.registers.page() {
            PAGE
        } else {
            encode::memory(&mut self.ops, LOAD_64, X0, CONTEXT, at!(pc));
            X0
        };
        encode::add(&mut self.ops, to, page, i64::from(self.at) + distance);
    }
}
