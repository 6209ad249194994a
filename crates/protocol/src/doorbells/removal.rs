//! How a doorbell goes away.

use super::{At, Broken, Doorbells, State, Store, Timer};

/// Why a doorbell goes away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Its ioeventfd is deassigned, and it was the last of its page.
    Last,
    /// The same, but the page has others: its leaf stays.
    Others,
    /// A memory slot hides its page; its event stays.
    Memory,
    /// The VM is destroyed.
    Vm,
}

/// A step of a removal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// No vCPU is left.
    Guests,
    /// The ioeventfd leaves its bus.
    Bus,
    /// `synchronize_srcu()`: exits that have found it are over.
    Srcu,
    /// `V`=0 in the doorbell.
    Doorbell,
    /// The leaf disappears.
    Leaf,
    /// All vCPUs are asked to execute `HFENCE.GVMA`.
    Ask,
    /// Those in the guest have been interrupted.
    Fence,
    /// 0 to `hgenvei` (SYNC): what its doorbell has answered is posted.
    Sync,
    /// `V`=0 in the entry, and the event is not live: both under its lock.
    Invalidate,
    /// Nobody finds the event any more: `xa_erase()` and its lists.
    Registry,
    /// `timer_shutdown_sync()`
    Timer,
    /// `eventfd_signal()` if `P` is 1: what was posted, and nobody has heard of.
    Signal,
    /// The entry may be another event's.
    Entry,
    /// The doorbell page is freed.
    Page,
    /// `eventfd_ctx_put()`
    Eventfd,
    /// `kfree_rcu()` of the event, when the removal has returned.
    Memory,
    /// 0 to `hgenvei` when no guest runs any more: what guests have posted by number is posted.
    Posts,
    /// The table of the VM is freed.
    Table,
}

/// The steps of a removal, in their order.
pub(super) fn steps(way: Way, broken: Option<Broken>) -> Vec<Step> {
    use Step::*;

    let mut steps = match way {
        Way::Last | Way::Others => vec![
            Bus, Srcu, Doorbell, Leaf, Ask, Fence, Sync, Invalidate, Registry, Timer, Signal,
            Entry, Page, Eventfd, Memory, Guests, Posts, Table,
        ],
        Way::Memory => vec![Leaf, Ask, Fence],
        Way::Vm => vec![
            Guests, Bus, Doorbell, Sync, Invalidate, Registry, Timer, Signal, Entry, Eventfd, Leaf,
            Posts, Page, Table, Memory,
        ],
    };
    if way == Way::Others {
        steps.retain(|step| !matches!(step, Leaf | Page));
    }
    let mut before = |moved: &[Step], to: Step| {
        let moved: Vec<Step> = steps.extract_if(.., |step| moved.contains(step)).collect();
        let at = steps.iter().position(|step| *step == to);
        let at = at.unwrap_or(steps.len());
        steps.splice(at..at, moved);
    };
    match broken {
        Some(Broken::FenceFirst) if way == Way::Memory => before(&[Ask, Fence], Leaf),
        Some(Broken::FenceFirst) => before(&[Ask, Fence], Doorbell),
        Some(Broken::FreeFirst) => before(&[Page], Ask),
        Some(Broken::EventfdFirst) => before(&[Signal, Eventfd], Invalidate),
        Some(Broken::NoGracePeriod) => steps.retain(|step| *step != Srcu),
        Some(Broken::NoFence) => steps.retain(|step| !matches!(step, Ask | Fence)),
        Some(Broken::SyncLate) => before(&[Sync], Registry),
        Some(Broken::NoLastSync) => steps.retain(|step| *step != Posts),
        Some(Broken::NoSync) => steps.retain(|step| *step != Sync),
        Some(Broken::StaysRegistered) => steps.retain(|step| *step != Registry),
        Some(Broken::NoLastSignal) => steps.retain(|step| *step != Signal),
        _ => {}
    }
    steps
}

impl Doorbells {
    pub(super) fn go_on_removing(&self, s: &mut State) -> Option<()> {
        let done = s.removal?;
        let step = *self.steps.get(usize::from(done))?;
        if !self.may(s, step) {
            return None;
        }
        self.act(s, step);
        s.removal = Some(done + 1);
        Some(())
    }

    /// Whether a step need not wait.
    fn may(&self, s: &State, step: Step) -> bool {
        let in_guest = |h: &super::Hart| h.at == At::Guest;
        match step {
            Step::Guests => {
                let exits = |store: &Store| matches!(store, Store::Exit | Store::Bus);
                !s.harts.iter().any(in_guest) && !s.stores.iter().any(exits)
            }
            Step::Srcu => !s.stores.contains(&Store::Bus),
            Step::Fence => !s.harts.iter().any(|h| in_guest(h) && h.flush),
            Step::Invalidate => !s.locked(),
            Step::Sync => !s.answering(),
            Step::Posts => !s.posting(),
            // RCU.
            Step::Memory => self.is(Broken::FreedAtOnce) || !s.found(),
            Step::Timer => matches!(s.timer, Timer::Off | Timer::Armed) && s.repost == Store::Free,
            _ => true,
        }
    }

    fn act(&self, s: &mut State, step: Step) {
        match step {
            Step::Guests => s.gone.guests = true,
            Step::Bus => s.gone.bus = true,
            Step::Doorbell => {
                s.doorbell = false;
                s.harts.iter_mut().for_each(|hart| hart.old.page = true);
            }
            Step::Leaf => {
                s.leaf = false;
                for hart in &mut s.harts {
                    hart.old.leaf = true;
                    hart.old.page |= s.doorbell;
                }
            }
            Step::Ask => s.harts.iter_mut().for_each(|hart| hart.flush = true),
            Step::Invalidate => {
                s.entry.v = false;
                s.gone.live = true;
            }
            Step::Registry => s.gone.registry = true,
            Step::Timer => s.timer = Timer::Shut,
            Step::Signal if s.entry.p || self.is(Broken::LastSignalAlways) => {
                s.idle_signal |= !s.posted;
                s.signal();
            }
            Step::Entry => {
                s.gone.entry = true;
                s.sleep.named -= s.entry.hart;
            }
            Step::Page => s.gone.page = true,
            Step::Eventfd => s.gone.eventfd = true,
            Step::Memory => s.gone.memory = true,
            Step::Table => s.gone.table = true,
            Step::Srcu | Step::Fence | Step::Sync | Step::Posts | Step::Signal => {}
        }
    }
}
