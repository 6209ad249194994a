//! `trapless-backend`: a process that serves a block device of a guest by the vhost-user protocol.
//!
//! ```text
//!  VMM -- socket --> server: vhost-user-backend's daemon, memory, queue
//!                      |
//!                      v          waits with
//!                    worker  ---- epoll, on the eventfd that a kick signals
//!                      |     ---- polling, on a core of its own
//!                      |     ---- a user context (Xhcs): a kick runs the handler
//!                      v
//!                    requests --> disk, mapped
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`cli`] | the command line |
//! | [`disk`] | the image |
//! | [`requests`] | requests of the driver |
//! | [`server`] | what the VMM says |
//! | [`worker`] | ways of waiting |
//! | `context` | handlers in user mode |

pub mod cli;
#[cfg(target_arch = "riscv64")]
pub mod context;
pub mod disk;
pub mod requests;
pub mod server;
pub mod worker;
