//! What a hart sees beyond RAM: the physical address map, interrupt wires, virtual time for
//! devices, and the way to the ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use trapless_devices::{Clock, IrqLine, MmioDevice, PowerLatch};
use trapless_hart::platform::{BusFault, Platform};
use trapless_hart::{Activity, Meter, Pmp, Ram};
use trapless_intc::{CsrAccess, CsrFault, FileAccess, InterruptArchitecture, Lines, NoFile};
use trapless_isa::Mode;
use trapless_ledger::event::{DeviceAccess, Event, Sink, TimerSets};

use crate::feed::Feed;
use crate::map;
use crate::protection::Protection;

/// VS-level software and external interrupts in `mip`: inputs that belong to a vCPU, not to the hart.
const VS_INPUTS: u64 = 1 << 2 | 1 << 10;

/// All device wires, bit per interrupt number (below 64).
#[derive(Default)]
pub(crate) struct Wires {
    levels: AtomicU64,
    /// High wires whose device has a new reason since the last look.
    again: AtomicU64,
}

/// One device's end of its wire.
pub(crate) struct Wire {
    wires: Arc<Wires>,
    bit: u64,
}

impl Wire {
    pub fn line(wires: &Arc<Wires>, irq: u32) -> Box<dyn IrqLine> {
        Box::new(Self {
            wires: wires.clone(),
            bit: 1 << irq,
        })
    }
}

impl IrqLine for Wire {
    fn set(&self, high: bool) {
        if high {
            self.wires.levels.fetch_or(self.bit, Relaxed);
        } else {
            self.wires.levels.fetch_and(!self.bit, Relaxed);
        }
    }

    fn again(&self) {
        self.wires.again.fetch_or(self.bit, Relaxed);
    }
}

/// Virtual time for devices: that of the access they are handling, never going back.
#[derive(Clone, Default)]
pub(crate) struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    fn advance(&self, now: u64) {
        self.0.fetch_max(now, Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        // The clock frequency is 1 GHz: one cycle is one nanosecond.
        self.0.load(Relaxed)
    }
}

/// A device in its window.
pub(crate) struct Slot {
    pub base: u64,
    pub len: u64,
    pub device: Box<dyn MmioDevice>,
}

/// Who answers an address.
#[derive(Clone, Copy)]
enum Target {
    Rom,
    Interrupts,
    Device(usize),
}

struct Range {
    base: u64,
    end: u64,
    target: Target,
}

/// Everything around the harts.
pub(crate) struct Bus {
    ram: Ram,
    rom: Vec<u8>,
    pub intc: Box<dyn InterruptArchitecture>,
    ranges: Vec<Range>,
    pub slots: Vec<Slot>,
    wires: Arc<Wires>,
    /// Levels the interrupt architecture knows.
    driven: u64,
    clock: VirtualClock,
    pub feeds: Vec<Feed>,
    pub protection: Protection,
    pub sinks: Vec<Box<dyn Sink + Send>>,
    /// All sinks take writes of guests' timers as sums.
    pub sums: bool,
    pub power: PowerLatch,
    pub stop: Arc<AtomicBool>,
    watches_modes: bool,
    /// A device was touched: its deadline may have changed.
    pub touched: bool,
    /// Only one hart runs in this round, which ends when others are concerned.
    pub alone: bool,
    /// Something happened in this round that a device, or a hart other than who did it, may have to see.
    pub concerned: bool,
    pub meter: Meter,
}

/// Parts of a bus.
pub(crate) struct Parts {
    pub ram: Ram,
    pub rom: Vec<u8>,
    pub intc: Box<dyn InterruptArchitecture>,
    pub slots: Vec<Slot>,
    pub wires: Arc<Wires>,
    pub clock: VirtualClock,
    pub harts: usize,
    pub power: PowerLatch,
}

impl Bus {
    /// Connects the parts. Overlapping windows are a mistake of whoever built the machine.
    pub fn new(parts: Parts) -> Result<Self, String> {
        let mut ranges = vec![Range {
            base: map::ROM,
            end: map::ROM + map::ROM_LEN,
            target: Target::Rom,
        }];
        for window in parts.intc.windows() {
            let end = window.base.saturating_add(window.len);
            ranges.push(Range {
                base: window.base,
                end,
                target: Target::Interrupts,
            });
        }
        for (index, slot) in parts.slots.iter().enumerate() {
            let end = slot.base + slot.len;
            ranges.push(Range {
                base: slot.base,
                end,
                target: Target::Device(index),
            });
        }
        ranges.sort_by_key(|range| range.base);
        if let Some(pair) = ranges.windows(2).find(|pair| pair[0].end > pair[1].base) {
            return Err(format!("two devices claim the address {:#x}", pair[1].base));
        }
        if let Some(range) = ranges.iter().find(|range| range.end > map::RAM) {
            return Err(format!("a device at {:#x} reaches into RAM", range.base));
        }
        let watches_modes = parts.intc.wants_mode_changes();
        Ok(Self {
            ram: parts.ram,
            rom: parts.rom,
            intc: parts.intc,
            ranges,
            slots: parts.slots,
            wires: parts.wires,
            driven: 0,
            clock: parts.clock,
            feeds: (0..parts.harts).map(|_| Feed::default()).collect(),
            protection: Protection::new(parts.harts),
            sinks: Vec::new(),
            sums: true,
            power: parts.power,
            stop: Arc::new(AtomicBool::new(false)),
            watches_modes,
            touched: true,
            alone: false,
            concerned: false,
            meter: Meter::default(),
        })
    }

    /// Finds who answers all `size` bytes at `addr`.
    fn find(&self, addr: u64, size: u8) -> Result<(Target, u64), BusFault> {
        let index = self.ranges.partition_point(|range| range.base <= addr);
        let range = index
            .checked_sub(1)
            .map(|i| &self.ranges[i])
            .ok_or(BusFault)?;
        if range.end.saturating_sub(addr) < u64::from(size) {
            return Err(BusFault);
        }
        Ok((range.target, range.base))
    }

    /// Contents of the ROM from `addr` on, if that is in the ROM.
    pub fn rom_at(&self, addr: u64) -> Option<&[u8]> {
        self.rom
            .get(usize::try_from(addr.checked_sub(map::ROM)?).ok()?..)
    }

    /// Lets device `index` act at `time`, outside any access of a hart.
    pub fn with_device<T>(
        &mut self,
        index: usize,
        time: u64,
        act: impl FnOnce(&mut dyn MmioDevice) -> T,
    ) -> T {
        self.clock.advance(time);
        let before = self.meter.enter(Activity::Device);
        let device = self.slots[index].device.as_mut();
        let result = act(device);
        if device.writes_memory() {
            self.ram.written_by_device();
        }
        self.touched = true;
        self.propagate(time, None);
        self.meter.leave(before);
        result
    }

    /// Takes changed wires to the interrupt architecture and its changes to the harts other than
    /// `origin`, which asks by itself.
    pub fn propagate(&mut self, time: u64, origin: Option<usize>) {
        let before = self.meter.enter(Activity::Interrupts);
        let levels = self.wires.levels.load(Relaxed);
        let again = self.wires.again.swap(0, Relaxed) & levels;
        let mut driven = levels ^ self.driven | again;
        self.driven = levels;
        while driven != 0 {
            let irq = driven.trailing_zeros();
            driven &= driven - 1;
            self.intc.set_source(time, irq, levels >> irq & 1 != 0);
        }
        let mut changed = self.intc.take_changed();
        if let Some(origin) = origin {
            changed &= !(1 << origin);
        }
        self.concerned |= changed != 0;
        while changed != 0 {
            let hart = changed.trailing_zeros() as usize;
            changed &= changed - 1;
            if let Some(feed) = self.feeds.get_mut(hart) {
                feed.changed(self.intc.as_mut(), hart, time);
            }
        }
        self.meter.leave(before);
    }

    /// Hands what the interrupt architecture did to the sinks.
    fn record_steps(&mut self) {
        self.record_steps_in(None);
    }

    /// The same, where the access that caused them had this mode.
    fn record_steps_in(&mut self, mode: Option<Mode>) {
        if self.sinks.is_empty() {
            return;
        }
        for mut step in self.intc.take_steps() {
            step.mode = mode.unwrap_or(step.mode);
            self.record(&Event::Virtual(step));
        }
    }

    /// Does work of another kind.
    #[inline]
    fn metered<T>(&mut self, activity: Activity, act: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.meter.enter(activity);
        let result = act(self);
        self.meter.leave(before);
        result
    }

    fn device_access(&mut self, hart: usize, time: u64, mode: Mode, addr: u64, write: bool) {
        if !self.sinks.is_empty() {
            self.record(&Event::DeviceAccess(DeviceAccess {
                time,
                hart,
                mode,
                addr,
                write,
            }));
        }
    }
}

impl Platform for Bus {
    fn load(
        &mut self,
        hart: usize,
        now: u64,
        addr: u64,
        size: u8,
        mode: Mode,
    ) -> Result<u64, BusFault> {
        let (target, base) = self.find(addr, size)?;
        let value = match target {
            Target::Rom => {
                let at = (addr - base) as usize;
                let mut bytes = [0; 8];
                for (i, byte) in bytes.iter_mut().take(size.into()).enumerate() {
                    *byte = self.rom.get(at + i).copied().unwrap_or(0);
                }
                return Ok(u64::from_le_bytes(bytes));
            }
            Target::Interrupts => {
                self.device_access(hart, now, mode, addr, false);
                let load = |bus: &mut Self| bus.intc.load(hart, now, addr, size);
                self.metered(Activity::Interrupts, load)
                    .map_err(|_| BusFault)?
            }
            Target::Device(index) => {
                self.device_access(hart, now, mode, addr, false);
                self.clock.advance(now);
                let mut bytes = [0; 8];
                let data = &mut bytes[..usize::from(size).min(8)];
                self.metered(Activity::Device, |bus| {
                    bus.slots[index].device.read(addr - base, data);
                });
                self.touched = true;
                u64::from_le_bytes(bytes)
            }
        };
        self.propagate(now, Some(hart));
        Ok(value)
    }

    fn store(
        &mut self,
        hart: usize,
        now: u64,
        addr: u64,
        size: u8,
        value: u64,
        mode: Mode,
    ) -> Result<(), BusFault> {
        let (target, base) = self.find(addr, size)?;
        match target {
            Target::Rom => return Err(BusFault),
            Target::Interrupts => {
                self.device_access(hart, now, mode, addr, true);
                let store = |bus: &mut Self| bus.intc.store(hart, now, addr, size, value);
                self.metered(Activity::Interrupts, store)
                    .map_err(|_| BusFault)?;
                self.record_steps_in(Some(mode));
            }
            Target::Device(index) => {
                self.device_access(hart, now, mode, addr, true);
                self.clock.advance(now);
                let bytes = value.to_le_bytes();
                let data = &bytes[..usize::from(size).min(8)];
                self.metered(Activity::Device, |bus| {
                    bus.slots[index].device.write(addr - base, data);
                });
                let device = &self.slots[index].device;
                if device.writes_memory() {
                    self.ram.written_by_device();
                }
                self.touched = true;
            }
        }
        self.propagate(now, Some(hart));
        Ok(())
    }

    fn csr(&mut self, access: &CsrAccess) -> Result<u64, CsrFault> {
        let before = self.meter.enter(Activity::Interrupts);
        let result = self.intc.csr(access);
        let mut switched = self.intc.take_switched();
        while switched != 0 {
            let hart = switched.trailing_zeros() as usize;
            switched &= switched - 1;
            if let Some(feed) = self.feeds.get_mut(hart) {
                feed.forget(VS_INPUTS);
            }
        }
        self.propagate(access.now, Some(access.hart));
        self.meter.leave(before);
        self.record_steps();
        result
    }

    fn has_csr(&self, csr: u16) -> bool {
        self.intc.has_csr(csr)
    }

    fn interrupt_file(&mut self, access: &FileAccess) -> Result<u64, NoFile> {
        let result = self.intc.interrupt_file(access);
        self.propagate(access.now, Some(access.hart));
        self.record_steps();
        result
    }

    fn lines(&mut self, hart: usize, now: u64) -> Lines {
        self.metered(Activity::Interrupts, |bus| {
            bus.feeds[hart].lines(bus.intc.as_mut(), hart, now)
        })
    }

    fn lines_changed(&self, hart: usize) -> bool {
        self.feeds[hart].dirty
    }

    fn mode_changed(&mut self, hart: usize, now: u64, mode: Mode, vmid: u16) {
        self.metered(Activity::Interrupts, |bus| {
            bus.intc.mode_changed(hart, now, mode, vmid);
        });
        self.propagate(now, Some(hart));
    }

    fn wants_mode_changes(&self) -> bool {
        self.watches_modes
    }

    fn protection_changed(&mut self, hart: usize, pmp: &Pmp) {
        self.protection.set(hart, pmp);
    }

    fn stop_requested(&self) -> bool {
        let ends = self.alone && (self.concerned || self.touched);
        ends || self.power.get().is_some() || self.stop.load(Relaxed)
    }

    fn record(&mut self, event: &Event) {
        let before = self.meter.enter(Activity::Ledger);
        for sink in &mut self.sinks {
            sink.record(event);
        }
        self.meter.leave(before);
    }

    fn sums_timer_sets(&self) -> bool {
        self.sums
    }

    fn record_timer_sets(&mut self, sets: &TimerSets) {
        let before = self.meter.enter(Activity::Ledger);
        for sink in &mut self.sinks {
            sink.timer_sets(sets);
        }
        self.meter.leave(before);
    }
}
