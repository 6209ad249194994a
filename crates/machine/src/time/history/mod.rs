//! The history of a machine in memory: snapshots from which it re-executes to any earlier point.
//!
//! A machine is deterministic, so execution from a snapshot with the same input repeats the
//! original run. Its events and output have been reported already: event sinks and console receive
//! nothing until the machine is back at the present.
//!
//! Snapshots share unchanged pages of RAM. They are denser close to the present, within a limit of
//! memory.

mod pages;
mod place;

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::machine::Machine;
use pages::Pages;
pub use place::Place;

/// Minimum host time between two snapshots, and as a multiple of the time that the last one took.
const LEAST: Duration = Duration::from_millis(150);
const PACE: u32 = 6;
/// Maximum number of snapshots.
const MOST: usize = 128;

/// State of a machine without RAM.
struct Snapshot {
    /// Start of its round in cycles of virtual time; no other has the same.
    time: u64,
    place: Place,
    /// Instructions that all harts had retired.
    instret: u64,
    state: Vec<u8>,
    /// How much input had arrived.
    input: usize,
}

/// Snapshots of a machine.
pub struct History {
    /// By time.
    snapshots: Vec<Snapshot>,
    pages: Pages,
    /// The present: where the machine was when it went back.
    present: Option<Place>,
    /// Maximum memory in bytes.
    limit: u64,
    last: Instant,
    took: Duration,
}

impl History {
    /// An empty history with a limit of about `limit` bytes of memory.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self {
            snapshots: Vec::new(),
            pages: Pages::default(),
            present: None,
            limit,
            last: Instant::now(),
            took: Duration::ZERO,
        }
    }

    /// Starts again at the present point of `machine`, which was changed, so that re-execution
    /// would not reach it. Not to be called in the past. A machine with an
    /// [obstacle](Machine::obstacle) has no history.
    pub fn begin(&mut self, machine: &mut Machine) {
        self.snapshots.clear();
        self.pages = Pages::default();
        if self.limit > 0 && machine.obstacle().is_none() {
            self.keep(machine);
        }
    }

    /// Makes a snapshot of `machine`, unless there is one of this round.
    pub fn keep(&mut self, machine: &mut Machine) {
        let started = Instant::now();
        let place = machine.place();
        let time = place.round();
        let index = self.snapshots.partition_point(|other| other.time < time);
        let next = self.snapshots.get(index).map(|snapshot| snapshot.time);
        if next != Some(time) {
            self.pages.keep(machine.ram(), time, next);
            let snapshot = Snapshot {
                time,
                place,
                instret: machine.instret(),
                state: machine.snapshot(),
                input: machine.input.taken(),
            };
            self.snapshots.insert(index, snapshot);
            machine.input.keep();
            let present = self.present.map_or(time, |present| present.round());
            self.thin(present, time);
        }
        self.last = Instant::now();
        self.took = started.elapsed();
    }

    /// Makes a snapshot if it is time for one. To be called now and then while the machine runs.
    pub fn follow(&mut self, machine: &mut Machine) {
        let wait = LEAST.max(self.took * PACE);
        let begun = !self.snapshots.is_empty();
        if begun && self.last.elapsed() >= wait && matches!(machine.place(), Place::Round(_)) {
            self.keep(machine);
        }
    }

    /// Its size in memory in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        let states = self.snapshots.iter().map(|snapshot| snapshot.state.len());
        states.sum::<usize>() as u64 + self.pages.size()
    }

    /// Drops snapshots, except the one at `new`, until the limits are met. Those close to `present`
    /// are the most useful.
    fn thin(&mut self, present: u64, new: u64) {
        while self.snapshots.len() > MOST || self.size() > self.limit {
            let times: Vec<u64> = self.snapshots.iter().map(|s| s.time).collect();
            // Benefit of a snapshot: re-execution that it saves, in proportion to its distance from
            // the present.
            let use_of = |&index: &usize| {
                let gap = times[index + 1] - times[index - 1];
                let age = present.max(times[index]) - times[index] + 1;
                gap as f64 / age as f64
            };
            let between = 1..times.len().saturating_sub(1);
            let between = between.filter(|&index| times[index] != new);
            let least = between.min_by(|a, b| use_of(a).total_cmp(&use_of(b)));
            match (least, times.len()) {
                (Some(index), _) => self.forget(index),
                // Drops the earliest snapshot.
                (None, 2..) if times[0] != new => self.forget(0),
                (None, _) => return,
            }
        }
    }

    fn forget(&mut self, index: usize) {
        let gone = self.snapshots.remove(index);
        let next = self.snapshots.get(index).map(|snapshot| snapshot.time);
        self.pages.forget(gone.time, next);
    }

    /// The earliest point.
    #[must_use]
    pub fn beginning(&self) -> Option<Place> {
        self.snapshots.first().map(|snapshot| snapshot.place)
    }

    /// Number of snapshots.
    #[must_use]
    pub fn snapshots(&self) -> usize {
        self.snapshots.len()
    }

    /// The present, if the machine is in the past.
    #[must_use]
    pub fn present(&self) -> Option<Place> {
        self.present
    }

    /// Restores `machine` to the last snapshot that is not later than `time` (cycles), or to the
    /// first. The caller runs it from there.
    ///
    /// # Errors
    /// If there is no snapshot.
    pub fn go_back(&mut self, machine: &mut Machine, time: u64) -> Result<(), Error> {
        let after = self.snapshots.partition_point(|other| other.time <= time);
        self.go_before(machine, after)
    }

    /// The same by the number of instructions that all harts had retired.
    ///
    /// # Errors
    /// If there is no snapshot.
    pub fn go_back_to_instret(&mut self, machine: &mut Machine, instret: u64) -> Result<(), Error> {
        let after = self
            .snapshots
            .partition_point(|other| other.instret <= instret);
        self.go_before(machine, after)
    }

    fn go_before(&mut self, machine: &mut Machine, after: usize) -> Result<(), Error> {
        let snapshot = self.snapshots.get(after.saturating_sub(1));
        let snapshot = snapshot.ok_or_else(|| Error::Invalid("there is no history".into()))?;
        self.present.get_or_insert(machine.place());
        machine.bus.past.set(true);
        self.pages.put_back(machine.ram(), snapshot.time);
        machine.reset_to(&snapshot.state)?;
        machine.input.go_back(snapshot.input);
        self.arrive(machine);
        Ok(())
    }

    /// Checks whether `machine` is back at the present, notes it, and returns it.
    pub fn arrive(&mut self, machine: &Machine) -> bool {
        // It can be later only if re-execution differed, which must not happen: then this is the
        // present.
        let is_there = |present: Place| {
            let place = machine.place();
            present == place || place.round() > present.round()
        };
        if self.present.is_some_and(is_there) {
            self.present = None;
            machine.bus.past.set(false);
        }
        self.present.is_none()
    }
}
