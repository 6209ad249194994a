//! Commands (section "Command-Queue").

use crate::ats::NoRoom;
use crate::interrupts::Source;
use crate::registers::FCTL_WSI;
use crate::tables::cache::Scope;
use crate::tables::context::Mode;
use crate::{Iommu, Step};

/// Bytes of a command.
const LEN: u64 = 16;

/// Why the queue stops at a command.
enum Stop {
    /// It is none.
    Illegal,
    /// Nothing takes what it writes.
    Store,
    /// A function has not answered one before it.
    Timeout,
    /// It is carried out when functions have taken messages, or answered them.
    Later,
}

impl From<NoRoom> for Stop {
    fn from(_: NoRoom) -> Self {
        Self::Later
    }
}

/// Bits `high..=low` of a word.
const fn bits(word: u64, low: u32, high: u32) -> u64 {
    word >> low & (u64::MAX >> (63 - (high - low)))
}

fn given(word: u64, bit: u32) -> bool {
    word >> bit & 1 != 0
}

/// Refuses reserved bits.
fn reserved(bits: u64) -> Result<(), Stop> {
    if bits == 0 {
        Ok(())
    } else {
        Err(Stop::Illegal)
    }
}

impl Iommu {
    /// Carries out what waits in the command queue.
    pub(crate) fn carry_out(&mut self) {
        while self.state.commands.accepts() && !self.state.commands.is_empty() {
            let place = self.state.commands.head_address(LEN);
            let Some(command) = self.load_words::<2>(place) else {
                self.state.commands.set_memory_fault();
                return self.raise(Source::Commands);
            };
            if let Err(stop) = self.command(command) {
                match stop {
                    Stop::Illegal => self.state.commands.set_illegal(),
                    Stop::Store => self.state.commands.set_memory_fault(),
                    Stop::Timeout => self.state.commands.set_timeout(),
                    Stop::Later => return,
                }
                return self.raise(Source::Commands);
            }
            // No such command is legal with another function code.
            let step = match bits(command[0], 0, 6) {
                1 => Some(Step::InvalidatedTables),
                2 => Some(Step::Fenced),
                3 => Some(Step::InvalidatedDirectory),
                _ => None,
            };
            if let Some(step) = step {
                (self.observe)(step);
            }
            self.state.commands.advance_head();
        }
    }

    fn command(&mut self, [first, second]: [u64; 2]) -> Result<(), Stop> {
        match (bits(first, 0, 6), bits(first, 7, 9)) {
            (1, 0) => self.invalidate_first(first, second),
            (1, 1) => self.invalidate_second(first, second),
            (2, 0) => self.fence(first, second),
            (3, 0) => {
                reserved(bits(first, 10, 32) | bits(first, 34, 39) | second)?;
                let device = self.named_device(first)?;
                self.state.cache.forget_device(device);
                Ok(())
            }
            (3, 1) => {
                reserved(bits(first, 10, 11) | bits(first, 32, 32) | bits(first, 34, 39) | second)?;
                let device = self.named_device(first)?.ok_or(Stop::Illegal)?;
                let process = bits(first, 12, 31) as u32;
                self.state.cache.forget_process(device, process);
                Ok(())
            }
            (4, function @ 0..=1) => {
                reserved(bits(first, 10, 11) | bits(first, 34, 39))?;
                let process = given(first, 32).then_some(bits(first, 12, 31) as u32);
                // Without DSV the segment does not count.
                let segment = if given(first, 33) {
                    bits(first, 56, 63)
                } else {
                    0
                };
                let device = (segment << 16 | bits(first, 40, 55)) as u32;
                let messages = &mut self.state.messages;
                match function {
                    0 => messages.invalidate(device, process, second)?,
                    _ => messages.respond(device, process, second)?,
                }
                Ok(())
            }
            _ => Err(Stop::Illegal),
        }
    }

    /// The device that a directory command names.
    fn named_device(&self, first: u64) -> Result<Option<u32>, Stop> {
        let device = bits(first, 40, 63) as u32;
        let wide = Mode::of(self.state.ddtp).is_too_wide(device);
        match bits(first, 33, 33) {
            0 => Ok(None),
            _ if wide => Err(Stop::Illegal),
            _ => Ok(Some(device)),
        }
    }

    /// Which entries a page-table command is about.
    fn scope(first: u64, second: u64) -> Result<Scope, Stop> {
        reserved(bits(first, 11, 11) | bits(first, 34, 43) | bits(first, 60, 63))?;
        reserved(bits(second, 0, 9) | bits(second, 62, 63))?;
        Ok(Scope {
            address: given(first, 10).then_some(bits(second, 10, 61) << 12),
            process: given(first, 32).then_some(bits(first, 12, 31) as u32),
            guest: given(first, 33).then_some(bits(first, 44, 59) as u16),
        })
    }

    /// `IOTINVAL.VMA`.
    fn invalidate_first(&mut self, first: u64, second: u64) -> Result<(), Stop> {
        let scope = Self::scope(first, second)?;
        self.state.cache.forget_first(&scope);
        Ok(())
    }

    /// `IOTINVAL.GVMA`.
    fn invalidate_second(&mut self, first: u64, second: u64) -> Result<(), Stop> {
        let scope = Self::scope(first, second)?;
        if scope.process.is_some() {
            return Err(Stop::Illegal);
        }
        self.state.cache.forget_second(&scope);
        Ok(())
    }

    /// `IOFENCE.C`. Accesses of devices are complete when they have been made, so that only what
    /// functions have to forget is waited for.
    fn fence(&mut self, first: u64, second: u64) -> Result<(), Stop> {
        reserved(bits(first, 14, 31) | bits(second, 62, 63))?;
        let wire = bits(first, 11, 11) != 0;
        if wire && self.state.fctl & FCTL_WSI == 0 {
            return Err(Stop::Illegal);
        }
        if self.state.messages.are_pending() {
            return Err(Stop::Later);
        }
        if self.state.messages.take_timeout() {
            return Err(Stop::Timeout);
        }
        if bits(first, 10, 10) != 0 {
            let written = self.write_word(second << 2, (first >> 32) as u32);
            written.ok_or(Stop::Store)?;
        }
        if wire {
            self.state.commands.set_fence();
            self.raise(Source::Commands);
        }
        Ok(())
    }
}
