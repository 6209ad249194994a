//! Console input of the guest.

use std::collections::VecDeque;
use trapless_devices::{StateError, StateReader, StateWriter};

/// Receiver of typed bytes.
pub trait InputSink: Send + Sync {
    /// Passes bytes; the sink queues those that the guest does not take yet.
    fn push(&self, bytes: &[u8]);
    /// Whether more than a screenful is queued for the guest, so that reading should pause.
    fn full(&self) -> bool;
}

/// Maximum size of a console's type-ahead in bytes.
pub const TYPE_AHEAD: usize = 4096;

/// Appends type-ahead.
pub fn save_input(input: &VecDeque<u8>, to: &mut StateWriter) {
    let (first, second) = input.as_slices();
    to.bytes(&[first, second].concat());
}

/// Reads type-ahead. More than one read of the terminal beyond the limit is never held.
///
/// # Errors
/// [`StateError`] if there is more.
pub fn restore_input(from: &mut StateReader<'_>) -> Result<VecDeque<u8>, StateError> {
    Ok(from.bytes(2 * TYPE_AHEAD)?.iter().copied().collect())
}
