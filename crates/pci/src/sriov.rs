//! Single root I/O virtualization (PCI Express Base 5.0, section 9.3.3): the capability of a
//! physical function, by which software makes virtual functions appear.

use crate::config::{Bar, Config, Extended};
use crate::function::Layout;

/// Most virtual functions of a device: a routing ID has three bits for the function, of which 0 is
/// the physical one. More would need ARI, which integrated endpoints do not have.
pub const MAX_VIRTUAL_FUNCTIONS: usize = 7;

/// ID of the capability.
const ID: u16 = 0x10;
/// Offsets of its registers.
const CONTROL: usize = 0x08;
const INITIAL: usize = 0x0c;
const TOTAL: usize = 0x0e;
const COUNT: usize = 0x10;
const FIRST: usize = 0x14;
const STRIDE: usize = 0x16;
const DEVICE: usize = 0x1a;
const PAGE_SIZES: usize = 0x1c;
const PAGE_SIZE: usize = 0x20;
const BARS: usize = 0x24;
const LEN: usize = 0x40;
/// Bytes of the header.
const HEADER: usize = 4;

/// Bits of control: virtual functions exist, and answer in their BARs.
const ENABLE: u16 = 1 << 0;
const MEMORY: u16 = 1 << 3;
/// The only page size there is, which BARs are multiples of.
const PAGE: u64 = 4096;

/// The capability of a function.
pub(crate) struct Sriov {
    at: usize,
    bars: Vec<Bar>,
    total: usize,
}

/// What must not change while virtual functions exist.
#[derive(Clone, Copy)]
pub(crate) struct Before {
    enabled: bool,
    count: u16,
}

impl Sriov {
    /// Adds it to the configuration space of a function with `total` virtual functions, which are
    /// as `layout` says.
    pub fn new(config: &mut Config, layout: &Layout, total: usize) -> Self {
        let bars: Vec<Bar> = layout.all_bars().into_iter().map(whole_pages).collect();
        let (mut bytes, mut writable) = ([0; LEN], [0; LEN]);
        let mut put = |at: usize, value: u16| {
            bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        };
        for (at, value) in [
            (INITIAL, total as u16),
            (TOTAL, total as u16),
            (FIRST, 1),
            (STRIDE, 1),
            (DEVICE, layout.identity.device),
            (PAGE_SIZES, 1),
            (PAGE_SIZE, 1),
        ] {
            put(at, value);
        }
        writable[CONTROL..CONTROL + 2].copy_from_slice(&(ENABLE | MEMORY).to_le_bytes());
        writable[COUNT..COUNT + 2].fill(0xff);
        for bar in &bars {
            let registers = bar.registers();
            let place = BARS + registers.at..BARS + registers.at + registers.value.len();
            bytes[place.clone()].copy_from_slice(&registers.value);
            writable[place].copy_from_slice(&registers.writable);
        }
        let at = config.extend(&Extended {
            id: ID,
            body: bytes[HEADER..].into(),
            writable: writable[HEADER..].into(),
        });
        Self { at, bars, total }
    }

    fn control(&self, config: &Config) -> u16 {
        config.u16(self.at + CONTROL)
    }

    /// How many virtual functions exist: those from 1 on.
    pub fn existing(&self, config: &Config) -> usize {
        match self.control(config) & ENABLE != 0 {
            true => usize::from(config.u16(self.at + COUNT)).min(self.total),
            false => 0,
        }
    }

    /// To be passed to [`settle`](Self::settle) after a write to the configuration space.
    pub fn before(&self, config: &Config) -> Before {
        Before {
            enabled: self.control(config) & ENABLE != 0,
            count: config.u16(self.at + COUNT),
        }
    }

    /// The number of virtual functions does not change while they exist (section 9.3.3.7).
    pub fn settle(&self, config: &mut Config, before: Before) {
        if before.enabled && self.control(config) & ENABLE != 0 {
            config.set_u16(self.at + COUNT, before.count);
        }
    }

    /// Regions of virtual functions: the number of the function, 1 the first, the region, and its
    /// bus address. Those of one BAR follow each other.
    pub fn regions(&self, config: &Config) -> impl Iterator<Item = (usize, Bar, u64)> {
        let answers = self.control(config) & MEMORY != 0;
        let existing = if answers { self.existing(config) } else { 0 };
        let places = self.bars.iter().map(|bar| {
            let base = config.bar_address(self.at + BARS, bar);
            (*bar, base)
        });
        let places: Vec<_> = places.filter(|(_, base)| *base != 0).collect();
        places.into_iter().flat_map(move |(bar, base)| {
            (0..existing).filter_map(move |n| {
                let offset = bar.size * n as u64;
                Some((n + 1, bar, base.checked_add(offset)?))
            })
        })
    }
}

/// Regions of virtual functions are multiples of the page size (section 9.3.3.14).
fn whole_pages(bar: Bar) -> Bar {
    Bar {
        size: bar.size.max(PAGE),
        ..bar
    }
}
