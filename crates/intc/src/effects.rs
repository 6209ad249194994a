//! Effects of a call of an interrupt architecture besides its result.

use trapless_isa::port::VirtualStep;

/// Effects of calls of an [`InterruptArchitecture`](crate::InterruptArchitecture) that the machine
/// must handle.
///
/// The machine passes the same value to call after call and drains it, so that a call allocates
/// nothing. Sets of harts have bit `n` for hart `n`.
#[derive(Debug, Default)]
pub struct Effects {
    /// Harts whose [`lines`](crate::InterruptArchitecture::lines) may have changed other than by
    /// time alone: the machine reads their lines again.
    pub changed: u64,
    /// Harts that run another vCPU than before: delayed VS-level inputs were meant for the previous
    /// one, and the machine drops them.
    pub switched: u64,
    /// Cycles of the hart that the access took beyond its price (cost model, `device`). They delay
    /// the hart that made it. Only accesses to registers, CSRs and doorbell pages can be delayed:
    /// nobody waits for the other calls.
    pub delay: u32,
    /// Steps, for the ledger.
    pub steps: Steps,
}

impl Effects {
    /// The lines of `hart` may have changed.
    #[inline]
    pub fn change(&mut self, hart: usize) {
        self.changed |= 1 << hart;
    }
}

/// Steps of virtual interrupts in the order in which they happened. Nothing is recorded unless it
/// is enabled.
#[derive(Debug, Default)]
pub struct Steps {
    recording: bool,
    kept: Vec<VirtualStep>,
}

impl Steps {
    /// Enables recording.
    pub fn record(&mut self) {
        self.recording = true;
    }

    /// Records a step.
    pub fn push(&mut self, step: VirtualStep) {
        if self.recording {
            self.kept.push(step);
        }
    }

    /// The steps since the last [`drain`](Self::drain).
    #[inline]
    #[must_use]
    pub fn kept(&mut self) -> &mut [VirtualStep] {
        &mut self.kept
    }

    /// Whether there is nothing to [`drain`](Self::drain).
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Removes and returns all steps.
    pub fn drain(&mut self) -> impl Iterator<Item = VirtualStep> {
        self.kept.drain(..)
    }
}

/// The set of the harts 0..`harts`, at most 64.
#[must_use]
pub fn all_harts(harts: usize) -> u64 {
    if harts >= 64 {
        u64::MAX
    } else {
        (1 << harts) - 1
    }
}
