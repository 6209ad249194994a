//! A hart's time: figures by mode, with waiting separate.

use std::collections::BTreeMap;

use trapless_isa::Mode;

use crate::names::names;

names! {
    /// A mode of a hart, or waiting in it. The first are in the order of [`Mode`].
    pub enum Slot("mode of a hart") {
        /// Virtual user.
        VU = "VU",
        /// Virtual supervisor.
        VS = "VS",
        /// User.
        U = "U",
        /// Supervisor.
        HS = "HS",
        /// Machine.
        M = "M",
        /// Waiting in WFI, in any mode.
        Idle = "idle",
    }
}

/// Figures by mode.
pub type PerMode<T> = BTreeMap<Slot, T>;

impl From<Mode> for Slot {
    fn from(mode: Mode) -> Self {
        Self::ALL[mode as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_their_own_names() {
        for mode in Mode::ALL {
            assert_eq!(Slot::from(mode).name(), mode.name());
        }
    }
}
