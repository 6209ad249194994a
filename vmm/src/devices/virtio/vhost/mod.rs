//! Virtio devices whose queues are served by another process (vhost-user) or the host's kernel
//! (vhost-net). The driver's registers are emulated here.
//!
//! | module | subject |
//! |---|---|
//! | [`queues`] | setup of every vhost device: memory, queues, eventfds |
//! | [`user`] | disks and network cards of other processes |
//! | [`back_end`] | replacement of back ends that end |
//! | [`net`] | network cards of the host's kernel |
//! | [`slot`] | such a device in its slot |

pub mod back_end;
pub mod net;
pub mod queues;
pub mod slot;
pub mod user;
