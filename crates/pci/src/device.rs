//! A device of the bus: its function 0, and the virtual functions that this one has.

use std::sync::Arc;

use trapless_devices::ats::Message;
use trapless_devices::{DeviceId, StateError, StateReader, StateWriter};

use crate::config::Bar;
use crate::endpoint::{Endpoint, Kind};
use crate::function::Function;
use crate::port::Gate;
use crate::sriov::{MAX_VIRTUAL_FUNCTIONS, Sriov};

/// How a function is connected to the host.
pub(crate) struct Socket {
    pub device: DeviceId,
    pub gate: Arc<Gate>,
}

/// See the [module](self).
pub(crate) struct Device {
    physical: Endpoint,
    /// Function 1 is the first.
    virtuals: Vec<Endpoint>,
    /// Present if there are virtual functions.
    sriov: Option<Sriov>,
}

/// Routing ID of a function of bus 0.
pub(crate) fn routing_id(device: usize, function: usize) -> DeviceId {
    DeviceId((device << 3 | function) as u32)
}

impl Device {
    /// Functions in their sockets, the physical one first.
    ///
    /// # Panics
    /// If there is none, or more virtual functions than fit: a mistake of who plugs them in.
    pub fn new(functions: impl Iterator<Item = (Box<dyn Function>, Socket)>) -> Self {
        let mut endpoints = functions.enumerate().map(|(number, (function, socket))| {
            let kind = match number {
                0 => Kind::Physical,
                _ => Kind::Virtual,
            };
            Endpoint::new(function, kind, socket.device, socket.gate)
        });
        let mut physical = endpoints.next().expect("a device has a function");
        let virtuals: Vec<Endpoint> = endpoints.collect();
        assert!(virtuals.len() <= MAX_VIRTUAL_FUNCTIONS, "three bits");
        let sriov = virtuals.first().map(|first| {
            let layout = first.layout();
            Sriov::new(&mut physical.config, &layout, virtuals.len())
        });
        Self {
            physical,
            virtuals,
            sriov,
        }
    }

    /// How many virtual functions exist now.
    fn existing(&self) -> usize {
        let config = &self.physical.config;
        self.sriov.as_ref().map_or(0, |s| s.existing(config))
    }

    /// The function, if it exists.
    fn function(&mut self, number: usize) -> Option<&mut Endpoint> {
        if number == 0 {
            return Some(&mut self.physical);
        }
        let exists = number <= self.existing();
        exists.then(|| self.virtuals.get_mut(number - 1))?
    }

    fn functions(&self) -> impl Iterator<Item = &Endpoint> {
        let virtuals = &self.virtuals[..self.existing()];
        std::iter::once(&self.physical).chain(virtuals)
    }

    fn functions_mut(&mut self) -> impl Iterator<Item = &mut Endpoint> {
        let existing = self.existing();
        let virtuals = &mut self.virtuals[..existing];
        std::iter::once(&mut self.physical).chain(virtuals)
    }

    /// Reads a configuration space; that of a function that does not exist is all ones.
    pub fn read_config(&mut self, function: usize, offset: usize, data: &mut [u8]) {
        match self.function(function) {
            Some(function) => function.read_config(offset, data),
            None => data.fill(0xff),
        }
    }

    /// Writes a configuration space.
    pub fn write_config(&mut self, function: usize, offset: usize, data: &[u8]) {
        let Some(sriov) = self.sriov.as_ref().filter(|_| function == 0) else {
            if let Some(function) = self.function(function) {
                function.write_config(offset, data);
            }
            return self.tell_siblings();
        };
        let existing = sriov.existing(&self.physical.config);
        let before = sriov.before(&self.physical.config);
        self.physical.write_config(offset, data);
        sriov.settle(&mut self.physical.config, before);
        // Those that went come back as after reset.
        let gone = self.existing()..existing;
        if let Some(gone) = self.virtuals.get_mut(gone) {
            gone.iter_mut().for_each(Endpoint::reset);
        }
        self.tell_siblings();
    }

    /// What one function sends to another arrives.
    fn tell_siblings(&mut self) {
        if self.existing() != 0 {
            self.poll();
        }
    }

    /// Regions that its functions answer now: the function's number, the region, its bus address.
    pub fn regions(&self) -> impl Iterator<Item = (usize, Bar, u64)> + '_ {
        let own = self.physical.regions().map(|(bar, base)| (0, bar, base));
        let sriov = self.sriov.iter();
        own.chain(sriov.flat_map(|sriov| sriov.regions(&self.physical.config)))
    }

    /// A load from a BAR of a function.
    pub fn read(&mut self, function: usize, bar: u8, offset: u64, data: &mut [u8]) {
        if let Some(function) = self.function(function) {
            function.read(bar, offset, data);
        }
    }

    /// A store to a BAR of a function.
    pub fn write(&mut self, function: usize, bar: u8, offset: u64, data: &[u8]) {
        if let Some(function) = self.function(function) {
            function.write(bar, offset, data);
        }
        self.tell_siblings();
    }

    /// Passes a message to a function; answers whether the function takes it.
    pub fn take(&mut self, function: usize, message: &Message) -> bool {
        match (self.function(function), message) {
            (Some(function), Message::Invalidate(what)) => function.invalidate(what),
            (Some(function), Message::Respond(answer)) => {
                function.answered(answer);
                true
            }
            (None, _) => false,
        }
    }

    pub fn poll(&mut self) {
        self.functions_mut().for_each(Endpoint::poll);
    }

    pub fn next_deadline(&self) -> Option<u64> {
        self.functions().filter_map(Endpoint::next_deadline).min()
    }

    pub fn needs_poll(&self) -> bool {
        self.functions().any(Endpoint::needs_poll)
    }

    /// Whether INTA is asserted, which only the physical function can do.
    pub fn intx(&self) -> bool {
        self.physical.intx()
    }

    pub fn obstacles(&self) -> impl Iterator<Item = &'static str> {
        self.functions().filter_map(Endpoint::obstacle)
    }

    pub fn save(&self, to: &mut StateWriter) {
        self.physical.save(to);
        self.virtuals.iter().for_each(|function| function.save(to));
    }

    pub fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.physical.restore(from)?;
        for function in &mut self.virtuals {
            function.restore(from)?;
        }
        Ok(())
    }
}
