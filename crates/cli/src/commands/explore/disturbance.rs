//! What is done to a hart before an instruction.

use clap::ValueEnum;
use trapless_isa::csr;
use trapless_machine::{Machine, VirtualTime};

/// What `trapless explore` does to a hart at an instruction boundary.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disturbance {
    /// The other harts run first, for a quantum.
    Turn,
    /// The hart does not run until its next timer interrupt is due.
    Tick,
    /// The hart gets a spurious supervisor software interrupt.
    Ipi,
    /// A line of input arrives at the host's console, on which workload `blk` with `kill=yes` kills
    /// the process that serves its disk.
    Line,
}

impl Disturbance {
    /// Whether success is known only when the host is off: its effect may come after the measured
    /// part.
    pub fn outlasts(self) -> bool {
        self == Self::Line
    }

    /// Whether the machine may soon be in the state that it has without the disturbance; the others
    /// cost time.
    pub fn may_come_to_nothing(self) -> bool {
        self == Self::Turn
    }
}

impl std::fmt::Display for Disturbance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Turn => "turn",
            Self::Tick => "tick",
            Self::Ipi => "ipi",
            Self::Line => "line",
        })
    }
}

/// Applies it to a hart.
pub fn disturb(machine: &mut Machine, hart: usize, what: Disturbance) {
    match what {
        Disturbance::Turn => machine.postpone(hart),
        Disturbance::Tick => {
            let ticks = machine.harts()[hart].peek_csr_as_m(csr::STIMECMP);
            let cycles = machine.config().hart.cycles_per_tick;
            let at = ticks.unwrap_or(0).saturating_mul(cycles);
            // Without a comparator that is due soon there is nothing to wait for.
            if at < machine.now().saturating_add(VirtualTime::cycles(1)) {
                machine.hart_mut(hart).advance_to(at);
            }
        }
        Disturbance::Ipi => {
            let mip = machine.harts()[hart].peek_csr_as_m(csr::MIP).unwrap_or(0);
            machine.poke_csr(hart, csr::MIP, mip | 2);
        }
        Disturbance::Line => machine.input(machine.now(), b"\n"),
    }
}
