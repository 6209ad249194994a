//! An access while it is carried out: who causes it, and what it works on.

use trapless_isa::Mode;
use trapless_isa::port::{ContextAccess, StepKind, VirtualStep};

use super::hart::Hart;
use crate::effects::Effects;
use crate::words::Words;

/// Who causes an access.
#[derive(Clone, Copy)]
pub(super) struct Cause {
    pub hart: usize,
    pub mode: Mode,
    /// The hart's local virtual time in cycles.
    pub now: u64,
}

impl Cause {
    /// Who makes an exchange of registers.
    pub fn of(access: &ContextAccess) -> Self {
        Self {
            hart: access.hart,
            mode: access.mode,
            now: access.now,
        }
    }
}

/// An access of the hart `by.hart`. What it does is in the files of its subject: [`csr`], [`post`],
/// [`doorbell`].
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
    /// Records a step together with the memory accesses since the one before.
    pub fn step(&mut self, kind: StepKind) {
        self.effects.steps.push(VirtualStep {
            time: self.by.now,
            hart: self.by.hart,
            mode: self.by.mode,
            domain: 0,
            kind,
            memory: self.words.take_touched(),
        });
    }
}
