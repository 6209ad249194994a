//! The fast path: integer instructions, branches, jumps, loads and stores.

use std::ops::ControlFlow;

use trapless_isa::inst::{Inst, Op};
use trapless_isa::page::PAGE_MASK;
use trapless_isa::semantics;

use super::Flow;
use crate::config::CostModel;
use crate::engine::run::Observer;
use crate::hart::Hart;
use crate::memory::address::HostAddr;
use crate::memory::ram;
use crate::platform::Platform;
use crate::syndrome::Fault;

/// Sign-extends the low 32 bits.
#[inline(always)]
pub(super) fn sext32(v: u64) -> u64 {
    v as i32 as u64
}

impl Hart {
    #[inline(always)]
    fn load_fast(&mut self, va: u64, size: u8, plat: &mut dyn Platform) -> Result<u64, Fault> {
        let entry = self.tlb.data(va);
        // A misaligned address keeps low bits, so no tag matches.
        if entry.read == va & (PAGE_MASK | (u64::from(size) - 1)) {
            let host = HostAddr::of(va, entry.addend);
            // SAFETY: the TLB maps this page to RAM, and an aligned access does not leave the page.
            return Ok(unsafe { ram::load(host, size) });
        }
        let eff = self.effective();
        self.load_slow(va, size, &eff, plat)
    }

    #[inline(always)]
    fn store_fast(
        &mut self,
        va: u64,
        size: u8,
        value: u64,
        plat: &mut dyn Platform,
    ) -> Result<(), Fault> {
        let entry = self.tlb.data(va);
        if entry.write == va & (PAGE_MASK | (u64::from(size) - 1)) {
            let host = HostAddr::of(va, entry.addend);
            // SAFETY: the TLB maps this page to RAM, and an aligned access does not leave the page.
            unsafe { ram::store(host, size, value) };
            return Ok(());
        }
        let eff = self.effective();
        self.store_slow(va, size, value, &eff, plat)
    }

    /// Load for other modules of the interpreter.
    pub(super) fn load(
        &mut self,
        va: u64,
        size: u8,
        plat: &mut dyn Platform,
    ) -> Result<u64, Fault> {
        self.load_fast(va, size, plat)
    }

    /// Store for other modules of the interpreter.
    pub(super) fn store(
        &mut self,
        va: u64,
        size: u8,
        value: u64,
        plat: &mut dyn Platform,
    ) -> Result<(), Fault> {
        self.store_fast(va, size, value, plat)
    }

    /// Executes a block, or a single instruction, that has been charged as a whole. Breaks if
    /// the observer stops it; the charge for the rest is then refunded.
    pub(crate) fn exec<const WATCH: bool>(
        &mut self,
        insts: &[Inst],
        cost: &CostModel,
        plat: &mut dyn Platform,
        observer: &mut dyn Observer,
    ) -> ControlFlow<()> {
        let mut pc = self.state.pc;
        if WATCH {
            self.watch.ahead = insts.iter().map(|i| u64::from(cost.of(i.op))).sum();
        }
        for (i, inst) in insts.iter().enumerate() {
            if WATCH {
                self.state.pc = pc;
                self.watch.ahead -= u64::from(cost.of(inst.op));
                if !observer.before(self, pc, inst) {
                    self.uncharge(&insts[i..], cost);
                    self.turn.cut(pc, insts.len() - i);
                    self.watch.ahead = 0;
                    return ControlFlow::Break(());
                }
            }
            let next = match self.exec_one(inst, pc, plat) {
                Ok(Flow::Next) => pc.wrapping_add(u64::from(inst.len)),
                Ok(Flow::Jump(target)) => {
                    self.state.pc = target;
                    if WATCH {
                        observer.after(self, pc, inst);
                    }
                    return ControlFlow::Continue(());
                }
                Err(Fault) => {
                    self.abort(&insts[i..], pc, cost, plat);
                    return ControlFlow::Continue(());
                }
            };
            if WATCH {
                self.state.pc = next;
                observer.after(self, pc, inst);
            }
            pc = next;
        }
        self.state.pc = pc;
        ControlFlow::Continue(())
    }

    /// Executes the instruction at `pc`.
    #[allow(clippy::too_many_lines)] // One line per instruction.
    #[inline(always)]
    pub(crate) fn exec_one(
        &mut self,
        inst: &Inst,
        pc: u64,
        plat: &mut dyn Platform,
    ) -> Result<Flow, Fault> {
        macro_rules! rs1 {
            () => {
                self.state.x[usize::from(inst.rs1 & 63)]
            };
        }
        macro_rules! rs2 {
            () => {
                self.state.x[usize::from(inst.rs2 & 63)]
            };
        }
        macro_rules! imm {
            () => {
                inst.imm as i64 as u64
            };
        }
        macro_rules! rd {
            ($value:expr) => {{
                let value = $value;
                self.state.x[usize::from(inst.rd & 63)] = value;
            }};
        }
        macro_rules! load {
            ($size:literal, $extend:expr) => {{
                let value = self.load_fast(rs1!().wrapping_add(imm!()), $size, plat)?;
                let extend: fn(u64) -> u64 = $extend;
                rd!(extend(value))
            }};
        }
        macro_rules! store {
            ($size:literal) => {
                self.store_fast(rs1!().wrapping_add(imm!()), $size, rs2!(), plat)?
            };
        }
        macro_rules! branch {
            ($taken:expr) => {
                if $taken {
                    return self.target(pc.wrapping_add(imm!())).map(Flow::Jump);
                }
            };
        }
        // One match for all: those that only compute are in the table of `trapless_isa::semantics`.
        macro_rules! execute {
            (
                registers { $($r:ident |$ra:ident, $rb:ident| $rv:expr;)+ }
                register { $($u:ident |$ua:ident| $uv:expr;)+ }
                immediate { $($i:ident |$ia:ident, $ib:ident| $iv:expr;)+ }
                upper { $($p:ident |$pa:ident, $pb:ident| $pv:expr;)+ }
            ) => {
                match inst.op {
                    Op::Addi if inst.moves_to_tp() => self.move_to_tp(rs1!(), plat),
                    Op::Add if inst.moves_to_tp() => self.move_to_tp(rs2!(), plat),
                    Op::Ld => load!(8, |v| v),
                    Op::Sd => store!(8),
                    Op::Lw => load!(4, sext32),
                    Op::Sw => store!(4),
                    Op::Lbu => load!(1, |v| v),
                    Op::Lhu => load!(2, |v| v),
                    Op::Lwu => load!(4, |v| v),
                    Op::Lb => load!(1, |v| v as i8 as u64),
                    Op::Lh => load!(2, |v| v as i16 as u64),
                    Op::Sb => store!(1),
                    Op::Sh => store!(2),
                    Op::Beq => branch!(rs1!() == rs2!()),
                    Op::Bne => branch!(rs1!() != rs2!()),
                    Op::Blt => branch!((rs1!() as i64) < rs2!() as i64),
                    Op::Bge => branch!(rs1!() as i64 >= rs2!() as i64),
                    Op::Bltu => branch!(rs1!() < rs2!()),
                    Op::Bgeu => branch!(rs1!() >= rs2!()),
                    Op::Jal => {
                        let target = self.target(pc.wrapping_add(imm!()))?;
                        rd!(pc.wrapping_add(u64::from(inst.len)));
                        return Ok(Flow::Jump(target));
                    }
                    Op::Jalr => {
                        let target = self.target(rs1!().wrapping_add(imm!()) & !1)?;
                        rd!(pc.wrapping_add(u64::from(inst.len)));
                        return Ok(Flow::Jump(target));
                    }
                    // One host thread runs all harts, so fences order nothing; hints do nothing.
                    Op::Fence | Op::PrefetchI | Op::PrefetchR | Op::PrefetchW | Op::Pause => {}
                    $(Op::$r => rd!({ let ($ra, $rb) = (rs1!(), rs2!()); $rv }),)+
                    $(Op::$u => rd!({ let $ua = rs1!(); $uv }),)+
                    $(Op::$i => rd!({ let ($ia, $ib) = (rs1!(), imm!()); $iv }),)+
                    $(Op::$p => rd!({ let ($pa, $pb) = (pc, imm!()); $pv }),)+
                    _ => return self.exec_other(inst, pc, plat),
                }
            };
        }
        semantics!(execute);
        Ok(Flow::Next)
    }
}
