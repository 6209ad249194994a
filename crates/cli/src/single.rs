//! Progress of a single run: a line on a terminal.

use std::cell::OnceCell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use trapless_machine::{Machine, VirtualTime};
use trapless_recorder::SharedRecorder;
use trapless_run::{note, printable};

/// Progress display.
pub struct Progress {
    bar: ProgressBar,
    title: String,
    clock: Instant,
    /// Instructions when the run began or was resumed.
    before: OnceCell<u64>,
}

impl Progress {
    /// Creates the display for the run called `title`; none if a console is shown, which it would
    /// disturb.
    pub fn new(title: String, console: bool) -> Self {
        let bar = if console || !std::io::stderr().is_terminal() {
            note!("Running {title}");
            ProgressBar::hidden()
        } else {
            ProgressBar::new_spinner()
        };
        bar.set_style(
            ProgressStyle::with_template("{spinner} {prefix} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        bar.enable_steady_tick(Duration::from_millis(120));
        let clock = Instant::now();
        Self {
            bar,
            title,
            clock,
            before: OnceCell::new(),
        }
    }

    /// Updates the line.
    pub fn update(&self, machine: &Machine, recorder: &SharedRecorder) {
        let before = *self.before.get_or_init(|| machine.instret());
        let rate = (machine.instret() - before) as f64 / self.clock.elapsed().as_secs_f64() / 1e6;
        self.bar.set_prefix(format!(
            "{}: {:.2} s of virtual time, {rate:.0} M instructions/s",
            printable(&self.title),
            VirtualTime::seconds(machine.now())
        ));
        let last = recorder.lock().transcript.last_line.clone();
        self.bar.set_message(printable(&last));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
