//! What tests and the speed example put around a hart.

use trapless_hart::platform::{BusFault, Platform};
use trapless_isa::Mode;
use trapless_isa::port::Lines;
use trapless_ledger::event::Event;

/// A machine with nothing in it but RAM.
pub struct Nothing;

impl Platform for Nothing {
    fn load(&mut self, _: usize, _: u64, _: u64, _: u8, _: Mode) -> Result<u64, BusFault> {
        Err(BusFault)
    }

    fn store(&mut self, _: usize, _: u64, _: u64, _: u8, _: u64, _: Mode) -> Result<(), BusFault> {
        Err(BusFault)
    }

    fn lines(&mut self, _: usize, _: u64) -> Lines {
        Lines::default()
    }

    fn lines_changed(&self, _: usize) -> bool {
        false
    }

    // So that compiled code notes a guest's writes of its timer, as it does in machines.
    fn sums_timer_sets(&self) -> bool {
        true
    }

    fn record(&mut self, _: &Event) {}
}
