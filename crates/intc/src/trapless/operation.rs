//! A CSR access in progress: its cause, and the state it accesses.

use trapless_isa::port::{CsrAccess, StepKind, VirtualStep};

use super::state::State;
use super::tables::Domain;
use crate::effects::Effects;
use crate::words::Words;

/// A CSR access of the hart `by.hart`. It is executed by [`csr`], [`guest`], [`attach`] and
/// [`post`].
///
/// [`csr`]: super::csr
/// [`guest`]: super::guest
/// [`attach`]: super::attach
/// [`post`]: super::post
pub(super) struct Operation<'a> {
    pub state: &'a mut State,
    pub words: &'a Words,
    pub effects: &'a mut Effects,
    pub by: &'a CsrAccess,
}

impl Operation<'_> {
    /// Domain `id` in the tables that `hart` uses.
    pub fn domain(&self, hart: usize, id: u16) -> Option<Domain> {
        Domain::find(self.words, self.state.harts[hart].tables, id)
    }

    /// Records a step together with the memory accesses since the previous one.
    pub fn step(&mut self, domain: u16, kind: StepKind) {
        self.effects.steps.push(VirtualStep {
            time: self.by.now,
            hart: self.by.hart,
            mode: self.by.mode,
            domain,
            kind,
            memory: self.words.take_touched(),
        });
    }
}
