//! Wires of devices to sources of the APLIC.

use crate::irqchip::aia::device::Aia;
use crate::irqchip::wire::{Kind, Wire};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use trapless_devices::IrqLine;

/// The wire of a device to its source, edge- or level-triggered.
pub struct Line {
    aia: Arc<Aia>,
    source: u32,
    kind: Kind,
    level: AtomicBool,
}

impl Line {
    /// The wire to `source`.
    pub fn new(aia: &Arc<Aia>, source: u32, kind: Kind) -> Self {
        Self {
            aia: Arc::clone(aia),
            source,
            kind,
            level: AtomicBool::new(false),
        }
    }
}

impl Wire for Line {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn pulse(&self) {
        self.aia.pulse(self.source);
    }

    fn into_line(self: Box<Self>) -> Box<dyn IrqLine> {
        self
    }
}

impl IrqLine for Line {
    fn set(&self, high: bool) {
        if self.kind == Kind::Edge {
            // Devices drive the line high at each event, and again when the driver has acknowledged
            // one of two.
            if high {
                self.pulse();
            }
            return;
        }
        // Devices repeat levels; only changes need a system call.
        if self.level.swap(high, Ordering::SeqCst) != high {
            self.aia.drive(self.source, high);
        }
    }
}
