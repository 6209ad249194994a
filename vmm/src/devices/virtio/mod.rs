//! virtio devices in the slots of the memory map.

pub mod console;
pub mod mistakes;
pub mod slot;
pub mod slots;
pub mod tap;
pub mod vhost;
