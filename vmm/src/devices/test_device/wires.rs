//! Which kinds of sources the device has, and how they interrupt.

use crate::error::Result;
use crate::irqchip::controller::InterruptController;
use crate::irqchip::wire::{Way, Wire};
use crate::map;

/// What the user wants of the test device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sources {
    /// Number of sources, 1..=[`map::TEST_SOURCES`].
    pub number: u8,
    /// How they interrupt.
    pub inject: Inject,
}

/// The ways that interrupts of the test device take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inject {
    /// As the other devices (`--inject`).
    AsOthers,
    /// One for all.
    All(Way),
    /// All, so that each kind of source takes each way it can.
    Mixed,
}

/// Connects the sources: of all kinds that the controller has, in turn.
///
/// # Errors
/// [`Error::Failed`](crate::error::Error::Failed) if KVM refuses a source.
pub fn connect(
    sources: Sources,
    controller: &dyn InterruptController,
) -> Result<Vec<Box<dyn Wire>>> {
    let kinds = controller.features().test_kinds;
    let wire = |index: u8| {
        let turn = usize::from(index);
        let way = match (sources.inject, turn / kinds.len() % 3) {
            (Inject::AsOthers, _) => None,
            (Inject::All(way), _) => Some(way),
            (Inject::Mixed, 0) => Some(Way::Ugenvsei),
            (Inject::Mixed, 1) => Some(Way::Irqfd),
            (Inject::Mixed, _) => Some(Way::Ioctl),
        };
        let number = map::TEST_IRQ + u32::from(index);
        controller.connect(number, kinds[turn % kinds.len()], way)
    };
    (0..sources.number).map(wire).collect()
}
