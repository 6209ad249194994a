//! Loads and stores, with an inline TLB probe.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{Inst, Op};

use super::block::{BlockCompiler, Slow};
use super::encode::{
    self, ADDRESS, LOAD_8, LOAD_16, LOAD_32, LOAD_64, LOAD_S8, LOAD_S16, LOAD_S32, STORE_8,
    STORE_16, STORE_32, STORE_64,
};
use super::probe::{CACHE_BLOCK, Probe};
use super::regs::{Place, RAX, RDX, at, place};
use crate::{Position, TLB_ENTRIES};

/// Size in bytes of an integer load or store, and whether it is a store.
pub(super) fn access(op: Op) -> Option<(i32, bool)> {
    Some(match op {
        Op::Lb | Op::Lbu => (1, false),
        Op::Lh | Op::Lhu => (2, false),
        Op::Lw | Op::Lwu => (4, false),
        Op::Ld => (8, false),
        Op::Sb => (1, true),
        Op::Sh => (2, true),
        Op::Sw => (4, true),
        Op::Sd => (8, true),
        _ => return None,
    })
}

impl BlockCompiler<'_> {
    /// Emits a load or store; `false` if `inst` has no template here.
    pub fn memory(&mut self, inst: &Inst, at: Position) -> bool {
        let Some((size, store)) = access(inst.op) else {
            return false;
        };
        let mut slow = self.slow_path(at);
        self.probe(inst.rs1, inst.imm, size, store, &mut slow);
        if let Some(probe) = &mut slow.probe {
            probe.aligned = !self.options.misaligned;
        }
        self.transfer(inst, 0, RAX);
        self.end_probe(slow);
        true
    }

    /// Moves between a register and host memory at `rax + at`. What is loaded to a register without
    /// a host register passes `scratch`; changes `rdx`.
    pub fn transfer(&mut self, inst: &Inst, at: i32, scratch: u8) {
        let Some((size, store)) = access(inst.op) else {
            return;
        };
        if store {
            let value = self.value(inst.rs2, RDX);
            let form = match size {
                1 => STORE_8,
                2 => STORE_16,
                4 => STORE_32,
                _ => STORE_64,
            };
            encode::memory(&mut self.ops, form, value, RAX, at);
        } else {
            let to = match place(inst.rd) {
                Place::Host(host) => host,
                _ => scratch,
            };
            let form = match inst.op {
                Op::Lb => LOAD_S8,
                Op::Lbu => LOAD_8,
                Op::Lh => LOAD_S16,
                Op::Lhu => LOAD_16,
                Op::Lw => LOAD_S32,
                Op::Lwu => LOAD_32,
                _ => LOAD_64,
            };
            encode::memory(&mut self.ops, form, to, RAX, at);
            self.put(inst.rd, to);
        }
    }

    /// Emits the inline probe for an access of `size` bytes at `imm + rs1`: the host address is in
    /// `rax`, or the slow path is taken. Changes `rcx` and `rdx`.
    pub fn probe(&mut self, rs1: u8, imm: i32, size: i32, write: bool, slow: &mut Slow) {
        let base = self.value(rs1, RAX);
        if rs1 == 0 {
            encode::set(&mut self.ops, RAX, imm);
        } else {
            self.add_to_rax(base, imm);
        }
        self.probe_rax(
            Probe {
                size,
                write,
                aligned: true,
            },
            slow,
        );
    }

    /// `rax = base + imm`.
    pub fn add_to_rax(&mut self, base: u8, imm: i32) {
        if imm != 0 {
            encode::memory(&mut self.ops, ADDRESS, RAX, base, imm);
        } else {
            self.copy(RAX, base);
        }
    }

    /// As [`probe`](Self::probe), for the address in `rax`. Misaligned accesses always miss inline;
    /// the slow probe finds them where they are supported.
    pub fn probe_rax(&mut self, probe: Probe, slow: &mut Slow) {
        // An entry has 32 bytes.
        let slots = ((TLB_ENTRIES - 1) << 5) as i32;
        let page = -4096 | (probe.size - 1);
        let tag = if probe.write { 8 } else { 0_i8 };
        slow.probe = Some(probe);
        dynasm!(self.ops
            ; .arch x64
            ; rorx ecx, eax, 7
            ; mov rdx, rax
            ; and ecx, slots
            ; and rdx, page
            ; cmp [BYTE rbp + rcx + tag], rdx
            ; jne =>slow.miss
            ; add rax, [rbp + rcx + 16]
            ; =>slow.hit
        );
    }

    /// Emits a call of the slow probe: see
    /// [`Trampolines::slow_probes`](super::trampolines::Trampolines::slow_probes).
    pub fn slow_probe(&mut self, slow: &Slow, probe: Probe) {
        let probe = self.trampolines.slow_probes[probe.number()] as usize;
        dynasm!(self.ops
            ; .arch x64
            ; =>slow.miss
            ; call extern probe
            ; jz =>slow.hit
        );
    }

    /// Labels around a fast path for the instruction at `at`.
    pub fn slow_path(&mut self, at: Position) -> Slow {
        Slow {
            at,
            csr: None,
            out: self.ops.new_dynamic_label(),
            miss: self.ops.new_dynamic_label(),
            hit: self.ops.new_dynamic_label(),
            probe: None,
            back: self.ops.new_dynamic_label(),
        }
    }

    /// Ends an instruction with a slow path: both paths meet here.
    pub fn end_probe(&mut self, slow: Slow) {
        dynasm!(self.ops; .arch x64; =>slow.back);
        self.cold.slow.push(slow);
    }

    /// Emits `cbo.zero`; `false` for other instructions. A cache block never leaves its page.
    pub fn zero_block(&mut self, inst: &Inst, at: Position) -> bool {
        if inst.op != Op::CboZero {
            return false;
        }
        let mut slow = self.slow_path(at);
        dynasm!(self.ops
            ; .arch x64
            ; cmp BYTE [rbx + at!(csr.zero_block)], 0
            ; je =>slow.out
        );
        self.fetch(RAX, inst.rs1);
        dynasm!(self.ops; .arch x64; and rax, -CACHE_BLOCK);
        let probe = Probe {
            size: CACHE_BLOCK,
            write: true,
            aligned: true,
        };
        self.probe_rax(probe, &mut slow);
        dynasm!(self.ops; .arch x64; pxor xmm0, xmm0);
        for part in (0..CACHE_BLOCK).step_by(16) {
            dynasm!(self.ops; .arch x64; movups [rax + part], xmm0);
        }
        self.end_probe(slow);
        true
    }
}
