//! Memory that the interrupt architecture may access: RAM, as far as PMP permits HS-mode.

use std::sync::{Arc, Mutex, PoisonError};

use trapless_hart::{Pmp, Ram};
use trapless_intc::Memory;

/// Copies of the PMP registers of all harts; clones share them.
#[derive(Clone)]
pub(crate) struct Protection(Arc<[Mutex<Pmp>]>);

impl Protection {
    /// The registers of `harts` harts after reset: nothing may be accessed.
    pub fn new(harts: usize) -> Self {
        Self((0..harts).map(|_| Mutex::default()).collect())
    }

    /// Copies the registers of a hart.
    pub fn set(&self, hart: usize, pmp: &Pmp) {
        if let Some(own) = self.0.get(hart) {
            *own.lock().unwrap_or_else(PoisonError::into_inner) = pmp.clone();
        }
    }

    /// Whether `check` holds for the PMP registers of a hart.
    fn permits(&self, hart: usize, check: impl FnOnce(&Pmp) -> bool) -> bool {
        self.0.get(hart).is_some_and(|pmp| {
            let pmp = pmp.lock().unwrap_or_else(PoisonError::into_inner);
            check(&pmp)
        })
    }
}

/// Bytes of an access of the interrupt architecture.
const WORD: u8 = 8;

/// RAM for accesses of interrupt architectures.
pub(crate) struct Tables {
    pub ram: Ram,
    pub protection: Protection,
}

impl Memory for Tables {
    fn load(&self, hart: usize, addr: u64) -> Option<u64> {
        let permitted = self
            .protection
            .permits(hart, |pmp| pmp.supervisor_may_read(addr, WORD.into()));
        permitted.then(|| self.ram.load(addr, WORD))?
    }

    fn store(&self, hart: usize, addr: u64, value: u64) -> Option<()> {
        let permitted = self
            .protection
            .permits(hart, |pmp| pmp.supervisor_may_write(addr, WORD.into()));
        permitted.then(|| self.ram.store(addr, WORD, value))?
    }
}
