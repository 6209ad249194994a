//! Base registers that a region does not change ([`bases`](crate::native::bases)).
//!
//! Their pages are looked up when the region is entered. If the first way of the TLB has one, loads
//! and stores find the host's address in the context, and need no probe. Else they probe as
//! everywhere.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::Inst;

use super::compiler::{BlockCompiler, Slow, Unknown};
use super::encode::{self, LOAD_64, Logical, STORE_64};
use super::float::Float;
use super::regs::{CONTEXT, X0, X1, X2, at};
use super::template::{Template, template_of};
use super::trampolines::TLB_BITS;
use crate::native::probe::Probe;

/// Size in bytes of a load or store of integers or floating point, and whether it is a store.
pub(super) fn any_access(inst: &Inst) -> Option<(i32, bool)> {
    match template_of(inst)? {
        Template::Memory(access) => Some((access.size, access.store)),
        Template::Float(Float::Load(precision)) => Some((precision.bytes(), false)),
        Template::Float(Float::Store(precision)) => Some((precision.bytes(), true)),
        _ => None,
    }
}

/// Offset of the slot of a base register.
fn slot_at(slot: usize) -> u32 {
    at!(region_hosts) + 8 * slot as u32
}

impl BlockCompiler<'_> {
    /// Looks up the pages of base registers, when the region is entered. Changes `x0` to `x3` and
    /// `x17`.
    pub fn find_bases(&mut self) {
        for (slot, base) in self.bases.all().to_vec().into_iter().enumerate() {
            let address = self.value(base.x, X0);
            encode::add(&mut self.ops, X0, address, base.low.into());
            // The slot is the first byte's and the tag the last byte's: they match only if both are
            // in one page.
            dynasm!(self.ops; .arch aarch64; ubfx x1, x0, 12, TLB_BITS; add x1, x20, x1, lsl 5);
            encode::add(&mut self.ops, X2, X0, i64::from(base.high - base.low) - 1);
            encode::logical(&mut self.ops, Logical::And, X2, X2, !0xFFF);
            if base.align > 1 && !self.options.misaligned {
                let low_bits = base.align as u64 - 1;
                dynasm!(self.ops; .arch aarch64; tst x0, low_bits; b.ne >none);
            }
            if base.load {
                dynasm!(self.ops; .arch aarch64; ldr x3, [x1]; cmp x3, x2; b.ne >none);
            }
            if base.store {
                dynasm!(self.ops; .arch aarch64; ldr x3, [x1, 8]; cmp x3, x2; b.ne >none);
            }
            dynasm!(self.ops; .arch aarch64; ldr x1, [x1, 16]; add x0, x0, x1);
            encode::add(&mut self.ops, X0, X0, -i64::from(base.low));
            dynasm!(self.ops; .arch aarch64; b >known; none: ; mov x0, 0; known:);
            encode::memory(&mut self.ops, STORE_64, X0, CONTEXT, slot_at(slot));
        }
    }

    /// Emits what finds the host's address of a load or store, as the sum of `x0` and `x1`: that of
    /// its base register if there is one, or a probe. Changes `x2`, `x3` and `x17`.
    pub fn address(&mut self, inst: &Inst, size: i32, write: bool, slow: &mut Slow) {
        let Some(slot) = self.bases.slot(inst.rs1) else {
            return self.probe(inst, size, write, slow);
        };
        let probe = Probe {
            size,
            write,
            aligned: true,
        };
        slow.probe = Some(probe);
        let from = self.ops.new_dynamic_label();
        self.load_base(slot, from);
        encode::set(&mut self.ops, X1, i64::from(inst.imm) as u64);
        dynasm!(self.ops; .arch aarch64; =>slow.hit);
        self.cold.unknown.push(Unknown {
            from,
            rs1: inst.rs1,
            imm: inst.imm,
            probe,
            miss: slow.miss,
            hit: slow.hit,
        });
    }

    /// `x0` = the host's address of a base register; jumps to `unknown` if there is none.
    pub fn load_base(&mut self, slot: usize, unknown: DynamicLabel) {
        encode::memory(&mut self.ops, LOAD_64, X0, CONTEXT, slot_at(slot));
        dynasm!(self.ops; .arch aarch64; cbz x0, =>unknown);
    }

    /// Emits the probe of an access whose base register has no address.
    pub fn unknown_base(&mut self, access: &Unknown) {
        dynasm!(self.ops; .arch aarch64; =>access.from);
        let base = self.value(access.rs1, X0);
        encode::add(&mut self.ops, X0, base, access.imm.into());
        self.inline_probe(access.probe, access.miss);
        dynasm!(self.ops; .arch aarch64; b =>access.hit);
    }
}
