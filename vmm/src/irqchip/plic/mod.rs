//! PLIC in user space, with one S-mode context per vCPU.

pub mod controller;
#[cfg(target_arch = "riscv64")]
pub mod kvm;
pub mod shared;
mod window;

/// A PLIC without outputs, for tests that need an interrupt controller.
#[cfg(test)]
pub(crate) fn unconnected() -> std::sync::Arc<dyn super::controller::InterruptController> {
    let plic = shared::SharedPlic::new(crate::map::PLIC_SOURCES, Vec::new());
    std::sync::Arc::new(controller::Controller::new(std::sync::Arc::new(plic)))
}
