//! Interrupt wires and virtual time for devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use trapless_devices::{Clock, IrqLine};

/// All device wires, bit per interrupt number (below 64).
#[derive(Default)]
pub(crate) struct Wires {
    levels: AtomicU64,
    /// High wires that were asserted again since the last call of [`take_again`](Self::take_again).
    again: AtomicU64,
}

/// Levels of all wires, and those that were asserted again.
pub(crate) type WireLevels = (u64, u64);

impl Wires {
    /// The complete state.
    pub fn save(&self) -> WireLevels {
        (self.levels.load(Relaxed), self.again.load(Relaxed))
    }

    /// Restores a saved state.
    pub fn restore(&self, (levels, again): WireLevels) {
        self.levels.store(levels, Relaxed);
        self.again.store(again, Relaxed);
    }

    /// Levels of all wires.
    pub fn levels(&self) -> u64 {
        self.levels.load(Relaxed)
    }

    /// High wires that were asserted again since the last call.
    pub fn take_again(&self) -> u64 {
        self.again.swap(0, Relaxed)
    }
}

/// One device's end of its wire.
pub(crate) struct Wire {
    wires: Arc<Wires>,
    bit: u64,
}

impl Wire {
    pub fn line(wires: &Arc<Wires>, irq: u32) -> Box<dyn IrqLine> {
        Box::new(Self {
            wires: wires.clone(),
            bit: 1 << irq,
        })
    }
}

impl IrqLine for Wire {
    fn set(&self, high: bool) {
        if high {
            self.wires.levels.fetch_or(self.bit, Relaxed);
        } else {
            self.wires.levels.fetch_and(!self.bit, Relaxed);
        }
    }

    fn again(&self) {
        self.wires.again.fetch_or(self.bit, Relaxed);
    }
}

/// Virtual time for devices: that of the current access; monotonic.
#[derive(Clone, Default)]
pub(crate) struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    pub fn cycles(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Sets it, also backwards.
    pub fn set(&self, now: u64) {
        self.0.store(now, Relaxed);
    }

    pub fn advance(&self, now: u64) {
        self.0.fetch_max(now, Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        // The clock frequency is 1 GHz: one cycle is one nanosecond.
        self.0.load(Relaxed)
    }
}
