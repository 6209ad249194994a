//! A hostile virtio driver: register accesses and guest RAM of any content against each device.
//!
//! The input is a list of steps. Some steps do the tedious part right (the handshake, a ring
//! entry), so that the rest reaches the request handlers and not only the handshake's checks.

#![no_main]

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use trapless_devices::virtio::block::{Block, Disk, Overlay};
use trapless_devices::virtio::console::Console;
use trapless_devices::virtio::fs::{FileServer, Fs};
use trapless_devices::virtio::net::{Loopback, Net, Peer};
use trapless_devices::virtio::rng::{Rng, SeededEntropy};
use trapless_devices::virtio::{VirtioDevice, VirtioMmio};
use trapless_devices::{GuestRam, IrqLine, MmioDevice};
use vm_memory::{Bytes, GuestAddress};

const RAM: u64 = 0x8000_0000;
/// Two adjacent regions, so that buffers may cross from one into the other.
const REGION: u64 = 0x1_0000;
/// Queue `n` at `RAM + n * QUEUE_STEP`, with the rings behind the descriptors. The size fits all
/// devices.
const QUEUE_STEP: u64 = 0x1000;
const AVAIL: u64 = 0x400;
const USED: u64 = 0x800;
const SIZE: u16 = 8;
const SECTORS: u64 = 64;

const BUFFER: u64 = RAM + 0x4000;

/// A header and an ARP request for the peer, and what an IPv4 packet to it begins with.
const FRAME: [u8; 54] = *b"\0\0\0\0\0\0\0\0\0\0\0\0\
    \xff\xff\xff\xff\xff\xff\x02\x02\x02\x02\x02\x02\x08\x06\
    \0\x01\x08\0\x06\x04\0\x01\x02\x02\x02\x02\x02\x02\x0a\0\0\x01\0\0\0\0\0\0\0\0\0\0";

/// An ICMP or UDP packet to the peer with a right checksum in the IPv4 header.
fn packet(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let (total, protocol) = (input.int_in_range(0..=100_u8)?, *input.choose(&[1, 17, 6])?);
    let mut header = [
        0x45, 0, 0, total, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 0, 0, 0, 0,
    ];
    let sum: u32 = header
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
        .sum();
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    let payload = match protocol {
        // An echo request with identifier 0, whose sum is right if what follows is zeroes.
        1 => vec![8, 0, 0xf7, 0xff, 0, 0, 0, 0],
        // No checksum, from port 1 to port 7.
        17 => vec![0, 1, 0, 7, 0, total.saturating_sub(20), 0, 0],
        _ => Vec::new(),
    };
    Ok([&FRAME[..24], &[8, 0], &header, &payload].concat())
}

/// A small disk that objects to transfers the device should have refused.
struct Memory(Vec<u8>);

impl Memory {
    fn part(&mut self, offset: u64, len: usize) -> &mut [u8] {
        &mut self.0[offset as usize..][..len]
    }
}

impl Disk for Memory {
    fn sectors(&self) -> u64 {
        SECTORS
    }
    fn read_only(&self) -> bool {
        false
    }
    fn read(&mut self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        data.copy_from_slice(self.part(offset, data.len()));
        Ok(())
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.part(offset, data.len()).copy_from_slice(data);
        Ok(())
    }
    fn write_zeroes(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.part(offset, len as usize).fill(0);
        Ok(())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Clone, Default)]
struct Wire(Arc<AtomicBool>);

impl IrqLine for Wire {
    fn set(&self, high: bool) {
        self.0.store(high, Ordering::Relaxed);
    }
}

struct Guest<D> {
    device: VirtioMmio<D>,
    ram: Arc<GuestRam>,
    wire: Wire,
}

impl<D: VirtioDevice> Guest<D> {
    fn new(device: D) -> Self {
        let regions = [0, REGION].map(|offset| (GuestAddress(RAM + offset), REGION as usize));
        let ram = Arc::new(GuestRam::from_ranges(&regions).expect("128 KiB of RAM"));
        let wire = Wire::default();
        let device = VirtioMmio::new(device, ram.clone(), Box::new(wire.clone()), Box::new(()));
        Self { device, ram, wire }
    }

    fn write(&mut self, register: u64, value: u32) {
        self.device.write(register, &value.to_le_bytes());
    }

    fn read(&mut self, register: u64) -> u32 {
        let mut data = [0; 4];
        self.device.read(register, &mut data);
        u32::from_le_bytes(data)
    }

    fn poke(&self, address: u64, bytes: &[u8]) {
        let _ = self.ram.write_slice(bytes, GuestAddress(address));
    }

    /// The handshake as a kernel does it, with or without EVENT_IDX, indirect descriptors and the
    /// device's features.
    fn set_up(&mut self, wanted: u32) {
        for queue in 0..2 {
            self.poke(RAM + queue * QUEUE_STEP + AVAIL, &[0; 32]);
        }
        for status in [0, 1, 3] {
            self.write(0x70, status);
        }
        self.write(0x14, 0);
        let offered = self.read(0x10);
        self.write(0x24, 0);
        self.write(0x20, offered & wanted);
        self.write(0x24, 1);
        self.write(0x20, 1);
        self.write(0x70, 11);
        for queue in 0..2 {
            let base = RAM as u32 + queue * QUEUE_STEP as u32;
            self.write(0x30, queue);
            self.write(0x38, SIZE.into());
            for (register, address) in [
                (0x80, base),
                (0x90, base + AVAIL as u32),
                (0xa0, base + USED as u32),
            ] {
                self.write(register, address);
                self.write(register + 4, 0);
            }
            self.write(0x44, 1);
        }
        self.write(0x70, 15);
    }

    fn offer(&mut self, queue: u64, head: u16) {
        let avail = RAM + queue * QUEUE_STEP + AVAIL;
        let index: u16 = self.ram.read_obj(GuestAddress(avail + 2)).unwrap_or(0);
        self.poke(avail + 4 + u64::from(index % SIZE) * 2, &head.to_le_bytes());
        self.poke(avail + 2, &index.wrapping_add(1).to_le_bytes());
    }

    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match input.int_in_range(0..=9_u8)? {
            0 => {
                let register = u64::from(input.int_in_range(0..=0x4f_u8)?) * 4;
                self.write(register, input.arbitrary()?);
            }
            1 => {
                let (offset, len) = (input.arbitrary()?, input.int_in_range(0..=9_usize)?);
                let mut data: [u8; 9] = input.arbitrary()?;
                self.device.write(offset, &data[..len]);
                self.device.read(offset, &mut data[..len]);
            }
            2 => {
                let (offset, len) = (input.arbitrary::<u16>()?, input.int_in_range(1..=64)?);
                self.poke(RAM + u64::from(offset), input.bytes(len)?);
            }
            3 | 4 => {
                let (queue, index) = (input.int_in_range(0..=1)?, input.int_in_range(0..=9_u64)?);
                // Mostly inside RAM, and sometimes anywhere.
                let address = match input.arbitrary::<u32>()? {
                    wild if wild % 16 == 0 => input.arbitrary()?,
                    offset => RAM + u64::from(offset) % (2 * REGION),
                };
                let len = match input.arbitrary::<u16>()? {
                    0 => input.arbitrary()?,
                    len => u32::from(len) % 2048,
                };
                let (flags, next) = (
                    input.int_in_range(0..=7_u16)?,
                    input.int_in_range(0..=9_u16)?,
                );
                let tail = [flags.to_le_bytes(), next.to_le_bytes()].concat();
                let bytes = [&address.to_le_bytes()[..], &len.to_le_bytes(), &tail].concat();
                self.poke(RAM + queue * QUEUE_STEP + index * 16, &bytes);
            }
            5 => self.offer(input.int_in_range(0..=1)?, input.int_in_range(0..=9)?),
            6 => {
                let queue = input.int_in_range(0..=2)?;
                self.write(0x50, queue);
            }
            7 => self.device.poll(),
            8 => self.request(input)?,
            _ => self.set_up(input.arbitrary()?),
        }
        Ok(())
    }

    /// A well-formed chain whose content makes sense to some device, cut anywhere, with room for an
    /// answer.
    fn request(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let head = match input.int_in_range(0..=3_u8)? {
            0 => {
                let kind = *input.choose(&[0_u32, 1, 4, 8, 11, 13, 99])?;
                let sector = u64::from(input.int_in_range(0..=SECTORS as u8 + 1)?);
                [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat()
            }
            1 => FRAME.to_vec(),
            2 => packet(input)?,
            _ => Vec::new(),
        };
        let len = *input.choose(&[0, 1, 16, 32, 512, 1024])?;
        let tail = input.bytes(len.min(input.len()))?;
        let mut content = [&head, tail].concat();
        content.resize(head.len() + len, 0);
        self.poke(BUFFER, &content);
        let len = content.len() as u32;
        let cut = input.int_in_range(0..=len)?;
        let room = *input.choose(&[0, 1, 2, 513, 1025, 1600])?;
        let parts = [
            (BUFFER, cut, 0),
            (BUFFER + u64::from(cut), len - cut, 0),
            (BUFFER + 4096, room, 2),
        ];
        let queue = input.int_in_range(0..=1)?;
        for (index, (address, len, write)) in (0_u16..).zip(parts) {
            let more = u16::from(index < 2);
            let tail = [(write | more).to_le_bytes(), (index + 1).to_le_bytes()].concat();
            let bytes = [&address.to_le_bytes()[..], &len.to_le_bytes(), &tail].concat();
            self.poke(RAM + queue * QUEUE_STEP + u64::from(index) * 16, &bytes);
        }
        self.offer(queue, 0);
        self.write(0x50, queue as u32);
        Ok(())
    }

    fn run(mut self, input: &mut Unstructured<'_>) {
        self.set_up(u32::MAX);
        while !input.is_empty() {
            if self.step(input).is_err() {
                break;
            }
            let asserted = self.read(0x60) != 0;
            assert_eq!(
                self.wire.0.load(Ordering::Relaxed),
                asserted,
                "wire and status differ"
            );
        }
    }
}

/// Answers with the request and 16 bytes more than there is room for.
struct Echo;

impl FileServer for Echo {
    fn answer(&mut self, request: &[u8], room: usize, answer: &mut Vec<u8>) {
        answer.extend_from_slice(request);
        answer.resize(room + 16, 0);
    }

    fn reset(&mut self) {}
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let disk = || Box::new(Memory(vec![7; (SECTORS * 512) as usize]));
    match input.int_in_range(0..=6_u8) {
        Ok(0) => Guest::new(Block::new(disk(), "fuzz")).run(&mut input),
        Ok(1) => {
            let overlay = Overlay::new(disk(), Some(8192));
            Guest::new(Block::new(Box::new(overlay), "fuzz")).run(&mut input);
        }
        Ok(2) => {
            let mut console = Console::new(Box::new(io::sink()));
            console.enqueue(&[b'x'; 100]);
            Guest::new(console).run(&mut input);
        }
        Ok(3) => Guest::new(Rng::new(Box::new(SeededEntropy::new(1)))).run(&mut input),
        Ok(6) => Guest::new(Fs::new(Box::new(Echo), "fuzz")).run(&mut input),
        Ok(4) => Guest::new(Net::new(Box::new(Loopback::default()), [2; 6])).run(&mut input),
        _ => {
            let peer = Peer::new([0xff; 6], Ipv4Addr::UNSPECIFIED);
            Guest::new(Net::new(Box::new(peer), [2; 6])).run(&mut input);
        }
    }
});
