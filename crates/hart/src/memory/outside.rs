//! Virtual memory of a kernel, read from outside the machine.

use trapless_isa::Mode;
use trapless_isa::csr::envcfg;
use vm_memory::{Bytes, GuestAddress};

use super::address::Access;
use super::ram::Ram;
use super::walk::{Request, Walker};
use crate::config::Extensions;
use crate::csr::registers::Csrs;

/// `pmpcfg0` with one entry for all of memory: NAPOT, readable, writable, executable.
const ALL: u64 = 0x1f;
/// Bytes of a page: what is next to each other in it is so in RAM.
const PAGE: u64 = 4096;

impl Ram {
    /// Reads what HS-mode sees at `va` with this `satp`. `false` if not all of it is RAM. Leaves no
    /// trace: no accessed bit, no virtual time.
    #[must_use]
    pub fn read_virtual(&self, satp: u64, va: u64, data: &mut [u8]) -> bool {
        let mut csr = Csrs::new();
        csr.s[0].atp = satp;
        // Whoever looks from outside is bound by nothing that M-mode decides.
        csr.menvcfg = envcfg::PBMTE;
        csr.pmp.set_addr(0, u64::MAX);
        csr.pmp.set_cfg(0, ALL);
        let mut walker = Walker::new(&csr, self, &Extensions::default(), true);
        let mut at = va;
        let mut rest = data;
        while !rest.is_empty() {
            let room = (PAGE - at % PAGE).min(rest.len() as u64) as usize;
            let request = Request {
                va: at,
                access: Access::Read,
                mode: Mode::HS,
                hlvx: false,
            };
            let Ok(leaf) = walker.translate(&request) else {
                return false;
            };
            let (part, next) = rest.split_at_mut(room);
            let memory = self.guest_memory();
            if memory.read_slice(part, GuestAddress(leaf.addr)).is_err() {
                return false;
            }
            at = at.wrapping_add(room as u64);
            rest = next;
        }
        true
    }
}
