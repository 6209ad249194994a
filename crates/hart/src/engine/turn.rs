//! State of the run loop between blocks.

/// Run-loop state kept between blocks.
#[derive(Default)]
pub(crate) struct Turn {
    /// `cycles` at which the present slice ends.
    pub end: u64,
    /// The hart waits in WFI.
    pub waiting: bool,
    wait_reported: bool,
    /// A `wrs` instruction gave up the rest of the quantum.
    stalled: bool,
    /// Code may have changed.
    compare_code: bool,
    /// Where an observer stopped inside a block: program counter and instructions left of the
    /// block.
    cut: Option<(u64, usize)>,
}

impl Turn {
    /// Gives up the rest of the quantum, for a `wrs` instruction.
    pub fn stall(&mut self) {
        self.stalled = true;
    }

    /// Whether the rest of the quantum was given up since the last call.
    pub fn take_stall(&mut self) -> bool {
        std::mem::take(&mut self.stalled)
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

    /// Instructions left of a block in which an observer stopped at `pc`; 0 if there is none.
    pub fn take_cut(&mut self, pc: u64) -> usize {
        match self.cut.take() {
            Some((at, left)) if at == pc => left,
            _ => 0,
        }
    }
}
