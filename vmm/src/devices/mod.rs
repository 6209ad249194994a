//! Devices of a guest: the models of `trapless-devices`, with locks, wires and back-ends.

#[cfg(target_arch = "riscv64")]
pub mod doorbell;
pub mod input;
#[cfg(target_arch = "riscv64")]
pub mod ioeventfd;
pub mod locked;
pub mod pci;
pub mod quiet_lock;
pub mod registry;
pub mod sbi_console;
pub mod serial;
pub mod state;
pub mod test_device;
pub mod transmit;
pub mod vfio;
pub mod virtio;
