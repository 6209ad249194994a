//! A deterministic scheduler of harts, device deadlines and input.
//!
//! ```text
//! round:  input and device deadlines that are due
//!         hart 0 runs to the horizon, then hart 1, ...        horizon = now + quantum, or the
//!         now = horizon                                       next input or device deadline
//!         all harts wait? now = the next wake-up, input or deadline
//! ```
//!
//! While all harts but one wait, rounds are longer, and end when that hart does something that may
//! affect a device or another hart.
//!
//! Nothing here reads the host's clock. The local time of a waiting hart advances when it wakes.

use std::sync::atomic::Ordering::Relaxed;

use trapless_devices::PowerRequest;
use trapless_hart::{Activity, Observer, Stop};

use crate::drive::progress::{Limits, Outcome};
use crate::machine::Machine;
use crate::outside::Input;

/// Quanta in a round in which only one hart runs.
const QUANTA_ALONE: u64 = 16;

impl Machine {
    /// Runs until something ends it.
    pub fn run(&mut self, limits: &Limits) -> Outcome {
        self.run_observed(limits, None)
    }

    /// As [`run`](Self::run), with an observer of each instruction, or of those that match its
    /// [triggers](Observer::triggers). A machine with a twin has none.
    pub fn run_observed(
        &mut self,
        limits: &Limits,
        observer: Option<&mut dyn Observer>,
    ) -> Outcome {
        match self.run_with_twin(limits) {
            Some(outcome) => outcome,
            None => self.run_alone(limits, observer),
        }
    }

    pub(crate) fn run_alone(
        &mut self,
        limits: &Limits,
        observer: Option<&mut dyn Observer>,
    ) -> Outcome {
        let meter = self.bus.meter.clone();
        let before = meter.enter(Activity::Schedule);
        let outcome = self.run_rounds(limits, observer);
        meter.leave(before);
        outcome
    }

    fn run_rounds(&mut self, limits: &Limits, mut observer: Option<&mut dyn Observer>) -> Outcome {
        loop {
            if let Some(outcome) = self.ended() {
                return outcome;
            }
            if !self.clock.in_round {
                if self.clock.now >= limits.until
                    || limits.instret != u64::MAX && self.instret() >= limits.instret
                {
                    return Outcome::Limit;
                }
                self.begin_round();
                self.clock.in_round = true;
            }
            while let Some(&hart) = self.clock.due.first() {
                let watcher: Option<&mut dyn Observer> = match &mut observer {
                    Some(observer) => Some(&mut **observer),
                    None => None,
                };
                if let Some(outcome) = self.turn(hart, watcher) {
                    return outcome;
                }
                self.clock.due.remove(0);
            }
            while let Some(hart) = self.next_turn() {
                self.clock.turn = hart;
                let watcher: Option<&mut dyn Observer> = match &mut observer {
                    Some(observer) => Some(&mut **observer),
                    None => None,
                };
                if let Some(outcome) = self.turn(hart, watcher) {
                    return outcome;
                }
                self.clock.turn += 1;
            }
            self.clock.turn = 0;
            self.clock.in_round = false;
            self.clock.now = self.clock.horizon;
            if self.all_wait() {
                match self.next_happening() {
                    u64::MAX => return Outcome::Idle,
                    time => self.clock.now = self.clock.now.max(time),
                }
            }
        }
    }

    /// Holds back the hart that an observer stopped: its turn is over until
    /// [`recall`](Self::recall), except that it may try again in each further round. For debuggers;
    /// the run then differs from one without a debugger.
    pub fn postpone(&mut self, hart: usize) {
        if self.clock.in_round && self.clock.turn == hart {
            self.clock.turn += 1;
        }
        self.clock.due.retain(|&due| due != hart);
        if !self.clock.late.contains(&hart) {
            self.clock.late.push(hart);
        }
    }

    /// Lets the harts that were held back catch up before any other continues. Returns whether
    /// there are any.
    pub fn recall(&mut self) -> bool {
        let some = !self.clock.late.is_empty();
        self.clock.due.append(&mut self.clock.late);
        some
    }

    /// Whether the guest or the user ended the run.
    fn ended(&mut self) -> Option<Outcome> {
        if let Some(request) = self.bus.power.get() {
            return Some(match request {
                PowerRequest::Off => Outcome::PoweredOff,
                PowerRequest::Reboot => Outcome::Rebooted,
                PowerRequest::Fail(code) => Outcome::Exit(code.into()),
            });
        }
        self.bus
            .stop
            .swap(false, Relaxed)
            .then_some(Outcome::Stopped)
    }

    /// Handles input and deadlines that are due, and sets the horizon.
    fn begin_round(&mut self) {
        let now = self.clock.now;
        self.input.between_rounds(now, self.bus.past.get());
        while let Some(input) = self.input.take_due(now) {
            let slot = match input {
                Input::Console(bytes) => {
                    self.console.push(&bytes);
                    Some(self.console_slot)
                }
                Input::Frame(frame) => {
                    self.frames.push(frame);
                    self.cable_slot
                }
                Input::Tick => None,
            };
            if let Some(slot) = slot {
                self.bus.with_device(slot, now, |device| device.poll());
            }
        }
        if self.bus.touched || self.clock.device_deadline <= now {
            self.attend_devices(now);
        }
        let quantum = self.config.quantum;
        let input = self.input.next();
        let others = self.others_wake(now.saturating_add(quantum));
        // A device that has more to do is polled in the next round, which must not be long.
        self.bus.concerned = self.bus.touched;
        self.bus.alone = !self.bus.concerned && others > now.saturating_add(quantum);
        let end = if self.bus.alone {
            now.saturating_add(quantum * QUANTA_ALONE).min(others)
        } else {
            now.saturating_add(quantum)
        };
        self.clock.horizon = end.min(input).min(self.clock.device_deadline).max(now + 1);
    }

    /// Maximum length of a round in cycles.
    pub(crate) fn longest_round(&self) -> u64 {
        (self.config.quantum * QUANTA_ALONE).max(1)
    }

    /// Whose turn is next in this round. One of many harts runs most of the time, and is found
    /// without a look at those that wait.
    fn next_turn(&mut self) -> Option<usize> {
        let waits = &mut self.bus.interrupts.waits;
        waits.next_due(self.clock.turn, self.clock.horizon)
    }

    /// When the wait of a hart ends; `None` if it does not wait.
    #[inline]
    fn wait(&self, hart: usize) -> Option<u64> {
        let known = self.bus.interrupts.waits.until(hart);
        known.or_else(|| self.unknown_wait(hart))
    }

    /// The same for one of which nothing is noted.
    fn unknown_wait(&self, hart: usize) -> Option<u64> {
        let (hart, feed) = (&self.harts[hart], &self.bus.interrupts.feeds[hart]);
        hart.waiting()
            .then(|| feed.wake_time().min(hart.wake_time()))
    }

    /// Whether no hart runs.
    fn all_wait(&self) -> bool {
        let mut unknown = self.unknown_waits();
        unknown.all(|hart| self.unknown_wait(hart).is_some())
    }

    /// Harts of whose wait nothing is noted.
    fn unknown_waits(&self) -> impl Iterator<Item = usize> + use<'_> {
        let waits = &self.bus.interrupts.waits;
        std::iter::successors(waits.next_unknown(0), |hart| waits.next_unknown(hart + 1))
    }

    /// When a second hart will run unless another one wakes it earlier. Times up to `soon`, as that
    /// of two harts that run, are not told apart.
    fn others_wake(&mut self, soon: u64) -> u64 {
        let [mut first, mut second] = self.bus.interrupts.waits.ends();
        for hart in self.unknown_waits() {
            let time = self.unknown_wait(hart).unwrap_or(0);
            second = second.min(time.max(first));
            first = first.min(time);
            if second <= soon {
                break;
            }
        }
        second
    }

    /// Polls devices that are due or have more to do, and notes the next deadline.
    fn attend_devices(&mut self, now: u64) {
        self.bus.touched = false;
        let mut deadline = u64::MAX;
        for index in 0..self.bus.slots.len() {
            let device = &self.bus.slots[index].device;
            let due = device.next_deadline().is_some_and(|time| time <= now);
            if due || device.needs_poll() {
                self.bus.with_device(index, now, |device| device.poll());
            }
            if let Some(time) = self.bus.slots[index].device.next_deadline() {
                // A device that stays due is polled once each round.
                deadline = deadline.min(time.max(now + 1));
            }
        }
        self.clock.device_deadline = deadline;
    }

    /// Runs hart `index` to the horizon.
    fn turn(&mut self, index: usize, mut observer: Option<&mut dyn Observer>) -> Option<Outcome> {
        let horizon = self.clock.horizon;
        if self.bus.interrupts.waits.until(index) >= Some(horizon) {
            return None;
        }
        self.bus.interrupts.waits.forget(index);
        let hart = &mut self.harts[index];
        // Set once the hart has read its inputs and decided to wait.
        let mut earliest = hart.now();
        loop {
            if hart.waiting() {
                let inputs = self.bus.interrupts.feeds[index].wake_time();
                let until = inputs.min(hart.wake_time());
                let wake = until.max(earliest);
                if wake >= horizon {
                    self.bus.interrupts.waits.set(index, until);
                    return None;
                }
                hart.advance_to(wake);
            } else if hart.now() >= horizon && !hart.inside_block() {
                return None;
            }
            let watcher: Option<&mut dyn Observer> = match &mut observer {
                Some(observer) => Some(&mut **observer),
                None => None,
            };
            let until = match self.clock.single {
                true => hart.now() + 1,
                false => horizon,
            };
            let stop = hart.run(&mut self.code, &mut self.bus, until, watcher);
            self.bus.meter.set(Activity::Schedule);
            self.bus.interrupts.feeds[index].now = hart.now();
            if stop == Stop::Observer {
                // The turn is not over, so nothing else may be done here.
                return Some(Outcome::Observer(index));
            }
            if let Some(htif) = &mut self.htif {
                if let Some(code) = htif.poll(&self.ram) {
                    return Some(Outcome::Exit(code));
                }
            }
            match stop {
                Stop::Quantum if hart.now() < horizon => return Some(Outcome::Limit),
                Stop::Quantum => return None,
                Stop::Wfi => earliest = hart.now() + 1,
                Stop::Observer | Stop::Requested => {
                    if let Some(outcome) = self.ended() {
                        return Some(outcome);
                    }
                    // The others must see what it did before it continues.
                    let now = self.harts[index].now().max(self.clock.now + 1);
                    self.clock.horizon = horizon.min(now);
                    return None;
                }
            }
        }
    }

    /// While all harts wait: the earliest wake-up, input or device deadline.
    fn next_happening(&mut self) -> u64 {
        if self.bus.touched {
            self.attend_devices(self.clock.now);
        }
        let input = self.input.next();
        let wake = (0..self.harts.len())
            .filter_map(|hart| self.wait(hart))
            .min();
        let poll = self.bus.slots.iter().any(|slot| slot.device.needs_poll());
        let poll = if poll { self.clock.now } else { u64::MAX };
        wake.unwrap_or(u64::MAX)
            .min(input)
            .min(self.clock.device_deadline)
            .min(poll)
    }
}
