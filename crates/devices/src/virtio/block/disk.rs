//! Storage of a block device.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::state::{StateError, StateReader, StateWriter};
use thiserror::Error;

use super::SECTOR;

/// A store of `sectors()` sectors. Offsets and lengths are in bytes and lie inside it; the device
/// checks the guest's.
pub trait Disk: Send {
    /// Capacity in sectors of 512 bytes; never changes.
    fn sectors(&self) -> u64;

    /// Whether writing is refused.
    fn read_only(&self) -> bool;

    /// Fills `data` from `offset`.
    fn read(&mut self, offset: u64, data: &mut [u8]) -> io::Result<()>;

    /// Stores `data` at `offset`.
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Makes `len` bytes at `offset` read as zero.
    fn write_zeroes(&mut self, offset: u64, len: u64) -> io::Result<()>;

    /// Returns when everything written is on stable storage, as far as the store has any.
    fn flush(&mut self) -> io::Result<()>;

    /// Why a machine with this disk cannot be saved; `None`: it can.
    fn obstacle(&self) -> Option<&'static str> {
        None
    }

    /// Appends writes that are not in a file.
    fn save(&self, to: &mut StateWriter) {
        let _ = to;
    }

    /// Restores the state written by [`save`](Self::save) for the same disk.
    ///
    /// # Errors
    /// [`StateError`] if it is not from such a disk.
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let _ = from;
        Ok(())
    }
}

/// Why a disk image cannot be used; each is a message for the user.
#[derive(Debug, Error)]
pub enum DiskError {
    /// The file could not be opened.
    #[error("cannot open the disk image {path}: {source}; give a raw disk image that exists and may be {access}",
            path = .path.display(), access = if *.writable { "written" } else { "read" })]
    Open {
        /// The image.
        path: PathBuf,
        /// Whether it was opened for writing.
        writable: bool,
        /// The host's reason.
        source: io::Error,
    },
    /// The file holds no sector.
    #[error("the disk image {} holds only {bytes} bytes, less than one sector of 512; give a raw disk image", .path.display())]
    TooSmall {
        /// The image.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The file is in a format with a header of its own.
    #[error("the disk image {} is in the {format} format, but only raw images are read; convert it with: qemu-img convert -O raw IN OUT", .path.display())]
    NotRaw {
        /// The image.
        path: PathBuf,
        /// The format's name.
        format: &'static str,
    },
}

/// A raw image file (or block device), used in place.
#[derive(Debug)]
pub struct RawDisk {
    file: File,
    sectors: u64,
    read_only: bool,
}

impl RawDisk {
    /// Opens the image at `path`; `writable` lets the guest change it. Bytes after the last whole
    /// sector are not visible to it.
    pub fn open(path: &Path, writable: bool) -> Result<Self, DiskError> {
        let refused = |source| DiskError::Open {
            path: path.into(),
            writable,
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(writable)
            .open(path)
            .map_err(refused)?;
        if file.metadata().map_err(refused)?.is_dir() {
            return Err(refused(io::ErrorKind::IsADirectory.into()));
        }
        // Seeking gives the size of block devices too, where metadata says 0.
        let bytes = file.seek(SeekFrom::End(0)).map_err(refused)?;
        if bytes < SECTOR {
            return Err(DiskError::TooSmall {
                path: path.into(),
                bytes,
            });
        }
        let mut magic = [0; 4];
        file.seek(SeekFrom::Start(0))
            .and_then(|_| file.read_exact(&mut magic))
            .map_err(refused)?;
        for (format, start) in [("qcow2", b"QFI\xfb"), ("VMDK", b"KDMV")] {
            if magic == *start {
                return Err(DiskError::NotRaw {
                    path: path.into(),
                    format,
                });
            }
        }
        Self::from_file(file, writable).map_err(refused)
    }

    /// As [`open`](Self::open) with an open file, without checks of its format and length.
    ///
    /// # Errors
    /// If its size cannot be determined.
    pub fn from_file(mut file: File, writable: bool) -> io::Result<Self> {
        Ok(Self {
            sectors: file.seek(SeekFrom::End(0))? / SECTOR,
            file,
            read_only: !writable,
        })
    }
}

impl Disk for RawDisk {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(data)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(data)
    }

    fn write_zeroes(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        io::copy(&mut io::repeat(0).take(len), &mut self.file).map(|_| ())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.read_only {
            Ok(())
        } else {
            self.file.sync_data()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn capacity_is_rounded_down_to_whole_sectors() {
        let file = image(&[7; 1500]);
        let disk = RawDisk::open(file.path(), false).unwrap();
        assert_eq!(disk.sectors(), 2);
    }

    #[test]
    fn unusable_images_are_refused_with_a_sentence() {
        let message = |result: Result<RawDisk, DiskError>| result.unwrap_err().to_string();
        let missing = message(RawDisk::open(Path::new("no/such.img"), true));
        assert!(
            missing.starts_with("cannot open the disk image no/such.img: "),
            "{missing}"
        );
        assert!(missing.ends_with("may be written"), "{missing}");
        let file = image(&[7; 511]);
        assert!(message(RawDisk::open(file.path(), false)).contains("only 511 bytes"));
        let mut qcow = vec![0; 4096];
        qcow[..4].copy_from_slice(b"QFI\xfb");
        assert!(message(RawDisk::open(image(&qcow).path(), false)).contains("qcow2"));
        assert!(
            message(RawDisk::open(std::env::temp_dir().as_path(), false)).contains("directory")
        );
    }

    #[test]
    fn raw_disk_stores_in_the_file() {
        let file = image(&[7; 2048]);
        let mut disk = RawDisk::open(file.path(), true).unwrap();
        disk.write(512, &[9; 512]).unwrap();
        disk.write_zeroes(1024, 512).unwrap();
        disk.flush().unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        assert_eq!(
            [bytes[0], bytes[512], bytes[1024], bytes[1536]],
            [7, 9, 0, 7]
        );
    }
}
