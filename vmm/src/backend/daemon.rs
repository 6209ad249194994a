//! The conversation with VMMs at a socket, one after the other.

use crate::error::{Error, Result};
use std::path::Path;
use std::sync::Arc;
use vhost_user_backend::{VhostUserBackend, VhostUserDaemon, VringRwLock};
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};

/// Guest memory as the daemon hands it out.
pub type Memory = GuestMemoryAtomic<GuestMemoryMmap>;

/// A device as its VMM sees it.
pub trait Device: VhostUserBackend<Bitmap = (), Vring = VringRwLock> + 'static {
    /// The VMM has gone: nothing of its guest is touched any more.
    fn stop(&self);
}

/// Lets the device that `make` makes for a guest's memory talk to the VMM that connects to
/// `socket`; then to the next one, with a new device.
///
/// # Errors
/// [`Error::User`] if nobody can listen there, [`Error::Failed`] for what the system refused.
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
        // A VMM that goes away without a word is no mistake of ours.
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
