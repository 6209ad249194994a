//! Attributes of files as they are shown to a guest.

use rustix::fs::{FileType, Stat};

use super::wire::Put;

/// Seconds of virtual time for which a guest may trust names and attributes.
const VALID: u64 = 1;
/// Reported size of blocks, in bytes.
const BLOCK: u32 = 4096;
/// Reported size of folders, constant because file systems differ.
const FOLDER_SIZE: u64 = 4096;
/// Bytes in the unit of `st_blocks`.
const SECTOR: u64 = 512;

/// Nanoseconds since 1970.
pub type Time = u64;

/// Attributes of a node.
#[derive(Clone, Copy)]
pub struct Attributes {
    number: u64,
    size: u64,
    time: Time,
    mode: u32,
    links: u32,
}

impl Attributes {
    /// The attributes of node `number`. Everything belongs to root; all times are that of the last
    /// modification, which is `changed` if it was made by the guest.
    pub fn new(number: u64, stat: &Stat, changed: Option<Time>) -> Self {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let folder = kind.is_dir();
        let on_host = || {
            let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(stat.st_mtime_nsec)
        };
        Self {
            number,
            size: if folder {
                FOLDER_SIZE
            } else {
                stat.st_size as u64
            },
            time: changed.unwrap_or_else(on_host),
            mode: kind.as_raw_mode() | stat.st_mode & 0o777,
            // 1 for a folder means that its subfolders are not counted.
            links: if folder { 1 } else { stat.st_nlink as u32 },
        }
    }

    /// Appends `struct fuse_attr`.
    fn put(&self, to: &mut Vec<u8>) {
        let (seconds, rest) = (self.time / 1_000_000_000, self.time % 1_000_000_000);
        to.u64(self.number);
        to.u64(self.size);
        to.u64(self.size.div_ceil(SECTOR));
        (0..3).for_each(|_| to.u64(seconds));
        (0..3).for_each(|_| to.u32(rest as u32));
        to.u32(self.mode);
        to.u32(self.links);
        // Owner, group and device number.
        to.zeroes(12);
        to.u32(BLOCK);
        to.zeroes(4);
    }

    /// Appends `struct fuse_attr_out`.
    pub fn put_answer(&self, to: &mut Vec<u8>) {
        to.u64(VALID);
        to.zeroes(8);
        self.put(to);
    }

    /// Appends `struct fuse_entry_out`.
    pub fn put_entry(&self, to: &mut Vec<u8>) {
        to.u64(self.number);
        to.u64(0);
        to.u64(VALID);
        to.u64(VALID);
        to.zeroes(8);
        self.put(to);
    }
}

/// Appends `struct fuse_statfs_out`: a large file system, always the same.
pub fn put_file_system(to: &mut Vec<u8>) {
    const BLOCKS: u64 = 1 << 28;
    const FILES: u64 = 1 << 28;
    (0..3).for_each(|_| to.u64(BLOCKS));
    (0..2).for_each(|_| to.u64(FILES));
    to.u32(BLOCK);
    to.u32(255);
    to.u32(BLOCK);
    to.zeroes(4 + 6 * 4);
}
