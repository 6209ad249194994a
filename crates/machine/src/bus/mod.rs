//! The bus of a machine: passes accesses of harts to devices and the interrupt architecture, and
//! events to the sinks.

pub(crate) mod address_map;
pub(crate) mod dma;
pub(crate) mod feed;
pub mod htif;
pub(crate) mod interrupts;
pub(crate) mod iommu;
pub mod map;
pub(crate) mod peripherals;
pub(crate) mod places;
pub(crate) mod protection;
pub(crate) mod waits;
pub(crate) mod wires;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde::{Deserialize, Serialize};
use trapless_devices::{MmioDevice, PowerLatch};
use trapless_hart::platform::{BusFault, Platform};
use trapless_hart::{Activity, Meter, Pmp, Ram};
use trapless_intc::{
    ContextAccess, CsrAccess, CsrFault, DoorbellAccess, DoorbellFault, Exchanged, FileAccess,
    FileId, InterruptArchitecture, Lines, MessageArrival, MmioAccess, NoFile,
};
use trapless_iommu::Step;
use trapless_isa::Mode;
use trapless_ledger::event::{
    DeviceAccess, Event, IommuAct, IommuStep, PciInterrupt, PciWay, Sink, TimerSets,
};

use crate::bus::address_map::{AddressMap, Slot, Target};
use crate::bus::dma::Steps;
use crate::bus::dma::{Message, Messages};
use crate::bus::interrupts::Interrupts;
use crate::bus::protection::{Protection, Tables};
use crate::bus::wires::{VirtualClock, Wires};
use crate::time::past::Past;

/// Everything around the harts.
pub(crate) struct Bus {
    ram: Ram,
    rom: Vec<u8>,
    pub interrupts: Interrupts,
    map: AddressMap,
    pub slots: Vec<Slot>,
    wires: Arc<Wires>,
    /// Messages of devices for the interrupt architecture.
    messages: Messages,
    /// Steps of the IOMMU for the sinks.
    iommu_steps: Steps,
    /// Levels of wires last passed to the interrupt architecture.
    driven: u64,
    clock: VirtualClock,
    protection: Protection,
    pub sinks: Vec<Box<dyn Sink + Send>>,
    /// All sinks accept counts of writes to guests' timers instead of events.
    pub sums: bool,
    pub power: PowerLatch,
    pub stop: Arc<AtomicBool>,
    /// A device was accessed: its deadline may have changed.
    pub touched: bool,
    /// Only one hart runs in this round, which ends when it affects others.
    pub alone: bool,
    /// A device or another hart may have to see what happened in this round: if `alone`, it ends
    /// early.
    pub concerned: bool,
    pub meter: Meter,
    /// Set while sinks have already received the present events.
    pub past: Past,
}

/// State saved by [`Bus::save`]: all state between accesses.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct SavedBus {
    /// Levels of wires last passed to the interrupt architecture.
    driven: u64,
    /// Virtual time of devices in cycles.
    time: u64,
    touched: bool,
    alone: bool,
    concerned: bool,
}

/// Parts of a bus.
pub(crate) struct Parts {
    pub ram: Ram,
    pub rom: Vec<u8>,
    pub intc: Box<dyn InterruptArchitecture>,
    pub slots: Vec<Slot>,
    pub wires: Arc<Wires>,
    pub messages: Messages,
    pub iommu_steps: Steps,
    pub clock: VirtualClock,
    pub harts: usize,
    pub power: PowerLatch,
    pub past: Past,
}

impl Bus {
    /// Connects the parts. Overlapping windows are a programming error.
    pub fn new(mut parts: Parts) -> Result<Self, String> {
        let map = AddressMap::new(
            &parts.intc.describe().windows,
            &parts.slots,
            parts.ram.base() + parts.ram.size(),
        )?;
        let protection = Protection::new(parts.harts);
        parts.intc.attach_memory(Arc::new(Tables {
            ram: parts.ram.clone(),
            protection: protection.clone(),
        }));
        Ok(Self {
            ram: parts.ram,
            rom: parts.rom,
            interrupts: Interrupts::new(parts.intc, parts.harts),
            map,
            slots: parts.slots,
            wires: parts.wires,
            messages: parts.messages,
            iommu_steps: parts.iommu_steps,
            driven: 0,
            clock: parts.clock,
            protection,
            sinks: Vec::new(),
            sums: true,
            power: parts.power,
            stop: Arc::new(AtomicBool::new(false)),
            touched: true,
            alone: false,
            concerned: false,
            meter: Meter::default(),
            past: parts.past,
        })
    }

    /// Contents of the ROM from `addr` on, if that is in the ROM.
    pub fn rom_at(&self, addr: u64) -> Option<&[u8]> {
        self.rom
            .get(usize::try_from(addr.checked_sub(map::ROM)?).ok()?..)
    }

    /// The wires of devices.
    pub fn wires(&self) -> &Wires {
        &self.wires
    }

    /// The state between accesses.
    pub fn save(&self) -> SavedBus {
        SavedBus {
            driven: self.driven,
            time: self.clock.cycles(),
            touched: self.touched,
            alone: self.alone,
            concerned: self.concerned,
        }
    }

    /// Restores the state returned by [`save`](Self::save).
    pub fn restore(&mut self, saved: &SavedBus) {
        self.driven = saved.driven;
        self.clock.set(saved.time);
        self.touched = saved.touched;
        self.alone = saved.alone;
        self.concerned = saved.concerned;
    }

    /// Copies the PMP registers of a hart.
    pub fn set_protection(&self, hart: usize, pmp: &Pmp) {
        self.protection.set(hart, pmp);
    }

    /// Calls device `index` at `time`, outside any access of a hart.
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

    /// Passes changed wires and messages to the interrupt architecture, its effects to the harts
    /// other than `origin`, which reads its inputs by itself, and its steps to the sinks.
    pub fn propagate(&mut self, time: u64, origin: Option<usize>) {
        let before = self.meter.enter(Activity::Interrupts);
        let levels = self.wires.levels();
        let again = self.wires.take_again() & levels;
        let mut driven = levels ^ self.driven | again;
        self.driven = levels;
        while driven != 0 {
            let irq = driven.trailing_zeros();
            driven &= driven - 1;
            let high = levels >> irq & 1 != 0;
            self.interrupts.set_source(time, irq, high);
            if high && map::is_pci(irq) {
                self.pci_interrupt(time, 0, PciWay::Intx { source: irq });
            }
        }
        for message in self.messages.take() {
            self.message(time, message);
        }
        for step in self.iommu_steps.take() {
            self.iommu_step(time, origin.unwrap_or(0), step);
        }
        self.concerned |= self.interrupts.deliver(time, origin);
        if self.interrupts.has_steps() {
            self.record_steps();
        }
        self.meter.leave(before);
    }

    /// Passes a message of a device to the interrupt architecture.
    fn message(&mut self, time: u64, message: Message) {
        let device = message.device.0;
        let (hart, way) = match self.interrupts.message(time, message) {
            Some(MessageArrival::File { hart, file, merged }) => {
                let file = match file {
                    FileId::Guest(guest) => guest,
                    FileId::Supervisor | FileId::Machine => 0,
                };
                // An interrupt file takes big-endian words at the second one of its page (AIA,
                // section 3.5): seteipnum_be.
                let identity = match message.addr % 0x1000 {
                    4 => message.data.swap_bytes(),
                    _ => message.data,
                };
                let way = PciWay::Message {
                    device,
                    file,
                    identity,
                    merged,
                };
                (hart, way)
            }
            Some(MessageArrival::Window {
                window,
                domain,
                source,
                merged,
            }) => {
                let way = PciWay::Window {
                    device,
                    window,
                    domain,
                    source,
                    merged,
                };
                (0, way)
            }
            Some(MessageArrival::Dropped { window }) => {
                let data = message.data;
                let way = PciWay::Dropped {
                    device,
                    window,
                    data,
                };
                (0, way)
            }
            None => {
                let addr = message.addr;
                (0, PciWay::Lost { device, addr })
            }
        };
        self.pci_interrupt(time, hart, way);
    }

    fn pci_interrupt(&mut self, time: u64, hart: usize, way: PciWay) {
        if !self.sinks.is_empty() {
            self.record(&Event::PciInterrupt(PciInterrupt { time, hart, way }));
        }
    }

    fn iommu_step(&mut self, time: u64, hart: usize, step: Step) {
        if self.sinks.is_empty() {
            return;
        }
        let act = match step {
            Step::InvalidatedTables => IommuAct::InvalidatedTables,
            Step::InvalidatedDirectory => IommuAct::InvalidatedDirectory,
            Step::Fenced => IommuAct::Fenced,
            Step::Stored {
                device,
                file,
                identity,
            } => IommuAct::Stored {
                device: device.0,
                file,
                identity,
            },
            Step::Refused {
                device,
                cause,
                address: addr,
            } => IommuAct::Refused {
                device: device.0,
                cause,
                addr,
            },
        };
        self.record(&Event::Iommu(IommuStep { time, hart, act }));
    }

    /// Passes steps of the interrupt architecture to the sinks.
    fn record_steps(&mut self) {
        let before = self.meter.enter(Activity::Ledger);
        let past = self.past.get();
        for step in self.interrupts.steps() {
            if past {
                continue;
            }
            for sink in &mut self.sinks {
                sink.record(&Event::Virtual(step));
            }
        }
        self.meter.leave(before);
    }

    /// Runs `work` with the activity meter set to its kind.
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
        let (target, base) = self.map.find(addr, size).ok_or(BusFault)?;
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
                let access = MmioAccess {
                    hart,
                    mode,
                    now,
                    addr,
                    size,
                };
                self.metered(Activity::Interrupts, |bus| bus.interrupts.load(&access))
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
        let (target, base) = self.map.find(addr, size).ok_or(BusFault)?;
        match target {
            Target::Rom => return Err(BusFault),
            Target::Interrupts => {
                self.device_access(hart, now, mode, addr, true);
                let access = MmioAccess {
                    hart,
                    mode,
                    now,
                    addr,
                    size,
                };
                let store = |bus: &mut Self| bus.interrupts.store(&access, value);
                self.metered(Activity::Interrupts, store)
                    .map_err(|_| BusFault)?;
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
        let result = self.metered(Activity::Interrupts, |bus| bus.interrupts.csr(access));
        self.propagate(access.now, Some(access.hart));
        result
    }

    fn take_delay(&mut self) -> u32 {
        self.interrupts.take_delay()
    }

    fn has_csr(&self, csr: u16) -> bool {
        self.interrupts.has_csr(csr)
    }

    fn interrupt_file(&mut self, access: &FileAccess) -> Result<u64, NoFile> {
        let act = |bus: &mut Self| bus.interrupts.interrupt_file(access);
        let result = self.metered(Activity::Interrupts, act);
        self.propagate(access.now, Some(access.hart));
        result
    }

    fn doorbell(&mut self, access: &DoorbellAccess) -> Result<u64, DoorbellFault> {
        let act = |bus: &mut Self| bus.interrupts.doorbell(access);
        let result = self.metered(Activity::Interrupts, act);
        self.propagate(access.now, Some(access.hart));
        result
    }

    fn enter_context(&mut self, access: &ContextAccess, registers: &mut Exchanged) -> Option<u64> {
        let act = |bus: &mut Self| bus.interrupts.enter_context(access, registers);
        let result = self.metered(Activity::Interrupts, act);
        self.propagate(access.now, Some(access.hart));
        result
    }

    fn leave_context(&mut self, access: &ContextAccess, registers: &mut Exchanged) -> bool {
        let act = |bus: &mut Self| bus.interrupts.leave_context(access, registers);
        let left = self.metered(Activity::Interrupts, act);
        self.propagate(access.now, Some(access.hart));
        left
    }

    fn lines(&mut self, hart: usize, now: u64) -> Lines {
        self.metered(Activity::Interrupts, |bus| bus.interrupts.lines(hart, now))
    }

    fn lines_changed(&self, hart: usize) -> bool {
        self.interrupts.feeds[hart].dirty
    }

    fn protection_changed(&mut self, hart: usize, pmp: &Pmp) {
        self.protection.set(hart, pmp);
    }

    fn stop_requested(&self) -> bool {
        let ends = self.alone && (self.concerned || self.touched);
        ends || self.power.get().is_some() || self.stop.load(Relaxed)
    }

    fn record(&mut self, event: &Event) {
        if self.past.get() {
            return;
        }
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
        if self.past.get() {
            return;
        }
        let before = self.meter.enter(Activity::Ledger);
        for sink in &mut self.sinks {
            sink.timer_sets(sets);
        }
        self.meter.leave(before);
    }
}
