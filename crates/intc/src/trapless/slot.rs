//! The slot of a hart: the vhart that runs on it.

use serde::{Deserialize, Serialize};
use trapless_isa::xtrapless::hifmap;

use super::layout::is_vs_level;

/// A valid slot. It does not contain pending interrupts, only the inputs that the file drove when
/// it was last read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Slot {
    pub domain: u16,
    pub vhart: u16,
    /// `vsip.SSIP` and `vsip.SEIP`.
    pub lines: u64,
}

impl Slot {
    /// Value of `hifmap`; an invalid slot reads as zero.
    pub fn encode(slot: Option<Self>) -> u64 {
        slot.map_or(0, |slot| {
            hifmap::V
                | u64::from(slot.domain) << hifmap::DOM_SHIFT
                | u64::from(slot.vhart) << hifmap::VHART_SHIFT
        })
    }

    /// Whether a restored slot can have come from this controller.
    pub fn is_sound(self) -> bool {
        is_vs_level(self.lines)
    }
}
