//! Stores to a doorbell, posts, and queues.

use super::{At, Broken, Doorbells, ENTRIES, State};

/// A store of the guest, or a post of the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Store {
    /// There is none.
    Free,
    /// No doorbell has answered.
    Exit,
    /// KVM has found the ioeventfd on its bus.
    Bus,
    /// A doorbell has answered; before the operation on the entry.
    Post,
    /// The same of a guest that posts by number (`sgenvei`).
    Number,
    /// It has seen that the entry is valid, too early.
    Valid,
    /// Whom it tells, decided too early.
    Late(Option<u8>),
    /// Before the event is put into the queue of this hart.
    Queue(u8),
}

/// What a hart may use of a doorbell though it has changed, until `HFENCE.GVMA` (VEI-13). It may
/// have read anything at any time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Old {
    /// The leaf.
    pub(super) leaf: bool,
    /// `V` of the doorbell, with the leaf.
    pub(super) page: bool,
}

/// What a store uses of that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Uses {
    /// Nothing.
    Memory,
    /// The old leaf.
    OldLeaf,
    /// The old leaf and the old page.
    OldPage,
    /// No doorbell answers it, as it is an AMO: the ioeventfd does.
    Exit,
    /// It is no store: the guest posts by number.
    Number,
}

/// An entry of the event table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    pub(super) v: bool,
    pub(super) p: bool,
    pub(super) m: bool,
    pub(super) hart: u8,
}

impl Entry {
    /// One that is valid, for hart 0.
    pub(super) fn new() -> Self {
        Self {
            v: true,
            p: false,
            m: false,
            hart: 0,
        }
    }
}

impl State {
    /// Whether posts are under way that a wait for all of them (`hgenvei`=0) waits for: not those
    /// by number, which a guest can begin at any time.
    pub(super) fn answering(&self) -> bool {
        let waits = |s: &Store| matches!(s, Store::Post | Store::Late(_) | Store::Queue(_));
        self.stores.iter().any(waits) || self.repost != Store::Free
    }

    /// Whether posts are under way.
    pub(super) fn posting(&self) -> bool {
        let idle = |s: &Store| matches!(s, Store::Free | Store::Exit | Store::Bus);
        !self.stores.iter().all(idle) || self.repost != Store::Free
    }
}

impl Doorbells {
    /// A doorbell answers, or the hart exits (VEI-5, VEI-6).
    pub(super) fn store(&self, s: &mut State, h: usize, uses: Uses) -> Option<()> {
        let free = s.stores.iter().position(|store| *store == Store::Free)?;
        let hart = s.harts[h];
        let possible = match uses {
            Uses::Memory | Uses::Exit | Uses::Number => true,
            Uses::OldLeaf => hart.old.leaf,
            Uses::OldPage => hart.old.page,
        };
        if hart.at != At::Guest || !possible {
            return None;
        }
        if uses == Uses::Number {
            s.stores[free] = Store::Number;
            return Some(());
        }
        let doorbell = match uses {
            Uses::OldPage => true,
            Uses::Exit | Uses::Number => false,
            Uses::Memory if !s.leaf => false,
            _ => {
                s.used |= s.gone.page;
                s.doorbell
            }
        };
        if doorbell {
            s.use_entry();
        }
        if doorbell && (s.entry.v || self.is(Broken::InvalidAnswers)) {
            s.late |= self.returned(s);
            s.stores[free] = Store::Post;
        } else {
            s.harts[h].at = At::Host;
            s.stores[free] = Store::Exit;
        }
        Some(())
    }

    pub(super) fn advance(&self, s: &mut State, i: usize) -> Option<()> {
        s.stores[i] = match s.stores[i] {
            Store::Free => return None,
            // What is on no bus is for user space.
            Store::Exit if s.gone.bus => Store::Free,
            Store::Exit => Store::Bus,
            Store::Bus => {
                s.used |= s.gone.eventfd;
                Store::Free
            }
            store => {
                // A post to an entry that is not valid does nothing (VEI-8). A guest that posts by
                // number may come too late; one whose store a doorbell has answered may not.
                let late = store == Store::Number && (!s.entry.v || self.is(Broken::ValidFirst));
                let posts = matches!(store, Store::Post | Store::Number | Store::Late(_));
                s.owed |= posts && !late || store == Store::Valid;
                self.post(s, store)
            }
        };
        Some(())
    }

    pub(super) fn advance_repost(&self, s: &mut State) -> Option<()> {
        if s.repost == Store::Free {
            return None;
        }
        s.repost = self.post(s, s.repost);
        Some(())
    }

    /// Next step of a post (VEI-8, VEI-9).
    fn post(&self, s: &mut State, store: Store) -> Store {
        let notified = (!s.entry.p && !s.entry.m).then_some(s.entry.hart);
        match store {
            Store::Post | Store::Number if self.is(Broken::LookFirst) => {
                s.use_entry();
                Store::Late(notified)
            }
            Store::Number if self.is(Broken::ValidFirst) => {
                if s.entry.v {
                    Store::Valid
                } else {
                    Store::Free
                }
            }
            Store::Post | Store::Number | Store::Valid => {
                // A guest may post any number at any time: what comes too late for one event posts
                // another, as long as the table is there.
                s.used |= s.gone.table;
                if store == Store::Post {
                    s.use_entry();
                }
                if !s.entry.v && store != Store::Valid {
                    return Store::Free;
                }
                s.entry.p = true;
                s.posted = true;
                notified.map_or(Store::Free, Store::Queue)
            }
            Store::Late(notified) => {
                s.entry.p |= s.entry.v;
                notified.map_or(Store::Free, Store::Queue)
            }
            Store::Queue(h) => {
                let hart = &mut s.harts[usize::from(h)];
                if hart.open && hart.queue < ENTRIES {
                    hart.queue += 1;
                } else if hart.open {
                    hart.overflow = true;
                }
                Store::Free
            }
            other => other,
        }
    }
}
