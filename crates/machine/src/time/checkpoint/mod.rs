//! Checkpoints: the state of a whole machine in a file, from which it continues as if it had never
//! stopped.
//!
//! `docs/checkpoints.md` describes the file. The state is exact: registers, content of TLBs,
//! pending interrupts, devices and data written to disks. It does not contain state of the host,
//! above all decoded and compiled code; so either engine can resume it.

mod base;
mod collect;
mod errors;
mod file;
mod listing;
mod pages;
mod restore;
mod source;

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};
use trapless_devices::state::{StateReader, StateWriter};
use trapless_hart::HartState;

use crate::bus::SavedBus;
use crate::bus::interrupts::SavedInterrupts;
use crate::bus::wires::WireLevels;
use crate::drive::progress::Progress;
use crate::error::Error;
use crate::machine::Machine;
use crate::outside;
use crate::time::input::SavedInput;
pub use base::Base;
pub use file::{About, FORMAT, Header};
use listing::Listing;
use restore::Reader;
use source::Cursor;
pub use source::Source;

/// Upper bound of virtual time in cycles: more than a century.
const LATEST: u64 = 1 << 62;
/// Parts of a file before the list of its pages.
const PARTS: usize = 2;

/// Which pages of RAM are written when a state is restored.
enum Pages {
    /// All: the previous content of RAM is unknown.
    All,
    /// Those that differ, so that code compiled from the others is kept.
    Changed,
}

/// State of a machine without RAM.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct MachineState {
    clock: Progress,
    inputs: SavedInput,
    input_count: u64,
    console: Vec<u8>,
    /// From here on in the order in which they are restored.
    interrupts: SavedInterrupts,
    harts: Vec<HartState>,
    devices: Vec<Vec<u8>>,
    wires: WireLevels,
    bus: SavedBus,
}

impl Header {
    fn of(machine: &Machine, about: About) -> Self {
        Self {
            about,
            machine: serde_json::to_value(machine.config()).unwrap_or_default(),
            cycles: machine.now(),
            instructions: machine.instret(),
            base: None,
        }
    }
}

impl Machine {
    /// Writes a checkpoint: the machine, the description `about`, and `more`, which is returned to
    /// its reader.
    ///
    /// # Errors
    /// If the file cannot be written, or the machine cannot be saved: one with a twin, of a program
    /// that prints by `tohost`, or with a device whose state is outside of it.
    pub fn save(&self, to: &mut dyn Write, about: About, more: &[u8]) -> Result<(), Error> {
        self.save_beside(to, about, more, None)
    }

    /// The same without the pages that `base` has: a reader needs both.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    pub fn save_beside(
        &self,
        to: &mut dyn Write,
        about: About,
        more: &[u8],
        base: Option<&Base>,
    ) -> Result<(), Error> {
        self.check_savable()?;
        let state = postcard::to_stdvec(&self.state()).map_err(errors::cannot_write)?;
        let header = Header {
            base: base.map(|base| base.name.clone()),
            ..Header::of(self, about)
        };
        let (listing, own) = collect::collect(&self.ram, base);
        let listing = postcard::to_stdvec(&listing).map_err(errors::cannot_write)?;
        let parts: [&[u8]; PARTS + 1] = [&state, more, &listing];
        file::write(to, &header, &parts)
            .and_then(|()| collect::write(to, &self.ram, &own))
            .map_err(errors::cannot_write)
    }

    /// Restores the state of a checkpoint of a machine with the same configuration and devices;
    /// returns the data that was saved with it.
    ///
    /// # Errors
    /// If the checkpoint is damaged, of another version or of another machine. This machine must
    /// not run any more then.
    pub fn restore(&mut self, from: &mut dyn Read) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).map_err(errors::unreadable)?;
        self.restore_from(&bytes, None)
    }

    /// The same from a file, or bytes, and the base that it shares pages with.
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    pub fn restore_from(
        &mut self,
        source: &dyn Source,
        base: Option<&Base>,
    ) -> Result<Vec<u8>, Error> {
        self.load(source, base, Pages::All)
    }

    /// The same for an earlier state of this machine: only RAM that differs is written, so that it
    /// keeps the code that it has compiled since.
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    pub fn go_back(&mut self, source: &dyn Source) -> Result<Vec<u8>, Error> {
        self.load(source, None, Pages::Changed)
    }

    fn load(
        &mut self,
        source: &dyn Source,
        base: Option<&Base>,
        pages: Pages,
    ) -> Result<Vec<u8>, Error> {
        let mut cursor = Cursor::new(source).map_err(errors::unreadable)?;
        let header = Header::read(&mut cursor)?;
        header.check(&Header::of(self, About::default()))?;
        let [state, more]: [_; PARTS] = file::read_parts(&mut cursor)?;
        let state = postcard::from_bytes(&state)
            .map_err(|_| errors::damaged("its state cannot be decoded"))?;
        let listing = Listing::read(&mut cursor)?;
        let reader = Reader {
            source,
            offset: cursor.at,
            base,
            ram: &self.ram,
        };
        match pages {
            Pages::All => listing.restore(&reader)?,
            Pages::Changed => listing.restore_changes(&reader)?,
        }
        self.code.compare(&self.ram);
        self.take_over(state)
            .map_err(|what| errors::damaged(&what))?;
        Ok(more)
    }

    /// Why the machine cannot return to an earlier state, if it cannot: part of the state is
    /// outside of it.
    #[must_use]
    pub fn obstacle(&self) -> Option<&'static str> {
        self.obstacle_of(|_| true)
    }

    /// Whether a checkpoint can be made of it. Connections to an outside network are lost, as when
    /// a cable is pulled; a resumed machine is connected again.
    ///
    /// # Errors
    /// If not; the message says why.
    pub fn check_savable(&self) -> Result<(), Error> {
        let htif = "it runs a program that ends by `tohost`";
        let obstacle = self.obstacle_of(|obstacle| obstacle != outside::CONNECTED);
        match obstacle.or(self.htif.is_some().then_some(htif)) {
            None => Ok(()),
            Some(obstacle) => Err(Error::Invalid(format!(
                "this machine cannot be saved: {obstacle}"
            ))),
        }
    }

    /// The first obstacle that `counts` accepts.
    fn obstacle_of(&self, counts: impl Fn(&'static str) -> bool) -> Option<&'static str> {
        let twin = "it has a twin (--engine both)";
        let twin = self.twin.is_some().then_some(twin);
        let slots = self.bus.slots.iter();
        let mut obstacles = slots.flat_map(|slot| slot.device.obstacles());
        twin.or_else(|| obstacles.find(|obstacle| counts(obstacle)))
    }

    /// State of the machine without RAM, for [`reset_to`](Self::reset_to).
    pub(crate) fn snapshot(&self) -> Vec<u8> {
        postcard::to_stdvec(&self.state()).expect("a vector takes everything")
    }

    /// The same without the debugger's set of harts that it holds back.
    pub(crate) fn snapshot_without_late(&self) -> Vec<u8> {
        let mut state = self.state();
        state.clock.late.clear();
        postcard::to_stdvec(&state).expect("a vector takes everything")
    }

    /// Restores a snapshot of this machine, whose RAM has been restored.
    pub(crate) fn reset_to(&mut self, snapshot: &[u8]) -> Result<(), Error> {
        let state = postcard::from_bytes(snapshot)
            .map_err(|_| errors::damaged("its state cannot be decoded"))?;
        self.ram.written_by_device();
        self.reset_but_ram(state)
    }

    /// The same after RAM was restored by its undo log, which marks the changed pages itself.
    pub(crate) fn reset_but_ram(&mut self, state: MachineState) -> Result<(), Error> {
        self.code.compare(&self.ram);
        self.take_over(state).map_err(|what| errors::damaged(&what))
    }

    /// State of the machine without RAM.
    pub(crate) fn state(&self) -> MachineState {
        let (inputs, input_count) = self.input.save();
        let device = |slot: &crate::bus::address_map::Slot| {
            let mut to = StateWriter::default();
            slot.device.save(&mut to);
            to.into_bytes()
        };
        MachineState {
            clock: self.clock.clone(),
            inputs,
            input_count,
            console: self.console.waiting(),
            interrupts: self.bus.interrupts.save(),
            harts: self.harts.iter().map(trapless_hart::Hart::save).collect(),
            devices: self.bus.slots.iter().map(device).collect(),
            wires: self.bus.wires().save(),
            bus: self.bus.save(),
        }
    }

    fn take_over(&mut self, state: MachineState) -> Result<(), String> {
        if state.harts.len() != self.harts.len() || state.devices.len() != self.bus.slots.len() {
            return Err("it has other harts or devices".into());
        }
        let harts = state.harts.len();
        let indices = state.clock.late.iter().chain(&state.clock.due);
        if state.clock.turn > harts || indices.into_iter().any(|&hart| hart >= harts) {
            return Err("its scheduler knows other harts".into());
        }
        let clock = &state.clock;
        let most = self.longest_round();
        let in_round = clock.now < clock.horizon && clock.horizon - clock.now <= most;
        if clock.now > LATEST || clock.in_round && !in_round {
            return Err("its time cannot be".into());
        }
        // This machine may have powered off since.
        self.bus.power.take();
        self.clock = state.clock;
        self.input.restore(state.inputs, state.input_count);
        self.console.replace(state.console);
        self.bus.interrupts.restore(state.interrupts)?;
        for (hart, saved) in self.harts.iter_mut().zip(state.harts) {
            hart.restore(saved)?;
            if hart.now() > LATEST {
                return Err("the time of a hart cannot be".into());
            }
            self.bus.set_protection(hart.id(), hart.pmp());
        }
        for (slot, saved) in self.bus.slots.iter_mut().zip(&state.devices) {
            let mut from = StateReader::new(saved);
            let restored = slot.device.restore(&mut from).and_then(|()| from.end());
            restored.map_err(|e| format!("the saved device at {:#x} {e}", slot.place()))?;
        }
        self.bus.wires().restore(state.wires);
        self.bus.restore(&state.bus);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MachineConfig, Payload, Peripherals};

    /// Promise: a checkpoint that was made up does not keep a run from its limit.
    #[test]
    fn rounds_without_an_end_are_refused() {
        let mut config = MachineConfig::preset("sstc").unwrap();
        config.ram = 1 << 20;
        let payload = Payload {
            firmware: Some(0x6f_u32.to_le_bytes().into()), // j .
            ..Payload::default()
        };
        let quiet = Peripherals::new(Box::new(std::io::sink()));
        let mut machine = Machine::boot(config, &payload, quiet).unwrap();
        let mut taken = |in_round, now, horizon| {
            let mut state = machine.state();
            let clock = &mut state.clock;
            (clock.in_round, clock.now, clock.horizon) = (in_round, now, horizon);
            machine.take_over(state).is_ok()
        };
        let (forever, late) = (u64::MAX, 1 << 63);
        for (now, horizon) in [(0, forever), (7, 7), (7, 6), (late, late + 1)] {
            assert!(!taken(true, now, horizon), "{now} {horizon}");
        }
        assert!(!taken(false, late, 0));
        assert!(taken(false, 7, forever) && taken(true, 7, 1007));
    }
}
