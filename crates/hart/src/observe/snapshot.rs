//! The state of a hart that is visible to programs, for comparing two harts.

use trapless_isa::csr;
use trapless_isa::disasm::{f_name, x_name};

use crate::hart::Hart;

/// Registers, CSRs and time of a hart at one moment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Snapshot(Vec<u64>);

/// Names of the values between registers and CSRs.
const OTHERS: [&str; 6] = ["pc", "cycles", "instret", "mode", "waiting", "wake time"];
/// Counters and events beyond these are always 0.
const COUNTERS: u16 = 4;

/// CSRs of a hart, as M-mode reads them.
fn csrs() -> impl Iterator<Item = u16> {
    let named = csr::NAMES.iter().map(|(address, _)| *address);
    let pmp = (0..4)
        .map(|i| csr::PMPCFG0 + i)
        .chain((0..16).map(|i| csr::PMPADDR0 + i));
    let counters = (0..COUNTERS).flat_map(|i| [csr::MHPMCOUNTER3 + i, csr::MHPMEVENT3 + i]);
    named.chain(pmp).chain(counters)
}

fn name(index: usize) -> String {
    match index {
        0..32 => x_name(index as u8).into(),
        32..64 => f_name((index - 32) as u8).into(),
        _ => match OTHERS.get(index - 64) {
            Some(name) => (*name).into(),
            None => csrs()
                .nth(index - 64 - OTHERS.len())
                .map(csr::name)
                .unwrap_or_default(),
        },
    }
}

impl Snapshot {
    /// Takes the state of `hart`, reusing this snapshot's allocations.
    pub fn take(&mut self, hart: &Hart) {
        self.0.clear();
        self.0.extend((0..32).map(|i| hart.x(i)));
        self.0.extend((0..32).map(|i| hart.f(i)));
        self.0.extend([
            hart.pc(),
            hart.now(),
            hart.instret(),
            hart.mode() as u64,
            hart.waiting().into(),
            hart.wake_time(),
        ]);
        let csrs = csrs().map(|address| hart.peek_csr_as_m(address).unwrap_or_default());
        self.0.extend(csrs);
    }

    /// Name, own value and other value of everything that differs.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<(String, u64, u64)> {
        let pairs = self.0.iter().zip(&other.0).enumerate();
        pairs
            .filter(|(_, (a, b))| a != b)
            .map(|(index, (a, b))| (name(index), *a, *b))
            .collect()
    }
}

impl Hart {
    /// Whether another hart is at the same place at the same time with the same integer registers:
    /// a cheap test that finds most differences soon.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        self.state.pc == other.state.pc
            && self.state.cycles == other.state.cycles
            && self.state.instret == other.state.instret
            && self.mode == other.mode
            && self.turn.waiting == other.turn.waiting
            && self.state.x[1..32] == other.state.x[1..32]
    }
}
