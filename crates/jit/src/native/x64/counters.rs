//! Virtual time and retired instructions, in one register ([`Counters`](crate::Counters)).

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};

use super::compiler::BlockCompiler;
use super::encode::{self, Alu, Width};
use super::regs::{Host, R15, RBX, at};
use crate::context::INSTRUCTION_BITS;
use crate::native::region::Charge;

impl BlockCompiler<'_> {
    /// Emits the charge of the block by itself. Changes `rax` and flags.
    pub fn charge_block(&mut self) {
        let mut charge = Charge::of(self.source);
        // In a number, each instruction takes a cycle.
        let beyond = charge.instructions - charge.cycles;
        if beyond > 0 {
            charge.instructions -= beyond;
            encode::alu_memory_value(&mut self.ops, Alu::Add, RBX, at!(instret), beyond);
        }
        self.count(charge);
    }

    /// Emits an addition to cycles and instructions. Changes `rax` and flags.
    pub fn count(&mut self, charge: Charge) {
        let by = i64::from(charge.cycles) << INSTRUCTION_BITS;
        let by = by + i64::from(charge.instructions);
        match i32::try_from(by) {
            Ok(0) => {}
            Ok(by) => encode::alu_value(&mut self.ops, Alu::Add, Width::Bits64, R15, by),
            Err(_) => dynasm!(self.ops; .arch x64; mov rax, QWORD by; add r15, rax),
        }
    }

    /// Emits a jump to `over` that is taken if `before` cycles later the limit is reached. Changes
    /// `rax` and flags.
    pub fn check_count(&mut self, before: i32, over: DynamicLabel) {
        let least = -(i64::from(before) << INSTRUCTION_BITS);
        match i32::try_from(least) {
            Ok(0) => dynasm!(self.ops; .arch x64; test r15, r15),
            Ok(least) => encode::alu_value(&mut self.ops, Alu::Cmp, Width::Bits64, R15, least),
            Err(_) => dynasm!(self.ops; .arch x64; mov rax, QWORD least; cmp r15, rax),
        }
        dynasm!(self.ops; .arch x64; jge =>over);
    }

    /// `to` = virtual time in cycles. Changes flags.
    pub fn virtual_time(&mut self, to: Host) {
        encode::copy(&mut self.ops, to, R15);
        dynasm!(self.ops
            ; .arch x64
            ; sar Rq(to), INSTRUCTION_BITS as i8
            ; add Rq(to), [rbx + at!(counters.zero)]
        );
    }
}
