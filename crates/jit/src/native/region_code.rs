//! Code of regions, as far as all kinds of hosts share it: what [`Plan`](super::region::Plan)
//! plans.
//!
//! ```text
//! block ── jump ── entry of a head ── head ⇄ other blocks ─┬─ edges that leave ── block
//!                                     │                    └─ slow path ── rest ── finish
//!                                     └─ check fails ──────────────────────────── copy of the block
//! ```
//!
//! A region has an entry for each of its heads, to which the code of that block is diverted; a copy
//! of that code takes over where the check of the head fails. Inside, guest registers are where the
//! region wants them, and move at both borders. Whatever is not compiled ends the region's work:
//! the interpreter executes the rest of the block, with the block charged as by itself, and nothing
//! ahead of it.

use dynasmrt::DynamicLabel;
use trapless_isa::Inst;
use trapless_isa::inst::CostClass;

use super::region::{Charge, Edge, Node};
use super::uses::Uses;

/// What the code of a region's blocks shares.
pub(super) struct Shared {
    /// Start of each block.
    pub labels: Vec<DynamicLabel>,
    /// Executes the rest of a block, which the host's `rest` has told.
    pub rest: DynamicLabel,
    /// What the region does with guest registers.
    pub uses: Uses,
}

/// What the cold code of a block needs in a region.
#[derive(Default)]
pub(super) struct Beside {
    /// Edges that are more than a jump.
    pub edges: Vec<(DynamicLabel, Edge)>,
    /// What has been charged for blocks after this one.
    pub beyond: Charge,
}

/// A compiler that emits blocks as parts of a region.
pub(super) trait RegionCode {
    /// The region, while one is compiled.
    fn shared(&self) -> Option<&Shared>;

    /// Of the block that is compiled.
    fn beside(&mut self) -> &mut Beside;

    fn new_label(&mut self) -> DynamicLabel;

    /// Lets `label` be here.
    fn bind(&mut self, label: DynamicLabel);

    /// Lets what follows, where a loop begins, be at an address that suits the host.
    fn align(&mut self) {}

    /// Emits a jump.
    fn jump_to(&mut self, to: DynamicLabel);

    /// Emits a conditional branch; execution falls through if it is not taken.
    fn branch_to(&mut self, inst: &Inst, to: DynamicLabel);

    /// Emits the instructions of the block, without one that ends it: that one is returned.
    fn body(&mut self) -> Option<Inst>;

    /// Emits a jump to `over` that is taken if `before` cycles later no block may begin.
    fn check(&mut self, before: i32, over: DynamicLabel);

    /// Emits additions to cycles and instructions.
    fn charge(&mut self, charge: Charge);

    /// Emits the way out of the region, to `offset` from the start of the page.
    fn leave_to(&mut self, offset: i32);

    /// Start of a block of the region.
    fn label(&self, node: usize) -> Option<DynamicLabel> {
        self.shared()?.labels.get(node).copied()
    }

    /// Where to jump for an edge: to its block, or to code that does more.
    fn label_of(&mut self, edge: Edge) -> DynamicLabel {
        let plain = edge.charge == Charge::default();
        let block = edge.to.filter(|_| plain).and_then(|to| self.label(to));
        block.unwrap_or_else(|| {
            let stub = self.new_label();
            self.beside().edges.push((stub, edge));
            stub
        })
    }

    /// Emits the hot code of block `index` of the region. That of the next block follows it.
    fn hot_in_region(&mut self, node: &Node<'_>, index: usize) {
        self.beside().beyond = node.beyond();
        if node.head.is_some() {
            self.align();
        }
        if let Some(label) = self.label(index) {
            self.bind(label);
        }
        if let Some(before) = node.head {
            let over = self.new_label();
            self.check(before, over);
            let here = Edge {
                offset: node.source.offset as i32,
                to: None,
                charge: Charge::default(),
            };
            self.beside().edges.push((over, here));
            self.charge(node.ahead);
        }
        let last = self.body();
        if let Some(taken) = node.taken {
            let follows = taken.to == Some(index + 1) && node.next.is_none();
            if follows {
                debug_assert_eq!(taken.charge, Charge::default(), "the only way is charged");
            } else {
                let to = self.label_of(taken);
                match last {
                    Some(inst) if inst.op.class() == CostClass::Branch => self.branch_to(&inst, to),
                    _ => self.jump_to(to),
                }
            }
        }
        if let Some(next) = node.next {
            self.charge(next.charge);
            if next.to != Some(index + 1) {
                let charge = Charge::default();
                let to = self.label_of(Edge { charge, ..next });
                self.jump_to(to);
            }
        }
    }

    /// Emits an edge that is not only a jump.
    fn edge(&mut self, from: DynamicLabel, edge: Edge) {
        self.bind(from);
        self.charge(edge.charge);
        match edge.to.and_then(|to| self.label(to)) {
            Some(label) => self.jump_to(label),
            None => self.leave_to(edge.offset),
        }
    }
}
