//! `trapless-backend`: a process that serves devices of guests by the vhost-user protocol.
//!
//! ```text
//!  VMM -- socket --> daemon: memory, queues
//!                      |
//!             blk, net: a disk, a link between two guests
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
//! | [`daemon`] | connections of VMMs |
//! | [`blk`] | the vhost-user device of a disk |
//! | [`disk`] | the image |
//! | [`requests`] | requests of the disk's driver |
//! | [`net`] | the vhost-user devices of network cards at both ends of a link |
//! | [`direction`] | frames from one end to the other |
//! | [`service`] | interface between devices and ways of waiting |
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
