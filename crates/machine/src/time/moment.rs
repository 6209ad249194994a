//! A moment that a machine goes back to, time and again and soon.
//!
//! [`History`](crate::History) has many and looks at all of RAM for each; this one costs what is
//! written after it.

use crate::error::Error;
use crate::machine::Machine;
use crate::time::checkpoint::MachineState;

/// All of a machine but RAM, at a [`Machine::moment`].
pub struct Moment {
    /// What RAM calls it.
    number: u64,
    state: MachineState,
}

/// How a machine differs from what it was at a [`Moment`]. If two runs from there differ in the
/// same way, they are the same from then on, unless input comes or a debugger
/// [recalls](Machine::recall) a hart.
#[derive(PartialEq, Eq)]
pub struct Change {
    state: Vec<u8>,
    pages: Vec<(u64, Box<[u8]>)>,
}

impl Machine {
    /// Chooses this moment to go back to, instead of the last one. The machine must have no
    /// [obstacle](Self::obstacle).
    pub fn moment(&mut self) -> Moment {
        Moment {
            number: self.ram.begin_undo(),
            state: self.state(),
        }
    }

    /// What has changed since `moment`. `None` if there is no way back to it, see
    /// [`return_to`](Self::return_to).
    #[must_use]
    pub fn change_since(&self, moment: &Moment) -> Option<Change> {
        let pages = self.ram.changed_since(moment.number)?;
        let state = self.snapshot_without_late();
        Some(Change { state, pages })
    }

    /// Goes back to `moment`. `false`: there is no way back, because a device has written to RAM
    /// since, or another moment was chosen; nothing has changed.
    ///
    /// # Errors
    /// If `moment` is one of another machine.
    pub fn return_to(&mut self, moment: &Moment) -> Result<bool, Error> {
        if !self.ram.undo(moment.number) {
            return Ok(false);
        }
        self.reset_but_ram(moment.state.clone())?;
        Ok(true)
    }
}
