//! Code of regions, as far as it is this host's ([`region_code`](crate::native::region_code)).

use std::ops::Range;

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::Inst;

use super::bases::any_access;
use super::compiler::BlockCompiler;
use super::encode::{self, LOAD_64, STORE_64};
use super::regs::{CONTEXT, CYCLES, INSTRET, LIMIT, PAGE, Registers, X0, at, x_at};
use crate::Position;
use crate::native::bases::Bases;
use crate::native::listing::Parts;
use crate::native::region::{Charge, Node, Plan};
use crate::native::region_code::{Beside, RegionCode, Shared};
use crate::native::uses::Uses;

impl<'a> BlockCompiler<'a> {
    /// Emits the region of `plan`. Returns where the way to each head, and the code of each block,
    /// is.
    pub fn region(&mut self, plan: &'a Plan<'a>) -> (Vec<Range<usize>>, Vec<Parts>) {
        let uses = Uses::of(plan);
        self.bases = Bases::of(plan, any_access, |x| uses.writes(x));
        self.registers = Registers::of_region(&uses);
        let label = |_: &Node<'_>| self.ops.new_dynamic_label();
        let labels: Vec<_> = plan.nodes.iter().map(label).collect();
        self.region = Some(Shared {
            labels: labels.clone(),
            rest: self.ops.new_dynamic_label(),
            uses,
        });
        let mut nodes = plan.nodes.iter();
        let float = nodes.any(|node| Self::uses_float(node.source.insts));
        let mut entered = Vec::new();
        for (head, _) in plan.heads() {
            let start = self.ops.offset().0;
            self.enter_region(labels[head], float);
            entered.push(start..self.ops.offset().0);
        }
        let sources: Vec<_> = plan.nodes.iter().map(|node| &node.source).collect();
        let parts = self.emit(&sources, |this, index| {
            this.hot_in_region(&plan.nodes[index], index)
        });
        self.end_region();
        (entered, parts)
    }
}

impl BlockCompiler<'_> {
    /// Emits the way into the region from the head by itself to its code in the region.
    fn enter_region(&mut self, head: DynamicLabel, float: bool) {
        let blocks = Registers::of_blocks();
        for (x, host) in blocks.moved_from(&self.registers) {
            encode::memory(&mut self.ops, STORE_64, host, CONTEXT, x_at(x));
        }
        if !self.registers.page() {
            encode::memory(&mut self.ops, STORE_64, PAGE, CONTEXT, at!(pc));
        }
        for (x, host) in self.registers.moved_from(&blocks) {
            encode::memory(&mut self.ops, LOAD_64, host, CONTEXT, x_at(x));
        }
        if float {
            self.begin_float();
        }
        self.find_bases();
        dynasm!(self.ops; .arch aarch64; b =>head);
    }

    /// Emits the way out of the region: all is where blocks by themselves expect it afterwards.
    /// Changes nothing else.
    fn leave_region(&mut self) {
        let blocks = Registers::of_blocks();
        let region = self.region.as_ref();
        let written = |x| region.is_none_or(|region| region.uses.writes(x));
        let moved = self.registers.moved_from(&blocks);
        for (x, host) in moved.filter(|&(x, _)| written(x)) {
            encode::memory(&mut self.ops, STORE_64, host, CONTEXT, x_at(x));
        }
        for (x, host) in blocks.moved_from(&self.registers) {
            encode::memory(&mut self.ops, LOAD_64, host, CONTEXT, x_at(x));
        }
        for (host, field) in self.registers.lookup() {
            encode::memory(&mut self.ops, LOAD_64, host, CONTEXT, field);
        }
    }

    /// In a region, emits a jump to what executes the block from an instruction on, when `beyond`
    /// has been charged for blocks after it. `false`: it is a block by itself.
    pub fn rest(&mut self, at: Position, beyond: Charge) -> bool {
        let Some(rest) = self.region.as_ref().map(|shared| shared.rest) else {
            return false;
        };
        self.charge(Charge::default().minus(beyond));
        self.tell(at);
        dynasm!(self.ops; .arch aarch64; b =>rest);
        true
    }

    /// Emits what [`rest`](Self::rest) jumps to, and ends the region.
    fn end_region(&mut self) {
        let Some(rest) = self.region.as_ref().map(|shared| shared.rest) else {
            return;
        };
        dynasm!(self.ops; .arch aarch64; =>rest);
        self.leave_region();
        self.ops.jump(self.trampolines.finish as usize);
        self.registers = Registers::of_blocks();
        self.bases = Bases::default();
        self.region = None;
    }
}

impl RegionCode for BlockCompiler<'_> {
    fn shared(&self) -> Option<&Shared> {
        self.region.as_ref()
    }

    fn beside(&mut self) -> &mut Beside {
        &mut self.cold.beside
    }

    fn new_label(&mut self) -> DynamicLabel {
        self.ops.new_dynamic_label()
    }

    fn bind(&mut self, label: DynamicLabel) {
        dynasm!(self.ops; .arch aarch64; =>label);
    }

    fn jump_to(&mut self, to: DynamicLabel) {
        dynasm!(self.ops; .arch aarch64; b =>to);
    }

    fn branch_to(&mut self, inst: &Inst, to: DynamicLabel) {
        self.jump_if(inst, to);
    }

    fn body(&mut self) -> Option<Inst> {
        self.instructions().map(|(inst, _)| *inst)
    }

    /// Changes `x0` and `x17`.
    fn check(&mut self, before: i32, over: DynamicLabel) {
        let time = if before == 0 { CYCLES } else { X0 };
        encode::add(&mut self.ops, time, CYCLES, before.into());
        dynasm!(self.ops; .arch aarch64; cmp X(time), X(LIMIT); b.hs =>over);
    }

    /// Changes `x17`.
    fn charge(&mut self, charge: Charge) {
        for (counter, by) in [(CYCLES, charge.cycles), (INSTRET, charge.instructions)] {
            encode::add(&mut self.ops, counter, counter, by.into());
        }
    }

    fn leave_to(&mut self, offset: i32) {
        self.leave_region();
        self.goto(offset);
    }
}
