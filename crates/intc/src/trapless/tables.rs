//! The tables in host memory: domains, vharts, sources, line levels.

use trapless_isa::xtrapless::{domain, hvtablebase, limits, source, vhart};

use super::file::File;
use crate::inspect::bits;
use crate::words::Words;
use crate::words::field;

/// Where the outstanding resamples begin behind the line levels, in bytes.
const RESAMPLES: u64 = (limits::MAX_SOURCES + 1) / 8;

/// A valid entry of the domain table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Domain {
    pub id: u16,
    /// Its sources interrupt harts (MSG-10); it has no vharts.
    pub host: bool,
    /// Highest source, at most 1023.
    pub sources: u16,
    /// Number of vharts, at most 1024.
    vharts: u16,
    entry: u64,
}

/// A valid entry of the source table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Source {
    pub vhart: u16,
    pub priority: u8,
    pub level: bool,
    pub resample: bool,
}

impl Domain {
    /// Domain `id` in the table that `base` (a value of `hvtablebase`) names. `windows`: there are
    /// message windows, so that `HOST` has a meaning.
    pub fn find(words: &Words, base: u64, id: u16, windows: bool) -> Option<Self> {
        let entries = 1u64 << field(base, hvtablebase::SIZE, hvtablebase::SIZE_SHIFT).min(16);
        if base & hvtablebase::V == 0 || u64::from(id) >= entries {
            return None;
        }
        let entry = (base & hvtablebase::PPN) + u64::from(id) * domain::SIZE;
        let config = words.load(entry, domain::CONFIG)?;
        if config & domain::CONFIG_V == 0 {
            return None;
        }
        let sources = field(config, domain::CONFIG_SOURCES, domain::CONFIG_SOURCES_SHIFT);
        let vharts = field(config, domain::CONFIG_VHARTS, domain::CONFIG_VHARTS_SHIFT);
        let host = windows && config & domain::CONFIG_HOST != 0;
        let vharts = if host { 0 } else { vharts };
        Some(Self {
            id,
            host,
            sources: sources.min(limits::MAX_SOURCES) as u16,
            vharts: vharts.min(limits::MAX_VHARTS) as u16,
            entry,
        })
    }

    /// The file of a vhart, if that exists.
    pub fn file(&self, words: &Words, number: u16) -> Option<File> {
        if number >= self.vharts {
            return None;
        }
        let table = words.load(self.entry, domain::VHART_TABLE)?;
        let entry = words.load(table, u64::from(number) * vhart::SIZE)?;
        (entry & vhart::ENTRY_V != 0).then_some(File::at(entry & vhart::ENTRY_FILE))
    }

    /// Address of the source table; read once for a search.
    pub fn source_table(&self, words: &Words) -> Option<u64> {
        words.load(self.entry, domain::SOURCE_TABLE)
    }

    /// The entry of a source, if that exists.
    pub fn source(&self, words: &Words, number: u16) -> Option<Source> {
        if number == 0 || number > self.sources {
            return None;
        }
        Source::load(words, self.source_table(words)?, number)
    }

    /// Drives the line of a source; returns its old level.
    pub fn set_line(&self, words: &Words, number: u16, high: bool) -> Option<bool> {
        self.set_bit(words, 0, number, high)
    }

    /// Level of the line of a source.
    pub fn line(&self, words: &Words, number: u16) -> Option<bool> {
        let lines = words.load(self.entry, domain::LINES)?;
        let word = words.load(lines, word_of(number))?;
        Some(word >> (number % 64) & 1 != 0)
    }

    /// Sets whether a completion of a RESAMPLE source is outstanding for the host, or a source of
    /// the host pending; returns the old state.
    pub fn set_resample(&self, words: &Words, number: u16, outstanding: bool) -> Option<bool> {
        self.set_bit(words, RESAMPLES, number, outstanding)
    }

    /// Number of vharts.
    pub fn vharts(&self) -> u16 {
        self.vharts
    }

    /// The word of its entry at `offset`.
    pub fn word(&self, words: &Words, offset: u64) -> Option<u64> {
        words.load(self.entry, offset)
    }

    /// Sources whose line is high.
    pub fn lines(&self, words: &Words) -> Vec<usize> {
        self.bitmap(words, 0)
    }

    /// Sources whose completion the host has yet to handle, or sources of the host that are
    /// pending.
    pub fn resamples(&self, words: &Words) -> Vec<usize> {
        self.bitmap(words, RESAMPLES)
    }

    fn bitmap(&self, words: &Words, at: u64) -> Vec<usize> {
        let Some(lines) = self.word(words, domain::LINES) else {
            return Vec::new();
        };
        let word = |i| words.load(lines, at + word_of(i * 64)).unwrap_or(0);
        let set = bits((0..=self.sources / 64).map(word), 64);
        set.filter(|n| (1..=usize::from(self.sources)).contains(n))
            .collect()
    }

    fn set_bit(&self, words: &Words, bitmap: u64, number: u16, value: bool) -> Option<bool> {
        let lines = words.load(self.entry, domain::LINES)?;
        let bit = 1 << (number % 64);
        let old = words.update(lines, bitmap + word_of(number), |word| {
            if value { word | bit } else { word & !bit }
        })?;
        Some(old & bit != 0)
    }
}

impl Source {
    /// Entry `number` of the table at `table`, if it is valid.
    pub fn load(words: &Words, table: u64, number: u16) -> Option<Self> {
        let entry = words.load(table, u64::from(number) * source::SIZE)?;
        (entry & source::ENTRY_V != 0).then_some(Self {
            vhart: field(entry, source::ENTRY_VHART, source::ENTRY_VHART_SHIFT) as u16,
            priority: field(entry, source::ENTRY_PRIO, source::ENTRY_PRIO_SHIFT) as u8,
            level: entry & source::ENTRY_LEVEL != 0,
            resample: entry & source::ENTRY_RESAMPLE != 0,
        })
    }
}

/// Offset of the word with the bit of a source in a bitmap.
fn word_of(number: u16) -> u64 {
    u64::from(number / 64) * 8
}
