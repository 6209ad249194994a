//! An access in progress: its cause, and the state it accesses.

use trapless_isa::Mode;
use trapless_isa::port::{ContextAccess, StepKind, VirtualStep};

use super::hart::Hart;
use crate::effects::Effects;
use crate::words::Words;

/// Cause of an access.
#[derive(Clone, Copy)]
pub(super) struct Cause {
    pub hart: usize,
    pub mode: Mode,
    /// The hart's local virtual time in cycles.
    pub now: u64,
}

impl Cause {
    /// The cause of an exchange of registers.
    pub fn of(access: &ContextAccess) -> Self {
        Self {
            hart: access.hart,
            mode: access.mode,
            now: access.now,
        }
    }
}

/// An access of the hart `by.hart`. It is executed by [`csr`], [`post`] and [`doorbell`].
///
/// [`csr`]: super::csr
/// [`post`]: super::post
/// [`doorbell`]: super::doorbell
pub(super) struct Operation<'a> {
    pub harts: &'a mut [Hart],
    pub words: &'a Words,
    pub effects: &'a mut Effects,
    pub by: Cause,
    /// The hart has Xhcs.
    pub contexts: bool,
}

impl Operation<'_> {
    /// Records a step together with the memory accesses since the previous one.
    pub fn step(&mut self, kind: StepKind) {
        self.effects.steps.push(VirtualStep {
            time: self.by.now,
            hart: self.by.hart,
            mode: self.by.mode,
            by_device: false,
            domain: 0,
            kind,
            memory: self.words.take_touched(),
        });
    }
}
