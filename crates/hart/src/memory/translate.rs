//! Address translation: selection of TLB contexts, and TLB misses.

use trapless_isa::csr::status;
use trapless_isa::page::{PAGE_MASK, PAGE_SIZE};
use trapless_isa::{Mode, Priv, cause::exception};

use super::address::Access;
use super::pmp::Verdict;
use super::tlb::{IN_CONTEXT, Key, Mapping, TlbArray};
use super::walk::{Leaf, Refused, Request, Walker};
use crate::csr::registers::{Csrs, HpmEvent};
use crate::hart::Hart;
use crate::observe::activity::Activity;
use crate::syndrome::{Fault, Syndrome};

/// Mode and flags of an explicit access, which may differ from the hart's current ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effective {
    /// Effective mode.
    pub mode: Mode,
    /// `hlvx`: execute permission stands in for read permission.
    pub hlvx: bool,
    /// Array of the TLB context.
    pub array: TlbArray,
}

const fn pick(access: Access, table: [u64; 3]) -> u64 {
    table[access as usize]
}

const PAGE_FAULT: [u64; 3] = [
    exception::LOAD_PAGE,
    exception::STORE_PAGE,
    exception::FETCH_PAGE,
];
const GUEST_PAGE_FAULT: [u64; 3] = [
    exception::LOAD_GUEST_PAGE,
    exception::STORE_GUEST_PAGE,
    exception::FETCH_GUEST_PAGE,
];
/// Fetches from MMIO pages are guest-page faults.
const MMIO_PAGE_FAULT: [u64; 3] = [
    exception::LOAD_MMIO_PAGE,
    exception::STORE_MMIO_PAGE,
    exception::FETCH_GUEST_PAGE,
];
const ACCESS_FAULT: [u64; 3] = [
    exception::LOAD_ACCESS,
    exception::STORE_ACCESS,
    exception::FETCH_ACCESS,
];

/// Identity of the TLB context of `mode`.
pub(crate) fn key(c: &Csrs, mode: Mode) -> Key {
    let adue_pbmt = |env: u64| (env >> 61 & 3) as u32;
    let bit = |v: u64, mask: u64, to: u32| u32::from(v & mask != 0) << to;
    // SUM affects S-level privilege only.
    let sum = if mode.privilege() == Priv::S {
        status::SUM
    } else {
        0
    };
    let in_context = if mode == Mode::U && c.user.in_context() {
        IN_CONTEXT
    } else {
        0
    };
    match mode {
        Mode::M => Key {
            flags: 0,
            satp: 0,
            hgatp: 0,
            mode,
        },
        Mode::HS | Mode::U => Key {
            flags: bit(c.mstatus & sum, status::SUM, 0)
                | bit(c.mstatus, status::MXR, 1)
                | adue_pbmt(c.menvcfg) << 4
                | in_context,
            satp: c.hs.atp,
            hgatp: 0,
            mode,
        },
        Mode::VS | Mode::VU => Key {
            flags: bit(c.vsstatus & sum, status::SUM, 0)
                | bit(c.vsstatus, status::MXR, 1)
                | bit(c.mstatus, status::MXR, 2)
                | adue_pbmt(c.menvcfg) << 4
                | adue_pbmt(c.henvcfg) << 6,
            satp: c.vs.atp,
            hgatp: c.hgatp,
            mode,
        },
    }
}

impl Hart {
    /// Mode of explicit loads and stores: the current one unless MPRV is set.
    pub(crate) fn explicit_mode(&self) -> Mode {
        let s = self.csr.mstatus;
        if s & status::MPRV != 0 && self.mode == Mode::M {
            Mode::new(Priv::from_bits(s >> 11), s & status::MPV != 0)
        } else {
            self.mode
        }
    }

    /// Selects the TLB contexts after a change of anything that [`key`] depends on.
    pub(crate) fn select_contexts(&mut self) {
        let own = key(&self.csr, self.mode);
        let data_mode = self.explicit_mode();
        if data_mode == self.mode {
            self.tlb.select(&own.for_fetches(), &own);
        } else {
            let data = key(&self.csr, data_mode);
            self.tlb.select(&own.for_fetches(), &data);
        }
        self.data_mode = data_mode;
    }

    /// Translates `va` for one access of `len` bytes inside a page and fills the TLB if it is RAM.
    ///
    /// Errors leave the syndrome in [`Hart::syndrome`].
    #[cold]
    pub(crate) fn translate(
        &mut self,
        va: u64,
        len: u64,
        access: Access,
        eff: &Effective,
    ) -> Result<u64, Fault> {
        self.watch.counts.miss(access);
        let before = self.watch.meter.enter(Activity::Walk);
        let result = self.translate_page(va, len, access, eff);
        self.watch.meter.leave(before);
        result
    }

    fn translate_page(
        &mut self,
        va: u64,
        len: u64,
        access: Access,
        eff: &Effective,
    ) -> Result<u64, Fault> {
        let request = Request {
            va,
            access,
            mode: eff.mode,
            hlvx: eff.hlvx,
        };
        let leaf = match self.walk(&request) {
            Ok(leaf) => leaf,
            Err(refused) => return self.refuse(&request, &refused),
        };
        let pa = leaf.addr;
        let (verdict, pmp_rwx) = self.protection(pa, len, eff.mode.privilege());
        // `hlvx` reads as fetches do: physical memory must be executable and readable ("Hypervisor
        // Virtual-Machine Load and Store Instructions").
        let fetches = eff.hlvx && !pmp_rwx[Access::Exec as usize];
        if !pmp_rwx[access as usize] || fetches {
            return self.refuse(&request, &Refused::Access);
        }
        if !eff.hlvx && verdict != Verdict::Mixed && self.ram.contains(pa & PAGE_MASK, PAGE_SIZE) {
            let permitted = std::array::from_fn(|i| leaf.rwx[i] && pmp_rwx[i]);
            self.fill(&request, &leaf, permitted, eff.array);
        }
        Ok(pa)
    }

    /// Walks the page tables. This costs virtual time except for fetches, since engines differ in
    /// how often they fetch.
    fn walk(&mut self, request: &Request) -> Result<Leaf, Refused> {
        let extensions = &self.config.extensions;
        let mut walker = Walker::new(&self.csr, &self.ram, extensions, false);
        let result = walker.translate(request);
        let steps = walker.steps;
        if request.access != Access::Exec {
            self.csr.events[HpmEvent::TlbMiss as usize] += 1;
            self.state.cycles += steps * u64::from(self.config.cost.walk_step);
        }
        result
    }

    /// PMP's verdict on the page of `pa`, and the kinds of access it permits for `len` bytes at
    /// `pa`.
    fn protection(&self, pa: u64, len: u64, privilege: Priv) -> (Verdict, [bool; 3]) {
        let pmp = &self.csr.pmp;
        let verdict = pmp.check(pa & PAGE_MASK, PAGE_SIZE, privilege);
        let kinds = [Access::Read, Access::Write, Access::Exec];
        let rwx = match verdict {
            Verdict::Uniform(rwx) => rwx,
            // A block of the cache is no single access: each doubleword of it must be permitted.
            Verdict::Mixed => kinds.map(|access| {
                let mut pieces = (pa..pa + len).step_by(8);
                pieces.all(|at| pmp.permits(at, len.min(8), privilege, access))
            }),
        };
        (verdict, rwx)
    }

    /// Installs a page of RAM in the TLB.
    fn fill(&mut self, request: &Request, leaf: &Leaf, permitted: [bool; 3], array: TlbArray) {
        let access = request.access;
        let host = self.ram.host(leaf.addr);
        let page = self.ram.page_of(host);
        let write = permitted[Access::Write as usize] && access != Access::Exec;
        let noted = write && !self.ram.code_pages().writable(page);
        if access == Access::Write {
            self.ram.will_write(page);
        }
        let mapping = Mapping {
            host,
            page,
            permitted,
            noted,
            span: leaf.span,
            table: match access {
                Access::Exec => self.code.table(page),
                _ => 0,
            },
        };
        self.tlb.insert(array, request.va, access, &mapping);
        if access == Access::Exec {
            self.triggers.fetched(request.va, page);
        }
    }

    fn refuse<T>(&mut self, request: &Request, refused: &Refused) -> Result<T, Fault> {
        let (va, access, mode) = (request.va, request.access, request.mode);
        match *refused {
            Refused::Page => self.fault(pick(access, PAGE_FAULT), va, mode),
            Refused::Access => self.fault(pick(access, ACCESS_FAULT), va, mode),
            Refused::Guest { gpa, tinst } => {
                self.guest_fault(pick(access, GUEST_PAGE_FAULT), va, gpa, tinst)
            }
            Refused::Mmio { gpa } => {
                let cause = self.mmio_cause(access);
                self.guest_fault(cause, va, gpa, 0)
            }
            Refused::Doorbell { gpa, page } => {
                let _ = self.guest_fault::<T>(pick(access, GUEST_PAGE_FAULT), va, gpa, 0);
                self.syndrome.doorbell = Some(page);
                Err(Fault)
            }
        }
    }

    /// Cause of an access through an MMIO leaf.
    pub(crate) fn mmio_cause(&self, access: Access) -> u64 {
        let redirected = pick(access, MMIO_PAGE_FAULT);
        if self.redirects(redirected) {
            redirected
        } else {
            pick(access, GUEST_PAGE_FAULT)
        }
    }

    fn guest_fault<T>(&mut self, cause: u64, va: u64, gpa: u64, tinst: u64) -> Result<T, Fault> {
        self.raise(Syndrome {
            cause,
            tval: va,
            gva: true,
            gpa,
            tinst,
            ..Syndrome::default()
        })
    }

    /// Physical address that the current mode's `va` reaches, whatever its permissions; for
    /// debuggers. No side effects: no TLB entry, no accessed bit, no virtual time. `None` if it
    /// does not translate.
    pub fn debug_translate(&self, va: u64) -> Option<u64> {
        let request = Request {
            va,
            access: Access::Read,
            mode: self.data_mode,
            hlvx: false,
        };
        let extensions = &self.config.extensions;
        let leaf = Walker::new(&self.csr, &self.ram, extensions, true).translate(&request);
        leaf.ok().map(|leaf| leaf.addr)
    }
}
