//! Saving and restoring devices: a device writes its fields in order, little-endian, and reads them
//! back.
//!
//! Only state that the guest can change is saved. Back-ends (files, sockets, terminals) and the
//! clock belong to the caller, who builds the device first and then restores it.

/// A device that can be saved and restored.
pub trait Persist {
    /// Why a machine with this device cannot be saved, if part of its state is outside of it.
    /// `None`: it can.
    fn obstacle(&self) -> Option<&'static str> {
        None
    }

    /// All of them, of a device that consists of several.
    fn obstacles(&self) -> Vec<&'static str> {
        self.obstacle().into_iter().collect()
    }

    /// Appends the state.
    fn save(&self, to: &mut StateWriter);

    /// Restores a state and drives the interrupt wire accordingly.
    ///
    /// # Errors
    /// [`StateError`] if it is truncated or was not saved from such a device, which must then be
    /// discarded.
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError>;
}

/// Why a state cannot be restored, in words that follow "the saved device".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StateError(pub &'static str);

/// Collects a state.
#[derive(Debug, Default)]
pub struct StateWriter(Vec<u8>);

impl StateWriter {
    /// Appends a number; smaller ones and `bool` convert to it.
    pub fn number(&mut self, value: impl Into<u64>) {
        self.0.extend(value.into().to_le_bytes());
    }

    /// Appends bytes with their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// The state.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reads a state.
#[derive(Debug)]
pub struct StateReader<'a>(&'a [u8]);

impl<'a> StateReader<'a> {
    /// Reads from the beginning of `state`.
    pub fn new(state: &'a [u8]) -> Self {
        Self(state)
    }

    /// The next number, if it fits into `T`.
    ///
    /// # Errors
    /// [`StateError`] otherwise, or at the end.
    pub fn number<T: TryFrom<u64>>(&mut self) -> Result<T, StateError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(StateError("is cut off"))?;
        self.0 = rest;
        T::try_from(u64::from_le_bytes(*bytes)).map_err(|_| StateError("has a number out of range"))
    }

    /// The next number, which must be 0 or 1.
    ///
    /// # Errors
    /// [`StateError`] otherwise, or at the end.
    pub fn flag(&mut self) -> Result<bool, StateError> {
        match self.number()? {
            0u8 => Ok(false),
            1 => Ok(true),
            _ => Err(StateError("has a number out of range")),
        }
    }

    /// The next bytes, at most `limit`.
    ///
    /// # Errors
    /// [`StateError`] if there are more, or at the end.
    pub fn bytes(&mut self, limit: usize) -> Result<&'a [u8], StateError> {
        let len: usize = self.number()?;
        if len > limit {
            return Err(StateError("holds more than such a device can"));
        }
        if len > self.0.len() {
            return Err(StateError("is cut off"));
        }
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(bytes)
    }

    /// Checks that everything was read.
    ///
    /// # Errors
    /// [`StateError`] otherwise.
    pub fn end(&self) -> Result<(), StateError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(StateError("holds more than such a device has"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_in_order_and_cut_states_are_errors() {
        let mut writer = StateWriter::default();
        writer.number(7u8);
        writer.number(true);
        writer.bytes(b"abc");
        let state = writer.into_bytes();
        let read = |state: &[u8]| -> Result<_, StateError> {
            let mut reader = StateReader::new(state);
            let values = (
                reader.number::<u8>()?,
                reader.flag()?,
                reader.bytes(3)?.to_vec(),
            );
            reader.end()?;
            Ok(values)
        };
        assert_eq!(read(&state), Ok((7, true, b"abc".to_vec())));
        for len in 0..state.len() {
            assert_eq!(read(&state[..len]), Err(StateError("is cut off")));
        }
        assert!(
            StateReader::new(&300u64.to_le_bytes())
                .number::<u8>()
                .is_err()
        );
        assert!(StateReader::new(&u64::MAX.to_le_bytes()).bytes(4).is_err());
    }
}
