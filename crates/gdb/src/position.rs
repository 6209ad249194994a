//! Positions in a run, given by a user in the form of logs and traces.

use std::str::FromStr;

use trapless_hart::{Hart, Observer};
use trapless_isa::inst::Inst;
use trapless_machine::{History, Limits, Machine, Outcome};

use crate::Host;
use crate::breaks::Both;

/// Maximum time in cycles by which a hart is ahead of the machine: quanta of a round in which it
/// runs alone, and the length of a block or a trap.
const QUANTA: u64 = 16;
const BLOCK: u64 = 50_000;
/// Instructions between two polls of the host program.
const SLICE: u64 = 8_000_000;

/// Before the first instruction of a hart at or after a time: where a line of a log or an event of
/// a trace was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Local time of the hart in cycles.
    pub time: u64,
    /// The hart; `None` for any.
    pub hart: Option<usize>,
}

impl FromStr for Position {
    type Err = String;

    /// `CYCLES`, `SECONDSs`, either with `:HART` behind it.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text} is not a position; write the time and hart of a line of --log trap, as in \
                 1250347:0, or seconds, as in 1.5s"
            )
        };
        let (time, hart) = match text.split_once(':') {
            Some((time, hart)) => (time, Some(hart.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let time = match time.strip_suffix('s') {
            Some(seconds) => {
                let seconds: f64 = seconds.parse().map_err(|_| wrong())?;
                let possible = (0.0..1e9).contains(&seconds);
                possible.then_some((seconds * 1e9).round() as u64)
            }
            None => time.replace('_', "").parse().ok(),
        };
        let time = time.ok_or_else(wrong)?;
        Ok(Self { time, hart })
    }
}

/// Stops at a position.
struct Until {
    position: Position,
    /// The hart has not reached it, although it seemed so, because a block is counted when it
    /// begins.
    passed: bool,
}

impl Observer for Until {
    fn before(&mut self, hart: &Hart, _: u64, _: &Inst) -> bool {
        let passed = std::mem::take(&mut self.passed);
        let meant = self.position.hart.is_none_or(|id| id == hart.id());
        passed || !meant || hart.now() < self.position.time
    }
}

/// Runs `machine` to a position and records its history. `Ok` if it is there, or was ended by the
/// host program before, or cannot continue.
pub fn run_to(
    position: Position,
    machine: &mut Machine,
    history: &mut History,
    host: &mut dyn Host,
) -> Result<(), Outcome> {
    history.begin(machine);
    let ahead = machine.config().quantum.saturating_mul(QUANTA);
    let near = position.time.saturating_sub(ahead.saturating_add(BLOCK));
    let mut until = Until {
        position,
        passed: false,
    };
    while host.poll(machine) && machine.now() < host.end() {
        history.follow(machine);
        let far = machine.now() < near;
        let limits = Limits {
            until: if far { near } else { u64::MAX }.min(host.end()),
            instret: machine.instret().saturating_add(SLICE),
        };
        let other = host.observer();
        let outcome = if far {
            machine.run_observed(&limits, other)
        } else {
            let mut both = Both {
                first: &mut until,
                other,
            };
            machine.run_observed(&limits, Some(&mut both))
        };
        match outcome {
            Outcome::Observer(hart) if machine.harts()[hart].now() >= position.time => {
                return Ok(());
            }
            Outcome::Observer(_) => until.passed = true,
            Outcome::Limit | Outcome::Idle => {}
            outcome => return Err(outcome),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_written_as_logs_print_them() {
        let parsed = |text: &str| text.parse::<Position>().ok();
        let at = |time, hart| Some(Position { time, hart });
        assert_eq!(parsed("1250347:0"), at(1_250_347, Some(0)));
        assert_eq!(parsed("1.5s"), at(1_500_000_000, None));
        assert_eq!(parsed("2s:3"), at(2_000_000_000, Some(3)));
        for wrong in ["", "soon", "-1", "1.5", "1:", "1:x", "infs", "nans"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
