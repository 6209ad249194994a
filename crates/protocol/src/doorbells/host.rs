//! The interrupt of an event in the host: `handle_edge_irq()` with the functions of `vei.c`.

use super::{Broken, Doorbells, Entry, HARTS, Naming, Old, State, Store};

/// What a hart does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum At {
    /// The guest.
    Guest,
    /// The host.
    Host,
    /// It has taken the event from its queue.
    Claimed,
    /// `P` is cleared: before the eventfd is signalled.
    Signal,
    /// Before `P` is cleared, if that comes late.
    Ack,
    /// The eventfd is signalled.
    Signalled,
    /// The interrupt came again meanwhile and is unmasked: before the look at `P`.
    Unmasked,
    /// It is about to sleep, or sleeps.
    Asleep,
    /// It is off line.
    Off,
}

/// The interrupt as Linux keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Interrupt {
    pub(super) disabled: bool,
    /// What Linux takes `M` for.
    masked: bool,
    /// It came and was acknowledged, but no handler has been begun for it.
    pending: bool,
    /// Its handler runs.
    running: bool,
}

/// The timer of an event that has been throttled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Timer {
    /// Not armed.
    Off,
    /// Armed: the interrupt is disabled.
    Armed,
    /// The interrupt is enabled and unmasked: before the look at `P`.
    Unmasked,
    /// Before what came while it was disabled is posted again.
    Resend,
    /// Never armed again.
    Shut,
}

/// A change of the affinity.
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

/// A change of the user context, if it masks the event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Aim {
    /// There is none.
    Idle,
    /// `M` is set; what it was before.
    Masked(bool),
    /// Before the look at `P`.
    Unmasked,
}

/// Hart 1 on its way off line and back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Plug {
    /// In use.
    Up,
    /// Its queue is closed, and read until it is empty.
    Drain,
    /// Before its interrupts are moved to others.
    Migrate,
    /// Off line.
    Down,
    /// On line, before its queue is opened.
    Starting,
}

impl State {
    fn handling(&self, h: usize) -> bool {
        !matches!(
            self.harts[h].at,
            At::Guest | At::Host | At::Asleep | At::Off
        )
    }

    /// Somebody has the lock of the interrupt, over more than one step.
    pub(super) fn locked(&self) -> bool {
        matches!(self.timer, Timer::Unmasked | Timer::Resend)
            || self.mover != Mover::Idle
            || self.harts.iter().any(|h| h.at == At::Unmasked)
    }

    /// The host posts: one at a time, and goes on when that is over.
    fn repost(&mut self) -> Option<()> {
        if self.repost != Store::Free {
            return None;
        }
        self.repost = Store::Post;
        Some(())
    }

    /// What was posted to a queue that may be closed is posted again (`vei_repost()`).
    fn repost_if_posted(&mut self) -> Option<()> {
        self.use_entry();
        if self.entry.p {
            self.repost()?;
            self.entry.p = false;
        }
        Some(())
    }

    fn mask(&mut self) {
        self.use_entry();
        if !std::mem::replace(&mut self.irq.masked, true) {
            self.entry.m = true;
        }
    }

    fn unmask(&mut self) {
        self.use_entry();
        self.irq.masked = false;
        self.entry.m = false;
    }

    /// No handler is begun any more.
    pub(super) fn shut_interrupt(&mut self) {
        self.gone.handler = true;
        self.irq.disabled = true;
        self.mask();
    }

    /// Handlers have ended.
    pub(super) fn quiescent(&self) -> bool {
        !self.irq.running && self.repost == Store::Free
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
            At::Claimed | At::Signalled if s.locked() => return None,
            At::Claimed => self.claimed(s, h),
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
            At::Signalled if s.irq.pending && !s.irq.disabled => {
                s.irq.pending = false;
                if s.irq.masked {
                    s.unmask();
                    At::Unmasked
                } else {
                    At::Signal
                }
            }
            At::Signalled => {
                s.irq.running = false;
                At::Host
            }
            At::Unmasked => {
                if !self.is(Broken::UnmaskWithoutRepost) {
                    s.repost_if_posted()?;
                }
                At::Signal
            }
            At::Guest | At::Host | At::Asleep | At::Off => return None,
        };
        Some(())
    }

    /// The beginning of `handle_edge_irq()`.
    fn claimed(&self, s: &mut State, h: usize) -> At {
        if s.gone.number {
            s.used |= self.is(Broken::NumberReused);
            return At::Host;
        }
        if self.is(Broken::OthersIgnored) && usize::from(s.entry.hart) != h {
            return At::Host;
        }
        if s.irq.running || s.irq.disabled || s.gone.handler {
            s.irq.pending = true;
            s.mask();
            s.entry.p = false;
            return At::Host;
        }
        s.use_entry();
        s.irq.running = true;
        s.irq.pending = false;
        s.entry.p &= self.is(Broken::AckLate);
        At::Signal
    }

    /// `vei_move_away()`. The other hart may be on its way off line.
    pub(super) fn move_away(&self, s: &mut State, h: usize) -> Option<()> {
        let (to, named) = (HARTS - 1 - h, usize::from(s.entry.hart));
        let possible = to == 0 || matches!(s.plug, Plug::Up | Plug::Drain | Plug::Migrate);
        if s.harts[h].at != At::Signalled
            || named != h
            || !possible
            || s.locked() && self.sleeps > 0
        {
            return None;
        }
        self.name(s, to as u8, false);
        Some(())
    }

    /// `vei_too_many()`
    pub(super) fn throttle(s: &mut State, h: usize) -> Option<()> {
        if s.harts[h].at != At::Signalled || s.irq.disabled || s.locked() {
            return None;
        }
        s.irq.disabled = true;
        s.mask();
        if s.timer == Timer::Off {
            s.timer = Timer::Armed;
        }
        Some(())
    }

    /// `vei_resume()`: `enable_irq()`.
    pub(super) fn tick(&self, s: &mut State) -> Option<()> {
        s.timer = match s.timer {
            Timer::Off | Timer::Shut => return None,
            Timer::Armed if s.locked() => return None,
            Timer::Armed => {
                s.irq.disabled = false;
                s.unmask();
                Timer::Unmasked
            }
            Timer::Unmasked => {
                if !self.is(Broken::UnmaskWithoutRepost) {
                    s.repost_if_posted()?;
                }
                Timer::Resend
            }
            Timer::Resend => {
                if s.irq.pending {
                    s.repost()?;
                    s.irq.pending = false;
                }
                Timer::Off
            }
        };
        Some(())
    }

    /// `vei_set_affinity()`
    pub(super) fn begin_move(&self, s: &mut State, h: usize) -> Option<()> {
        let online = s.harts[h].at != At::Off;
        if s.locked() || s.gone.number || !online || usize::from(s.entry.hart) == h {
            return None;
        }
        if self.is(Broken::MoveByStore) {
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
                s.repost_if_posted()?;
                Mover::Idle
            }
        };
        Some(())
    }

    /// `vei_scan()`
    pub(super) fn scan(s: &mut State) -> Option<()> {
        if s.scanning {
            s.repost_if_posted()?;
            s.scanning = false;
        } else if s.scan && s.aim == Aim::Idle {
            s.scan = false;
            s.scanning = !s.gone.registry;
        } else {
            return None;
        }
        Some(())
    }

    /// `vei_aim()`, but for the address of the context: [`contexts`](crate::contexts) has that. If
    /// it leaves `M` alone, it does no more than a look at all events.
    pub(super) fn aim(&self, s: &mut State) -> Option<()> {
        let busy = s.aim != Aim::Idle || s.scanning || s.gone.registry;
        if busy || !self.is(Broken::AimMasks) {
            return None;
        }
        s.aim = Aim::Masked(s.entry.m);
        s.entry.m = true;
        Some(())
    }

    pub(super) fn go_on_aiming(s: &mut State) -> Option<()> {
        s.aim = match s.aim {
            Aim::Idle => return None,
            Aim::Masked(old) => {
                s.entry.m &= old;
                Aim::Unmasked
            }
            Aim::Unmasked => {
                s.repost_if_posted()?;
                Aim::Idle
            }
        };
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
                Plug::Migrate
            }
            // All other harts have stopped, with interrupts disabled.
            Plug::Migrate if idle && !s.handling(0) && !s.locked() => {
                s.harts[1].at = At::Off;
                if s.entry.hart == 1 && !s.gone.handler {
                    self.name(s, 0, true);
                }
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
