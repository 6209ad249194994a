//! The host's side of the network card.

use crate::error::{Error, Result};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trapless_devices::virtio::net::{NetBackend, Tap};

/// A tap interface that survives the restart of a guest: closing it would remove its configuration.
#[derive(Clone)]
pub struct SharedTap {
    tap: Arc<Mutex<Tap>>,
    mac: [u8; 6],
}

impl SharedTap {
    /// Attaches to the interface `name`.
    ///
    /// # Errors
    /// [`Error::User`] if it cannot be attached.
    pub fn open(name: &str) -> Result<Self> {
        let tap = Tap::open(name).map_err(|e| Error::user(e.to_string()))?;
        Ok(Self {
            tap: Arc::new(Mutex::new(tap)),
            mac: mac_address(name),
        })
    }

    /// MAC address of the guest's network card.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Another descriptor of the interface.
    ///
    /// # Errors
    /// If there are no more descriptors.
    pub fn file(&self) -> io::Result<File> {
        self.lock().as_fd().try_clone_to_owned().map(File::from)
    }

    fn lock(&self) -> MutexGuard<'_, Tap> {
        self.tap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NetBackend for SharedTap {
    fn send(&mut self, frame: &[u8]) {
        self.lock().send(frame);
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        self.lock().receive(frame)
    }
}

impl AsRawFd for SharedTap {
    fn as_raw_fd(&self) -> RawFd {
        self.lock().as_raw_fd()
    }
}

/// A locally administered MAC address that depends only on the name of the interface (FNV-1a), so
/// that two guests of a host differ and each guest keeps its own.
pub fn mac_address(name: &str) -> [u8; 6] {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let bytes = hash.to_be_bytes();
    [0x52, 0x54, 0x00, bytes[5], bytes[6], bytes[7]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses_are_local_unicast_and_differ() {
        let (a, b) = (mac_address("tap0"), mac_address("tap1"));
        assert_ne!(a, b);
        assert_eq!(a[0] & 0b11, 0b10);
    }
}
