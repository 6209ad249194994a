//! One block: limit check and charge, instructions, slow paths.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{CostClass, Inst};

use super::compiler::{BlockCompiler, Cold};
use super::encode::{self, LOAD_16};
use super::regs::{CYCLES, INSTRET, PAGE, X0, X1, X2, X3};
use super::template::{Template, template_of};
use super::trampolines;
use crate::native::listing::Parts;
use crate::native::region_code::RegionCode;
use crate::native::target::Target;
use crate::{Position, Source};

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
        let limit_reached = self.ops.new_dynamic_label();
        let entry = self.targets.entry(source);
        let start = entry.unwrap_or_else(|| self.ops.new_dynamic_label());
        self.cold.limit_reached = Some((limit_reached, start));
        dynasm!(self.ops; .arch aarch64; =>start);
        dynasm!(self.ops; .arch aarch64; cmp x23, x24; b.hs =>limit_reached);
        if let Some(bits) = source.crossing {
            self.crossing(bits);
        }
        encode::add(&mut self.ops, CYCLES, CYCLES, source.cost.into());
        encode::add(&mut self.ops, INSTRET, INSTRET, source.insts.len() as i64);
        if Self::uses_float(source.insts) {
            self.begin_float();
        }
        // Offset of the next instruction, if execution falls through.
        let onward = match self.instructions() {
            Some((inst, at)) => self.last(inst, at),
            None => Some(self.at),
        };
        if let Some(onward) = onward {
            let follows = next.is_some_and(|next| {
                let place = (next.page, next.offset as i32);
                place == (source.page, onward)
                    && source.crossing.is_none()
                    && next.crossing.is_none()
            });
            if !follows {
                self.goto(onward);
            }
        }
    }

    /// Emits the cold code.
    fn cold(&mut self, mut cold: Cold) {
        let offset = i64::from(self.source.offset);
        if let Some((limit_reached, start)) = cold.limit_reached {
            let again = self.targets.again(self.source, start);
            let go_on = match again {
                Target::Label(label) => label,
                Target::Code(_) => self.ops.new_dynamic_label(),
            };
            dynasm!(self.ops; .arch aarch64; =>limit_reached; adr x0, =>go_on);
            encode::add(&mut self.ops, PAGE, PAGE, offset);
            self.ops.jump(self.trampolines.limit as usize);
            if let Target::Code(original) = again {
                dynasm!(self.ops; .arch aarch64; =>go_on);
                self.ops.jump(original);
            }
        }
        if let Some(other) = cold.other {
            dynasm!(self.ops; .arch aarch64; =>other);
            encode::add(&mut self.ops, PAGE, PAGE, offset);
            self.ops.jump(self.trampolines.crossing as usize);
        }
        if let Some((from, back)) = cold.full {
            dynasm!(self.ops; .arch aarch64; =>from);
            trampolines::drop_frames(&mut self.ops);
            dynasm!(self.ops; .arch aarch64; b =>back);
        }
        if let Some(unmatched) = cold.unmatched {
            dynasm!(self.ops; .arch aarch64; =>unmatched);
            trampolines::drop_frames(&mut self.ops);
            self.go_to_x0();
        }
        for (from, to) in cold.gotos {
            dynasm!(self.ops; .arch aarch64; =>from);
            self.goto(to);
        }
        for (from, edge) in cold.beside.edges {
            self.edge(from, edge);
        }
        for nan in cold.nans {
            self.canonical_nan(&nan);
        }
        for underflow in cold.underflows {
            self.underflow(&underflow);
        }
        for group in cold.groups {
            self.single_accesses(&group);
        }
        cold.unknown.append(&mut self.cold.unknown);
        for access in cold.unknown {
            self.unknown_base(&access);
        }
        cold.slow.append(&mut self.cold.slow);
        for slow in cold.slow {
            if let Some(probe) = slow.probe {
                self.slow_probe(&slow, probe);
            }
            dynasm!(self.ops; .arch aarch64; =>slow.out);
            match slow.csr {
                Some(inst) => self.call_csr(&inst, slow.at, slow.back),
                None if self.rest(slow.at, cold.beside.beyond) => {}
                None => {
                    self.execute(slow.at);
                    dynasm!(self.ops; .arch aarch64; b =>slow.back);
                }
            }
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
            Some(Template::Integer(how)) => self.integer(inst, how),
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
        let fetch = self.trampolines.fetch as usize;
        let halves = [
            (0, self.source.offset, bits & 0xFFFF),
            (4096, 0, bits >> 16),
        ];
        for (page, offset, half) in halves {
            encode::add(&mut self.ops, X0, PAGE, page);
            self.ops.call(fetch);
            dynasm!(self.ops; .arch aarch64; b.ne =>other; add x1, x1, x0);
            encode::memory(&mut self.ops, LOAD_16, X2, X1, offset);
            encode::set(&mut self.ops, X3, half.into());
            dynasm!(self.ops; .arch aarch64; cmp w2, w3; b.ne =>other);
        }
    }
}
