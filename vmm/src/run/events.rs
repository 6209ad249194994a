//! The main thread's event loop: input, signals, back-ends, alarms, and the end of the run.

use crate::devices::input::InputSink;
use crate::devices::locked::Served;
use crate::error::{Error, Result};
use crate::run::outcome::Outcome;
use crate::run::signals::Signals;
use crate::run::stop::Stop;
use crate::terminal::{Escape, EscapeKey, read_input};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::EventFd;

/// Operations of the event loop on the guest as a whole.
pub trait Operator {
    /// SIGUSR1: pause the guest, or resume it.
    fn toggle(&self) {}
    /// SIGUSR2: save the guest and end.
    fn save_and_end(&self) {}
    /// Commands have arrived at the control socket.
    fn commands(&self) {}
}

/// Ignores everything.
impl Operator for () {}

/// Action of [`EventLoop::add`] when its descriptor becomes readable.
pub type Action = Box<dyn Fn() + Send>;

/// The loop. Descriptors are registered once, before it runs.
pub struct EventLoop {
    epoll: Epoll,
    wake: Arc<EventFd>,
    actions: Vec<Action>,
    served: Vec<Arc<dyn Served>>,
    input: Option<Arc<dyn InputSink>>,
    /// The escape key, which begins commands.
    escape: Option<Escape>,
}

const TOKEN_WAKE: u64 = 0;
const TOKEN_STDIN: u64 = 1;
const TOKEN_SIGNAL: u64 = 2;
const TOKEN_CONTROL: u64 = 3;
const TOKEN_ACTION: u64 = 16;
/// How long to wait before offering input again to a guest that does not read.
const INPUT_RETRY: Duration = Duration::from_millis(10);

impl EventLoop {
    /// A loop that `wake` can wake up.
    ///
    /// # Errors
    /// [`Error::Failed`] if the system call fails.
    pub fn new(wake: &Arc<EventFd>) -> Result<Self> {
        let epoll =
            Epoll::new().map_err(|e| Error::failed("cannot create an epoll descriptor", e))?;
        let events = Self {
            epoll,
            wake: Arc::clone(wake),
            actions: Vec::new(),
            served: Vec::new(),
            input: None,
            escape: None,
        };
        events.register(wake.as_raw_fd(), TOKEN_WAKE, EventSet::IN)?;
        Ok(events)
    }

    fn register(&self, fd: RawFd, token: u64, set: EventSet) -> Result<()> {
        self.epoll
            .ctl(ControlOperation::Add, fd, EpollEvent::new(set, token))
            .map_err(|e| Error::failed("cannot watch a descriptor", e))
    }

    /// Calls `action` each time `fd` becomes readable (edge-triggered: unread data is not reported
    /// again).
    ///
    /// # Errors
    /// [`Error::Failed`] if the descriptor cannot be watched.
    pub fn add(&mut self, fd: RawFd, action: Action) -> Result<()> {
        let token = TOKEN_ACTION + self.actions.len() as u64;
        self.actions.push(action);
        self.register(fd, token, EventSet::IN | EventSet::EDGE_TRIGGERED)
    }

    /// Makes the operator handle commands when `fd` becomes readable.
    ///
    /// # Errors
    /// [`Error::Failed`] if the descriptor cannot be watched.
    pub fn control(&mut self, fd: RawFd) -> Result<()> {
        self.register(fd, TOKEN_CONTROL, EventSet::IN)
    }

    /// Polls `device` whenever it is due.
    pub fn serve(&mut self, device: Arc<dyn Served>) {
        self.served.push(device);
    }

    /// Sends standard input to `sink`, except commands after the key `escape`.
    pub fn read_stdin(&mut self, sink: Arc<dyn InputSink>, escape: Option<EscapeKey>) {
        self.input = Some(sink);
        self.escape = escape.map(Escape::new);
    }

    /// Milliseconds until the next alarm, -1 without one.
    fn timeout(&self, input_paused: bool) -> i32 {
        let due = self
            .served
            .iter()
            .filter_map(|device| device.due_in())
            .min();
        let due = due.map(|ns| ns.div_ceil(1_000_000));
        let retry = input_paused.then_some(INPUT_RETRY.as_millis() as u64);
        due.into_iter()
            .chain(retry)
            .min()
            .map_or(-1, |ms| i32::try_from(ms).unwrap_or(i32::MAX))
    }

    /// Runs the loop until a stop is requested.
    ///
    /// # Errors
    /// [`Error::Failed`] if waiting fails.
    pub fn run(
        mut self,
        stop: &Stop,
        signals: &Signals,
        operator: &dyn Operator,
    ) -> Result<Outcome> {
        self.register(signals.as_raw_fd(), TOKEN_SIGNAL, EventSet::IN)?;
        let mut stdin = StdinWatch::new(&self.epoll, self.input.is_some());
        let mut events = [EpollEvent::default(); 16];
        loop {
            if let Some(outcome) = stop.outcome() {
                return Ok(outcome);
            }
            let full = self.input.as_ref().is_some_and(|sink| sink.full());
            stdin.pause(&self.epoll, full);
            let timeout = self.timeout(full && stdin.open);
            let count = match self.epoll.wait(timeout, &mut events) {
                Ok(count) => count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
                Err(e) => return Err(Error::failed("waiting for events failed", e)),
            };
            for event in &events[..count] {
                match event.data() {
                    TOKEN_WAKE => {
                        let _ = self.wake.read();
                    }
                    TOKEN_STDIN => self.stdin_ready(&mut stdin, stop),
                    TOKEN_SIGNAL => match signals.take() {
                        Some(libc::SIGUSR1) => operator.toggle(),
                        Some(libc::SIGUSR2) => operator.save_and_end(),
                        Some(number) => stop.request(Outcome::Signal(number)),
                        None => {}
                    },
                    TOKEN_CONTROL => operator.commands(),
                    token => {
                        if let Some(action) = self.actions.get((token - TOKEN_ACTION) as usize) {
                            action();
                        }
                    }
                }
            }
            for device in &self.served {
                if device.due_in() == Some(0) {
                    device.poll();
                }
            }
        }
    }

    fn stdin_ready(&mut self, stdin: &mut StdinWatch, stop: &Stop) {
        let mut buffer = [0; 1024];
        let Some(count) = read_input(&mut buffer) else {
            stdin.close(&self.epoll);
            return;
        };
        let input = &buffer[..count];
        let Some(sink) = &self.input else { return };
        let Some(escape) = &mut self.escape else {
            sink.push(input);
            return;
        };
        let typed = escape.filter(input);
        sink.push(&typed.bytes);
        if typed.help {
            let _ = io::stderr().write_all(escape.key.help().as_bytes());
        }
        if typed.quit {
            stop.request(Outcome::Quit);
        }
    }
}

/// Whether standard input is being watched.
struct StdinWatch {
    open: bool,
    watched: bool,
}

impl StdinWatch {
    /// Regular files cannot be watched, which ends input at once: a guest does not need it.
    fn new(epoll: &Epoll, wanted: bool) -> Self {
        let mut watch = Self {
            open: wanted,
            watched: false,
        };
        watch.pause(epoll, false);
        watch.open = watch.watched;
        watch
    }

    fn pause(&mut self, epoll: &Epoll, pause: bool) {
        let want = self.open && !pause;
        if want != self.watched {
            let operation = if want {
                ControlOperation::Add
            } else {
                ControlOperation::Delete
            };
            let event = EpollEvent::new(EventSet::IN, TOKEN_STDIN);
            self.watched = epoll.ctl(operation, libc::STDIN_FILENO, event).is_ok() && want;
        }
    }

    fn close(&mut self, epoll: &Epoll) {
        self.open = false;
        self.pause(epoll, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn loop_runs_actions_and_ends_with_the_first_outcome() {
        let wake = Arc::new(EventFd::new(libc::EFD_NONBLOCK).unwrap());
        let stop = Arc::new(Stop::new(&wake));
        let mut events = EventLoop::new(&wake).unwrap();
        let backend = EventFd::new(libc::EFD_NONBLOCK).unwrap();
        let inner = Arc::clone(&stop);
        events
            .add(
                backend.as_raw_fd(),
                Box::new(move || {
                    inner.request(Outcome::Quit);
                    inner.request(Outcome::PowerOff);
                }),
            )
            .unwrap();
        backend.write(1).unwrap();
        let signals = Signals::receive().unwrap();
        assert_eq!(events.run(&stop, &signals, &()).unwrap(), Outcome::Quit);
        assert!(stop.stopping.load(Ordering::SeqCst));
    }

    #[test]
    fn a_signal_ends_the_loop() {
        let wake = Arc::new(EventFd::new(libc::EFD_NONBLOCK).unwrap());
        let stop = Stop::new(&wake);
        let events = EventLoop::new(&wake).unwrap();
        let signals = Signals::receive().unwrap();
        // SAFETY: a signal to this thread, which has blocked it.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTERM) };
        assert_eq!(
            events.run(&stop, &signals, &()).unwrap(),
            Outcome::Signal(libc::SIGTERM)
        );
    }
}
