//! Stops the machine before each instruction of wanted calls.

use std::collections::BTreeMap;

use trapless_hart::{Hart, Observer};
use trapless_isa::Mode;
use trapless_isa::inst::Inst;

/// Registers that hold return address and stack pointer.
const RA: usize = 1;
const SP: usize = 2;

/// The current call, whose instructions are explored.
pub struct Call {
    hart: usize,
    /// Address of the function.
    pub function: u64,
    ra: u64,
    sp: u64,
}

/// Stops before each instruction of a wanted call.
pub struct Walker {
    /// Calls still wanted by entry address.
    wanted: BTreeMap<u64, u32>,
    /// Text whose instructions count.
    text: (u64, u64),
    /// The current call.
    pub call: Option<Call>,
    /// Calls that have begun.
    pub calls: u32,
    /// The stop was handled: this hart goes on.
    pub passing: Option<usize>,
    /// All wanted calls have returned.
    pub finished: bool,
}

impl Walker {
    /// Stops in `wanted` calls (entry address, number of calls), where they are in the text from
    /// its first to its second address.
    pub fn new(wanted: BTreeMap<u64, u32>, text: (u64, u64)) -> Self {
        Self {
            wanted,
            text,
            call: None,
            calls: 0,
            passing: None,
            finished: false,
        }
    }
}

impl Observer for Walker {
    fn before(&mut self, hart: &Hart, pc: u64, _inst: &Inst) -> bool {
        if hart.mode() != Mode::HS {
            return true;
        }
        if self.passing == Some(hart.id()) {
            self.passing = None;
            return true;
        }
        match &self.call {
            None => match self.wanted.get_mut(&pc) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    self.calls += 1;
                    self.call = Some(Call {
                        hart: hart.id(),
                        function: pc,
                        ra: hart.x(RA),
                        sp: hart.x(SP),
                    });
                    false
                }
                _ => true,
            },
            Some(call) if call.hart == hart.id() => {
                if pc == call.ra && hart.x(SP) == call.sp {
                    self.call = None;
                    self.finished = self.wanted.values().all(|&left| left == 0);
                    return true;
                }
                !(self.text.0..=self.text.1).contains(&pc)
            }
            Some(_) => true,
        }
    }
}
