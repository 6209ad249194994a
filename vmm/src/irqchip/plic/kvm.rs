//! The external-interrupt input of a vCPU, by KVM.

use crate::error::Result;
use crate::irqchip::plic::shared::ExternalLine;
use crate::kvm::handle::duplicate;
use kvm_bindings::{KVM_INTERRUPT_SET, KVM_INTERRUPT_UNSET, kvm_interrupt};
use kvm_ioctls::VcpuFd;
use std::fs::File;
use vmm_sys_util::ioctl::ioctl_with_ref;

mod request {
    #![allow(missing_docs)] // The macro makes a public function without one.
    use kvm_bindings::{KVMIO, kvm_interrupt};
    vmm_sys_util::ioctl_iow_nr!(KVM_INTERRUPT, KVMIO, 0x86, kvm_interrupt);
}

/// The external-interrupt input of a vCPU, by `KVM_INTERRUPT`. The ioctl does not wait for
/// `KVM_RUN` to return.
pub struct KvmLine(File);

impl KvmLine {
    /// A handle that stays valid while the vCPU runs in another thread.
    ///
    /// # Errors
    /// [`Error::Failed`](crate::error::Error::Failed) without free descriptors.
    pub fn new(vcpu: &VcpuFd) -> Result<Self> {
        duplicate(vcpu).map(Self)
    }
}

impl ExternalLine for KvmLine {
    fn set(&self, high: bool) {
        let irq = if high {
            KVM_INTERRUPT_SET
        } else {
            KVM_INTERRUPT_UNSET
        };
        let argument = kvm_interrupt { irq: irq as u32 };
        // SAFETY: KVM only reads `argument`. The call cannot fail with these two values.
        unsafe { ioctl_with_ref(&self.0, request::KVM_INTERRUPT(), &argument) };
    }
}
