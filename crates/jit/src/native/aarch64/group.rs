//! Groups of accesses with one TLB probe (`native/group.rs`), or none if a region knows where their
//! base register points ([`bases`](super::bases)).

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};

use super::compiler::{BlockCompiler, GroupSlow};
use super::encode::{self, Logical};
use super::regs::{X0, X2};
use super::template::access_of;
use super::trampolines::TLB_BITS;
use crate::Position;
use crate::native::group::{Group, find};

impl BlockCompiler<'_> {
    /// Emits the group that begins with instruction `index`. Returns its length, 0 if there is
    /// none.
    pub fn group(&mut self, index: usize) -> usize {
        let insts = &self.source.insts[index..];
        let access = |op| access_of(op).map(|access| (access.size, access.store));
        let Some(group) = find(insts, access) else {
            return 0;
        };
        let slow = GroupSlow {
            first: (index, self.at as u32),
            len: group.len,
            out: self.ops.new_dynamic_label(),
            back: self.ops.new_dynamic_label(),
        };
        match self.bases.slot(insts[0].rs1) {
            Some(slot) => {
                self.load_base(slot, slow.out);
                encode::add(&mut self.ops, X0, X0, group.low.into());
            }
            None => self.probe_group(&group, insts[0].rs1, slow.out),
        }
        for inst in &insts[..group.len] {
            if let Some(access) = access_of(inst.op) {
                let at = (inst.imm - group.low) as u32;
                self.transfer(inst, access, |ops, register| {
                    encode::memory(ops, access.form, register, X0, at);
                });
            }
            self.at += i32::from(inst.len);
        }
        dynasm!(self.ops; .arch aarch64; =>slow.back);
        self.cold.groups.push(slow);
        group.len
    }

    /// Emits the shared probe: `x0` = the host's address of the lowest access.
    fn probe_group(&mut self, group: &Group, rs1: u8, out: DynamicLabel) {
        let base = self.value(rs1, X0);
        let tag = if group.store { 8 } else { 0 };
        encode::add(&mut self.ops, X0, base, group.low.into());
        // The slot is the first byte's and the tag the last byte's: they match only if both are in
        // one page.
        dynasm!(self.ops
            ; .arch aarch64
            ; ubfx x1, x0, 12, TLB_BITS
            ; add x1, x20, x1, lsl 5
            ; ldr x3, [x1, tag]
        );
        encode::add(&mut self.ops, X2, X0, i64::from(group.span) - 1);
        encode::logical(&mut self.ops, Logical::And, X2, X2, !0xFFF);
        if group.align > 1 && !self.options.misaligned {
            let low_bits = group.align as u64 - 1;
            dynasm!(self.ops; .arch aarch64; tst x0, low_bits; b.ne =>out);
        }
        dynasm!(self.ops
            ; .arch aarch64
            ; cmp x3, x2
            ; b.ne =>out
            ; ldr x1, [x1, 16]
            ; add x0, x0, x1
        );
    }

    /// Emits the slow path of a group.
    pub fn single_accesses(&mut self, group: &GroupSlow) {
        let (first, mut distance) = group.first;
        dynasm!(self.ops; .arch aarch64; =>group.out);
        let insts = self.source.insts;
        for (index, inst) in insts.iter().enumerate().skip(first).take(group.len) {
            if let Some(access) = access_of(inst.op) {
                self.memory(inst, Position::new(index as u8, distance), access);
            }
            distance += u32::from(inst.len);
        }
        dynasm!(self.ops; .arch aarch64; b =>group.back);
    }
}
