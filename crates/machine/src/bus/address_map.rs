//! Maps physical addresses outside RAM to devices and interrupt controllers.

use trapless_devices::MmioDevice;
use trapless_devices::state::Persist;
use trapless_intc::Window;

use crate::bus::map;

/// A device of a machine, which can be saved and restored.
pub(crate) trait Device: MmioDevice + Persist {}

impl<T: MmioDevice + Persist> Device for T {}

/// A device in its window.
pub(crate) struct Slot {
    pub base: u64,
    pub len: u64,
    pub device: Box<dyn Device>,
}

/// Target of an access.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    Rom,
    Interrupts,
    /// Index of its slot.
    Device(usize),
}

struct Range {
    base: u64,
    end: u64,
    target: Target,
}

impl Range {
    fn new(base: u64, len: u64, target: Target) -> Self {
        Self {
            base,
            end: base.saturating_add(len),
            target,
        }
    }
}

/// Ranges of physical addresses, sorted.
pub(crate) struct AddressMap(Vec<Range>);

impl AddressMap {
    /// The ROM, the `windows` of the interrupt architecture, and the devices. Overlapping windows
    /// are a programming error.
    pub fn new(windows: &[Window], slots: &[Slot]) -> Result<Self, String> {
        let mut ranges = vec![Range::new(map::ROM, map::ROM_LEN, Target::Rom)];
        let window = |window: &Window| Range::new(window.base, window.len, Target::Interrupts);
        ranges.extend(windows.iter().map(window));
        let device =
            |(index, slot): (usize, &Slot)| Range::new(slot.base, slot.len, Target::Device(index));
        ranges.extend(slots.iter().enumerate().map(device));
        ranges.sort_by_key(|range| range.base);
        if let Some(pair) = ranges.windows(2).find(|pair| pair[0].end > pair[1].base) {
            return Err(format!("two devices claim the address {:#x}", pair[1].base));
        }
        if let Some(range) = ranges.iter().find(|range| range.end > map::RAM) {
            return Err(format!("a device at {:#x} reaches into RAM", range.base));
        }
        Ok(Self(ranges))
    }

    /// The target that has all `size` bytes at `addr`, and the first address of its range.
    pub fn find(&self, addr: u64, size: u8) -> Option<(Target, u64)> {
        let index = self.0.partition_point(|range| range.base <= addr);
        let range = &self.0[index.checked_sub(1)?];
        let inside = range.end.saturating_sub(addr) >= u64::from(size);
        inside.then_some((range.target, range.base))
    }
}
