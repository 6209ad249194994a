//! Branches, jumps, and chaining of blocks.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{Inst, NO_REG, Op};

use super::compiler::BlockCompiler;
use super::encode::{self, ADDRESS, Alu, Width};
use super::regs::{Host, R13, RAX, RCX, at};
use super::trampolines::{self, Goal};
use crate::native::target::{LAST_PARCEL, Target, is_link};

/// How code goes on elsewhere.
#[derive(Clone, Copy)]
pub(super) enum Way {
    Jump,
    Call,
}

impl BlockCompiler<'_> {
    /// Emits the taken path of a conditional branch; execution falls through if it is not taken.
    pub fn branch(&mut self, inst: &Inst) {
        self.compare(inst);
        self.bring_home();
        let to = self.at.wrapping_add(inst.imm);
        let target = self.direct(to).unwrap_or_else(|| {
            let taken = self.ops.new_dynamic_label();
            self.cold.gotos.push((taken, to));
            Target::Label(taken)
        });
        self.jump_if(inst.op, target);
    }

    /// Sets flags by the operands of a conditional branch.
    pub fn compare(&mut self, inst: &Inst) {
        let a = self.value(inst.rs1, RAX);
        if inst.rs2 == 0 {
            dynasm!(self.ops; .arch x64; test Rq(a), Rq(a));
            // `test` sets the flags that a comparison with zero would: carry and overflow are
            // clear.
        } else {
            let b = self.operand(inst.rs2);
            self.alu(Alu::Cmp, Width::Bits64, a, b);
        }
    }

    /// Emits the jump of a branch.
    pub fn jump_if(&mut self, op: Op, target: Target) {
        match (op, target) {
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

    /// Emits `jal` or `jalr`. Returns the offset from the page of the instruction that follows, if
    /// it is known: the target, or after a call that instruction to which it returns.
    pub fn jump(&mut self, inst: &Inst) -> Option<i32> {
        let link = self.at + i32::from(inst.len);
        let target = self.at.wrapping_add(inst.imm);
        let call = is_link(inst.rd) && link < LAST_PARCEL && self.source.crossing.is_none();
        if inst.op == Op::Jal && !call {
            self.link(inst.rd, link);
            return Some(target);
        }
        let returns = is_link(inst.rs1) && matches!(inst.rd, 0 | NO_REG);
        if inst.op == Op::Jalr {
            if inst.imm == 0 {
                self.fetch(RCX, inst.rs1);
            } else {
                let base = self.value(inst.rs1, RAX);
                encode::memory(&mut self.ops, ADDRESS, RCX, base, inst.imm);
            }
            if !returns {
                dynasm!(self.ops; .arch x64; and rcx, -2);
            }
        }
        let address = self.link(inst.rd, link);
        if call {
            self.push_frame(address);
            if inst.op == Op::Jal {
                self.call(target);
            } else {
                dynasm!(self.ops; .arch x64; mov r13, rcx);
                self.by_lookup(Way::Call, Goal::Address);
            }
            // What was called returns here.
            dynasm!(self.ops; .arch x64; pop r13);
            encode::alu_value(&mut self.ops, Alu::Sub, Width::Bits64, R13, link);
            return Some(link);
        }
        if returns {
            // What calls push is even: an odd address does not match.
            let unmatched = self.ops.new_dynamic_label();
            self.cold.unmatched = Some(unmatched);
            dynasm!(self.ops; .arch x64; cmp [rsp + 8], rcx; jne =>unmatched; ret);
            return None;
        }
        self.go_to_rcx();
        None
    }

    /// Emits the first half of a frame, the return address in `address`; the host's instruction
    /// `call` makes the other half. So the host predicts the guest's returns.
    ///
    /// A frame is only followed while nothing but compiled code has run since, which changes
    /// neither translation nor code: the return leads where a lookup would.
    fn push_frame(&mut self, address: Host) {
        let (full, back) = (self.ops.new_dynamic_label(), self.ops.new_dynamic_label());
        self.cold.full = Some((full, back));
        dynasm!(self.ops
            ; .arch x64
            ; cmp rsp, [rbx + at!(stack_floor)]
            ; jbe =>full
            ; =>back
        );
        dynasm!(self.ops; .arch x64; push Rq(address));
    }

    /// Emits a call of the code at `offset` from the start of the page.
    fn call(&mut self, offset: i32) {
        match self.direct(offset) {
            Some(Target::Label(to)) => return dynasm!(self.ops; .arch x64; call =>to),
            Some(Target::Code(to)) => return dynasm!(self.ops; .arch x64; call extern to),
            None => {}
        }
        if (0..LAST_PARCEL).contains(&offset) {
            return self.by_site(Way::Call, offset);
        }
        self.by_lookup(Way::Call, Goal::Offset(offset));
    }

    /// Emits a call of, or jump to, code that is looked up. Each has its own lookup: the host
    /// predicts badly where one jump goes that all of them share.
    pub fn by_lookup(&mut self, way: Way, to: Goal) {
        let elsewhere = self.ops.new_dynamic_label();
        to.find(&mut self.ops);
        dynasm!(self.ops; .arch x64; jne =>elsewhere);
        to.read_table(&mut self.ops);
        let back = match way {
            Way::Jump => {
                dynasm!(self.ops; .arch x64; jmp rcx);
                None
            }
            Way::Call => {
                let back = self.ops.new_dynamic_label();
                dynasm!(self.ops; .arch x64; call rcx; =>back);
                Some(back)
            }
        };
        self.cold.lookups.push((elsewhere, to, back));
    }

    /// Emits what a lookup does whose page is not in the first way of the fetch TLB.
    pub fn look_in_second_way(&mut self, from: DynamicLabel, to: Goal, back: Option<DynamicLabel>) {
        let second_way = self.trampolines.second_way as usize;
        dynasm!(self.ops; .arch x64; =>from);
        if let Goal::Offset(offset) = to {
            encode::memory(&mut self.ops, ADDRESS, R13, R13, offset);
        }
        match back {
            Some(back) => dynasm!(self.ops; .arch x64; call extern second_way; jmp =>back),
            None => dynasm!(self.ops; .arch x64; jmp extern second_way),
        }
    }

    /// Emits a jump to the guest's address in `rcx`.
    pub fn go_to_rcx(&mut self) {
        dynasm!(self.ops; .arch x64; mov r13, rcx);
        trampolines::lookup(&mut self.ops, self.trampolines.second_way);
    }

    /// Writes the return address, which is at `offset` of the page. Changes `rax` only. Returns the
    /// host register that has it, too, if `rd` is not `x0`.
    fn link(&mut self, rd: u8, offset: i32) -> Host {
        let host = self.target(rd);
        if rd != 0 && rd != NO_REG {
            encode::memory(&mut self.ops, ADDRESS, host, R13, offset);
            self.put(rd, host);
        }
        host
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
            return self.by_lookup(Way::Jump, Goal::Offset(offset));
        }
        self.by_site(Way::Jump, offset);
    }

    /// Emits a jump or call to `offset` in the page, which is linked once there is code.
    fn by_site(&mut self, way: Way, offset: i32) {
        let site = *self.sites;
        *self.sites += 1;
        self.cold.unlinked.push((site, offset));
        let here = self.base + self.ops.offset().0;
        let slot = self.slots + 8 * site as usize;
        // `[rip + ...]`; the instruction is 6 bytes long.
        let displacement = slot.wrapping_sub(here + 6) as i32;
        let how = match way {
            Way::Call => 0x15,
            Way::Jump => 0x25,
        };
        dynasm!(self.ops; .arch x64; .bytes [0xFF, how]; .i32 displacement);
    }

    /// Emits where a site's jump or call goes before it is linked.
    pub fn stub(&mut self, site: u32, offset: i32) {
        self.stubs.push((site, self.ops.offset().0));
        let request = trampolines::unlinked(site as i32, offset);
        let unlinked = self.trampolines.unlinked as usize;
        dynasm!(self.ops; .arch x64; mov eax, request; jmp extern unlinked);
    }
}
