//! One block: charge, instructions, slow paths.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::{CostClass, Inst};

use super::glue::Glue;
use super::group::Apart;
use super::regs::{Place, RAX, place};
use super::{Assembler, Offsets};
use crate::{PlainCsr, Position, Source};

/// An instruction that left its fast path.
pub(super) struct Slow {
    pub at: Position,
    /// It is a CSR instruction, the last of its block.
    pub csr: Option<Inst>,
    /// Where the fast path leaves.
    pub out: DynamicLabel,
    /// Where it leaves if the first way of the TLB misses: tag in `rdx`, offset of the entry in `rcx`.
    pub miss: DynamicLabel,
    /// Where it goes on if the second way hits, with the host address in `rax`.
    pub hit: DynamicLabel,
    /// Offset of the tag in the entry, if there is a TLB probe.
    pub probe: Option<i32>,
    /// Where the block goes on.
    pub back: DynamicLabel,
}

pub(super) struct BlockCompiler<'a> {
    pub ops: Assembler,
    /// Address at which the block's code will be.
    pub base: usize,
    pub source: &'a Source<'a>,
    pub offsets: &'a Offsets,
    pub glue: &'a Glue,
    pub plain_csrs: &'a [(u16, PlainCsr)],
    /// Address of the targets of sites.
    pub slots: usize,
    /// Sites given out.
    pub sites: &'a mut u32,
    /// Distance of the instruction under way from the first one in bytes.
    pub at: i32,
    pub slow: Vec<Slow>,
    pub apart: Vec<Apart>,
}

impl BlockCompiler<'_> {
    pub fn compile(&mut self) {
        let source = self.source;
        let (cost, len) = (source.cost as i32, source.insts.len() as i32);
        let (limit, leave) = (self.offsets.limit, self.glue.leave as usize);
        dynasm!(self.ops
            ; .arch x64
            ; cmp r15, [rbx + limit]
            ; jae extern leave
            ; add r15, cost
            ; add r14, len
        );
        if Self::uses_float(source.insts) {
            self.begin_float();
        }
        let mut open = true;
        let mut index = 0;
        while let Some(inst) = source.insts.get(index) {
            let grouped = self.group(index);
            if grouped != 0 {
                index += grouped;
                continue;
            }
            let at = Position::new(index as u8, self.at as u32);
            if inst.op.ends_block() {
                self.last(inst, at);
                open = false;
            } else if !(self.integer(inst)
                || self.memory(inst, at)
                || self.bits(inst)
                || self.atomic(inst, at)
                || self.float(inst, at))
            {
                self.execute(at);
            }
            self.at += i32::from(inst.len);
            index += 1;
        }
        if open {
            self.goto(self.at);
        }
        for group in std::mem::take(&mut self.apart) {
            self.apart(&group);
        }
        for slow in std::mem::take(&mut self.slow) {
            if let Some(tag) = slow.probe {
                self.second_way(&slow, tag);
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

    /// The instruction that ends the block.
    fn last(&mut self, inst: &Inst, at: Position) {
        match inst.op.class() {
            CostClass::Branch => self.branch(inst),
            CostClass::Jump => self.jump(inst),
            CostClass::Csr => self.csr(inst, at),
            _ => self.finish(at),
        }
    }

    /// Leaves the last instruction to a helper.
    pub fn finish(&mut self, at: Position) {
        let (at, block) = (at.bits(), self.source.block as i32);
        let finish = self.glue.finish as usize;
        dynasm!(self.ops
            ; .arch x64
            ; mov eax, at
            ; mov ecx, block
            ; jmp extern finish
        );
    }

    /// An instruction without a template.
    fn execute(&mut self, at: Position) {
        let (at, block) = (at.bits(), self.source.block as i32);
        let execute = self.glue.execute as usize;
        dynasm!(self.ops
            ; .arch x64
            ; mov eax, at
            ; mov ecx, block
            ; call extern execute
        );
    }

    /// Host register with the value of guest register `x`: its own, or `scratch`.
    pub fn value(&mut self, x: u8, scratch: u8) -> u8 {
        match place(x) {
            Place::Zero => dynasm!(self.ops; .arch x64; xor Rd(scratch), Rd(scratch)),
            Place::Host(host) => return host,
            Place::Memory(x) => {
                dynasm!(self.ops; .arch x64; mov Rq(scratch), [rbx + Offsets::x(x)]);
            }
        }
        scratch
    }

    /// Moves the value of guest register `x` to a host register.
    pub fn fetch(&mut self, host: u8, x: u8) {
        let from = self.value(x, host);
        self.copy(host, from);
    }

    /// Moves between host registers.
    pub fn copy(&mut self, to: u8, from: u8) {
        if to != from {
            dynasm!(self.ops; .arch x64; mov Rq(to), Rq(from));
        }
    }

    /// Host register in which the value for guest register `x` is made: its own, or `rax`.
    pub fn target(&self, x: u8) -> u8 {
        match place(x) {
            Place::Host(host) => host,
            _ => RAX,
        }
    }

    /// Puts a value made in `host` where guest register `x` is.
    pub fn put(&mut self, x: u8, host: u8) {
        match place(x) {
            Place::Host(own) => self.copy(own, host),
            // Slot 32 takes what nobody wants.
            Place::Memory(32) | Place::Zero => {}
            Place::Memory(x) => {
                dynasm!(self.ops; .arch x64; mov [rbx + Offsets::x(x)], Rq(host));
            }
        }
    }
}
