//! Where tables and files lie, and what they hold at the beginning.

use trapless_isa::xtrapless::{domain, file, source, vhart};

use crate::memory::{RAM, Words};
use crate::random::Random;

/// Entries of the domain table, as a power of two.
pub const TABLE_SIZE: u64 = 3;
/// Domains that exist, with their highest source. The last one comes and goes.
pub const DOMAINS: [(u16, u16); 4] = [(1, 70), (2, 200), (3, 1023), (6, 20)];
/// Vharts of each domain. The entry of the last one is not valid.
pub const VHARTS: u16 = 6;

/// A domain beyond the table, at which memory says what it says of the first.
pub const BEYOND: u16 = 9;

/// Entry of a domain.
#[must_use]
pub fn domain_entry(id: u16) -> u64 {
    RAM + u64::from(id) * domain::SIZE
}

/// Entry of a vhart.
#[must_use]
pub fn vhart_entry(id: u16, number: u16) -> u64 {
    RAM + 0x1000 + u64::from(id) * 0x100 + u64::from(number) * vhart::SIZE
}

/// Line bitmaps of a domain.
#[must_use]
pub fn lines(id: u16) -> u64 {
    RAM + 0x2000 + u64::from(id) * 0x100
}

/// Entry of a source.
#[must_use]
pub fn source_entry(id: u16, number: u16) -> u64 {
    RAM + 0x4000 + u64::from(id) * 0x2000 + u64::from(number) * source::SIZE
}

/// File of a vhart.
#[must_use]
pub fn file_of(id: u16, number: u16) -> u64 {
    RAM + 0x1_4000 + u64::from(id * VHARTS + number) * file::SIZE
}

/// Ring of a hart, for up to 512 entries.
#[must_use]
pub fn queue(hart: usize) -> u64 {
    RAM + 0x2_0000 + hart as u64 * 0x1000
}

/// An entry of the source table with random contents.
pub fn random_source(random: &mut Random) -> u64 {
    let valid = if random.one_in(12) {
        0
    } else {
        source::ENTRY_V
    };
    let level = if random.one_in(2) {
        source::ENTRY_LEVEL
    } else {
        0
    };
    let resample = if random.one_in(4) {
        source::ENTRY_RESAMPLE
    } else {
        0
    };
    let priority = random.below(8) << source::ENTRY_PRIO_SHIFT;
    // Mostly one of two, now and then one that does not exist.
    let vhart = match random.below(16) {
        0 => u64::from(VHARTS),
        1..5 => random.below(u64::from(VHARTS)),
        _ => random.below(2),
    };
    valid | level | resample | priority | vhart
}

/// Writes the entry of [`BEYOND`].
fn fill_beyond(words: &mut Words) {
    for word in (0..domain::SIZE).step_by(8) {
        let value = words.get(domain_entry(DOMAINS[0].0) + word);
        words.set(domain_entry(BEYOND) + word, value);
    }
}

/// Writes tables, and files of which nothing is pending.
pub fn fill(words: &mut Words, random: &mut Random) {
    for (id, sources) in DOMAINS {
        let entry = domain_entry(id);
        let config = domain::CONFIG_V
            | u64::from(sources) << domain::CONFIG_SOURCES_SHIFT
            | u64::from(VHARTS) << domain::CONFIG_VHARTS_SHIFT;
        words.set(entry + domain::CONFIG, config);
        // The lowest bits of an address are ignored.
        words.set(
            entry + domain::VHART_TABLE,
            vhart_entry(id, 0) | random.below(8),
        );
        words.set(
            entry + domain::SOURCE_TABLE,
            source_entry(id, 0) | random.below(8),
        );
        words.set(entry + domain::LINES, lines(id) | random.below(8));
        for number in 0..VHARTS {
            let valid = if number == VHARTS - 1 {
                0
            } else {
                vhart::ENTRY_V
            };
            words.set(vhart_entry(id, number), valid | file_of(id, number));
        }
        for number in 0..VHARTS {
            for word in 0..=u64::from(sources / 64) {
                let enable = file_of(id, number) + file::ENABLE + word * file::ENABLE_STRIDE;
                words.set(enable, random.bits() | random.bits());
            }
        }
        for number in 1..=sources {
            words.set(source_entry(id, number), random_source(random));
        }
    }
    fill_beyond(words);
}
