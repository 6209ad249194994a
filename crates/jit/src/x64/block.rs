//! One block: charge, instructions, slow paths.

use std::collections::BTreeMap;

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{CostClass, Inst, NO_REG};

use super::encode::{self, Alu, Assembler, LOAD_64, STORE_64};
use super::glue::Glue;
use super::probe::Probe;
use super::regs::{Place, R14, R15, RAX, RBX, at, place, x_at};
use crate::{Known, Options, Position, Source};

/// An instruction that left its fast path.
pub(super) struct Slow {
    pub at: Position,
    /// It is a CSR instruction, the last of its block.
    pub csr: Option<Inst>,
    /// Where the fast path leaves.
    pub out: DynamicLabel,
    /// Where it leaves if the TLB does not hit at once: address in `rax`, offset of the entry in `rcx`.
    pub miss: DynamicLabel,
    /// Where it goes on if it hits after all, with the host address in `rax`.
    pub hit: DynamicLabel,
    /// What is looked up in the TLB.
    pub probe: Option<Probe>,
    /// Where the block goes on.
    pub back: DynamicLabel,
}

/// A group's way out of its fast path, and back.
pub(super) struct Apart {
    /// Index of its first instruction, and its distance from the block's start in bytes.
    pub first: (usize, u32),
    /// Instructions.
    pub len: usize,
    pub out: DynamicLabel,
    pub back: DynamicLabel,
}

/// Where jumps inside a page can go directly.
#[derive(Clone, Copy)]
pub(super) struct Targets<'a> {
    /// Blocks that are compiled together, by page and offset.
    pub entries: &'a BTreeMap<(u32, u32), DynamicLabel>,
    /// Others.
    pub known: Known<'a>,
}

/// A place to jump to.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Label(DynamicLabel),
    Code(usize),
}

/// What a block does seldom: it comes behind the code of all blocks.
#[derive(Default)]
pub(super) struct Cold {
    /// The limit is reached at the block's start.
    late: Option<DynamicLabel>,
    /// Something else is at an instruction across pages.
    other: Option<DynamicLabel>,
    /// Jumps without direct target, to these offsets.
    pub gotos: Vec<(DynamicLabel, i32)>,
    pub apart: Vec<Apart>,
    pub slow: Vec<Slow>,
}

pub(super) struct BlockCompiler<'a> {
    pub ops: Assembler,
    /// Address at which the code will be.
    pub base: usize,
    /// The block under way.
    pub source: &'a Source<'a>,
    pub options: &'a Options,
    pub glue: &'a Glue,
    pub targets: Targets<'a>,
    /// Address of the targets of sites.
    pub slots: usize,
    /// Sites given out.
    pub sites: &'a mut u32,
    /// Offset of the instruction under way in its page.
    pub at: i32,
    pub cold: Cold,
}

impl BlockCompiler<'_> {
    /// Emits what the block does often. The code of block `next` comes behind it.
    pub fn hot(&mut self, next: Option<&Source<'_>>) {
        let source = self.source;
        let (cost, len) = (source.cost as i32, source.insts.len() as i32);
        let late = self.ops.new_dynamic_label();
        self.cold.late = Some(late);
        let place = (source.page, source.offset);
        if let (None, Some(&entry)) = (source.crossing, self.targets.entries.get(&place)) {
            dynasm!(self.ops; .arch x64; =>entry);
        }
        encode::alu_memory(&mut self.ops, Alu::Cmp, true, R15, RBX, at!(limit));
        dynasm!(self.ops; .arch x64; jae =>late);
        if let Some(bits) = source.crossing {
            self.crossing(bits);
        }
        encode::alu_value(&mut self.ops, Alu::Add, true, R15, cost);
        encode::alu_value(&mut self.ops, Alu::Add, true, R14, len);
        if Self::uses_float(source.insts) {
            self.begin_float();
        }
        self.at = source.offset as i32;
        // Where execution goes on at the end of the code, if it does.
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
            } else if !(self.integer(inst)
                || self.memory(inst, at)
                || self.zero_block(inst, at)
                || self.bits(inst)
                || self.atomic(inst, at)
                || self.float(inst, at))
            {
                self.execute(at);
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

    /// Emits the rest.
    pub fn cold(&mut self, mut cold: Cold) {
        if let Some(late) = cold.late {
            let (offset, leave) = (self.source.offset as i32, self.glue.leave as usize);
            dynasm!(self.ops; .arch x64; =>late; add r13, offset; jmp extern leave);
        }
        if let Some(other) = cold.other {
            let (offset, crossing) = (self.source.offset as i32, self.glue.crossing as usize);
            dynasm!(self.ops; .arch x64; =>other; add r13, offset; jmp extern crossing);
        }
        for (from, to) in cold.gotos {
            dynasm!(self.ops; .arch x64; =>from);
            self.goto(to);
        }
        for group in cold.apart {
            self.apart(&group);
        }
        cold.slow.append(&mut self.cold.slow);
        for slow in cold.slow {
            if let Some(probe) = slow.probe {
                self.probe_again(&slow, probe);
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

    /// The instruction that ends the block. Returns the offset at which execution goes on at the end of its
    /// code, if it does.
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

    /// Makes sure that the instruction across pages is there, by what the fetch TLB has of both pages.
    fn crossing(&mut self, bits: u32) {
        let other = self.ops.new_dynamic_label();
        self.cold.other = Some(other);
        let (fetch, low) = (self.glue.fetch as usize, self.source.offset as i32);
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

    /// Where the code for an offset of the block's page is.
    pub fn direct(&self, offset: i32) -> Option<Target> {
        if !(0..4096).contains(&offset) || self.source.crossing.is_some() {
            return None;
        }
        let place = (self.source.page, offset as u32);
        match self.targets.entries.get(&place) {
            Some(&label) => Some(Target::Label(label)),
            None => {
                let code = (self.targets.known)(place.0, place.1)?;
                Some(Target::Code(code.address() as usize))
            }
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
                encode::memory(&mut self.ops, LOAD_64, scratch, RBX, x_at(x));
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
            Place::Memory(NO_REG) | Place::Zero => {}
            Place::Memory(x) => {
                encode::memory(&mut self.ops, STORE_64, host, RBX, x_at(x));
            }
        }
    }
}
