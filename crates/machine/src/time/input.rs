//! Queued input of the machine, and the record of its arrival.
//!
//! Input is accepted between rounds. The round at which it arrives is part of a run: it is
//! recorded, so that the run can be replayed, by [`history`](crate::time::history) or from a file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::outside::Input;

/// Input that arrived.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Arrival {
    /// Virtual time in cycles that the machine had reached when it arrived.
    pub came: u64,
    /// Virtual time in cycles at which it is delivered, not before `came`.
    pub at: u64,
    /// The input.
    pub input: Input,
}

/// Input by time and order of arrival.
pub(crate) type Coming = BTreeMap<(u64, u64), Input>;

/// [`Coming`] in a checkpoint.
pub(crate) type SavedInput = Vec<((u64, u64), Input)>;

/// All input of a machine.
#[derive(Default)]
pub(crate) struct Inputs {
    /// Input to be delivered.
    coming: Coming,
    count: u64,
    /// Recorded input, in order: what arrived since recording began, or what is to be replayed.
    record: Vec<Arrival>,
    /// How much of the record has arrived.
    taken: usize,
    /// Whether arriving input is recorded.
    kept: bool,
    /// Input that arrived since the last call of [`news`](Self::news), if it is used.
    news: Option<Vec<Arrival>>,
    /// Arrived in the middle of a round, or while the machine re-executes its past.
    early: Vec<(u64, Input)>,
}

impl Inputs {
    /// Queues `input` for the time `at`.
    pub fn push(&mut self, at: u64, input: Input) {
        self.early.push((at, input));
    }

    /// Accepts input between two rounds, at `now`. In the past, new input waits for the present.
    pub fn between_rounds(&mut self, now: u64, past: bool) {
        while let Some(arrival) = self.record.get(self.taken).filter(|next| next.came <= now) {
            self.count += 1;
            let key = (arrival.at, self.count);
            self.coming.insert(key, arrival.input.clone());
            self.taken += 1;
        }
        if past {
            return;
        }
        for (at, input) in self.early.drain(..) {
            let at = at.max(now);
            self.count += 1;
            self.coming.insert((at, self.count), input.clone());
            let came = now;
            let arrival = Arrival { came, at, input };
            if let Some(news) = &mut self.news {
                news.push(arrival.clone());
            }
            if self.kept {
                self.record.insert(self.taken, arrival);
                self.taken += 1;
            }
        }
    }

    /// Takes the first input that is due at `now`.
    pub fn take_due(&mut self, now: u64) -> Option<Input> {
        let first = self.coming.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// When the next input is due, in cycles; `u64::MAX` if there is none.
    pub fn next(&self) -> u64 {
        self.coming.keys().next().map_or(u64::MAX, |key| key.0)
    }

    /// Queued input and the position in the record, for checkpoints.
    pub fn save(&self) -> (SavedInput, u64) {
        let coming = self.coming.iter();
        let coming = coming.map(|(at, input)| (*at, input.clone())).collect();
        (coming, self.count)
    }

    /// Restores the state returned by [`save`](Self::save).
    pub fn restore(&mut self, coming: SavedInput, count: u64) {
        self.coming = coming.into_iter().collect();
        self.count = count;
    }

    /// Records input from now on, so that it can be replayed after [`go_back`](Self::go_back).
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Whether part of the record has not arrived yet.
    pub fn expected(&self) -> bool {
        self.taken < self.record.len()
    }

    /// Input that arrived since the last call; none at the first.
    pub fn news(&mut self) -> Vec<Arrival> {
        self.news.replace(Vec::new()).unwrap_or_default()
    }

    /// Replays the input of a recorded run from its beginning.
    pub fn replay(&mut self, record: Vec<Arrival>) {
        self.record = record;
        self.taken = 0;
    }

    /// How much of the record has arrived.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Returns to this position in the record.
    pub fn go_back(&mut self, taken: usize) {
        self.taken = taken.min(self.record.len());
    }
}
