//! Groups of accesses with one TLB probe (`native/group.rs`), or none if a region knows where their
//! base register points ([`bases`](super::bases)).

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};

use super::compiler::{BlockCompiler, GroupSlow};
use super::copies::Copies;
use super::encode::{self, ADDRESS, Memory};
use super::regs::{RAX, RCX, RDX};
use super::template::{Template, access_of, float_access_of, template_of};
use crate::native::group::{Group, find};
use crate::{Position, TLB_ENTRIES};

impl BlockCompiler<'_> {
    /// Emits the group that begins with instruction `index`. Returns its length, 0 if there is
    /// none.
    pub fn group(&mut self, index: usize) -> usize {
        let insts = &self.source.insts[index..];
        let integer = |op| access_of(op).map(|access| (access.size, access.store));
        let float = |op| float_access_of(op).map(|(precision, store)| (precision.bytes(), store));
        let Some(group) = find(insts, integer).or_else(|| find(insts, float)) else {
            return 0;
        };
        self.assign(index, group.len);
        let out = self.ops.new_dynamic_label();
        let copies = float_access_of(insts[0].op).map(|_| Box::new(self.copies.clone()));
        if copies.is_some() {
            self.require_dirty(out);
        }
        let slow = GroupSlow {
            first: (index, self.at as u32),
            len: group.len,
            out,
            back: self.ops.new_dynamic_label(),
            rest: self.copies.relied(),
            moved: self.moved(),
            copies,
        };
        // What the address in `rax` is for, and what is added to it.
        let (from, index) = match self.bases.slot(insts[0].rs1) {
            Some(slot) => {
                self.load_base(slot, slow.out);
                (0, None)
            }
            None => {
                self.probe_group(&group, insts[0].rs1, slow.out);
                (group.low, Some(RCX))
            }
        };
        for inst in &insts[..group.len] {
            let (base, at) = (RAX, inst.imm - from);
            let memory = Memory { base, index, at };
            if let Some(access) = access_of(inst.op) {
                self.transfer(inst, access, memory, RDX);
            } else if let Some((precision, store)) = float_access_of(inst.op) {
                self.float_transfer(inst, precision, store, memory);
            }
            self.at += i32::from(inst.len);
        }
        dynasm!(self.ops; .arch x64; =>slow.back);
        self.recent = None;
        self.cold.groups.push(slow);
        group.len
    }

    /// Emits the shared probe: `rax` = the address of the lowest access, `rcx` what is to be added
    /// to it.
    fn probe_group(&mut self, group: &Group, rs1: u8, out: DynamicLabel) {
        let base = self.value(rs1, RAX);
        if rs1 == 0 {
            encode::set(&mut self.ops, RAX, group.low);
        } else {
            self.add_to_rax(base, group.low);
        }
        let slots = ((TLB_ENTRIES - 1) << 5) as i32;
        let tag = if group.store { 8 } else { 0_i8 };
        // The slot is the first byte's and the tag the last byte's: they match only if both are in
        // one page.
        dynasm!(self.ops
            ; .arch x64
            ; rorx ecx, eax, 7
            ; and ecx, slots
        );
        encode::memory(&mut self.ops, ADDRESS, RDX, RAX, group.span - 1);
        dynasm!(self.ops; .arch x64; and rdx, -4096);
        if group.align > 1 && !self.options.misaligned {
            let low_bits = (group.align - 1) as i8;
            dynasm!(self.ops; .arch x64; test al, low_bits; jnz =>out);
        }
        dynasm!(self.ops
            ; .arch x64
            ; cmp [BYTE rbp + rcx + tag], rdx
            ; jne =>out
            ; mov rcx, [rbp + rcx + 16]
        );
    }

    /// Emits the slow path of a group.
    pub fn single_accesses(&mut self, group: &GroupSlow) {
        let (first, mut distance) = group.first;
        dynasm!(self.ops; .arch x64; =>group.out);
        let insts = self.source.insts;
        let moved = group.moved.as_deref();
        self.begin_single(moved);
        // The same accesses after the same copies lead to the same copies as in the hot code.
        if let Some(before) = &group.copies {
            self.copies = Copies::clone(before);
        }
        for (index, inst) in insts.iter().enumerate().skip(first).take(group.len) {
            self.assign_single(inst, moved);
            let at = Position::new(index as u8, distance);
            if let Some(access) = access_of(inst.op) {
                self.memory(inst, at, access);
            } else if let Some(Template::Float(how)) = template_of(inst) {
                self.float(inst, at, how);
            }
            if let Some(slow) = self.cold.slow.last_mut() {
                slow.rest = group.rest;
            }
            distance += u32::from(inst.len);
        }
        self.end_single(moved);
        dynasm!(self.ops; .arch x64; jmp =>group.back);
    }
}
