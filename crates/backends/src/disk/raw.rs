//! Raw images that keep their holes.

use std::fs::File;
use std::io;

use rustix::fs::{FallocateFlags, fallocate};
use trapless_devices::virtio::block::{Disk, RawDisk};

/// A raw image whose discarded parts take no space, where the file system supports holes.
pub struct WritableRaw {
    disk: RawDisk,
    /// The same file, for holes.
    file: File,
    holes: bool,
}

impl WritableRaw {
    /// The disk in `file`.
    pub fn new(file: File, writable: bool) -> io::Result<Self> {
        Ok(Self {
            disk: RawDisk::from_file(file.try_clone()?, writable)?,
            file,
            holes: true,
        })
    }
}

impl Disk for WritableRaw {
    fn sectors(&self) -> u64 {
        self.disk.sectors()
    }

    fn read_only(&self) -> bool {
        self.disk.read_only()
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, data)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.write(offset, data)
    }

    fn write_zeroes(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if self.holes && len > 0 && fallocate(&self.file, hole, offset, len).is_ok() {
            return Ok(());
        }
        self.holes = false;
        self.disk.write_zeroes(offset, len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.disk.flush()
    }
}
