//! The checkpoint that a run keeps for the next one that is the same.

use std::io::Write;

use anyhow::Result;
use trapless_machine::Machine;

use super::{Checkpoint, Run, Store};
use crate::console::SharedRecorder;

/// Where the checkpoint of a run is kept.
pub struct Place<'s> {
    store: &'s Store,
    key: String,
}

impl<'s> Place<'s> {
    /// In `store`, under this name.
    pub fn new(store: &'s Store, key: String) -> Self {
        Self { store, key }
    }

    /// The checkpoint, if one is kept that can be read.
    pub fn find(&self) -> Option<Checkpoint> {
        let file = self.store.find(&self.key)?;
        let found = Checkpoint::of(&self.store.path(&self.key), file);
        let usable = found.and_then(|found| found.check_program().map(|()| found));
        match usable {
            Ok(found) => Some(found),
            Err(error) => {
                self.discard(&error);
                None
            }
        }
    }

    /// Removes it, as it cannot be used: the run boots and makes it again.
    pub fn discard(&self, error: &anyhow::Error) {
        note!("The kept checkpoint cannot be used, so the run boots: {error:#}");
        self.store.discard(&self.key);
    }

    /// Keeps the state of a run, if there is room. It is no fault of the run if that fails.
    pub fn keep(&self, run: &Run<'_>, machine: &Machine, recorder: &SharedRecorder) {
        if let Err(error) = self.write(run, machine, recorder) {
            note!("No checkpoint is kept of this run: {error:#}");
        }
    }

    fn write(&self, run: &Run<'_>, machine: &Machine, recorder: &SharedRecorder) -> Result<()> {
        let Some(mut entry) = self.store.begin(&self.key)? else {
            return Ok(());
        };
        let written = run.write(machine, recorder, &mut entry);
        if entry.full() {
            return Ok(());
        }
        written?;
        entry.flush()?;
        entry.commit()?;
        Ok(())
    }
}
