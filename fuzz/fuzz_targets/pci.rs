//! A hostile kernel before a PCI host: accesses of any width to configuration spaces, BARs and
//! message tables, with virtio devices and a test function behind them whose memory has any
//! content. An IOMMU that obeys it tells the test function translations, answers its page requests
//! or does not, and sends it messages that nobody has asked for.
//!
//! Some steps place the BARs and start a device, so that the rest reaches its queues; the second
//! device is a network card with virtual functions, which share it. Besides not panicking: a
//! function that is not bus master sends no message, asks for no page and leaves memory as it is,
//! and a host that is saved and restored is the same.

#![no_main]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use trapless_devices::ats::{
    Completion, GroupResponse, Invalidation, Message, PageRequest, Refusal, ResponseCode,
    Translation, TranslationAgent, TranslationRequest,
};
use trapless_devices::dma::{DmaAccess, DmaFault, Extent};
use trapless_devices::virtio::console::Console;
use trapless_devices::virtio::net::{Loopback, Net, switch};
use trapless_devices::virtio::rng::{Rng, SeededEntropy};
use trapless_devices::{
    DeviceId, Dma, GuestRam, IrqLine, MmioDevice, Persist, StateReader, StateWriter,
};
use trapless_pci::virtio::VirtioPci;
use trapless_pci::{EndpointTest, Function, Host, Parts, Windows};
use vm_memory::{Bytes, GuestAddress};

const RAM: u64 = 0x8000_0000;
const RAM_LEN: u64 = 0x1_0000;
const ECAM: u64 = 0x3000_0000;
/// Device n has its MSI-X table and its BAR 4 at these places plus n pages of 64 KiB, once placed.
const LOW: u64 = 0x4000_0000;
const HIGH: u64 = 0x4_0000_0000;
const STEP: u64 = 0x1_0000;
const DEVICES: u64 = 4;
/// The one that is shared, and its virtual functions.
const SHARED: u64 = 2;
const VIRTUAL: u64 = 2;
/// The test function.
const TEST: u64 = 4;

#[derive(Clone, Default)]
struct Wire(Arc<AtomicBool>);

impl IrqLine for Wire {
    fn set(&self, high: bool) {
        self.0.store(high, Relaxed);
    }
}

/// Who has done something, and what is on its way to functions.
#[derive(Default)]
struct System {
    seen: Mutex<Vec<DeviceId>>,
    messages: Mutex<VecDeque<(DeviceId, Message)>>,
}

impl Dma for System {
    fn locate(
        &self,
        device: DeviceId,
        address: u64,
        len: u64,
        access: DmaAccess,
    ) -> std::result::Result<Extent, DmaFault> {
        if access == DmaAccess::Write {
            self.note(device);
        }
        // In pages, as behind an IOMMU.
        let len = len.min(0x1000 - address % 0x1000);
        Ok(Extent { address, len })
    }

    fn message(&self, device: DeviceId, address: u64, _data: u32) {
        assert_eq!(address % 4, 0, "messages are aligned words");
        self.note(device);
    }

    fn agent(&self) -> Option<&dyn TranslationAgent> {
        Some(self)
    }
}

/// What is translated how is in the number of the page: every one to itself, or not at all.
impl TranslationAgent for System {
    fn translation(
        &self,
        request: &TranslationRequest,
    ) -> std::result::Result<Translation, Refusal> {
        let page = request.address >> 12 & 0xf;
        if page == 12 {
            return Err(Refusal::Aborted);
        }
        let len = if page < 4 { 0x4000 } else { 0x1000 };
        Ok(Translation {
            address: request.address & !(len - 1),
            len,
            read: page < 12,
            write: page < 10,
            execute: false,
            privileged: false,
            global: false,
            untranslated_only: page == 8,
        })
    }

    fn locate_translated(
        &self,
        device: DeviceId,
        address: u64,
        len: u64,
        access: DmaAccess,
    ) -> std::result::Result<Extent, DmaFault> {
        self.locate(device, address, len, access)
    }

    fn request_page(&self, request: &PageRequest) -> Option<GroupResponse> {
        self.note(request.device);
        let code = match request.address >> 12 & 0xf {
            13 => ResponseCode::Success,
            14 => ResponseCode::InvalidRequest,
            _ => return None,
        };
        Some(GroupResponse {
            process: None,
            group: request.group,
            code,
        })
    }

    fn take_message(&self) -> Option<(DeviceId, Message)> {
        self.messages.lock().expect("nobody panics").pop_front()
    }

    fn has_messages(&self) -> bool {
        !self.messages.lock().expect("nobody panics").is_empty()
    }

    fn complete(&self, completion: &Completion) {
        assert_eq!(
            completion.device.0,
            (TEST << 3) as u32,
            "it alone remembers"
        );
    }

    fn time_out(&self, tag: u8) {
        assert!(tag < 32);
    }
}

impl System {
    fn note(&self, device: DeviceId) {
        let mut seen = self.seen.lock().expect("nobody panics");
        if !seen.contains(&device) {
            seen.push(device);
        }
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
    host.plug(|at| {
        let rng = Rng::new(Box::new(SeededEntropy::new(1)));
        Box::new(VirtioPci::new(rng, at.memory, Box::new(())))
    });
    host.plug_shared(VIRTUAL as usize, |at| {
        let addresses = [[2; 6], [4; 6], [6; 6]];
        let ports = switch(Box::<Loopback>::default(), &addresses);
        let ends = ports.into_iter().zip(addresses).zip(at);
        let functions = ends.map(|((port, address), at)| {
            let net = Net::new(Box::new(port), address);
            let function = VirtioPci::new(net, at.memory, Box::new(()));
            Box::new(function.with_virtual_functions()) as Box<dyn Function>
        });
        functions.collect()
    });
    host.plug(|at| {
        let console = Console::new(Box::new(std::io::sink()));
        Box::new(VirtioPci::new(console, at.memory, Box::new(())))
    });
    host.plug(|at| Box::new(EndpointTest::new(at.memory, Box::new(()))));
    host
}

impl Guest {
    fn new() -> Self {
        let ram = GuestRam::from_ranges(&[(GuestAddress(RAM), RAM_LEN as usize)]);
        let (ram, system) = (Arc::new(ram.expect("64 KiB of RAM")), Arc::default());
        let host = host(&ram, &system);
        Self { host, ram, system }
    }

    fn space(device: u64, at: u64) -> u64 {
        ECAM + (device << 15) + at
    }

    fn put(&mut self, address: u64, value: u32) {
        self.host.write(address, &value.to_le_bytes());
    }

    fn put16(&mut self, address: u64, value: u16) {
        self.host.write(address, &value.to_le_bytes());
    }

    fn place(&mut self, device: u64) {
        let (low, high) = (LOW + device * STEP, HIGH + device * STEP);
        let bars = match device {
            TEST => [
                low,
                low + 0x2000,
                high,
                high >> 32,
                low + 0x4000,
                low + 0x8000,
            ],
            _ => [0, low, 0, 0, high, high >> 32],
        };
        for (register, address) in (0x10..).step_by(4).zip(bars) {
            self.put(Self::space(device, register), address as u32);
        }
        self.put16(Self::space(device, 4), 6);
    }

    /// Lets virtual functions exist and be bus masters; their BARs follow each other.
    fn share(&mut self) {
        let at = |offset: u64| Self::space(SHARED, 0x100 + offset);
        let place = SHARED * STEP + STEP / 2;
        self.put(at(0x28), (LOW + place) as u32);
        self.put(at(0x34), (HIGH + place) as u32);
        self.put(at(0x38), (HIGH >> 32) as u32);
        self.put16(at(0x10), VIRTUAL as u16);
        self.put16(at(8), 9);
        for function in 1..=VIRTUAL {
            self.put16(Self::space(SHARED, 4) + (function << 12), 4);
        }
    }

    /// A command of the test function, of a short transfer in RAM more often than not.
    fn command(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let registers = LOW + TEST * STEP;
        for register in (0x08..0x2c).step_by(4) {
            let wild: u32 = input.arbitrary()?;
            let value = match register {
                _ if input.ratio(1, 8)? => wild,
                0x0c | 0x14 => RAM as u32 + wild % RAM_LEN as u32,
                0x10 | 0x18 => 0,
                0x1c => wild % 0x400,
                0x24 | 0x28 => wild % 3,
                _ => wild,
            };
            self.put(registers + register, value);
        }
        let command = match input.arbitrary()? {
            true => 1 << input.int_in_range(0..=10_u8)?,
            false => input.arbitrary()?,
        };
        self.put(registers + 4, command);
        Ok(())
    }

    /// Lets the test function remember and ask, or not, and sends it something.
    fn message(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let at = |offset: u64| Self::space(TEST, 0x100 + offset);
        let (ats, control, allowed) = input.arbitrary::<(bool, u16, bool)>()?;
        self.put16(at(0x06), u16::from(ats) << 15);
        self.put(at(0x14), allowed.into());
        self.put16(at(0x0c), control & 3);
        let process = input.arbitrary::<Option<u8>>()?.map(u32::from);
        let message = match input.arbitrary()? {
            true => {
                let (tag, wild) = input.arbitrary::<(u8, u64)>()?;
                let (first, last) = (wild & !0xfff, wild | 0xfff);
                Message::Invalidate(Invalidation {
                    tag: tag % 32,
                    process,
                    global: false,
                    first,
                    last,
                })
            }
            false => Message::Respond(GroupResponse {
                process,
                group: input.int_in_range(0..=3)?,
                code: ResponseCode::of(input.int_in_range(0..=2)?),
            }),
        };
        let device = match input.arbitrary()? {
            true => (TEST << 3) as u32,
            false => input.arbitrary::<u16>()?.into(),
        };
        let mut messages = self.system.messages.lock().expect("nobody panics");
        messages.push_back((DeviceId(device), message));
        drop(messages);
        self.host.poll();
        Ok(())
    }

    /// The BAR of a device, or of a virtual function, which are counted after them.
    fn bar(device: u64) -> u64 {
        match device.checked_sub(DEVICES + 1) {
            Some(function) => HIGH + SHARED * STEP + STEP / 2 + function * 0x4000,
            None => HIGH + device * STEP,
        }
    }

    /// The handshake as a kernel does it, with queues of eight in the first pages of RAM.
    fn start(&mut self, device: u64) {
        let bar = Self::bar(device);
        for status in [0, 1, 3] {
            self.host.write(bar + 0x14, &[status]);
        }
        self.put(bar + 8, 1);
        self.put(bar + 0xc, 1);
        self.host.write(bar + 0x14, &[11]);
        for queue in 0..2 {
            let base = RAM as u32 + 0x1000 * queue;
            self.put16(bar + 0x16, queue as u16);
            self.put16(bar + 0x18, 8);
            self.put16(bar + 0x1a, queue as u16);
            for (at, address) in [(0x20, base), (0x28, base + 0x400), (0x30, base + 0x800)] {
                self.put(bar + at, address);
                self.put(bar + at + 4, 0);
            }
            self.put16(bar + 0x1c, 1);
        }
        self.host.write(bar + 0x14, &[15]);
    }

    fn access(&mut self, address: u64, input: &mut Unstructured<'_>) -> Result<()> {
        let len = *input.choose(&[1, 2, 4, 8, 3])?;
        let mut data: [u8; 8] = input.arbitrary()?;
        match input.arbitrary()? {
            true => self.host.write(address, &data[..len]),
            false => self.host.read(address, &mut data[..len]),
        }
        Ok(())
    }

    /// Functions that are bus master, by routing ID. Those that do not exist read as ones.
    fn masters(&mut self) -> Vec<u32> {
        let ids = 0..(DEVICES as u32 + 1) << 3;
        let master = |id: &u32| {
            let mut command = [0; 2];
            let place = ECAM + (u64::from(*id) << 12) + 4;
            self.host.read(place, &mut command);
            command[0] & 4 != 0 && command != [0xff; 2]
        };
        ids.filter(master).collect()
    }

    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let device = input.int_in_range(0..=DEVICES)?;
        let before = self.masters();
        match input.int_in_range(0..=11_u8)? {
            0 => self.place(device),
            1 => {
                let functions = DEVICES + VIRTUAL;
                self.start(input.int_in_range(0..=functions)?);
            }
            8 => self.share(),
            9 => self.command(input)?,
            11 => self.message(input)?,
            2 => {
                let at = u64::from(input.arbitrary::<u16>()? % 0x140);
                self.access(Self::space(device, at), input)?;
            }
            3 => {
                let at = u64::from(input.arbitrary::<u16>()?) % 0x1008;
                self.access(LOW + device * STEP + at, input)?;
            }
            4 => {
                let at = u64::from(input.arbitrary::<u16>()?) % 0x4008;
                let device = input.int_in_range(0..=DEVICES + VIRTUAL)?;
                self.access(Self::bar(device) + at, input)?;
            }
            5 => {
                let wild: u64 = input.arbitrary()?;
                self.access(wild, input)?;
                self.access(ECAM + wild % (1 << 28), input)?;
            }
            6 => {
                let (at, len) = (input.arbitrary::<u16>()?, input.int_in_range(1..=64)?);
                let bytes = input.bytes(len)?;
                let _ = self
                    .ram
                    .write_slice(bytes, GuestAddress(RAM + u64::from(at)));
            }
            7 => {
                let queue = u64::from(input.arbitrary::<u8>()? % 3);
                let device = input.int_in_range(0..=DEVICES + VIRTUAL)?;
                self.put16(Self::bar(device) + 0x3000 + 4 * queue, queue as u16);
            }
            _ => self.host.poll(),
        }
        let seen = std::mem::take(&mut *self.system.seen.lock().expect("nobody panics"));
        let after = self.masters();
        for DeviceId(id) in seen {
            // A reset in the middle of a step takes the right away after it was used.
            let allowed = before.contains(&id) || after.contains(&id);
            assert!(allowed, "function {id:#x} is not bus master");
        }
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
    for device in 1..=DEVICES {
        guest.place(device);
        guest.start(device);
    }
    guest.share();
    while !input.is_empty() {
        if guest.step(&mut input).is_err() {
            break;
        }
    }
    guest.check_saved();
});
