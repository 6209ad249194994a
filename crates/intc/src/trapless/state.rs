//! Contents of a snapshot. Pending interrupts of vharts are in RAM and not repeated.

use serde::{Deserialize, Serialize};

use super::hart::Hart;

/// All state of the controller without its ACLINT and PLIC.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct State {
    /// Harts have the H extension.
    pub h: bool,
    pub harts: Vec<Hart>,
    /// Hart whose turn it is with `htlcfg.ANY`.
    pub next: usize,
}

impl State {
    pub fn new(harts: usize, h: bool) -> Self {
        Self {
            h,
            harts: vec![Hart::default(); harts],
            next: 0,
        }
    }

    /// Reads a saved state that is to replace `self`.
    pub fn restored(&self, saved: &serde_json::Value) -> Result<Self, String> {
        let state = Self::deserialize(saved)
            .map_err(|e| format!("the saved Xtrapless controller cannot be read: {e}"))?;
        if state.harts.len() != self.harts.len() || state.h != self.h {
            return Err("the saved Xtrapless controller is for other harts".into());
        }
        if state.next >= state.harts.len() || !state.harts.iter().all(Hart::is_sound) {
            return Err("the saved Xtrapless controller has impossible register values".into());
        }
        Ok(state)
    }
}
