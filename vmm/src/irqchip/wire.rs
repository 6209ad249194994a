//! Wires from devices to interrupt sources.

use trapless_devices::IrqLine;

/// Trigger of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Each event makes it pending once.
    Edge,
    /// Pending again at completion while the line is high.
    Level,
    /// Completion lowers the line and queries the device for its level.
    Resample,
}

impl Kind {
    /// Second cell of `interrupts` in the device tree (`IRQ_TYPE_EDGE_RISING`,
    /// `IRQ_TYPE_LEVEL_HIGH`).
    pub fn trigger_cell(self) -> u32 {
        match self {
            Self::Edge => 1,
            Self::Level | Self::Resample => 4,
        }
    }
}

/// The wire of a device to its source. One device drives it, under the device's lock.
pub trait Wire: IrqLine {
    /// Kind of the source.
    fn kind(&self) -> Kind;

    /// Whether driving it takes no lock and makes no system call, in a thread with a permit.
    fn silent(&self) -> bool {
        false
    }

    /// Makes an edge-triggered source pending. Other sources ignore it.
    fn pulse(&self) {}

    /// Calls `device` each time the guest has completed a [`Kind::Resample`] source, whose line
    /// is low then. May be called from any thread. Other sources ignore it.
    fn on_completion(&self, device: Box<dyn Fn() + Send + Sync>) {
        let _ = device;
    }

    /// Records that completion by the guest has lowered the line.
    fn lowered(&self) {}

    /// Lowers the line in the controller even if only completion by the guest does so otherwise.
    fn force_low(&self) {}

    /// The wire for a device model, which only drives a level.
    fn into_line(self: Box<Self>) -> Box<dyn IrqLine>;
}
