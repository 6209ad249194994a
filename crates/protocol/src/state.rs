//! State of the model: harts, vCPUs and accesses in flight.

/// Maximum number of harts, vCPUs and posts in flight.
pub const MAX: usize = 3;

/// Kind of interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Kind {
    /// Software interrupt: `CTL.SOFT`, `vsip.SSIP`.
    #[default]
    Soft,
    /// An edge-triggered source of priority above the threshold: a pending bit, `vsip.SEIP`.
    External,
}

/// `CTL.STATE` of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum RunState {
    /// Not scheduled; no notification.
    #[default]
    Stopped,
    /// Could run but does not; the sender's hart is notified.
    Preempted,
    /// Waits for an interrupt; its last hart is notified.
    Halted,
    /// Attached to a hart.
    Loaded,
}

/// State of a vCPU's thread in the host's scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Thread {
    /// On the run queue, on no hart.
    #[default]
    Runnable,
    /// On a hart.
    Running,
    /// `schedule()` has taken it off the run queue but still runs on its hart; a wake-up waits
    /// until the hart has switched away.
    Deactivated,
    /// Sleeps in `kvm_vcpu_block`.
    Asleep,
}

/// State of the hart: the program counter of the vCPU thread on it, or of the host without one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Pc {
    /// No vCPU thread here.
    #[default]
    Idle,
    /// Before the n-th step of writing `hifmap` with V=1 (interrupts off).
    Attach(u8),
    /// Inside `KVM_RUN` at V=0, slot valid.
    Host,
    /// At V=1.
    Guest,
    /// Guest is between clearing `SOFT` in memory and in the slot (mutation `ClearInTwoSteps`
    /// only).
    GuestClear,
    /// `kvm_vcpu_block`, before the thread sets itself to `TASK_INTERRUPTIBLE` (only where that
    /// comes after looking at the file; else it is one step with what precedes it).
    SetInterruptible,
    /// `kvm_vcpu_block`, before `kvm_vcpu_check_block` reads the file.
    CheckBlock,
    /// `kvm_vcpu_block`, before `schedule()`.
    Schedule,
    /// Before the n-th step of writing `hifmap` with V=0 and this state (interrupts off); 4: waits
    /// for step 3 to complete.
    Detach(u8, RunState),
    /// Hot-unplug, or falling asleep: no more threads here; the queue is closed and being emptied.
    Draining,
    /// Hot-unplug: before `hnqbase` is written (mutation `QueueDroppedOnDisable` only).
    Disable,
    /// Off line, or asleep without its registers.
    Offline,
    /// Back: the queue is open, but not counted yet; before SYNC completes.
    Opening,
}

/// Entry of a notification queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Note {
    /// WAKE (true) or YIELD (false).
    pub wake: bool,
    /// vCPU it names.
    pub vcpu: u8,
}

/// Interrupt handler of the host that runs on a hart, on top of [`Pc`], interrupts off.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Handler {
    /// None.
    #[default]
    None,
    /// Notification taken from the queue; before clearing `ON`.
    Clear(Note),
    /// Before waking the thread of the notification.
    Wake(Note),
    /// `hip.VSSIP`/`VSEIP` taken and cleared; before waking the vCPU on this hart.
    Latch,
}

/// One hart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Hart {
    /// `hifmap`: the vCPU in the slot.
    pub slot: Option<u8>,
    /// `vsip.SSIP`, a cache of the file.
    pub ssip: bool,
    /// `vsip.SEIP`, a cache of the file.
    pub seip: bool,
    /// `vsip` was set by an interrupt for another vCPU (only with a mutation).
    pub tainted: bool,
    /// `hip.VSSIP` or `hip.VSEIP`: one arrived at V=0.
    pub latch: bool,
    /// State of the hart.
    pub pc: Pc,
    /// vCPU whose thread is on the hart.
    pub thread: Option<u8>,
    /// Interrupt handler on top.
    pub handler: Handler,
    /// Notification queue, oldest first.
    pub queue: [Option<Note>; MAX],
    /// An entry was dropped since the last read of `hnotify`.
    pub overflow: bool,
}

impl Hart {
    /// Host interrupts can be taken here: V=0, no handler running, not inside attach or detach.
    pub fn interruptible(&self) -> bool {
        self.handler == Handler::None
            && matches!(
                self.pc,
                Pc::Idle
                    | Pc::Host
                    | Pc::SetInterruptible
                    | Pc::CheckBlock
                    | Pc::Schedule
                    | Pc::Draining
            )
    }

    /// Interrupt `NOTIFY_IRQ` is high.
    pub fn notified(&self) -> bool {
        self.queue[0].is_some() || self.overflow
    }

    /// `hnqbase.EN`.
    pub fn queue_enabled(&self) -> bool {
        !matches!(self.pc, Pc::Draining | Pc::Offline)
    }

    /// The slot is valid and attaching is complete.
    pub fn attached(&self) -> bool {
        matches!(
            self.pc,
            Pc::Host | Pc::Guest | Pc::SetInterruptible | Pc::CheckBlock | Pc::Schedule
        )
    }
}

/// Remaining work for a vCPU after an overflow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Scan {
    /// Nothing.
    #[default]
    Done,
    /// Clear `ON`.
    Clear,
    /// Wake it.
    Wake,
    /// Wake it, then check again: it was requested again meanwhile.
    WakeAndRepeat,
}

/// One vCPU: its file, its thread, and state for the properties.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Vcpu {
    /// File: `CTL.SOFT`.
    pub soft: bool,
    /// File: pending bit of the source.
    pub external: bool,
    /// File: enable bit of the source.
    pub enabled: bool,
    /// File: `CTL.ON`.
    pub on: bool,
    /// File: `CTL.STATE`.
    pub state: RunState,
    /// File: `CTL.HART`; kept at 0 where nothing depends on it.
    pub hart: u8,
    /// File: the threshold is at least the priority of the source.
    pub raised: bool,
    /// Source table: the source has priority 0.
    pub weak: bool,
    /// `vsie.SSIE` is clear: the guest masks software interrupts, but not external ones.
    pub masked: bool,
    /// Thread.
    pub thread: Thread,
    /// Thread is inside `kvm_vcpu_block` (`kvm_vcpu_is_blocking`).
    pub blocking: bool,
    /// Thread is in state `TASK_INTERRUPTIBLE`.
    pub waiting: bool,
    /// Woken while [`Thread::Deactivated`].
    pub woken: bool,
    /// Work after an overflow, or after the first queue has been opened.
    pub scan: Scan,
    /// Where the thread continues after the next attach.
    pub resume: Pc,
    /// A notification was decided on since the vCPU was detached, and its state asks for them still
    /// (ghost).
    pub told: bool,
    /// A software interrupt was posted since the guest took one (ghost).
    pub owed_soft: bool,
    /// An external interrupt was posted since the guest took one (ghost).
    pub owed_external: bool,
}

impl Vcpu {
    /// Whether the file would interrupt a guest with open `vsie`.
    pub fn deliverable(&self) -> bool {
        self.soft || self.seip()
    }

    /// Whether the guest would take an interrupt (`kvm_riscv_vcpu_has_interrupts`).
    pub fn has_interrupts(&self) -> bool {
        (self.soft && !self.masked) || self.seip()
    }

    /// Value of `vsip.SEIP` while loaded.
    pub fn seip(&self) -> bool {
        self.external && self.enabled && !self.raised && !self.weak
    }
}

/// Next step of an access in flight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Stage {
    /// No access.
    #[default]
    Free,
    /// Write the file: the entry of the source has been read.
    Write,
    /// Write the file (mutation `LookupBeforePost` only; the lookup hit this hart, if any).
    LatePost(Option<u8>),
    /// Write `CTL` of a detach (mutation `DetachStateLate` only).
    LateState(RunState),
    /// Set `ON` (mutation `OnBeforeLookup` only).
    EarlyOn,
    /// Compare with all slots; with `OnBeforeLookup`, this notification was decided on before.
    Lookup(Option<Decision>),
    /// Make this hart reread its file.
    Poke(u8),
    /// This hart has read `CTL` (with this `SOFT`); before it reads the other words.
    PokeRest(u8, bool),
    /// Read the file: is the posted source enabled, or, for a re-check, anything deliverable?
    Check,
    /// Read the threshold.
    CheckThreshold,
    /// Atomic update of `CTL` that decides on the notification.
    Amo,
    /// Queue this notification. The queues of these harts (a bit for each) have been found closed.
    Queue(Decision, u8),
    /// Store this notification in the queue of a hart that was found open before (mutation
    /// `QueueChosenThenStored` only).
    Store(Decision, u8),
    /// SYNC: wait for posts that use the former entry of the source table.
    Sync,
}

/// Notification that step 4 decided on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Decision {
    /// WAKE at this hart, or at another if its queue is disabled.
    Wake(u8),
    /// YIELD, likewise.
    Yield(u8),
}

/// Access in flight: a post, step 3 of a detach, or an EVAL of the host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Access {
    /// Next stage.
    pub stage: Stage,
    /// vCPU it is for.
    pub target: u8,
    /// The posted interrupt; `None` for a re-check, or if it does not matter any more.
    pub kind: Option<Kind>,
    /// Whether words read so far show that the source is not deliverable.
    pub silent: bool,
}

/// A forbidden observation of a guest or the host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// It took an interrupt that was not posted since the last one it took.
    Duplicate,
    /// It took an interrupt posted to another vCPU.
    WrongTarget,
    /// The host was notified twice of a vCPU that was not attached in between.
    ToldTwice,
    /// The work after an overflow took a vCPU of which no notification was outstanding.
    Disturbed,
}

/// The whole state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct State {
    /// Harts; the first `Config::harts` are used.
    pub harts: [Hart; MAX],
    /// vCPUs; the first `Config::vcpus` are used.
    pub vcpus: [Vcpu; MAX],
    /// Posts in flight; kept sorted, they have no identity.
    pub posts: [Access; MAX],
    /// Step 3 of a detach in flight, by hart; last, the EVAL after a change of the source table.
    pub rechecks: [Access; MAX + 1],
    /// Queues that the host counts as open.
    pub open: u8,
    /// Posts that may still be sent, if bounded.
    pub left: u8,
    /// Sticky.
    pub fault: Fault,
}

impl State {
    /// All accesses in flight.
    pub fn accesses(&self) -> impl Iterator<Item = &Access> {
        self.posts
            .iter()
            .chain(&self.rechecks)
            .filter(|access| access.stage != Stage::Free)
    }

    /// Whether a hart is reading its file word by word.
    pub fn being_read(&self, hart: u8) -> bool {
        let reads = |access: &Access| matches!(access.stage, Stage::PokeRest(h, _) if h == hart);
        self.accesses().any(reads)
    }
}
