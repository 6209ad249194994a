//! Progress: a bar on a terminal, plain lines elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is shown.
    Silent,
    /// One line when a task begins.
    Lines,
    /// A bar with the amount done.
    Bars,
}

impl Progress {
    /// Bars if standard error is a terminal, otherwise lines.
    #[must_use]
    pub fn auto() -> Self {
        if std::io::stderr().is_terminal() {
            Self::Bars
        } else {
            Self::Lines
        }
    }

    /// Tells the user something, unless nothing is shown.
    pub fn tell(self, text: &str) {
        use std::io::Write;
        if self != Self::Silent {
            // Nothing can be done if standard error is closed.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }

    /// Begins a task of about `total` steps. Where there are no bars, each tenth is told.
    #[must_use]
    pub fn steps(self, title: &str, total: u64) -> Task {
        let mut task = self.bar(title, total, "{msg} [{bar:30}] {percent}% {eta}");
        task.steps = total.max(1);
        task.lines = self == Self::Lines;
        task
    }

    /// Begins a task of `total` bytes; 0 means that the amount is not known.
    #[must_use]
    pub fn task(self, title: &str, total: u64) -> Task {
        self.bar(title, total, "{msg} [{bar:30}] {bytes}/{total_bytes} {eta}")
    }

    fn bar(self, title: &str, total: u64, known: &str) -> Task {
        let bar = match self {
            Self::Silent => ProgressBar::hidden(),
            Self::Lines => {
                self.tell(title);
                ProgressBar::hidden()
            }
            Self::Bars => {
                let (bar, template) = if total == 0 {
                    (ProgressBar::new_spinner(), "{spinner} {msg}")
                } else {
                    (ProgressBar::new(total), known)
                };
                bar.enable_steady_tick(std::time::Duration::from_millis(120));
                bar.with_style(
                    ProgressStyle::with_template(template)
                        .unwrap_or_else(|_| ProgressStyle::default_bar()),
                )
            }
        };
        bar.set_message(title.to_owned());
        Task {
            bar,
            lines: false,
            steps: 0,
            done: 0,
        }
    }
}

/// A running task; its bar goes away when it is dropped.
#[derive(Debug)]
pub struct Task {
    bar: ProgressBar,
    /// Steps are told, not shown.
    lines: bool,
    /// How many there are, about.
    steps: u64,
    done: u64,
}

impl Task {
    /// Sets the amount done so far.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// One more step is done. There may be more than were expected: they count as the last.
    pub fn step(&mut self) {
        self.done += 1;
        self.bar.set_position(self.done.min(self.steps));
        let tenths = |done: u64| done * 10 / self.steps.max(1);
        let tenth = tenths(self.done);
        if self.lines && tenth > tenths(self.done - 1) && tenth < 10 {
            Progress::Lines.tell(&format!("  {tenth}0 %"));
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
