//! The file of a vhart: what is pending for it, in host memory.
//!
//! Memory is the only truth (MEM-1); nothing here is kept between two accesses.

use trapless_isa::xtrapless::{file, vsthreshold};

use super::tables::{Domain, Source};
use super::words::Words;
use super::{SEI, SSI, field};

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

    /// Updates the control word atomically; returns the old one.
    pub fn update(self, words: &Words, new: impl FnOnce(Control) -> Control) -> Option<Control> {
        words
            .update(self.0, file::CTL, |word| new(Control(word)).0)
            .map(Control)
    }

    /// Makes a source pending or not; returns whether it was. The caller keeps `source` in range.
    pub fn set_pending(self, words: &Words, source: u16, pending: bool) -> Option<bool> {
        let offset = file::PENDING + u64::from(source / 64) * file::PENDING_STRIDE;
        self.set_bit(words, offset, source, pending)
    }

    /// Enables or disables a source; returns whether it was enabled.
    pub fn set_enable(self, words: &Words, source: u16, enable: bool) -> Option<bool> {
        self.set_bit(words, enable_word(source), source, enable)
    }

    /// Whether a source is enabled.
    pub fn enabled(self, words: &Words, source: u16) -> Option<bool> {
        let word = words.load(self.0, enable_word(source))?;
        Some(word >> (source % 64) & 1 != 0)
    }

    /// Priority up to which sources do not interrupt, 0..=7.
    pub fn threshold(self, words: &Words) -> Option<u8> {
        let word = words.load(self.0, file::THRESHOLD)?;
        Some((word & vsthreshold::PRIO) as u8)
    }

    pub fn set_threshold(self, words: &Words, threshold: u64) {
        words.update(self.0, file::THRESHOLD, |word| {
            word & !vsthreshold::PRIO | threshold & vsthreshold::PRIO
        });
    }

    /// What the file drives: `vsip.SSIP` and `vsip.SEIP`.
    pub fn lines(self, words: &Words, domain: &Domain) -> u64 {
        let soft = words
            .load(self.0, file::CTL)
            .is_some_and(|word| Control(word).soft());
        let external = self.search(words, domain, true).is_some();
        u64::from(soft) << SSI | u64::from(external) << SEI
    }

    /// Takes the most urgent source that is pending, enabled and above the threshold, the lowest
    /// one of equal priority (EXT-3, EXT-4).
    pub fn claim(self, words: &Words, domain: &Domain) -> Option<u16> {
        let source = self.search(words, domain, false)?;
        self.set_pending(words, source, false)?;
        Some(source)
    }

    /// The source that [`claim`](Self::claim) would take, or just `any` that it could.
    fn search(self, words: &Words, domain: &Domain, any: bool) -> Option<u16> {
        let mut best = None;
        // Read only if something is pending.
        let mut threshold_and_table = None;
        for i in 0..=domain.sources / 64 {
            let step = u64::from(i);
            let pending = words.load(self.0, file::PENDING + step * file::PENDING_STRIDE)?;
            if pending == 0 {
                continue;
            }
            let enabled = words.load(self.0, file::ENABLE + step * file::ENABLE_STRIDE)?;
            let mut candidates = pending & enabled;
            while candidates != 0 {
                let source = i * 64 + candidates.trailing_zeros() as u16;
                candidates &= candidates - 1;
                if source == 0 || source > domain.sources {
                    continue;
                }
                let (threshold, table) = match threshold_and_table {
                    Some(known) => known,
                    None => (self.threshold(words)?, domain.source_table(words)?),
                };
                threshold_and_table = Some((threshold, table));
                let floor = best.map_or(threshold, |(priority, _)| priority);
                let priority = Source::load(words, table, source).map_or(0, |s| s.priority);
                if priority > floor {
                    best = Some((priority, source));
                    if any || priority == HIGHEST {
                        return Some(source);
                    }
                }
            }
        }
        best.map(|(_, source)| source)
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

/// Nothing is more urgent: a search ends there.
const HIGHEST: u8 = vsthreshold::PRIO as u8;

fn enable_word(source: u16) -> u64 {
    file::ENABLE + u64::from(source / 64) * file::ENABLE_STRIDE
}
