//! Interface for state that is saved and restored with a guest.

use std::sync::Arc;
use trapless_devices::{StateError, StateReader, StateWriter};

/// State that is saved and restored with a guest, while the guest does not run.
pub trait Stateful {
    /// Appends the state.
    fn save(&self, to: &mut StateWriter);
    /// Restores the state.
    ///
    /// # Errors
    /// [`StateError`] if the state does not fit the device.
    fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError>;
}

/// Devices by name.
pub type States = Vec<(String, Arc<dyn Stateful>)>;
