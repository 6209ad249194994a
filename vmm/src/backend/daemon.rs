//! Connections of VMMs to a socket, one after another.

use crate::error::{Error, Result};
use std::path::Path;
use std::sync::Arc;
use vhost_user_backend::{VhostUserBackend, VhostUserDaemon, VringRwLock};
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};

/// Guest memory in the daemon's form.
pub type Memory = GuestMemoryAtomic<GuestMemoryMmap>;

/// A vhost-user device.
pub trait Device: VhostUserBackend<Bitmap = (), Vring = VringRwLock> + 'static {
    /// The VMM has disconnected: its guest's memory must not be accessed any more.
    fn stop(&self);
}

/// Serves the VMM that connects to `socket` by the device that `make` creates for the guest's
/// memory; then the next one, with a new device.
///
/// # Errors
/// [`Error::User`] if the socket cannot be created, [`Error::Failed`] for failed system calls.
pub fn serve<D: Device>(
    socket: &Path,
    name: &str,
    mut make: impl FnMut(Memory) -> Result<D>,
) -> Result<()> {
    loop {
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let device = Arc::new(make(memory.clone())?);
        let mut daemon = VhostUserDaemon::new(name.into(), Arc::clone(&device), memory)
            .map_err(|e| Error::failed("vhost-user", e))?;
        // A VMM that disconnects without notice is not an error.
        if let Err(e) = daemon.serve(socket) {
            match e {
                vhost_user_backend::Error::HandleRequest(e) => {
                    eprintln!("trapless-backend: the VMM's connection: {e}");
                }
                e => {
                    let shown = socket.display();
                    return Err(Error::user(format!("cannot listen at {shown}: {e}")));
                }
            }
        }
        device.stop();
    }
}
