//! Code of regions, as far as it is this host's ([`region_code`](crate::native::region_code)).

use std::ops::Range;

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::Inst;

use super::bases::any_access;
use super::compiler::BlockCompiler;
use super::copies::Copies;
use super::encode::{self, LOAD_64, STORE_64};
use super::regs::{RBX, Registers, at, x_at};
use super::template::{Template, template_of};
use crate::Position;
use crate::native::bases::Bases;
use crate::native::listing::Parts;
use crate::native::precision::Precision;
use crate::native::region::{Charge, Node, Plan};
use crate::native::region_code::{Beside, RegionCode, Shared};
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
        dynasm!(self.ops; .arch x64; =>label);
    }

    /// Hosts keep decoded instructions by lines of 64 bytes: a loop in one line more takes up to a
    /// tenth more time.
    fn align(&mut self) {
        let here = self.base + self.ops.offset().0;
        encode::pad(&mut self.ops, here.next_multiple_of(64) - here);
    }

    fn jump_to(&mut self, to: DynamicLabel) {
        dynasm!(self.ops; .arch x64; jmp =>to);
    }

    fn branch_to(&mut self, inst: &Inst, to: DynamicLabel) {
        self.compare(inst);
        self.jump_if(inst.op, Target::Label(to));
    }

    fn body(&mut self) -> Option<Inst> {
        self.instructions().map(|(inst, _)| *inst)
    }

    /// Changes `rax`.
    fn check(&mut self, before: i32, over: DynamicLabel) {
        self.check_count(before, over);
    }

    /// Changes `rax` and flags.
    fn charge(&mut self, charge: Charge) {
        self.count(charge);
    }

    fn leave_to(&mut self, offset: i32) {
        self.leave_region();
        self.goto(offset);
    }
}
