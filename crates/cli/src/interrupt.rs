//! Ctrl-C and SIGTERM end a run in an orderly way; a second one at once. A file that becomes too
//! large is an I/O error.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use anyhow::{Context, Result};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

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

/// Set while there is nothing to end in an orderly way.
static AT_ONCE: AtomicBool = AtomicBool::new(false);

/// Installs the handler.
pub fn catch() -> Result<()> {
    ctrlc::set_handler(|| {
        let at_once = AT_ONCE.load(SeqCst);
        if at_once {
            note!("trapless: {}", Interrupted::WithoutResult);
        }
        if REQUESTED.swap(true, SeqCst) || at_once {
            std::process::exit(STATUS.into());
        }
    })
    .context("cannot catch Ctrl-C")
}

/// Ctrl-C ends the command at once until the result is dropped: while images are made, which other
/// programs do, and whose parts the next command removes.
pub fn at_once() -> AtOnce {
    AT_ONCE.store(true, SeqCst);
    AtOnce(())
}

/// See [`at_once`].
pub struct AtOnce(());

impl Drop for AtOnce {
    fn drop(&mut self) {
        AT_ONCE.store(false, SeqCst);
    }
}

/// Lets a write beyond the limit on the size of files (`ulimit -f`) fail, as one to a full disk
/// does; SIGXFSZ would end the command with all that a guest has not flushed.
///
/// # Errors
/// The system's.
pub fn ignore_file_size_limit() -> Result<()> {
    // Programs that this one starts get the signal as usual: they do not inherit a handler.
    let nothing = SigAction::new(
        SigHandler::Handler(no_operation),
        SaFlags::SA_RESTART,
        SigSet::empty(),
    );
    // SAFETY: the handler does nothing, so whatever it interrupts is as it was.
    unsafe { sigaction(Signal::SIGXFSZ, &nothing) }.context("cannot catch SIGXFSZ")?;
    Ok(())
}

extern "C" fn no_operation(_: i32) {}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(SeqCst)
}
