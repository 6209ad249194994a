//! CSR instructions: inline for [`PlainCsr`]s, `sstatus`, `time`, `vsie`, `fcsr` and a guest's
//! `stimecmp`, as far as they have no side effects; a helper for others.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::csr::{self, status};
use trapless_isa::inst::{Inst, NO_REG, Op};
use trapless_isa::port::CsrOp;

use super::compiler::{BlockCompiler, Slow};
use super::control::Way;
use super::regs::{BIAS, Host, RAX, RCX, RDX, at};
use super::trampolines::Goal;
use crate::{
    CSR_DONE, CsrPlace, CsrRead, CsrRequest, CsrWrite, FLOAT_DIRTY, FLOAT_NEAREST, PlainCsr,
    Position,
};

/// `sstatus.SIE`, as an immediate operand.
const SIE: i32 = status::SIE as i32;
/// Fields of `sstatus` about interrupts, which compiled code can change.
const INTERRUPT_FIELDS: i32 = (status::SIE | status::SPIE | status::SPP) as i32;
/// `sstatus.FS`, likewise.
const FS: i32 = status::FS as i32;
/// `sstatus.SUM`, likewise.
const SUM: i32 = status::SUM as i32;

/// Displacement of `vstimecmp`.
const VSTIMECMP: i32 = at!(timer.compare) + 8;

/// The access of a CSR instruction, without its operand.
fn op(inst: &Inst) -> CsrOp {
    CsrOp::of(inst, 0)
}

fn number(inst: &Inst) -> u16 {
    inst.imm as u16 & 0xFFF
}

impl BlockCompiler<'_> {
    /// Emits a CSR instruction; these end blocks.
    pub fn csr(&mut self, inst: &Inst, at: Position) {
        let slow = Slow {
            csr: Some(*inst),
            ..self.slow_path(at)
        };
        let known = match number(inst) {
            csr::SSTATUS => {
                self.status(inst, &slow);
                true
            }
            csr::TIME => self.time(inst, &slow),
            csr::STIMECMP => self.guest_timer(inst, &slow),
            csr::FCSR | csr::FFLAGS | csr::FRM => self.float_control(inst, &slow),
            csr::VSIE => self.guest_enables(inst, &slow),
            number => match self.options.plain_csrs.iter().find(|(n, _)| *n == number) {
                Some((_, plain)) => self.plain(inst, plain, &slow),
                None => false,
            },
        };
        if !known {
            dynasm!(self.ops; .arch x64; jmp =>slow.out);
        }
        dynasm!(self.ops; .arch x64; =>slow.back);
        self.cold.slow.push(slow);
    }

    /// Emits a call of the helper for a CSR instruction; the block resumes at `back`.
    pub fn call_csr(&mut self, inst: &Inst, at: Position, back: DynamicLabel) {
        self.csr_operand(inst, RDX);
        let request = CsrRequest::new(number(inst), op(inst)).bits() as i32;
        let csr = self.trampolines.csr as usize;
        dynasm!(self.ops
            ; .arch x64
            ; mov eax, request
            ; call extern csr
            ; cmp edx, CSR_DONE as i32
            ; jb >refused
        );
        self.put(inst.rd, RAX);
        let next = at.offset() as i32 + i32::from(inst.len);
        dynasm!(self.ops; .arch x64; je =>back);
        self.by_lookup(Way::Jump, Goal::Offset(next));
        dynasm!(self.ops; .arch x64; refused:);
        self.finish(at);
    }

    /// Moves the second operand to `host`.
    fn csr_operand(&mut self, inst: &Inst, host: Host) {
        if matches!(inst.op, Op::Csrrwi | Op::Csrrsi | Op::Csrrci) {
            dynasm!(self.ops; .arch x64; mov Rd(host), i32::from(inst.rs1));
        } else {
            self.fetch(host, inst.rs1);
        }
    }

    fn plain(&mut self, inst: &Inst, plain: &PlainCsr, slow: &Slow) -> bool {
        let op = op(inst);
        let blind = matches!(op, CsrOp::Write(_));
        if op != CsrOp::Read && matches!(plain.write, CsrWrite::Unknown)
            || !blind && plain.read == CsrRead::Unknown
        {
            return false;
        }
        // rcx: address of the register.
        match plain.place {
            CsrPlace::Bank(offset) => {
                dynasm!(self.ops
                    ; .arch x64
                    ; mov rcx, [rbx + at!(csr.bank)]
                    ; test rcx, rcx
                    ; jz =>slow.out
                    ; add rcx, offset as i32
                );
            }
            CsrPlace::Host(offset) => self.of_hart(at!(csr.hs), offset, slow),
            CsrPlace::Machine(offset) => self.of_hart(at!(csr.machine), offset, slow),
        }
        dynasm!(self.ops; .arch x64; mov rdx, [rcx]);
        if plain.read == CsrRead::Status {
            debug_assert!(matches!(plain.write, CsrWrite::Same(_)));
            dynasm!(self.ops
                ; .arch x64
                ; mov eax, edx
                ; and eax, FS
                ; cmp eax, FS
                ; sete al
                ; shl rax, 63
                ; or rdx, rax
            );
        }
        if op != CsrOp::Read && !matches!(plain.write, CsrWrite::Ignored) {
            self.csr_operand(inst, RAX);
            match op {
                CsrOp::Set(_) => dynasm!(self.ops; .arch x64; or rax, rdx),
                CsrOp::Clear(_) => dynasm!(self.ops; .arch x64; andn rax, rax, rdx),
                _ => {}
            }
            self.write_plain(plain.write, slow);
        }
        self.put(inst.rd, RDX);
        true
    }

    /// `rcx` = the address of the register at `offset`; takes the slow path if the byte of the
    /// context with the displacement `allowed` is 0.
    fn of_hart(&mut self, allowed: i32, offset: usize, slow: &Slow) {
        let at = offset as i32 - BIAS as i32;
        dynasm!(self.ops
            ; .arch x64
            ; cmp BYTE [rbx + allowed], 0
            ; je =>slow.out
            ; lea rcx, [rbx + at]
        );
    }

    /// Writes `rax` to the register at `rcx`, whose value is in `rdx`. Changes `rax`.
    fn write_plain(&mut self, write: CsrWrite, slow: &Slow) {
        match write {
            CsrWrite::Unknown | CsrWrite::Ignored => {}
            CsrWrite::Same(mask) => {
                dynasm!(self.ops
                    ; .arch x64
                    ; xor rax, rdx
                    ; test rax, mask
                    ; jnz =>slow.out
                );
            }
            CsrWrite::Word => dynasm!(self.ops; .arch x64; mov eax, eax; mov [rcx], rax),
            CsrWrite::Bits { keep, take, refuse } => {
                if refuse != 0 {
                    dynasm!(self.ops; .arch x64; test rax, refuse; jnz =>slow.out);
                }
                if take != -1 {
                    dynasm!(self.ops; .arch x64; and rax, take);
                }
                if keep == 0 {
                    dynasm!(self.ops; .arch x64; mov [rcx], rax);
                } else {
                    dynasm!(self.ops; .arch x64; and QWORD [rcx], keep; or [rcx], rax);
                }
            }
        }
    }

    /// Emits an access of `sstatus`. Writes that change other fields than SIE, SPIE, SPP, SUM and
    /// FS take the slow path.
    fn status(&mut self, inst: &Inst, slow: &Slow) {
        let o = self.options;
        let op = op(inst);
        let known = INTERRUPT_FIELDS | SUM | if o.float_switchable { FS } else { 0 };
        dynasm!(self.ops
            ; .arch x64
            ; mov rcx, [rbx + at!(csr.status)]
            ; test rcx, rcx
            ; jz =>slow.out
            ; mov rdx, [rcx]
        );
        if op != CsrOp::Read {
            self.csr_operand(inst, RAX);
            // rax: the bits that change.
            match op {
                CsrOp::Set(_) => dynasm!(self.ops; .arch x64; andn rax, rdx, rax),
                CsrOp::Clear(_) => dynasm!(self.ops; .arch x64; and rax, rdx),
                _ => dynasm!(self.ops; .arch x64; xor rax, rdx),
            }
            dynasm!(self.ops
                ; .arch x64
                ; and eax, o.status_written as i32
                ; test eax, !known
                ; jnz =>slow.out
                ; test eax, SUM
                ; jz >same
                ; cmp QWORD [rbx + at!(twin_tlb)], 0
                ; je =>slow.out
                ; same:
            );
            if !matches!(op, CsrOp::Clear(_)) {
                // An interrupt that is pending and enabled would be taken now.
                dynasm!(self.ops
                    ; .arch x64
                    ; test eax, SIE
                    ; jz >quiet
                    ; test edx, SIE
                    ; jnz >quiet
                    ; mov rdx, [rbx + at!(interrupts.mip)]
                    ; test rdx, [rbx + at!(interrupts.mie)]
                    ; jnz =>slow.out
                    ; mov rdx, [rbx + at!(interrupts.vsip)]
                    ; test rdx, [rbx + at!(interrupts.vsie)]
                    ; jnz =>slow.out
                    ; mov rdx, [rcx]
                    ; quiet:
                );
            }
            dynasm!(self.ops
                ; .arch x64
                ; xor [rcx], rax
                ; or DWORD [rbx + at!(csr.status_changed)], eax
            );
            if o.float_switchable {
                self.float_switched();
            }
            dynasm!(self.ops
                ; .arch x64
                ; test eax, SUM
                ; jz >same
                ; mov rcx, [rbx + at!(twin_tlb)]
                ; mov [rbx + at!(twin_tlb)], rbp
                ; mov [rbx + at!(data_tlb)], rcx
                ; mov rbp, rcx
                ; inc QWORD [rbx + at!(sum_changes)]
                ; same:
            );
        }
        if inst.rd != NO_REG {
            // SD is set if FS is dirty.
            dynasm!(self.ops
                ; .arch x64
                ; mov rax, QWORD o.status_shown as i64
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
    }

    /// Updates the state of floating point after the bits in `eax` of the status register at `rcx`
    /// were changed. Changes `rcx`.
    fn float_switched(&mut self) {
        dynasm!(self.ops
            ; .arch x64
            ; test eax, FS
            ; jz >same
            ; mov ecx, [rcx]
            ; and ecx, FS
            ; cmp ecx, FS
            ; mov ecx, 0
            ; jne >off
            ; mov cl, [rbx + at!(float.ready)]
            ; off:
            ; mov [rbx + at!(float.state)], cl
            ; same:
        );
    }

    /// Emits reads of `fcsr`, `fflags` and `frm`, writes of `fcsr` and `fflags`, and setting bits
    /// of `fflags`, while FS is dirty; `false` for other accesses.
    fn float_control(&mut self, inst: &Inst, slow: &Slow) -> bool {
        let (number, op) = (number(inst), op(inst));
        let known = match op {
            CsrOp::Read => true,
            CsrOp::Write(_) => number != csr::FRM,
            CsrOp::Set(_) => number == csr::FFLAGS && inst.rd == NO_REG,
            _ => false,
        };
        if !known {
            return false;
        }
        dynasm!(self.ops
            ; .arch x64
            ; cmp BYTE [rbx + at!(float.state)], 0
            ; je =>slow.out
        );
        if op == CsrOp::Read {
            if number != csr::FRM {
                let fflags = self.trampolines.fflags as usize;
                dynasm!(self.ops; .arch x64; call extern fflags);
            }
            if number != csr::FFLAGS {
                dynasm!(self.ops; .arch x64; movzx ecx, BYTE [rbx + at!(float.frm)]);
            }
            match number {
                csr::FRM => dynasm!(self.ops; .arch x64; mov eax, ecx),
                csr::FCSR => dynasm!(self.ops; .arch x64; shl ecx, 5; or eax, ecx),
                _ => {}
            }
            self.put(inst.rd, RAX);
            return true;
        }
        self.csr_operand(inst, RAX);
        if matches!(op, CsrOp::Set(_)) {
            // Flags that the host holds in `mxcsr` are merged later.
            dynasm!(self.ops; .arch x64; and eax, 0x1F; or [rbx + at!(float.fflags)], al);
            return true;
        }
        if number == csr::FCSR {
            dynasm!(self.ops
                ; .arch x64
                ; mov ecx, eax
                ; shr ecx, 5
                ; and ecx, 7
                ; mov [rbx + at!(float.frm)], cl
                ; mov ecx, i32::from(FLOAT_DIRTY | FLOAT_NEAREST)
                ; mov edx, i32::from(FLOAT_DIRTY)
                ; cmovnz ecx, edx
                ; mov [rbx + at!(float.state)], cl
                ; mov [rbx + at!(float.ready)], cl
            );
        }
        dynasm!(self.ops
            ; .arch x64
            ; and eax, 0x1F
            ; mov [rbx + at!(float.fflags)], al
            ; cmp BYTE [rbx + at!(float.used)], 0
            ; je >unused
            ; mov BYTE [rbx + at!(float.used)], 0
            ; ldmxcsr [rbx + at!(float.clean)]
            ; unused:
        );
        true
    }

    /// Emits a read of `vsie` in HS-mode, or a write of the value that it has; `false` for other
    /// accesses.
    fn guest_enables(&mut self, inst: &Inst, slow: &Slow) -> bool {
        let op = op(inst);
        let blind = matches!(op, CsrOp::Write(_));
        if op != CsrOp::Read && !blind {
            return false;
        }
        dynasm!(self.ops
            ; .arch x64
            ; cmp BYTE [rbx + at!(csr.hs)], 0
            ; je =>slow.out
            ; mov rcx, [rbx + at!(csr.vsie_from)]
            ; test rcx, rcx
            ; jz =>slow.out
            ; mov rax, [rcx]
            ; and rax, [rbx + at!(csr.vsie_shown)]
            ; shr rax, 1
        );
        if blind {
            self.csr_operand(inst, RDX);
            dynasm!(self.ops; .arch x64; cmp rax, rdx; jne =>slow.out);
        } else {
            self.put(inst.rd, RAX);
        }
        true
    }

    /// Emits a read of `time`; `false` for other accesses.
    fn time(&mut self, inst: &Inst, slow: &Slow) -> bool {
        if op(inst) != CsrOp::Read {
            return false;
        }
        let o = self.options;
        dynasm!(self.ops
            ; .arch x64
            ; cmp BYTE [rbx + at!(csr.time_readable)], 0
            ; je =>slow.out
        );
        self.virtual_time(RAX);
        if o.cycles_per_tick != 1 {
            dynasm!(self.ops
                ; .arch x64
                ; mov rcx, QWORD o.cycles_per_tick as i64
                ; xor edx, edx
                ; div rcx
            );
        }
        dynasm!(self.ops; .arch x64; add rax, [rbx + at!(csr.time_delta)]);
        self.put(inst.rd, RAX);
        true
    }

    /// Emits a write of `stimecmp`, which is noted if neither the old value nor the new one is due
    /// soon; `false` for other accesses.
    fn guest_timer(&mut self, inst: &Inst, slow: &Slow) -> bool {
        if !matches!(op(inst), CsrOp::Write(_)) {
            return false;
        }
        self.csr_operand(inst, RAX);
        dynasm!(self.ops
            ; .arch x64
            ; mov rcx, [rbx + at!(timer.floor)]
            ; cmp rax, rcx
            ; jbe =>slow.out
            ; cmp [rbx + VSTIMECMP], rcx
            ; jbe =>slow.out
            ; mov [rbx + VSTIMECMP], rax
            ; cmp rax, [rbx + at!(timer.ceiling)]
            ; adc QWORD [rbx + at!(timer.armed)], 0
        );
        self.virtual_time(RCX);
        dynasm!(self.ops
            ; .arch x64
            ; cmp QWORD [rbx + at!(timer.writes)], 0
            ; jne >again
            ; mov [rbx + at!(timer.first)], rcx
            ; again:
            ; inc QWORD [rbx + at!(timer.writes)]
            ; mov [rbx + at!(timer.last)], rcx
        );
        true
    }
}
