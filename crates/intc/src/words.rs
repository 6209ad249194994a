//! Accesses of a controller to memory: 64-bit words, counted.

use std::cell::Cell;
use std::sync::Arc;

use crate::architecture::Memory;

/// A field of a register or of a word.
pub(crate) fn field(word: u64, mask: u64, shift: u32) -> u64 {
    (word & mask) >> shift
}

/// Physical memory for a controller; none outside a machine.
#[derive(Default)]
pub(crate) struct Words {
    memory: Option<Arc<dyn Memory>>,
    /// Hart that causes the accesses.
    hart: usize,
    touched: Cell<u16>,
    failed: Cell<bool>,
}

impl Words {
    pub fn attach(&mut self, memory: Arc<dyn Memory>) {
        self.memory = Some(memory);
    }

    /// The same memory with the rights of `hart`, for inspection: accesses are not counted.
    pub fn spectator(&self, hart: usize) -> Self {
        Self {
            memory: self.memory.clone(),
            hart,
            ..Self::default()
        }
    }

    /// Sets the hart that causes the following accesses.
    pub fn act_for(&mut self, hart: usize) {
        self.hart = hart;
    }

    /// The word at `base + offset`; `None` where the hart must not read.
    pub fn load(&self, base: u64, offset: u64) -> Option<u64> {
        self.touch();
        self.noted(|memory| memory.load(self.hart, address(base, offset)?))
    }

    /// Stores a word; `None` where the hart must not write.
    pub fn store(&self, base: u64, offset: u64, value: u64) -> Option<()> {
        self.touch();
        self.noted(|memory| memory.store(self.hart, address(base, offset)?, value))
    }

    /// Replaces the word at `base + offset` by the result of `new` in one atomic operation and
    /// returns the old value; `None` where the hart must not do so.
    pub fn update(&self, base: u64, offset: u64, new: impl FnOnce(u64) -> u64) -> Option<u64> {
        self.touch();
        self.noted(|memory| {
            let addr = address(base, offset)?;
            let old = memory.load(self.hart, addr)?;
            // An AMO needs permission to write whatever it stores (MEM-5).
            memory.store(self.hart, addr, new(old))?;
            Some(old)
        })
    }

    /// Accesses memory and records failures (MEM-6).
    fn noted<T>(&self, access: impl FnOnce(&dyn Memory) -> Option<T>) -> Option<T> {
        let value = self.memory.as_deref().and_then(access);
        if value.is_none() {
            self.failed.set(true);
        }
        value
    }

    /// Whether an access has failed since the last call.
    pub fn take_failed(&self) -> bool {
        self.failed.take()
    }

    /// Number of words accessed since the last call.
    pub fn take_touched(&self) -> u16 {
        self.touched.take()
    }

    fn touch(&self) {
        self.touched.set(self.touched.get().saturating_add(1));
    }
}

/// Table addresses from the host are not trusted: they are aligned here and must not wrap around.
fn address(base: u64, offset: u64) -> Option<u64> {
    (base & !7).checked_add(offset)
}
