//! Loads and stores, with an inline TLB probe.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::inst::Inst;

use super::compiler::{BlockCompiler, Slow};
use super::encode::{self, ADDRESS, Form, Memory};
use super::regs::{Host, Place, RAX, RCX, RDX, at};
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
        let found = self.address(inst, access.size, access.store, &mut slow);
        if let Some((probe, _)) = &mut slow.probe {
            probe.aligned = !self.options.misaligned;
        }
        self.transfer(inst, access, found, RAX);
        self.end_probe(slow);
    }

    /// Moves between a register and host memory. A value loaded to a guest register without a host
    /// register passes through `scratch`; changes `rdx`.
    pub fn transfer(&mut self, inst: &Inst, access: Access, memory: Memory, scratch: Host) {
        if access.store {
            let value = self.value(inst.rs2, RDX);
            encode::memory_at(&mut self.ops, access.form, value, memory);
        } else {
            let to = match self.registers.place(inst.rd) {
                Place::Host(host) => host,
                _ => scratch,
            };
            encode::memory_at(&mut self.ops, access.form, to, memory);
            self.put(inst.rd, to);
        }
    }

    /// Emits the inline probe for an access of `size` bytes at `imm + rs1`, or the slow path is
    /// taken. Returns where the host's memory is. Changes `rax`, `rcx` and `rdx`.
    pub fn probe(&mut self, rs1: u8, imm: i32, size: i32, write: bool, slow: &mut Slow) -> Memory {
        let mut address = self.value(rs1, RAX);
        if rs1 == 0 {
            encode::set(&mut self.ops, RAX, imm);
            address = RAX;
        } else if imm != 0 {
            encode::memory(&mut self.ops, ADDRESS, RAX, address, imm);
            address = RAX;
        }
        let probe = Probe {
            size,
            write,
            aligned: true,
        };
        self.probe_at(probe, address, slow)
    }

    /// `rax = base + imm`.
    pub fn add_to_rax(&mut self, base: Host, imm: i32) {
        if imm != 0 {
            encode::memory(&mut self.ops, ADDRESS, RAX, base, imm);
        } else {
            encode::copy(&mut self.ops, RAX, base);
        }
    }

    /// As [`probe`](Self::probe), for an address in a register. Misaligned accesses always miss
    /// inline; the slow probe finds them where they are supported.
    pub fn probe_at(&mut self, probe: Probe, address: Host, slow: &mut Slow) -> Memory {
        slow.probe = Some((probe, address));
        self.inline_probe(probe, address, slow.miss, slow.hit)
    }

    /// The probe itself: jumps to `miss`, or goes on at `hit`, which is here, with what is to be
    /// added to the address in `rcx`.
    pub fn inline_probe(
        &mut self,
        probe: Probe,
        address: Host,
        miss: DynamicLabel,
        hit: DynamicLabel,
    ) -> Memory {
        // An entry has 32 bytes.
        let slots = ((TLB_ENTRIES - 1) << 5) as i32;
        let page = -4096 | (probe.size - 1);
        let tag = if probe.write { 8 } else { 0_i8 };
        dynasm!(self.ops
            ; .arch x64
            ; rorx ecx, Rd(address), 7
            ; mov rdx, Rq(address)
            ; and ecx, slots
            ; and rdx, page
            ; cmp [BYTE rbp + rcx + tag], rdx
            ; jne =>miss
            ; mov rcx, [rbp + rcx + 16]
            ; =>hit
        );
        Memory {
            base: address,
            index: Some(RCX),
            at: 0,
        }
    }

    /// Emits what lets `rax` be the host's address of `memory`.
    pub fn set_rax(&mut self, memory: Memory) {
        encode::memory_at(&mut self.ops, ADDRESS, RAX, memory);
    }

    /// Emits a call of the slow probe: see
    /// [`Trampolines::slow_probes`](super::trampolines::Trampolines::slow_probes).
    pub fn slow_probe(&mut self, slow: &Slow, probe: Probe, address: Host) {
        let probe = self.trampolines.slow_probes[probe.number()] as usize;
        dynasm!(self.ops; .arch x64; =>slow.miss);
        encode::copy(&mut self.ops, RAX, address);
        dynasm!(self.ops; .arch x64; call extern probe; jz =>slow.hit);
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
        let memory = self.probe_at(probe, RAX, &mut slow);
        self.set_rax(memory);
        dynasm!(self.ops; .arch x64; pxor xmm0, xmm0);
        for part in (0..CACHE_BLOCK).step_by(16) {
            dynasm!(self.ops; .arch x64; movups [rax + part], xmm0);
        }
        self.end_probe(slow);
    }
}
