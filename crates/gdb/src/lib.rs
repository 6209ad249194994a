//! gdb remote debugging of a machine.
//!
//! ```no_run
//! use trapless_gdb::{Ended, Server};
//! use trapless_machine::{Machine, MachineConfig, Payload, Peripherals};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let payload = Payload::default();
//! let peripherals = Peripherals::new(Box::new(std::io::stdout()));
//! let mut machine = Machine::boot(MachineConfig::preset("sstc")?, &payload, peripherals)?;
//! let server = Server::bind(":1234")?;
//! println!("waiting for: target remote {}", server.address());
//! match trapless_gdb::serve(&mut machine, &server, &mut ())? {
//!     Ended::Machine(outcome) => println!("{outcome:?}"),
//!     Ended::Killed => println!("gdb killed the machine"),
//!     Ended::Host => {}
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Every hart is a thread. Breakpoints and watchpoints are checks before instructions: memory is
//! not patched, there is no limit to their number, and they hold for all harts by virtual address.
//! Harts show only the instructions that they may concern, and run at full speed elsewhere. A stop
//! does not move block ends, so a run that is only looked at ends in the same state, with the same
//! ledger, as one without gdb.
//!
//! | module | subject |
//! |---|---|
//! | `link`, `packet` | a connection, and which of its packets can be decoded |
//! | `session` | sessions, and running the machine between packets |
//! | `position` | places as logs print them |
//! | `reverse` | going back: where to stop in the past |
//! | `target` | registers and memory of harts |
//! | `breaks` | breakpoints, watchpoints and steps as an `Observer` |
//! | `description` | which registers there are |
//! | `files` | files that gdb fetches: symbols of kernels |
//! | `monitor` | `monitor` commands |
//! | `harts` | what a hart does, in a line |
//! | `interrupts` | state of interrupts as `monitor interrupts` shows it |

mod breaks;
mod description;
mod files;
mod harts;
mod interrupts;
mod link;
mod monitor;
mod packet;
mod position;
mod reverse;
mod session;
mod target;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use trapless_hart::Observer;
use trapless_machine::{Machine, Outcome};

pub use position::Position;
pub use session::serve;

/// Most memory in bytes for going back, unless somebody says otherwise.
pub const HISTORY: u64 = 1 << 30;

/// Where gdb connects.
pub struct Server {
    /// `None` until the machine has come to where it starts: gdb gives up on a connection that does
    /// not answer, but tries again for a while where nobody listens.
    listener: Option<TcpListener>,
    address: SocketAddr,
    history: u64,
    start: Option<Position>,
}

impl Server {
    /// Listens on `address`: `HOST:PORT`, or `:PORT` for this computer only. Port 0 takes a free
    /// one.
    ///
    /// # Errors
    /// [`Error::Listen`] if the address is malformed or in use.
    pub fn bind(address: &str) -> Result<Self, Error> {
        let full = match address.strip_prefix(':') {
            Some(port) => format!("127.0.0.1:{port}"),
            None => address.into(),
        };
        let server = || {
            let listener = listen(&full)?;
            let address = listener.local_addr()?;
            Ok(Self {
                listener: Some(listener),
                address,
                history: HISTORY,
                start: None,
            })
        };
        server().map_err(|reason| Error::Listen {
            address: address.into(),
            reason,
        })
    }

    /// Where connections come in from now on.
    fn listener(&self) -> Result<TcpListener, Error> {
        let again = match &self.listener {
            Some(listener) => listener.try_clone(),
            None => listen(self.address),
        };
        again.map_err(|reason| Error::Listen {
            address: self.address.to_string(),
            reason,
        })
    }

    /// Sets how much memory the past may take, in bytes; with 0 there is no going back.
    #[must_use]
    pub fn with_history(self, bytes: u64) -> Self {
        let history = bytes;
        Self { history, ..self }
    }

    /// Lets the machine run to `start` before gdb connects.
    #[must_use]
    pub fn with_start(self, start: Option<Position>) -> Self {
        let listener = self.listener.filter(|_| start.is_none());
        Self {
            start,
            listener,
            ..self
        }
    }

    /// Where the machine runs to before gdb can connect.
    #[must_use]
    pub fn start(&self) -> Option<Position> {
        self.start
    }

    /// Address to give to gdb's `target remote`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn listen(address: impl ToSocketAddrs) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// What goes on beside the debugger; `()` does nothing.
pub trait Host {
    /// Called between slices of the run, and while the machine is stopped or idle: the place to
    /// deliver console input. `false` ends the session.
    fn poll(&mut self, machine: &mut Machine) -> bool {
        let _ = machine;
        true
    }

    /// Virtual time in cycles at which the machine stops for good, although it could go on: a run
    /// that is repeated was left there. gdb is told that nothing is recorded beyond.
    fn end(&self) -> u64 {
        u64::MAX
    }

    /// Something to tell the user: gdb came or went.
    fn notice(&mut self, text: &str) {
        let _ = text;
    }

    /// Another observer of the run, for instance a log.
    fn observer(&mut self) -> Option<&mut dyn Observer> {
        None
    }
}

impl Host for () {}

/// Why a session is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The machine ended; never [`Outcome::Limit`], [`Outcome::Idle`] or [`Outcome::Observer`].
    Machine(Outcome),
    /// gdb's `kill`.
    Killed,
    /// [`Host::poll`] said so.
    Host,
}

/// Debugging is not possible.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error(
        "cannot listen for gdb on {address}: {reason}; give --gdb a free :PORT or ADDRESS:PORT"
    )]
    Listen {
        /// As given.
        address: String,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The machine is to run to an instruction of a hart that it does not have.
    #[error("there is no hart {hart}, only 0 to {last}; give --at another one")]
    Hart {
        /// As given.
        hart: usize,
        /// The last one that there is.
        last: usize,
    },
    /// Connections can no longer be accepted.
    #[error("cannot accept a connection from gdb: {0}")]
    Accept(std::io::Error),
}
