//! Progress of an exploration: a line that changes on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::children::Children;
use super::walk::Walk;

/// Time between two lines where there is no terminal.
const NEWS: Duration = Duration::from_secs(10);

/// Progress display.
pub struct Progress {
    bar: Option<ProgressBar>,
    told: Instant,
}

impl Progress {
    /// Creates the display.
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            // It does not tick by itself: a thread of its own would not survive in the children.
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            ProgressBar::new_spinner()
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        Self {
            bar,
            told: Instant::now(),
        }
    }

    /// Updates the display when due.
    pub fn tell(&mut self, walk: &Walk<'_>, children: &Children) {
        let (seen, done, failed) = (walk.seen, children.done, children.failed.len());
        let text = format!("{seen} boundaries passed, {done} runs ended, {failed} failed");
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None if self.told.elapsed() >= NEWS => {
                note!("{text}");
                self.told = Instant::now();
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
