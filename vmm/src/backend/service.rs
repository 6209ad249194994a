//! Interface between the devices of a back end and its ways of waiting.

use std::ops::BitOr;
use vhost_user_backend::{VringRwLock, VringT};

/// A chain of the driver's that cannot be served: its memory or queue does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

/// Drivers to interrupt, by their indices in [`Wires::calls`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls(u8);

impl Calls {
    /// None.
    pub const NONE: Self = Self(0);
    /// The first, which a handler in user mode may interrupt itself.
    pub const FIRST: Self = Self(1);
    /// The second.
    pub const SECOND: Self = Self(2);
    /// None, because a driver's queue is broken.
    pub const BROKEN: Self = Self(4);
    /// Serve again: there may be more, without a notification.
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

/// Maximum number of requests or frames that are served before drivers are interrupted and others
/// have their turn: a driver can add requests as fast as they are served.
pub const TURN: usize = 64;

/// A service of queues. Called by handlers in user mode, so it must use neither allocations nor
/// system calls.
pub trait Service: Send + 'static {
    /// Serves available buffers of drivers, at most [`TURN`]. With `rearm` notifications are
    /// enabled, unless there are more already ([`Calls::MORE`]).
    ///
    /// # Errors
    /// [`Broken`] if a driver's queue is invalid.
    fn serve(&mut self, rearm: bool) -> Result<Calls, Broken>;
}

/// Runs a service until it is stopped.
pub trait Worker<S>: Send {
    /// An eventfd of its queues was signalled. Returns whether to call it again after others have
    /// had their turn.
    fn kicked(&mut self) -> bool;
    /// Stops, and returns the service, if it can.
    fn stop(self: Box<Self>) -> Option<S>;
}

/// The queues of a service, for their eventfds.
#[derive(Clone)]
pub struct Wires {
    /// Eventfds of queues whose notifications it handles.
    pub kicks: Vec<VringRwLock>,
    /// Eventfds of drivers that it interrupts, at most two.
    pub calls: Vec<VringRwLock>,
}

impl Wires {
    /// Interrupts the drivers in `calls`; reports a broken queue.
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
