//! How a doorbell goes away.

use super::{Aim, At, Broken, Doorbells, State, Store, Timer};

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
    /// `idr_remove()` under the mutex of looks at all events.
    Registry,
    /// `V`=0 in the entry.
    Invalidate,
    /// 0 to `hgenvei` (SYNC).
    Sync,
    /// `timer_shutdown_sync()`
    Timer,
    /// `free_irq()`: no handler is begun.
    Interrupt,
    /// `free_irq()`: handlers have ended.
    Handlers,
    /// `irq_dispose_mapping()`
    Mapping,
    /// `eventfd_signal()`: for whatever was posted and has not been handled.
    Signal,
    /// The entry may be another event's.
    Entry,
    /// The doorbell page is freed.
    Page,
    /// `eventfd_ctx_put()`
    Eventfd,
}

/// The steps of a removal, in their order.
pub(super) fn steps(way: Way, broken: Option<Broken>) -> Vec<Step> {
    use Step::*;

    let mut steps = match way {
        Way::Last | Way::Others => vec![
            Bus, Srcu, Doorbell, Leaf, Ask, Fence, Registry, Invalidate, Sync, Timer, Interrupt,
            Handlers, Mapping, Signal, Entry, Page, Eventfd,
        ],
        Way::Memory => vec![Leaf, Ask, Fence],
        Way::Vm => vec![
            Guests, Bus, Doorbell, Registry, Invalidate, Sync, Timer, Interrupt, Handlers, Mapping,
            Signal, Entry, Eventfd, Leaf, Sync, Page,
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
        Some(Broken::EventfdFirst) => before(&[Signal, Eventfd], Interrupt),
        Some(Broken::NoGracePeriod) => steps.retain(|step| *step != Srcu),
        Some(Broken::NoFence) => steps.retain(|step| !matches!(step, Ask | Fence)),
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
        if !Self::may(s, step) {
            return None;
        }
        self.act(s, step);
        s.removal = Some(done + 1);
        Some(())
    }

    /// Whether a step need not wait.
    fn may(s: &State, step: Step) -> bool {
        let in_guest = |h: &super::Hart| h.at == At::Guest;
        match step {
            Step::Guests => {
                let exits = |store: &Store| matches!(store, Store::Exit | Store::Bus);
                !s.harts.iter().any(in_guest) && !s.stores.iter().any(exits)
            }
            Step::Srcu => !s.stores.contains(&Store::Bus),
            Step::Fence => !s.harts.iter().any(|h| in_guest(h) && h.flush),
            Step::Registry => !s.scanning && s.aim == Aim::Idle && s.repost == Store::Free,
            Step::Sync => !s.posting(),
            Step::Timer => matches!(s.timer, Timer::Off | Timer::Armed) && s.repost == Store::Free,
            Step::Handlers => s.quiescent(),
            Step::Interrupt => !s.locked(),
            Step::Mapping => !s.locked() && s.repost == Store::Free,
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
            Step::Registry => s.gone.registry = true,
            Step::Invalidate => s.entry.v = false,
            Step::Timer => s.timer = Timer::Shut,
            Step::Interrupt => s.shut_interrupt(),
            Step::Mapping => s.gone.number = true,
            Step::Signal if s.entry.p || !self.is(Broken::LastSignalIfPosted) => s.signal(),
            Step::Entry => {
                s.gone.entry = true;
                s.sleep.named -= s.entry.hart;
            }
            Step::Page => s.gone.page = true,
            Step::Eventfd => s.gone.eventfd = true,
            Step::Srcu | Step::Fence | Step::Sync | Step::Handlers | Step::Signal => {}
        }
    }
}
