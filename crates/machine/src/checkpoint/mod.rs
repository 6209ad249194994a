//! Checkpoints: a whole machine in a file, out of which it goes on as if it had never stopped.
//!
//! `docs/checkpoints.md` describes the file. The state is exact: registers, what TLBs hold,
//! interrupts on their way, devices and what was written to disks. Not in it is what only the host
//! needs, decoded and compiled code above all; so either engine goes on.

mod file;
mod pages;

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};
use trapless_devices::state::{StateReader, StateWriter};
use trapless_hart::HartState;

use crate::bus::SavedBus;
use crate::error::Error;
use crate::interrupts::SavedInterrupts;
use crate::machine::Machine;
use crate::outside::Input;
use crate::progress::Progress;
use crate::wires::WireLevels;
pub use file::{About, FORMAT, Header};

/// All of a machine but RAM.
#[derive(Serialize, Deserialize)]
struct MachineState {
    clock: Progress,
    inputs: Vec<((u64, u64), Input)>,
    input_count: u64,
    console: Vec<u8>,
    /// From here on in the order in which a machine takes them over.
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
        }
    }
}

impl Machine {
    /// Writes a checkpoint: the machine, what its maker says of it, and `more`, which its reader
    /// gets back.
    ///
    /// # Errors
    /// A sentence if the file cannot be written, or for a machine that cannot be saved: one with a
    /// twin, of a program that prints by `tohost`, or with a device whose state is outside of it.
    pub fn save(&self, to: &mut dyn Write, about: About, more: &[u8]) -> Result<(), Error> {
        if self.twin.is_some() || self.htif.is_some() {
            return Err(Error::Invalid(
                "this machine cannot be saved: it has a twin (--engine both), or runs a program \
                 that ends by `tohost`"
                    .into(),
            ));
        }
        if let Some(obstacle) = self
            .bus
            .slots
            .iter()
            .find_map(|slot| slot.device.obstacle())
        {
            return Err(Error::Invalid(format!(
                "this machine cannot be saved: {obstacle}"
            )));
        }
        let state = postcard::to_stdvec(&self.state()).map_err(file::cannot_write)?;
        let header = Header::of(self, about);
        file::write(to, &header, &[&state, more], &self.ram)
            .map_err(|e| Error::Invalid(format!("cannot write the checkpoint: {e}")))
    }

    /// Takes over the state of a checkpoint of a machine with the same configuration and devices;
    /// returns what was saved with it.
    ///
    /// # Errors
    /// A sentence if the checkpoint is damaged, of another version or of another machine. This
    /// machine must not run any more then.
    pub fn restore(&mut self, from: &mut dyn Read) -> Result<Vec<u8>, Error> {
        let header = Header::read(from)?;
        header.check(&Header::of(self, About::default()))?;
        let [state, more] = file::read_parts(from)?;
        let state = postcard::from_bytes(&state)
            .map_err(|_| file::damaged("its state cannot be decoded"))?;
        file::read_pages(from, &self.ram)?;
        self.code.compare(&self.ram);
        self.take_over(state).map_err(|what| file::damaged(&what))?;
        Ok(more)
    }

    fn state(&self) -> MachineState {
        let inputs = self.inputs.iter();
        let device = |slot: &crate::address_map::Slot| {
            let mut to = StateWriter::default();
            slot.device.save(&mut to);
            to.into_bytes()
        };
        MachineState {
            clock: self.clock.clone(),
            inputs: inputs.map(|(at, input)| (*at, input.clone())).collect(),
            input_count: self.input_count,
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
        self.clock = state.clock;
        self.inputs = state.inputs.into_iter().collect();
        self.input_count = state.input_count;
        self.console.replace(state.console);
        self.bus.interrupts.restore(state.interrupts)?;
        for (hart, saved) in self.harts.iter_mut().zip(state.harts) {
            hart.restore(saved)?;
            self.bus.set_protection(hart.id(), hart.pmp());
        }
        for (slot, saved) in self.bus.slots.iter_mut().zip(&state.devices) {
            let mut from = StateReader::new(saved);
            let restored = slot.device.restore(&mut from).and_then(|()| from.end());
            restored.map_err(|e| format!("the saved device at {:#x} {e}", slot.base))?;
        }
        self.bus.wires().restore(state.wires);
        self.bus.restore(&state.bus);
        Ok(())
    }
}
