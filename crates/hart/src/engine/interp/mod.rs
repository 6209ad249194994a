//! The interpreter: finds the block at `pc` and executes its instructions one after the other.
//!
//! | module | subject |
//! |---|---|
//! | this | block lookup, fetch, charging |
//! | [`integer`] | integer instructions, branches, jumps, loads and stores |
//! | [`atomic`] | LR, SC, AMO |
//! | [`float`] | F and D |
//! | [`system`] | system instructions, fences, cache-block and hypervisor memory operations |

mod atomic;
mod float;
mod integer;
mod system;

use std::ops::ControlFlow;

use trapless_isa::cause::exception;
use trapless_isa::inst::{Inst, Op};
use trapless_isa::page::{PAGE_MASK, PAGE_SIZE, page_offset};

use crate::code::CodeCache;
use crate::config::CostModel;
use crate::engine::run::Observer;
use crate::hart::Hart;
use crate::memory::address::{Access, HostAddr};
use crate::memory::ram;
use crate::memory::translate::Effective;
use crate::platform::Platform;
use crate::syndrome::Fault;

/// Where execution continues.
pub(crate) enum Flow {
    /// To the next instruction.
    Next,
    /// Elsewhere.
    Jump(u64),
}

impl Hart {
    /// Executes the block at `pc`, or takes the exception that fetching it raises. Breaks if the
    /// observer stops it.
    pub(crate) fn step_block<const WATCH: bool>(
        &mut self,
        code: &mut CodeCache,
        plat: &mut dyn Platform,
        observer: &mut dyn Observer,
    ) -> ControlFlow<()> {
        let pc = self.state.pc;
        let known = self.code.jumps.get(pc, self.tlb.fetch(pc), code.epoch());
        let block = match known {
            Some(block) => block,
            None => match self.lookup(code) {
                Ok(Some(index)) => {
                    let block = code.block(index);
                    let entry = self.tlb.fetch(pc);
                    self.code.jumps.set(pc, entry, code.epoch(), block);
                    block
                }
                Ok(None) => return self.single::<WATCH>(code, plat, observer).1,
                Err(Fault) => {
                    self.take_exception(pc, plat);
                    return ControlFlow::Continue(());
                }
            },
        };
        self.state.cycles += u64::from(block.cost);
        self.state.instret += u64::from(block.len);
        self.exec::<WATCH>(code.insts(&block), code.cost(), plat, observer)
    }

    /// Executes the rest of a block that an observer stopped: `left` instructions from `pc` on.
    /// Blocks end where they would have ended without the stop, so that observing changes nothing.
    #[cold]
    pub(crate) fn resume_block<const WATCH: bool>(
        &mut self,
        code: &mut CodeCache,
        plat: &mut dyn Platform,
        observer: &mut dyn Observer,
        left: usize,
    ) -> ControlFlow<()> {
        let block = match self.lookup(code) {
            Ok(Some(index)) => code.block(index),
            Ok(None) => return self.single::<WATCH>(code, plat, observer).1,
            Err(Fault) => {
                self.take_exception(self.state.pc, plat);
                return ControlFlow::Continue(());
            }
        };
        let insts = code.insts(&block);
        let insts = &insts[..left.min(insts.len())];
        self.state.instret += insts.len() as u64;
        let price = insts.iter().map(|i| u64::from(code.cost().of(i.op)));
        self.state.cycles += price.sum::<u64>();
        self.exec::<WATCH>(insts, code.cost(), plat, observer)
    }

    /// Index of the block at `pc`; `None` if its first instruction crosses a page or is not in RAM.
    pub(crate) fn lookup(&mut self, code: &mut CodeCache) -> Result<Option<u32>, Fault> {
        let entry = self.tlb.fetch(self.state.pc);
        let pa = if entry.exec == self.state.pc & PAGE_MASK {
            self.ram.physical(HostAddr::of(self.state.pc, entry.addend))
        } else {
            let eff = self.effective_fetch();
            let pa = self.translate(self.state.pc, 2, Access::Exec, &eff)?;
            self.exclude_fetched(code);
            pa
        };
        if !self.ram.contains(pa, PAGE_SIZE - page_offset(pa)) || !self.fetch_cached(self.state.pc)
        {
            return Ok(None);
        }
        let found = code.find(&self.ram, pa);
        self.catch_up(code);
        Ok(found)
    }

    /// Whether the page of `va` is in the fetch TLB, that is, executable as a whole.
    fn fetch_cached(&self, va: u64) -> bool {
        self.tlb.fetch(va).exec == va & PAGE_MASK
    }

    fn effective_fetch(&self) -> Effective {
        Effective {
            mode: self.mode,
            hlvx: false,
            array: self.tlb.fetch_array(),
        }
    }

    /// Executes one instruction that no block can hold: a crossing, outside RAM, or in a page that
    /// PMP splits. Returns its bits if it could be fetched, and breaks if the observer stops it.
    #[cold]
    pub(crate) fn single<const WATCH: bool>(
        &mut self,
        code: &mut CodeCache,
        plat: &mut dyn Platform,
        observer: &mut dyn Observer,
    ) -> (Option<u32>, ControlFlow<()>) {
        let raw = self.fetch_parcel(self.state.pc, plat).and_then(|low| {
            if low & 3 != 3 {
                return Ok(low);
            }
            Ok(low | self.fetch_parcel(self.state.pc.wrapping_add(2), plat)? << 16)
        });
        let Ok(raw) = raw else {
            self.take_exception(self.state.pc, plat);
            return (None, ControlFlow::Continue(()));
        };
        let inst = code.single(raw);
        self.state.cycles += u64::from(code.cost().of(inst.op));
        self.state.instret += 1;
        let flow = self.exec::<WATCH>(&[inst], code.cost(), plat, observer);
        (Some(raw), flow)
    }

    fn fetch_parcel(&mut self, va: u64, plat: &mut dyn Platform) -> Result<u32, Fault> {
        let entry = self.tlb.fetch(va);
        if entry.exec == va & PAGE_MASK {
            let host = HostAddr::of(va, entry.addend);
            // SAFETY: the TLB maps this page to RAM, and a parcel does not leave the page.
            return Ok(unsafe { ram::load(host, 2) } as u32);
        }
        let eff = self.effective_fetch();
        let pa = self.translate(va, 2, Access::Exec, &eff)?;
        let parcel = match self.ram.load(pa, 2) {
            Some(parcel) => Some(parcel),
            None => {
                let parcel = plat.load(self.id, self.state.cycles, pa, 2, self.mode).ok();
                self.state.cycles += u64::from(plat.take_delay());
                self.lines_changed();
                parcel
            }
        };
        match parcel {
            Some(parcel) => Ok(parcel as u32),
            None => self.fault(exception::FETCH_ACCESS, va, self.mode),
        }
    }

    /// Traps at the first instruction of `rest`, and refunds the charge for the others. If a
    /// trigger matched, it only pauses.
    #[cold]
    pub(crate) fn abort(
        &mut self,
        rest: &[Inst],
        pc: u64,
        cost: &CostModel,
        plat: &mut dyn Platform,
    ) {
        if self.pause(rest, pc, cost) {
            return;
        }
        self.uncharge(&rest[1..], cost);
        self.watch.ahead = 0;
        // The trapping instruction costs its time but does not retire.
        self.state.instret -= 1;
        self.transform_tinst(&rest[0]);
        self.take_exception(pc, plat);
    }

    pub(crate) fn uncharge(&mut self, insts: &[Inst], cost: &CostModel) {
        self.state.instret -= insts.len() as u64;
        self.state.cycles -= insts.iter().map(|i| u64::from(cost.of(i.op))).sum::<u64>();
    }

    /// Jump target check: without C, instructions are aligned to 4 bytes.
    #[inline]
    fn target(&mut self, target: u64) -> Result<u64, Fault> {
        if target & 2 != 0 && !self.config.extensions.c {
            return self.fault(exception::FETCH_MISALIGNED, target, self.mode);
        }
        Ok(target)
    }

    /// Executes instructions that are not on the fast path.
    fn exec_other(&mut self, inst: &Inst, pc: u64, plat: &mut dyn Platform) -> Result<Flow, Fault> {
        use trapless_isa::inst::{CostClass as C, Ext};
        match (inst.op.class(), inst.op.extension()) {
            (C::Csr, _) => self.csr_instruction(inst, plat).map(|()| Flow::Next),
            (C::Amo, _) => self.exec_atomic(inst).map(|()| Flow::Next),
            (_, Ext::F | Ext::D) => self.exec_float(inst, plat).map(|()| Flow::Next),
            _ if inst.op == Op::Illegal => self.illegal(inst),
            _ => self.exec_system(inst, pc, plat),
        }
    }
}
