//! Ctrl-C and SIGTERM end the running emulator and then this program.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use anyhow::{Context, Result};

/// Set by the signal handler, which can reach nothing else.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Exit status after Ctrl-C, as shells expect it.
pub const STATUS: u8 = 130;

/// Installs the handler.
pub fn catch() -> Result<()> {
    ctrlc::set_handler(|| REQUESTED.store(true, SeqCst)).context("cannot catch Ctrl-C")
}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(SeqCst)
}
