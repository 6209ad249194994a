//! Xtrapless for one guest.
//!
//! ```text
//! device, in any thread -- Line::set --> ugenvsei      no system call; the thread holds a grant
//!                                    \-> irqfd         one system call; KVM injects
//!                                    \-> KVM_IRQ_LINE  one system call; a thread without a grant
//! completion by the guest, controller lowers the line --> resample irqfd --> Chip::resampled
//! guest's SBI call --> Chip::route --> KVM device attribute --> source table
//! ```
//!
//! The names are those of the specification (`spec/`) and of
//! `linux/include/uapi/linux/kvm_trapless.h`.

pub mod chip;
pub mod controller;
#[cfg(target_arch = "riscv64")]
pub mod kvm;
pub mod line;
mod messages;
pub mod port;
pub mod source;
mod state;
#[cfg(test)]
pub(crate) mod tests;
pub mod uapi;
