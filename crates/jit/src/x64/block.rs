//! One block: limit check and charge, instructions, slow paths.

use std::collections::BTreeMap;

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{CostClass, Inst, NO_REG};
use trapless_isa::semantics;

use super::encode::{self, Alu, Assembler, LOAD_64, STORE_64, Width};
use super::probe::Probe;
use super::regs::{Host, Place, R14, R15, RAX, RBX, at, place, x_at};
use super::template::{Template, template};
use super::trampolines::Trampolines;
use crate::{Known, Options, Position, Source};

/// Slow path of an instruction.
pub(super) struct Slow {
    pub at: Position,
    /// The instruction, if it is a CSR instruction; these end blocks.
    pub csr: Option<Inst>,
    /// Entry of the slow path.
    pub out: DynamicLabel,
    /// Entry after a miss of the inline TLB probe: address in `rax`, offset of the entry in `rcx`.
    pub miss: DynamicLabel,
    /// Where the fast path resumes if the slow probe hits, with the host address in `rax`.
    pub hit: DynamicLabel,
    /// The inline TLB probe, if there is one.
    pub probe: Option<Probe>,
    /// Where the block resumes.
    pub back: DynamicLabel,
}

/// Slow path of a group: its accesses one by one.
pub(super) struct GroupSlow {
    /// Index of its first instruction, and that instruction's offset in the page.
    pub first: (usize, u32),
    /// Instructions.
    pub len: usize,
    pub out: DynamicLabel,
    pub back: DynamicLabel,
}

/// Blocks that jumps inside a page can go to directly.
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

/// Code of a block that runs seldom; it is placed behind the hot code of all blocks of a batch.
#[derive(Default)]
pub(super) struct Cold {
    /// Taken if the limit is reached at the block's start.
    limit_reached: Option<DynamicLabel>,
    /// Taken if memory holds another instruction than the one across pages that was compiled.
    other: Option<DynamicLabel>,
    /// Taken branches to offsets that have no code yet.
    pub gotos: Vec<(DynamicLabel, i32)>,
    pub groups: Vec<GroupSlow>,
    pub slow: Vec<Slow>,
}

pub(super) struct BlockCompiler<'a> {
    pub ops: Assembler,
    /// Address that the code is assembled for.
    pub base: usize,
    /// The block being compiled.
    pub source: &'a Source<'a>,
    pub options: &'a Options,
    pub trampolines: &'a Trampolines,
    pub targets: Targets<'a>,
    /// Address of the array of sites' targets.
    pub slots: usize,
    /// Sites allocated.
    pub sites: &'a mut u32,
    /// Offset in the page of the instruction being compiled.
    pub at: i32,
    pub cold: Cold,
}

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

    /// Code for an offset of the block's page, if it is known.
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

    /// Emits a jump to the helper that executes the last instruction.
    pub fn finish(&mut self, at: Position) {
        let (at, block) = (at.bits(), self.source.block as i32);
        let finish = self.trampolines.finish as usize;
        dynasm!(self.ops
            ; .arch x64
            ; mov eax, at
            ; mov ecx, block
            ; jmp extern finish
        );
    }

    /// Emits a call of the helper that executes an instruction.
    pub fn execute(&mut self, at: Position) {
        let (at, block) = (at.bits(), self.source.block as i32);
        let execute = self.trampolines.execute as usize;
        dynasm!(self.ops
            ; .arch x64
            ; mov eax, at
            ; mov ecx, block
            ; call extern execute
        );
    }

    /// Host register with the value of guest register `x`: its own, or `scratch`.
    pub fn value(&mut self, x: u8, scratch: Host) -> Host {
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
    pub fn fetch(&mut self, host: Host, x: u8) {
        let from = self.value(x, host);
        encode::copy(&mut self.ops, host, from);
    }

    /// Host register to compute the value of guest register `x` in: its own, or `rax`.
    pub fn target(&self, x: u8) -> Host {
        match place(x) {
            Place::Host(host) => host,
            _ => RAX,
        }
    }

    /// Moves a value computed in `host` to where guest register `x` is.
    pub fn put(&mut self, x: u8, host: Host) {
        match place(x) {
            Place::Host(own) => encode::copy(&mut self.ops, own, host),
            // The result is discarded.
            Place::Memory(NO_REG) | Place::Zero => {}
            Place::Memory(x) => {
                encode::memory(&mut self.ops, STORE_64, host, RBX, x_at(x));
            }
        }
    }
}
