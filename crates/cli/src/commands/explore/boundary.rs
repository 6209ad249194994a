//! A place in a run to which machine and console go back.

use anyhow::{Context, Result};
use trapless_machine::Moment;

use crate::console::RecorderState;
use crate::plan::Ready;

/// Where machine and console stood: the last such place is the one to go back to.
pub struct Boundary {
    moment: Moment,
    recorder: RecorderState,
}

impl Boundary {
    /// Where the machine stands.
    pub fn here(ready: &mut Ready) -> Self {
        Self {
            moment: ready.machine.moment(),
            recorder: ready.recorder.lock().save(),
        }
    }

    /// Goes back to it. `false`: there is no way back.
    ///
    /// # Errors
    /// If the machine or the recorder is another one.
    pub fn go_back(&self, ready: &mut Ready) -> Result<bool> {
        if !ready.machine.return_to(&self.moment)? {
            return Ok(false);
        }
        let (recorder, ram) = (self.recorder.clone(), ready.machine.ram());
        let restored = ready.recorder.lock().restore(recorder, ram);
        restored.context("a ledger that was saved can be decoded")?;
        Ok(true)
    }
}
