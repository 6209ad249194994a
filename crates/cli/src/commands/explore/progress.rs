//! Progress of an exploration: a line that changes on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use trapless_run::note;

use super::workers::Runs;

/// Time between two lines where there is no terminal.
const NEWS: Duration = Duration::from_secs(10);

/// Progress display.
pub struct Progress {
    bar: Option<ProgressBar>,
    shown: Instant,
    /// Runs to make.
    count: u64,
}

impl Progress {
    /// Creates the display for so many runs.
    pub fn new(count: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            // It does not tick by itself: a thread of its own would not survive in the children.
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            ProgressBar::new_spinner()
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        Self {
            bar,
            shown: Instant::now(),
            count,
        }
    }

    /// Updates the display when due.
    pub fn update(&mut self, runs: &Runs) {
        let (done, failed) = (runs.done, runs.failed().len());
        let text = format!("{done} of {} runs ended, {failed} failed", self.count);
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None if self.shown.elapsed() >= NEWS => {
                note!("{text}");
                self.shown = Instant::now();
            }
            None => {}
        }
    }

    /// Removes the line.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
