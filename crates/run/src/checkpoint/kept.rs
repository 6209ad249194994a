//! The checkpoint that a run keeps in the cache for identical later runs.

use anyhow::Result;
use trapless_machine::Machine;
use trapless_machine::checkpoint::Base;

use super::key::Names;
use super::store::{DONE, SHARED};
use super::{Checkpoint, Run, Store};
use trapless_recorder::SharedRecorder;

/// Place of a run's checkpoint in the cache.
pub struct Place<'s> {
    store: &'s Store,
    names: Names,
}

impl<'s> Place<'s> {
    /// The place in `store` with these names.
    pub fn new(store: &'s Store, names: Names) -> Self {
        Self { store, names }
    }

    /// The base file with the pages that runs with the same images share.
    fn base(&self) -> Option<Base> {
        let name = &self.names.base;
        let file = self.store.find(name, SHARED)?;
        let base = Base::open(name.clone(), Box::new(file));
        if base.is_err() {
            self.store.discard(name, SHARED);
        }
        base.ok()
    }

    /// The checkpoint, if there is one that can be read.
    pub fn find(&self) -> Option<Checkpoint> {
        let file = self.store.find(&self.names.own, DONE)?;
        let found = Checkpoint::of(&self.store.path(&self.names.own, DONE), file);
        let found = found.and_then(|mut found| {
            found.check_program()?;
            if found.header.base.is_some() {
                found.base = self.base();
            }
            Ok(found)
        });
        match found {
            Ok(found) => Some(found),
            Err(error) => {
                self.discard(&error);
                None
            }
        }
    }

    /// Removes a checkpoint that cannot be used: the run boots and makes it again.
    pub fn discard(&self, error: &anyhow::Error) {
        note!("The kept checkpoint cannot be used, so the run boots: {error:#}");
        self.store.discard(&self.names.own, DONE);
        if self.base().is_some_and(|base| base.check().is_err()) {
            self.store.discard(&self.names.base, SHARED);
        }
    }

    /// Keeps the state of a run, if there is room. A failure is reported and does not fail the run.
    pub fn keep(&self, run: &Run<'_>, machine: &Machine, recorder: &SharedRecorder) {
        if let Err(error) = self.write(run, machine, recorder) {
            note!("No checkpoint is kept of this run: {error:#}");
        }
    }

    fn write(&self, run: &Run<'_>, machine: &Machine, recorder: &SharedRecorder) -> Result<()> {
        let write = |name: &str, end, base: Option<&Base>| -> Result<()> {
            let Some(mut entry) = self.store.begin(name, end)? else {
                return Ok(());
            };
            let written = run.write(machine, recorder, base, &mut entry);
            if !entry.full() {
                written?;
                entry.commit()?;
            }
            Ok(())
        };
        let mut base = self.base();
        if base.is_none() {
            write(&self.names.base, SHARED, None)?;
            base = self.base();
        }
        write(&self.names.own, DONE, base.as_ref())
    }
}
