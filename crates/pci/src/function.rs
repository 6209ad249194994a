//! What a function has of its own.

use trapless_devices::ats::ResponseCode;
use trapless_devices::{StateError, StateReader, StateWriter};

use crate::config::{Bar, Capability, Identity};
use crate::msix::Msix;
use crate::port::Port;

/// What a function shows in its configuration space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// What it is.
    pub identity: Identity,
    /// Its regions, but for that of MSI-X.
    pub bars: Vec<Bar>,
    /// Number of MSI-X vectors; 0: it has no MSI-X.
    pub vectors: u16,
    /// BAR of the MSI-X table.
    pub msix_bar: u8,
    /// Number of MSI vectors, a power of two up to 32; 0: it has no MSI, as functions with MSI-X
    /// need none.
    pub msi_vectors: u16,
    /// It remembers translations, and may ask for pages (ATS, PRI).
    pub ats: bool,
    /// Capabilities of its own.
    pub capabilities: Vec<Capability>,
    /// Index among them of one through which software reaches BARs by accesses to the
    /// configuration space (virtio 1.2, section 4.1.4.9).
    pub access: Option<usize>,
}

impl Layout {
    /// All its regions.
    pub(crate) fn all_bars(&self) -> Vec<Bar> {
        let msix = (self.vectors != 0).then(|| Msix::bar(self.msix_bar));
        self.bars.iter().copied().chain(msix).collect()
    }
}

/// A function behind its configuration space. Offsets are relative to its BARs; any offset and
/// length is allowed, as for [`MmioDevice`](trapless_devices::MmioDevice).
pub trait Function: Send {
    /// What it is; the same at each call.
    fn layout(&self) -> Layout;

    /// A load from a BAR. Every byte of `data` is written.
    fn read(&mut self, bar: u8, offset: u64, data: &mut [u8], port: &mut Port);

    /// A store to a BAR.
    fn write(&mut self, bar: u8, offset: u64, data: &[u8], port: &mut Port);

    /// Takes in what a back-end or the clock has ready.
    fn poll(&mut self, port: &mut Port) {
        let _ = port;
    }

    /// It is bus master again, and goes on with what it left.
    fn resume(&mut self, port: &mut Port) {
        self.poll(port);
    }

    /// When `poll` has to be called next, in nanoseconds of the device's clock.
    fn next_deadline(&self) -> Option<u64> {
        None
    }

    /// Whether it stopped in the middle of its work, and wants `poll` soon.
    fn needs_poll(&self) -> bool {
        false
    }

    /// A page that it [asked for](Port::request_page) has been answered, or never will be.
    fn answered(&mut self, code: ResponseCode, port: &mut Port) {
        let _ = (code, port);
    }

    /// Function level reset: as after power-on, but for the back-end.
    fn reset(&mut self);

    /// Why a machine with it cannot be saved, as a sentence; `None`: it can.
    fn obstacle(&self) -> Option<&'static str> {
        None
    }

    /// Appends its state.
    fn save(&self, to: &mut StateWriter);

    /// Takes over what [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// [`StateError`] if it is not from such a function.
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError>;
}
