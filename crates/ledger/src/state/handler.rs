//! Handlers in user mode, which act for the host.

use serde::{Deserialize, Serialize};

use crate::events::event::Trap;

/// A handler that has not returned yet.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Handler {
    /// Its vCPU.
    pub vcpu: usize,
    /// Index of the reason that it handles.
    pub reason: usize,
    /// How it began.
    pub trap: Trap,
}
