//! A place in a run to which machine and console go back.

use anyhow::{Result, anyhow};
use trapless_machine::{Change, Moment};
use trapless_run::console::RecorderState;
use trapless_run::plan::Ready;

/// Where machine and console stood: the last such place is the one to go back to.
pub struct Boundary {
    moment: Moment,
    recorder: RecorderState,
}

/// What has become of machine and console since a boundary.
#[derive(PartialEq, Eq)]
pub struct Since {
    machine: Change,
    recorder: Vec<u8>,
}

impl Boundary {
    /// Where the machine stands.
    pub fn here(ready: &mut Ready) -> Self {
        Self {
            moment: ready.machine.moment(),
            recorder: ready.recorder.lock().save(),
        }
    }

    /// What has become of them. `None`: there is no way back.
    pub fn since(&self, ready: &Ready) -> Option<Since> {
        Some(Since {
            machine: ready.machine.change_since(&self.moment)?,
            recorder: postcard::to_stdvec(&ready.recorder.lock().save()).ok()?,
        })
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
        restored.map_err(|what| anyhow!("a ledger that was saved {what}"))?;
        Ok(true)
    }
}
