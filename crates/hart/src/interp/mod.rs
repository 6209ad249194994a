//! The interpreter: finds the block at `pc` and executes its instructions one after the other.
//!
//! | module | subject |
//! |---|---|
//! | this | block lookup, fetch, integer instructions, loads and stores |
//! | [`bits`] | Zba, Zbb, Zbs, Zicond, division |
//! | [`atomic`] | LR, SC, AMO |
//! | [`float`] | F and D |
//! | [`system`] | system instructions, fences, cache-block and hypervisor memory operations |

mod atomic;
mod bits;
mod float;
mod integer;
mod system;

use trapless_isa::cause::exception;
use trapless_isa::inst::{Inst, Op};

use crate::block::{Block, CodeCache};
use crate::platform::Platform;
use crate::run::Observer;
use crate::tlb::Access;
use crate::translate::Effective;
use crate::{Fault, Hart, ram};

/// Remembers blocks by virtual program counter, so that most lookups touch neither TLB nor cache.
pub(crate) struct JumpCache(Vec<Jump>);

const JUMPS: usize = 4096;

#[derive(Clone, Copy)]
struct Jump {
    pc: u64,
    /// Of the fetch TLB's entry, which must still be there: that alone decides when a fetch walks
    /// the page tables.
    addend: u64,
    /// Epoch of the code cache.
    epoch: u32,
    block: Block,
}

impl JumpCache {
    pub fn new() -> Self {
        Self(vec![
            Jump {
                pc: 1,
                addend: 0,
                epoch: 0,
                block: Block::EMPTY
            };
            JUMPS
        ])
    }

    /// Forgets the blocks at these offsets of the page at a host address.
    pub fn forget(&mut self, offsets: &[u16], page: usize) {
        for place in places(offsets, JUMPS) {
            let jump = &mut self.0[place];
            if jump.pc.wrapping_add(jump.addend) as usize & !0xFFF == page {
                jump.pc = 1;
            }
        }
    }

    /// Forgets all blocks.
    pub fn forget_all(&mut self) {
        self.0.iter_mut().for_each(|jump| jump.pc = 1);
    }
}

/// Places, in a cache of `size` entries by program counter / 2, of program counters with these offsets in their page:
/// pages may be mapped anywhere.
fn places(offsets: &[u16], size: usize) -> impl Iterator<Item = usize> {
    const PARCELS: usize = 4096 / 2;
    let starts = offsets.iter().map(|&offset| usize::from(offset) / 2);
    starts.flat_map(move |start| (start..size).step_by(PARCELS))
}

/// Where execution goes after an instruction off the fast path.
pub(crate) enum Flow {
    /// To the next instruction.
    Next,
    /// Elsewhere.
    Jump(u64),
}

impl Hart {
    /// Executes the block at `pc`, or takes the exception that fetching it raises. `false` if the
    /// observer wants to stop.
    pub(crate) fn step_block<const WATCH: bool>(
        &mut self,
        code: &mut CodeCache,
        plat: &mut dyn Platform,
        observer: &mut dyn Observer,
    ) -> bool {
        let slot = (self.state.pc >> 1) as usize & (JUMPS - 1);
        let jump = &self.jumps.0[slot];
        let entry = self.tlb.fetch(self.state.pc);
        let block = if jump.pc == self.state.pc
            && entry.exec == self.state.pc & !0xFFF
            && jump.addend == entry.addend
            && jump.epoch == code.epoch()
        {
            jump.block
        } else {
            match self.lookup(code) {
                Ok(Some(index)) => {
                    let block = code.block(index);
                    self.jumps.0[slot] = Jump {
                        pc: self.state.pc,
                        addend: self.tlb.fetch(self.state.pc).addend,
                        epoch: code.epoch(),
                        block,
                    };
                    block
                }
                Ok(None) => return self.single::<WATCH>(code, plat, observer).1,
                Err(Fault) => {
                    self.take_exception(self.state.pc, plat);
                    return true;
                }
            }
        };
        self.state.cycles += u64::from(block.cost);
        self.state.instret += u64::from(block.len);
        self.exec::<WATCH>(code.insts(&block), code.cost(), plat, observer)
    }

    /// Executes what an observer left of a block: `left` instructions from `pc` on. Blocks end where
    /// they would have ended without the stop, so that looking on changes nothing.
    #[cold]
    pub(crate) fn resume_block<const WATCH: bool>(
        &mut self,
        code: &mut CodeCache,
        plat: &mut dyn Platform,
        observer: &mut dyn Observer,
        left: usize,
    ) -> bool {
        let block = match self.lookup(code) {
            Ok(Some(index)) => code.block(index),
            Ok(None) => return self.single::<WATCH>(code, plat, observer).1,
            Err(Fault) => {
                self.take_exception(self.state.pc, plat);
                return true;
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
        let pa = if entry.exec == self.state.pc & !0xFFF {
            self.ram
                .physical(self.state.pc.wrapping_add(entry.addend) as usize)
        } else {
            let eff = self.effective_fetch();
            self.translate(self.state.pc, 2, Access::Exec, &eff)?
        };
        if !self.ram.contains(pa, 4096 - (pa & 0xFFF)) || !self.fetch_cached(self.state.pc) {
            return Ok(None);
        }
        let found = code.find(&self.ram, pa);
        self.note_stores();
        self.forget_changed_code(code);
        Ok(found)
    }

    /// Whether the page of `va` is in the fetch TLB, that is, executable as a whole.
    fn fetch_cached(&self, va: u64) -> bool {
        self.tlb.fetch(va).exec == va & !0xFFF
    }

    fn effective_fetch(&self) -> Effective {
        Effective {
            mode: self.mode,
            hlvx: false,
            array: self.tlb.fetch_array(),
        }
    }

    /// Executes one instruction that no block can hold: across pages, outside RAM, or in a page that
    /// PMP splits. Returns its bits if it could be fetched, and `false` if the observer wants to stop.
    #[cold]
    pub(crate) fn single<const WATCH: bool>(
        &mut self,
        code: &mut CodeCache,
        plat: &mut dyn Platform,
        observer: &mut dyn Observer,
    ) -> (Option<u32>, bool) {
        let raw = self.fetch_parcel(self.state.pc, plat).and_then(|low| {
            if low & 3 != 3 {
                return Ok(low);
            }
            Ok(low | self.fetch_parcel(self.state.pc.wrapping_add(2), plat)? << 16)
        });
        let Ok(raw) = raw else {
            self.take_exception(self.state.pc, plat);
            return (None, true);
        };
        let inst = code.single(raw);
        self.state.cycles += u64::from(code.cost().of(inst.op));
        self.state.instret += 1;
        let go_on = self.exec::<WATCH>(&[inst], code.cost(), plat, observer);
        (Some(raw), go_on)
    }

    fn fetch_parcel(&mut self, va: u64, plat: &mut dyn Platform) -> Result<u32, Fault> {
        let entry = self.tlb.fetch(va);
        if entry.exec == va & !0xFFF {
            let host = va.wrapping_add(entry.addend) as usize;
            // SAFETY: the TLB maps this page to RAM, and a parcel does not leave the page.
            return Ok(unsafe { ram::load(host, 2) } as u32);
        }
        let eff = self.effective_fetch();
        let pa = self.translate(va, 2, Access::Exec, &eff)?;
        let parcel = match self.ram.load(pa, 2) {
            Some(parcel) => Some(parcel),
            None => {
                let parcel = plat.load(self.id, self.state.cycles, pa, 2, self.mode).ok();
                self.lines_changed();
                parcel
            }
        };
        match parcel {
            Some(parcel) => Ok(parcel as u32),
            None => self.fault(exception::FETCH_ACCESS, va, self.mode.v()),
        }
    }

    /// Traps at the first instruction of `rest`, and undoes the charge for those behind it.
    #[cold]
    pub(crate) fn abort(
        &mut self,
        rest: &[Inst],
        pc: u64,
        cost: &crate::CostModel,
        plat: &mut dyn Platform,
    ) {
        self.uncharge(&rest[1..], cost);
        self.ahead = 0;
        // The trapping instruction costs its time but does not retire.
        self.state.instret -= 1;
        self.transform_tinst(&rest[0]);
        self.take_exception(pc, plat);
    }

    fn uncharge(&mut self, insts: &[Inst], cost: &crate::CostModel) {
        self.state.instret -= insts.len() as u64;
        self.state.cycles -= insts.iter().map(|i| u64::from(cost.of(i.op))).sum::<u64>();
    }

    /// Jump target check: without C, instructions are aligned to 4 bytes.
    #[inline]
    fn target(&mut self, target: u64) -> Result<u64, Fault> {
        if target & 2 != 0 && !self.config.extensions.c {
            return self.fault(exception::FETCH_MISALIGNED, target, self.mode.v());
        }
        Ok(target)
    }

    /// Executes what the fast path does not.
    fn exec_other(&mut self, inst: &Inst, pc: u64, plat: &mut dyn Platform) -> Result<Flow, Fault> {
        use trapless_isa::inst::{CostClass as C, Ext};
        match (inst.op.class(), inst.op.extension()) {
            (C::Csr, _) => self.csr_instruction(inst, plat).map(|()| Flow::Next),
            (C::Amo, _) => self.exec_atomic(inst).map(|()| Flow::Next),
            (_, Ext::F | Ext::D) => self.exec_float(inst, plat).map(|()| Flow::Next),
            (_, Ext::M | Ext::Zba | Ext::Zbb | Ext::Zbs | Ext::Zicond) => {
                self.exec_bits(inst);
                Ok(Flow::Next)
            }
            _ if inst.op == Op::Illegal => self.illegal(inst),
            _ => self.exec_system(inst, pc, plat),
        }
    }
}
