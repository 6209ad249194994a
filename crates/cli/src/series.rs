//! Progress and results of a series of runs: a progress line on a terminal, a line for each run
//! elsewhere.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use anyhow::{Result, anyhow};
use trapless_run::series::{Keep, Results, Series, Watcher};
use trapless_run::{Failed, Plan, RunId, interrupt, note, printable, sentence};

use crate::words;

/// Makes all runs of `series` and shows the progress.
pub fn run(plan: &Plan, series: &Series, keep: Keep<'_>) -> Results {
    let progress = Progress::new(&plan.experiment.name, series.total(), series.jobs());
    let results = series.run(&progress, keep);
    progress.clear();
    results
}

/// Exit status after the user interrupted: says that `place` has the ledgers of runs that had
/// ended.
pub fn interrupted(results: &Results, place: &Path) -> ExitCode {
    let (place, done, all) = (place.display(), results.ledgers.len(), results.total);
    note!(
        "trapless: interrupted; {place} has the ledgers of the {done} of {all} runs that had ended"
    );
    ExitCode::from(interrupt::status())
}

/// Exit status after everything was shown.
///
/// # Errors
/// Which runs failed, why, and how to repeat each alone.
pub fn verdict(plan: &Plan, mut results: Results) -> Result<ExitCode> {
    if results.total == 1 && !results.failures.is_empty() {
        return Err(results.failures.remove(0).1);
    }
    if results.failures.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let text = failures(plan, &results);
    let workload = |(_, error): &(_, anyhow::Error)| error.is::<Failed>();
    if results.failures.iter().all(workload) {
        return Err(Failed(text).into());
    }
    Err(anyhow!(text))
}

fn failures(plan: &Plan, results: &Results) -> String {
    let failures = &results.failures;
    let mut text = format!("{} of {} runs failed:", failures.len(), results.total);
    for (run, error) in failures {
        let (error, repeat) = (sentence(error), words::command(&plan.spec.for_run(run)));
        text.push_str(&format!(
            "\n  {run}: {error}\n    alone: {repeat} --console"
        ));
    }
    text
}

/// Progress display.
struct Progress {
    bar: Option<ProgressBar>,
    workload: String,
    state: Mutex<State>,
}

/// State of the runs.
struct State {
    total: usize,
    jobs: usize,
    done: usize,
    /// Total time of runs that have ended.
    spent: Duration,
    running: Vec<(RunId, Instant)>,
}

impl Progress {
    /// Of `total` runs, `jobs` at a time.
    fn new(workload: &str, total: usize, jobs: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            ProgressBar::new_spinner()
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        match &bar {
            Some(bar) => bar.enable_steady_tick(Duration::from_millis(120)),
            None => note!("Running {workload} {total} times, {jobs} at a time"),
        }
        let state = State {
            total,
            jobs,
            done: 0,
            spent: Duration::ZERO,
            running: Vec::new(),
        };
        Self {
            bar,
            workload: workload.into(),
            state: state.into(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the line.
    fn update(&self) {
        let Some(bar) = &self.bar else { return };
        let state = self.state();
        let mut text = format!("{}: {}", self.workload, state.text(Instant::now()));
        for (i, (run, _)) in state.running.iter().enumerate() {
            let before = if i == 0 { "; running on" } else { " and" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{before} {run}");
        }
        bar.set_message(text);
    }

    /// Removes the line.
    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Watcher for Progress {
    fn begins(&self, run: &RunId) {
        self.state().running.push((run.clone(), Instant::now()));
        self.update();
    }

    fn progresses(&self) {
        self.update();
    }

    fn ends(&self, run: &RunId, error: Option<&anyhow::Error>) {
        let (spent, text) = self.state().end(run);
        let name = format!("{} on {run}", self.workload);
        match (&self.bar, error) {
            (Some(bar), Some(error)) => {
                bar.println(printable(&format!("{name} failed: {}", sentence(error))));
            }
            (None, Some(error)) => note!("{name} failed: {}\n{text}", sentence(error)),
            (None, None) => note!("{name} took {:.1} s; {text}", spent.as_secs_f64()),
            (Some(_), None) => {}
        }
    }
}

impl State {
    /// `run` has ended: adds the time that it took, and updates the progress.
    fn end(&mut self, run: &RunId) -> (Duration, String) {
        let now = Instant::now();
        let place = self.running.iter().position(|(running, _)| running == run);
        let started = place.map(|at| self.running.remove(at).1);
        let spent = started.map_or(Duration::ZERO, |started| now.duration_since(started));
        self.done += 1;
        self.spent += spent;
        (spent, self.text(now))
    }

    /// "3 of 20 runs done, about 2 min left".
    fn text(&self, now: Instant) -> String {
        let left = match self.left(now) {
            Some(left) => format!(", about {} left", roughly(left)),
            None => String::new(),
        };
        format!("{} of {} runs done{left}", self.done, self.total)
    }

    /// Time until all runs have ended if each takes as long as those before it did on average.
    fn left(&self, now: Instant) -> Option<Duration> {
        let mean = self.spent.checked_div(u32::try_from(self.done).ok()?)?;
        let rest = |started: &Instant| mean.saturating_sub(now.duration_since(*started));
        let rests = || self.running.iter().map(|(_, started)| rest(started));
        let waiting = self.total - self.done - self.running.len();
        let work = rests().sum::<Duration>() + mean * u32::try_from(waiting).ok()?;
        let longest = rests().max().unwrap_or_default();
        let jobs = u32::try_from(self.jobs).ok()?;
        (self.done < self.total).then(|| (work / jobs).max(longest))
    }
}

/// `40 s`, `3 min`, `2 h`: an estimate is no more exact than that.
fn roughly(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 90.0 => format!("{:.0} s", (s / 10.0).ceil().max(1.0) * 10.0),
        s if s < 5_400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the estimate takes into account how many run at a time and how far they are.
    #[test]
    fn the_rest_is_shared_by_the_jobs() {
        let begin = Instant::now();
        let seconds = Duration::from_secs;
        let run = |seed| RunId {
            machine: "sbi".into(),
            seed,
        };
        let mut state = State {
            total: 6,
            jobs: 2,
            done: 0,
            spent: Duration::ZERO,
            running: vec![(run(0), begin), (run(1), begin)],
        };
        let at = |s| begin + seconds(s);
        assert_eq!(state.left(at(5)), None);
        assert_eq!(state.text(at(5)), "0 of 6 runs done");
        // Two ended after 20 s each; of the next two, 15 s are left each, and two more wait.
        (state.done, state.spent) = (2, seconds(40));
        state.running = vec![(run(2), at(20)), (run(3), at(20))];
        assert_eq!(state.left(at(25)), Some(seconds(35)));
        assert_eq!(state.text(at(25)), "2 of 6 runs done, about 40 s left");
        // The last one has longer to go than its share.
        (state.done, state.spent) = (5, seconds(100));
        state.running = vec![(run(5), at(60))];
        assert_eq!(state.left(at(64)), Some(seconds(16)));
        assert_eq!(state.left(at(99)), Some(Duration::ZERO));
        (state.done, state.running) = (6, Vec::new());
        assert_eq!(state.text(at(99)), "6 of 6 runs done");
    }
}
