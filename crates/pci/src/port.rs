//! What a function reaches of the machine: interrupts, and memory while it is bus master.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use trapless_devices::ats::TranslationAgent;
use trapless_devices::dma::{DmaAccess, DmaFault, Extent};
use trapless_devices::{DeviceId, Dma};

use crate::ats::{Asked, Cache};
use crate::msi::Msi;
use crate::msix::{Msix, Send};

/// Lets the accesses of a function pass while it is bus master.
pub(crate) struct Gate {
    upstream: Arc<dyn Dma>,
    open: AtomicBool,
    /// Never enabled in functions without ATS.
    pub translations: Cache,
}

impl Gate {
    pub fn new(upstream: Arc<dyn Dma>) -> Self {
        Self {
            upstream,
            open: AtomicBool::new(false),
            translations: Cache::default(),
        }
    }

    pub fn set(&self, open: bool) {
        self.open.store(open, Relaxed);
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Relaxed)
    }
}

impl Dma for Gate {
    fn locate(
        &self,
        device: DeviceId,
        address: u64,
        len: u64,
        access: DmaAccess,
    ) -> Result<Extent, DmaFault> {
        let upstream = &*self.upstream;
        match self.is_open() {
            true => (self.translations).locate(upstream, device, address, len, access),
            false => Err(DmaFault),
        }
    }

    fn message(&self, device: DeviceId, address: u64, data: u32) {
        if self.is_open() {
            self.upstream.message(device, address, data);
        }
    }

    fn translates(&self) -> bool {
        self.upstream.translates()
    }

    fn agent(&self) -> Option<&dyn TranslationAgent> {
        self.upstream.agent()
    }
}

/// How a function interrupts.
pub struct Port {
    device: DeviceId,
    pub(crate) gate: Arc<Gate>,
    pub(crate) msix: Option<Msix>,
    /// Never enabled in functions without it.
    pub(crate) msi: Msi,
    /// The function wants INTA asserted.
    pub(crate) wanted: bool,
    /// The command register allows that.
    pub(crate) allowed: bool,
}

impl Port {
    pub(crate) fn new(device: DeviceId, gate: Arc<Gate>, vectors: u16) -> Self {
        Self {
            device,
            gate,
            msix: (vectors != 0).then(|| Msix::new(vectors)),
            msi: Msi::default(),
            wanted: false,
            allowed: true,
        }
    }

    /// Whether the driver has chosen messages: [`signal`](Self::signal) is how to interrupt it
    /// then, else [`set_intx`](Self::set_intx).
    #[must_use]
    pub fn uses_messages(&self) -> bool {
        self.msi.enabled() || self.msix.as_ref().is_some_and(Msix::enabled)
    }

    /// Whether the function may access memory and send messages (bus master). While it may not, it
    /// leaves its work until [`resume`](crate::Function::resume) is called.
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.gate.is_open()
    }

    /// Whether those messages are of the older kind, MSI.
    #[must_use]
    pub fn uses_msi(&self) -> bool {
        self.msi.enabled()
    }

    /// Interrupts by a vector; one that there is not is nothing.
    pub fn signal(&mut self, vector: u16) {
        let (device, gate) = (self.device, &self.gate);
        self.msi.signal(vector, &mut sender(device, gate));
        self.with_msix(|msix, send| msix.signal(vector, send));
    }

    /// Asserts or deasserts INTA.
    pub fn set_intx(&mut self, asserted: bool) {
        self.wanted = asserted;
    }

    /// Asks for the page that the last access failed for, if the function may ask.
    pub fn request_page(&mut self) -> Asked {
        if !self.is_master() {
            return Asked::No;
        }
        let upstream = &*self.gate.upstream;
        self.gate.translations.request_page(upstream, self.device)
    }

    /// Whether INTA is asserted.
    pub(crate) fn intx(&self) -> bool {
        self.wanted && self.allowed && !self.uses_messages()
    }

    /// Does something with MSI-X, if the function has it.
    pub(crate) fn with_msix(&mut self, act: impl FnOnce(&mut Msix, Send<'_>)) {
        let (device, gate) = (self.device, &self.gate);
        if let Some(msix) = &mut self.msix {
            act(msix, &mut sender(device, gate));
        }
    }
}

/// Sends messages of a function while it is bus master.
fn sender(device: DeviceId, gate: &Gate) -> impl FnMut(u64, u32) -> bool {
    move |address, data| {
        gate.message(device, address, data);
        gate.is_open()
    }
}
