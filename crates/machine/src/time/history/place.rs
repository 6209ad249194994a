//! Points of a run.

use crate::machine::Machine;

/// A point in the run of a machine, the same each time it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Between two rounds of harts, at this virtual time in cycles.
    Round(u64),
    /// Before an instruction.
    Instruction {
        /// Virtual time in cycles at which the current round began.
        round: u64,
        /// The hart that is about to execute it.
        hart: usize,
        /// Its local time in cycles.
        cycles: u64,
        /// Instructions it has retired.
        instret: u64,
        /// Its program counter.
        pc: u64,
    },
}

impl Place {
    /// Virtual time in cycles at which the round with this point began.
    #[must_use]
    pub fn round(&self) -> u64 {
        match *self {
            Self::Round(round) | Self::Instruction { round, .. } => round,
        }
    }
}

impl Machine {
    /// The present point of the machine: between rounds, or where an observer stopped it.
    #[must_use]
    pub fn place(&self) -> Place {
        let round = self.clock.now;
        let turn = self.clock.due.first().copied();
        match self.harts.get(turn.unwrap_or(self.clock.turn)) {
            Some(hart) if self.clock.in_round => Place::Instruction {
                round,
                hart: hart.id(),
                cycles: hart.now(),
                instret: hart.instret(),
                pc: hart.pc(),
            },
            _ => Place::Round(round),
        }
    }
}
