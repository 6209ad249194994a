//! Back ends that end, and their replacement.

use crate::devices::locked::Locked;
use crate::devices::virtio::vhost::user::{Connection, Kind, VhostUser};
use crate::error::Error;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;
use trapless_devices::virtio::VirtioMmio;

/// The back end of a device.
pub struct BackEnd {
    /// Name of the device in messages.
    pub name: String,
    /// The device.
    pub kind: Kind,
    /// The socket at which it listens.
    pub socket: PathBuf,
    /// How long to wait for a replacement.
    pub patience: Duration,
}

impl BackEnd {
    /// How long the first may take to listen.
    pub const FIRST: Duration = Duration::from_millis(500);

    /// Waits for the back end at the other side of `socket` to end and continues with a
    /// replacement, if one connects in time; else reports a failure to the driver, and returns.
    pub fn watch(&self, mut socket: RawFd, device: &Locked<VirtioMmio<VhostUser>>) {
        loop {
            wait_for_end(socket);
            let name = &self.name;
            eprintln!("trapless-vmm: the back end of {name} has ended");
            match self.next(device) {
                Some(next) => {
                    eprintln!("trapless-vmm: {name} continues with a new one");
                    socket = next;
                }
                None => return device.with(VirtioMmio::abandoned),
            }
        }
    }

    fn next(&self, device: &Locked<VirtioMmio<VhostUser>>) -> Option<RawFd> {
        if self.patience.is_zero() {
            return None;
        }
        let complain = |e: &Error| eprintln!("trapless-vmm: {}: {e}", self.name);
        let next = Connection::open(self.kind, &self.socket, self.patience);
        let next = next.inspect_err(complain).ok()?;
        let socket = next.as_raw_fd();
        let mut adopted = None;
        device.with(|device| adopted = Some(device.device_mut().adopt(next)));
        adopted?.inspect_err(complain).ok().map(|()| socket)
    }
}

fn wait_for_end(socket: RawFd) {
    let mut wanted = libc::pollfd {
        fd: socket,
        events: libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: one pollfd, which outlives the call. The device keeps the socket open.
    while unsafe { libc::poll(&mut wanted, 1, -1) } < 0 {}
}
