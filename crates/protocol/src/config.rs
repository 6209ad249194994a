//! What to check: size, features, variant of the rules, mutation.

/// Which rules govern `CTL.ON`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnRules {
    /// The first draft: attach and detach clear `ON`; the handler clears it for a vCPU that blocks
    /// and leaves it set for one that is preempted.
    Draft,
    /// The specification: attach and detach keep `ON`; the handler clears it always, makes
    /// PREEMPTED and HALTED STOPPED (no further notification until the next attach), and wakes
    /// whatever `KIND` says.
    #[default]
    Strict,
    /// The handler of `Strict` on a controller of `Draft`: the step between the two.
    StrictHandler,
}

/// A rule broken or left out on purpose; `mutations.rs` says what must come of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mutation {
    /// Hardware: a post looks the slots up before it writes the file.
    LookupBeforePost,
    /// Hardware: attach reads the file before the slot is visible.
    AttachReadsFirst,
    /// Hardware: detach checks for pending interrupts before the slot disappears.
    DetachRechecksFirst,
    /// Hardware: detach does not check for pending interrupts.
    DetachWithoutRecheck,
    /// Hardware: the state written by detach becomes visible after the instruction has completed.
    DetachStateLate,
    /// Hardware: detach completes before its notification is queued.
    DetachNotifiesLate,
    /// Hardware: neither attach nor detach clears `ON` (the rules `Strict` say so themselves).
    OnKeptWhileLoaded,
    /// Hardware: step 4 sets `ON` in any state.
    OnSetAlways,
    /// Hardware: the update of `CTL` comes before the lookup.
    OnBeforeLookup,
    /// Hardware: the poke sets the pending bit of the hart instead of making it read the file.
    PokeWithPayload,
    /// Hardware: a guest's clearing of SSIP is not atomic with respect to reading the file again.
    ClearInTwoSteps,
    /// Hardware: writing `hnqbase` drops what was queued after the drain, and nobody scans.
    QueueDroppedOnDisable,
    /// Hardware: a full queue drops without reporting it.
    OverflowUnreported,
    /// Hardware: a queue is chosen, and stored into later, though it has been closed meanwhile.
    QueueChosenThenStored,
    /// Hardware: `ON` is cleared again if no queue is open.
    OnClearedUnheard,
    /// Hardware: whether the source is enabled is read before the post.
    DeliverabilityEarly,
    /// Hardware: a hart reads its file for two pokes at a time.
    PokesOverlap,
    /// Host: a queue is counted as open before posts that found it closed have completed.
    OpenWithoutSync,
    /// Host: nobody looks at the vCPUs when the first queue is opened.
    OpenWithoutScan,
    /// Host: queues of harts that fall asleep are counted as open.
    SleepNotCounted,
    /// Host: the work after an overflow takes vCPUs of which no notification is outstanding, too.
    ScanTakesAll,
    /// Host: EVAL after a change of a priority does not wait for posts that use the former one.
    EvalWithoutSync,
    /// Host: the handler clears `ON` after waking the thread.
    HandlerClearsLate,
    /// Host: the handler does not clear `ON`.
    HandlerKeepsOn,
    /// Host: the handler leaves HALTED as it is, so that each further post notifies again.
    HandlerKeepsHalted,
    /// Host: the handler wakes for WAKE only.
    HandlerTrustsKind,
    /// Host: a vCPU that blocks is always left HALTED, even if its file holds what `vsie` masks.
    BlocksHalted,
    /// Host: what arrives at V=0 is not handled (`hie.VSSIE` and `VSEIE` stay clear).
    LatchIgnored,
    /// Host: `TASK_INTERRUPTIBLE` is set after looking at the file.
    InterruptibleLate,
    /// Host: the thread may run elsewhere before `hifmap` has been written.
    MigrateBeforeDetach,
}

/// A set of mutations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mutations(u32);

impl Mutations {
    /// These.
    pub const fn of(all: &[Mutation]) -> Self {
        let mut set = 0;
        let mut i = 0;
        while i < all.len() {
            set |= 1 << all[i] as u8;
            i += 1;
        }
        Self(set)
    }

    /// This one is among them.
    pub const fn has(self, mutation: Mutation) -> bool {
        self.0 >> mutation as u8 & 1 == 1
    }

    /// None.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Optional parts of the model; each multiplies the number of states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// External interrupts beside software interrupts.
    pub external: bool,
    /// Guests enable and disable their source (implies `external`).
    pub enables: bool,
    /// Guests raise and lower their threshold (implies `external`).
    pub threshold: bool,
    /// The host changes the priorities of sources (implies `external`).
    pub priority: bool,
    /// A hart reads its file word by word.
    pub words: bool,
    /// Guests mask and unmask `vsie`.
    pub vsie: bool,
    /// `KVM_RUN` returns to user space (STOPPED).
    pub user: bool,
    /// Harts go off line and come back, all but one at a time.
    pub hotplug: bool,
    /// Harts fall asleep and lose their registers, all of them if they like.
    pub sleep: bool,
    /// The lookup is a read of `CTL`, which holds `STATE` and `HART`, instead of all slots.
    pub directory: bool,
    /// `htlcfg.ANY`: notifications go to any hart.
    pub any: bool,
}

impl Features {
    /// There are sources, not only software interrupts.
    pub(crate) fn sources(&self) -> bool {
        self.external || self.enables || self.threshold || self.priority
    }
}

/// One model.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Harts, 1..=3.
    pub harts: u8,
    /// vCPUs, 1..=3.
    pub vcpus: u8,
    /// Posts in flight at a time, 1..=3.
    pub in_flight: u8,
    /// Posts in all; `None`: no bound.
    pub sends: Option<u8>,
    /// Entries of a queue, 1..=3.
    pub queue: u8,
    /// Optional parts.
    pub features: Features,
    /// Variant of the rules.
    pub rules: OnRules,
    /// Rules broken.
    pub mutations: Mutations,
    /// Check [`BOUNDED`](crate::BOUNDED) though the rules are not `Strict`, which alone promise it.
    pub check_bound: bool,
    /// Take as one step what nobody else can see between (see `merge.rs`).
    pub merge: bool,
    /// Explore one state per class of states that differ in the numbering of harts and vCPUs only.
    pub symmetry: bool,
}

impl Config {
    /// The rules promise that the host is told at most once each time a vCPU is detached.
    pub(crate) fn promises_told_once(&self) -> bool {
        self.rules == OnRules::Strict
    }

    /// Software interrupts only, no bound on sends, as many posts in flight as harts.
    pub fn new(harts: u8, vcpus: u8) -> Self {
        Self {
            harts,
            vcpus,
            in_flight: harts,
            sends: None,
            queue: vcpus,
            features: Features::default(),
            rules: OnRules::default(),
            mutations: Mutations::default(),
            check_bound: false,
            merge: true,
            symmetry: true,
        }
    }
}
