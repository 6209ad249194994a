//! Loads and stores: the TLB is looked up inline.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{Inst, Op};

use super::block::{BlockCompiler, Slow};
use super::regs::{Place, RAX, RDX, place};
use crate::{Position, TLB_ENTRIES};

/// Bytes that `cbo.zero` zeroes.
const CACHE_BLOCK: i32 = crate::CACHE_BLOCK as i32;

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

/// What a TLB probe is for.
#[derive(Clone, Copy)]
pub(super) struct Probe {
    /// Bytes: 1, 2, 4 or 8.
    pub size: i32,
    pub write: bool,
    /// It must be aligned.
    pub aligned: bool,
}

impl Probe {
    /// How many kinds there are.
    pub const KINDS: usize = 16;

    /// Number of the kind, less than [`KINDS`](Self::KINDS).
    pub fn number(self) -> usize {
        let size = self.size.trailing_zeros() as usize;
        size << 2 | usize::from(self.write) << 1 | usize::from(self.aligned)
    }

    /// The kind with a number.
    pub fn from_number(number: usize) -> Self {
        Self {
            size: 1 << (number >> 2),
            write: number & 2 != 0,
            aligned: number & 1 != 0,
        }
    }
}

impl BlockCompiler<'_> {
    /// Emits a load or store; `false` if `inst` is none that has a template.
    pub fn memory(&mut self, inst: &Inst, at: Position) -> bool {
        let Some((size, store)) = access(inst.op) else {
            return false;
        };
        let mut slow = self.slow_path(at);
        self.probe(inst.rs1, inst.imm, size, store, &mut slow);
        if let Some(probe) = &mut slow.probe {
            probe.aligned = !self.offsets.misaligned;
        }
        self.transfer(inst, 0, RAX);
        self.end_probe(slow);
        true
    }

    /// Moves between a register and host memory at `rax + at`. What is loaded to a register without a host
    /// register passes `scratch`; changes `rdx`.
    pub fn transfer(&mut self, inst: &Inst, at: i32, scratch: u8) {
        let Some((size, store)) = access(inst.op) else {
            return;
        };
        if store {
            let value = self.value(inst.rs2, RDX);
            match size {
                1 => dynasm!(self.ops; .arch x64; mov [rax + at], Rb(value)),
                2 => dynasm!(self.ops; .arch x64; mov [rax + at], Rw(value)),
                4 => dynasm!(self.ops; .arch x64; mov [rax + at], Rd(value)),
                _ => dynasm!(self.ops; .arch x64; mov [rax + at], Rq(value)),
            }
        } else {
            let to = match place(inst.rd) {
                Place::Host(host) => host,
                _ => scratch,
            };
            match inst.op {
                Op::Lb => dynasm!(self.ops; .arch x64; movsx Rq(to), BYTE [rax + at]),
                Op::Lbu => dynasm!(self.ops; .arch x64; movzx Rd(to), BYTE [rax + at]),
                Op::Lh => dynasm!(self.ops; .arch x64; movsx Rq(to), WORD [rax + at]),
                Op::Lhu => dynasm!(self.ops; .arch x64; movzx Rd(to), WORD [rax + at]),
                Op::Lw => dynasm!(self.ops; .arch x64; movsxd Rq(to), DWORD [rax + at]),
                Op::Lwu => dynasm!(self.ops; .arch x64; mov Rd(to), [rax + at]),
                _ => dynasm!(self.ops; .arch x64; mov Rq(to), [rax + at]),
            }
            self.put(inst.rd, to);
        }
    }

    /// Looks up the address `imm + rs1` for an access of `size` bytes: leaves the host address in `rax`,
    /// or the fast path. Changes `rcx` and `rdx`.
    pub fn probe(&mut self, rs1: u8, imm: i32, size: i32, write: bool, slow: &mut Slow) {
        let base = self.value(rs1, RAX);
        if rs1 == 0 {
            dynasm!(self.ops; .arch x64; mov rax, imm);
        } else if imm != 0 || base != RAX {
            dynasm!(self.ops; .arch x64; lea rax, [Rq(base) + imm]);
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

    /// The same for the address in `rax`. If the access may be misaligned, it hits at once nevertheless only
    /// if it is not.
    pub fn probe_rax(&mut self, probe: Probe, slow: &mut Slow) {
        // An entry has 32 bytes.
        let slots = ((TLB_ENTRIES - 1) << 5) as i32;
        let page = -4096 | (probe.size - 1);
        let tag = if probe.write { 8 } else { 0 };
        slow.probe = Some(probe);
        dynasm!(self.ops
            ; .arch x64
            ; mov rcx, rax
            ; mov rdx, rax
            ; shr rcx, 7
            ; and rdx, page
            ; and ecx, slots
            ; cmp [rbp + rcx + tag], rdx
            ; jne =>slow.miss
            ; add rax, [rbp + rcx + 16]
            ; =>slow.hit
        );
    }

    /// Looks again, more carefully: see [`Glue::again`](super::glue::Glue::again).
    pub fn probe_again(&mut self, slow: &Slow, probe: Probe) {
        let again = self.glue.again[probe.number()] as usize;
        dynasm!(self.ops
            ; .arch x64
            ; =>slow.miss
            ; call extern again
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

    /// Where the block goes on after the fast path or the slow one.
    pub fn end_probe(&mut self, slow: Slow) {
        dynasm!(self.ops; .arch x64; =>slow.back);
        self.cold.slow.push(slow);
    }

    /// Emits `cbo.zero`; `false` if `inst` is something else. A block does not leave its page.
    pub fn zero_block(&mut self, inst: &Inst, at: Position) -> bool {
        if inst.op != Op::CboZero {
            return false;
        }
        let mut slow = self.slow_path(at);
        let permitted = self.offsets.zero_block;
        dynasm!(self.ops
            ; .arch x64
            ; cmp BYTE [rbx + permitted], 0
            ; je =>slow.out
        );
        self.fetch(RAX, inst.rs1);
        dynasm!(self.ops; .arch x64; and rax, -CACHE_BLOCK);
        let probe = Probe {
            size: 8,
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
