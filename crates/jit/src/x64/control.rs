//! Branches, jumps, and the chains between blocks.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{Inst, Op};

use super::block::BlockCompiler;
use super::glue;
use super::regs::{RAX, RCX};

impl BlockCompiler<'_> {
    /// A conditional branch, the last of its block.
    pub fn branch(&mut self, inst: &Inst) {
        let next = self.at + i32::from(inst.len);
        let a = self.value(inst.rs1, RAX);
        if inst.rs2 == 0 {
            dynasm!(self.ops; .arch x64; test Rq(a), Rq(a));
            // Compared with zero, `test` sets what `cmp` would: no carry, no overflow.
        } else {
            let b = self.value(inst.rs2, RCX);
            dynasm!(self.ops; .arch x64; cmp Rq(a), Rq(b));
        }
        let taken = self.ops.new_dynamic_label();
        match inst.op {
            Op::Beq => dynasm!(self.ops; .arch x64; je =>taken),
            Op::Bne => dynasm!(self.ops; .arch x64; jne =>taken),
            Op::Blt => dynasm!(self.ops; .arch x64; jl =>taken),
            Op::Bge => dynasm!(self.ops; .arch x64; jge =>taken),
            Op::Bltu => dynasm!(self.ops; .arch x64; jb =>taken),
            _ => dynasm!(self.ops; .arch x64; jae =>taken),
        }
        self.goto(next);
        dynasm!(self.ops; .arch x64; =>taken);
        self.goto(self.at.wrapping_add(inst.imm));
    }

    /// `jal` and `jalr`.
    pub fn jump(&mut self, inst: &Inst) {
        let link = self.at + i32::from(inst.len);
        if inst.op == Op::Jal {
            self.link(inst.rd, link);
            self.goto(self.at.wrapping_add(inst.imm));
            return;
        }
        let base = self.value(inst.rs1, RAX);
        dynasm!(self.ops
            ; .arch x64
            ; lea rcx, [Rq(base) + inst.imm]
            ; and rcx, -2
        );
        self.link(inst.rd, link);
        dynasm!(self.ops; .arch x64; mov r13, rcx);
        glue::lookup(&mut self.ops, self.offsets, self.glue.ways);
    }

    /// Writes the return address, `distance` behind the block's start. Changes `rax` only.
    fn link(&mut self, rd: u8, distance: i32) {
        if rd != 0 && rd != 32 {
            let host = self.target(rd);
            dynasm!(self.ops; .arch x64; lea Rq(host), [r13 + distance]);
            self.put(rd, host);
        }
    }

    /// Goes on `distance` behind the block's start.
    pub fn goto(&mut self, distance: i32) {
        let start = self.source.offset as i32;
        let page = start.wrapping_add(distance);
        if distance != 0 {
            dynasm!(self.ops; .arch x64; add r13, distance);
        }
        if !(0..4096).contains(&page) {
            glue::lookup(&mut self.ops, self.offsets, self.glue.ways);
            return;
        }
        let site = *self.sites as i32;
        *self.sites += 1;
        dynasm!(self.ops; .arch x64; mov eax, site);
        let here = self.base + self.ops.offset().0;
        let slot = self.slots + 8 * site as usize;
        // `jmp [rip + ...]`, 6 bytes long.
        let displacement = slot.wrapping_sub(here + 6) as i32;
        dynasm!(self.ops; .arch x64; .bytes [0xFF, 0x25]; .i32 displacement);
    }
}
