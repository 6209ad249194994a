//! What the machine is soon after a boundary if nobody disturbs it.
//!
//! When harts take their turns in another order, most often nothing comes of it, and soon the
//! machine is what it would have been anyway. The rest of such a run is known.

use anyhow::{Result, ensure};

use trapless_run::plan::Ready;

use super::boundary::{Boundary, Since};
use super::stretch::pass_until;

/// When that is seen, in cycles of virtual time after the boundary: 30 turns.
pub const SOON: u64 = 30_000;

/// What the machine is then.
pub struct Undisturbed {
    at: u64,
    /// `None`: it does not come so far, or there is no way back.
    since: Option<Since>,
}

impl Undisturbed {
    /// Finds out, and goes back to `boundary`, where the machine is.
    ///
    /// # Errors
    /// If there is no way back.
    pub fn after(boundary: &Boundary, ready: &mut Ready) -> Result<Self> {
        let at = ready.machine.now() + SOON;
        let since = there(at, boundary, ready);
        ensure!(
            boundary.go_back(ready)?,
            "a run without a disturbance has no way back"
        );
        Ok(Self { at, since })
    }

    /// Lets the machine, which has been disturbed at `boundary`, run as far. Returns whether it has
    /// become what it would have been.
    pub fn is_met(&self, boundary: &Boundary, ready: &mut Ready) -> bool {
        self.since.is_some() && there(self.at, boundary, ready) == self.since
    }
}

/// What it has become at a time.
fn there(at: u64, boundary: &Boundary, ready: &mut Ready) -> Option<Since> {
    pass_until(at, ready).then(|| boundary.since(ready))?
}
