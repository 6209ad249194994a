//! Disks that a repeated run writes.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trapless_devices::virtio::block::Disk;
use trapless_devices::{StateError, StateReader, StateWriter};

/// A disk that stays from one reset of its machine to the next, as the file does that the recorded
/// run wrote.
#[derive(Clone)]
pub struct KeptDisk(Arc<Mutex<Box<dyn Disk>>>);

impl KeptDisk {
    /// One that holds what is written to `disk`.
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
