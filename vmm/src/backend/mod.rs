//! `trapless-backend`: a process that serves devices of guests by the vhost-user protocol.
//!
//! ```text
//!  VMM -- socket --> daemon: memory, queues
//!                      |
//!             blk, net: a disk, a cable between two guests
//!                      |
//!                    worker     waits in epoll, for the eventfd that a kick signals
//!                      |                by polling, on a core of its own
//!                      v                in a user context (Xhcs): a kick runs the handler
//!                    service: requests --> disk, mapped
//!                             direction: frames from one guest to the other
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`cli`] | the command line |
//! | [`daemon`] | VMMs that come and go |
//! | [`blk`] | a disk, as its VMM sees it |
//! | [`disk`] | the image |
//! | [`requests`] | requests of its driver |
//! | [`net`] | a network card at each end of a cable, as their VMMs see them |
//! | [`direction`] | frames from one end to the other |
//! | [`service`] | what is served, and whom it interrupts |
//! | [`worker`] | ways of waiting |
//! | `context` | handlers in user mode |

pub mod blk;
pub mod cli;
#[cfg(target_arch = "riscv64")]
pub mod context;
pub mod daemon;
pub mod direction;
pub mod disk;
pub mod net;
pub mod requests;
pub mod service;
pub mod worker;
