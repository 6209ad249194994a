//! A disk image, mapped: no system call is needed to read and write it.

use crate::error::{Error, Result};
use std::fs::OpenOptions;
use std::path::Path;
use vm_memory::volatile_memory::VolatileSlice;
use vm_memory::{FileOffset, MmapRegion, VolatileMemory};

/// Bytes of a sector (virtio 1.2, section 5.2.4).
pub const SECTOR: u64 = 512;

/// A mapped image.
pub struct Disk {
    region: MmapRegion,
    read_only: bool,
}

impl Disk {
    /// Maps the image at `path`.
    ///
    /// # Errors
    /// [`Error::User`] if the file cannot be used.
    pub fn open(path: &Path, read_only: bool) -> Result<Self> {
        let shown = path.display();
        let refused = |e: &dyn std::fmt::Display| Error::user(format!("{shown}: {e}"));
        let file = OpenOptions::new()
            .read(true)
            .write(!read_only)
            .open(path)
            .map_err(|e| refused(&e))?;
        let bytes = file.metadata().map_err(|e| refused(&e))?.len();
        if bytes == 0 || bytes % SECTOR != 0 {
            return Err(Error::user(format!(
                "{shown} has {bytes} bytes, which is not a disk: use a raw image of whole sectors of 512 bytes"
            )));
        }
        let protection = if read_only {
            libc::PROT_READ
        } else {
            libc::PROT_READ | libc::PROT_WRITE
        };
        let offset = Some(FileOffset::new(file, 0));
        let region = MmapRegion::build(offset, bytes as usize, protection, libc::MAP_SHARED)
            .map_err(|e| refused(&e))?;
        let populate = if read_only {
            libc::MADV_POPULATE_READ
        } else {
            libc::MADV_POPULATE_WRITE
        };
        // Avoids page faults later, if the kernel supports it. SAFETY: changes no content of the
        // mapping.
        let _ = unsafe { libc::madvise(region.as_ptr().cast(), region.size(), populate) };
        Ok(Self { region, read_only })
    }

    /// Number of sectors.
    pub fn sectors(&self) -> u64 {
        self.region.size() as u64 / SECTOR
    }

    /// Whether the guest may not write.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// `len` bytes from byte `at` on; `None` if not all of them are on the disk.
    pub fn slice(&self, at: u64, len: usize) -> Option<VolatileSlice<'_>> {
        self.region.get_slice(usize::try_from(at).ok()?, len).ok()
    }
}
