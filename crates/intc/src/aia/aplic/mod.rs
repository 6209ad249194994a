//! The APLIC: its inputs are wires, its outputs messages to IMSICs or wires to harts.
//!
//! ```text
//!  wire --> machine-level domain --> hart, M     (MSI or direct)
//!                  |
//!                  +-- delegated --> supervisor-level domain --> hart, S or guest file
//! ```
//!
//! Register model of the Advanced Interrupt Architecture 1.0, chapter "Advanced PLIC".
//! Implementation choices are in `docs/aia.md`.

mod domain;
mod message;
mod source;

use serde::{Deserialize, Serialize};

use crate::inspect::Row;
use crate::mmio::{NoRegister, Window, check_access};
pub use domain::Delivery;
use domain::{Domain, Outcome};
pub use message::Message;
pub use source::SOURCES;

/// Control region of the machine-level domain.
pub const APLIC_MACHINE_BASE: u64 = 0xC00_0000;
/// Control region of the supervisor-level domain.
pub const APLIC_SUPERVISOR_BASE: u64 = 0xD00_0000;
/// Length of the control region of a domain.
pub const LEN: u64 = 0x8000;

pub(super) const APLIC_MACHINE: Window = Window::new("aplic-m", APLIC_MACHINE_BASE, LEN);
pub(super) const APLIC_SUPERVISOR: Window = Window::new("aplic-s", APLIC_SUPERVISOR_BASE, LEN);

/// A domain of an [`Aplic`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// The root.
    Machine,
    /// Its child.
    Supervisor,
}

/// A message with its address.
pub type Addressed = (u64, Message);

/// An APLIC with a machine-level and a supervisor-level domain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Aplic {
    machine: Domain,
    supervisor: Domain,
    /// Level of each source's wire.
    wires: Vec<bool>,
}

impl Aplic {
    /// An APLIC after reset, for `harts` harts.
    #[must_use]
    pub fn new(delivery: Delivery, harts: usize) -> Self {
        Self {
            machine: Domain::root(delivery, harts),
            supervisor: Domain::supervisor(delivery, harts),
            wires: vec![false; SOURCES as usize + 1],
        }
    }

    /// Loads from a domain's control region.
    ///
    /// # Errors
    /// [`NoRegister`] unless the access has four bytes and is aligned.
    pub fn load(&mut self, level: Level, offset: u64, size: u8) -> Result<u32, NoRegister> {
        check_access(offset, size, 4)?;
        Ok(match level {
            Level::Machine => self.machine.load(offset, &self.wires),
            Level::Supervisor => self.supervisor.load(offset, &self.wires),
        })
    }

    /// Stores to a domain's control region; returns the resulting messages.
    ///
    /// # Errors
    /// [`NoRegister`] unless the access has four bytes and is aligned.
    pub fn store(
        &mut self,
        level: Level,
        offset: u64,
        size: u8,
        value: u32,
    ) -> Result<Vec<Addressed>, NoRegister> {
        check_access(offset, size, 4)?;
        let domain = match level {
            Level::Machine => &mut self.machine,
            Level::Supervisor => &mut self.supervisor,
        };
        let Outcome {
            messages,
            delegated,
        } = domain.store(offset, value, &self.wires);
        for (source, given) in delegated {
            self.supervisor.give(source, given);
        }
        Ok(messages
            .into_iter()
            .map(|message| self.addressed(level, message))
            .collect())
    }

    /// A device drives its wire; returns the resulting message.
    pub fn set_level(&mut self, source: u32, high: bool) -> Option<Addressed> {
        let number = source as usize;
        let wire = self.wires.get_mut(number).filter(|_| number != 0)?;
        if std::mem::replace(wire, high) == high {
            return None;
        }
        let message = self.machine.edge(number, high);
        let message = message.map(|message| self.addressed(Level::Machine, message));
        let below = self.supervisor.edge(number, high);
        message.or_else(|| below.map(|message| self.addressed(Level::Supervisor, message)))
    }

    fn addressed(&self, level: Level, message: Message) -> Addressed {
        let machine = level == Level::Machine;
        (self.machine.addresses.of(&message, machine), message)
    }

    /// Both domains.
    pub(super) fn inspect(&self, rows: &mut Vec<Row>) {
        self.machine.inspect(&self.wires, rows);
        self.supervisor.inspect(&self.wires, rows);
    }

    /// Level of the external interrupt of `hart` in direct mode.
    #[must_use]
    pub fn raised(&self, level: Level, hart: usize) -> bool {
        match level {
            Level::Machine => self.machine.raised(hart),
            Level::Supervisor => self.supervisor.raised(hart),
        }
    }

    /// Whether a saved state could be one of `self`.
    #[must_use]
    pub fn fits(&self, saved: &Self) -> bool {
        self.machine.fits(&saved.machine)
            && self.supervisor.fits(&saved.supervisor)
            && saved.wires.len() == self.wires.len()
    }
}
