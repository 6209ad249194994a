//! What all functions have in common: configuration space, BARs, MSI-X, and reset.

use std::sync::Arc;

use trapless_devices::ats::{GroupResponse, Invalidation, ResponseCode};
use trapless_devices::{DeviceId, StateError, StateReader, StateWriter};

use crate::ats::Capabilities;
use crate::config::{Bar, Capability, Config, command, register};
use crate::function::{Function, Layout};
use crate::msi::Msi;
use crate::port::{Gate, Port};

/// PCI Express capability (section 7.5.3).
mod express {
    pub const ID: u8 = 0x10;
    /// Version 2, root complex integrated endpoint.
    pub const CAPABILITIES: u16 = 2 | 9 << 4;
    /// Role-based error reporting, function level reset.
    pub const DEVICE: u32 = 1 << 15 | 1 << 28;
    /// Device control: what can be written, and the bit that resets the function.
    pub const CONTROL: usize = 8;
    pub const CONTROL_WRITABLE: u16 = 0x78ff | RESET;
    pub const RESET: u16 = 1 << 15;
    /// Length without the header.
    pub const LEN: usize = 58;
}

/// An access through the configuration space (virtio 1.2, section 4.1.4.9): fields of its
/// capability.
mod access {
    pub const BAR: usize = 4;
    pub const OFFSET: usize = 8;
    pub const LENGTH: usize = 12;
    pub const DATA: usize = 16;
}

/// What kind of function it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One with BARs, and a wire.
    Physical,
    /// One of SR-IOV (section 9.3.4): both are its physical function's.
    Virtual,
}

/// A function with its configuration space.
pub(crate) struct Endpoint {
    function: Box<dyn Function>,
    kind: Kind,
    pub(crate) config: Config,
    port: Port,
    /// BAR of the MSI-X table, if there is one.
    msix_bar: Option<u8>,
    /// Places of capabilities.
    express: usize,
    msix: Option<usize>,
    msi: Option<usize>,
    access: Option<usize>,
    ats: Option<Capabilities>,
}

impl Endpoint {
    /// Puts `function`, which is `device`, behind a configuration space.
    pub fn new(function: Box<dyn Function>, kind: Kind, device: DeviceId, gate: Arc<Gate>) -> Self {
        let layout = function.layout();
        let port = Port::new(device, gate, layout.vectors);
        let msix_bar = port.msix.as_ref().map(|_| layout.msix_bar);
        let mut config = match kind {
            Kind::Physical => {
                let interrupts = layout.vectors != 0 || layout.msi_vectors != 0;
                Config::new(&layout.identity, &layout.all_bars(), interrupts)
            }
            Kind::Virtual => Config::of_virtual(&layout.identity),
        };
        let msix = port.msix.as_ref();
        let msix = msix.map(|msix| config.add(&msix.capability(layout.msix_bar)));
        let msi =
            (layout.msi_vectors != 0).then(|| config.add(&Msi::capability(layout.msi_vectors)));
        let own: Vec<usize> = layout.capabilities.iter().map(|c| config.add(c)).collect();
        let express = config.add(&express_capability());
        let ats = layout.ats.then(|| Capabilities::new(&mut config));
        Self {
            function,
            kind,
            config,
            port,
            msix_bar,
            express,
            msix,
            msi,
            access: layout.access.map(|index| own[index]),
            ats,
        }
    }

    /// What its function shows.
    pub fn layout(&self) -> Layout {
        self.function.layout()
    }

    /// Reads the configuration space.
    pub fn read_config(&mut self, offset: usize, data: &mut [u8]) {
        if let Some((bar, at, len)) = self.access_at(offset, data.len()) {
            let mut bytes = [0; 4];
            self.read(bar, at, &mut bytes[..len]);
            data.fill(0);
            data[..len].copy_from_slice(&bytes[..len]);
            return;
        }
        self.config
            .show_intx(self.port.wanted && self.kind == Kind::Physical);
        if let Some(ats) = &self.ats {
            ats.show(&mut self.config, &self.port.gate.translations);
        }
        self.config.read(offset, data);
        if let Some(ats) = &self.ats {
            ats.hide(&mut self.config);
        }
    }

    /// Writes the configuration space.
    pub fn write_config(&mut self, offset: usize, data: &[u8]) {
        if let Some((bar, at, len)) = self.access_at(offset, data.len()) {
            return self.write(bar, at, &data[..len]);
        }
        self.config.write(offset, data);
        if self.config.u16(self.express + express::CONTROL) & express::RESET != 0 {
            return self.reset();
        }
        self.follow_config();
    }

    /// What an access to the data of the access capability means: BAR, offset and length.
    fn access_at(&self, offset: usize, len: usize) -> Option<(u8, u64, usize)> {
        let at = self.access.filter(|at| offset == at + access::DATA)?;
        let chosen = self.config.u32(at + access::LENGTH) as usize;
        let place = u64::from(self.config.u32(at + access::OFFSET));
        let natural = matches!(chosen, 1 | 2 | 4) && place % chosen as u64 == 0;
        let bar = self.config.u16(at + access::BAR) as u8;
        (natural && chosen <= len).then_some((bar, place, chosen))
    }

    /// The configuration space may say something else than before.
    fn follow_config(&mut self) {
        let command = self.config.u16(register::COMMAND);
        let before = self.port.is_master();
        self.port.gate.set(command & command::MASTER != 0);
        self.port.allowed = command & command::INTX_DISABLE == 0;
        if let Some(at) = self.msix {
            let control = self.config.u16(at + 2);
            self.port
                .with_msix(|msix, send| msix.control(control, send));
        }
        self.follow_msi();
        let translations = &self.port.gate.translations;
        let given_up = self
            .ats
            .as_ref()
            .is_some_and(|ats| ats.follow(&mut self.config, translations));
        if given_up {
            self.function
                .answered(ResponseCode::Failure, &mut self.port);
        }
        if self.port.is_master() && !before {
            self.function.resume(&mut self.port);
        }
    }

    /// Takes over what the configuration space says of MSI.
    fn follow_msi(&mut self) {
        if let Some(at) = self.msi {
            self.port.msi = Msi::of(&self.config, at);
        }
    }

    /// Regions that the function answers now, with their bus addresses.
    pub fn regions(&self) -> impl Iterator<Item = (Bar, u64)> + '_ {
        self.config.regions()
    }

    /// A load from a BAR.
    pub fn read(&mut self, bar: u8, offset: u64, data: &mut [u8]) {
        match &self.port.msix {
            Some(msix) if self.msix_bar == Some(bar) => msix.read(offset, data),
            _ => self.function.read(bar, offset, data, &mut self.port),
        }
    }

    /// A store to a BAR.
    pub fn write(&mut self, bar: u8, offset: u64, data: &[u8]) {
        if self.msix_bar == Some(bar) {
            self.port
                .with_msix(|msix, send| msix.write(offset, data, send));
        } else {
            self.function.write(bar, offset, data, &mut self.port);
        }
    }

    /// Forgets translations; answers whether it is one that can remember them. Software switches
    /// that off before it lets a function forget.
    pub fn invalidate(&mut self, what: &Invalidation) -> bool {
        self.port.gate.translations.invalidate(what);
        self.ats.is_some()
    }

    /// Takes an answer to a page request.
    pub fn answered(&mut self, answer: &GroupResponse) {
        if self.ats.is_none() {
            return;
        }
        if let Some(code) = self.port.gate.translations.answered(answer) {
            self.function.answered(code, &mut self.port);
        }
    }

    pub fn poll(&mut self) {
        self.function.poll(&mut self.port);
    }

    pub fn next_deadline(&self) -> Option<u64> {
        self.function.next_deadline()
    }

    pub fn needs_poll(&self) -> bool {
        self.function.needs_poll()
    }

    /// Whether INTA is asserted.
    pub fn intx(&self) -> bool {
        self.kind == Kind::Physical && self.port.intx()
    }

    /// Function level reset (section 6.6.2).
    pub fn reset(&mut self) {
        self.config.reset();
        self.port.gate.translations.reset();
        self.function.reset();
        self.port.wanted = false;
        if let Some(msix) = &mut self.port.msix {
            msix.reset();
        }
        self.follow_config();
    }

    pub fn obstacle(&self) -> Option<&'static str> {
        self.function.obstacle()
    }

    pub fn save(&self, to: &mut StateWriter) {
        self.config.save(to);
        to.number(self.port.wanted);
        if let Some(msix) = &self.port.msix {
            msix.save(to);
        }
        if self.ats.is_some() {
            self.port.gate.translations.save(to);
        }
        self.function.save(to);
    }

    pub fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.config.restore(from)?;
        // It resets at once: no function is found in the middle of that.
        let control = self.express + express::CONTROL;
        self.config.clear(control, express::RESET);
        self.port.wanted = from.flag()?;
        let control = self.msix.map(|at| self.config.u16(at + 2));
        if let (Some(msix), Some(control)) = (&mut self.port.msix, control) {
            msix.restore(control, from)?;
        }
        let command = self.config.u16(register::COMMAND);
        self.port.gate.set(command & command::MASTER != 0);
        self.port.allowed = command & command::INTX_DISABLE == 0;
        self.follow_msi();
        if let Some(ats) = &self.ats {
            let translations = &self.port.gate.translations;
            translations.restore(from)?;
            ats.adopt(&self.config, translations);
        }
        self.function.restore(from)
    }
}

fn express_capability() -> Capability {
    let mut body = vec![0; express::LEN];
    body[..2].copy_from_slice(&express::CAPABILITIES.to_le_bytes());
    body[2..6].copy_from_slice(&express::DEVICE.to_le_bytes());
    let mut writable = vec![0; express::CONTROL];
    let control = express::CONTROL - 2;
    writable[control..].copy_from_slice(&express::CONTROL_WRITABLE.to_le_bytes());
    Capability {
        id: express::ID,
        body,
        writable,
    }
}
