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
//! Harts check only the instructions that they may concern, and run at full speed elsewhere. A stop
//! does not move block ends, so a run that is only inspected ends in the same state, with the same
//! ledger, as one without gdb.
//!
//! | module | subject |
//! |---|---|
//! | `link`, `packet` | a connection, and validation of its packets |
//! | `session` | sessions, and running the machine between packets |
//! | `position` | positions in the form of logs |
//! | `reverse` | reverse execution: where to stop in the past |
//! | `target` | registers and memory of harts |
//! | `breaks` | breakpoints, watchpoints and steps as an `Observer` |
//! | `description` | registers and the target description |
//! | `files`, `host_io` | files that gdb fetches: symbols of kernels |
//! | `monitor` | `monitor` commands |
//! | `harts` | state of a hart in one line |
//! | `interrupts` | state of interrupts for `monitor interrupts` |

mod breaks;
mod description;
mod files;
mod harts;
mod host_io;
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

/// Default maximum of memory for reverse execution, in bytes.
pub const HISTORY: u64 = 1 << 30;

/// Where gdb connects.
pub struct Server {
    /// `None` until the machine has reached its start position: gdb gives up on a connection that
    /// does not answer, but retries for a while where connections are refused.
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

    /// The listening socket, created at the first call.
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

    /// Sets the maximum of memory for reverse execution, in bytes; 0 disables it.
    #[must_use]
    pub fn with_history(self, bytes: u64) -> Self {
        let history = bytes;
        Self { history, ..self }
    }

    /// Runs the machine to `start` before gdb connects.
    #[must_use]
    pub fn with_start(self, start: Option<Position>) -> Self {
        let listener = self.listener.filter(|_| start.is_none());
        Self {
            start,
            listener,
            ..self
        }
    }

    /// The position to which the machine runs before gdb can connect.
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

/// Callbacks of the host program during a session; those of `()` do nothing.
pub trait Host {
    /// Called between slices of the run, and while the machine is stopped or idle: the place to
    /// deliver console input. `false` ends the session.
    fn poll(&mut self, machine: &mut Machine) -> bool {
        let _ = machine;
        true
    }

    /// Virtual time in cycles at which the machine stops for good, although it could continue: the
    /// end of a record that is replayed. gdb gets a stop reply that the end of the history was
    /// reached.
    fn end(&self) -> u64 {
        u64::MAX
    }

    /// A message to the user: gdb connected or disconnected.
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
    /// [`Host::poll`] ended it.
    Host,
}

/// Debugging is not possible.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Cannot listen on the address.
    #[error(
        "cannot listen for gdb on {address}: {reason}; give --gdb a free :PORT or ADDRESS:PORT"
    )]
    Listen {
        /// As given.
        address: String,
        /// The system's error.
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
