//! Integer instructions.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{Inst, NO_REG, Op};

use super::block::BlockCompiler;
use super::encode::{self, ADDRESS, ADDRESS_32, Alu, MULTIPLY_32, MULTIPLY_64};
use super::regs::{Place, RAX, RBX, RCX, RDX, place, x_at};

/// Second operand.
#[derive(Clone, Copy)]
enum Operand {
    Host(u8),
    Memory(i32),
    Imm(i32),
}

fn operand(x: u8) -> Operand {
    match place(x) {
        Place::Zero => Operand::Imm(0),
        Place::Host(host) => Operand::Host(host),
        Place::Memory(x) => Operand::Memory(x_at(x)),
    }
}

impl BlockCompiler<'_> {
    /// Emits an integer instruction; `false` if `inst` has no template here.
    pub fn integer(&mut self, inst: &Inst) -> bool {
        if inst.rd == NO_REG && writes_only_rd(inst.op) {
            return true;
        }
        let (rd, rs1, rs2, imm) = (inst.rd, inst.rs1, inst.rs2, inst.imm);
        match inst.op {
            Op::Fence | Op::PrefetchI | Op::PrefetchR | Op::PrefetchW | Op::Pause => {}
            Op::Lui => self.constant(rd, imm),
            Op::Auipc => {
                let to = self.target(rd);
                // Both are signed 32-bit values, but their sum may not fit.
                dynasm!(self.ops
                    ; .arch x64
                    ; mov rax, imm
                    ; lea Rq(to), [rax + r13 + self.at]
                );
                self.put(rd, to);
            }
            Op::Addi => self.add_immediate(rd, rs1, imm),
            Op::Addiw => {
                let to = self.target(rd);
                let a = self.value(rs1, RAX);
                if imm == 0 {
                    dynasm!(self.ops; .arch x64; movsxd Rq(to), Rd(a));
                } else {
                    encode::memory(&mut self.ops, ADDRESS_32, RAX, a, imm);
                    dynasm!(self.ops; .arch x64; movsxd Rq(to), eax);
                }
                self.put(rd, to);
            }
            Op::Add | Op::Sub | Op::Xor | Op::Or | Op::And | Op::Mul => {
                self.binary(inst.op, rd, rs1, operand(rs2));
            }
            Op::Xori => self.binary(Op::Xor, rd, rs1, Operand::Imm(imm)),
            Op::Ori => self.binary(Op::Or, rd, rs1, Operand::Imm(imm)),
            Op::Andi => self.binary(Op::And, rd, rs1, Operand::Imm(imm)),
            Op::Addw | Op::Subw | Op::Mulw => {
                self.fetch(RAX, rs1);
                match inst.op {
                    Op::Addw => self.alu(Alu::Add, false, RAX, operand(rs2)),
                    Op::Subw => self.alu(Alu::Sub, false, RAX, operand(rs2)),
                    _ => self.multiply32(rs2),
                }
                self.sign_extended(rd);
            }
            Op::Slli | Op::Srli | Op::Srai => {
                let to = self.target(rd);
                self.fetch(to, rs1);
                let by = (imm & 63) as i8;
                match inst.op {
                    Op::Slli => dynasm!(self.ops; .arch x64; shl Rq(to), by),
                    Op::Srli => dynasm!(self.ops; .arch x64; shr Rq(to), by),
                    _ => dynasm!(self.ops; .arch x64; sar Rq(to), by),
                }
                self.put(rd, to);
            }
            Op::Slliw | Op::Srliw | Op::Sraiw => {
                self.fetch(RAX, rs1);
                let by = (imm & 31) as i8;
                match inst.op {
                    Op::Slliw => dynasm!(self.ops; .arch x64; shl eax, by),
                    Op::Srliw => dynasm!(self.ops; .arch x64; shr eax, by),
                    _ => dynasm!(self.ops; .arch x64; sar eax, by),
                }
                self.sign_extended(rd);
            }
            Op::Sll | Op::Srl | Op::Sra => {
                let to = self.target(rd);
                let a = self.value(rs1, RAX);
                let by = self.value(rs2, RCX);
                match inst.op {
                    Op::Sll => dynasm!(self.ops; .arch x64; shlx Rq(to), Rq(a), Rq(by)),
                    Op::Srl => dynasm!(self.ops; .arch x64; shrx Rq(to), Rq(a), Rq(by)),
                    _ => dynasm!(self.ops; .arch x64; sarx Rq(to), Rq(a), Rq(by)),
                }
                self.put(rd, to);
            }
            Op::Sllw | Op::Srlw | Op::Sraw => {
                let a = self.value(rs1, RAX);
                let by = self.value(rs2, RCX);
                match inst.op {
                    Op::Sllw => dynasm!(self.ops; .arch x64; shlx eax, Rd(a), Rd(by)),
                    Op::Srlw => dynasm!(self.ops; .arch x64; shrx eax, Rd(a), Rd(by)),
                    _ => dynasm!(self.ops; .arch x64; sarx eax, Rd(a), Rd(by)),
                }
                self.sign_extended(rd);
            }
            Op::Slt | Op::Sltu | Op::Slti | Op::Sltiu => {
                let a = self.value(rs1, RAX);
                let b = match inst.op {
                    Op::Slt | Op::Sltu => operand(rs2),
                    _ => Operand::Imm(imm),
                };
                self.alu(Alu::Cmp, true, a, b);
                match inst.op {
                    Op::Slt | Op::Slti => dynasm!(self.ops; .arch x64; setl al),
                    _ => dynasm!(self.ops; .arch x64; setb al),
                }
                let to = self.target(rd);
                dynasm!(self.ops; .arch x64; movzx Rd(to), al);
                self.put(rd, to);
            }
            Op::Mulh | Op::Mulhu => {
                self.fetch(RAX, rs1);
                let b = self.value(rs2, RCX);
                match inst.op {
                    Op::Mulh => dynasm!(self.ops; .arch x64; imul Rq(b)),
                    _ => dynasm!(self.ops; .arch x64; mul Rq(b)),
                }
                self.put(rd, RDX);
            }
            Op::Sh1add | Op::Sh2add | Op::Sh3add => {
                let to = self.target(rd);
                let a = self.value(rs1, RAX);
                let b = self.value(rs2, RCX);
                match inst.op {
                    Op::Sh1add => dynasm!(self.ops; .arch x64; lea Rq(to), [Rq(b) + Rq(a) * 2]),
                    Op::Sh2add => dynasm!(self.ops; .arch x64; lea Rq(to), [Rq(b) + Rq(a) * 4]),
                    _ => dynasm!(self.ops; .arch x64; lea Rq(to), [Rq(b) + Rq(a) * 8]),
                }
                self.put(rd, to);
            }
            Op::AddUw => {
                let a = self.value(rs1, RAX);
                dynasm!(self.ops; .arch x64; mov eax, Rd(a));
                self.alu(Alu::Add, true, RAX, operand(rs2));
                self.put(rd, RAX);
            }
            Op::ZextH => {
                let to = self.target(rd);
                let a = self.value(rs1, RAX);
                dynasm!(self.ops; .arch x64; movzx Rd(to), Rw(a));
                self.put(rd, to);
            }
            Op::Div | Op::Divu | Op::Rem | Op::Remu => self.divide(inst),
            _ => return false,
        }
        true
    }

    fn constant(&mut self, rd: u8, value: i32) {
        match place(rd) {
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
            match place(rd) {
                Place::Host(host) => encode::alu_value(&mut self.ops, Alu::Add, true, host, imm),
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

    /// `rd = rs1 op b`.
    fn binary(&mut self, op: Op, rd: u8, rs1: u8, b: Operand) {
        let mut to = self.target(rd);
        if matches!(b, Operand::Host(host) if host == to) && place(rs1) != Place::Host(to) {
            // The second operand must not be overwritten before it is used.
            to = RAX;
        }
        self.fetch(to, rs1);
        match op {
            Op::Add => self.alu(Alu::Add, true, to, b),
            Op::Sub => self.alu(Alu::Sub, true, to, b),
            Op::Xor => self.alu(Alu::Xor, true, to, b),
            Op::Or => self.alu(Alu::Or, true, to, b),
            Op::And => self.alu(Alu::And, true, to, b),
            _ => match b {
                Operand::Host(host) => dynasm!(self.ops; .arch x64; imul Rq(to), Rq(host)),
                Operand::Memory(at) => encode::memory(&mut self.ops, MULTIPLY_64, to, RBX, at),
                Operand::Imm(_) => dynasm!(self.ops; .arch x64; xor Rd(to), Rd(to)),
            },
        }
        self.put(rd, to);
    }

    /// `to = to op operand` with 64 or 32 bits.
    fn alu(&mut self, op: Alu, wide: bool, to: u8, operand: Operand) {
        match operand {
            Operand::Host(host) => encode::alu(&mut self.ops, op, wide, to, host),
            Operand::Memory(at) => encode::alu_memory(&mut self.ops, op, wide, to, RBX, at),
            Operand::Imm(imm) => encode::alu_value(&mut self.ops, op, wide, to, imm),
        }
    }

    fn multiply32(&mut self, rs2: u8) {
        match operand(rs2) {
            Operand::Host(host) => dynasm!(self.ops; .arch x64; imul eax, Rd(host)),
            Operand::Memory(at) => encode::memory(&mut self.ops, MULTIPLY_32, RAX, RBX, at),
            Operand::Imm(_) => dynasm!(self.ops; .arch x64; xor eax, eax),
        }
    }

    /// `rd` = sign-extended `eax`.
    fn sign_extended(&mut self, rd: u8) {
        let to = self.target(rd);
        dynasm!(self.ops; .arch x64; movsxd Rq(to), eax);
        self.put(rd, to);
    }

    /// Emits a 64-bit division (unprivileged specification, "Division Operations"): division by
    /// zero gives all ones or the dividend, signed overflow the dividend or 0. The host's
    /// instruction faults in both cases.
    fn divide(&mut self, inst: &Inst) {
        let signed = matches!(inst.op, Op::Div | Op::Rem);
        let quotient = matches!(inst.op, Op::Div | Op::Divu);
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

/// Whether the operation has no effect but its result.
fn writes_only_rd(op: Op) -> bool {
    use trapless_isa::inst::{CostClass as C, Ext};
    matches!(op.class(), C::Simple | C::Mul | C::Div) && op.extension() != Ext::F
}
