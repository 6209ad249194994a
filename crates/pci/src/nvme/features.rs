//! Features (NVM Express Base 1.4, section 5.21.1): what the owner sets, and is told again.

use trapless_devices::{StateError, StateReader, StateWriter};

use super::command::{Command, Failure};
use super::queues::PAIRS;

/// Identifiers.
mod feature {
    pub const ARBITRATION: u8 = 0x01;
    pub const TEMPERATURE: u8 = 0x04;
    pub const WRITE_CACHE: u8 = 0x06;
    pub const QUEUES: u8 = 0x07;
    pub const VECTOR: u8 = 0x09;
    pub const EVENTS: u8 = 0x0b;
}

/// Features are numbers 1 to 11; 3 needs ranges of logical blocks, which there are not.
const COUNT: usize = 12;
const MISSING: [u8; 2] = [0, 3];
/// Pairs of queues for I/O, less 1, both halves.
const IO_QUEUES: u32 = (PAIRS as u32 - 2) * 0x0001_0001;

/// Present values.
#[derive(Clone)]
pub(super) struct Features([u32; COUNT]);

impl Default for Features {
    fn default() -> Self {
        let mut values = [0; COUNT];
        for id in 0..COUNT as u8 {
            values[usize::from(id)] = default(id);
        }
        Self(values)
    }
}

fn default(id: u8) -> u32 {
    match id {
        // As many commands in a row as there are.
        feature::ARBITRATION => 7,
        feature::TEMPERATURE => 340,
        feature::WRITE_CACHE => 1,
        feature::QUEUES => IO_QUEUES,
        _ => 0,
    }
}

/// Bits of a feature that can be set.
fn settable(id: u8) -> u32 {
    match id {
        feature::TEMPERATURE => 0x003f_ffff,
        feature::WRITE_CACHE => 1,
        feature::VECTOR => 0x0001_ffff,
        feature::EVENTS => 0xffff,
        // The only power state.
        0x02 => 0,
        _ => u32::MAX,
    }
}

impl Features {
    /// Sets a feature. How many queues there are cannot be set any more if there are some.
    pub fn set(&mut self, command: &Command, io_queues: bool) -> Result<u32, Failure> {
        let (id, value) = (self.known(command)?, command.word(11));
        if command.word(10) >> 31 != 0 {
            return Err(Failure::NOT_SAVEABLE);
        }
        if id == feature::QUEUES {
            let wanted = [value & 0xffff, value >> 16];
            if wanted.contains(&0xffff) {
                return Err(Failure::FIELD);
            }
            // All that there are may be created, whatever was asked for.
            return match io_queues {
                true => Err(Failure::SEQUENCE),
                false => Ok(IO_QUEUES),
            };
        }
        if id == feature::VECTOR && value as u16 >= PAIRS as u16 {
            return Err(Failure::FIELD);
        }
        if value & !settable(id) != 0 {
            return Err(Failure::FIELD);
        }
        self.0[usize::from(id)] = value;
        Ok(0)
    }

    /// A feature's value.
    pub fn get(&self, command: &Command) -> Result<u32, Failure> {
        let id = self.known(command)?;
        match command.word(10) >> 8 & 7 {
            0 => Ok(self.0[usize::from(id)]),
            // The default, which is what is saved.
            1 | 2 => Ok(default(id)),
            // It can be changed, for the whole controller.
            3 => Ok(1 << 2),
            _ => Err(Failure::FIELD),
        }
    }

    fn known(&self, command: &Command) -> Result<u8, Failure> {
        let id = command.word(10) as u8;
        let known = usize::from(id) < COUNT && !MISSING.contains(&id);
        known.then_some(id).ok_or(Failure::FIELD)
    }

    pub fn save(&self, to: &mut StateWriter) {
        self.0.iter().for_each(|value| to.number(*value));
    }

    pub fn restore(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        let mut features = Self::default();
        for value in &mut features.0 {
            *value = from.number()?;
        }
        Ok(features)
    }
}
