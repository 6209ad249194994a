//! A point to which a machine returns often and soon.
//!
//! [`History`](crate::History) has many snapshots and reads all of RAM for each; the cost of this
//! one is proportional to the RAM written after it.

use crate::error::Error;
use crate::machine::Machine;
use crate::time::checkpoint::MachineState;

/// State of a machine without RAM, at a [`Machine::moment`].
pub struct Moment {
    /// Its identifier in RAM.
    number: u64,
    state: MachineState,
}

/// Differences of a machine from its state at a [`Moment`]. If two runs from there have the same
/// differences, they are the same from then on, unless input arrives or a debugger
/// [recalls](Machine::recall) a hart.
#[derive(PartialEq, Eq)]
pub struct Change {
    state: Vec<u8>,
    pages: Vec<(u64, Box<[u8]>)>,
}

impl Machine {
    /// Marks the present point for [`return_to`](Self::return_to), instead of the last one. The
    /// machine must have no [obstacle](Self::obstacle).
    pub fn moment(&mut self) -> Moment {
        Moment {
            number: self.ram.begin_undo(),
            state: self.state(),
        }
    }

    /// What has changed since `moment`. `None` if it cannot be restored, see
    /// [`return_to`](Self::return_to).
    #[must_use]
    pub fn change_since(&self, moment: &Moment) -> Option<Change> {
        let pages = self.ram.changed_since(moment.number)?;
        let state = self.snapshot_without_late();
        Some(Change { state, pages })
    }

    /// Restores the state at `moment`. `false`: it cannot be restored, because a device has written
    /// to RAM since, or another moment was marked; nothing has changed.
    ///
    /// # Errors
    /// If `moment` is of another machine.
    pub fn return_to(&mut self, moment: &Moment) -> Result<bool, Error> {
        if !self.ram.undo(moment.number) {
            return Ok(false);
        }
        self.reset_but_ram(moment.state.clone())?;
        Ok(true)
    }
}
