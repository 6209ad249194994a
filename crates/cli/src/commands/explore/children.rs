//! Copies of the machine that run in processes of their own.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::{ForkResult, Pid, fork};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::sentence;
use crate::interrupt;

/// Children under way and what became of them.
#[derive(Default)]
pub struct Children {
    running: BTreeMap<i32, String>,
    /// Runs that have ended.
    pub done: u64,
    /// Disturbances whose runs failed.
    pub failed: Vec<String>,
    /// Runs that were stopped before they ended.
    pub dropped: u64,
}

impl Children {
    /// Starts `work` in a copy of this process; what it does is called `what`.
    ///
    /// # Errors
    /// If there is no room for another process.
    pub fn start(&mut self, what: String, work: impl FnOnce() -> Result<()>) -> Result<()> {
        // SAFETY: the child only touches this process's own data and ends by `exit`; the other
        // threads, which wait for signals, hold no lock of it.
        match unsafe { fork() }.context("cannot start a run")? {
            ForkResult::Parent { child } => {
                self.running.insert(child.as_raw(), what);
                Ok(())
            }
            ForkResult::Child => {
                let verdict = work();
                if interrupt::requested() {
                    std::process::exit(interrupt::STATUS.into());
                }
                if let Err(error) = &verdict {
                    note!("{what}: {}", sentence(error));
                }
                std::process::exit(i32::from(verdict.is_err()));
            }
        }
    }

    /// How many are under way.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Waits until fewer than `most` run.
    ///
    /// # Errors
    /// If the system does not let this process wait.
    pub fn wait_below(&mut self, most: usize) -> Result<()> {
        while self.running.len() >= most.max(1) {
            let status = match wait() {
                Err(nix::errno::Errno::EINTR) => continue,
                status => status.context("cannot wait for a run")?,
            };
            let Some(pid) = status.pid() else { continue };
            let Some(what) = self.running.remove(&pid.as_raw()) else {
                continue;
            };
            match status {
                WaitStatus::Exited(_, 0) => self.done += 1,
                WaitStatus::Exited(_, code) if code == i32::from(interrupt::STATUS) => {
                    self.dropped += 1;
                }
                // Whoever ended it from outside did not judge it.
                WaitStatus::Signaled(_, Signal::SIGKILL | Signal::SIGTERM, _) => self.dropped += 1,
                _ => {
                    self.done += 1;
                    self.failed.push(what);
                }
            }
        }
        Ok(())
    }

    /// Ends all runs under way; they count as neither passed nor failed.
    ///
    /// # Errors
    /// As [`wait_below`](Self::wait_below).
    pub fn stop(&mut self) -> Result<()> {
        for pid in self.running.keys() {
            // One that has just ended needs no signal.
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        self.wait_below(1)
    }
}

/// What `work` finds out in a copy of this process.
///
/// # Errors
/// If it finds an error; the copy has told the user.
pub fn ask<T: Serialize + DeserializeOwned>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let (mut ours, mut theirs) = UnixStream::pair().context("cannot talk to a run")?;
    let mut children = Children::default();
    children.start("without a disturbance".into(), move || {
        theirs.write_all(&postcard::to_stdvec(&work()?)?)?;
        Ok(())
    })?;
    let mut answer = Vec::new();
    // Until it has ended: this process has not kept the other side.
    let read = ours.read_to_end(&mut answer);
    children.wait_below(1)?;
    if children.dropped > 0 {
        return Err(interrupt::Interrupted.into());
    }
    read.context("cannot listen to a run")?;
    postcard::from_bytes(&answer).context("a run without a disturbance failed")
}
