//! Input on its way to the machine, and the record of when it came.
//!
//! Input comes between rounds. At which of them is part of what makes a run what it is: the record
//! has it, so that the same run can be made again, by [`history`](crate::time::history) or out of a
//! file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::outside::Input;

/// Input that came.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Arrival {
    /// Virtual time in cycles that the machine had reached when it came.
    pub came: u64,
    /// Virtual time in cycles at which the machine gets it, not before `came`.
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
    /// What the machine will get.
    coming: Coming,
    count: u64,
    /// What came since somebody wanted to have it again, in order, and what a recorded run will
    /// get.
    record: Vec<Arrival>,
    /// How much of the record has come.
    taken: usize,
    /// What comes is kept in the record.
    kept: bool,
    /// What came and was not told yet, if somebody wants to be told.
    news: Option<Vec<Arrival>>,
    /// Came in the middle of a round, or while the machine goes through its past.
    early: Vec<(u64, Input)>,
}

impl Inputs {
    /// `input` for the time `at` comes now.
    pub fn push(&mut self, at: u64, input: Input) {
        self.early.push((at, input));
    }

    /// The machine is between two rounds at `now`: takes what comes there. Input of the outside
    /// waits for the present.
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

    /// The first that is due at `now`.
    pub fn take_due(&mut self, now: u64) -> Option<Input> {
        let first = self.coming.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// When the machine gets the next, in cycles; `u64::MAX` if nothing has come.
    pub fn next(&self) -> u64 {
        self.coming.keys().next().map_or(u64::MAX, |key| key.0)
    }

    /// What has come and how much came before, for checkpoints.
    pub fn save(&self) -> (SavedInput, u64) {
        let coming = self.coming.iter();
        let coming = coming.map(|(at, input)| (*at, input.clone())).collect();
        (coming, self.count)
    }

    /// Takes over what [`save`](Self::save) returned.
    pub fn restore(&mut self, coming: SavedInput, count: u64) {
        self.coming = coming.into_iter().collect();
        self.count = count;
    }

    /// Keeps what comes from now on, so that it can come again after [`go_back`](Self::go_back).
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Whether something of the record has not come yet.
    pub fn expected(&self) -> bool {
        self.taken < self.record.len()
    }

    /// What came since the last call, or nothing at the first.
    pub fn news(&mut self) -> Vec<Arrival> {
        self.news.replace(Vec::new()).unwrap_or_default()
    }

    /// What a recorded run got comes again, beginning with the first.
    pub fn replay(&mut self, record: Vec<Arrival>) {
        self.record = record;
        self.taken = 0;
    }

    /// How much of the record has come.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Back to when so much of the record had come.
    pub fn go_back(&mut self, taken: usize) {
        self.taken = taken.min(self.record.len());
    }
}
