//! Branches, jumps, and chaining of blocks.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{Inst, NO_REG, Op};

use super::compiler::{BlockCompiler, Target};
use super::encode::{self, ADDRESS, Alu, Width};
use super::regs::{R13, RAX, RCX};
use super::trampolines;

/// Offset of a page's last parcel.
const LAST_PARCEL: i32 = 4094;

impl BlockCompiler<'_> {
    /// Emits the taken path of a conditional branch; execution falls through if it is not taken.
    pub fn branch(&mut self, inst: &Inst) {
        let a = self.value(inst.rs1, RAX);
        if inst.rs2 == 0 {
            dynasm!(self.ops; .arch x64; test Rq(a), Rq(a));
            // `test` sets the flags that a comparison with zero would: carry and overflow are
            // clear.
        } else {
            let b = self.value(inst.rs2, RCX);
            dynasm!(self.ops; .arch x64; cmp Rq(a), Rq(b));
        }
        let to = self.at.wrapping_add(inst.imm);
        let target = self.direct(to).unwrap_or_else(|| {
            let taken = self.ops.new_dynamic_label();
            self.cold.gotos.push((taken, to));
            Target::Label(taken)
        });
        match (inst.op, target) {
            (Op::Beq, Target::Label(to)) => dynasm!(self.ops; .arch x64; je =>to),
            (Op::Bne, Target::Label(to)) => dynasm!(self.ops; .arch x64; jne =>to),
            (Op::Blt, Target::Label(to)) => dynasm!(self.ops; .arch x64; jl =>to),
            (Op::Bge, Target::Label(to)) => dynasm!(self.ops; .arch x64; jge =>to),
            (Op::Bltu, Target::Label(to)) => dynasm!(self.ops; .arch x64; jb =>to),
            (_, Target::Label(to)) => dynasm!(self.ops; .arch x64; jae =>to),
            (Op::Beq, Target::Code(to)) => dynasm!(self.ops; .arch x64; je extern to),
            (Op::Bne, Target::Code(to)) => dynasm!(self.ops; .arch x64; jne extern to),
            (Op::Blt, Target::Code(to)) => dynasm!(self.ops; .arch x64; jl extern to),
            (Op::Bge, Target::Code(to)) => dynasm!(self.ops; .arch x64; jge extern to),
            (Op::Bltu, Target::Code(to)) => dynasm!(self.ops; .arch x64; jb extern to),
            (_, Target::Code(to)) => dynasm!(self.ops; .arch x64; jae extern to),
        }
    }

    /// Emits `jal` or `jalr`. Returns the target's offset from the page if it is known.
    pub fn jump(&mut self, inst: &Inst) -> Option<i32> {
        let link = self.at + i32::from(inst.len);
        if inst.op == Op::Jal {
            self.link(inst.rd, link);
            return Some(self.at.wrapping_add(inst.imm));
        }
        let base = self.value(inst.rs1, RAX);
        encode::memory(&mut self.ops, ADDRESS, RCX, base, inst.imm);
        dynasm!(self.ops; .arch x64; and rcx, -2);
        self.link(inst.rd, link);
        dynasm!(self.ops; .arch x64; mov r13, rcx);
        trampolines::lookup(&mut self.ops, self.trampolines.second_way);
        None
    }

    /// Writes the return address, which is at `offset` of the page. Changes `rax` only.
    fn link(&mut self, rd: u8, offset: i32) {
        if rd != 0 && rd != NO_REG {
            let host = self.target(rd);
            encode::memory(&mut self.ops, ADDRESS, host, R13, offset);
            self.put(rd, host);
        }
    }

    /// Emits a jump to `offset` from the start of the page.
    pub fn goto(&mut self, offset: i32) {
        match self.direct(offset) {
            Some(Target::Label(to)) => return dynasm!(self.ops; .arch x64; jmp =>to),
            Some(Target::Code(to)) => return dynasm!(self.ops; .arch x64; jmp extern to),
            None => {}
        }
        // The last parcel may begin an instruction across pages at one time and a block at another:
        // such jumps always go through the table.
        if !(0..LAST_PARCEL).contains(&offset) || self.source.crossing.is_some() {
            encode::alu_value(&mut self.ops, Alu::Add, Width::Bits64, R13, offset);
            trampolines::lookup(&mut self.ops, self.trampolines.second_way);
            return;
        }
        let site = *self.sites as i32;
        *self.sites += 1;
        let request = trampolines::unlinked(site, offset);
        dynasm!(self.ops; .arch x64; mov eax, request);
        let here = self.base + self.ops.offset().0;
        let slot = self.slots + 8 * site as usize;
        // `jmp [rip + ...]`, 6 bytes long.
        let displacement = slot.wrapping_sub(here + 6) as i32;
        dynasm!(self.ops; .arch x64; .bytes [0xFF, 0x25]; .i32 displacement);
    }
}
