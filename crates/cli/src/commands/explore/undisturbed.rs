//! State of the machine soon after a boundary without a disturbance.
//!
//! Most often a changed order of the harts has no lasting effect, and the machine soon reaches the
//! state that it would have had anyway. The rest of such a run need not be executed.

use anyhow::{Result, ensure};

use trapless_run::plan::Ready;

use super::boundary::{Boundary, Since};
use super::stretch::pass_until;

/// When the states are compared, in cycles of virtual time after the boundary: 30 turns.
pub const SOON: u64 = 30_000;

/// State of the machine at that time.
pub struct Undisturbed {
    at: u64,
    /// `None`: the machine stops before, or cannot be restored.
    since: Option<Since>,
}

impl Undisturbed {
    /// Runs the machine from `boundary`, where it is, and restores it.
    ///
    /// # Errors
    /// If the boundary cannot be restored.
    pub fn after(boundary: &Boundary, ready: &mut Ready) -> Result<Self> {
        let at = ready.machine.now() + SOON;
        let since = there(at, boundary, ready);
        ensure!(
            boundary.go_back(ready)?,
            "a run without a disturbance has no way back"
        );
        Ok(Self { at, since })
    }

    /// Runs the machine, which has been disturbed at `boundary`, to the same time. Returns whether
    /// its state is that of the undisturbed run.
    pub fn is_met(&self, boundary: &Boundary, ready: &mut Ready) -> bool {
        self.since.is_some() && there(self.at, boundary, ready) == self.since
    }
}

/// The state at a time.
fn there(at: u64, boundary: &Boundary, ready: &mut Ready) -> Option<Since> {
    pass_until(at, ready).then(|| boundary.since(ready))?
}
