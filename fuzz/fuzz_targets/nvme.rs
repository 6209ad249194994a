//! A hostile driver before a controller of NVM Express: registers and doorbells with any value,
//! commands of any kind whose data and queues lie anywhere.
//!
//! Besides not panicking: the disk is accessed inside of it only, a controller that is not bus
//! master does nothing, and one that is
//! saved and restored is the same.

#![no_main]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use trapless_devices::dma::{DmaAccess, DmaFault, Extent};
use trapless_devices::virtio::block::{Disk, SECTOR};
use trapless_devices::{
    DeviceId, Dma, GuestRam, IrqLine, MmioDevice, Persist, StateReader, StateWriter,
};
use trapless_pci::nvme::Nvme;
use trapless_pci::{Host, Parts, Windows};
use vm_memory::{Bytes, GuestAddress};

const RAM: u64 = 0x8000_0000;
const RAM_LEN: u64 = 0x2_0000;
const SPACE: u64 = 0x3000_0000 + (1 << 15);
const BAR: u64 = 0x4_0000_0000;
const TABLE: u64 = 0x4000_0000;
const SECTORS: u64 = 100;

/// A disk that checks who uses it.
struct Checked;

impl Checked {
    fn check(offset: u64, len: u64) -> io::Result<()> {
        assert!(offset + len <= SECTORS * SECTOR, "beyond the disk");
        match offset / SECTOR % 7 {
            6 => Err(io::ErrorKind::Other.into()),
            _ => Ok(()),
        }
    }
}

impl Disk for Checked {
    fn sectors(&self) -> u64 {
        SECTORS
    }
    fn read_only(&self) -> bool {
        false
    }
    fn read(&mut self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        data.fill(offset as u8);
        Self::check(offset, data.len() as u64)
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        Self::check(offset, data.len() as u64)
    }
    fn write_zeroes(&mut self, offset: u64, len: u64) -> io::Result<()> {
        Self::check(offset, len)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Clone, Default)]
struct Wire(Arc<AtomicBool>);

impl IrqLine for Wire {
    fn set(&self, high: bool) {
        self.0.store(high, Relaxed);
    }
}

/// Counts accesses.
#[derive(Default)]
struct System(AtomicU64);

impl Dma for System {
    fn locate(
        &self,
        _: DeviceId,
        address: u64,
        len: u64,
        _: DmaAccess,
    ) -> std::result::Result<Extent, DmaFault> {
        self.0.fetch_add(1, Relaxed);
        let len = len.min(0x1000 - address % 0x1000);
        Ok(Extent { address, len })
    }

    fn message(&self, _: DeviceId, address: u64, _: u32) {
        assert_eq!(address % 4, 0, "messages are aligned words");
        self.0.fetch_add(1, Relaxed);
    }
}

struct Guest {
    host: Host,
    ram: Arc<GuestRam>,
    system: Arc<System>,
}

fn host(ram: &Arc<GuestRam>, system: &Arc<System>) -> Host {
    let mut host = Host::new(Parts {
        windows: Windows::virt(RAM + RAM_LEN),
        ram: ram.clone(),
        dma: system.clone(),
        pins: [(); 4].map(|()| Box::<Wire>::default() as Box<dyn IrqLine>),
    });
    host.plug(|at| Box::new(Nvme::new(Box::new(Checked), 0, at.memory, Box::new(()))));
    host
}

impl Guest {
    fn new() -> Self {
        let ram = GuestRam::from_ranges(&[(GuestAddress(RAM), RAM_LEN as usize)]);
        let (ram, system) = (Arc::new(ram.expect("RAM")), Arc::default());
        let host = host(&ram, &system);
        Self { host, ram, system }
    }

    fn put(&mut self, address: u64, value: u32) {
        self.host.write(address, &value.to_le_bytes());
    }

    fn place(&mut self) {
        self.put(SPACE + 0x10, BAR as u32);
        self.put(SPACE + 0x14, (BAR >> 32) as u32);
        self.put(SPACE + 0x20, TABLE as u32);
        self.host.write(SPACE + 4, &6_u16.to_le_bytes());
    }

    /// Queues of the administrator in the first pages.
    fn start(&mut self) {
        self.put(BAR + 0x14, 0);
        self.put(BAR + 0x24, 0x000f_001f);
        self.host.write(BAR + 0x28, &RAM.to_le_bytes());
        self.host.write(BAR + 0x30, &(RAM + 0x1000).to_le_bytes());
        self.put(BAR + 0x14, 4 << 20 | 6 << 16 | 1);
    }

    /// A place that may be anything, but often is in RAM.
    fn place_of(input: &mut Unstructured<'_>) -> Result<u64> {
        let at: u64 = input.arbitrary()?;
        Ok(match input.int_in_range(0..=5_u8)? {
            0 => at,
            1 => RAM + at % RAM_LEN,
            2 => u64::MAX - at % 0x2000,
            _ => RAM + ((at % RAM_LEN) & !0xfff),
        })
    }

    /// A command in a queue whose commands begin at a page.
    fn command(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let mut bytes: [u8; 64] = input.arbitrary()?;
        if input.ratio(3, 4)? {
            bytes[0] = input.int_in_range(0..=12)?;
            bytes[1] = 0;
            bytes[4..8].copy_from_slice(&1_u32.to_le_bytes());
            for at in [24, 32] {
                bytes[at..at + 8].copy_from_slice(&Self::place_of(input)?.to_le_bytes());
            }
            // Small numbers make queues and sectors that there are.
            bytes[44..48].fill(0);
            for at in [40, 42, 44, 46, 48] {
                bytes[at] = input.int_in_range(0..=40)?;
                bytes[at + 1] = 0;
            }
        }
        let page = u64::from(input.int_in_range(0..=3_u8)?) * 0x1000;
        let at = RAM + page + 64 * u64::from(input.int_in_range(0..=31_u8)?);
        let _ = self.ram.write_slice(&bytes, GuestAddress(at));
        Ok(())
    }

    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let mut command = [0; 2];
        self.host.read(SPACE + 4, &mut command);
        let (master, before) = (command[0] & 4 != 0, self.system.0.load(Relaxed));
        let mut changes = false;
        match input.int_in_range(0..=9_u8)? {
            0 => {
                self.place();
                changes = true;
            }
            1 => self.start(),
            2 | 3 => self.command(input)?,
            4..=6 => {
                let doorbell = u64::from(input.int_in_range(0..=35_u8)?);
                let value = match input.arbitrary()? {
                    true => u32::from(input.int_in_range(0..=40_u8)?),
                    false => input.arbitrary()?,
                };
                self.put(BAR + 0x1000 + 4 * doorbell, value);
            }
            7 => {
                let at = u64::from(input.arbitrary::<u16>()?) % 0x60;
                let len = *input.choose(&[1, 2, 4, 8, 3])?;
                let mut data: [u8; 8] = input.arbitrary()?;
                match input.arbitrary()? {
                    true => self.host.write(BAR + at, &data[..len]),
                    false => self.host.read(BAR + at, &mut data[..len]),
                }
            }
            8 => {
                let at = u64::from(input.arbitrary::<u16>()?) % 0x100;
                self.put(SPACE + at, input.arbitrary()?);
                self.put(TABLE + at % 0x40, input.arbitrary()?);
                changes = true;
            }
            _ => self.host.poll(),
        }
        let idle = self.system.0.load(Relaxed) == before;
        assert!(master || changes || idle, "it is not bus master");
        Ok(())
    }

    /// Saved and restored it is the same.
    fn check_saved(&self) {
        let save = |host: &Host| {
            let mut state = StateWriter::default();
            host.save(&mut state);
            state.into_bytes()
        };
        let state = save(&self.host);
        let mut other = host(&self.ram, &self.system);
        let restored = other.restore(&mut StateReader::new(&state));
        assert_eq!(restored, Ok(()));
        assert_eq!(save(&other), state);
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let mut guest = Guest::new();
    guest.place();
    guest.start();
    while !input.is_empty() {
        if guest.step(&mut input).is_err() {
            break;
        }
    }
    guest.check_saved();
});
