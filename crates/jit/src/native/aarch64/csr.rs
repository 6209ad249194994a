//! CSR instructions: inline for [`PlainCsr`]s, `sstatus`, `time`, `vsie` and a guest's `stimecmp`,
//! as far as they have no side effects; a helper for others.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::csr::{self, status};
use trapless_isa::inst::{Inst, NO_REG, Op};
use trapless_isa::port::CsrOp;

use super::compiler::{BlockCompiler, Slow};
use super::encode::{self, LOAD_8, LOAD_32, LOAD_64, Logical, STORE_8, STORE_32, STORE_64};
use super::regs::{CONTEXT, CYCLES, DATA_TLB, Host, PAGE, X0, X1, X2, X3, X16, at};
use super::trampolines;
use crate::{CSR_DONE, CsrPlace, CsrRead, CsrRequest, CsrWrite, PlainCsr, Position};

/// Fields of `sstatus` that compiled code can change, besides FS.
const CHANGEABLE: u64 = status::SIE | status::SPIE | status::SPP | status::SUM;

/// Offset of `vstimecmp`.
const VSTIMECMP: u32 = at!(timer.compare) + 8;

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
            csr::VSIE => self.guest_enables(inst, &slow),
            number => match self.options.plain_csrs.iter().find(|(n, _)| *n == number) {
                Some((_, plain)) => self.plain(inst, plain, &slow),
                None => false,
            },
        };
        if !known {
            dynasm!(self.ops; .arch aarch64; b =>slow.out);
        }
        dynasm!(self.ops; .arch aarch64; =>slow.back);
        self.cold.slow.push(slow);
    }

    /// Emits a call of the helper for a CSR instruction; the block resumes at `back`.
    pub fn call_csr(&mut self, inst: &Inst, at: Position, back: DynamicLabel) {
        self.csr_operand(inst, X1);
        let request = CsrRequest::new(number(inst), op(inst)).bits();
        encode::set(&mut self.ops, X0, request.into());
        self.ops.call(self.trampolines.csr as usize);
        dynasm!(self.ops
            ; .arch aarch64
            ; cmp x1, CSR_DONE as u32
            ; b.lo >refused
        );
        self.put(inst.rd, X0);
        dynasm!(self.ops; .arch aarch64; b.eq =>back);
        let next = at.offset() as i64 + i64::from(inst.len);
        encode::add(&mut self.ops, X16, PAGE, next);
        trampolines::lookup(&mut self.ops, self.trampolines.second_way);
        dynasm!(self.ops; .arch aarch64; refused:);
        self.finish(at);
    }

    /// Moves the second operand to `host`.
    fn csr_operand(&mut self, inst: &Inst, host: Host) {
        if matches!(inst.op, Op::Csrrwi | Op::Csrrsi | Op::Csrrci) {
            encode::set(&mut self.ops, host, inst.rs1.into());
        } else {
            let operand = self.value(inst.rs1, host);
            encode::copy(&mut self.ops, host, operand);
        }
    }

    /// Emits a load of a field of the context.
    fn field(&mut self, to: Host, offset: u32) {
        encode::memory(&mut self.ops, LOAD_64, to, CONTEXT, offset);
    }

    /// Takes the slow path if the byte at an offset of the context is 0.
    fn require(&mut self, offset: u32, slow: &Slow) {
        encode::memory(&mut self.ops, LOAD_8, X3, CONTEXT, offset);
        dynasm!(self.ops; .arch aarch64; cbz w3, =>slow.out);
    }

    fn plain(&mut self, inst: &Inst, plain: &PlainCsr, slow: &Slow) -> bool {
        let op = op(inst);
        let blind = matches!(op, CsrOp::Write(_));
        if op != CsrOp::Read && matches!(plain.write, CsrWrite::Unknown)
            || !blind && plain.read == CsrRead::Unknown
        {
            return false;
        }
        // x3: address of the register.
        match plain.place {
            CsrPlace::Bank(offset) => {
                self.field(X3, at!(csr.bank));
                dynasm!(self.ops; .arch aarch64; cbz x3, =>slow.out);
                encode::add(&mut self.ops, X3, X3, offset as i64);
            }
            CsrPlace::Host(offset) => {
                self.require(at!(csr.hs), slow);
                encode::add(&mut self.ops, X3, CONTEXT, offset as i64);
            }
            CsrPlace::Machine(offset) => {
                self.require(at!(csr.machine), slow);
                encode::add(&mut self.ops, X3, CONTEXT, offset as i64);
            }
        }
        encode::memory(&mut self.ops, LOAD_64, X2, X3, 0);
        if plain.read == CsrRead::Status {
            debug_assert!(matches!(plain.write, CsrWrite::Same(_)));
            self.dirty();
            dynasm!(self.ops; .arch aarch64; orr x2, x2, x1, lsl 63);
        }
        if op != CsrOp::Read && !matches!(plain.write, CsrWrite::Ignored) {
            self.csr_operand(inst, X0);
            match op {
                CsrOp::Set(_) => dynasm!(self.ops; .arch aarch64; orr x0, x0, x2),
                CsrOp::Clear(_) => dynasm!(self.ops; .arch aarch64; bic x0, x2, x0),
                _ => {}
            }
            self.write_plain(plain.write, slow);
        }
        self.put(inst.rd, X2);
        true
    }

    /// Writes `x0` to the register at `x3`, whose value is in `x2`. Changes `x0` and `x1`.
    fn write_plain(&mut self, write: CsrWrite, slow: &Slow) {
        let ops = &mut self.ops;
        match write {
            CsrWrite::Unknown | CsrWrite::Ignored => {}
            CsrWrite::Same(mask) => {
                dynasm!(ops; .arch aarch64; eor x0, x0, x2);
                encode::logical(ops, Logical::And, X0, X0, mask as i64 as u64);
                dynasm!(ops; .arch aarch64; cbnz x0, =>slow.out);
            }
            CsrWrite::Word => dynasm!(ops; .arch aarch64; mov w0, w0; str x0, [x3]),
            CsrWrite::Bits { keep, take, refuse } => {
                if refuse != 0 {
                    encode::logical(ops, Logical::And, X1, X0, refuse as i64 as u64);
                    dynasm!(ops; .arch aarch64; cbnz x1, =>slow.out);
                }
                if take != -1 {
                    encode::logical(ops, Logical::And, X0, X0, take as i64 as u64);
                }
                if keep != 0 {
                    encode::logical(ops, Logical::And, X1, X2, keep as i64 as u64);
                    dynasm!(ops; .arch aarch64; orr x0, x0, x1);
                }
                dynasm!(ops; .arch aarch64; str x0, [x3]);
            }
        }
    }

    /// Emits an access of `sstatus`. Writes that change other fields than SIE, SPIE, SPP, SUM and
    /// FS take the slow path.
    fn status(&mut self, inst: &Inst, slow: &Slow) {
        self.field(X3, at!(csr.status));
        dynasm!(self.ops; .arch aarch64; cbz x3, =>slow.out; ldr x2, [x3]);
        let op = op(inst);
        if op != CsrOp::Read {
            self.csr_operand(inst, X0);
            // x0: the bits that change.
            match op {
                CsrOp::Set(_) => dynasm!(self.ops; .arch aarch64; bic x0, x0, x2),
                CsrOp::Clear(_) => dynasm!(self.ops; .arch aarch64; and x0, x0, x2),
                _ => dynasm!(self.ops; .arch aarch64; eor x0, x0, x2),
            }
            self.change_status(op, slow);
        }
        if inst.rd != NO_REG {
            let (shown, to) = (self.options.status_shown, self.target(inst.rd));
            self.dirty();
            encode::logical(&mut self.ops, Logical::And, X2, X2, shown);
            dynasm!(self.ops; .arch aarch64; orr X(to), x2, x1, lsl 63);
            self.put(inst.rd, to);
        }
    }

    /// `x1` = SD of the status register in `x2`: 1 if FS is dirty, else 0.
    fn dirty(&mut self) {
        let fs = status::FS.trailing_zeros();
        dynasm!(self.ops
            ; .arch aarch64
            ; ubfx x1, x2, fs, 2
            ; cmp x1, 3
            ; cset x1, eq
        );
    }

    /// Changes the bits in `x0` of the register at `x3`, whose value is in `x2`, as far as they can
    /// be written. Changes `x0`, `x1` and `x16`.
    fn change_status(&mut self, op: CsrOp, slow: &Slow) {
        let (written, switchable) = (self.options.status_written, self.options.float_switchable);
        let known = CHANGEABLE | if switchable { status::FS } else { 0 };
        let sum = status::SUM.trailing_zeros();
        let sie = status::SIE.trailing_zeros();
        let ops = &mut self.ops;
        encode::logical(ops, Logical::And, X0, X0, written.into());
        encode::logical(ops, Logical::And, X1, X0, u64::from(written) & !known);
        dynasm!(ops; .arch aarch64; cbnz x1, =>slow.out; tbz w0, sum, >same);
        self.field(X1, at!(twin_tlb));
        dynasm!(self.ops; .arch aarch64; cbz x1, =>slow.out; same:);
        if !matches!(op, CsrOp::Clear(_)) {
            // An interrupt that is pending and enabled would be taken now.
            dynasm!(self.ops; .arch aarch64; tbz w0, sie, >quiet; tbnz w2, sie, >quiet);
            for (pending, enabled) in [
                (at!(interrupts.mip), at!(interrupts.mie)),
                (at!(interrupts.vsip), at!(interrupts.vsie)),
            ] {
                self.field(X1, pending);
                self.field(X16, enabled);
                dynasm!(self.ops; .arch aarch64; tst x1, x16; b.ne =>slow.out);
            }
            dynasm!(self.ops; .arch aarch64; quiet:);
        }
        let ops = &mut self.ops;
        dynasm!(ops; .arch aarch64; eor x1, x2, x0; str x1, [x3]);
        encode::memory(ops, LOAD_32, X16, CONTEXT, at!(csr.status_changed));
        dynasm!(ops; .arch aarch64; orr w16, w16, w0);
        encode::memory(ops, STORE_32, X16, CONTEXT, at!(csr.status_changed));
        if switchable {
            self.float_switched();
        }
        dynasm!(self.ops; .arch aarch64; tbz w0, sum, >same);
        self.field(X1, at!(twin_tlb));
        let ops = &mut self.ops;
        encode::memory(ops, STORE_64, DATA_TLB, CONTEXT, at!(twin_tlb));
        encode::memory(ops, STORE_64, X1, CONTEXT, at!(data_tlb));
        encode::copy(ops, DATA_TLB, X1);
        encode::memory(ops, LOAD_64, X1, CONTEXT, at!(sum_changes));
        encode::add(ops, X1, X1, 1);
        encode::memory(ops, STORE_64, X1, CONTEXT, at!(sum_changes));
        dynasm!(ops; .arch aarch64; same:);
    }

    /// Updates the state of floating point after the bits in `x0` of the status register, whose
    /// value is in `x1`, were changed. Changes `x1` and `x16`.
    fn float_switched(&mut self) {
        let fs = status::FS.trailing_zeros();
        dynasm!(self.ops
            ; .arch aarch64
            ; ubfx x16, x0, fs, 2
            ; cbz x16, >same
            ; ubfx x1, x1, fs, 2
        );
        encode::memory(&mut self.ops, LOAD_8, X16, CONTEXT, at!(float.ready));
        dynasm!(self.ops; .arch aarch64; cmp x1, 3; csel w16, w16, wzr, eq);
        encode::memory(&mut self.ops, STORE_8, X16, CONTEXT, at!(float.state));
        dynasm!(self.ops; .arch aarch64; same:);
    }

    /// Emits a read of `vsie` in HS-mode, or a write of the value that it has; `false` for other
    /// accesses.
    fn guest_enables(&mut self, inst: &Inst, slow: &Slow) -> bool {
        let op = op(inst);
        let blind = matches!(op, CsrOp::Write(_));
        if op != CsrOp::Read && !blind {
            return false;
        }
        self.require(at!(csr.hs), slow);
        self.field(X3, at!(csr.vsie_from));
        self.field(X1, at!(csr.vsie_shown));
        dynasm!(self.ops
            ; .arch aarch64
            ; cbz x3, =>slow.out
            ; ldr x0, [x3]
            ; and x0, x0, x1
            ; lsr x0, x0, 1
        );
        if blind {
            self.csr_operand(inst, X1);
            dynasm!(self.ops; .arch aarch64; cmp x0, x1; b.ne =>slow.out);
        } else {
            self.put(inst.rd, X0);
        }
        true
    }

    /// Emits a read of `time`; `false` for other accesses.
    fn time(&mut self, inst: &Inst, slow: &Slow) -> bool {
        if op(inst) != CsrOp::Read {
            return false;
        }
        self.require(at!(csr.time_readable), slow);
        encode::set(&mut self.ops, X1, self.options.cycles_per_tick);
        dynasm!(self.ops; .arch aarch64; udiv x0, x23, x1);
        self.field(X1, at!(csr.time_delta));
        dynasm!(self.ops; .arch aarch64; add x0, x0, x1);
        self.put(inst.rd, X0);
        true
    }

    /// Emits a write of `stimecmp`, which is noted if neither the old value nor the new one is due
    /// soon; `false` for other accesses.
    fn guest_timer(&mut self, inst: &Inst, slow: &Slow) -> bool {
        if !matches!(op(inst), CsrOp::Write(_)) {
            return false;
        }
        self.csr_operand(inst, X0);
        self.field(X1, at!(timer.floor));
        self.field(X2, VSTIMECMP);
        self.field(X3, at!(timer.ceiling));
        dynasm!(self.ops
            ; .arch aarch64
            ; cmp x0, x1
            ; b.ls =>slow.out
            ; cmp x2, x1
            ; b.ls =>slow.out
        );
        encode::memory(&mut self.ops, STORE_64, X0, CONTEXT, VSTIMECMP);
        self.field(X1, at!(timer.armed));
        self.field(X2, at!(timer.writes));
        // Values at or above the ceiling never fire.
        dynasm!(self.ops; .arch aarch64; cmp x0, x3; cinc x1, x1, lo; cbnz x2, >again);
        let ops = &mut self.ops;
        encode::memory(ops, STORE_64, CYCLES, CONTEXT, at!(timer.first));
        dynasm!(ops; .arch aarch64; again:);
        encode::add(ops, X2, X2, 1);
        for (host, field) in [
            (X1, at!(timer.armed)),
            (X2, at!(timer.writes)),
            (CYCLES, at!(timer.last)),
        ] {
            encode::memory(ops, STORE_64, host, CONTEXT, field);
        }
        true
    }
}
