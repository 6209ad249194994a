//! What is kept of a machine while it runs: its ledger, what it prints, and the threads of its
//! kernel.
//!
//! It is called for each event of the machine, and so compiled for speed, unlike `trapless-run`.

mod console;
mod threads;

pub use console::{
    ConsoleTap, Follower, Lines, Recorder, RecorderState, SharedRecorder, Transcript,
};
