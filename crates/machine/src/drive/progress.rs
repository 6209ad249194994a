//! Position of a run, its limits, and its outcome.

use serde::{Deserialize, Serialize};

/// Position of a run.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Virtual time all harts have reached.
    pub now: u64,
    /// End of the current round.
    pub horizon: u64,
    /// Whether a round is in progress.
    pub in_round: bool,
    /// Hart whose turn it is in the current round.
    pub turn: usize,
    /// Earliest deadline of a device.
    pub device_deadline: u64,
    /// Harts held back by a debugger, and those of them that may catch up.
    pub late: Vec<usize>,
    pub due: Vec<usize>,
    /// Whether a run ends after each block.
    pub single: bool,
}

/// Limits of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Stop soon after this virtual time (cycles): at the end of the round, so that a run in
    /// several parts is the same as one without a break.
    pub until: u64,
    /// Stop soon after this many instructions, of all harts together since reset.
    pub instret: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            until: u64::MAX,
            instret: u64::MAX,
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The guest powered the machine off.
    PoweredOff,
    /// The guest asked for a reset: build the machine again to serve it.
    Rebooted,
    /// The guest ended with this code: through `tohost`, or through the test finisher.
    Exit(u64),
    /// All harts wait, and only input can wake one.
    Idle,
    /// The stop handle was set.
    Stopped,
    /// A limit was reached.
    Limit,
    /// The observer stopped this hart before an instruction.
    Observer(usize),
    /// The machine and its twin differ ([`Machine::accompany`](crate::Machine::accompany)).
    Diverged,
}
