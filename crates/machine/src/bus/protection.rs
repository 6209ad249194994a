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

    /// Whether HS-mode of a hart may access the word at `addr`.
    fn permits(&self, hart: usize, addr: u64, write: bool) -> bool {
        self.0.get(hart).is_some_and(|pmp| {
            let pmp = pmp.lock().unwrap_or_else(PoisonError::into_inner);
            pmp.supervisor_may(addr, 8, write)
        })
    }
}

/// RAM for accesses of interrupt architectures.
pub(crate) struct Tables {
    pub ram: Ram,
    pub protection: Protection,
}

impl Memory for Tables {
    fn load(&self, hart: usize, addr: u64) -> Option<u64> {
        let permitted = self.protection.permits(hart, addr, false);
        permitted.then(|| self.ram.load(addr, 8))?
    }

    fn store(&self, hart: usize, addr: u64, value: u64) -> Option<()> {
        let permitted = self.protection.permits(hart, addr, true);
        permitted.then(|| self.ram.store(addr, 8, value))?
    }
}
