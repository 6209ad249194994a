//! Branches, jumps, and chaining of blocks.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{Inst, NO_REG, Op};

use super::compiler::BlockCompiler;
use super::encode::{self, Assembler, LOAD_64};
use super::regs::{CONTEXT, PAGE, X0, X1, X16, X17, ZERO, at};
use super::trampolines;
use crate::native::target::{LAST_PARCEL, Target, is_link};

/// Emits the jump of a branch whose operands were compared.
fn jump_if(ops: &mut Assembler, op: Op, to: DynamicLabel) {
    match op {
        Op::Beq => dynasm!(ops; .arch aarch64; b.eq =>to),
        Op::Bne => dynasm!(ops; .arch aarch64; b.ne =>to),
        Op::Blt => dynasm!(ops; .arch aarch64; b.lt =>to),
        Op::Bge => dynasm!(ops; .arch aarch64; b.ge =>to),
        Op::Bltu => dynasm!(ops; .arch aarch64; b.lo =>to),
        _ => dynasm!(ops; .arch aarch64; b.hs =>to),
    }
}

impl BlockCompiler<'_> {
    /// Emits the taken path of a conditional branch; execution falls through if it is not taken.
    pub fn branch(&mut self, inst: &Inst) {
        let to = self.at.wrapping_add(inst.imm);
        // A conditional jump reaches its own batch only.
        let taken = match self.direct(to) {
            Some(Target::Label(label)) => label,
            _ => {
                let taken = self.ops.new_dynamic_label();
                self.cold.gotos.push((taken, to));
                taken
            }
        };
        self.jump_if(inst, taken);
    }

    /// Emits the comparison and the jump of a conditional branch.
    pub fn jump_if(&mut self, inst: &Inst, taken: DynamicLabel) {
        let a = self.value(inst.rs1, X0);
        let b = self.value(inst.rs2, X1);
        match (inst.op, b == ZERO) {
            (Op::Beq, true) => dynasm!(self.ops; .arch aarch64; cbz X(a), =>taken),
            (Op::Bne, true) => dynasm!(self.ops; .arch aarch64; cbnz X(a), =>taken),
            (op, _) => {
                dynasm!(self.ops; .arch aarch64; cmp X(a), X(b));
                jump_if(&mut self.ops, op, taken);
            }
        }
    }

    /// Emits `jal` or `jalr`. Returns the offset of the next block if execution goes on there.
    pub fn jump(&mut self, inst: &Inst) -> Option<i32> {
        let link = self.at + i32::from(inst.len);
        let target = self.at.wrapping_add(inst.imm);
        let call = is_link(inst.rd) && link < LAST_PARCEL && self.source.crossing.is_none();
        if inst.op == Op::Jal && !call {
            self.link(inst.rd, link);
            return Some(target);
        }
        if inst.op == Op::Jalr {
            let base = self.value(inst.rs1, X0);
            encode::add(&mut self.ops, X0, base, inst.imm.into());
            dynasm!(self.ops; .arch aarch64; and x0, x0, !1);
        }
        self.link(inst.rd, link);
        if call {
            self.call(inst, target);
            // What was called returns here, with the guest's return address in `x16`.
            encode::add(&mut self.ops, PAGE, X16, (-link).into());
            return Some(link);
        }
        if is_link(inst.rs1) && matches!(inst.rd, 0 | NO_REG) {
            let unmatched = self.ops.new_dynamic_label();
            self.cold.unmatched = Some(unmatched);
            dynasm!(self.ops
                ; .arch aarch64
                ; ldp x16, x17, [sp]
                ; cmp x16, x0
                ; b.ne =>unmatched
                ; add sp, sp, 16
                ; ret x17
            );
            return None;
        }
        self.go_to_x0();
        None
    }

    /// Emits a frame, the return address in guest register `rd` and the host's, and a call of the
    /// code at offset `target` of the page, or for `jalr` at the address in `x0`. So the host
    /// predicts the guest's returns.
    ///
    /// A frame is only followed while nothing but compiled code has run since, which changes
    /// neither translation nor code: the return leads where a lookup would.
    fn call(&mut self, inst: &Inst, target: i32) {
        let (full, back) = (self.ops.new_dynamic_label(), self.ops.new_dynamic_label());
        let returned = self.ops.new_dynamic_label();
        self.cold.full = Some((full, back));
        encode::memory(&mut self.ops, LOAD_64, X17, CONTEXT, at!(stack_floor));
        dynasm!(self.ops
            ; .arch aarch64
            ; mov x16, sp
            ; cmp x16, x17
            ; b.ls =>full
            ; =>back
        );
        let address = self.value(inst.rd, X16);
        dynasm!(self.ops
            ; .arch aarch64
            ; adr x17, =>returned
            ; stp X(address), x17, [sp, -16]!
        );
        if inst.op == Op::Jal {
            self.call_offset(target);
        } else {
            encode::copy(&mut self.ops, X16, X0);
            trampolines::call_by_lookup(&mut self.ops, self.trampolines.second_way);
        }
        dynasm!(self.ops; .arch aarch64; =>returned);
    }

    /// Emits a call of the code at `offset` from the start of the page.
    fn call_offset(&mut self, offset: i32) {
        match self.direct(offset) {
            Some(Target::Label(to)) => return dynasm!(self.ops; .arch aarch64; bl =>to),
            Some(Target::Code(to)) => return self.ops.call(to),
            None => {}
        }
        if (0..LAST_PARCEL).contains(&offset) {
            self.load_site(offset);
            return dynasm!(self.ops; .arch aarch64; blr x16);
        }
        encode::add(&mut self.ops, X16, PAGE, offset.into());
        trampolines::call_by_lookup(&mut self.ops, self.trampolines.second_way);
    }

    /// Emits a jump to the guest's address in `x0`.
    pub fn go_to_x0(&mut self) {
        encode::copy(&mut self.ops, X16, X0);
        trampolines::lookup(&mut self.ops, self.trampolines.second_way);
    }

    /// Writes the return address, which is at `offset` of the page. Leaves `x0` alone.
    fn link(&mut self, rd: u8, offset: i32) {
        if rd != 0 && rd != NO_REG {
            let host = match self.target(rd) {
                X0 => X1,
                host => host,
            };
            encode::add(&mut self.ops, host, PAGE, offset.into());
            self.put(rd, host);
        }
    }

    /// Emits a jump to `offset` from the start of the page.
    pub fn goto(&mut self, offset: i32) {
        match self.direct(offset) {
            Some(Target::Label(to)) => return dynasm!(self.ops; .arch aarch64; b =>to),
            Some(Target::Code(to)) => return self.ops.jump(to),
            None => {}
        }
        // The last parcel may begin an instruction across pages at one time and a block at another:
        // such jumps always go through the table.
        if !(0..LAST_PARCEL).contains(&offset) || self.source.crossing.is_some() {
            encode::add(&mut self.ops, X16, PAGE, offset.into());
            trampolines::lookup(&mut self.ops, self.trampolines.second_way);
            return;
        }
        self.load_site(offset);
        dynasm!(self.ops; .arch aarch64; br x16);
    }

    /// Emits a load to `x16` of where a jump or call to `offset` in the page goes, which is linked
    /// once there is code.
    fn load_site(&mut self, offset: i32) {
        let site = *self.sites;
        *self.sites += 1;
        self.cold.unlinked.push((site, offset));
        self.ops.load_from(X16, self.slots + 8 * site as usize);
    }

    /// Emits what a site's jump does before it is linked.
    pub fn stub(&mut self, site: u32, offset: i32) {
        self.stubs.push((site, self.ops.offset().0));
        let request = trampolines::unlinked(site, offset as u32);
        encode::set(&mut self.ops, X0, request);
        self.ops.jump(self.trampolines.unlinked as usize);
    }
}
