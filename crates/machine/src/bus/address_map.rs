//! Maps physical addresses outside RAM to devices and interrupt controllers.

use std::ops;

use trapless_devices::MmioDevice;
use trapless_devices::state::Persist;
use trapless_intc::Window;

use crate::bus::map;

/// A device of a machine, which can be saved and restored.
pub(crate) trait Device: MmioDevice + Persist {}

impl<T: MmioDevice + Persist> Device for T {}

/// A device in its windows.
pub(crate) struct Slot {
    /// What its offsets are relative to.
    pub base: u64,
    windows: Vec<ops::Range<u64>>,
    pub device: Box<dyn Device>,
}

impl Slot {
    /// A device whose offsets are those in its only window.
    pub fn new(base: u64, len: u64, device: Box<dyn Device>) -> Self {
        Self {
            base,
            windows: std::iter::once(base..base + len).collect(),
            device,
        }
    }

    /// A device that uses physical addresses instead of offsets.
    pub fn at_windows(windows: Vec<ops::Range<u64>>, device: Box<dyn Device>) -> Self {
        Self {
            base: 0,
            windows,
            device,
        }
    }

    /// A physical address of the device, for messages.
    pub fn place(&self) -> u64 {
        self.windows
            .first()
            .map_or(self.base, |window| window.start)
    }
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
    /// What offsets are relative to.
    origin: u64,
    target: Target,
}

impl Range {
    fn new(base: u64, len: u64, target: Target) -> Self {
        Self {
            base,
            end: base.saturating_add(len),
            origin: base,
            target,
        }
    }
}

/// Ranges of physical addresses, sorted.
pub(crate) struct AddressMap(Vec<Range>);

impl AddressMap {
    /// The ROM, the `windows` of the interrupt architecture, and the devices, around RAM that ends
    /// before `ram_end`. Overlapping windows are a programming error.
    pub fn new(windows: &[Window], slots: &[Slot], ram_end: u64) -> Result<Self, String> {
        let mut ranges = vec![Range::new(map::ROM, map::ROM_LEN, Target::Rom)];
        let window = |window: &Window| Range::new(window.base, window.len, Target::Interrupts);
        ranges.extend(windows.iter().map(window));
        for (index, slot) in slots.iter().enumerate() {
            ranges.extend(slot.windows.iter().map(|window| Range {
                base: window.start,
                end: window.end,
                origin: slot.base,
                target: Target::Device(index),
            }));
        }
        ranges.sort_by_key(|range| range.base);
        if let Some(pair) = ranges.windows(2).find(|pair| pair[0].end > pair[1].base) {
            return Err(format!("two devices claim the address {:#x}", pair[1].base));
        }
        let in_ram = |range: &&Range| range.end > map::RAM && range.base < ram_end;
        if let Some(range) = ranges.iter().find(in_ram) {
            return Err(format!("a device at {:#x} reaches into RAM", range.base));
        }
        Ok(Self(ranges))
    }

    /// The target that has all `size` bytes at `addr`, and the address to which offsets are
    /// relative.
    pub fn find(&self, addr: u64, size: u8) -> Option<(Target, u64)> {
        let index = self.0.partition_point(|range| range.base <= addr);
        let range = &self.0[index.checked_sub(1)?];
        let inside = range.end.saturating_sub(addr) >= u64::from(size);
        inside.then_some((range.target, range.origin))
    }
}
