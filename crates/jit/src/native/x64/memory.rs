//! Loads and stores, with an inline TLB probe.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::inst::Inst;

use super::compiler::{BlockCompiler, Slow};
use super::encode::{self, ADDRESS, Form};
use super::regs::{Host, Place, RAX, RDX, at};
use crate::native::probe::{CACHE_BLOCK, Probe};
use crate::{Position, TLB_ENTRIES};

/// An integer load or store.
#[derive(Clone, Copy)]
pub(super) struct Access {
    /// Size in bytes.
    pub size: i32,
    pub store: bool,
    /// The instruction that moves the value.
    form: Form,
}

impl Access {
    pub const fn load(size: i32, form: Form) -> Self {
        Self {
            size,
            store: false,
            form,
        }
    }

    pub const fn store(size: i32, form: Form) -> Self {
        Self {
            size,
            store: true,
            form,
        }
    }
}

impl BlockCompiler<'_> {
    /// Emits a load or store.
    pub fn memory(&mut self, inst: &Inst, at: Position, access: Access) {
        let mut slow = self.slow_path(at);
        let at = self.address(inst, access.size, access.store, &mut slow);
        if let Some(probe) = &mut slow.probe {
            probe.aligned = !self.options.misaligned;
        }
        self.transfer(inst, access, at, RAX);
        self.end_probe(slow);
    }

    /// Moves between a register and host memory at `rax + at`. A value loaded to a guest register
    /// without a host register passes through `scratch`; changes `rdx`.
    pub fn transfer(&mut self, inst: &Inst, access: Access, at: i32, scratch: Host) {
        if access.store {
            let value = self.value(inst.rs2, RDX);
            encode::memory(&mut self.ops, access.form, value, RAX, at);
        } else {
            let to = match self.registers.place(inst.rd) {
                Place::Host(host) => host,
                _ => scratch,
            };
            encode::memory(&mut self.ops, access.form, to, RAX, at);
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
    pub fn add_to_rax(&mut self, base: Host, imm: i32) {
        if imm != 0 {
            encode::memory(&mut self.ops, ADDRESS, RAX, base, imm);
        } else {
            encode::copy(&mut self.ops, RAX, base);
        }
    }

    /// As [`probe`](Self::probe), for the address in `rax`. Misaligned accesses always miss inline;
    /// the slow probe finds them where they are supported.
    pub fn probe_rax(&mut self, probe: Probe, slow: &mut Slow) {
        slow.probe = Some(probe);
        self.inline_probe(probe, slow.miss, slow.hit);
    }

    /// The probe itself: jumps to `miss`, or goes on at `hit`, which is here.
    pub fn inline_probe(&mut self, probe: Probe, miss: DynamicLabel, hit: DynamicLabel) {
        // An entry has 32 bytes.
        let slots = ((TLB_ENTRIES - 1) << 5) as i32;
        let page = -4096 | (probe.size - 1);
        let tag = if probe.write { 8 } else { 0_i8 };
        dynasm!(self.ops
            ; .arch x64
            ; rorx ecx, eax, 7
            ; mov rdx, rax
            ; and ecx, slots
            ; and rdx, page
            ; cmp [BYTE rbp + rcx + tag], rdx
            ; jne =>miss
            ; add rax, [rbp + rcx + 16]
            ; =>hit
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
            recent: None,
            rest: false,
            moved: self.moved(),
        }
    }

    /// Ends an instruction with a slow path: both paths join here.
    pub fn end_probe(&mut self, mut slow: Slow) {
        slow.rest = self.copies.relied();
        let end = self.ops.offset().0;
        slow.recent = self.recent.filter(|recent| recent.end == end);
        dynasm!(self.ops; .arch x64; =>slow.back);
        self.cold.slow.push(slow);
    }

    /// Emits `cbo.zero`. A cache block never leaves its page.
    pub fn zero_block(&mut self, inst: &Inst, at: Position) {
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
    }
}
