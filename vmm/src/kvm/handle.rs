//! Second handles on vCPUs, for other threads than the one that runs them.

use crate::error::{Error, Result};
use kvm_ioctls::{VcpuFd, VmFd};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};

/// Another descriptor of a vCPU.
///
/// # Errors
/// [`Error::Failed`] without free descriptors.
pub fn duplicate(vcpu: &VcpuFd) -> Result<File> {
    // SAFETY: the descriptor is open for as long as `vcpu` is borrowed.
    let fd = unsafe { BorrowedFd::borrow_raw(vcpu.as_raw_fd()) };
    fd.try_clone_to_owned()
        .map(File::from)
        .map_err(|e| Error::failed("cannot duplicate a vCPU descriptor", e))
}

/// A second handle on a vCPU whose thread holds the first.
///
/// # Errors
/// [`Error::Failed`] without address space or descriptors.
pub fn second_handle(vm: &VmFd, vcpu: &VcpuFd) -> Result<VcpuFd> {
    let fd = duplicate(vcpu)?.into_raw_fd();
    // SAFETY: `fd` is a descriptor of a vCPU of this VM without another owner.
    unsafe { vm.create_vcpu_from_rawfd(fd) }.map_err(|e| Error::failed("cannot map a vCPU", e))
}
