//! Virtual time and retired instructions, in one register ([`Counters`](crate::Counters)).

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};

use super::compiler::{BlockCompiler, Limit};
use super::encode::{self, Alu, Width};
use super::regs::{Host, R15, RBX, RDX, at};
use super::trampolines::CHARGE;
use crate::context::INSTRUCTION_BITS;
use crate::native::region::Charge;
use crate::native::target::Target;

/// Cycles and instructions as one number.
fn sum(charge: Charge) -> i64 {
    (i64::from(charge.cycles) << INSTRUCTION_BITS) + i64::from(charge.instructions)
}

impl BlockCompiler<'_> {
    /// Emits the check of the limit and the charge of the block by itself, which begins at `start`,
    /// here. Changes `rax` and flags.
    pub fn begin_block(&mut self, start: DynamicLabel) {
        let mut charge = Charge::of(self.source);
        // In a number, each instruction takes a cycle.
        let beyond = (charge.instructions - charge.cycles).max(0);
        charge.instructions -= beyond;
        let over = self.ops.new_dynamic_label();
        let alone = matches!(self.targets.again(self.source, start), Target::Label(_));
        // Most blocks are charged first: nearly always the sum tells that they may begin. Of a
        // cycle or more, it has too many bits for a short addition.
        let first = match (self.source.crossing, i32::try_from(sum(charge))) {
            (None, Ok(by)) if charge.cycles > 0 && alone => {
                let here = self.ops.offset().0;
                self.count(charge);
                dynasm!(self.ops; .arch x64; jge =>over);
                debug_assert_eq!(self.ops.offset().0 - here, CHARGE as usize);
                by
            }
            (crossing, _) => {
                self.check_count(0, over);
                if let Some(bits) = crossing {
                    self.crossing(bits);
                }
                self.count(charge);
                0
            }
        };
        if beyond != 0 {
            encode::alu_memory_value(&mut self.ops, Alu::Add, RBX, at!(instret), beyond);
        }
        self.cold.limit = Some(Limit { over, start, first });
    }

    /// Emits what happens where a block has reached the limit, or does so by its charge.
    pub fn at_limit(&mut self, limit: &Limit) {
        let Limit { over, start, first } = *limit;
        let again = self.targets.again(self.source, start);
        let go_on = match again {
            Target::Label(label) => label,
            Target::Code(_) => self.ops.new_dynamic_label(),
        };
        let (offset, mut leave) = (self.source.offset as i32, self.trampolines.limit as usize);
        dynasm!(self.ops; .arch x64; =>over);
        if first != 0 {
            encode::set(&mut self.ops, RDX, first);
            leave = self.trampolines.charged as usize;
        }
        dynasm!(self.ops
            ; .arch x64
            ; lea rax, [=>go_on]
            ; add r13, offset
            ; jmp extern leave
        );
        if let Target::Code(original) = again {
            dynasm!(self.ops; .arch x64; =>go_on; jmp extern original);
        }
    }

    /// Emits an addition to cycles and instructions. Changes `rax` and flags.
    pub fn count(&mut self, charge: Charge) {
        let by = sum(charge);
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
