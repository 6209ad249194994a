//! What a back end does with queues, whatever it is and however it waits.

use std::ops::BitOr;
use vhost_user_backend::{VringRwLock, VringT};

/// A chain of the driver's that cannot be served: memory or a queue that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

/// Which drivers want to be interrupted, by their places in [`Wires::calls`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls(u8);

impl Calls {
    /// Nobody.
    pub const NONE: Self = Self(0);
    /// The first, whom a handler in user mode may interrupt itself.
    pub const FIRST: Self = Self(1);
    /// The second.
    pub const SECOND: Self = Self(2);
    /// None, as a driver has broken its queue.
    pub const BROKEN: Self = Self(4);
    /// Serve again: there may be more, of which nobody is notified.
    pub const MORE: Self = Self(8);

    /// These if `wanted`.
    pub fn when(self, wanted: bool) -> Self {
        if wanted { self } else { Self::NONE }
    }

    /// Without `others`.
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether all of `others` are among these.
    pub fn includes(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Calls {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Most requests or frames that are served before drivers are interrupted and others have their
/// turn: a driver can add some as fast as they are served.
pub const TURN: usize = 64;

/// Queues with those who use them. A handler in user mode calls it, which has neither allocations
/// nor system calls.
pub trait Service: Send + 'static {
    /// Serves what drivers have made available, at most [`TURN`] of it. With `rearm` they are asked
    /// to notify of more, unless there is more already ([`Calls::MORE`]).
    ///
    /// # Errors
    /// [`Broken`] if a driver has set up a queue that does not work.
    fn serve(&mut self, rearm: bool) -> Result<Calls, Broken>;
}

/// Runs a service until it is stopped.
pub trait Worker<S>: Send {
    /// An eventfd of its queues was signalled. Returns whether to call it again, when others have
    /// had their turn.
    fn kicked(&mut self) -> bool;
    /// Stops, and returns the service, if it can.
    fn stop(self: Box<Self>) -> Option<S>;
}

/// The queues of a service, for their eventfds.
#[derive(Clone)]
pub struct Wires {
    /// Those whose notifications it is to hear of.
    pub kicks: Vec<VringRwLock>,
    /// Those whose drivers it interrupts, at most two.
    pub calls: Vec<VringRwLock>,
}

impl Wires {
    /// Interrupts the drivers that want it; complains of one that has broken its queue.
    pub fn finish(&self, calls: Calls) {
        if calls.includes(Calls::BROKEN) {
            eprintln!("trapless-backend: the driver has set up a broken queue");
        }
        for (vring, place) in self.calls.iter().zip([Calls::FIRST, Calls::SECOND]) {
            if calls.includes(place) {
                if let Err(e) = vring.signal_used_queue() {
                    eprintln!("trapless-backend: cannot interrupt the guest: {e}");
                }
            }
        }
    }
}
