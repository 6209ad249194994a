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

    /// Begins a task of `total` bytes; 0 means that the amount is not known.
    #[must_use]
    pub fn task(self, title: &str, total: u64) -> Task {
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
                    (
                        ProgressBar::new(total),
                        "{msg} [{bar:30}] {bytes}/{total_bytes} {eta}",
                    )
                };
                bar.enable_steady_tick(std::time::Duration::from_millis(120));
                bar.with_style(
                    ProgressStyle::with_template(template)
                        .unwrap_or_else(|_| ProgressStyle::default_bar()),
                )
            }
        };
        bar.set_message(title.to_owned());
        Task { bar }
    }
}

/// A running task; its bar goes away when it is dropped.
#[derive(Debug)]
pub struct Task {
    bar: ProgressBar,
}

impl Task {
    /// Sets the amount done so far.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
