//! An operation in progress: its cause, and the state it accesses.

use trapless_isa::Mode;
use trapless_isa::port::{CsrAccess, MmioAccess, StepKind, VirtualStep};

use super::state::State;
use super::tables::Domain;
use crate::effects::Effects;
use crate::words::Words;

/// What causes operations.
#[derive(Clone, Copy)]
pub(super) struct Cause {
    /// Hart that acts; for a device the one that wrote `DOMAINS` last.
    pub hart: usize,
    pub mode: Mode,
    pub now: u64,
    /// A message window or a wire: no CSR access, and nothing of this hart matters (MSG-6).
    pub window: bool,
    /// A device, not a hart.
    pub device: bool,
}

impl Cause {
    pub fn csr(access: &CsrAccess) -> Self {
        Self {
            hart: access.hart,
            mode: access.mode,
            now: access.now,
            window: false,
            device: false,
        }
    }

    /// A store of a hart to the registers or pages of windows.
    pub fn store(access: &MmioAccess) -> Self {
        Self {
            hart: access.hart,
            mode: access.mode,
            now: access.now,
            window: true,
            device: false,
        }
    }

    /// A message or a wire of a device; the hart `owner` wrote `DOMAINS` last.
    pub fn device(now: u64, owner: usize) -> Self {
        Self {
            hart: owner,
            mode: Mode::M,
            now,
            window: true,
            device: true,
        }
    }
}

/// Operations with one cause. They are executed by [`csr`], [`guest`], [`attach`], [`post`] and
/// [`windows`].
///
/// [`csr`]: super::csr
/// [`guest`]: super::guest
/// [`attach`]: super::attach
/// [`post`]: super::post
/// [`windows`]: super::windows
pub(super) struct Operation<'a> {
    pub state: &'a mut State,
    pub words: &'a Words,
    pub effects: &'a mut Effects,
    pub by: Cause,
}

impl Operation<'_> {
    /// Domain `id` in the tables that `hart` uses.
    pub fn domain(&self, hart: usize, id: u16) -> Option<Domain> {
        self.domain_in(self.state.harts[hart].tables, id)
    }

    /// Domain `id` in the table that `base` (a value of `hvtablebase`) names.
    pub fn domain_in(&self, base: u64, id: u16) -> Option<Domain> {
        Domain::find(self.words, base, id, self.state.windows.is_some())
    }

    /// Records a step together with the memory accesses since the previous one.
    pub fn step(&mut self, domain: u16, kind: StepKind) {
        self.effects.steps.push(VirtualStep {
            time: self.by.now,
            hart: self.by.hart,
            mode: self.by.mode,
            by_device: self.by.device,
            domain,
            kind,
            memory: self.words.take_touched(),
        });
    }

    /// Adds memory accesses after the last of the steps since there were `before` to that step.
    pub fn close(&mut self, before: usize) {
        let touched = self.words.take_touched();
        if let Some(last) = self.effects.steps.kept()[before..].last_mut() {
            last.memory = last.memory.saturating_add(touched);
        }
    }
}
