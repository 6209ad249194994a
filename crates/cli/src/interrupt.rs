//! Ctrl-C and SIGTERM end a run in an orderly way; a second one at once.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use anyhow::{Context, Result};

/// Set by the signal handler, which can reach nothing else.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// The run was ended by the user.
#[derive(Clone, Copy, Debug)]
pub enum Interrupted {
    /// There is no result yet.
    WithoutResult,
    /// What was asked for has been written.
    Written,
}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::WithoutResult => "interrupted; nothing was written",
            Self::Written => "interrupted",
        })
    }
}

impl std::error::Error for Interrupted {}

/// Exit status after Ctrl-C, as shells expect it.
pub const STATUS: u8 = 130;

/// Installs the handler.
pub fn catch() -> Result<()> {
    ctrlc::set_handler(|| {
        if REQUESTED.swap(true, SeqCst) {
            std::process::exit(STATUS.into());
        }
    })
    .context("cannot catch Ctrl-C")
}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(SeqCst)
}
