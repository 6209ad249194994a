//! One block: limit check and charge, instructions, slow paths.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{CostClass, Inst, NO_REG};
use trapless_isa::semantics;

use super::compiler::{BlockCompiler, Cold};
use super::encode::{self, Alu, Width};
use super::regs::{R14, R15, RBX, at};
use super::template::{Template, template};
use super::trampolines;
use crate::{Position, Source};

impl BlockCompiler<'_> {
    /// Emits the hot code. That of block `next` follows it.
    pub fn hot(&mut self, next: Option<&Source<'_>>) {
        let source = self.source;
        let (cost, len) = (source.cost as i32, source.insts.len() as i32);
        let limit_reached = self.ops.new_dynamic_label();
        self.cold.limit_reached = Some(limit_reached);
        let place = (source.page, source.offset);
        if let (None, Some(&entry)) = (source.crossing, self.targets.entries.get(&place)) {
            dynasm!(self.ops; .arch x64; =>entry);
        }
        encode::alu_memory(&mut self.ops, Alu::Cmp, Width::Bits64, R15, RBX, at!(limit));
        dynasm!(self.ops; .arch x64; jae =>limit_reached);
        if let Some(bits) = source.crossing {
            self.crossing(bits);
        }
        encode::alu_value(&mut self.ops, Alu::Add, Width::Bits64, R15, cost);
        encode::alu_value(&mut self.ops, Alu::Add, Width::Bits64, R14, len);
        if Self::uses_float(source.insts) {
            self.begin_float();
        }
        self.at = source.offset as i32;
        // Offset of the next instruction, if execution falls through.
        let mut onward = None;
        let mut index = 0;
        while let Some(inst) = source.insts.get(index) {
            let grouped = self.group(index);
            if grouped != 0 {
                index += grouped;
                onward = Some(self.at);
                continue;
            }
            let at = Position::new(index as u8, self.at as u32);
            onward = Some(self.at + i32::from(inst.len));
            if inst.op.ends_block() {
                onward = self.last(inst, at);
            } else {
                self.inside(inst, at);
            }
            self.at += i32::from(inst.len);
            index += 1;
        }
        if let Some(onward) = onward {
            let follows = next.is_some_and(|next| {
                let place = (next.page, next.offset as i32);
                place == (source.page, onward) && source.crossing.is_none()
            });
            if !follows {
                self.goto(onward);
            }
        }
    }

    /// Emits the cold code.
    pub fn cold(&mut self, mut cold: Cold) {
        if let Some(limit_reached) = cold.limit_reached {
            let (offset, leave) = (self.source.offset as i32, self.trampolines.leave as usize);
            dynasm!(self.ops; .arch x64; =>limit_reached; add r13, offset; jmp extern leave);
        }
        if let Some(other) = cold.other {
            let (offset, crossing) = (
                self.source.offset as i32,
                self.trampolines.crossing as usize,
            );
            dynasm!(self.ops; .arch x64; =>other; add r13, offset; jmp extern crossing);
        }
        if let Some((from, back)) = cold.full {
            dynasm!(self.ops; .arch x64; =>from);
            trampolines::drop_frames(&mut self.ops);
            dynasm!(self.ops; .arch x64; jmp =>back);
        }
        if let Some(unmatched) = cold.unmatched {
            dynasm!(self.ops; .arch x64; =>unmatched);
            trampolines::drop_frames(&mut self.ops);
            self.go_to_rcx();
        }
        for (from, to) in cold.gotos {
            dynasm!(self.ops; .arch x64; =>from);
            self.goto(to);
        }
        for group in cold.groups {
            self.single_accesses(&group);
        }
        cold.slow.append(&mut self.cold.slow);
        for slow in cold.slow {
            if let Some(probe) = slow.probe {
                self.slow_probe(&slow, probe);
            }
            dynasm!(self.ops; .arch x64; =>slow.out);
            match slow.csr {
                Some(inst) => self.call_csr(&inst, slow.at, slow.back),
                None => {
                    self.execute(slow.at);
                    dynasm!(self.ops; .arch x64; jmp =>slow.back);
                }
            }
        }
    }

    /// Emits an instruction inside the block.
    fn inside(&mut self, inst: &Inst, at: Position) {
        if inst.moves_to_tp() {
            // Rare, and the interpreter tells observers.
            return self.execute(at);
        }
        if inst.rd == NO_REG && semantics::computes(inst.op) {
            return;
        }
        match template(inst.op) {
            Some(Template::Nothing) => {}
            Some(Template::Integer(how)) => self.integer(inst, how),
            Some(Template::Scratch(how)) => self.scratch(inst, how),
            Some(Template::Memory(access)) => self.memory(inst, at, access),
            Some(Template::ZeroBlock) => self.zero_block(inst, at),
            Some(Template::Atomic(how)) => self.atomic(inst, at, how),
            Some(Template::Float(how)) => self.float(inst, at, how),
            None => self.execute(at),
        }
    }

    /// Emits the instruction that ends the block. Returns the offset of the next instruction if
    /// execution falls through.
    fn last(&mut self, inst: &Inst, at: Position) -> Option<i32> {
        match inst.op.class() {
            CostClass::Branch => {
                self.branch(inst);
                Some(self.at + i32::from(inst.len))
            }
            CostClass::Jump => self.jump(inst),
            CostClass::Csr => {
                self.csr(inst, at);
                Some(self.at + i32::from(inst.len))
            }
            _ => {
                self.finish(at);
                None
            }
        }
    }

    /// Compares memory, found by the fetch TLB, with the bits of the instruction across pages.
    fn crossing(&mut self, bits: u32) {
        let other = self.ops.new_dynamic_label();
        self.cold.other = Some(other);
        let (fetch, low) = (self.trampolines.fetch as usize, self.source.offset as i32);
        dynasm!(self.ops
            ; .arch x64
            ; mov rax, r13
            ; call extern fetch
            ; jne =>other
            ; cmp WORD [r13 + rcx + low], bits as i16
            ; jne =>other
            ; lea rax, [r13 + 4096]
            ; call extern fetch
            ; jne =>other
            ; cmp WORD [rax + rcx], (bits >> 16) as i16
            ; jne =>other
        );
    }
}
