//! Deferred reporting of guest `stimecmp` writes that compiled code only notes.
//!
//! A write is noted if neither the old value nor the new one is due before the run loop attends
//! next: then it only changes the register and the ledger's count of writes. Everything else that
//! depends on it is updated before that can be observed, when compiled code returns or calls a
//! helper.

use trapless_isa::Mode;
use trapless_ledger::event::{TimerSet, TimerSets};

use crate::hart::Hart;
use crate::platform::Platform;

/// A block may run past the end of a slice; no block costs this many cycles.
const MARGIN: u64 = 1 << 24;

impl Hart {
    /// Sets the range of compare values that are noted.
    #[inline]
    pub(crate) fn prepare_timer(&mut self) {
        self.state.timer.floor = u64::MAX;
        if self.mode == Mode::VS && self.inputs.sums_timer_sets() && self.writes_vstimecmp() {
            self.allow_noting();
        }
    }

    fn allow_noting(&mut self) {
        let per_tick = self.config.cycles_per_tick;
        if self.timers.noted.end != self.turn.end {
            let end = self.turn.end.saturating_add(MARGIN);
            self.timers.noted.end = self.turn.end;
            self.timers.noted.ticks = (self.time(), end / per_tick + 1);
        }
        let (now, end) = self.timers.noted.ticks;
        let guest = now.wrapping_add(self.csr.htimedelta);
        // Last tick whose time in cycles can be represented.
        let last = (u64::MAX - 1) / per_tick;
        let (Some(floor), Some(ceiling)) = (
            guest.checked_add(end - now),
            guest.checked_add((last - now) + 1),
        ) else {
            // The guest's clock wraps around.
            return;
        };
        self.state.timer.floor = floor;
        self.state.timer.ceiling = ceiling;
    }

    /// Records the writes that compiled code has noted.
    #[inline]
    pub(crate) fn record_noted_timer(&mut self, plat: &mut dyn Platform) {
        if self.state.timer.writes != 0 {
            self.record_timer_writes(plat);
        }
    }

    #[cold]
    fn record_timer_writes(&mut self, plat: &mut dyn Platform) {
        let noted = &mut self.state.timer;
        let (writes, armed) = (noted.writes, noted.armed);
        (noted.writes, noted.armed) = (0, 0);
        let (first, last) = (noted.first, noted.last);
        let deadline = self.guest_timer_at(last / self.config.cycles_per_tick);
        self.timers.set_guest(deadline);
        self.turn.inputs_change = self.turn.inputs_change.min(deadline);
        plat.record_timer_sets(&TimerSets {
            first,
            writes,
            armed,
            last: TimerSet {
                time: last,
                hart: self.id,
                mode: self.mode,
                guest: self.guest(),
                deadline,
            },
        });
    }
}
