//! An event in the host: who hears of it, names the hart that is told, masks it and posts it again
//! (`vei_event.c`). All of them hold the event's lock meanwhile.

use super::{Broken, Doorbells, Entry, HARTS, Naming, Old, State, Store};

/// What a hart does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum At {
    /// The guest.
    Guest,
    /// The host.
    Host,
    /// It has taken the event's number from its queue.
    Claimed,
    /// It has found the event of that number: before it has the lock.
    Found,
    /// It has the lock, and `P` is cleared: before the eventfd is signalled.
    Signal,
    /// Before `P` is cleared, if that comes late.
    Ack,
    /// The eventfd is signalled: it has the lock still.
    Signalled,
    /// It is about to sleep, or sleeps.
    Asleep,
    /// It is off line.
    Off,
}

/// The timer of an event that has been throttled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Timer {
    /// Not armed.
    Off,
    /// Armed: the event is masked.
    Armed,
    /// It is unmasked: before the look at `P`.
    Unmasked,
    /// Never armed again.
    Shut,
}

/// A change of the hart that is told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mover {
    /// There is none.
    Idle,
    /// It names a hart.
    Names(Naming),
    /// It has read the entry, to write it with this hart.
    Write(Entry, u8),
    /// Before the look at `P`.
    Named,
}

/// Hart 1 on its way off line and back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Plug {
    /// In use.
    Up,
    /// Its queue is closed, and read until it is empty.
    Drain,
    /// Off line.
    Down,
    /// On line, before its queue is opened.
    Starting,
}

impl State {
    /// Somebody has the lock of the event.
    pub(super) fn locked(&self) -> bool {
        let holds = |at| matches!(at, At::Signal | At::Ack | At::Signalled);
        self.timer == Timer::Unmasked
            || self.scanning
            || self.mover != Mover::Idle
            || self.repost != Store::Free
            || self.harts.iter().any(|h| holds(h.at))
    }

    /// A hart has found the event, under RCU.
    pub(super) fn found(&self) -> bool {
        self.harts.iter().any(|h| h.at == At::Found)
    }

    /// Whether a hart may be named (`kvm_riscv_vei_hears()`).
    fn hears(&self, h: usize) -> bool {
        h == 0 || self.plug == Plug::Up
    }

    /// What was posted to a queue that may be closed is posted again (`vei_repost()`): with the
    /// lock, which is held until that is over.
    fn repost_if_posted(&mut self) {
        self.use_entry();
        if std::mem::take(&mut self.entry.p) {
            self.repost = Store::Post;
        }
    }
}

impl Doorbells {
    pub(super) fn enter(&self, s: &mut State, h: usize) -> Option<()> {
        let hart = &mut s.harts[h];
        if hart.at != At::Host || !hart.open || s.gone.guests {
            return None;
        }
        if std::mem::take(&mut hart.flush) && !self.is(Broken::EnterWithoutFence) {
            hart.old = Old::default();
        }
        hart.at = At::Guest;
        Some(())
    }

    pub(super) fn exit(s: &mut State, h: usize, kicked: bool) -> Option<()> {
        let hart = &mut s.harts[h];
        if hart.at != At::Guest || kicked && !hart.flush {
            return None;
        }
        hart.at = At::Host;
        Some(())
    }

    /// `kvm_riscv_vei_take()`
    pub(super) fn take(s: &mut State, h: usize) -> Option<()> {
        let hart = &mut s.harts[h];
        let idle = matches!(hart.at, At::Guest | At::Host);
        if !idle || hart.queue == 0 && !hart.overflow {
            return None;
        }
        s.scan |= std::mem::take(&mut hart.overflow);
        hart.at = At::Host;
        if hart.queue > 0 {
            hart.queue -= 1;
            hart.at = At::Claimed;
        }
        Some(())
    }

    pub(super) fn handle(&self, s: &mut State, h: usize) -> Option<()> {
        s.harts[h].at = match s.harts[h].at {
            At::Claimed if s.gone.registry => At::Host,
            At::Claimed => {
                s.used |= s.gone.memory;
                At::Found
            }
            At::Found if s.locked() => return None,
            At::Found => self.found(s, h),
            At::Signal => {
                s.signal();
                if self.is(Broken::AckLate) {
                    At::Ack
                } else {
                    At::Signalled
                }
            }
            At::Ack => {
                s.entry.p = false;
                At::Signalled
            }
            At::Signalled if s.mover != Mover::Idle => return None,
            At::Signalled => At::Host,
            At::Guest | At::Host | At::Asleep | At::Off => return None,
        };
        Some(())
    }

    /// `kvm_riscv_vei_told()`, with the lock.
    fn found(&self, s: &mut State, h: usize) -> At {
        s.used |= s.gone.memory;
        if s.gone.live && !self.is(Broken::DeadHandled) {
            return At::Host;
        }
        if self.is(Broken::OthersIgnored) && usize::from(s.entry.hart) != h {
            return At::Host;
        }
        s.use_entry();
        // It has been told twice, or of an event that had this number before.
        if !s.entry.p {
            return At::Host;
        }
        s.posted = false;
        s.entry.p = self.is(Broken::AckLate);
        At::Signal
    }

    /// `vei_move_away()`
    pub(super) fn move_away(&self, s: &mut State, h: usize) -> Option<()> {
        let (to, named) = (HARTS - 1 - h, usize::from(s.entry.hart));
        let may = s.hears(to) || self.is(Broken::DeafNamed);
        if s.harts[h].at != At::Signalled || named != h || !may || s.mover != Mover::Idle {
            return None;
        }
        self.name(s, to as u8, false);
        Some(())
    }

    /// `vei_too_many()`
    pub(super) fn throttle(&self, s: &mut State, h: usize) -> Option<()> {
        let free = s.mover == Mover::Idle || self.is(Broken::MoveWithoutLock);
        if s.harts[h].at != At::Signalled || !free || s.timer == Timer::Shut {
            return None;
        }
        s.use_entry();
        s.entry.m = true;
        s.timer = Timer::Armed;
        Some(())
    }

    /// `vei_resume()`
    pub(super) fn tick(&self, s: &mut State) -> Option<()> {
        s.timer = match s.timer {
            Timer::Off | Timer::Shut => return None,
            Timer::Armed if s.locked() => return None,
            Timer::Armed if s.gone.live => Timer::Off,
            Timer::Armed => {
                s.use_entry();
                s.entry.m = false;
                Timer::Unmasked
            }
            Timer::Unmasked => {
                if !self.is(Broken::UnmaskWithoutRepost) {
                    s.repost_if_posted();
                }
                Timer::Off
            }
        };
        Some(())
    }

    /// `vei_follow()`: threads of the VM may not run any more where it is told.
    pub(super) fn begin_move(&self, s: &mut State, h: usize) -> Option<()> {
        let free = !s.locked() || self.is(Broken::MoveWithoutLock) && s.mover == Mover::Idle;
        if !free || s.gone.live || !s.hears(h) || usize::from(s.entry.hart) == h {
            return None;
        }
        if self.is(Broken::MoveByStore) || self.is(Broken::MoveWithoutLock) {
            s.mover = Mover::Write(s.entry, h as u8);
        } else {
            self.name(s, h as u8, true);
        }
        Some(())
    }

    pub(super) fn go_on_moving(&self, s: &mut State) -> Option<()> {
        s.mover = match s.mover {
            Mover::Idle => return None,
            Mover::Names(naming) => {
                self.go_on_naming(s, naming);
                return Some(());
            }
            Mover::Write(old, hart) => {
                s.use_entry();
                s.entry = Entry { hart, ..old };
                Mover::Named
            }
            Mover::Named => {
                s.repost_if_posted();
                Mover::Idle
            }
        };
        Some(())
    }

    /// `vei_scan()`: a hart that hears is named, and what was posted is posted again.
    pub(super) fn scan(&self, s: &mut State) -> Option<()> {
        if s.scanning {
            if s.mover != Mover::Idle {
                return None;
            }
            s.scanning = false;
            if !self.is(Broken::ScanWithoutRepost) {
                s.repost_if_posted();
            }
        } else if s.scan && s.gone.registry {
            s.scan = false;
        } else if s.scan && !s.locked() {
            s.used |= s.gone.memory;
            s.scan = false;
            s.scanning = !s.gone.live;
            if s.scanning && !s.hears(usize::from(s.entry.hart)) {
                self.name(s, 0, false);
            }
        } else {
            return None;
        }
        Some(())
    }

    pub(super) fn unplug(s: &mut State) -> Option<()> {
        if s.plug != Plug::Up || s.harts[1].at != At::Host {
            return None;
        }
        s.harts[1].open = false;
        s.plug = Plug::Drain;
        Some(())
    }

    pub(super) fn plug(s: &mut State) -> Option<()> {
        if s.plug != Plug::Down {
            return None;
        }
        s.harts[1].at = At::Host;
        s.plug = Plug::Starting;
        Some(())
    }

    pub(super) fn go_on_plugging(&self, s: &mut State) -> Option<()> {
        let idle = s.harts[1].at == At::Host;
        s.plug = match s.plug {
            Plug::Drain if idle && s.harts[1].queue == 0 && !s.harts[1].overflow => {
                s.scan = true;
                s.harts[1].at = At::Off;
                Plug::Down
            }
            Plug::Starting => {
                s.harts[1].open = true;
                s.scan |= !self.is(Broken::OpenWithoutScan);
                Plug::Up
            }
            _ => return None,
        };
        Some(())
    }
}
