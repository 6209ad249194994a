//! Its registers.

use crate::bus::{BusDevice, fill, value};
use crate::devices::test_device::device::{MAX_BURST, TestDevice, lock};
use std::sync::atomic::Ordering;

pub(super) const ID: u64 = 0x00;
pub(super) const SOURCES: u64 = 0x04;
pub(super) const PAGE_LOW: u64 = 0x08;
pub(super) const PAGE_HIGH: u64 = 0x0c;
pub(super) const COUNT: u64 = 0x10;
pub(super) const INTERVAL: u64 = 0x14;
pub(super) const BURST: u64 = 0x18;
pub(super) const CONTROL: u64 = 0x1c;
pub(super) const ACK: u64 = 0x20;
pub(super) const ERRORS: u64 = 0x24;
pub(super) const MASK: u64 = 0x28;

const ID_VALUE: u32 = 0x5453_5154;

impl TestDevice {
    fn read_register(&self, offset: u64) -> u32 {
        let control = lock(&self.control);
        let setup = control.setup;
        match offset {
            ID => ID_VALUE,
            SOURCES => self.sources.len() as u32,
            PAGE_LOW => setup.page as u32,
            PAGE_HIGH => (setup.page >> 32) as u32,
            COUNT => setup.count,
            INTERVAL => setup.interval,
            BURST => setup.burst,
            CONTROL => control.running.into(),
            ERRORS => self.errors.load(Ordering::Relaxed),
            MASK => setup.mask,
            _ => 0,
        }
    }

    fn write_register(&self, offset: u64, value: u32) {
        match offset {
            CONTROL if value & 1 != 0 => return self.begin(),
            CONTROL => return drop(self.end()),
            ACK => return self.acknowledge(value as usize),
            _ => {}
        }
        let mut control = lock(&self.control);
        let running = control.running;
        let setup = &mut control.setup;
        match offset {
            // A page that moves while the thread uses it would not have been checked.
            PAGE_LOW | PAGE_HIGH if running => {}
            PAGE_LOW => setup.page = setup.page & !0xffff_ffff | u64::from(value),
            PAGE_HIGH => setup.page = setup.page & 0xffff_ffff | (u64::from(value) << 32),
            COUNT => setup.count = value,
            INTERVAL => setup.interval = value,
            BURST => setup.burst = value.clamp(1, MAX_BURST),
            MASK => setup.mask = value,
            _ => {}
        }
    }
}

impl BusDevice for TestDevice {
    fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if data.len() == 4 && offset % 4 == 0 {
            fill(data, self.read_register(offset).into());
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        if data.len() == 4 && offset % 4 == 0 {
            self.write_register(offset, value(data) as u32);
        }
    }
}
