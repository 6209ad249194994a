//! The search over a vhart's pending sources.

use trapless_isa::cause::interrupt;
use trapless_isa::xtrapless::vsthreshold;

use super::file::{Control, File};
use super::tables::{Domain, Source};
use crate::words::Words;

/// Highest priority, at which a search ends.
const HIGHEST: u8 = vsthreshold::PRIO as u8;

impl File {
    /// Inputs that the file drives: `vsip.SSIP` and `vsip.SEIP`.
    pub fn lines(self, words: &Words, domain: &Domain) -> u64 {
        let soft = self.control(words).is_some_and(Control::soft);
        let external = self.search(words, domain, true).is_some();
        u64::from(soft) << interrupt::VSSI | u64::from(external) << interrupt::VSEI
    }

    /// Takes the most urgent source that is pending, enabled and above the threshold, the lowest
    /// one of equal priority (EXT-3, EXT-4).
    pub fn claim(self, words: &Words, domain: &Domain) -> Option<u16> {
        let source = self.search(words, domain, false)?;
        self.set_pending(words, source, false)?;
        Some(source)
    }

    /// The source [`claim`](Self::claim) would take; with `any`, the first deliverable one.
    fn search(self, words: &Words, domain: &Domain, any: bool) -> Option<u16> {
        let mut best = None;
        // Read only if something is pending.
        let mut threshold_and_table = None;
        for i in 0..=domain.sources / 64 {
            // What cannot be read counts as 0 (MEM-6).
            let pending = self.pending_word(words, i).unwrap_or(0);
            if pending == 0 {
                continue;
            }
            let mut candidates = pending & self.enabled_word(words, i).unwrap_or(0);
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
}
