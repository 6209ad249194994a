//! One run of one emulator: arrival of its marker lines, its memory, and its end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::console::{Line, Lines, Moment, Watch, read};
use crate::emulator::{Emulator, Images};
use crate::interrupt;
use crate::native::{self, Native};
use crate::rows::{Mark, Row, Scenario, Unit};

/// Interval at which memory, the time limit and Ctrl-C are checked.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long an idle machine may settle before its memory is measured.
const SETTLE: Duration = Duration::from_secs(3);
/// Maximum number of bytes of a console that are kept.
const CONSOLE: usize = 1 << 20;

/// Observations of a run.
#[derive(Default)]
pub struct Session {
    /// When `begin` lines ended and `end` lines began: the time to print a marker on a slow console
    /// is not measured.
    begins: BTreeMap<String, Moment>,
    ends: BTreeMap<String, (Moment, i32)>,
    exit: Option<Moment>,
    resident: Option<f64>,
    /// Peak resident memory, in MiB.
    pub peak: Option<f64>,
    /// Notes of `instrumented`: `KEY=NUMBER` on standard error.
    pub notes: BTreeMap<String, f64>,
    /// The failure, if it failed.
    pub problem: Option<String>,
    console: Vec<u8>,
}

/// Ends the child however the session ends.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The words of the command line, and for the programs those that are wanted.
fn append(scenario: &Scenario, rows: &[&Row]) -> String {
    if scenario.programs.is_some() && rows.len() < scenario.rows.len() {
        return format!("{} set.only={}", scenario.append, scenario.only(rows));
    }
    scenario.append.to_owned()
}

/// What runs the scenarios.
pub enum Subject<'a> {
    /// A machine.
    Emulator(Emulator),
    /// This machine: programs only.
    Native(&'a Native),
}

impl Subject<'_> {
    /// Name in results.
    pub fn name(&self) -> &str {
        match self {
            Self::Emulator(emulator) => &emulator.name,
            Self::Native(_) => native::NAME,
        }
    }

    fn command(&self, scenario: &Scenario, rows: &[&Row], images: &Images) -> Result<Command> {
        match self {
            Self::Emulator(emulator) => emulator.command(scenario, &append(scenario, rows), images),
            Self::Native(native) => native.command(scenario, rows),
        }
    }
}

/// Runs `scenario` on `subject`. Its failure is the session's `problem`.
///
/// # Errors
/// If the subject cannot be started, or the user interrupts.
pub fn run(
    subject: &Subject<'_>,
    scenario: &Scenario,
    rows: &[&Row],
    images: &Images,
) -> Result<Session> {
    let mut command = subject.command(scenario, rows, images)?;
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = Guard(
        command
            .spawn()
            .with_context(|| format!("cannot start {}", subject.name()))?,
    );
    // Held open: the end of its input would wake an idle machine.
    let _input: Option<ChildStdin> = child.0.stdin.take();
    let watch = Watch {
        process: child.0.id(),
        start,
    };
    let output = read(child.0.stdout.take(), watch);
    let errors = read(child.0.stderr.take(), watch);
    let mut session = Session::default();
    let ended = session.listen(&output, watch, scenario, rows)?;
    if ended {
        let status = child.0.wait().context("cannot wait for what was started")?;
        if !status.success() {
            session.problem = Some(format!("{} ended with {status}", subject.name()));
        }
    }
    drop(child);
    // Ctrl-C on a terminal reaches the emulator, too, and possibly first.
    if interrupt::requested() {
        bail!("interrupted");
    }
    let words: Vec<u8> = errors.iter().flat_map(|(_, bytes)| bytes).collect();
    session.note(&String::from_utf8_lossy(&words));
    if session.problem.is_none() {
        session.problem = rows.iter().find_map(|row| session.missing(row));
    }
    Ok(session)
}

impl Session {
    /// Follows the console until it ends (`true`), the memory of an idle machine has been taken, or
    /// the scenario's time is over.
    fn listen(
        &mut self,
        output: &Receiver<(Moment, Vec<u8>)>,
        watch: Watch,
        scenario: &Scenario,
        rows: &[&Row],
    ) -> Result<bool> {
        let idle = rows.iter().find(|r| r.unit == Unit::Resident).map(|r| r.to);
        let mut lines = Lines::default();
        let mut settled: Option<Instant> = None;
        let mut sampled = watch.start;
        loop {
            if interrupt::requested() {
                bail!("interrupted");
            }
            let open = match output.recv_timeout(PATIENCE) {
                Ok((at, bytes)) => {
                    let room = CONSOLE.saturating_sub(self.console.len());
                    self.console
                        .extend_from_slice(&bytes[..room.min(bytes.len())]);
                    lines.feed(at, &bytes, &mut |line| self.line(line));
                    true
                }
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => false,
            };
            if sampled.elapsed() >= PATIENCE {
                sampled = Instant::now();
                if let Some((resident, peak)) = watch.memory() {
                    self.peak = Some(peak);
                    if settled.is_some_and(|at| at.elapsed() >= SETTLE) {
                        self.resident = Some(resident);
                        return Ok(false);
                    }
                }
            }
            if idle.is_some_and(|mark| settled.is_none() && self.time(mark).is_some()) {
                settled = Some(Instant::now());
            }
            if !open {
                // The end of its output is about the end of the process; its times are gone once it
                // has been waited for.
                self.exit = Some(watch.now());
                return Ok(true);
            }
            if watch.start.elapsed().as_secs() >= scenario.limit {
                self.problem = Some(format!("not done after {} s", scenario.limit));
                return Ok(false);
            }
        }
    }

    /// Handles output on standard error, and the notes in it.
    fn note(&mut self, words: &str) {
        for line in words.lines() {
            let note = line.strip_prefix("@bench ").and_then(|l| l.split_once('='));
            let Some((key, value)) = note else {
                continue;
            };
            if let Ok(value) = value.parse() {
                self.notes.insert(key.to_owned(), value);
            }
        }
        self.console.extend_from_slice(words.as_bytes());
    }

    fn line(&mut self, line: &Line<'_>) {
        let Some(at) = line.text.find("@trapless ") else {
            return;
        };
        let words: Vec<&str> = line.text[at..].split_whitespace().skip(1).collect();
        match words.as_slice() {
            // The first counts.
            ["begin", side, name] => {
                self.begins
                    .entry(format!("{side} {name}"))
                    .or_insert(line.end);
            }
            ["end", side, name, status] => {
                let status = status.strip_prefix("status=").and_then(|s| s.parse().ok());
                self.ends
                    .entry(format!("{side} {name}"))
                    .or_insert((line.begin, status.unwrap_or(-1)));
            }
            _ => {}
        }
    }

    fn time(&self, mark: Mark) -> Option<Moment> {
        match mark {
            Mark::Start => Some(Moment::default()),
            Mark::Begin(name) => self.begins.get(name).copied(),
            Mark::End(name) => self
                .ends
                .get(name)
                .filter(|(_, status)| *status == 0)
                .map(|(at, _)| *at),
            Mark::Exit => self.exit,
        }
    }

    fn missing(&self, row: &Row) -> Option<String> {
        let lack = |what: String| Some(format!("{}: {what}", row.name));
        for mark in [row.from, row.to] {
            if self.time(mark).is_some() {
                continue;
            }
            return match mark {
                Mark::End(name) => match self.ends.get(name) {
                    Some((_, status)) => lack(format!("status {status}")),
                    None => lack(format!("`end {name}` did not appear")),
                },
                Mark::Begin(name) => lack(format!("`begin {name}` did not appear")),
                Mark::Start | Mark::Exit => lack("it did not end by itself".into()),
            };
        }
        // A host powers off even if its guest's VMM has failed.
        let whole = matches!(row.to, Mark::Exit);
        self.ends
            .iter()
            .filter(|_| whole)
            .find(|(_, (_, status))| *status != 0)
            .and_then(|(name, (_, status))| lack(format!("`{name}` ended with status {status}")))
    }

    /// The figure of a row in wall time, if it was measured.
    pub fn figure(&self, row: &Row) -> Option<f64> {
        if self.missing(row).is_some() {
            return None;
        }
        let seconds = self.took(row)?.wall;
        match row.unit {
            Unit::Seconds => Some(seconds),
            Unit::MicrosecondsPerRound(rounds) => Some(seconds * 1e6 / rounds as f64),
            Unit::Rate(instructions) => Some(instructions as f64 / seconds / 1e9),
            Unit::Resident => self.resident,
        }
    }

    /// Seconds that a row took, if it was measured.
    pub fn took(&self, row: &Row) -> Option<Moment> {
        let (from, to) = (self.time(row.from)?, self.time(row.to)?);
        Some(Moment {
            wall: to.wall - from.wall,
            cpu: to.cpu - from.cpu,
        })
    }

    /// Value in a row of the counter `what` of [`COUNTS`](crate::counts::COUNTS), if the emulator
    /// reports it.
    pub fn count(&self, row: &Row, what: &str) -> Option<f64> {
        let note = |moment: &str| self.notes.get(&format!("{moment}: {what}")).copied();
        let at = |mark| match mark {
            Mark::Start => Some(0.0),
            Mark::Begin(name) => note(&format!("begin {name}")),
            Mark::End(name) => note(&format!("end {name}")),
            Mark::Exit => note("exit"),
        };
        Some(at(row.to)? - at(row.from)?)
    }

    /// Writes the console and standard error to a file.
    pub fn keep_console(&self, folder: &Path, scenario: &str, emulator: &str) -> Result<PathBuf> {
        let path = folder.join(format!("{scenario}-{emulator}.log"));
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, &self.console))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}
