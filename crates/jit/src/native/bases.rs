//! Base registers that a region does not change: which ones, and what is accessed by them. Nothing
//! in a region changes translations, so one look-up of their pages at its entry is enough.

use trapless_isa::Inst;

use super::region::Plan;
use crate::REGION_BASES;

/// Maximum range of addresses in bytes: a larger one is less likely to be in one page.
const SPAN: i32 = 2048;

/// A base register, and what is accessed by it.
#[derive(Clone, Copy)]
pub(super) struct Base {
    pub x: u8,
    /// Smallest immediate, and the end of the access furthest up.
    pub low: i32,
    pub high: i32,
    /// Size of the largest access in bytes.
    pub align: i32,
    pub load: bool,
    pub store: bool,
    /// Accesses, about.
    weight: u64,
}

/// Those of a region, in the order of their slots in the context.
#[derive(Default)]
pub(super) struct Bases(Vec<Base>);

impl Bases {
    /// Those of `plan` that are used most. `access` returns the size in bytes of a load or store,
    /// and whether it is a store; `written` tells which registers the region changes.
    pub fn of(
        plan: &Plan<'_>,
        access: impl Fn(&Inst) -> Option<(i32, bool)>,
        written: impl Fn(u8) -> bool,
    ) -> Self {
        let mut bases: Vec<Base> = Vec::new();
        for node in &plan.nodes {
            for inst in node.source.insts {
                let Some((size, store)) = access(inst) else {
                    continue;
                };
                let (x, low, high) = (inst.rs1, inst.imm, inst.imm + size);
                if x == 0 || written(x) {
                    continue;
                }
                let this = Base {
                    x,
                    low,
                    high,
                    align: size,
                    load: !store,
                    store,
                    weight: node.weight,
                };
                match bases.iter_mut().find(|base| base.x == x) {
                    None => bases.push(this),
                    Some(base) => base.add(&this),
                }
            }
        }
        bases.retain(|base| base.high - base.low <= SPAN && base.aligned(plan, &access));
        bases.sort_by_key(|base| (std::cmp::Reverse(base.weight), base.x));
        bases.truncate(REGION_BASES);
        Self(bases)
    }

    /// Number of the slot of the base register of a load or store.
    pub fn slot(&self, rs1: u8) -> Option<usize> {
        self.0.iter().position(|base| base.x == rs1)
    }

    /// All, in the order of their slots.
    pub fn all(&self) -> &[Base] {
        &self.0
    }
}

impl Base {
    fn add(&mut self, other: &Self) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        self.align = self.align.max(other.align);
        self.load |= other.load;
        self.store |= other.store;
        self.weight += other.weight;
    }

    /// Whether all accesses are aligned if the lowest one is aligned to the largest one.
    fn aligned(&self, plan: &Plan<'_>, access: impl Fn(&Inst) -> Option<(i32, bool)>) -> bool {
        let insts = plan.nodes.iter().flat_map(|node| node.source.insts);
        let mut own = insts.filter(|inst| inst.rs1 == self.x);
        own.all(|inst| access(inst).is_none_or(|(size, _)| (inst.imm - self.low) % size == 0))
    }
}
