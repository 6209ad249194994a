//! Base registers that a region does not change ([`bases`](crate::native::bases)).
//!
//! Their pages are looked up when the region is entered. If the first way of the TLB has one, loads
//! and stores find the host's address in the context, and need no probe. Else they probe as
//! everywhere.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::Inst;

use super::compiler::{BlockCompiler, Slow, Unknown};
use super::encode::{self, ADDRESS, Memory};
use super::regs::{RAX, RBX, RDX, at};
use super::template::{Template, float_access_of, template_of};
use crate::TLB_ENTRIES;
use crate::native::probe::Probe;

/// Size in bytes of a load or store of integers or floating point, and whether it is a store.
pub(super) fn any_access(inst: &Inst) -> Option<(i32, bool)> {
    match template_of(inst)? {
        Template::Memory(access) => Some((access.size, access.store)),
        _ => float_access_of(inst.op).map(|(precision, store)| (precision.bytes(), store)),
    }
}

/// Displacement of the slot of a base register.
fn slot_at(slot: usize) -> i32 {
    at!(region_hosts) + 8 * slot as i32
}

impl BlockCompiler<'_> {
    /// Looks up the pages of base registers, when the region is entered. Changes `rax`, `rcx` and
    /// `rdx`.
    pub fn find_bases(&mut self) {
        let slots = ((TLB_ENTRIES - 1) << 5) as i32;
        for (slot, base) in self.bases.all().to_vec().into_iter().enumerate() {
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
            let slot = slot_at(slot);
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
    /// is one, or a probe. Changes `rax`, `rcx` and `rdx`.
    pub fn address(&mut self, inst: &Inst, size: i32, write: bool, slow: &mut Slow) -> Memory {
        let Some(slot) = self.bases.slot(inst.rs1) else {
            return self.probe(inst.rs1, inst.imm, size, write, slow);
        };
        let probe = Probe {
            size,
            write,
            aligned: true,
        };
        slow.probe = Some((probe, RAX));
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
        Memory {
            base: RAX,
            index: None,
            at: inst.imm,
        }
    }

    /// `rax` = the host's address of a base register; jumps to `unknown` if there is none.
    pub fn load_base(&mut self, slot: usize, unknown: DynamicLabel) {
        encode::memory(&mut self.ops, encode::LOAD_64, RAX, RBX, slot_at(slot));
        dynasm!(self.ops; .arch x64; test rax, rax; jz =>unknown);
    }

    /// Emits the probe of an access whose base register has no address.
    pub fn unknown_base(&mut self, access: &Unknown) {
        dynasm!(self.ops; .arch x64; =>access.from);
        let base = self.value(access.rs1, RAX);
        self.add_to_rax(base, access.imm);
        let memory = self.inline_probe(access.probe, RAX, access.miss, access.hit);
        self.set_rax(Memory {
            at: -access.imm,
            ..memory
        });
        dynasm!(self.ops; .arch x64; jmp =>access.back);
    }
}
