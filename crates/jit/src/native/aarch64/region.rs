//! Code of regions: what [`Plan`](crate::native::region::Plan) plans.
//!
//! ```text
//! block ─── b ─── entry of a head ── head ⇄ other blocks ─┬─ edges that leave ─── block
//!                                    │                    └─ slow path ── rest ── finish
//!                                    └─ check fails ───────────────────────────── copy of the block
//! ```
//!
//! A region has an entry for each of its heads, to which the code of that block is diverted; a copy
//! of that code takes over where the check of the head fails. Inside, guest registers are where the
//! region wants them, and move at both borders. Whatever is not compiled ends the region's work:
//! the interpreter executes the rest of the block, with the block charged as by itself, and nothing
//! ahead of it.

use std::ops::Range;

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::inst::CostClass;

use super::bases::any_access;
use super::compiler::{BlockCompiler, Shared};
use super::encode::{self, LOAD_64, STORE_64};
use super::regs::{CONTEXT, CYCLES, INSTRET, PAGE, Registers, X0, at, x_at};
use crate::Position;
use crate::native::bases::Bases;
use crate::native::listing::Parts;
use crate::native::region::{Charge, Edge, Node, Plan};
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
        let parts = self.emit(&sources, |this, index| this.hot_in_region(plan, index));
        self.end_region();
        (entered, parts)
    }

    /// Emits the hot code of a block of the region. That of the next block follows it.
    fn hot_in_region(&mut self, plan: &Plan<'_>, index: usize) {
        let node = &plan.nodes[index];
        self.cold.beyond = node.beyond();
        if let Some(label) = self.label(index) {
            dynasm!(self.ops; .arch aarch64; =>label);
        }
        if let Some(before) = node.head {
            self.check(before);
            self.charge(node.ahead);
        }
        let last = self.instructions();
        if let Some(taken) = node.taken {
            let follows = taken.to == Some(index + 1) && node.next.is_none();
            if follows {
                debug_assert_eq!(taken.charge, Charge::default(), "the only way is charged");
            } else {
                let to = self.label_of(taken);
                match last {
                    Some((inst, _)) if inst.op.class() == CostClass::Branch => {
                        self.jump_if(inst, to);
                    }
                    _ => dynasm!(self.ops; .arch aarch64; b =>to),
                }
            }
        }
        if let Some(next) = node.next {
            self.charge(next.charge);
            if next.to != Some(index + 1) {
                let charge = Charge::default();
                let to = self.label_of(Edge { charge, ..next });
                dynasm!(self.ops; .arch aarch64; b =>to);
            }
        }
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

    fn label(&self, node: usize) -> Option<DynamicLabel> {
        self.region.as_ref()?.labels.get(node).copied()
    }

    /// Where to jump for an edge: to its block, or to code that does more.
    fn label_of(&mut self, edge: Edge) -> DynamicLabel {
        let plain = edge.charge == Charge::default();
        let block = edge.to.filter(|_| plain).and_then(|to| self.label(to));
        block.unwrap_or_else(|| {
            let stub = self.ops.new_dynamic_label();
            self.cold.edges.push((stub, edge));
            stub
        })
    }

    /// Leaves the region if `before` cycles later no block may begin. Changes `x0` and `x17`.
    fn check(&mut self, before: i32) {
        let over = self.ops.new_dynamic_label();
        let time = if before == 0 { CYCLES } else { X0 };
        encode::add(&mut self.ops, time, CYCLES, before.into());
        dynasm!(self.ops; .arch aarch64; cmp X(time), x24; b.hs =>over);
        let here = Edge {
            offset: self.source.offset as i32,
            to: None,
            charge: Charge::default(),
        };
        self.cold.edges.push((over, here));
    }

    /// Adds to cycles and instructions. Changes `x17`.
    fn charge(&mut self, charge: Charge) {
        for (counter, by) in [(CYCLES, charge.cycles), (INSTRET, charge.instructions)] {
            encode::add(&mut self.ops, counter, counter, by.into());
        }
    }

    /// Emits an edge that is not only a jump.
    pub fn edge(&mut self, from: DynamicLabel, edge: Edge) {
        dynasm!(self.ops; .arch aarch64; =>from);
        self.charge(edge.charge);
        match edge.to.and_then(|to| self.label(to)) {
            Some(label) => dynasm!(self.ops; .arch aarch64; b =>label),
            None => {
                self.leave_region();
                self.goto(edge.offset);
            }
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
