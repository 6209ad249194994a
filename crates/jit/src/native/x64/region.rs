//! Code of regions: what [`Plan`](crate::native::region::Plan) plans.
//!
//! ```text
//! block ── jmp ── entry of a head ── head ⇄ other blocks ─┬─ edges that leave ─── block
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
use trapless_isa::Inst;
use trapless_isa::inst::CostClass;

use super::bases::any_access;
use super::compiler::{BlockCompiler, Shared};
use super::copies::Copies;
use super::encode::{self, ADDRESS, Alu, LOAD_64, STORE_64, Width};
use super::regs::{R14, R15, RAX, RBX, Registers, at, x_at};
use super::template::{Template, template_of};
use crate::Position;
use crate::native::bases::Bases;
use crate::native::listing::Parts;
use crate::native::precision::Precision;
use crate::native::region::{Charge, Edge, Node, Plan};
use crate::native::target::Target;
use crate::native::uses::Uses;

/// Floating-point registers that an instruction reads or writes, with the format of each.
fn float_registers(inst: &Inst) -> impl Iterator<Item = (u8, Precision)> {
    let how = match template_of(inst) {
        Some(Template::Float(how)) => Some(how),
        _ => None,
    };
    how.into_iter().flat_map(|how| how.registers(inst))
}

impl<'a> BlockCompiler<'a> {
    /// Emits the region of `plan`. Returns where the way to each head, and the code of each block,
    /// is.
    pub fn region(&mut self, plan: &'a Plan<'a>) -> (Vec<Range<usize>>, Vec<Parts>) {
        let uses = Uses::of(plan);
        self.bases = Bases::of(plan, any_access, |x| uses.writes(x));
        self.registers = Registers::of_region(&uses);
        let uses_of_float = plan.nodes.iter().flat_map(|node| {
            let registers = node.source.insts.iter().flat_map(float_registers);
            registers.map(move |(f, precision)| (f, precision, node.weight))
        });
        self.copies = Copies::of_region(uses_of_float);
        let label = |_: &Node<'_>| self.ops.new_dynamic_label();
        let labels: Vec<_> = plan.nodes.iter().map(label).collect();
        self.region = Some(Shared {
            labels: labels.clone(),
            rest: self.ops.new_dynamic_label(),
            uses,
        });
        let float = plan
            .nodes
            .iter()
            .any(|node| Self::uses_float(node.source.insts));
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
            dynasm!(self.ops; .arch x64; =>label);
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
                        self.compare(inst);
                        self.jump_if(inst.op, Target::Label(to));
                    }
                    _ => dynasm!(self.ops; .arch x64; jmp =>to),
                }
            }
        }
        if let Some(next) = node.next {
            self.charge(next.charge);
            if next.to != Some(index + 1) {
                let charge = Charge::default();
                let to = self.label_of(Edge { charge, ..next });
                dynasm!(self.ops; .arch x64; jmp =>to);
            }
        }
    }
}

impl BlockCompiler<'_> {
    /// Emits the way into the region from the head by itself to its code in the region.
    fn enter_region(&mut self, head: DynamicLabel, float: bool) {
        let blocks = Registers::of_blocks();
        for (x, host) in blocks.moved_from(&self.registers) {
            encode::memory(&mut self.ops, STORE_64, host, RBX, x_at(x));
        }
        if !self.registers.page() {
            dynasm!(self.ops; .arch x64; mov [rbx + at!(pc)], r13);
        }
        for (x, host) in self.registers.moved_from(&blocks) {
            encode::memory(&mut self.ops, LOAD_64, host, RBX, x_at(x));
        }
        if float {
            self.begin_float();
        }
        for held in self.copies.kept().to_vec() {
            self.load_copy(held.xmm, held.precision, held.f);
        }
        self.find_bases();
        dynasm!(self.ops; .arch x64; jmp =>head);
    }

    /// Emits the way out of the region: all is where blocks by themselves expect it afterwards.
    /// Changes nothing else.
    fn leave_region(&mut self) {
        let blocks = Registers::of_blocks();
        let region = self.region.as_ref();
        let written = |x| region.is_none_or(|region| region.uses.writes(x));
        let moved = self.registers.moved_from(&blocks);
        for (x, host) in moved.filter(|&(x, _)| written(x)) {
            encode::memory(&mut self.ops, STORE_64, host, RBX, x_at(x));
        }
        for (x, host) in blocks.moved_from(&self.registers) {
            encode::memory(&mut self.ops, LOAD_64, host, RBX, x_at(x));
        }
        if !self.registers.page() {
            dynasm!(self.ops; .arch x64; mov r13, [rbx + at!(pc)]);
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

    /// Leaves the region if `before` cycles later no block may begin. Changes `rax`.
    fn check(&mut self, before: i32) {
        let over = self.ops.new_dynamic_label();
        let time = if before == 0 {
            R15
        } else {
            encode::memory(&mut self.ops, ADDRESS, RAX, R15, before);
            RAX
        };
        encode::alu_memory(
            &mut self.ops,
            Alu::Cmp,
            Width::Bits64,
            time,
            RBX,
            at!(limit),
        );
        dynasm!(self.ops; .arch x64; jae =>over);
        let here = Edge {
            offset: self.source.offset as i32,
            to: None,
            charge: Charge::default(),
        };
        self.cold.edges.push((over, here));
    }

    /// Adds to cycles and instructions; changes flags.
    fn charge(&mut self, charge: Charge) {
        for (counter, by) in [(R15, charge.cycles), (R14, charge.instructions)] {
            if by != 0 {
                encode::alu_value(&mut self.ops, Alu::Add, Width::Bits64, counter, by);
            }
        }
    }

    /// Emits an edge that is not only a jump.
    pub fn edge(&mut self, from: DynamicLabel, edge: Edge) {
        dynasm!(self.ops; .arch x64; =>from);
        self.charge(edge.charge);
        match edge.to.and_then(|to| self.label(to)) {
            Some(label) => dynasm!(self.ops; .arch x64; jmp =>label),
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
        let (at, block) = (at.bits() as i32, self.source.block as i32);
        dynasm!(self.ops; .arch x64; mov eax, at; mov ecx, block; jmp =>rest);
        true
    }

    /// Emits what [`rest`](Self::rest) jumps to, and ends the region.
    fn end_region(&mut self) {
        let Some(rest) = self.region.as_ref().map(|shared| shared.rest) else {
            return;
        };
        dynasm!(self.ops; .arch x64; =>rest);
        self.leave_region();
        let finish = self.trampolines.finish as usize;
        dynasm!(self.ops; .arch x64; jmp extern finish);
        self.registers = Registers::of_blocks();
        self.copies = Copies::none();
        self.bases = Bases::default();
        self.region = None;
    }
}
