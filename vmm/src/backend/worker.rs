//! Ways of waiting for requests.

use crate::backend::requests::{Broken, Requests};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use vhost_user_backend::{VringRwLock, VringT};
use vm_memory::GuestMemoryMmap;

/// Requests whose memory is that of a guest.
pub type GuestRequests = Requests<Arc<GuestMemoryMmap>>;

/// Serves a queue until it is stopped.
pub trait Worker: Send {
    /// The queue's eventfd was signalled.
    fn kicked(&mut self);
    /// Stops, and returns what it has served, if it can.
    fn stop(self: Box<Self>) -> Option<GuestRequests>;
}

/// Interrupts the guest if it wants that; complains of a driver that has broken its queue.
pub fn finish(served: Result<bool, Broken>, vring: &VringRwLock) {
    match served {
        Ok(false) => {}
        Ok(true) => {
            if let Err(e) = vring.signal_used_queue() {
                eprintln!("trapless-backend: cannot interrupt the guest: {e}");
            }
        }
        Err(Broken) => eprintln!("trapless-backend: the driver has set up a broken queue"),
    }
}

/// Serves when the eventfd is signalled, in the thread that waits for that.
pub struct Epoll {
    /// The queue.
    pub requests: GuestRequests,
    /// Its eventfds.
    pub vring: VringRwLock,
}

impl Worker for Epoll {
    fn kicked(&mut self) {
        finish(self.requests.serve(true), &self.vring);
    }

    fn stop(self: Box<Self>) -> Option<GuestRequests> {
        Some(self.requests)
    }
}

/// Looks for requests again and again, in a thread of its own.
pub struct Poll {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    requests: Arc<Mutex<GuestRequests>>,
}

impl Poll {
    /// Begins to look.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn start(requests: GuestRequests, vring: VringRwLock) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let requests = Arc::new(Mutex::new(requests));
        let (stopped, shared) = (Arc::clone(&stop), Arc::clone(&requests));
        let thread = std::thread::Builder::new()
            .name("poll".into())
            .spawn(move || {
                let mut requests = shared.lock().unwrap_or_else(PoisonError::into_inner);
                while !stopped.load(Ordering::Relaxed) {
                    finish(requests.serve(false), &vring);
                    std::hint::spin_loop();
                }
            })?;
        Ok(Self {
            stop,
            thread,
            requests,
        })
    }
}

impl Worker for Poll {
    fn kicked(&mut self) {}

    fn stop(self: Box<Self>) -> Option<GuestRequests> {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        let requests = Arc::try_unwrap(self.requests).ok()?;
        Some(
            requests
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}
