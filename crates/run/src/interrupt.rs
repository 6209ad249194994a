//! Ctrl-C, SIGTERM and SIGHUP end a run in an orderly way; a second signal ends it at once. SIGXFSZ
//! becomes an I/O error.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

/// The received signal; 0: none. Set by the thread that waits for signals.
static SIGNAL: AtomicU8 = AtomicU8::new(0);

/// The run was ended by the user.
#[derive(Clone, Copy, Debug)]
pub enum Interrupted {
    /// There is no result yet.
    WithoutResult,
    /// The requested files have been written.
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

/// Offset between a signal's number and the exit status in shells.
const BY_SIGNAL: u8 = 128;

/// Set while a signal may end the command at once.
static AT_ONCE: AtomicBool = AtomicBool::new(false);

/// Exit status after the signal, as shells expect it: 130 after Ctrl-C.
pub fn status() -> u8 {
    match SIGNAL.load(SeqCst) {
        0 => BY_SIGNAL + SIGINT as u8,
        signal => BY_SIGNAL + signal,
    }
}

/// Catches the signals, from the first call on.
pub fn catch() -> Result<()> {
    static CAUGHT: OnceLock<()> = OnceLock::new();
    if CAUGHT.set(()).is_err() {
        return Ok(());
    }
    let context = "cannot catch Ctrl-C";
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context(context)?;
    let wait = move || {
        for signal in &mut signals {
            let at_once = AT_ONCE.load(SeqCst);
            if at_once {
                note!("trapless: {}", Interrupted::WithoutResult);
            }
            if SIGNAL.swap(signal as u8, SeqCst) != 0 || at_once {
                std::process::exit(status().into());
            }
        }
    };
    std::thread::Builder::new().spawn(wait).context(context)?;
    Ok(())
}

/// Ctrl-C ends the command at once until the result is dropped: while other programs make images,
/// whose unfinished parts the next command removes.
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
/// does; SIGXFSZ would end the command and lose what a guest has not flushed.
///
/// # Errors
/// The system's.
pub fn ignore_file_size_limit() -> Result<()> {
    // Not SIG_IGN: programs that this one starts get the signal as usual, as they do not inherit a
    // handler.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).context("cannot catch SIGXFSZ")?;
    Ok(())
}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    SIGNAL.load(SeqCst) != 0
}
