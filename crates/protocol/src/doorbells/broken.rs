//! Rules of doorbells that are broken on purpose.

/// A rule that is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// A post reads `P`, `M` and `HART` before it sets `P` (VEI-8: one operation).
    LookFirst,
    /// A doorbell answers though its entry is not valid (VEI-6).
    InvalidAnswers,
    /// The handler clears `P` after it has signalled.
    AckLate,
    /// An event is unmasked without a check of `P`.
    UnmaskWithoutRepost,
    /// A look at all events names a hart that hears, and does not look at `P`.
    ScanWithoutRepost,
    /// Another hart is named by a load and a store (VEI-4).
    MoveByStore,
    /// A hart takes an event that is told to another one by now, and leaves it.
    OthersIgnored,
    /// A queue is opened without a scan of all events.
    OpenWithoutScan,
    /// Another hart is named without the event's lock, by a load and a store.
    MoveWithoutLock,
    /// Another hart is named though its queue is closed.
    DeafNamed,
    /// A hart falls asleep though it has been named since it looked.
    NoSecondLook,
    /// It does so while posts are under way, which may be for it.
    SleepWithoutSync,
    /// A hart that sleeps is named without being woken up.
    NoWakeUp,
    /// A hart wakes up without a scan of all events.
    WakeWithoutScan,
    /// A hart enters the guest without the fence that it was asked for.
    EnterWithoutFence,
    /// Exits under way are not waited for before the eventfd goes.
    NoGracePeriod,
    /// The fence comes before what it is for.
    FenceFirst,
    /// There is no fence.
    NoFence,
    /// The doorbell page is freed before the fence.
    FreeFirst,
    /// The entry becomes invalid before the posts of its doorbell are over (VEI-13).
    NoSync,
    /// It becomes invalid first, and posts that find that do nothing.
    SyncLate,
    /// A post looks at `V`, and sets `P` by another operation (VEI-8).
    ValidFirst,
    /// The table is freed while posts by number are under way.
    NoLastSync,
    /// An event that was found is handled without a check that it is live.
    DeadHandled,
    /// An event is freed while somebody has found it, but not looked at it.
    FreedAtOnce,
    /// A look at all events may still find this one.
    StaysRegistered,
    /// The eventfd goes before handlers have ended.
    EventfdFirst,
    /// What is posted when the event goes away is not signalled.
    NoLastSignal,
    /// The eventfd is signalled then, whether `P` is 1 or not.
    LastSignalAlways,
}
