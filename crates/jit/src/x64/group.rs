//! Loads or stores in a row with the same base register: one TLB probe for all, as when registers are saved
//! and restored.
//!
//! They go together only if each of them hits in the first way; that leaves no trace, so nobody can tell the
//! difference.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::Inst;

use super::block::{Apart, BlockCompiler};
use super::encode::{self, ADDRESS};
use super::memory::access;
use super::regs::{RAX, RCX, RDX};
use crate::{Position, TLB_ENTRIES};

/// Farthest apart that the accesses of a group are, in bytes.
const SPAN: i32 = 2048;

/// Accesses that may go together.
struct Group {
    len: usize,
    store: bool,
    /// Least immediate.
    low: i32,
    /// Bytes from the first one accessed to behind the last one.
    span: i32,
    /// Largest access in bytes.
    align: i32,
}

/// The group that `insts` begin with.
fn find(insts: &[Inst]) -> Option<Group> {
    let (size, store) = access(insts.first()?.op)?;
    let base = insts[0].rs1;
    let (mut low, mut high, mut align) = (insts[0].imm, insts[0].imm + size, size);
    let mut len = 0;
    for inst in insts {
        let Some((size, kind)) = access(inst.op) else {
            break;
        };
        let (new_low, new_high) = (low.min(inst.imm), high.max(inst.imm + size));
        let changed = !store && len != 0 && insts[len - 1].rd == base;
        // An aligned base makes all of them aligned.
        let apart = (inst.imm - insts[0].imm) % size.min(align) != 0;
        if kind != store || inst.rs1 != base || changed || apart || new_high - new_low > SPAN {
            break;
        }
        (low, high, align) = (new_low, new_high, align.max(size));
        len += 1;
    }
    let aligned = |inst: &Inst| {
        let (size, _) = access(inst.op).unwrap_or((1, false));
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
    /// Emits the group that begins with instruction `index`. Returns its length, 0 if there is none.
    pub fn group(&mut self, index: usize) -> usize {
        let insts = &self.source.insts[index..];
        let Some(group) = find(insts) else {
            return 0;
        };
        let apart = Apart {
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
        // The entry is the first byte's, the tag the last one's: they fit only if it is one page.
        dynasm!(self.ops
            ; .arch x64
            ; rorx ecx, eax, 7
            ; and ecx, slots
        );
        encode::memory(&mut self.ops, ADDRESS, RDX, RAX, group.span - 1);
        dynasm!(self.ops; .arch x64; and rdx, -4096);
        if group.align > 1 && !self.options.misaligned {
            let low_bits = (group.align - 1) as i8;
            dynasm!(self.ops; .arch x64; test al, low_bits; jnz =>apart.out);
        }
        dynasm!(self.ops
            ; .arch x64
            ; cmp [BYTE rbp + rcx + tag], rdx
            ; jne =>apart.out
            ; add rax, [rbp + rcx + 16]
        );
        for inst in &insts[..group.len] {
            self.transfer(inst, inst.imm - group.low, RCX);
            self.at += i32::from(inst.len);
        }
        dynasm!(self.ops; .arch x64; =>apart.back);
        self.cold.apart.push(apart);
        group.len
    }

    /// Emits the accesses of a group one after the other.
    pub fn apart(&mut self, group: &Apart) {
        let (first, mut distance) = group.first;
        dynasm!(self.ops; .arch x64; =>group.out);
        let insts = self.source.insts;
        for (index, inst) in insts.iter().enumerate().skip(first).take(group.len) {
            self.memory(inst, Position::new(index as u8, distance));
            distance += u32::from(inst.len);
        }
        dynasm!(self.ops; .arch x64; jmp =>group.back);
    }
}
