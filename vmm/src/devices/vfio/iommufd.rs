//! Addresses that devices see, by iommufd (Linux UAPI `linux/iommufd.h`).

use iommufd_bindings::{
    IOMMUFD_CMD_HWPT_ALLOC, IOMMUFD_CMD_IOAS_ALLOC, IOMMUFD_CMD_IOAS_MAP, IOMMUFD_TYPE,
    iommu_hwpt_alloc, iommu_ioas_alloc, iommu_ioas_map,
    iommufd_hwpt_alloc_flags_IOMMU_HWPT_ALLOC_NEST_PARENT as SECOND_STAGE,
    iommufd_ioas_map_flags_IOMMU_IOAS_MAP_FIXED_IOVA as FIXED,
    iommufd_ioas_map_flags_IOMMU_IOAS_MAP_READABLE as READABLE,
    iommufd_ioas_map_flags_IOMMU_IOAS_MAP_WRITEABLE as WRITABLE,
};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, PoisonError};
use vmm_sys_util::ioctl::{ioctl_with_mut_ref, ioctl_with_ref};

mod request {
    #![allow(missing_docs)] // The macro makes public functions without one.
    use super::{
        IOMMUFD_CMD_HWPT_ALLOC, IOMMUFD_CMD_IOAS_ALLOC, IOMMUFD_CMD_IOAS_MAP, IOMMUFD_TYPE,
    };
    vmm_sys_util::ioctl_io_nr!(
        IOMMU_HWPT_ALLOC,
        IOMMUFD_TYPE as u32,
        IOMMUFD_CMD_HWPT_ALLOC
    );
    vmm_sys_util::ioctl_io_nr!(
        IOMMU_IOAS_ALLOC,
        IOMMUFD_TYPE as u32,
        IOMMUFD_CMD_IOAS_ALLOC
    );
    vmm_sys_util::ioctl_io_nr!(IOMMU_IOAS_MAP, IOMMUFD_TYPE as u32, IOMMUFD_CMD_IOAS_MAP);
}

/// An address space, empty at first. It ends with this value and the devices in it.
pub struct AddressSpace {
    file: File,
    id: u32,
    /// Page tables of the second stage: one, unless IOMMUs differ.
    tables: Mutex<Vec<u32>>,
}

impl AddressSpace {
    /// Opens `/dev/iommu`.
    ///
    /// # Errors
    /// The error that the system returned.
    pub fn new() -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/iommu")?;
        let mut space = iommu_ioas_alloc {
            size: size_of::<iommu_ioas_alloc>() as u32,
            flags: 0,
            out_ioas_id: 0,
        };
        // SAFETY: the kernel writes this structure, which has the size that it says.
        check(unsafe { ioctl_with_mut_ref(&file, request::IOMMU_IOAS_ALLOC(), &mut space) })?;
        Ok(Self {
            file,
            id: space.out_ioas_id,
            tables: Mutex::default(),
        })
    }

    /// Lets devices access `len` bytes at `host` of this process, by `address`. The kernel keeps
    /// the pages in memory.
    ///
    /// # Errors
    /// The error that the system returned.
    ///
    /// # Safety
    /// They are a mapping of this process to which there are no references.
    pub unsafe fn map(&self, address: u64, host: *mut u8, len: u64) -> io::Result<()> {
        let map = iommu_ioas_map {
            size: size_of::<iommu_ioas_map>() as u32,
            flags: FIXED | READABLE | WRITABLE,
            ioas_id: self.id,
            __reserved: 0,
            user_va: host as u64,
            length: len,
            iova: address,
        };
        // SAFETY: the kernel reads this structure; the caller guarantees that devices may change
        // the memory.
        check(unsafe { ioctl_with_ref(&self.file, request::IOMMU_IOAS_MAP(), &map) })
    }

    /// Lets a device access the space: `attach` does so with the number of a page table, `device`
    /// is what iommufd calls it. With `guest` addresses are translated as guest physical ones, by
    /// the second stage, if the IOMMU can: it then can translate those of MSIs, too, and hardware
    /// interrupts the guest. Else the kernel chooses.
    ///
    /// # Errors
    /// The error of `attach`.
    pub fn enter(
        &self,
        device: u32,
        guest: bool,
        attach: impl Fn(u32) -> io::Result<()>,
    ) -> io::Result<()> {
        if guest {
            let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
            if tables.iter().any(|table| attach(*table).is_ok()) {
                return Ok(());
            }
            if let Ok(table) = self.second_stage(device) {
                tables.push(table);
                return attach(table);
            }
        }
        attach(self.id)
    }

    /// A page table of the second stage that suits `device`.
    fn second_stage(&self, device: u32) -> io::Result<u32> {
        let mut table = iommu_hwpt_alloc {
            size: size_of::<iommu_hwpt_alloc>() as u32,
            flags: SECOND_STAGE,
            dev_id: device,
            pt_id: self.id,
            ..Default::default()
        };
        // SAFETY: the kernel writes this structure, which has the size that it says.
        check(unsafe { ioctl_with_mut_ref(&self.file, request::IOMMU_HWPT_ALLOC(), &mut table) })?;
        Ok(table.out_hwpt_id)
    }
}

impl AsRawFd for AddressSpace {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// The result of an ioctl.
pub(super) fn check(result: i32) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
