//! Translation of a kernel's virtual addresses from outside the machine.

use trapless_isa::csr::envcfg;
use trapless_isa::page::{PAGE_SIZE, page_offset};
use trapless_isa::{Extensions, Mode};
use vm_memory::{GuestAddress, GuestMemoryBackend};

use super::address::Access;
use super::ram::Ram;
use super::walk::{Request, Walker};
use crate::csr::registers::Csrs;

/// `pmpcfg0` with one entry for all of memory: NAPOT, readable, writable, executable.
const ALL: u64 = 0x1f;

impl Ram {
    /// Physical address of the `len` bytes that HS-mode sees at `va` with this `satp`; `None` if
    /// they are not in RAM, or not contiguous. No side effects: no accessed bit, no virtual time.
    #[must_use]
    pub fn find_virtual(&self, satp: u64, va: u64, len: u64) -> Option<u64> {
        let mut csr = Csrs::new();
        csr.hs.atp = satp;
        self.find(csr, Mode::HS, va, len)
    }

    /// As [`find_virtual`](Self::find_virtual), of what VS-mode sees with this `vsatp` and `hgatp`.
    #[must_use]
    pub fn find_guest_virtual(&self, vsatp: u64, hgatp: u64, va: u64, len: u64) -> Option<u64> {
        let mut csr = Csrs::new();
        csr.vs.atp = vsatp;
        csr.hgatp = hgatp;
        csr.henvcfg = envcfg::PBMTE;
        self.find(csr, Mode::VS, va, len)
    }

    fn find(&self, mut csr: Csrs, mode: Mode, va: u64, len: u64) -> Option<u64> {
        // M-mode's PMP does not apply to accesses from outside.
        csr.menvcfg = envcfg::PBMTE;
        csr.pmp.set_addr(0, u64::MAX);
        csr.pmp.set_cfg(0, ALL);
        let mut walker = Walker::new(&csr, self, &Extensions::default(), true);
        let mut translate = |va| {
            let request = Request {
                va,
                access: Access::Read,
                mode,
                hlvx: false,
            };
            Some(walker.translate(&request).ok()?.addr)
        };
        let first = translate(va)?;
        let mut done = PAGE_SIZE - page_offset(va);
        while done < len {
            if translate(va.checked_add(done)?)? != first + done {
                return None;
            }
            done += PAGE_SIZE;
        }
        let memory = self.guest_memory();
        memory
            .check_range(GuestAddress(first), len as usize)
            .then_some(first)
    }
}
