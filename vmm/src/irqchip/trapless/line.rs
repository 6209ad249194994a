//! Wires of devices to sources of Xtrapless.

use crate::irqchip::options::Injection;
use crate::irqchip::trapless::chip::Chip;
use crate::irqchip::trapless::source::Op;
use crate::irqchip::wire::{Kind, Wire};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trapless_devices::IrqLine;

/// The wire of a device to its source.
pub struct Line {
    chip: Arc<Chip>,
    number: u16,
}

impl Line {
    /// Adds source `number` to `chip`, routed to vhart 0, and returns its wire.
    ///
    /// # Errors
    /// The error that KVM returned.
    ///
    /// # Panics
    /// As [`Chip::add`].
    pub fn connect(chip: &Arc<Chip>, number: u16, kind: Kind, way: Injection) -> io::Result<Self> {
        chip.add(number, kind, way)?;
        Ok(Self {
            chip: Arc::clone(chip),
            number,
        })
    }
}

impl Wire for Line {
    fn kind(&self) -> Kind {
        self.chip.kind(self.number).unwrap_or(Kind::Level)
    }

    fn silent(&self) -> bool {
        let source = self.chip.source(self.number);
        source.is_some_and(|(_, configured)| configured.way == Injection::Ugenvsei)
    }

    fn pulse(&self) {
        if let Some((_, configured)) = self.chip.source(self.number) {
            self.chip.inject(self.number, configured.way, Op::Edge);
        }
    }

    fn on_completion(&self, device: Box<dyn Fn() + Send + Sync>) {
        if let Some((source, _)) = self.chip.source(self.number) {
            let _ = source.on_completion.set(device);
        }
    }

    fn lowered(&self) {
        if let Some((source, _)) = self.chip.source(self.number) {
            source.level.store(false, Ordering::SeqCst);
        }
    }

    fn force_low(&self) {
        self.lowered();
        self.chip
            .inject(self.number, Injection::Ugenvsei, Op::Deassert);
    }

    fn into_line(self: Box<Self>) -> Box<dyn IrqLine> {
        self
    }
}

impl IrqLine for Line {
    fn set(&self, high: bool) {
        let Some((source, configured)) = self.chip.source(self.number) else {
            return;
        };
        if configured.kind == Kind::Edge {
            // Devices drive the line high at each event.
            if high && !self.chip.quiet.load(Ordering::SeqCst) {
                self.pulse();
            }
            return;
        }
        // Devices repeat levels; only changes need an instruction.
        let changed = source.level.swap(high, Ordering::SeqCst) != high;
        if changed && !self.chip.quiet.load(Ordering::SeqCst) {
            let op = if high { Op::Assert } else { Op::Deassert };
            self.chip.inject(self.number, configured.way, op);
        }
    }
}
