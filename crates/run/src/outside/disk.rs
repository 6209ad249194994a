//! Disks of runs that are recorded or replayed.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trapless_backends::Report;
use trapless_backends::disk::{self, Access, Image};
use trapless_devices::virtio::block::{Disk, SECTOR};
use trapless_devices::{StateError, StateReader, StateWriter};
use trapless_machine::Error;

/// Number of samples of a disk that a record's checksum covers, and their length in bytes: a whole
/// disk would take minutes.
const SAMPLES: u64 = 256;
const SAMPLE: u64 = 4096;

/// Description in a record of a disk's present content, independent of the format of its file.
///
/// # Errors
/// If it cannot be opened.
pub fn describe_disk(image: &Image) -> Result<String, Error> {
    let read = Image {
        access: Access::ReadOnly,
        ..image.clone()
    };
    let report: Report = Arc::new(|_: &str| {});
    let disk = disk::open(&read, 0, &report);
    let mut disk = disk.map_err(|e| Error::Invalid(e.to_string()))?;
    let (sectors, mut sum) = (disk.sectors(), crc32fast::Hasher::new());
    let last = (sectors * SECTOR).saturating_sub(SAMPLE) / SECTOR;
    for sample in 0..SAMPLES {
        let offset = last * sample / (SAMPLES - 1) * SECTOR;
        let mut bytes = vec![0; SAMPLE.min(sectors * SECTOR - offset) as usize];
        // An unreadable sector is an error for the guest in both runs.
        let _ = disk.read(offset, &mut bytes);
        sum.update(&bytes);
    }
    let read_only = image.access == Access::ReadOnly;
    let rights = if read_only { ",ro" } else { "" };
    let sum = sum.finalize();
    Ok(format!("disk={sectors}*{SECTOR},{sum:08x}{rights}"))
}

/// A disk whose writes survive resets of its machine, as those in the file of the recorded run did.
#[derive(Clone)]
pub struct KeptDisk(Arc<Mutex<Box<dyn Disk>>>);

impl KeptDisk {
    /// Keeps what is written to `disk`.
    pub fn new(disk: Box<dyn Disk>) -> Self {
        Self(Arc::new(Mutex::new(disk)))
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn Disk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for KeptDisk {
    fn sectors(&self) -> u64 {
        self.lock().sectors()
    }

    fn read_only(&self) -> bool {
        self.lock().read_only()
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.lock().read(offset, data)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.lock().write(offset, data)
    }

    fn write_zeroes(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.lock().write_zeroes(offset, len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().flush()
    }

    fn obstacle(&self) -> Option<&'static str> {
        self.lock().obstacle()
    }

    fn save(&self, to: &mut StateWriter) {
        self.lock().save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.lock().restore(from)
    }
}
