//! A vector as the memory of a controller, for tests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::architecture::Memory;

/// First byte of RAM.
pub const RAM: u64 = 0x8000_0000;
/// Bytes of RAM.
pub const RAM_SIZE: u64 = 0x2_0000;

/// A word that cannot be accessed stands for memory with an uncorrectable error, one that can only
/// be loaded for what PMP protects.
#[derive(Clone)]
pub struct Ram(Arc<Mutex<Vec<u64>>>, Arc<AtomicU64>, Arc<AtomicU64>);

impl Ram {
    pub fn new() -> Self {
        let words = vec![0; (RAM_SIZE / 8) as usize];
        Self(Arc::new(Mutex::new(words)), Arc::default(), Arc::default())
    }

    /// Makes the word at `addr`, and no other, inaccessible; 0: none.
    pub fn lose(&self, addr: u64) {
        self.1.store(addr, Ordering::Relaxed);
    }

    /// From now on the word at `addr`, and no other, can only be loaded; 0: all can be stored to.
    pub fn protect(&self, addr: u64) {
        self.2.store(addr, Ordering::Relaxed);
    }

    fn index(&self, addr: u64) -> Option<usize> {
        assert_eq!(addr % 8, 0, "accesses are aligned");
        let lost = self.1.load(Ordering::Relaxed) == addr;
        (!lost).then_some((addr.checked_sub(RAM)? / 8) as usize)
    }

    pub fn words(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }

    pub fn fill(&self, words: &[u64]) {
        self.0.lock().unwrap().copy_from_slice(words);
    }

    pub fn get(&self, addr: u64) -> u64 {
        self.load(0, addr).unwrap()
    }

    pub fn set(&self, addr: u64, value: u64) {
        self.store(0, addr, value).unwrap();
    }
}

impl Memory for Ram {
    fn load(&self, _hart: usize, addr: u64) -> Option<u64> {
        let index = self.index(addr)?;
        self.0.lock().unwrap().get(index).copied()
    }

    fn store(&self, _hart: usize, addr: u64, value: u64) -> Option<()> {
        let index = self.index(addr)?;
        if self.2.load(Ordering::Relaxed) == addr {
            return None;
        }
        *self.0.lock().unwrap().get_mut(index)? = value;
        Some(())
    }
}
