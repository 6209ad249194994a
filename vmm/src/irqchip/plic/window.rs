//! The registers of the PLIC on the bus.

use crate::bus::{BusDevice, fill, value};
use crate::irqchip::plic::shared::SharedPlic;
use crate::map;
use std::sync::Arc;

impl BusDevice for SharedPlic {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let word = self.load(offset, data.len() as u8);
        fill(data, u64::from(word));
    }

    fn write(&self, offset: u64, data: &[u8]) {
        self.store(offset, data.len() as u8, value(data) as u32);
    }
}

/// The context registers (threshold, claim and complete), as a window of their own: an interrupt
/// costs accesses here, whereas the registers before them are for set-up, so statistics separate
/// set-up from interrupts.
pub struct ClaimWindow(pub Arc<SharedPlic>);

impl BusDevice for ClaimWindow {
    fn read(&self, offset: u64, data: &mut [u8]) {
        self.0.read(map::PLIC_CONTEXTS + offset, data);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        self.0.write(map::PLIC_CONTEXTS + offset, data);
    }
}
