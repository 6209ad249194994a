//! What is saved and restored with a guest.

use std::sync::Arc;
use trapless_devices::{StateError, StateReader, StateWriter};

/// What is saved and restored with a guest. The guest does not run meanwhile.
pub trait Stateful {
    /// Appends the state.
    fn save(&self, to: &mut StateWriter);
    /// Takes over a state.
    ///
    /// # Errors
    /// [`StateError`] if it does not fit.
    fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError>;
}

/// Devices by name.
pub type States = Vec<(String, Arc<dyn Stateful>)>;
