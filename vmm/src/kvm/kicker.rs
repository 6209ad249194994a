//! Makes a vCPU leave `KVM_RUN`.

use trapless_isa::page::PAGE_SIZE;

use crate::error::{Error, Result};
use crate::kvm::handle::duplicate;
use kvm_ioctls::VcpuFd;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU8, Ordering};

/// Makes the present or next `KVM_RUN` return.
///
/// Holds its own mapping of `struct kvm_run`, so it does not depend on when the vCPU's thread ends.
pub struct Kicker {
    page: *mut libc::c_void,
}

const PAGE: usize = PAGE_SIZE as usize;

// SAFETY: the mapping is shared memory with the kernel and is accessed only atomically.
unsafe impl Send for Kicker {}

impl Kicker {
    /// A kicker for `vcpu`.
    ///
    /// # Errors
    /// [`Error::Failed`] without address space or descriptors.
    pub fn new(vcpu: &VcpuFd) -> Result<Self> {
        let fd = duplicate(vcpu)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; the first page of a vCPU is
        // kvm_run's head.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE,
                protection,
                libc::MAP_SHARED,
                fd.as_raw_fd() as RawFd,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(Error::failed(
                "cannot map a vCPU",
                std::io::Error::last_os_error(),
            ));
        }
        Ok(Self { page })
    }

    /// Sets `immediate_exit`; a signal to the thread must follow to end a running `KVM_RUN`.
    pub fn request_exit(&self) {
        let offset = std::mem::offset_of!(kvm_bindings::kvm_run, immediate_exit);
        // SAFETY: the byte lies in the page mapped for the life of `self`; KVM reads it without a
        // lock.
        let flag = unsafe { AtomicU8::from_ptr(self.page.cast::<u8>().add(offset)) };
        flag.store(1, Ordering::SeqCst);
    }
}

impl Drop for Kicker {
    fn drop(&mut self) {
        // SAFETY: `page` was mapped with this length and nothing refers to it any more.
        unsafe { libc::munmap(self.page, PAGE) };
    }
}
