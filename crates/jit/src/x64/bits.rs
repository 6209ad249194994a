//! Bit manipulation (Zba, Zbb, Zbs), Zicond, and division of words.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{Inst, Op};

use super::block::BlockCompiler;
use super::regs::{RAX, RCX};

impl BlockCompiler<'_> {
    /// Emits such an instruction; `false` if `inst` has no template here.
    pub fn bits(&mut self, inst: &Inst) -> bool {
        self.unary(inst) || self.shifted(inst) || self.single_bit(inst) || self.two(inst)
    }

    /// `rd = f(rs1)`.
    fn unary(&mut self, inst: &Inst) -> bool {
        let known = matches!(
            inst.op,
            Op::Clz
                | Op::Ctz
                | Op::Cpop
                | Op::Clzw
                | Op::Ctzw
                | Op::Cpopw
                | Op::SextB
                | Op::SextH
                | Op::OrcB
                | Op::Rev8
        );
        if !known {
            return false;
        }
        let to = self.target(inst.rd);
        let a = self.value(inst.rs1, RAX);
        match inst.op {
            Op::Clz => dynasm!(self.ops; .arch x64; lzcnt Rq(to), Rq(a)),
            Op::Ctz => dynasm!(self.ops; .arch x64; tzcnt Rq(to), Rq(a)),
            Op::Cpop => dynasm!(self.ops; .arch x64; popcnt Rq(to), Rq(a)),
            Op::Clzw => dynasm!(self.ops; .arch x64; lzcnt Rd(to), Rd(a)),
            Op::Ctzw => dynasm!(self.ops; .arch x64; tzcnt Rd(to), Rd(a)),
            Op::Cpopw => dynasm!(self.ops; .arch x64; popcnt Rd(to), Rd(a)),
            Op::SextB => dynasm!(self.ops; .arch x64; movsx Rq(to), Rb(a)),
            Op::SextH => dynasm!(self.ops; .arch x64; movsx Rq(to), Rw(a)),
            Op::Rev8 => {
                self.copy(to, a);
                dynasm!(self.ops; .arch x64; bswap Rq(to));
            }
            // Bytes equal to zero become ones: their complement is orc.b.
            _ => dynasm!(self.ops
                ; .arch x64
                ; movq xmm0, Rq(a)
                ; pxor xmm1, xmm1
                ; pcmpeqb xmm0, xmm1
                ; movq Rq(to), xmm0
                ; not Rq(to)
            ),
        }
        self.put(inst.rd, to);
        true
    }

    /// Zba with a zero-extended word, and rotations.
    fn shifted(&mut self, inst: &Inst) -> bool {
        let by = inst.imm as i8;
        match inst.op {
            Op::Sh1addUw | Op::Sh2addUw | Op::Sh3addUw => {
                let a = self.value(inst.rs1, RAX);
                dynasm!(self.ops; .arch x64; mov eax, Rd(a));
                let b = self.value(inst.rs2, RCX);
                match inst.op {
                    Op::Sh1addUw => dynasm!(self.ops; .arch x64; lea rax, [Rq(b) + rax * 2]),
                    Op::Sh2addUw => dynasm!(self.ops; .arch x64; lea rax, [Rq(b) + rax * 4]),
                    _ => dynasm!(self.ops; .arch x64; lea rax, [Rq(b) + rax * 8]),
                }
            }
            Op::SlliUw => {
                let a = self.value(inst.rs1, RAX);
                dynasm!(self.ops; .arch x64; mov eax, Rd(a); shl rax, by & 63);
            }
            Op::Rol | Op::Ror | Op::Rolw | Op::Rorw => {
                self.fetch(RAX, inst.rs1);
                self.fetch(RCX, inst.rs2);
                match inst.op {
                    Op::Rol => dynasm!(self.ops; .arch x64; rol rax, cl),
                    Op::Ror => dynasm!(self.ops; .arch x64; ror rax, cl),
                    Op::Rolw => dynasm!(self.ops; .arch x64; rol eax, cl; cdqe),
                    _ => dynasm!(self.ops; .arch x64; ror eax, cl; cdqe),
                }
            }
            Op::Rori => {
                self.fetch(RAX, inst.rs1);
                dynasm!(self.ops; .arch x64; ror rax, by & 63);
            }
            Op::Roriw => {
                self.fetch(RAX, inst.rs1);
                dynasm!(self.ops; .arch x64; ror eax, by & 31; cdqe);
            }
            _ => return false,
        }
        self.put(inst.rd, RAX);
        true
    }

    /// Zbs.
    fn single_bit(&mut self, inst: &Inst) -> bool {
        let by = (inst.imm & 63) as i8;
        if matches!(inst.op, Op::Bclr | Op::Bext | Op::Binv | Op::Bset) {
            self.fetch(RAX, inst.rs1);
            let b = self.value(inst.rs2, RCX);
            if inst.op == Op::Bext {
                dynasm!(self.ops; .arch x64; shrx rax, rax, Rq(b); and eax, 1);
            } else {
                dynasm!(self.ops; .arch x64; mov edx, 1; shlx rdx, rdx, Rq(b));
            }
            match inst.op {
                Op::Bclr => dynasm!(self.ops; .arch x64; andn rax, rdx, rax),
                Op::Binv => dynasm!(self.ops; .arch x64; xor rax, rdx),
                Op::Bset => dynasm!(self.ops; .arch x64; or rax, rdx),
                _ => {}
            }
        } else {
            if !matches!(inst.op, Op::Bclri | Op::Bexti | Op::Binvi | Op::Bseti) {
                return false;
            }
            self.fetch(RAX, inst.rs1);
            match inst.op {
                Op::Bclri => dynasm!(self.ops; .arch x64; btr rax, BYTE by),
                Op::Binvi => dynasm!(self.ops; .arch x64; btc rax, BYTE by),
                Op::Bseti => dynasm!(self.ops; .arch x64; bts rax, BYTE by),
                _ => dynasm!(self.ops; .arch x64; shr rax, by; and eax, 1),
            }
        }
        self.put(inst.rd, RAX);
        true
    }

    /// `rd = f(rs1, rs2)`.
    fn two(&mut self, inst: &Inst) -> bool {
        let known = matches!(
            inst.op,
            Op::Andn
                | Op::Orn
                | Op::Xnor
                | Op::Min
                | Op::Minu
                | Op::Max
                | Op::Maxu
                | Op::CzeroEqz
                | Op::CzeroNez
                | Op::Divw
                | Op::Divuw
                | Op::Remw
                | Op::Remuw
        );
        if !known {
            return false;
        }
        self.fetch(RAX, inst.rs1);
        self.fetch(RCX, inst.rs2);
        match inst.op {
            Op::Andn => dynasm!(self.ops; .arch x64; andn rax, rcx, rax),
            Op::Orn => dynasm!(self.ops; .arch x64; not rcx; or rax, rcx),
            Op::Xnor => dynasm!(self.ops; .arch x64; xor rax, rcx; not rax),
            Op::Min => dynasm!(self.ops; .arch x64; cmp rax, rcx; cmovg rax, rcx),
            Op::Minu => dynasm!(self.ops; .arch x64; cmp rax, rcx; cmova rax, rcx),
            Op::Max => dynasm!(self.ops; .arch x64; cmp rax, rcx; cmovl rax, rcx),
            Op::Maxu => dynasm!(self.ops; .arch x64; cmp rax, rcx; cmovb rax, rcx),
            Op::CzeroEqz => dynasm!(self.ops; .arch x64; test rcx, rcx; cmovz rax, rcx),
            Op::CzeroNez => {
                dynasm!(self.ops; .arch x64; xor edx, edx; test rcx, rcx; cmovnz rax, rdx);
            }
            Op::Divw | Op::Remw => {
                // In 64 bits no quotient of words overflows.
                dynasm!(self.ops
                    ; .arch x64
                    ; movsxd rcx, ecx
                    ; cdqe
                    ; test ecx, ecx
                    ; jz >zero
                    ; cqo
                    ; idiv rcx
                );
                self.word_result(inst.op == Op::Divw);
            }
            _ => {
                dynasm!(self.ops
                    ; .arch x64
                    ; test ecx, ecx
                    ; jz >zero
                    ; xor edx, edx
                    ; div ecx
                );
                self.word_result(inst.op == Op::Divuw);
            }
        }
        self.put(inst.rd, RAX);
        true
    }

    /// Moves the quotient or remainder of a division to `rd`; after a division by zero all ones, or
    /// the dividend in `eax`.
    fn word_result(&mut self, quotient: bool) {
        if quotient {
            dynasm!(self.ops
                ; .arch x64
                ; jmp >done
                ; zero:
                ; mov eax, -1
                ; done:
                ; cdqe
            );
        } else {
            dynasm!(self.ops
                ; .arch x64
                ; mov eax, edx
                ; zero:
                ; cdqe
            );
        }
    }
}
