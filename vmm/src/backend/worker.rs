//! Ways of waiting for notifications.

use crate::backend::cli::{Loop, Waiting};
use crate::backend::service::{Calls, Service, Wires, Worker};
use crate::error::{Error, Result};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Checks that this host supports a way of waiting, before a guest depends on it.
///
/// # Errors
/// [`Error::User`] if it does not.
pub fn check(how: Waiting) -> Result<()> {
    if how.event_loop != Loop::Handler {
        return Ok(());
    }
    #[cfg(target_arch = "riscv64")]
    let result = crate::backend::context::device(how.cpu).map(|_| ());
    #[cfg(not(target_arch = "riscv64"))]
    let result = Err("there are no handlers on this machine");
    result.map_err(|e| Error::user(e.to_string()))
}

/// Starts to run `service`, with the way `how` of waiting.
///
/// # Errors
/// If the thread cannot be created, or KVM has no user contexts.
pub fn start<S: Service>(how: Waiting, service: S, wires: Wires) -> io::Result<Box<dyn Worker<S>>> {
    Ok(match how.event_loop {
        Loop::Epoll => Box::new(Epoll { service, wires }),
        Loop::Poll => Box::new(Poll::start(service, wires)?),
        #[cfg(target_arch = "riscv64")]
        Loop::Handler => Box::new(crate::backend::context::Context::start(
            service, wires, how.cpu,
        )?),
        #[cfg(not(target_arch = "riscv64"))]
        Loop::Handler => return Err(io::Error::other("there are no handlers on this machine")),
    })
}

/// Serves when an eventfd is signalled, in the waiting thread.
struct Epoll<S> {
    service: S,
    wires: Wires,
}

impl<S: Service> Worker<S> for Epoll<S> {
    fn kicked(&mut self) -> bool {
        let calls = self.service.serve(true).unwrap_or(Calls::BROKEN);
        self.wires.finish(calls);
        calls.includes(Calls::MORE)
    }

    fn stop(self: Box<Self>) -> Option<S> {
        Some(self.service)
    }
}

/// Polls in a thread of its own.
struct Poll<S> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    service: Arc<Mutex<S>>,
}

impl<S: Service> Poll<S> {
    fn start(service: S, wires: Wires) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let service = Arc::new(Mutex::new(service));
        let (stopped, shared) = (Arc::clone(&stop), Arc::clone(&service));
        let thread = std::thread::Builder::new()
            .name("poll".into())
            .spawn(move || {
                let mut service = shared.lock().unwrap_or_else(PoisonError::into_inner);
                while !stopped.load(Ordering::Relaxed) {
                    wires.finish(service.serve(false).unwrap_or(Calls::BROKEN));
                    std::hint::spin_loop();
                }
            })?;
        Ok(Self {
            stop,
            thread,
            service,
        })
    }
}

impl<S: Service> Worker<S> for Poll<S> {
    fn kicked(&mut self) -> bool {
        false
    }

    fn stop(self: Box<Self>) -> Option<S> {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        let service = Arc::try_unwrap(self.service).ok()?;
        Some(service.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}
