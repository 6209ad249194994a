//! Slow paths of loads, stores and atomics.

use trapless_isa::cause::exception;
use trapless_isa::page::{PAGE_MASK, PAGE_SIZE, page_offset};
use trapless_isa::port::DoorbellAccess;
use trapless_isa::{Mode, Priv};

use super::address::{Access, HostAddr};
use super::ram;
use super::translate::{Effective, key};
use crate::config::CACHE_BLOCK;
use crate::hart::Hart;
use crate::platform::Platform;
use crate::syndrome::Fault;

impl Hart {
    /// Mode and flags of ordinary loads and stores.
    pub(crate) fn effective(&self) -> Effective {
        Effective {
            mode: self.data_mode,
            hlvx: false,
            array: self.tlb.data_array(),
        }
    }

    /// Mode and flags of `hlv`, `hlvx` and `hsv`: V=1 with the privilege in `hstatus.SPVP`.
    pub(crate) fn effective_guest(&mut self, hlvx: bool) -> Effective {
        let privilege = if self.csr.hstatus & trapless_isa::csr::hstatus::SPVP != 0 {
            Priv::S
        } else {
            Priv::U
        };
        let mode = Mode::new(privilege, true);
        let key = key(&self.csr, mode);
        let array = self.tlb.intern(&key);
        Effective { mode, hlvx, array }
    }

    /// Physical address for an access that does not cross a page.
    fn physical(
        &mut self,
        va: u64,
        len: u64,
        access: Access,
        eff: &Effective,
    ) -> Result<Place, Fault> {
        let known = (!eff.hlvx).then(|| self.tlb.lookup(eff.array, va, access));
        let host = match known.flatten() {
            Some(host) => {
                self.watch.counts.slow_hits += 1;
                if access == Access::Write && self.tlb.noted(eff.array, va) {
                    let page = self.ram.page_of(host);
                    if self.ram.code_pages().writable(page) {
                        self.tlb.unnote(eff.array, va, page);
                    }
                }
                host
            }
            None => {
                let pa = self.translate(va, len, access, eff)?;
                if !self.ram.contains(pa, len) {
                    return Ok(Place::Bus(pa));
                }
                self.ram.host(pa)
            }
        };
        if access == Access::Write {
            let (page, offset) = (self.ram.page_of(host), page_offset(va) as usize);
            if self.ram.will_store(page, offset, len as usize) {
                self.turn.compare_code();
                self.attention();
            }
        }
        Ok(Place::Ram(host))
    }

    /// Load by the slow path.
    #[cold]
    pub(crate) fn load_slow(
        &mut self,
        va: u64,
        size: u8,
        eff: &Effective,
        plat: &mut dyn Platform,
    ) -> Result<u64, Fault> {
        let len = u64::from(size);
        self.trigger(va, len, true, false)?;
        let misaligned = va & (len - 1) != 0;
        if misaligned && !self.config.misaligned {
            return self.fault(exception::LOAD_MISALIGNED, va, eff.mode);
        }
        if page_offset(va) + len > PAGE_SIZE {
            let Some(hosts) = self.across_pages(va, len, Access::Read, eff)? else {
                return self.fault(exception::LOAD_ACCESS, va, eff.mode);
            };
            let bytes = hosts.iter().enumerate().take(usize::from(size));
            // SAFETY: `across_pages` found these bytes inside RAM.
            let byte = |(i, host): (usize, &HostAddr)| unsafe { ram::load(*host, 1) } << (8 * i);
            return Ok(bytes.map(byte).fold(0, |value, byte| value | byte));
        }
        let place = match self.physical(va, len, Access::Read, eff) {
            Ok(place) => place,
            Err(fault) => return self.doorbell(fault, va, size, None, plat),
        };
        match place {
            // SAFETY: `physical` found `size` bytes of one page inside RAM.
            Place::Ram(host) => Ok(unsafe { ram::load(host, size) }),
            Place::Bus(pa) => {
                self.state.cycles += u64::from(self.config.cost.device);
                let mut value = None;
                if !misaligned {
                    let loaded = plat.load(self.id, self.state.cycles, pa, size, eff.mode);
                    value = loaded.ok();
                    self.state.cycles += u64::from(plat.take_delay());
                }
                self.lines_changed();
                match value {
                    Some(value) => Ok(value),
                    None => self.fault(exception::LOAD_ACCESS, va, eff.mode),
                }
            }
        }
    }

    /// Store by the slow path.
    #[cold]
    pub(crate) fn store_slow(
        &mut self,
        va: u64,
        size: u8,
        value: u64,
        eff: &Effective,
        plat: &mut dyn Platform,
    ) -> Result<(), Fault> {
        let len = u64::from(size);
        self.trigger(va, len, false, true)?;
        let misaligned = va & (len - 1) != 0;
        if misaligned && !self.config.misaligned {
            return self.fault(exception::STORE_MISALIGNED, va, eff.mode);
        }
        if page_offset(va) + len > PAGE_SIZE {
            return self.store_across_pages(va, size, value, eff);
        }
        let place = match self.physical(va, len, Access::Write, eff) {
            Ok(place) => place,
            Err(fault) => {
                let rung = self.doorbell(fault, va, size, Some(value), plat);
                return rung.map(|_| ());
            }
        };
        match place {
            Place::Ram(host) => {
                // SAFETY: `physical` found `size` bytes of one page inside RAM.
                unsafe { ram::store(host, size, value) };
                Ok(())
            }
            Place::Bus(pa) => {
                self.state.cycles += u64::from(self.config.cost.device);
                let mut done = false;
                if !misaligned {
                    let stored = plat.store(self.id, self.state.cycles, pa, size, value, eff.mode);
                    done = stored.is_ok();
                    self.state.cycles += u64::from(plat.take_delay());
                }
                self.lines_changed();
                if done {
                    Ok(())
                } else {
                    self.fault(exception::STORE_ACCESS, va, eff.mode)
                }
            }
        }
    }

    /// Completes an explicit load or store that ended in `fault`, if a doorbell page handles it
    /// (HA-IOV, `VEI-5`). Returns the value of a load.
    fn doorbell(
        &mut self,
        fault: Fault,
        va: u64,
        size: u8,
        stored: Option<u64>,
        plat: &mut dyn Platform,
    ) -> Result<u64, Fault> {
        // The hypervisor's loads and stores for a guest do not ring doorbells.
        let Some(page) = self.syndrome.doorbell.filter(|_| self.mode.v()) else {
            return Err(fault);
        };
        self.state.cycles += u64::from(self.config.cost.device);
        let access = DoorbellAccess {
            hart: self.id,
            mode: self.mode,
            now: self.state.cycles,
            page,
            offset: page_offset(va) as u16,
            size,
            stored,
        };
        let answer = plat.doorbell(&access);
        self.state.cycles += u64::from(plat.take_delay());
        self.lines_changed();
        answer.map_err(|unanswered| {
            self.syndrome.doorbell = None;
            if unanswered.mmio {
                let access = if stored.is_some() {
                    Access::Write
                } else {
                    Access::Read
                };
                self.syndrome.cause = self.mmio_cause(access);
            }
            fault
        })
    }

    /// Both pages are translated before the first byte is written.
    fn store_across_pages(
        &mut self,
        va: u64,
        size: u8,
        value: u64,
        eff: &Effective,
    ) -> Result<(), Fault> {
        let Some(hosts) = self.across_pages(va, size.into(), Access::Write, eff)? else {
            return self.fault(exception::STORE_ACCESS, va, eff.mode);
        };
        for (i, host) in hosts.iter().enumerate().take(usize::from(size)) {
            // SAFETY: `across_pages` found this byte inside RAM.
            unsafe { ram::store(*host, 1, value >> (8 * i)) };
        }
        Ok(())
    }

    /// Host addresses of the `len` bytes of an access that begins in one page and ends in the next;
    /// `None` if one of them is outside RAM.
    fn across_pages(
        &mut self,
        va: u64,
        len: u64,
        access: Access,
        eff: &Effective,
    ) -> Result<Option<[HostAddr; 8]>, Fault> {
        let mut hosts = [HostAddr::new(0); 8];
        let first = PAGE_SIZE - page_offset(va);
        let parts = [(0, first), (first, len - first)];
        let has = |hart: &mut Self, at: u64| {
            !eff.hlvx
                && hart
                    .tlb
                    .lookup(eff.array, va.wrapping_add(at), access)
                    .is_some()
        };
        // If not, a byte may have another permission than the one before it: each is asked for.
        let together = has(self, 0) && has(self, first);
        for (from, len) in parts {
            let step = if together { len } else { 1 };
            for at in (from..from + len).step_by(step as usize) {
                let Place::Ram(host) = self.physical(va.wrapping_add(at), step, access, eff)?
                else {
                    return Ok(None);
                };
                for byte in 0..step {
                    hosts[(at + byte) as usize] = host.add(byte as usize);
                }
            }
        }
        Ok(Some(hosts))
    }

    /// Host address for LR (which loads only), SC (which stores only) and AMO: naturally aligned,
    /// in RAM.
    pub(crate) fn atomic(
        &mut self,
        va: u64,
        size: u8,
        load: bool,
        write: bool,
    ) -> Result<HostAddr, Fault> {
        let entry = self.tlb.data(va);
        let tag = if write { entry.write } else { entry.read };
        // A misaligned address keeps low bits, so no tag matches.
        if tag == va & (PAGE_MASK | (u64::from(size) - 1)) {
            return Ok(HostAddr::of(va, entry.addend));
        }
        self.trigger(va, size.into(), load, write)?;
        let eff = self.effective();
        let (access, misaligned, fault) = if write {
            (
                Access::Write,
                exception::STORE_MISALIGNED,
                exception::STORE_ACCESS,
            )
        } else {
            (
                Access::Read,
                exception::LOAD_MISALIGNED,
                exception::LOAD_ACCESS,
            )
        };
        if va & (u64::from(size) - 1) != 0 {
            return self.fault(misaligned, va, eff.mode);
        }
        match self.physical(va, u64::from(size), access, &eff)? {
            Place::Ram(host) => Ok(host),
            Place::Bus(_) => self.fault(fault, va, eff.mode),
        }
    }

    /// Permission check of `cbo.inval`, `cbo.clean` and `cbo.flush` (CMO extensions, "Traps"): a
    /// load or a store must be permitted to all of the block. Failures are reported as those of a
    /// store: access faults if address translation permits any access, page faults otherwise.
    pub(crate) fn cbo_permitted(&mut self, block: u64, eff: &Effective) -> Result<(), Fault> {
        let load = self.physical(block, CACHE_BLOCK, Access::Read, eff);
        if load.is_ok() {
            return Ok(());
        }
        if self.syndrome.cause == exception::LOAD_ACCESS {
            self.syndrome.cause = exception::STORE_ACCESS;
            return Err(Fault);
        }
        self.physical(block, CACHE_BLOCK, Access::Write, eff)
            .map(|_| ())
    }

    /// `cbo.zero` of a block that the TLB does not have for stores: clears all of it, or faults
    /// without an effect.
    pub(crate) fn cbo_zero(
        &mut self,
        block: u64,
        eff: &Effective,
        plat: &mut dyn Platform,
    ) -> Result<(), Fault> {
        self.trigger(block, CACHE_BLOCK, false, true)?;
        match self.physical(block, CACHE_BLOCK, Access::Write, eff) {
            Ok(Place::Ram(host)) => {
                // SAFETY: `physical` found the block, which does not leave its page, inside RAM.
                unsafe { ram::zero(host, CACHE_BLOCK as usize) };
                return Ok(());
            }
            Err(fault) if self.syndrome.doorbell.is_none() => return Err(fault),
            _ => {}
        }
        // Devices and doorbells take doublewords.
        for at in (block..block + CACHE_BLOCK).step_by(8) {
            self.store_slow(at, 8, 0, eff, plat)?;
        }
        Ok(())
    }
}

/// Target of a physical address.
pub(crate) enum Place {
    /// Host address in RAM.
    Ram(HostAddr),
    /// Physical address outside RAM.
    Bus(u64),
}
