//! Attributes of a KVM device (`KVM_CREATE_DEVICE`; Linux `Documentation/virt/kvm/devices`).

use kvm_bindings::{kvm_create_device, kvm_device_attr};
use kvm_ioctls::{DeviceFd, VmFd};
use std::io;
use std::os::fd::AsRawFd;

/// A device in the kernel.
pub struct KvmDevice(DeviceFd);

/// The error number of `kvm-ioctls` as the standard library's error.
pub fn os_error(error: kvm_ioctls::Error) -> io::Error {
    io::Error::from_raw_os_error(error.errno())
}

impl KvmDevice {
    /// Creates a device of type `kind` (`KVM_DEV_TYPE_*`).
    ///
    /// # Errors
    /// The error that KVM returned.
    pub fn create(vm: &VmFd, kind: u32) -> io::Result<Self> {
        let mut request = kvm_create_device {
            type_: kind,
            ..Default::default()
        };
        vm.create_device(&mut request).map(Self).map_err(os_error)
    }

    /// Sets an attribute of at most eight bytes.
    ///
    /// # Errors
    /// The error that KVM returned.
    pub fn set(&self, group: u32, attribute: u64, value: u64) -> io::Result<()> {
        // The host is little-endian, so u32 attributes are the first four bytes.
        self.set_struct(group, attribute, &value)
    }

    /// Sets an attribute that is a structure, laid out as KVM's.
    ///
    /// # Errors
    /// The error that KVM returned.
    pub fn set_struct<T>(&self, group: u32, attribute: u64, value: &T) -> io::Result<()> {
        let request = kvm_device_attr {
            group,
            attr: attribute,
            addr: std::ptr::from_ref(value) as u64,
            flags: 0,
        };
        self.0.set_device_attr(&request).map_err(os_error)
    }

    /// Executes an ioctl of the device with a structure that the ioctl may change.
    ///
    /// # Errors
    /// The error that KVM returned.
    ///
    /// # Safety
    /// `value` is the argument type of the ioctl, and any bits that KVM writes are valid for it.
    pub unsafe fn command<T>(&self, number: libc::c_ulong, value: &mut T) -> io::Result<()> {
        // SAFETY: guaranteed by the caller.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), number as _, std::ptr::from_mut(value)) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads an attribute of at most eight bytes.
    ///
    /// # Errors
    /// The error that KVM returned.
    pub fn get(&self, group: u32, attribute: u64) -> io::Result<u64> {
        let mut value = 0u64;
        let mut request = kvm_device_attr {
            group,
            attr: attribute,
            addr: &raw mut value as u64,
            flags: 0,
        };
        // SAFETY: KVM writes at most a u64, for which `value` has room.
        unsafe { self.0.get_device_attr(&mut request) }.map_err(os_error)?;
        Ok(value)
    }
}
