//! Signals to the VMM, as a file descriptor.

use crate::error::{Error, Result};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Signals as a file descriptor.
pub struct Signals(OwnedFd);

impl Signals {
    /// Blocks SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 in this thread (threads started later
    /// inherit that) and receives them. SIGXFSZ is blocked and not received: a file at its size
    /// limit is an error of the write.
    ///
    /// # Errors
    /// [`Error::Failed`] if the system call fails.
    pub fn receive() -> Result<Self> {
        let received = [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGUSR1,
            libc::SIGUSR2,
        ];
        let blocked = [&received[..], &[libc::SIGXFSZ]].concat();
        let set = |numbers: &[i32]| {
            vmm_sys_util::signal::create_sigset(numbers).map_err(|e| Error::failed("signal set", e))
        };
        let (received, blocked) = (set(&received)?, set(&blocked)?);
        // SAFETY: both are valid signal sets.
        let fd = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &blocked, std::ptr::null_mut());
            libc::signalfd(-1, &received, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(Error::failed(
                "cannot receive signals",
                io::Error::last_os_error(),
            ));
        }
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next signal that has arrived.
    pub fn take(&self) -> Option<i32> {
        // SAFETY: signalfd_siginfo is plain old data.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let len = size_of_val(&info);
        // SAFETY: the buffer has `len` bytes.
        let got = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), len) };
        (got == len as isize).then_some(info.ssi_signo as i32)
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_may_not_grow_does_not_end_the_vmm() {
        // In a thread of its own, whose mask it is
        let receive = || {
            let signals = Signals::receive().unwrap();
            for signal in [libc::SIGXFSZ, libc::SIGUSR1] {
                // SAFETY: the signal goes to this thread, which blocks it.
                assert_eq!(unsafe { libc::raise(signal) }, 0);
            }
            [signals.take(), signals.take()]
        };
        let taken = std::thread::spawn(receive).join().unwrap();
        assert_eq!(taken, [Some(libc::SIGUSR1), None]);
    }
}
