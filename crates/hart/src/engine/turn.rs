//! State of the run loop between blocks.

use serde::{Deserialize, Serialize};

/// Cycles that `wrs.nto` may stall at one place, in one piece or several, before it traps where a
/// more privileged mode wants that (Zawrs: "an implementation-specific bounded time limit"): longer
/// than a running hart takes to respond.
pub(crate) const WRS_NTO_LIMIT: u64 = 100_000;

/// Run-loop state kept between blocks.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// `cycles` at which the present slice ends.
    pub end: u64,
    /// `cycles` at which the hart's interrupts change by time alone, or earlier.
    #[serde(skip)]
    pub inputs_change: u64,
    /// The hart waits in WFI.
    pub waiting: bool,
    wait_reported: bool,
    /// Maximum number of cycles of the quantum that a `wrs` instruction gave up.
    stalled: Option<u64>,
    spin: Spin,
    /// Code may have changed.
    compare_code: bool,
    /// Where an observer stopped inside a block: program counter and instructions left of the
    /// block.
    cut: Option<(u64, usize)>,
}

/// Where `wrs.nto` stalls with a limit, and for how many cycles it has done so.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Spin {
    pc: u64,
    cycles: u64,
}

impl Turn {
    /// Gives up the rest of the quantum, for a `wrs` instruction.
    pub fn stall(&mut self) {
        self.stalled = Some(u64::MAX);
        self.spin = Spin::default();
    }

    /// The same for `wrs.nto` at `pc` that may not stall for ever. Returns whether it traps
    /// instead.
    pub fn stall_or_trap(&mut self, pc: u64) -> bool {
        if self.spin.pc != pc {
            self.spin = Spin { pc, cycles: 0 };
        }
        let left = WRS_NTO_LIMIT.saturating_sub(self.spin.cycles);
        if left == 0 {
            self.spin.cycles = 0;
        } else {
            self.stalled = Some(left);
        }
        left == 0
    }

    /// Maximum number of cycles to give up, if any, after a `wrs` since the last call.
    pub fn take_stall(&mut self) -> Option<u64> {
        self.stalled.take()
    }

    /// Records how many cycles were given up.
    pub fn gave_up(&mut self, cycles: u64) {
        self.spin.cycles += cycles;
    }

    /// Requests that decoded code is compared with memory at the end of the block: after `fence.i`,
    /// or a store to code.
    pub fn compare_code(&mut self) {
        self.compare_code = true;
    }

    /// Whether that was requested since the last call.
    pub fn take_compare_code(&mut self) -> bool {
        std::mem::take(&mut self.compare_code)
    }

    /// Whether waiting began or ended since the last call.
    pub fn wait_changed(&mut self) -> bool {
        std::mem::replace(&mut self.wait_reported, self.waiting) != self.waiting
    }

    /// An observer stopped at `pc` with `left` instructions of the block to go.
    pub fn cut(&mut self, pc: u64, left: usize) {
        self.cut = Some((pc, left));
    }

    /// Whether an observer stopped inside a block at `pc`.
    pub fn is_cut(&self, pc: u64) -> bool {
        self.cut.is_some_and(|(at, _)| at == pc)
    }

    /// Instructions left of a block in which an observer stopped at `pc`; 0 if there is none.
    pub fn take_cut(&mut self, pc: u64) -> usize {
        match self.cut.take() {
            Some((at, left)) if at == pc => left,
            _ => 0,
        }
    }
}
