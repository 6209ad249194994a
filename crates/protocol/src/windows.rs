//! Messages of a device through a message window: against moves of the vCPU that they interrupt,
//! and against the end of the window, whose number another device gets.
//!
//! ```text
//! device:   data, message; both through the IOMMU, then on their way to memory and window
//! message:  taken, entry, post, lookup, poke; or after a miss: notification if HALTED
//! vCPU:     attach and detach on two harts, claim; then the guest reads the data
//! host:     device quiet, SYNC, look at the file; entry V = 0, SYNC, free; unmap, fence, SYNC, reuse
//! ```

use stateright::{Model, Property};

/// A rule that is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// A message passes data that the device has stored before (ORD-18).
    MessagePassesData,
    /// The lookup is made before the post (ORD-2).
    LookupFirst,
    /// A detach with `HALTED` does not look at the file (SLOT-6).
    DetachWithoutRecheck,
    /// `SYNC` does not wait for messages that windows have taken (ORD-19).
    SyncIgnoresTaken,
    /// The memory is freed before messages that use the old entry have completed (MSG-8).
    FreeWithoutSync,
    /// The entry is changed after the `SYNC` (MSG-8).
    SyncBeforeClose,
    /// The window is used again while stores of the former device are on their way.
    ReuseWithoutFence,
    /// The window is used again while it has taken messages of the former device.
    ReuseWithoutSync,
    /// The fence comes before the translation is removed.
    FenceBeforeUnmap,
}

/// Whose an entry of the window table is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Owner {
    Former,
    Nobody,
    /// Another device, perhaps of another VM.
    Latter,
}

/// A store of the device that the IOMMU has translated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Store {
    Data(u8),
    Message(u8),
}

/// A message that the window has taken; numbers are those of messages, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Taken {
    Entry(u8),
    Post(u8),
    Lookup(u8),
    /// `LookupFirst`: the post comes last, for this hart or none.
    Late(u8, Option<u8>),
    Poke(u8),
    Miss,
}

/// The thread of the vCPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Vcpu {
    /// Off all harts: HALTED; woken once there is a notification.
    Halted,
    /// Runnable.
    Off,
    /// The slot is visible; the file is still to be read.
    Attaching(u8),
    Loaded(u8),
    /// The slot has gone; the file is still to be looked at, if it is to be HALTED.
    Detaching(bool),
}

/// What the host does, in order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum End {
    Alive,
    /// It has seen that the device is quiet.
    Quiet,
    /// It has executed SYNC, and trusts the file from here on.
    Saved,
    Closed,
    Synced,
    Freed,
    Unmapped,
    Fenced,
    Reused,
}

/// The whole state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// Messages that the device has sent.
    sent: u8,
    /// Those that it may still send.
    left: u8,
    /// The device has stored the data of its next message.
    prepared: bool,
    mapped: bool,
    on_the_way: Vec<Store>,
    taken: Vec<Taken>,
    entry: Owner,
    /// Data in memory.
    data: u8,
    /// The file: number of the last message that is pending, 0 for none.
    pending: u8,
    /// `vsip.SEIP`.
    shown: bool,
    vcpu: Vcpu,
    /// `STATE` in the file is HALTED.
    halted: bool,
    /// `ON`: a notification is queued.
    told: bool,
    /// The last message that the guest has claimed.
    claimed: u8,
    end: End,
    /// The guest has read data older than its message.
    early: bool,
    /// Something was posted to freed memory, to another device's owner, or into a saved file.
    late: bool,
    /// A message was posted while the vCPU was off its harts, and one was dropped.
    seen: [bool; 2],
}

/// One atomic action.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Next store of the device.
    Store,
    /// A store on its way arrives.
    Arrive(usize),
    /// Next step of a message.
    Step(usize),
    /// The vCPU is attached to a hart, or its attach goes on.
    Attach(u8),
    /// Its detach: HALTED or not, or its detach goes on.
    Detach(bool),
    /// The guest claims, and reads the data.
    Claim,
    /// The host takes the notification.
    Notified,
    /// Next step of the end.
    End,
}

/// The model.
pub struct Windows {
    /// Rule that is broken.
    pub broken: Option<Broken>,
    /// Messages that the device sends.
    pub messages: u8,
}

/// What a message has posted is claimed, shown, or told.
pub const HEARD: &str = "each message is heard of";
/// Whoever has claimed sees the data that came before the message.
pub const DATA: &str = "data comes before its message";
/// Nothing is posted after the end, to a stranger, or behind the back of a host that has saved.
pub const ENDED: &str = "nothing is posted after the end";

impl State {
    fn rests(&self) -> bool {
        self.on_the_way.is_empty()
            && self.taken.is_empty()
            && !self.told
            && !matches!(self.vcpu, Vcpu::Attaching(_) | Vcpu::Detaching(_))
    }

    /// Hart whose slot holds the vCPU.
    fn slot(&self) -> Option<u8> {
        match self.vcpu {
            Vcpu::Attaching(hart) | Vcpu::Loaded(hart) => Some(hart),
            _ => None,
        }
    }

    fn post(&mut self, number: u8) {
        self.late |= !matches!(
            self.end,
            End::Alive | End::Quiet | End::Closed | End::Synced
        );
        self.pending = self.pending.max(number);
        self.seen[0] |= self.slot().is_none();
    }

    fn miss(&mut self) {
        self.told |= std::mem::take(&mut self.halted);
    }
}

impl Windows {
    fn has(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn store(&self, s: &mut State) -> Option<()> {
        if s.left == 0 || s.on_the_way.len() > 2 {
            return None;
        }
        let number = s.sent + 1;
        let store = if s.prepared {
            s.sent = number;
            s.left -= 1;
            Store::Message(number)
        } else {
            Store::Data(number)
        };
        s.prepared = !s.prepared;
        if s.mapped {
            s.on_the_way.push(store);
        }
        Some(())
    }

    fn arrive(&self, s: &mut State, index: usize) -> Option<()> {
        let store = *s.on_the_way.get(index)?;
        let passes = self.has(Broken::MessagePassesData) && matches!(store, Store::Message(_));
        if index > 0 && !passes || s.taken.len() > 1 {
            return None;
        }
        s.on_the_way.remove(index);
        match store {
            Store::Data(number) => s.data = number,
            Store::Message(number) => s.taken.push(Taken::Entry(number)),
        }
        Some(())
    }

    fn step(&self, s: &mut State, index: usize) -> Option<()> {
        let next = match *s.taken.get(index)? {
            Taken::Entry(number) => match s.entry {
                Owner::Former if self.has(Broken::LookupFirst) => Some(Taken::Lookup(number)),
                Owner::Former => Some(Taken::Post(number)),
                Owner::Nobody => {
                    s.seen[1] = true;
                    None
                }
                Owner::Latter => {
                    s.late = true;
                    None
                }
            },
            Taken::Post(number) => {
                s.post(number);
                Some(Taken::Lookup(number))
            }
            Taken::Lookup(number) if self.has(Broken::LookupFirst) => {
                Some(Taken::Late(number, s.slot()))
            }
            Taken::Lookup(_) => Some(s.slot().map_or(Taken::Miss, Taken::Poke)),
            Taken::Late(number, hart) => {
                s.post(number);
                Some(hart.map_or(Taken::Miss, Taken::Poke))
            }
            Taken::Poke(hart) => {
                // It reads the file of the vhart that the slot holds by then.
                if s.slot() == Some(hart) {
                    s.shown = s.pending != 0;
                }
                None
            }
            Taken::Miss => {
                s.miss();
                None
            }
        };
        match next {
            Some(next) => s.taken[index] = next,
            None => drop(s.taken.remove(index)),
        }
        Some(())
    }

    fn attach(s: &mut State, hart: u8) -> Option<()> {
        s.vcpu = match s.vcpu {
            Vcpu::Off => {
                s.halted = false;
                Vcpu::Attaching(hart)
            }
            Vcpu::Attaching(on) if on == hart => {
                s.shown = s.pending != 0;
                Vcpu::Loaded(on)
            }
            _ => return None,
        };
        Some(())
    }

    fn detach(&self, s: &mut State, halted: bool) -> Option<()> {
        s.vcpu = match s.vcpu {
            // It waits only if it has nothing to take.
            Vcpu::Loaded(_) if !halted || !s.shown => {
                s.shown = false;
                Vcpu::Detaching(halted)
            }
            Vcpu::Detaching(false) if !halted => Vcpu::Off,
            Vcpu::Detaching(true) if halted && !s.halted => {
                s.halted = true;
                Vcpu::Detaching(true)
            }
            Vcpu::Detaching(true) if halted => {
                if s.pending != 0 && !self.has(Broken::DetachWithoutRecheck) {
                    s.miss();
                }
                Vcpu::Halted
            }
            _ => return None,
        };
        Some(())
    }

    /// SYNC completes once the messages that it must wait for have.
    fn synced(&self, s: &State) -> bool {
        self.has(Broken::SyncIgnoresTaken) || s.taken.is_empty()
    }

    fn end(&self, s: &mut State) -> Option<()> {
        // IOFENCE.C, then SYNC: stores that were translated have arrived, and messages completed.
        let done = |s: &State| s.taken.is_empty() || self.has(Broken::ReuseWithoutSync);
        let quiet = |s: &State| s.on_the_way.is_empty() && done(s);
        let fenced = |s: &State| quiet(s) || self.has(Broken::ReuseWithoutFence);
        s.end = match s.end {
            End::Alive if s.left > 0 => {
                // It ends while the device is busy.
                self.close(s);
                End::Closed
            }
            End::Alive if s.on_the_way.is_empty() => End::Quiet,
            End::Quiet if self.synced(s) => End::Saved,
            End::Saved => {
                self.close(s);
                End::Closed
            }
            End::Closed => {
                let old = s
                    .taken
                    .iter()
                    .any(|taken| !matches!(taken, Taken::Entry(_)));
                if old && !self.has(Broken::FreeWithoutSync) {
                    return None;
                }
                End::Synced
            }
            End::Synced => {
                s.entry = Owner::Nobody;
                (s.pending, s.shown, s.told) = (0, false, false);
                End::Freed
            }
            End::Freed => {
                if self.has(Broken::FenceBeforeUnmap) && !fenced(s) {
                    return None;
                }
                s.mapped = self.has(Broken::FenceBeforeUnmap);
                End::Unmapped
            }
            End::Unmapped if self.has(Broken::FenceBeforeUnmap) => {
                s.mapped = false;
                End::Fenced
            }
            End::Unmapped if fenced(s) => End::Fenced,
            End::Fenced => {
                s.entry = Owner::Latter;
                End::Reused
            }
            _ => return None,
        };
        Some(())
    }

    fn close(&self, s: &mut State) {
        if !self.has(Broken::SyncBeforeClose) {
            s.entry = Owner::Nobody;
        }
    }
}

impl Model for Windows {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            sent: 0,
            left: self.messages,
            prepared: false,
            mapped: true,
            on_the_way: Vec::new(),
            taken: Vec::new(),
            entry: Owner::Former,
            data: 0,
            pending: 0,
            shown: false,
            vcpu: Vcpu::Off,
            halted: false,
            told: false,
            claimed: 0,
            end: End::Alive,
            early: false,
            late: false,
            seen: [false; 2],
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([
            Action::Store,
            Action::Arrive(0),
            Action::Arrive(1),
            Action::Step(0),
            Action::Step(1),
            Action::Attach(0),
            Action::Attach(1),
            Action::Detach(true),
            Action::Detach(false),
            Action::Claim,
            Action::Notified,
            Action::End,
        ]);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut s = last.clone();
        match action {
            Action::Store => self.store(&mut s)?,
            Action::Arrive(index) => self.arrive(&mut s, index)?,
            Action::Step(index) => self.step(&mut s, index)?,
            Action::Attach(hart) => Self::attach(&mut s, hart)?,
            Action::Detach(halted) => self.detach(&mut s, halted)?,
            Action::Claim => {
                if !matches!(s.vcpu, Vcpu::Loaded(_)) || !s.shown {
                    return None;
                }
                let taken = std::mem::take(&mut s.pending);
                // Messages that are carried out together may be in another order.
                s.claimed = s.claimed.max(taken);
                s.shown = false;
                s.early |= s.data < taken;
            }
            Action::Notified => {
                // Whoever wakes a thread that is on its way off a hart waits for that.
                if matches!(s.vcpu, Vcpu::Detaching(_)) || !std::mem::take(&mut s.told) {
                    return None;
                }
                if s.vcpu == Vcpu::Halted {
                    s.vcpu = Vcpu::Off;
                }
            }
            Action::End => self.end(&mut s)?,
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(HEARD, |_, s: &State| {
                if !s.rests() || !matches!(s.end, End::Alive | End::Quiet | End::Saved) {
                    return true;
                }
                let last = s.claimed.max(s.pending) == s.sent;
                last && match s.vcpu {
                    Vcpu::Loaded(_) => s.shown == (s.pending != 0),
                    Vcpu::Halted => s.pending == 0,
                    _ => true,
                }
            }),
            Property::always(DATA, |_, s: &State| !s.early),
            Property::always(ENDED, |_, s: &State| !s.late),
            Property::sometimes(
                "a message waits for a vCPU that does not run",
                |_, s: &State| s.seen[0],
            ),
            Property::sometimes("a message is dropped", |_, s: &State| s.seen[1]),
            Property::sometimes("a notification is taken", |_, s: &State| s.told),
            Property::sometimes("the window is used again", |_, s: &State| {
                s.end == End::Reused
            }),
        ]
    }
}
