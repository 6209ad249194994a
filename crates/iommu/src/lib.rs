//! The RISC-V IOMMU (RISC-V IOMMU Architecture Specification 1.0): tells for each access of a
//! device which physical address it means, if the device may make it at all.
//!
//! ```text
//!   hart: registers --> Iommu <-- translate, message: accesses and messages of devices
//!                        |   \ <-> ats: functions that remember translations
//!         queues in memory    caches --> DDT, PDT, page tables, MSI tables in memory
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `registers` | offsets and fields of registers |
//! | `mmio` | loads and stores of harts |
//! | `interrupts` | interrupts of the IOMMU, by wire or message |
//! | `queue` | queues in memory |
//! | `commands` | what the command queue may ask for |
//! | `tables::context` | device and process contexts |
//! | `tables::walk` | page tables of both stages |
//! | `tables::cache` | what is remembered of tables until it is invalidated |
//! | `translate` | from a device's address to a physical one |
//! | `message` | messages to interrupt files, and memory-resident interrupt files |
//! | `ats` | functions that remember translations, and ask for pages |
//! | `counters` | performance counters |
//! | `fault` | causes, and records for the fault queue |
//! | `fdt` | device tree node |
//!
//! What it has (register `capabilities`): all modes of both stages but Sv32, one to three levels of
//! the device directory, process directories, MSI tables with entries of both kinds (files in
//! memory are changed atomically), updates of A and D bits, ATS and page requests, interrupts by
//! wire or message, performance counters, and the debug interface. It is little-endian.
//!
//! Choices where the specification leaves one: entries of caches stay until a command names them or
//! their room is needed, so that software that forgets a command is found out; tables are not
//! walked through memory outside RAM; queues have 2^16 entries at most; commands are carried out at
//! once when the tail is written, and only what functions have to answer takes virtual time.

mod ats;
mod commands;
mod counters;
mod fault;
pub mod fdt;
mod interrupts;
mod message;
mod mmio;
mod queue;
mod registers;
mod request;
mod tables;
mod translate;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use trapless_devices::{Clock, DeviceId, GuestRam, IrqLine, StateError, StateReader, StateWriter};
use vm_memory::{Bytes, GuestAddress};

use counters::Counters;
use interrupts::{Interrupts, Source};
use queue::Queue;
use tables::cache::Cache;

pub use message::Arrived;
pub use registers::LEN;
pub use request::{Access, AddressType, Request};
pub use translate::{Target, Translated};

/// Interrupt wires.
pub const WIRES: usize = 4;
/// Most bytes of a saved state.
const MAX_STATE: usize = 1 << 22;

/// A word that the IOMMU itself writes: a message that one of its interrupts, a fence or a notice
/// is. Answers whether something is there that takes words; if not, that is an access fault.
pub type Post = Box<dyn FnMut(u64, u32) -> bool + Send>;

/// What an observer is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// `IOTINVAL.VMA` or `IOTINVAL.GVMA` has been carried out.
    InvalidatedTables,
    /// `IODIR.INVAL_DDT` or `IODIR.INVAL_PDT` has been carried out.
    InvalidatedDirectory,
    /// `IOFENCE.C` has been carried out.
    Fenced,
    /// A message has been stored in an interrupt file in memory, and its notice sent.
    Stored {
        /// The device.
        device: DeviceId,
        /// Physical address of the file.
        file: u64,
        /// Interrupt identity.
        identity: u16,
    },
    /// An access or a request of a device was refused, whether its context wants that to be
    /// reported or not.
    Refused {
        /// The device.
        device: DeviceId,
        /// Cause (section "Fault/Event-Queue").
        cause: u16,
        /// The address that it gave.
        address: u64,
    },
}

/// Is told of steps as they are made.
pub type Observe = Box<dyn FnMut(Step) + Send>;

/// See the [module](self).
pub struct Iommu {
    ram: Arc<GuestRam>,
    wires: [Box<dyn IrqLine>; WIRES],
    clock: Box<dyn Clock>,
    post: Post,
    observe: Observe,
    state: State,
}

/// All that software makes of it.
#[derive(Clone, Default, Serialize, Deserialize)]
struct State {
    fctl: u32,
    ddtp: u64,
    commands: Queue,
    faults: Queue,
    pages: Queue,
    messages: ats::Messages,
    /// Debug interface.
    request_address: u64,
    request_control: u64,
    response: u64,
    interrupts: Interrupts,
    counters: Counters,
    cache: Cache,
}

impl State {
    /// The queue that a source of interrupts is, if it is one.
    fn queue(&mut self, source: Source) -> Option<&mut Queue> {
        match source {
            Source::Commands => Some(&mut self.commands),
            Source::Faults => Some(&mut self.faults),
            Source::Pages => Some(&mut self.pages),
            Source::Counters => None,
        }
    }
}

impl Iommu {
    /// An IOMMU after reset: devices see physical addresses, so that software which does not know
    /// of it can use them. Its own words outside RAM go to `post`; `clock` is what it counts.
    #[must_use]
    pub fn new(
        ram: Arc<GuestRam>,
        wires: [Box<dyn IrqLine>; WIRES],
        clock: Box<dyn Clock>,
        post: Post,
    ) -> Self {
        Self {
            ram,
            wires,
            clock,
            post,
            observe: Box::new(|_| ()),
            state: State {
                ddtp: registers::ddtp::BARE,
                ..State::default()
            },
        }
    }

    /// Tells `observe` of each step from now on.
    pub fn observe(&mut self, observe: Observe) {
        self.observe = observe;
    }

    fn load<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        let read = self.ram.read_slice(&mut bytes, GuestAddress(address));
        read.ok().map(|()| bytes)
    }

    fn load_u64(&self, address: u64) -> Option<u64> {
        self.load(address).map(u64::from_le_bytes)
    }

    fn load_words<const N: usize>(&self, address: u64) -> Option<[u64; N]> {
        let mut words = [0; N];
        for (at, word) in words.iter_mut().enumerate() {
            *word = self.load_u64(address.checked_add(8 * at as u64)?)?;
        }
        Some(words)
    }

    fn store(&self, address: u64, bytes: &[u8]) -> Option<()> {
        self.ram.write_slice(bytes, GuestAddress(address)).ok()
    }

    /// Writes a word: to RAM, or as a message. `None`: an access fault.
    fn write_word(&mut self, address: u64, data: u32) -> Option<()> {
        let stored = self.store(address, &data.to_le_bytes());
        stored.or_else(|| (self.post)(address, data).then_some(()))
    }

    /// Appends all state.
    ///
    /// # Panics
    /// Never: a vector takes everything.
    pub fn save(&self, to: &mut StateWriter) {
        to.bytes(&postcard::to_stdvec(&self.state).expect("a vector takes everything"));
    }

    /// Takes over what [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// [`StateError`] if it is not from an IOMMU.
    pub fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let state: State = postcard::from_bytes(from.bytes(MAX_STATE)?)
            .map_err(|_| StateError("cannot be decoded"))?;
        if state.ddtp & registers::ddtp::MODE > registers::ddtp::LAST
            || state.ddtp & !registers::ddtp::WRITABLE != 0
        {
            return Err(StateError("has an impossible mode"));
        }
        let queues = [&state.commands, &state.faults, &state.pages];
        if !queues.into_iter().all(Queue::is_sound)
            || !state.messages.is_sound()
            || !state.cache.is_sound()
        {
            return Err(StateError("has an impossible queue or cache"));
        }
        self.state = state;
        self.drive();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
