//! Copies of this process that make the runs, one after the other, and report what became of them.
//!
//! Each goes through the wanted calls by itself, and is told which run is its next one. After a run
//! it goes back to the boundary. One that cannot, or that dies, is replaced by a new copy.

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

/// Milliseconds between two looks at Ctrl-C.
const LOOK: u16 = 100;

/// What a worker says, a line each.
#[derive(Serialize, Deserialize)]
pub enum Said {
    /// It begins the run that it was told to make, which is called so.
    Begins(String),
    /// The run has ended.
    Ended {
        /// Why it did not do what it should.
        failure: Option<String>,
        /// The machine became what it would have been without the disturbance: the end is known.
        no_effect: bool,
        /// This worker makes no further run.
        last: bool,
    },
}

/// The worker's end of the line to the process that distributes the runs.
pub struct Line {
    answers: BufReader<UnixStream>,
    to: UnixStream,
}

impl Line {
    /// The number of the next run; `None` if there is no further one, or nobody is left to ask.
    pub fn next(&mut self) -> Option<u64> {
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        line.trim_end().parse().ok()
    }

    /// Tells what happens.
    ///
    /// # Errors
    /// If nobody is left to hear it.
    pub fn say(&mut self, what: &Said) -> Result<()> {
        Ok(writeln!(self.to, "{}", serde_json::to_string(what)?)?)
    }
}

/// A copy of this process.
struct Worker {
    pid: Pid,
    line: UnixStream,
    /// What it has said of its next line.
    heard: Vec<u8>,
    /// Its run, and what that is called.
    run: Option<(u64, String)>,
}

impl Worker {
    /// Starts `work` in a copy of this process.
    fn start(work: impl FnOnce(Line) -> Result<()>) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair().context("cannot talk to a run")?;
        let answers = BufReader::new(theirs.try_clone().context("cannot talk to a run")?);
        // SAFETY: the child only touches this process's own data and ends by `exit`; the other
        // threads, which wait for signals, hold no lock of it.
        match unsafe { fork() }.context("cannot start a run")? {
            ForkResult::Parent { child } => Ok(Self {
                pid: child,
                line: ours,
                heard: Vec::new(),
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

    /// Tells it the number of its next run. One that has died says so when it is heard.
    fn tell(&mut self, run: u64) {
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

    /// The next thing that it has said, if it is there.
    fn said(&mut self) -> Option<Said> {
        let end = self.heard.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.heard.drain(..=end).collect();
        serde_json::from_slice(&line).ok()
    }
}

/// Waits a while for something that workers say; which of them have said something.
fn listen(workers: &[Worker]) -> Result<Vec<bool>> {
    let lines = workers.iter().map(|worker| worker.line.as_fd());
    let mut lines: Vec<_> = lines.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    match poll(&mut lines, PollTimeout::from(LOOK)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => bail!("cannot listen to a run: {error}"),
    }
    Ok(lines.iter().map(|line| line.any() == Some(true)).collect())
}

/// What became of the runs.
#[derive(Default)]
pub struct Runs {
    /// Runs that have ended.
    pub done: u64,
    /// Those of them that were not made to the end, because the machine became what it would have
    /// been without the disturbance.
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

    /// A worker ended with a run that it had not ended.
    fn died(&mut self, run: (u64, String), status: WaitStatus) {
        match status {
            // Whoever ended it from outside did not judge the run.
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
        mut tell: impl FnMut(&Self),
    ) -> Result<()> {
        let mut left = (0..count).peekable();
        let mut workers: Vec<Worker> = Vec::new();
        loop {
            while workers.len() < jobs && !interrupt::requested() {
                let Some(run) = left.next() else { break };
                let mut worker = Worker::start(&mut work)?;
                worker.tell(run);
                workers.push(worker);
            }
            if workers.is_empty() {
                return Ok(());
            }
            if interrupt::requested() {
                self.dropped += workers.len() as u64;
                return workers.iter().try_for_each(|w| w.stop().map(drop));
            }
            let news = listen(&workers)?;
            let mut alive = Vec::new();
            for (mut worker, news) in workers.into_iter().zip(news) {
                if !news || self.hear(&mut worker, &mut left)? {
                    alive.push(worker);
                }
            }
            workers = alive;
            tell(self);
        }
    }

    /// Takes what `worker` has said, and tells it what to do next. Returns whether it lives.
    fn hear(&mut self, worker: &mut Worker, left: &mut Peekable<Range<u64>>) -> Result<bool> {
        let mut bytes = [0; 4096];
        let read = worker.line.read(&mut bytes).unwrap_or(0);
        worker.heard.extend_from_slice(&bytes[..read]);
        while let Some(said) = worker.said() {
            let Some(run) = worker.run.take() else { break };
            match said {
                Said::Begins(what) => worker.run = Some((run.0, what)),
                Said::Ended {
                    failure,
                    no_effect,
                    last,
                } => {
                    self.without_effect += u64::from(no_effect);
                    self.ended(run, failure.as_deref());
                    if let Some(run) = left.next_if(|_| !last) {
                        worker.tell(run);
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

/// What `work` finds out in a copy of this process.
///
/// # Errors
/// If it finds an error; the copy has told the user.
pub fn ask<T: Serialize + DeserializeOwned>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut worker = Worker::start(|mut line| {
        let answer = postcard::to_stdvec(&work()?)?;
        Ok(line.to.write_all(&answer)?)
    })?;
    while listen(std::slice::from_ref(&worker))? == [false] {
        if interrupt::requested() {
            worker.stop()?;
            return Err(Interrupted::WithoutResult.into());
        }
    }
    let mut answer = Vec::new();
    // Until it has ended: this process has not kept the other side.
    let read = worker.line.read_to_end(&mut answer);
    worker.ended()?;
    read.context("cannot listen to a run")?;
    postcard::from_bytes(&answer).context("a run without a disturbance failed")
}
