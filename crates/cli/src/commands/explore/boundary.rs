//! A point of a run at which machine and console can be restored.

use anyhow::{Result, anyhow};
use trapless_machine::{Change, Moment};
use trapless_recorder::RecorderState;
use trapless_run::plan::Ready;

/// State of machine and console at the point.
pub struct Boundary {
    moment: Moment,
    recorder: RecorderState,
}

/// State of machine and console that differs from a boundary.
#[derive(PartialEq, Eq)]
pub struct Since {
    machine: Change,
    recorder: Vec<u8>,
}

impl Boundary {
    /// The point at which the machine is now.
    pub fn here(ready: &mut Ready) -> Self {
        Self {
            moment: ready.machine.moment(),
            recorder: ready.recorder.lock().save(),
        }
    }

    /// What has changed since. `None`: the boundary cannot be restored.
    pub fn since(&self, ready: &Ready) -> Option<Since> {
        Some(Since {
            machine: ready.machine.change_since(&self.moment)?,
            recorder: postcard::to_stdvec(&ready.recorder.lock().save()).ok()?,
        })
    }

    /// Restores it. `false`: it cannot be restored.
    ///
    /// # Errors
    /// If the machine or the recorder is another one.
    pub fn go_back(&self, ready: &mut Ready) -> Result<bool> {
        if !ready.machine.return_to(&self.moment)? {
            return Ok(false);
        }
        let (recorder, ram) = (self.recorder.clone(), ready.machine.ram());
        let restored = ready.recorder.lock().restore(recorder, ram);
        restored.map_err(|what| anyhow!("a ledger that was saved {what}"))?;
        Ok(true)
    }
}
