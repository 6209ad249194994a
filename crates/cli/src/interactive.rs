//! A machine of `boot` with the keyboard and the screen attached, from one reset to the next.

use std::cell::Cell;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Result;
use trapless_hart::Hart;
use trapless_machine::{Limits, Machine, Outcome, VirtualTime};
use trapless_recorder::SharedRecorder;
use trapless_run::checkpoint::Pending;
use trapless_run::outside::{Outside, TICK};
use trapless_run::script::{self, SharedScript};
use trapless_run::{Failed, interrupt, note, observe};

use crate::output::Screen;
use crate::terminal::{HELP, Key};

/// Virtual time between two reads of the keyboard, in cycles: few milliseconds of the host's time,
/// so that keys and Ctrl-C take effect at once.
pub const SLICE: u64 = 2_000_000;
/// A machine without further input that has been idle and silent this long, in cycles, is throttled
/// to wall-clock time.
const IDLE: u64 = VirtualTime::cycles(10);
/// Cycles over which it is judged whether such a machine works: a timer's tick, or a process that
/// is started now and then, is no work.
const WINDOW: u64 = VirtualTime::cycles(1);
/// How long to wait for a key while the machine is idle, before checking Ctrl-C again.
const PATIENCE: Duration = Duration::from_millis(50);

/// Why a session ended although the machine could continue.
#[derive(Clone, PartialEq, Eq)]
pub enum Leave {
    /// The user pressed the key.
    Key,
    /// The record has ended, or is of another session.
    Replayed,
    /// A signal was received.
    Signal,
    /// The kernel has panicked, or standard output is gone.
    Broken,
    /// The user's time limit has passed.
    Late,
    /// The script has ended, or its `expect` timed out.
    Script(script::End),
}

/// A machine with the keyboard and the screen attached.
pub struct Interactive<'a, 'p> {
    /// What the user types.
    pub keys: &'a Receiver<Key>,
    /// The script that provides input instead.
    pub script: Option<&'a SharedScript>,
    /// What the guest prints.
    pub screen: &'a Screen,
    /// The ledger, and what the guest has printed.
    pub recorder: &'a SharedRecorder,
    /// Throttles virtual time to wall-clock time for interactive use.
    pub paced: bool,
    /// Whether a kernel panic ends the session.
    pub ends_on_panic: bool,
    /// Virtual time in cycles between two looks at the keyboard.
    pub slice: u64,
    /// Virtual time in cycles at which the session ends.
    pub limit: Option<u64>,
    /// Input from outside.
    pub outside: Outside,
    /// The gdb session that controls the machine, if any.
    pub debugged: bool,
    /// Checkpoints that it makes.
    pub checkpoints: &'a mut Pending<'p>,
    /// Why a checkpoint could not be made.
    pub failed: Option<anyhow::Error>,
    /// Set when standard input has ended.
    pub input_ended: Option<Ended>,
    /// Set when the session ends.
    pub leave: Option<Leave>,
}

/// What is observed after the end of standard input.
pub struct Ended {
    /// The host's time when the machine last worked or printed.
    busy: Instant,
    /// Virtual time then, in cycles.
    at: u64,
    /// Virtual time when the present [`WINDOW`] began,
    began: u64,
    /// and the instructions that each hart had executed then.
    executed: Vec<u64>,
}

impl Ended {
    fn new(machine: &Machine) -> Self {
        Self {
            busy: Instant::now(),
            at: machine.now(),
            began: machine.now(),
            executed: machine.harts().iter().map(Hart::instret).collect(),
        }
    }

    /// How long to wait. Only work keeps a machine busy that gets no input, and work runs at full
    /// speed; a machine that has been idle and silent for [`IDLE`] cycles is slowed down to the
    /// host's clock.
    fn wait(&mut self, machine: &Machine, printed: u64) -> Duration {
        let now = machine.now();
        let cycles = now.saturating_sub(self.began);
        let executed: Vec<u64> = machine.harts().iter().map(Hart::instret).collect();
        let since = executed.iter().zip(&self.executed);
        let most = since.map(|(now, before)| now.saturating_sub(*before)).max();
        let working = cycles >= WINDOW && works(most.unwrap_or(0), cycles);
        if working || printed > self.at {
            *self = Self::new(machine);
            return Duration::ZERO;
        }
        if cycles >= WINDOW {
            (self.began, self.executed) = (now, executed);
        }
        let idle = Duration::from_nanos(now.saturating_sub(self.at).saturating_sub(IDLE));
        idle.saturating_sub(self.busy.elapsed())
    }
}

/// Whether a hart that executes so many instructions in so many cycles does more than answer the
/// ticks of its timers. A program that only divides executes one instruction in about 33 cycles; an
/// idle Linux one in about 2000.
const fn works(instructions: u64, cycles: u64) -> bool {
    instructions > cycles / 64
}

impl Interactive<'_, '_> {
    /// Runs the machine; `None` if the user left.
    ///
    /// # Errors
    /// If expected output did not appear.
    pub fn run(
        &mut self,
        machine: &mut Machine,
        observation: &mut observe::Observation,
    ) -> Result<Option<Outcome>> {
        let paced = self.paced;
        let clock = Instant::now();
        self.outside.start(machine);
        let slice = match self.outside.waits() {
            true => self.slice.min(TICK),
            false => self.slice,
        };
        // A slice ends where a checkpoint is due, so that its time does not depend on slices.
        let leaving = self.outside.leaving().unwrap_or(u64::MAX);
        let debugged = self.debugged;
        let until = move |next: u64| if debugged { leaving } else { leaving.min(next) };
        let end = Cell::new(until(self.checkpoints.next()));
        let limits = &|| Limits {
            until: end.get(),
            ..Limits::default()
        };
        let outcome = observation.drive(machine, limits, slice, &mut |machine, idle| {
            show_output();
            self.save(machine);
            end.set(until(self.checkpoints.next()));
            let ahead = Duration::from_nanos(machine.now()).saturating_sub(clock.elapsed());
            let ahead = if paced { ahead } else { Duration::ZERO };
            self.poll(machine, idle, ahead)
        });
        show_output();
        let outcome = outcome?;
        let ended = outcome.is_some_and(|o| !matches!(o, Outcome::Idle | Outcome::Stopped));
        self.outside.record(machine);
        self.outside.end(machine, self.leave.is_some() || !ended);
        match self.leave {
            Some(Leave::Replayed) => self.outside.check_end(machine)?,
            // The machine's own end, or that of the record after gdb has gone.
            None if ended || outcome.is_none() => self.outside.check_end(machine)?,
            _ => self.outside.check(machine)?,
        }
        Ok(match &self.leave {
            Some(Leave::Script(script::End::Late(reason))) => {
                let last = &self.recorder.lock().transcript.last_line;
                return Err(Failed(format!("{reason} (last line: {last})")).into());
            }
            Some(
                Leave::Key | Leave::Replayed | Leave::Broken | Leave::Script(script::End::Done),
            ) => None,
            Some(Leave::Signal) => Some(Outcome::Stopped),
            Some(Leave::Late) => Some(Outcome::Limit),
            None => outcome,
        })
    }

    /// Makes the checkpoints that are due. The session goes on if one cannot be written.
    fn save(&mut self, machine: &Machine) {
        let made = self.checkpoints.make(machine, self.recorder);
        if let Err(error) = made {
            note!("\r\n{error:#}\r");
            self.failed.get_or_insert(error);
        }
    }

    fn end(&mut self, leave: Leave) -> bool {
        self.leave = Some(leave);
        false
    }

    /// Reads the keyboard, and waits for it if the machine is idle or ahead of the clock. `false`
    /// ends the session.
    fn poll(&mut self, machine: &mut Machine, idle: bool, ahead: Duration) -> bool {
        self.outside.record(machine);
        self.outside.exchange(machine);
        loop {
            if interrupt::requested() {
                return self.end(Leave::Signal);
            }
            let panicked = self.ends_on_panic && self.recorder.lock().dead(machine.now());
            if panicked || self.screen.check().is_err() {
                return self.end(Leave::Broken);
            }
            if self.limit.is_some_and(|limit| machine.now() >= limit) {
                return self.end(Leave::Late);
            }
            // A debugger stops there, and can step backwards.
            let left = !self.debugged && self.outside.left(machine);
            if left || self.outside.check(machine).is_err() {
                return self.end(Leave::Replayed);
            }
            if let Some(script) = self.script {
                let mut script = script.lock();
                for (at, bytes) in script.take_typed() {
                    machine.input(at, &bytes);
                }
                if let Some(end) = script.end(machine.now()) {
                    drop(script);
                    return self.end(Leave::Script(end));
                }
            }
            if self.outside.replays() || self.outside.waits() && self.input_ended.is_some() {
                return !idle || machine.expects_input();
            }
            if let Some(ended) = &mut self.input_ended {
                let printed = self.recorder.lock().last_output();
                let wait = ended.wait(machine, printed).max(ahead);
                std::thread::sleep(wait.min(PATIENCE));
                return !idle;
            }
            let patience = if idle { PATIENCE } else { ahead.min(PATIENCE) };
            match self.keys.recv_timeout(patience) {
                Ok(Key::Input(bytes)) => machine.input(machine.now(), &bytes),
                Ok(Key::Quit) => {
                    note!("\r");
                    return self.end(Leave::Key);
                }
                Ok(Key::Help) => note!("{HELP}\r"),
                Ok(Key::Status) => status(machine),
                Ok(Key::Checkpoint) => match self.checkpoints.make_now(machine, self.recorder) {
                    Ok(path) => note!("\r\nCheckpoint: {}\r", path.display()),
                    Err(error) => note!("\r\n{error:#}\r"),
                },
                Err(RecvTimeoutError::Timeout) if idle => continue,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.input_ended = Some(Ended::new(machine));
                    continue;
                }
            }
            return true;
        }
    }
}

/// Shows output of the guest after the last complete line. Errors are ignored: the terminal may be
/// gone.
fn show_output() {
    let _ = std::io::stdout().flush();
}

fn status(machine: &Machine) {
    note!(
        "\r\n{:.6} s of virtual time\r",
        VirtualTime::seconds(machine.now())
    );
    for hart in machine.harts() {
        let state = if hart.waiting() { "waits" } else { "runs" };
        note!(
            "hart {}: {} {:#x}, {state}, {} instructions\r",
            hart.id(),
            hart.mode(),
            hart.pc(),
            hart.instret()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_only_divides_is_not_throttled_and_an_idle_kernel_is() {
        assert!(works(WINDOW / 35, WINDOW));
        // 250 ticks, and two processes.
        assert!(!works(250 * 10_000 + 2 * 1_000_000, WINDOW));
    }
}
