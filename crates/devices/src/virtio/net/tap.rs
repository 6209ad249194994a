//! A tap interface of a Linux host as the other end of the link: for the VMM.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use thiserror::Error;

use super::{MAX_FRAME, NetBackend};

/// Why a tap interface cannot be used; each is a message for the user.
#[derive(Debug, Error)]
pub enum TapError {
    /// The name does not fit an interface name.
    #[error("'{0}' is not an interface name; give 1 to 15 characters without a zero byte")]
    Name(String),
    /// The tun driver is missing or closed to the user.
    #[error(
        "cannot open /dev/net/tun: {0}; load the 'tun' module and run with permission to open it"
    )]
    Driver(#[source] io::Error),
    /// The kernel refused the interface.
    #[error(
        "cannot attach to the tap interface {name}: {source}; create it for this user with: ip tuntap add {name} mode tap user NAME"
    )]
    Attach {
        /// The interface.
        name: String,
        /// The kernel's reason.
        source: io::Error,
    },
}

/// A tap interface, non-blocking. When its descriptor *becomes* readable, poll the device: watch it
/// edge-triggered, as it stays readable while the guest has no buffers, whose arrival makes the
/// device read on by itself.
#[derive(Debug)]
pub struct Tap {
    file: File,
}

impl Tap {
    /// Attaches to the tap interface `name`, creating it if the user may.
    pub fn open(name: &str) -> Result<Self, TapError> {
        let bad_name = || TapError::Name(name.into());
        let c_name = CString::new(name).map_err(|_| bad_name())?;
        let bytes = c_name.as_bytes_with_nul();
        if name.is_empty() || bytes.len() > libc::IFNAMSIZ {
            return Err(bad_name());
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(TapError::Driver)?;
        // SAFETY: all zeroes is a valid value of this plain C struct.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
            *to = *from as libc::c_char;
        }
        // Frames with nothing before them: the device handles the virtio header, and no offload is
        // used.
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the descriptor is open and TUNSETIFF reads and writes one `ifreq`, which outlives
        // the call.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } < 0 {
            return Err(TapError::Attach {
                name: name.into(),
                source: io::Error::last_os_error(),
            });
        }
        Ok(Self { file })
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Tap {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl NetBackend for Tap {
    fn send(&mut self, frame: &[u8]) {
        // A full queue or an interface that is down loses frames, as any network may.
        let _ = (&self.file).write(frame);
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        frame.resize(MAX_FRAME, 0);
        loop {
            match self.file.read(frame) {
                Ok(len) => {
                    frame.truncate(len);
                    return len > 0;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }
}
