//! Base registers that a region does not change.
//!
//! Nothing in a region changes translations, so the page that such a register points into is looked
//! up once, when the region is entered. If the first way of the TLB has it, loads and stores find
//! the host's address in the context, and need no probe. Else they probe as everywhere.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::Inst;

use super::compiler::{BlockCompiler, Slow};
use super::encode::{self, ADDRESS};
use super::float::Float;
use super::regs::{RAX, RBX, RDX, at};
use super::template::{Template, template_of};
use crate::native::probe::Probe;
use crate::native::region::Plan;
use crate::{REGION_BASES, TLB_ENTRIES};

/// Maximum range of addresses in bytes: a larger one is less likely to be in one page.
const SPAN: i32 = 2048;

/// A base register, and what is accessed by it.
#[derive(Clone, Copy)]
struct Base {
    x: u8,
    /// Smallest immediate, and the end of the access furthest up.
    low: i32,
    high: i32,
    /// Size of the largest access in bytes.
    align: i32,
    load: bool,
    store: bool,
    /// Accesses, about.
    weight: u64,
}

/// Those of a region, in the order of their slots in the context.
#[derive(Default)]
pub(super) struct Bases(Vec<Base>);

/// An access whose base register has no address.
pub(super) struct Unknown {
    from: DynamicLabel,
    /// Where the access is made, with the host's address of the base register in `rax`.
    back: DynamicLabel,
    rs1: u8,
    imm: i32,
    probe: Probe,
    /// Of the access' slow path.
    miss: DynamicLabel,
    hit: DynamicLabel,
}

/// Size in bytes of a load or store of integers or floating point, and whether it is a store.
fn any_access(inst: &Inst) -> Option<(i32, bool)> {
    match template_of(inst)? {
        Template::Memory(access) => Some((access.size, access.store)),
        Template::Float(Float::Load(precision)) => Some((precision.bytes(), false)),
        Template::Float(Float::Store(precision)) => Some((precision.bytes(), true)),
        _ => None,
    }
}

impl Bases {
    /// Those of `plan` that are used most; `written` tells which registers the region changes.
    pub fn of(plan: &Plan<'_>, written: impl Fn(u8) -> bool, weight: impl Fn(u32) -> u64) -> Self {
        let mut bases: Vec<Base> = Vec::new();
        for node in &plan.nodes {
            let weight = weight(node.source.block).max(1);
            for inst in node.source.insts {
                let Some((size, store)) = any_access(inst) else {
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
                    weight,
                };
                match bases.iter_mut().find(|base| base.x == x) {
                    None => bases.push(this),
                    Some(base) => base.add(&this),
                }
            }
        }
        bases.retain(|base| base.high - base.low <= SPAN && base.aligned(plan));
        bases.sort_by_key(|base| (std::cmp::Reverse(base.weight), base.x));
        bases.truncate(REGION_BASES);
        Self(bases)
    }

    /// Displacement of the slot of the base register of a load or store.
    pub fn slot(&self, rs1: u8) -> Option<i32> {
        let slot = self.0.iter().position(|base| base.x == rs1)?;
        Some(at!(region_hosts) + 8 * slot as i32)
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
    fn aligned(&self, plan: &Plan<'_>) -> bool {
        let insts = plan.nodes.iter().flat_map(|node| node.source.insts);
        let mut own = insts.filter(|inst| inst.rs1 == self.x);
        own.all(|inst| any_access(inst).is_none_or(|(size, _)| (inst.imm - self.low) % size == 0))
    }
}

impl BlockCompiler<'_> {
    /// Looks up the pages of base registers, when the region is entered. Changes `rax`, `rcx` and
    /// `rdx`.
    pub fn find_bases(&mut self) {
        let slots = ((TLB_ENTRIES - 1) << 5) as i32;
        for base in self.bases.0.clone() {
            let address = self.value(base.x, RAX);
            self.add_to_rax(address, base.low);
            dynasm!(self.ops; .arch x64; rorx ecx, eax, 7; and ecx, slots);
            encode::memory(&mut self.ops, ADDRESS, RDX, RAX, base.high - base.low - 1);
            // The slot is the first byte's and the tag the last byte's: they match only if both are
            // in one page.
            dynasm!(self.ops; .arch x64; and rdx, -4096);
            if base.align > 1 && !self.options.misaligned {
                dynasm!(self.ops; .arch x64; test al, (base.align - 1) as i8; jnz >none);
            }
            if base.load {
                dynasm!(self.ops; .arch x64; cmp [rbp + rcx], rdx; jne >none);
            }
            if base.store {
                dynasm!(self.ops; .arch x64; cmp [BYTE rbp + rcx + 8], rdx; jne >none);
            }
            dynasm!(self.ops; .arch x64; add rax, [rbp + rcx + 16]);
            encode::memory(&mut self.ops, ADDRESS, RAX, RAX, -base.low);
            let slot = self.bases.slot(base.x).unwrap_or_default();
            dynasm!(self.ops
                ; .arch x64
                ; jmp >known
                ; none:
                ; xor eax, eax
                ; known:
                ; mov [rbx + slot], rax
            );
        }
    }

    /// Emits what finds the host's address of a load or store: that of its base register if there
    /// is one, or a probe. The address is in `rax` plus the displacement that is returned. Changes
    /// `rcx` and `rdx`.
    pub fn address(&mut self, inst: &Inst, size: i32, write: bool, slow: &mut Slow) -> i32 {
        let Some(slot) = self.bases.slot(inst.rs1) else {
            self.probe(inst.rs1, inst.imm, size, write, slow);
            return 0;
        };
        let probe = Probe {
            size,
            write,
            aligned: true,
        };
        slow.probe = Some(probe);
        let (from, back) = (self.ops.new_dynamic_label(), self.ops.new_dynamic_label());
        self.load_base(slot, from);
        dynasm!(self.ops; .arch x64; =>back);
        self.cold.unknown.push(Unknown {
            from,
            back,
            rs1: inst.rs1,
            imm: inst.imm,
            probe,
            miss: slow.miss,
            hit: slow.hit,
        });
        inst.imm
    }

    /// `rax` = the host's address of a base register; jumps to `unknown` if there is none.
    pub fn load_base(&mut self, slot: i32, unknown: DynamicLabel) {
        encode::memory(&mut self.ops, encode::LOAD_64, RAX, RBX, slot);
        dynasm!(self.ops; .arch x64; test rax, rax; jz =>unknown);
    }

    /// Emits the probe of an access whose base register has no address.
    pub fn unknown_base(&mut self, access: &Unknown) {
        dynasm!(self.ops; .arch x64; =>access.from);
        let base = self.value(access.rs1, RAX);
        self.add_to_rax(base, access.imm);
        self.inline_probe(access.probe, access.miss, access.hit);
        encode::memory(&mut self.ops, ADDRESS, RAX, RAX, -access.imm);
        dynasm!(self.ops; .arch x64; jmp =>access.back);
    }
}
