//! An idle state in which hart 1 loses its registers: `vei_sleep()` and `vei_awake()`, and what
//! names a hart, by which it is kept awake or woken up (`kvm_riscv_vei_name()`).

use super::{At, Broken, Doorbells, Mover, Plug, State};

/// Hart 1 on its way to sleep and back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sleep {
    stage: Stage,
    /// What names the hart.
    pub(super) named: u8,
    /// Whoever names it sees that it cannot hear.
    asleep: bool,
    /// An interrupt from another hart wakes it up.
    woken: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Stage {
    #[default]
    Awake,
    /// Nothing named it: before it waits for posts under way.
    Unnamed,
    /// They are over, and its queue is empty: before it is closed.
    Quiet,
    /// It is closed: before that is told.
    Closed,
    /// It is told: before the second look at what names it.
    Told,
    /// It waits for an interrupt.
    Asleep,
    /// Its queue is open again: before that is told.
    Open,
    /// Before the last look at what names it.
    Look,
}

/// A change of the hart that is named.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Naming {
    to: u8,
    /// Steps that are done.
    done: u8,
    /// The affinity has changed: there is a look at `P` in the end.
    looks: bool,
}

impl Sleep {
    /// Hart 1 is named from the beginning, or not.
    pub(super) fn named(named: bool) -> Self {
        Self {
            named: u8::from(named),
            ..Self::default()
        }
    }

    /// It hears nothing, and nobody has woken it up.
    pub(super) fn is_deaf(&self) -> bool {
        self.stage == Stage::Asleep
    }
}

impl Doorbells {
    /// The entry names another hart: in one step, if nobody can look between.
    pub(super) fn name(&self, s: &mut State, to: u8, looks: bool) {
        let naming = Naming { to, done: 0, looks };
        s.mover = Mover::Names(naming);
        if self.sleeps == 0 {
            while matches!(s.mover, Mover::Names(_)) {
                self.go_on_naming(s, naming);
            }
        }
    }

    pub(super) fn go_on_naming(&self, s: &mut State, naming: Naming) {
        let Mover::Names(Naming { done, .. }) = s.mover else {
            return;
        };
        let (to, from) = (naming.to, s.entry.hart);
        s.mover = Mover::Names(Naming {
            done: done + 1,
            ..naming
        });
        match done {
            0 => s.sleep.named += to,
            1 => s.sleep.woken |= to == 1 && s.sleep.asleep && !self.is(Broken::NoWakeUp),
            _ => {
                s.use_entry();
                s.entry.hart = to;
                s.sleep.named -= from;
                s.mover = if naming.looks {
                    Mover::Named
                } else {
                    Mover::Idle
                };
            }
        }
    }

    /// `CPU_PM_ENTER` of hart 1, which refuses if something names it.
    pub(super) fn fall_asleep(s: &mut State) -> Option<()> {
        let awake = s.sleep.stage == Stage::Awake && s.plug == Plug::Up;
        if !awake || s.harts[1].at != At::Host || s.sleep.named > 0 {
            return None;
        }
        s.harts[1].at = At::Asleep;
        s.sleep.stage = Stage::Unnamed;
        Some(())
    }

    /// Another interrupt wakes it up.
    pub(super) fn wake(s: &mut State) -> Option<()> {
        if s.sleep.stage != Stage::Asleep {
            return None;
        }
        s.sleep.woken = true;
        Some(())
    }

    pub(super) fn go_on_sleeping(&self, s: &mut State) -> Option<()> {
        let posts = s.posting() && !self.is(Broken::SleepWithoutSync);
        let hart = &mut s.harts[1];
        let sleep = &mut s.sleep;
        sleep.stage = match sleep.stage {
            Stage::Awake => return None,
            Stage::Unnamed if posts => return None,
            Stage::Unnamed if hart.queue > 0 || hart.overflow => {
                hart.at = At::Host;
                Stage::Awake
            }
            Stage::Unnamed => Stage::Quiet,
            Stage::Quiet => {
                hart.open = false;
                (hart.queue, hart.overflow) = (0, false);
                Stage::Closed
            }
            Stage::Closed => {
                sleep.asleep = true;
                Stage::Told
            }
            Stage::Told if sleep.named > 0 && !self.is(Broken::NoSecondLook) => {
                hart.open = true;
                Stage::Open
            }
            Stage::Told => Stage::Asleep,
            Stage::Asleep if !sleep.woken => return None,
            Stage::Asleep => {
                hart.open = true;
                Stage::Open
            }
            Stage::Open => {
                sleep.asleep = false;
                sleep.woken = false;
                Stage::Look
            }
            Stage::Look => {
                s.scan |= sleep.named > 0 && !self.is(Broken::WakeWithoutScan);
                hart.at = At::Host;
                Stage::Awake
            }
        };
        Some(())
    }
}
