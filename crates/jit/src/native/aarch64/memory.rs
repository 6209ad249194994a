//! Loads and stores, with an inline TLB probe.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::inst::Inst;

use super::compiler::{BlockCompiler, Slow};
use super::encode::{self, Assembler, Form, LOAD_8, Logical};
use super::regs::{CONTEXT, Host, Place, X0, X1, X2, at};
use super::trampolines::TLB_BITS;
use crate::Position;
use crate::native::probe::{CACHE_BLOCK, Probe};

/// An integer load or store.
#[derive(Clone, Copy)]
pub(super) struct Access {
    /// Size in bytes.
    pub size: i32,
    pub store: bool,
    /// The instruction that moves the value.
    pub form: Form,
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
        self.address(inst, access.size, access.store, &mut slow);
        if let Some(probe) = &mut slow.probe {
            probe.aligned = !self.options.misaligned;
        }
        self.transfer(inst, access, |ops, register| {
            encode::indexed(ops, access.form, register, X0, X1);
        });
        self.end_probe(slow);
    }

    /// Moves between a guest register and memory by what `emit` emits for a host register. Changes
    /// `x2`.
    pub fn transfer(&mut self, inst: &Inst, access: Access, emit: impl Fn(&mut Assembler, Host)) {
        if access.store {
            let value = self.value(inst.rs2, X2);
            emit(&mut self.ops, value);
        } else {
            let to = match self.registers.place(inst.rd) {
                Place::Host(host) => host,
                _ => X2,
            };
            emit(&mut self.ops, to);
            self.put(inst.rd, to);
        }
    }

    /// Emits the inline probe for an access of `size` bytes at `rs1` plus the immediate: the
    /// guest's address is in `x0` and what leads to the host's in `x1`, or the slow path is taken.
    /// Changes `x2`, `x3` and `x17`.
    pub fn probe(&mut self, inst: &Inst, size: i32, write: bool, slow: &mut Slow) {
        let base = self.value(inst.rs1, X0);
        encode::add(&mut self.ops, X0, base, inst.imm.into());
        self.probe_x0(
            Probe {
                size,
                write,
                aligned: true,
            },
            slow,
        );
    }

    /// As [`probe`](Self::probe), for the address in `x0`. Misaligned accesses always miss inline;
    /// the slow probe finds them where they are supported.
    pub fn probe_x0(&mut self, probe: Probe, slow: &mut Slow) {
        slow.probe = Some(probe);
        self.inline_probe(probe, slow.miss);
        dynasm!(self.ops; .arch aarch64; =>slow.hit);
    }

    /// The probe of [`probe_x0`](Self::probe_x0).
    pub fn inline_probe(&mut self, probe: Probe, miss: DynamicLabel) {
        let tag = if probe.write { 8 } else { 0 };
        let tag_bits = -4096 | i64::from(probe.size - 1);
        dynasm!(self.ops
            ; .arch aarch64
            ; ubfx x1, x0, 12, TLB_BITS
            ; add x1, x20, x1, lsl 5
            ; ldr x3, [x1, tag]
        );
        encode::logical(&mut self.ops, Logical::And, X2, X0, tag_bits as u64);
        dynasm!(self.ops
            ; .arch aarch64
            ; cmp x3, x2
            ; b.ne =>miss
            ; ldr x1, [x1, 16]
        );
    }

    /// Emits a call of the slow probe: see
    /// [`Trampolines::slow_probes`](super::trampolines::Trampolines::slow_probes).
    pub fn slow_probe(&mut self, slow: &Slow, probe: Probe) {
        dynasm!(self.ops; .arch aarch64; =>slow.miss);
        self.ops
            .call(self.trampolines.slow_probes[probe.number()] as usize);
        dynasm!(self.ops; .arch aarch64; b.eq =>slow.hit);
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

    /// Ends an instruction with a slow path: both paths join here.
    pub fn end_probe(&mut self, slow: Slow) {
        dynasm!(self.ops; .arch aarch64; =>slow.back);
        self.cold.slow.push(slow);
    }

    /// Emits `cbo.zero`. A cache block never leaves its page.
    pub fn zero_block(&mut self, inst: &Inst, at: Position) {
        let mut slow = self.slow_path(at);
        encode::memory(&mut self.ops, LOAD_8, X0, CONTEXT, at!(csr.zero_block));
        dynasm!(self.ops; .arch aarch64; cbz w0, =>slow.out);
        let base = self.value(inst.rs1, X0);
        let block = !(CACHE_BLOCK as u64 - 1);
        encode::copy(&mut self.ops, X0, base);
        encode::logical(&mut self.ops, Logical::And, X0, X0, block);
        let probe = Probe {
            size: CACHE_BLOCK,
            write: true,
            aligned: true,
        };
        self.probe_x0(probe, &mut slow);
        dynasm!(self.ops; .arch aarch64; add x0, x0, x1);
        for part in (0..CACHE_BLOCK).step_by(16) {
            dynasm!(self.ops; .arch aarch64; stp xzr, xzr, [x0, part]);
        }
        self.end_probe(slow);
    }
}
