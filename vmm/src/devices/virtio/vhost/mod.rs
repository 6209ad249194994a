//! Virtio devices whose queues somebody else serves: another process (vhost-user) or the host's
//! kernel (vhost-net). The driver's registers stay here.
//!
//! | module | subject |
//! |---|---|
//! | [`queues`] | what every vhost device gets: memory, queues, eventfds |
//! | [`user`] | disks and network cards of other processes |
//! | [`back_end`] | back ends that end, and others in their place |
//! | [`net`] | network cards of the host's kernel |
//! | [`slot`] | such a device in its slot |

pub mod back_end;
pub mod net;
pub mod queues;
pub mod slot;
pub mod user;
