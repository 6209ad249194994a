//! CSR instructions: a helper executes them.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{Inst, Op};
use trapless_isa::port::CsrOp;

use super::compiler::{BlockCompiler, Slow};
use super::encode;
use super::regs::{PAGE, X0, X1, X16};
use super::trampolines;
use crate::{CSR_DONE, CsrRequest, Position};

impl BlockCompiler<'_> {
    /// Emits a CSR instruction; these end blocks.
    pub fn csr(&mut self, inst: &Inst, at: Position) {
        let slow = Slow {
            csr: Some(*inst),
            ..self.slow_path(at)
        };
        dynasm!(self.ops; .arch aarch64; b =>slow.out; =>slow.back);
        self.cold.slow.push(slow);
    }

    /// Emits a call of the helper for a CSR instruction; the block resumes at `back`.
    pub fn call_csr(&mut self, inst: &Inst, at: Position, back: DynamicLabel) {
        if matches!(inst.op, Op::Csrrwi | Op::Csrrsi | Op::Csrrci) {
            encode::set(&mut self.ops, X1, inst.rs1.into());
        } else {
            let operand = self.value(inst.rs1, X1);
            encode::copy(&mut self.ops, X1, operand);
        }
        let request = CsrRequest::new(inst.imm as u16 & 0xFFF, CsrOp::of(inst, 0));
        encode::set(&mut self.ops, X0, request.bits().into());
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
}
