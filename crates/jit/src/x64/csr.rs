//! CSRs without side effects, and the interrupt-enable bit of `sstatus`.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::csr;
use trapless_isa::inst::{Inst, Op};

use super::block::{BlockCompiler, Slow};
use super::regs::{RAX, RDX};
use crate::{CsrPlace, PlainCsr, Position};

/// `sstatus.SIE`.
const SIE: i32 = 2;
/// `sstatus.FS`.
const FS: i32 = 3 << 13;

/// What a CSR instruction does to the register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    Replace,
    Set,
    Clear,
}

fn change(inst: &Inst) -> Change {
    match inst.op {
        Op::Csrrw | Op::Csrrwi => Change::Replace,
        _ if inst.rs1 == 0 => Change::Nothing,
        Op::Csrrs | Op::Csrrsi => Change::Set,
        _ => Change::Clear,
    }
}

fn immediate(inst: &Inst) -> bool {
    matches!(inst.op, Op::Csrrwi | Op::Csrrsi | Op::Csrrci)
}

impl BlockCompiler<'_> {
    /// Emits a CSR instruction, the last of its block; `false` if it has no template.
    pub fn csr(&mut self, inst: &Inst, at: Position) -> bool {
        let number = inst.imm as u16 & 0xFFF;
        let slow = self.slow_end(at);
        let done = if number == csr::SSTATUS {
            self.status(inst, &slow)
        } else {
            match (self.offsets.plain_csr)(number) {
                Some(plain) => self.plain(inst, &plain, &slow),
                None => false,
            }
        };
        if done {
            self.slow.push(slow);
            self.goto(self.at + i32::from(inst.len));
        }
        done
    }

    fn plain(&mut self, inst: &Inst, plain: &PlainCsr, slow: &Slow) -> bool {
        let change = change(inst);
        let write = match (change, plain.write) {
            (Change::Nothing, _) => None,
            (_, Some(write)) => Some(write),
            (_, None) => return false,
        };
        // rcx: where the register is.
        match plain.place {
            CsrPlace::Bank(offset) => {
                let bank = self.offsets.bank;
                dynasm!(self.ops
                    ; .arch x64
                    ; mov rcx, [rbx + bank]
                    ; test rcx, rcx
                    ; jz =>slow.out
                    ; add rcx, offset as i32
                );
            }
            CsrPlace::Host(offset) => {
                let (hs, at) = (self.offsets.hs, self.offsets.at(offset));
                dynasm!(self.ops
                    ; .arch x64
                    ; cmp BYTE [rbx + hs], 0
                    ; je =>slow.out
                    ; lea rcx, [rbx + at]
                );
            }
        }
        dynasm!(self.ops; .arch x64; mov rdx, [rcx]);
        if let Some((keep, mask)) = write {
            if immediate(inst) {
                let value = i32::from(inst.rs1);
                dynasm!(self.ops; .arch x64; mov eax, value);
            } else {
                self.fetch(RAX, inst.rs1);
            }
            match change {
                Change::Set => dynasm!(self.ops; .arch x64; or rax, rdx),
                Change::Clear => dynasm!(self.ops; .arch x64; andn rax, rax, rdx),
                _ => {}
            }
            if mask != -1 {
                dynasm!(self.ops; .arch x64; and rax, mask);
            }
            if keep == 0 {
                dynasm!(self.ops; .arch x64; mov [rcx], rax);
            } else {
                dynasm!(self.ops; .arch x64; and QWORD [rcx], keep; or [rcx], rax);
            }
        }
        self.put(inst.rd, RDX);
        true
    }

    /// `sstatus`: read, or SIE changed. Other fields have effects.
    fn status(&mut self, inst: &Inst, slow: &Slow) -> bool {
        let change = change(inst);
        let clear = match change {
            Change::Replace => return false,
            Change::Clear => true,
            Change::Nothing | Change::Set => false,
        };
        if change != Change::Nothing && immediate(inst) && i32::from(inst.rs1) != SIE {
            return false;
        }
        let status = self.offsets.status;
        dynasm!(self.ops
            ; .arch x64
            ; mov rcx, [rbx + status]
            ; test rcx, rcx
            ; jz =>slow.out
        );
        if change != Change::Nothing {
            if immediate(inst) {
                dynasm!(self.ops; .arch x64; mov eax, SIE);
            } else {
                self.fetch(RAX, inst.rs1);
                dynasm!(self.ops; .arch x64; test rax, !SIE; jnz =>slow.out);
            }
            if !clear {
                // What is enabled and pending might be taken now.
                let o = self.offsets;
                dynasm!(self.ops
                    ; .arch x64
                    ; mov rdx, [rbx + o.mip]
                    ; test rdx, [rbx + o.mie]
                    ; jnz =>slow.out
                    ; mov rdx, [rbx + o.vsip]
                    ; test rdx, [rbx + o.vsie]
                    ; jnz =>slow.out
                );
            }
        }
        dynasm!(self.ops; .arch x64; mov rdx, [rcx]);
        match change {
            Change::Set => dynasm!(self.ops; .arch x64; or [rcx], rax),
            Change::Clear => dynasm!(self.ops; .arch x64; not rax; and [rcx], rax),
            _ => {}
        }
        if inst.rd != 32 {
            // SD says that FS is dirty.
            let shown = self.offsets.status_shown;
            dynasm!(self.ops
                ; .arch x64
                ; mov rax, QWORD shown
                ; and rax, rdx
                ; and edx, FS
                ; xor ecx, ecx
                ; cmp edx, FS
                ; sete cl
                ; shl rcx, 63
                ; or rax, rcx
            );
            self.put(inst.rd, RAX);
        }
        true
    }
}
