//! Accesses to doorbell pages: stores are matched with doorbells, loads are answered by a shadow.

use trapless_isa::haiov::{bell, limits};
use trapless_isa::port::{DoorbellAccess, DoorbellFault, EventOrigin};

use super::operation::Operation;
use crate::words::{Words, field};

/// Bytes of the unit in which loads are enabled and bits are cleared.
const UNIT: u64 = 4;

/// Header of a valid doorbell page.
struct Page<'a> {
    words: &'a Words,
    /// Its physical address.
    at: u64,
    doorbells: u64,
    /// Physical address of the shadow.
    shadow: Option<u64>,
}

impl<'a> Page<'a> {
    fn new(words: &'a Words, at: u64, header: u64) -> Self {
        let shadow = words.load(at, bell::SHADOW);
        Self {
            words,
            at,
            doorbells: field(header, bell::HEADER_COUNT, bell::HEADER_COUNT_SHIFT)
                .min(limits::MAX_DOORBELLS),
            shadow: shadow
                .filter(|word| word & bell::SHADOW_V != 0)
                .map(|word| word & bell::SHADOW_PPN),
        }
    }

    /// Loads from the shadow, if the page permits it.
    fn load(&self, offset: u64, size: u64) -> Option<u64> {
        let shadow = self.shadow?;
        let units = offset / UNIT..(offset + size).div_ceil(UNIT);
        for unit in units {
            let word = self.words.load(self.at, bell::LOADS + unit / 64 * 8)?;
            if word >> (unit % 64) & 1 == 0 {
                return None;
            }
        }
        let word = self.words.load(shadow, offset & !7)?;
        Some(word >> (offset % 8 * 8) & (u64::MAX >> (64 - 8 * size)))
    }

    /// The first doorbell that a store matches.
    fn matched(&self, offset: u64, size: u64, value: u64) -> Option<u64> {
        for index in 0..self.doorbells {
            let at = bell::MATCH + index * bell::MATCH_STRIDE;
            let doorbell = self.words.load(self.at, at)?;
            let width = 1 << field(doorbell, bell::MATCH_WIDTH, bell::MATCH_WIDTH_SHIFT);
            let fits = doorbell & bell::MATCH_V != 0
                && field(doorbell, bell::MATCH_OFFSET, bell::MATCH_OFFSET_SHIFT) == offset
                && (doorbell & bell::MATCH_ANY != 0 || size == width);
            if !fits {
                continue;
            }
            if doorbell & bell::MATCH_DATA == 0
                || self.words.load(self.at, at + bell::VALUE - bell::MATCH)? == value
            {
                return Some(doorbell);
            }
        }
        None
    }

    /// Clears bits of a unit of the shadow.
    fn clear(&self, unit: u64, bits: u64) -> Option<()> {
        let shift = unit % 2 * 32;
        let bits = (bits & 0xffff_ffff) << shift;
        self.words
            .update(self.shadow?, unit / 2 * 8, |word| word & !bits)
            .map(|_| ())
    }
}

impl Operation<'_> {
    /// Executes a load or store.
    pub fn doorbell(&mut self, access: &DoorbellAccess) -> Result<u64, DoorbellFault> {
        let header = self.words.load(access.page, bell::HEADER);
        let header = header.filter(|word| word & bell::HEADER_V != 0);
        let fault = DoorbellFault {
            mmio: header.is_some_and(|word| word & bell::HEADER_MMIO != 0),
        };
        let (offset, size) = (u64::from(access.offset), u64::from(access.size));
        if offset % size != 0 {
            return Err(fault);
        }
        let page = Page::new(self.words, access.page, header.ok_or(fault)?);
        match access.stored {
            None => page.load(offset, size).ok_or(fault),
            Some(value) => {
                let value = value & (u64::MAX >> (64 - 8 * size));
                let doorbell = page.matched(offset, size, value).ok_or(fault)?;
                self.ring(&page, doorbell, value).ok_or(fault)
            }
        }
    }

    /// Executes the actions of a doorbell. If its event cannot be posted, nothing is done.
    fn ring(&mut self, page: &Page<'_>, doorbell: u64, value: u64) -> Option<u64> {
        let posts = doorbell & bell::MATCH_POST != 0;
        let request = field(doorbell, bell::MATCH_REQUEST, bell::MATCH_REQUEST_SHIFT) as u16;
        if posts && !self.can_post(request) {
            return None;
        }
        if doorbell & bell::MATCH_CLEAR != 0 {
            let unit = field(doorbell, bell::MATCH_UNIT, bell::MATCH_UNIT_SHIFT);
            page.clear(unit, value)?;
        }
        if posts {
            self.post_request(request, EventOrigin::Doorbell);
        }
        Some(0)
    }
}
