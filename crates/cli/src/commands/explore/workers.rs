//! Worker processes, forked from this one, that make runs one after another and report the results.
//!
//! Each walks through the wanted calls by itself and receives the number of its next run. After a
//! run it restores the boundary. A worker that cannot, or that dies, is replaced.

use std::io::{BufRead, BufReader, Read, Write};
use std::iter::Peekable;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use trapless_run::interrupt::{self, Interrupted};
use trapless_run::{note, sentence};

/// Milliseconds between two checks of Ctrl-C.
const LOOK: u16 = 100;

/// Messages of a worker, one per line.
#[derive(Serialize, Deserialize)]
pub enum Message {
    /// It begins the run assigned to it; with the run's name.
    Begins(String),
    /// The run has ended.
    Ended {
        /// The failure, if it failed.
        failure: Option<String>,
        /// The machine reached the state of the undisturbed run: the end is known.
        no_effect: bool,
        /// This worker makes no further run.
        last: bool,
    },
}

/// The worker's end of the socket to the process that distributes the runs.
pub struct Line {
    answers: BufReader<UnixStream>,
    to: UnixStream,
}

impl Line {
    /// The number of the next run; `None` if there is no further one, or the parent process has
    /// gone.
    pub fn next(&mut self) -> Option<u64> {
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        line.trim_end().parse().ok()
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the parent process has gone.
    pub fn send(&mut self, what: &Message) -> Result<()> {
        Ok(writeln!(self.to, "{}", serde_json::to_string(what)?)?)
    }
}

/// A copy of this process.
struct Worker {
    pid: Pid,
    line: UnixStream,
    /// Received part of its next message.
    received: Vec<u8>,
    /// Its run, and the run's name.
    run: Option<(u64, String)>,
}

impl Worker {
    /// Starts `work` in a copy of this process.
    fn start(work: impl FnOnce(Line) -> Result<()>) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair().context("cannot create a socket for a worker")?;
        let answers = BufReader::new(
            theirs
                .try_clone()
                .context("cannot create a socket for a worker")?,
        );
        // SAFETY: the child only touches this process's own data and ends by `exit`; the other
        // threads, which wait for signals, hold no lock of it.
        match unsafe { fork() }.context("cannot start a run")? {
            ForkResult::Parent { child } => Ok(Self {
                pid: child,
                line: ours,
                received: Vec::new(),
                run: None,
            }),
            ForkResult::Child => {
                drop(ours);
                // SAFETY: no handler is installed. Ctrl-C is for the process that distributes the
                // runs, with which this one shares the handler's pipe.
                let _ = unsafe { signal(Signal::SIGINT, SigHandler::SigIgn) };
                // SAFETY: as above.
                let _ = unsafe { signal(Signal::SIGTERM, SigHandler::SigDfl) };
                let line = Line {
                    answers,
                    to: theirs,
                };
                let done = work(line);
                if let Err(error) = &done {
                    note!("trapless: {}", sentence(error));
                }
                std::process::exit(i32::from(done.is_err()));
            }
        }
    }

    /// Sends it the number of its next run. If it has died, the next read shows that.
    fn assign(&mut self, run: u64) {
        self.run = Some((run, format!("run {run}")));
        let _ = writeln!(self.line, "{run}");
    }

    /// Waits for its end.
    fn ended(&self) -> Result<WaitStatus> {
        loop {
            match waitpid(self.pid, None) {
                Err(Errno::EINTR) => {}
                status => return status.context("cannot wait for a run"),
            }
        }
    }

    /// Ends it.
    fn stop(&self) -> Result<WaitStatus> {
        // One that has just ended needs no signal.
        let _ = kill(self.pid, Signal::SIGKILL);
        self.ended()
    }

    /// Its next message, if one has arrived.
    fn next_message(&mut self) -> Option<Message> {
        let end = self.received.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.received.drain(..=end).collect();
        serde_json::from_slice(&line).ok()
    }
}

/// Waits a while for messages of workers; returns which of them have sent something.
fn wait_for_messages(workers: &[Worker]) -> Result<Vec<bool>> {
    let lines = workers.iter().map(|worker| worker.line.as_fd());
    let mut lines: Vec<_> = lines.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    match poll(&mut lines, PollTimeout::from(LOOK)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => bail!("cannot read from a worker: {error}"),
    }
    Ok(lines.iter().map(|line| line.any() == Some(true)).collect())
}

/// Results of the runs.
#[derive(Default)]
pub struct Runs {
    /// Runs that have ended.
    pub done: u64,
    /// Those of them that were not made to the end, because the machine reached the state of the
    /// undisturbed run.
    pub without_effect: u64,
    /// Those of them that failed, by number.
    failed: Vec<(u64, String)>,
    /// Runs that were stopped before they ended.
    pub dropped: u64,
}

impl Runs {
    /// Disturbances whose runs failed, in the order of their boundaries.
    pub fn failed(&self) -> Vec<&str> {
        let mut failed: Vec<_> = self.failed.iter().collect();
        failed.sort();
        failed.into_iter().map(|(_, what)| what.as_str()).collect()
    }

    fn ended(&mut self, (run, what): (u64, String), failure: Option<&str>) {
        self.done += 1;
        if let Some(failure) = failure {
            note!("{what}: {failure}");
            self.failed.push((run, what));
        }
    }

    /// A worker died during a run.
    fn died(&mut self, run: (u64, String), status: WaitStatus) {
        match status {
            // A worker that was killed from outside says nothing about the run.
            WaitStatus::Signaled(_, Signal::SIGKILL | Signal::SIGTERM, _) => self.dropped += 1,
            _ => self.ended(run, Some("the process that made this run has died")),
        }
    }

    /// Makes `count` runs, numbered from 0, in `jobs` copies of this process at a time, each of
    /// which does `work`; calls `tell` now and then. Ctrl-C drops those under way.
    ///
    /// # Errors
    /// If the system gives no more processes.
    pub fn make(
        &mut self,
        count: u64,
        jobs: usize,
        mut work: impl FnMut(Line) -> Result<()>,
        mut progress: impl FnMut(&Self),
    ) -> Result<()> {
        let mut left = (0..count).peekable();
        let mut workers: Vec<Worker> = Vec::new();
        loop {
            while workers.len() < jobs && !interrupt::requested() {
                let Some(run) = left.next() else { break };
                let mut worker = Worker::start(&mut work)?;
                worker.assign(run);
                workers.push(worker);
            }
            if workers.is_empty() {
                return Ok(());
            }
            if interrupt::requested() {
                self.dropped += workers.len() as u64;
                return workers.iter().try_for_each(|w| w.stop().map(drop));
            }
            let news = wait_for_messages(&workers)?;
            let mut alive = Vec::new();
            for (mut worker, news) in workers.into_iter().zip(news) {
                if !news || self.handle(&mut worker, &mut left)? {
                    alive.push(worker);
                }
            }
            workers = alive;
            progress(self);
        }
    }

    /// Handles the messages of `worker`, and sends it its next run. Returns whether it is alive.
    fn handle(&mut self, worker: &mut Worker, left: &mut Peekable<Range<u64>>) -> Result<bool> {
        let mut bytes = [0; 4096];
        let read = worker.line.read(&mut bytes).unwrap_or(0);
        worker.received.extend_from_slice(&bytes[..read]);
        while let Some(message) = worker.next_message() {
            let Some(run) = worker.run.take() else { break };
            match message {
                Message::Begins(what) => worker.run = Some((run.0, what)),
                Message::Ended {
                    failure,
                    no_effect,
                    last,
                } => {
                    self.without_effect += u64::from(no_effect);
                    self.ended(run, failure.as_deref());
                    if let Some(run) = left.next_if(|_| !last) {
                        worker.assign(run);
                    }
                }
            }
        }
        if read > 0 && worker.run.is_some() {
            return Ok(true);
        }
        let status = if read > 0 {
            worker.stop()
        } else {
            worker.ended()
        }?;
        if let Some(run) = worker.run.take() {
            self.died(run, status);
        }
        Ok(false)
    }
}

/// The result of `work`, executed in a copy of this process.
///
/// # Errors
/// If `work` fails; the copy has printed why.
pub fn ask<T: Serialize + DeserializeOwned>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut worker = Worker::start(|mut line| {
        let answer = postcard::to_stdvec(&work()?)?;
        Ok(line.to.write_all(&answer)?)
    })?;
    while wait_for_messages(std::slice::from_ref(&worker))? == [false] {
        if interrupt::requested() {
            worker.stop()?;
            return Err(Interrupted::WithoutResult.into());
        }
    }
    let mut answer = Vec::new();
    // Reads until the copy has ended: this process has closed the other side.
    let read = worker.line.read_to_end(&mut answer);
    worker.ended()?;
    read.context("cannot read from a worker")?;
    postcard::from_bytes(&answer).context("a run without a disturbance failed")
}
