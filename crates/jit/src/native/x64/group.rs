//! Groups: consecutive loads, or stores, with the same base register share one TLB probe, as when
//! registers are saved and restored.
//!
//! The shared probe is taken only if every access would hit in the first way. Such hits have no
//! side effects, so results are those of single accesses.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::Inst;

use super::compiler::{BlockCompiler, GroupSlow};
use super::encode::{self, ADDRESS};
use super::memory::Access;
use super::regs::{RAX, RCX, RDX};
use super::template::access_of;
use crate::{Position, TLB_ENTRIES};

/// Maximum range of addresses of a group in bytes.
const SPAN: i32 = 2048;

/// A run of accesses that can share a probe.
struct Group {
    len: usize,
    store: bool,
    /// Smallest immediate.
    low: i32,
    /// Bytes from the lowest address accessed to the end of the highest access.
    span: i32,
    /// Largest access in bytes.
    align: i32,
}

/// The group that `insts` begin with.
fn find(insts: &[Inst]) -> Option<Group> {
    let Access { size, store, .. } = access_of(insts.first()?.op)?;
    let base = insts[0].rs1;
    let (mut low, mut high, mut align) = (insts[0].imm, insts[0].imm + size, size);
    let mut len = 0;
    for inst in insts {
        let Some(access) = access_of(inst.op) else {
            break;
        };
        let size = access.size;
        let (new_low, new_high) = (low.min(inst.imm), high.max(inst.imm + size));
        let changed = !store && len != 0 && insts[len - 1].rd == base;
        // If the lowest address is aligned to the largest access, all accesses are aligned.
        let apart = (inst.imm - insts[0].imm) % size.min(align) != 0;
        if access.store != store
            || inst.rs1 != base
            || changed
            || apart
            || new_high - new_low > SPAN
        {
            break;
        }
        (low, high, align) = (new_low, new_high, align.max(size));
        len += 1;
    }
    let aligned = |inst: &Inst| {
        let size = access_of(inst.op).map_or(1, |access| access.size);
        (inst.imm - low) % size == 0
    };
    let group = Group {
        len,
        store,
        low,
        span: high - low,
        align,
    };
    (len > 1 && insts[..len].iter().all(aligned)).then_some(group)
}

impl BlockCompiler<'_> {
    /// Emits the group that begins with instruction `index`. Returns its length, 0 if there is
    /// none.
    pub fn group(&mut self, index: usize) -> usize {
        let insts = &self.source.insts[index..];
        let Some(group) = find(insts) else {
            return 0;
        };
        let slow = GroupSlow {
            first: (index, self.at as u32),
            len: group.len,
            out: self.ops.new_dynamic_label(),
            back: self.ops.new_dynamic_label(),
        };
        let base = self.value(insts[0].rs1, RAX);
        if insts[0].rs1 == 0 {
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
            dynasm!(self.ops; .arch x64; test al, low_bits; jnz =>slow.out);
        }
        dynasm!(self.ops
            ; .arch x64
            ; cmp [BYTE rbp + rcx + tag], rdx
            ; jne =>slow.out
            ; add rax, [rbp + rcx + 16]
        );
        for inst in &insts[..group.len] {
            if let Some(access) = access_of(inst.op) {
                self.transfer(inst, access, inst.imm - group.low, RCX);
            }
            self.at += i32::from(inst.len);
        }
        dynasm!(self.ops; .arch x64; =>slow.back);
        self.cold.groups.push(slow);
        group.len
    }

    /// Emits the slow path of a group.
    pub fn single_accesses(&mut self, group: &GroupSlow) {
        let (first, mut distance) = group.first;
        dynasm!(self.ops; .arch x64; =>group.out);
        let insts = self.source.insts;
        for (index, inst) in insts.iter().enumerate().skip(first).take(group.len) {
            if let Some(access) = access_of(inst.op) {
                self.memory(inst, Position::new(index as u8, distance), access);
            }
            distance += u32::from(inst.len);
        }
        dynasm!(self.ops; .arch x64; jmp =>group.back);
    }
}
