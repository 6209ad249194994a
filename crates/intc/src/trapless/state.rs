//! Contents of a snapshot. Pending interrupts of vharts are in RAM and not repeated.

use serde::{Deserialize, Serialize};

use super::hart::Hart;
use super::windows::Windows;

/// All state of the controller without its ACLINT and PLIC.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct State {
    /// Harts have the H extension.
    pub h: bool,
    pub harts: Vec<Hart>,
    /// Hart whose turn it is with `htlcfg.ANY`.
    pub next: usize,
    /// Message windows and wired windows, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Windows>,
}

impl State {
    pub fn new(harts: usize, h: bool) -> Self {
        Self {
            h,
            harts: vec![Hart::default(); harts],
            next: 0,
            windows: None,
        }
    }

    /// Reads a saved state that is to replace `self`.
    pub fn restored(&self, saved: &serde_json::Value) -> Result<Self, String> {
        let state = Self::deserialize(saved)
            .map_err(|e| format!("the saved Xtrapless controller cannot be read: {e}"))?;
        if state.harts.len() != self.harts.len() || state.h != self.h {
            return Err("the saved Xtrapless controller is for other harts".into());
        }
        let like = |windows: &Option<Windows>| windows.as_ref().map(Windows::size);
        if like(&state.windows) != like(&self.windows) {
            return Err("the saved Xtrapless controller has other message windows".into());
        }
        let sound = |windows: &Windows| windows.is_sound(state.harts.len());
        if !state.windows.as_ref().is_none_or(sound) {
            return Err("the saved message windows have impossible register values".into());
        }
        if state.next >= state.harts.len() || !state.harts.iter().all(Hart::is_sound) {
            return Err("the saved Xtrapless controller has impossible register values".into());
        }
        Ok(state)
    }
}
