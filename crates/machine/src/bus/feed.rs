//! Interrupt inputs with delays between harts whose local times differ.
//!
//! Harts take turns, so that the local time of a hart can be behind that of the hart that
//! interrupts it. It must not see the interrupt before its own time reaches the time at which it
//! was sent. The interrupt architecture has only one state, the latest; a feed queues changes that
//! its hart may not see yet.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use trapless_intc::Lines;

/// Levels by `mip` bit and guest external interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Inputs {
    level: u64,
    hgeip: u64,
}

impl Inputs {
    fn of(lines: &Lines) -> Self {
        Self {
            level: lines.level,
            hgeip: lines.hgeip,
        }
    }

    fn xor(self, other: Self) -> Self {
        Self {
            level: self.level ^ other.level,
            hgeip: self.hgeip ^ other.hgeip,
        }
    }

    /// `self` with the bits of `mask` taken from `other`.
    fn with(self, mask: Self, other: Self) -> Self {
        Self {
            level: self.level & !mask.level | other.level & mask.level,
            hgeip: self.hgeip & !mask.hgeip | other.hgeip & mask.hgeip,
        }
    }
}

/// A change made at a time that this hart has not reached.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Change {
    time: u64,
    changed: Inputs,
    before: Inputs,
    pulse: u64,
    arrived: u64,
}

/// The inputs of one hart.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Feed {
    /// Local time of the hart when it last stopped running.
    pub now: u64,
    /// The inputs changed since the hart last read them.
    pub dirty: bool,
    /// What the architecture drove when it was last queried, and the time of that query.
    seen: Inputs,
    seen_at: u64,
    /// In the order in which the changes were made, which may differ from that of their times.
    queue: VecDeque<Change>,
}

impl Feed {
    /// Time of the last query of the architecture.
    pub fn seen_at(&self) -> u64 {
        self.seen_at
    }

    /// The inputs changed at `time`; for [`seen_at`](Self::seen_at) the architecture now drives
    /// `lines`.
    pub fn change(&mut self, lines: &Lines, time: u64) {
        let inputs = Inputs::of(lines);
        let changed = inputs.xor(self.seen);
        if changed == Inputs::default() && lines.pulse | lines.arrived == 0 {
            // A deadline may have moved: the hart must read its inputs again.
            self.dirty = true;
            return;
        }
        self.queue.push_back(Change {
            time,
            changed,
            before: self.seen,
            pulse: lines.pulse,
            arrived: lines.arrived,
        });
        self.seen = inputs;
        self.dirty = true;
    }

    /// What the hart may see at `now`, for which the architecture drives `lines`.
    pub fn lines(&mut self, mut lines: Lines, now: u64) -> Lines {
        self.seen = Inputs::of(&lines);
        self.seen_at = now;
        self.dirty = false;
        if self.queue.is_empty() {
            return lines;
        }
        self.queue.retain(|change| {
            if change.time <= now {
                lines.pulse |= change.pulse;
                lines.arrived |= change.arrived;
            }
            change.time > now
        });
        let mut inputs = self.seen;
        for change in self.queue.iter().rev() {
            inputs = inputs.with(change.changed, change.before);
            lines.deadline = lines.deadline.min(change.time);
        }
        lines.level = inputs.level;
        lines.hgeip = inputs.hgeip;
        lines
    }

    /// Drops queued changes of the level inputs of `mask`, which have another meaning now.
    pub fn forget(&mut self, mask: u64) {
        self.dirty = true;
        for change in &mut self.queue {
            change.changed.level &= !mask;
            change.arrived &= !mask;
        }
    }

    /// Earliest time at which a waiting hart must read its inputs again because another hart or a
    /// device changed them; `u64::MAX`: none.
    pub fn wake_time(&self) -> u64 {
        match self.queue.iter().map(|change| change.time).min() {
            Some(time) => time.max(self.now),
            None if self.dirty => self.now,
            None => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_intc::aclint_plic::{ACLINT_BASE, AclintPlic, Config, SSWI_BASE};
    use trapless_intc::{Effects, InterruptArchitecture, MmioAccess};
    use trapless_isa::Mode;

    const MSIP1: u64 = ACLINT_BASE + 4;
    const MTIMECMP1: u64 = ACLINT_BASE + 0x4008;

    /// Hart 1 with its inputs, and the architecture that drives them.
    struct World {
        arch: AclintPlic,
        feed: Feed,
    }

    impl World {
        fn new() -> Self {
            let config = Config {
                harts: 2,
                cycles_per_tick: 100,
                sswi: true,
                edge_triggered: 0,
            };
            Self {
                arch: AclintPlic::new(config),
                feed: Feed::default(),
            }
        }

        fn store(&mut self, hart: usize, now: u64, addr: u64, size: u8, value: u64) {
            let access = MmioAccess {
                hart,
                mode: Mode::M,
                now,
                addr,
                size,
            };
            let mut effects = Effects::default();
            self.arch.store(&access, value, &mut effects).unwrap();
            assert_eq!(effects.changed, 1 << 1);
            if hart != 1 {
                let lines = self.arch.lines(1, self.feed.seen_at());
                self.feed.change(&lines, now);
            }
        }

        fn lines(&mut self, now: u64) -> Lines {
            self.feed.lines(self.arch.lines(1, now), now)
        }
    }

    #[test]
    fn interrupt_from_the_future_waits_for_its_time() {
        let mut w = World::new();
        assert_eq!(w.lines(100).level, 0);
        w.store(0, 500, MSIP1, 4, 1);
        assert_eq!(w.feed.wake_time(), 500);
        let early = w.lines(499);
        assert_eq!((early.level, early.deadline), (0, 500));
        assert_eq!(w.lines(500).level, 1 << 3);
        assert_eq!(w.feed.wake_time(), u64::MAX);
    }

    #[test]
    fn withdrawn_interrupt_stays_high_until_its_time() {
        let mut w = World::new();
        w.lines(0);
        for (time, value) in [(200, 1), (300, 0)] {
            w.store(0, time, MSIP1, 4, value);
        }
        let levels: Vec<u64> = [100, 200, 299, 300]
            .map(|t| w.lines(t).level >> 3 & 1)
            .into();
        assert_eq!(levels, [0, 1, 1, 0]);
    }

    #[test]
    fn pulse_is_handed_over_once_and_in_time() {
        let mut w = World::new();
        w.store(0, 700, SSWI_BASE + 4, 4, 1);
        let pulses: Vec<u64> = [600, 800, 900].map(|t| w.lines(t).pulse).into();
        assert_eq!(pulses, [0, 2, 0]);
    }

    #[test]
    fn own_timer_is_not_delayed_by_a_change_from_outside() {
        let mut w = World::new();
        w.store(1, 0, MTIMECMP1, 8, 3);
        w.lines(0);
        w.store(0, 900, MSIP1, 4, 1);
        let lines = w.lines(100);
        assert_eq!((lines.level, lines.deadline), (0, 300));
        assert_eq!(w.lines(300).level, 1 << 7);
        assert_eq!(w.lines(900).level, 1 << 7 | 1 << 3);
    }
}
