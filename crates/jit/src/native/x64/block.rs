//! One block: limit check and charge, instructions, slow paths.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{CostClass, Inst};

use super::compiler::{BlockCompiler, Cold};
use super::encode::{self, LOAD_64};
use super::lifetimes::Lifetimes;
use super::regs::{RBX, x_at};
use super::template::{Template, template_of};
use super::trampolines;
use super::words::Words;
use crate::native::listing::Parts;
use crate::native::region_code::RegionCode;
use crate::{Position, Source};

/// Whether the code of an instruction has no way out of the block.
fn stays_inside(inst: &Inst) -> bool {
    matches!(
        template_of(inst),
        Some(Template::Integer(_) | Template::Scratch(_) | Template::Nothing)
    )
}

impl<'a> BlockCompiler<'a> {
    /// Emits the code of blocks, of which `hot` emits the hot part; cold code follows the hot code
    /// of all. Returns where it is.
    pub fn emit(
        &mut self,
        sources: &[&'a Source<'a>],
        hot: impl Fn(&mut Self, usize),
    ) -> Vec<Parts> {
        let mut pieces = Vec::with_capacity(sources.len());
        for (index, source) in sources.iter().enumerate() {
            self.source = source;
            let start = self.ops.offset().0;
            hot(self, index);
            pieces.push((start..self.ops.offset().0, std::mem::take(&mut self.cold)));
        }
        let cold = |(source, (hot, cold)): (&&'a Source<'a>, _)| {
            self.source = source;
            let start = self.ops.offset().0;
            self.cold(cold);
            let cold = start..self.ops.offset().0;
            Parts { hot, cold }
        };
        sources.iter().zip(pieces).map(cold).collect()
    }

    /// Emits the instructions of the block, without one that ends it: that one is returned.
    pub fn instructions(&mut self) -> Option<(&'a Inst, Position)> {
        let insts = self.source.insts;
        self.at = self.source.offset as i32;
        self.copies.begin();
        self.recent = None;
        self.words = Words::of(insts, stays_inside);
        let mut index = 0;
        while let Some(inst) = insts.get(index) {
            let together = self.group(index);
            if together != 0 {
                index += together;
                continue;
            }
            let at = Position::new(index as u8, self.at as u32);
            if inst.op.ends_block() {
                return Some((inst, at));
            }
            self.assign(index, 1);
            self.inside(inst, at);
            self.at += i32::from(inst.len);
            index += 1;
        }
        None
    }
}

impl BlockCompiler<'_> {
    /// Emits the hot code. That of block `next` follows it.
    pub fn hot(&mut self, next: Option<&Source<'_>>) {
        let source = self.source;
        let entry = self.targets.entry(source);
        let start = entry.unwrap_or_else(|| self.ops.new_dynamic_label());
        dynasm!(self.ops; .arch x64; =>start);
        self.begin_block(start);
        if Self::uses_float(source.insts) {
            self.begin_float();
        }
        self.lifetimes = Lifetimes::of(source.insts);
        let last = self.instructions();
        self.lifetimes = None;
        // Offset of the next instruction, if execution falls through.
        let onward = match last {
            Some((inst, at)) => self.last(inst, at),
            None => {
                self.bring_home();
                Some(self.at)
            }
        };
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
        if let Some(limit) = cold.limit {
            self.at_limit(&limit);
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
            trampolines::return_elsewhere(&mut self.ops, self.trampolines.second_way);
        }
        for (from, to) in cold.gotos {
            dynasm!(self.ops; .arch x64; =>from);
            self.goto(to);
        }
        for (from, edge) in cold.beside.edges {
            self.edge(from, edge);
        }
        for group in cold.groups {
            self.single_accesses(&group);
        }
        cold.unknown.append(&mut self.cold.unknown);
        for access in cold.unknown {
            self.unknown_base(&access);
        }
        for (nan, xmm) in cold.nans {
            self.canonical_nan(&nan, xmm);
        }
        cold.slow.append(&mut self.cold.slow);
        for slow in cold.slow {
            if let Some((probe, address)) = slow.probe {
                self.slow_probe(&slow, probe, address);
            }
            dynasm!(self.ops; .arch x64; =>slow.out);
            match slow.csr {
                Some(inst) => self.call_csr(&inst, slow.at, slow.back),
                None if self.rest(slow.at, cold.beside.beyond) => {}
                None if slow.rest => {
                    self.before_helper(slow.moved.as_deref());
                    self.finish(slow.at);
                }
                None => {
                    self.before_helper(slow.moved.as_deref());
                    self.execute(slow.at);
                    self.after_helper(slow.moved.as_deref());
                    if let Some(recent) = slow.recent {
                        encode::memory(&mut self.ops, LOAD_64, recent.host, RBX, x_at(recent.x));
                    }
                    dynasm!(self.ops; .arch x64; jmp =>slow.back);
                }
            }
        }
        cold.lookups.append(&mut self.cold.lookups);
        for (from, to, back) in cold.lookups {
            self.look_in_second_way(from, to, back);
        }
        cold.unlinked.append(&mut self.cold.unlinked);
        for (site, offset) in cold.unlinked {
            self.stub(site, offset);
        }
    }

    /// Emits an instruction inside the block.
    fn inside(&mut self, inst: &Inst, at: Position) {
        match template_of(inst) {
            Some(Template::Nothing) => {}
            Some(Template::Integer(how)) => {
                let seen = self.words.seen(at.index());
                self.integer(inst, how, seen);
            }
            Some(Template::Scratch(how)) => self.scratch(inst, how),
            Some(Template::Memory(access)) => self.memory(inst, at, access),
            Some(Template::ZeroBlock) => self.zero_block(inst, at),
            Some(Template::Atomic(how)) => self.atomic(inst, at, how),
            Some(Template::Float(how)) => self.float(inst, at, how),
            None => {
                self.execute(at);
                self.copies.forget();
            }
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
            CostClass::Jump => {
                self.bring_home();
                self.jump(inst)
            }
            CostClass::Csr => {
                self.bring_home();
                self.csr(inst, at);
                Some(self.at + i32::from(inst.len))
            }
            _ => {
                self.bring_home();
                self.finish(at);
                None
            }
        }
    }

    /// Compares memory, found by the fetch TLB, with the bits of the instruction across pages.
    pub fn crossing(&mut self, bits: u32) {
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
