//! Image files as disks.
//!
//! A file that a guest may write has an exclusive lock, one that it only reads a shared one
//! (`flock`, which is advisory).

mod qcow2;
mod raw;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use trapless_devices::virtio::block::{Disk, Overlay, SECTOR};

use self::qcow2::Qcow2Disk;
use self::raw::WritableRaw;
use crate::Report;

/// Handling of a guest's writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// They are kept in memory.
    #[default]
    Forget,
    /// The guest sees a read-only disk.
    ReadOnly,
    /// They go to the file.
    Write,
}

/// Format of an image file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Raw: the disk's bytes.
    Raw,
    /// QEMU's, version 2 or 3.
    Qcow2,
}

/// `FILE[,rw|,ro][,format=raw|,format=qcow2]`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Image {
    /// The file.
    pub path: PathBuf,
    /// Handling of writes.
    pub access: Access,
    /// The format; `None`: detected from the file.
    pub format: Option<Format>,
}

impl FromStr for Image {
    type Err = String;

    /// Names of files may contain commas: only known options after the name are options.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut image = Self {
            path: PathBuf::new(),
            access: Access::default(),
            format: None,
        };
        let mut rest = text;
        while let Some((name, option)) = rest.rsplit_once(',') {
            match option {
                "rw" => image.access = Access::Write,
                "ro" => image.access = Access::ReadOnly,
                "format=raw" => image.format = Some(Format::Raw),
                "format=qcow2" => image.format = Some(Format::Qcow2),
                _ if Path::new(rest).exists() || !Path::new(name).exists() => break,
                _ => {
                    return Err(format!(
                        "{option} is unknown; after the file's name give rw (the guest's writes \
                         go to the file), ro (it cannot write), format=raw or format=qcow2"
                    ));
                }
            }
            rest = name;
        }
        image.path = rest.into();
        Ok(image)
    }
}

/// Why an image cannot be used; each is a message for the user.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The file cannot be opened.
    #[error("cannot open the disk image {}: {source}; {advice}", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// Another program has locked it.
    #[error("the disk image {} is in use: {advice}", .path.display())]
    InUse {
        /// The file.
        path: PathBuf,
        /// What to do.
        advice: &'static str,
    },
    /// It cannot be an image.
    #[error("cannot use {} as a disk image: {reason}", .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
}

const MAGIC_QCOW2: &[u8] = b"QFI\xfb";
const MAGIC_VMDK: &[u8] = b"KDMV";

/// Opens an image. Writes that are kept in memory take at most `memory` bytes; failures of the host
/// are passed to `report`, since a guest only sees "I/O error".
///
/// # Errors
/// If the file cannot be used.
pub fn open(image: &Image, memory: u64, report: &Report) -> Result<Box<dyn Disk>, DiskError> {
    let file = open_file(image)?;
    let format = format(image, &file)?;
    let writable = image.access == Access::Write;
    let failed = |source| DiskError::Open {
        path: image.path.clone(),
        source,
        advice: "give a disk image that can be read",
    };
    let disk: Box<dyn Disk> = match format {
        Format::Raw => Box::new(WritableRaw::new(file, writable).map_err(failed)?),
        Format::Qcow2 => Box::new(Qcow2Disk::open(file, image).map_err(|source| {
            unusable(
                image,
                format!("{source}; `qemu-img check` diagnoses a damaged image"),
            )
        })?),
    };
    if disk.sectors() == 0 {
        return Err(unusable(
            image,
            "it holds less than one sector of 512 bytes; give a raw or qcow2 image".into(),
        ));
    }
    let disk: Box<dyn Disk> = Box::new(Reported {
        disk,
        name: image.path.display().to_string(),
        report: Report::clone(report),
        reported: false,
    });
    Ok(match image.access {
        Access::Forget => Box::new(Overlay::new(disk, Some(memory))),
        Access::ReadOnly | Access::Write => disk,
    })
}

fn unusable(image: &Image, reason: String) -> DiskError {
    DiskError::Unusable {
        path: image.path.clone(),
        reason,
    }
}

/// Opens and locks the file, without blocking on a pipe without a writer.
fn open_file(image: &Image) -> Result<File, DiskError> {
    let path = || image.path.clone();
    let writable = image.access == Access::Write;
    if let Ok(kind) = std::fs::metadata(&image.path).map(|m| m.file_type()) {
        if kind.is_fifo() || kind.is_socket() || kind.is_char_device() {
            let reason = "it is neither a file nor a block device";
            return Err(unusable(image, reason.into()));
        }
        if kind.is_dir() {
            return Err(DiskError::Open {
                path: path(),
                source: io::ErrorKind::IsADirectory.into(),
                advice: "give a disk image",
            });
        }
    }
    let opened = OpenOptions::new()
        .read(true)
        .write(writable)
        .open(&image.path);
    let file = opened.map_err(|source| DiskError::Open {
        path: path(),
        advice: match (source.kind(), writable) {
            (io::ErrorKind::NotFound, _) => "give a disk image that exists",
            (_, true) => "make it writable, or leave out rw: what the guest writes stays in memory",
            (_, false) => "give a disk image that may be read",
        },
        source,
    })?;
    let locked = if writable {
        file.try_lock()
    } else {
        file.try_lock_shared()
    };
    match locked {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DiskError::InUse {
            path: path(),
            advice: match writable {
                true => "end the program that uses it, give this machine a copy, or leave out rw",
                false => "another program writes to it; end that, or give this machine a copy",
            },
        }),
        // On a file system without locks reading is still possible.
        Err(TryLockError::Error(_)) if !writable => Ok(file),
        Err(TryLockError::Error(source)) => Err(DiskError::Open {
            path: path(),
            source,
            advice: "it cannot be locked against others; put it on a local file system",
        }),
    }
}

/// The given format, or the one detected from the file's beginning and name. A guest can write the
/// beginning of a raw disk; if that alone made it a qcow2 image, the guest could name any file of
/// the host as its backing file.
fn format(image: &Image, mut file: &File) -> Result<Format, DiskError> {
    let mut magic = [0; 4];
    let is = match file.read(&mut magic) {
        Ok(4) => magic,
        _ => [0; 4],
    };
    let extension = image.path.extension().unwrap_or_default();
    let named = extension.eq_ignore_ascii_case("qcow2") || extension.eq_ignore_ascii_case("qcow");
    let refuse = |reason: &str| Err(unusable(image, reason.into()));
    match image.format {
        Some(Format::Raw) => Ok(Format::Raw),
        Some(Format::Qcow2) if is != *MAGIC_QCOW2 => {
            refuse("it does not begin as a qcow2 image does; leave out format=qcow2")
        }
        Some(Format::Qcow2) => Ok(Format::Qcow2),
        None if is == *MAGIC_QCOW2 && named => Ok(Format::Qcow2),
        None if is == *MAGIC_QCOW2 => refuse(
            "it begins as a qcow2 image does, but its name does not end in .qcow2; add \
             ,format=qcow2, or ,format=raw if a guest has written that to a raw disk",
        ),
        None if named => refuse(
            "its name ends in .qcow2, but it does not begin as such an image does; add ,format=raw \
             if it is a raw image",
        ),
        None if is == *MAGIC_VMDK => refuse(
            "it is in the VMDK format, but only raw and qcow2 images are read; convert it with: \
             qemu-img convert -O raw IN OUT; or add ,format=raw if a guest has written that to a \
             raw disk",
        ),
        None => Ok(Format::Raw),
    }
}

/// Reports the first failure of the host to the user.
struct Reported {
    disk: Box<dyn Disk>,
    name: String,
    report: Report,
    reported: bool,
}

impl Reported {
    fn note<T>(&mut self, what: &str, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && !std::mem::replace(&mut self.reported, true)
        {
            (self.report)(&format!(
                "cannot {what} the disk image {}: {error}; the guest sees I/O errors",
                self.name
            ));
        }
        result
    }
}

impl Disk for Reported {
    fn sectors(&self) -> u64 {
        self.disk.sectors()
    }

    fn read_only(&self) -> bool {
        self.disk.read_only()
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let result = self.disk.read(offset, data);
        self.note("read", result)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let result = self.disk.write(offset, data);
        self.note("write", result)
    }

    fn write_zeroes(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let result = self.disk.write_zeroes(offset, len);
        self.note("write", result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.disk.flush();
        self.note("write", result)
    }

    fn obstacle(&self) -> Option<&'static str> {
        (!self.disk.read_only()).then_some(
            "what the guest wrote to its disk is in the image file (--disk FILE,rw); leave out rw",
        )
    }
}

impl Drop for Reported {
    /// Writes of the machine reach the file even if the guest did not request a flush.
    fn drop(&mut self) {
        if !self.disk.read_only() {
            let _ = self.flush();
        }
    }
}

/// Whole sectors in so many bytes.
fn whole_sectors(bytes: u64) -> u64 {
    bytes / SECTOR
}

#[cfg(test)]
mod tests;
