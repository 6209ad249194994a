//! The file of a vhart: its pending and enabled interrupts and its state, in host memory.
//!
//! Memory is the only copy (MEM-1); nothing is cached between two accesses.

use trapless_isa::xtrapless::{file, vsthreshold};

use crate::words::Words;
use crate::words::field;

/// A file by its physical address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct File(u64);

/// The control word of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Control(pub u64);

impl Control {
    pub fn soft(self) -> bool {
        self.0 & file::CTL_SOFT != 0
    }

    /// A notification is outstanding.
    pub fn on(self) -> bool {
        self.0 & file::CTL_ON != 0
    }

    /// One of [`state`](trapless_isa::xtrapless::state).
    pub fn state(self) -> u64 {
        field(self.0, file::CTL_STATE, file::CTL_STATE_SHIFT)
    }

    /// Hart the vhart last ran on.
    pub fn hart(self) -> usize {
        field(self.0, file::CTL_HART, file::CTL_HART_SHIFT) as usize
    }

    pub fn with_state(self, state: u64) -> Self {
        Self(self.0 & !file::CTL_STATE | state << file::CTL_STATE_SHIFT & file::CTL_STATE)
    }

    pub fn with_hart(self, hart: usize) -> Self {
        Self(self.0 & !file::CTL_HART | (hart as u64) << file::CTL_HART_SHIFT & file::CTL_HART)
    }

    pub fn with_on(self, on: bool) -> Self {
        self.with(file::CTL_ON, on)
    }

    pub fn with_soft(self, soft: bool) -> Self {
        self.with(file::CTL_SOFT, soft)
    }

    fn with(self, mask: u64, set: bool) -> Self {
        Self(if set { self.0 | mask } else { self.0 & !mask })
    }
}

impl File {
    /// The file at a physical address.
    pub fn at(addr: u64) -> Self {
        Self(addr)
    }

    /// Its physical address.
    pub fn address(self) -> u64 {
        self.0
    }

    /// Updates the control word atomically; returns the old one.
    pub fn update(self, words: &Words, new: impl FnOnce(Control) -> Control) -> Option<Control> {
        words
            .update(self.0, file::CTL, |word| new(Control(word)).0)
            .map(Control)
    }

    /// Makes a source pending or not; returns whether it was. The caller keeps `source` in range.
    pub fn set_pending(self, words: &Words, source: u16, pending: bool) -> Option<bool> {
        self.set_bit(words, pending_offset(source), source, pending)
    }

    /// Enables or disables a source; returns whether it was enabled.
    pub fn set_enable(self, words: &Words, source: u16, enable: bool) -> Option<bool> {
        self.set_bit(words, enable_offset(source), source, enable)
    }

    /// Whether a source is enabled.
    pub fn enabled(self, words: &Words, source: u16) -> Option<bool> {
        let word = words.load(self.0, enable_offset(source))?;
        Some(word >> (source % 64) & 1 != 0)
    }

    /// Pending sources 64 * `index` .. 64 * `index` + 63.
    pub fn pending_word(self, words: &Words, index: u16) -> Option<u64> {
        words.load(self.0, pending_offset(index * 64))
    }

    /// Enabled sources, likewise.
    pub fn enabled_word(self, words: &Words, index: u16) -> Option<u64> {
        words.load(self.0, enable_offset(index * 64))
    }

    /// Control word.
    pub fn control(self, words: &Words) -> Option<Control> {
        words.load(self.0, file::CTL).map(Control)
    }

    /// Priority up to which sources do not interrupt, 0..=7.
    pub fn threshold(self, words: &Words) -> Option<u8> {
        let word = words.load(self.0, file::THRESHOLD)?;
        Some((word & vsthreshold::PRIO) as u8)
    }

    /// Changes the threshold atomically, to the low bits of `new` of it if that is something;
    /// returns the old one.
    pub fn change_threshold(
        self,
        words: &Words,
        new: impl FnOnce(u64) -> Option<u64>,
    ) -> Option<u8> {
        let old = words.update(self.0, file::THRESHOLD, |word| {
            let old = word & vsthreshold::PRIO;
            word & !vsthreshold::PRIO | new(old).unwrap_or(old) & vsthreshold::PRIO
        })?;
        Some((old & vsthreshold::PRIO) as u8)
    }

    fn set_bit(self, words: &Words, offset: u64, source: u16, value: bool) -> Option<bool> {
        let bit = 1 << (source % 64);
        let old = words.update(
            self.0,
            offset,
            |word| {
                if value { word | bit } else { word & !bit }
            },
        )?;
        Some(old & bit != 0)
    }
}

/// Offset of the word with the pending bit of a source.
fn pending_offset(source: u16) -> u64 {
    file::PENDING + u64::from(source / 64) * file::PENDING_STRIDE
}

/// Offset of the word with the enable bit of a source.
fn enable_offset(source: u16) -> u64 {
    file::ENABLE + u64::from(source / 64) * file::ENABLE_STRIDE
}
