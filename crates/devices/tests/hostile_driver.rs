//! Drivers that break the rules: the device must stop itself as virtio 1.2 section 2.1.2 says, or
//! live with it, and never panic, run forever or touch anything but RAM.

mod driver;

use std::net::Ipv4Addr;

use driver::{
    AVAIL, DATA, DRIVER_OK, Driver, EVENT_IDX, FEATURES_OK, INDIRECT, NEEDS_RESET, NEXT, Output,
    RAM, RAM_SIZE, VERSION_1, WRITE,
};
use proptest::prelude::*;
use trapless_devices::virtio::block::{Block, Disk, Overlay, SECTOR};
use trapless_devices::virtio::console::Console;
use trapless_devices::virtio::fs::{FileServer, Fs};
use trapless_devices::virtio::net::{Loopback, Net, Peer};
use trapless_devices::virtio::rng::{Rng, SeededEntropy};
use trapless_devices::virtio::{EmptySlot, VirtioDevice};
use trapless_devices::{GoldfishRtc, MmioDevice, PowerLatch, Syscon, Uart};

fn rng() -> Rng {
    Rng::new(Box::new(SeededEntropy::new(7)))
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

/// The device has set NEEDS_RESET and notified the driver, and does nothing until reset.
fn assert_failed(driver: &mut Driver<impl VirtioDevice>, why: &str) {
    assert_eq!(driver.last_error(), why);
    assert_eq!(driver.status() & NEEDS_RESET, NEEDS_RESET);
    assert_eq!(
        driver.take_interrupt() & 2,
        2,
        "a configuration change is signalled"
    );
    driver.notify(0);
    driver.device.poll();
    assert_eq!(driver.next_used(0), None);
    // A reset brings it back.
    driver.put(RAM, &[0; 0x4000]);
    driver.set_up(8, VERSION_1);
    driver.submit(0, &[(DATA, 4, WRITE)]);
    driver.notify(0);
    assert_eq!(driver.next_used(0), Some((0, 4)));
}

#[test]
fn broken_chains_stop_the_device() {
    let outside = "buffer outside RAM";
    let broken = "descriptor chain loops, is too long or leaves the table";
    let end = RAM + RAM_SIZE;
    let cases: [(&str, &[driver::Descriptor]); 12] = [
        (broken, &[(DATA, 4, WRITE | NEXT, 0)]),
        (
            broken,
            &[(DATA, 4, WRITE | NEXT, 1), (DATA, 4, WRITE | NEXT, 0)],
        ),
        (broken, &[(DATA, 4, WRITE | NEXT, 8)]),
        (broken, &[(DATA, 3, INDIRECT, 0)]),
        (broken, &[(DATA, 0, INDIRECT, 0)]),
        (broken, &[(u64::MAX - 15, 16, INDIRECT, 0)]),
        (outside, &[(DATA, u32::MAX, WRITE, 0)]),
        (outside, &[(end - 3, 4, WRITE, 0)]),
        (outside, &[(0, 4, WRITE, 0)]),
        (outside, &[(u64::MAX, 4, WRITE, 0)]),
        (outside, &[(u64::MAX - 3, u32::MAX, 0, 0)]),
        (
            "device-readable buffer after a device-writable one",
            &[(DATA, 4, WRITE | NEXT, 1), (DATA, 4, 0, 0)],
        ),
    ];
    for (why, chain) in cases {
        let mut driver = Driver::started(rng(), 8);
        for (index, descriptor) in (0..).zip(chain) {
            driver.put_descriptor(RAM, index, *descriptor);
        }
        driver.offer(0, 0);
        driver.notify(0);
        assert_failed(&mut driver, why);
    }
}

#[test]
fn indirect_table_in_itself_or_nested_stops_the_device() {
    for address in [RAM, DATA] {
        let mut driver = Driver::started(rng(), 8);
        driver.put_descriptor(RAM, 0, (address, 16, INDIRECT, 0));
        driver.put_descriptor(DATA, 0, (DATA, 16, INDIRECT, 0));
        driver.offer(0, 0);
        driver.notify(0);
        assert_failed(
            &mut driver,
            "descriptor chain loops, is too long or leaves the table",
        );
    }
}

#[test]
fn broken_available_ring_stops_the_device() {
    let mut driver = Driver::started(rng(), 8);
    driver.offer(0, 8);
    driver.notify(0);
    assert_failed(&mut driver, "descriptor index out of range");

    let mut driver = Driver::started(rng(), 8);
    driver.put(RAM + AVAIL + 2, &9_u16.to_le_bytes());
    driver.notify(0);
    assert_failed(&mut driver, "available ring index out of range");
}

#[test]
fn bad_queue_set_up_is_reported_when_the_driver_is_ready() {
    let outside = "queue outside RAM";
    let bad = "queue size or alignment not allowed";
    for (size, base, why) in [
        (0, RAM, bad),
        (3, RAM, bad),
        (16, RAM, bad), // the device has at most 8
        (0x1_0008, RAM, bad),
        (8, RAM + 8, bad),
        (8, 0, outside),
        (8, RAM + RAM_SIZE - 0x3010, outside),
        (8, u64::MAX - 0xfff, outside),
    ] {
        let mut driver = Driver::new(rng());
        driver.write(0x70, 3);
        driver.accept(VERSION_1);
        driver.write(0x70, 3 | FEATURES_OK);
        driver.set_up_queue(size, base);
        assert!(
            driver.errors.0.lock().unwrap().contains(&why),
            "size {size:#x} base {base:#x}"
        );
        assert!(!driver.wire.high(), "no interrupt before DRIVER_OK");
        driver.write(0x70, 3 | FEATURES_OK | DRIVER_OK);
        driver.notify(0);
        assert_eq!(driver.status() & NEEDS_RESET, NEEDS_RESET);
        assert_eq!(driver.take_interrupt(), 2);
    }
}

#[test]
fn handshake_out_of_order_starts_nothing() {
    let mut driver = Driver::new(rng());
    driver.set_up_queue(8, RAM);
    driver.put_descriptor(RAM, 0, (DATA, 4, WRITE, 0));
    driver.offer(0, 0);
    driver.notify(0);
    assert_eq!(driver.last_error(), "notification before DRIVER_OK");
    // With a feature that was not offered, and DRIVER_OK without FEATURES_OK.
    driver.accept(VERSION_1 | 1);
    driver.write(0x70, 3 | FEATURES_OK);
    assert_eq!(driver.status(), 3);
    driver.write(0x70, 3 | DRIVER_OK);
    assert_eq!(driver.status(), 3);
    driver.device.poll();
    assert_eq!(driver.next_used(0), None);
    driver.accept(VERSION_1);
    driver.write(0x70, 3 | FEATURES_OK);
    driver.accept(VERSION_1 | EVENT_IDX);
    assert_eq!(driver.last_error(), "features changed after FEATURES_OK");
    driver.write(0x70, 3 | FEATURES_OK | DRIVER_OK);
    driver.notify(1);
    assert_eq!(
        driver.last_error(),
        "notification of a queue that does not exist"
    );
    driver.notify(0);
    assert_eq!(
        driver.next_used(0),
        Some((0, 4)),
        "what was right all along works"
    );
    driver.write(0x30, 0);
    driver.write(0x80, 0);
    assert_eq!(driver.last_error(), "set-up of a queue in use");
}

#[test]
fn queue_in_its_own_buffer_is_survived() {
    // The device overwrites the available ring with its answer, and reads a random index from it
    // next.
    let mut driver = Driver::started(rng(), 8);
    driver.submit(0, &[(RAM + AVAIL, 0x1000, WRITE)]);
    driver.notify(0);
    driver.notify(0);
    assert_eq!(driver.status() & NEEDS_RESET, NEEDS_RESET);
}

#[test]
fn block_request_without_header_or_status_stops_the_device() {
    for (parts, why) in [
        (
            vec![(DATA, 15, 0), (DATA, 1, WRITE)],
            "block request without a complete header",
        ),
        (vec![(DATA, 16, 0)], "block request without a status byte"),
        (
            vec![(DATA, 1, WRITE)],
            "block request without a complete header",
        ),
    ] {
        let mut driver = Driver::started(Block::new(Box::new(Zeroes), ""), 16);
        driver.submit(0, &parts);
        driver.notify(0);
        assert_eq!(driver.last_error(), why);
        assert_eq!(driver.status() & NEEDS_RESET, NEEDS_RESET);
    }
}

/// A disk of 64 KiB that needs no file.
struct Zeroes;

impl Disk for Zeroes {
    fn sectors(&self) -> u64 {
        128
    }
    fn read_only(&self) -> bool {
        true
    }
    fn read(&mut self, offset: u64, data: &mut [u8]) -> std::io::Result<()> {
        assert!(
            offset + data.len() as u64 <= 128 * SECTOR,
            "the device checks ranges"
        );
        data.fill(0);
        Ok(())
    }
    fn write(&mut self, _: u64, _: &[u8]) -> std::io::Result<()> {
        unreachable!("the disk is read-only")
    }
    fn write_zeroes(&mut self, _: u64, _: u64) -> std::io::Result<()> {
        unreachable!("the disk is read-only")
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a driver does, from plausible to absurd.
#[derive(Debug, Clone)]
enum Step {
    Register(u64, u32),
    Access(u64, usize, u64),
    Descriptor(usize, u16, driver::Descriptor),
    Offer(usize, u16),
    Scribble(u64, Vec<u8>),
    /// Content that makes sense to some device, the length of its first part, and room for an
    /// answer.
    Request(usize, Vec<u8>, u32, u32),
    Notify(usize),
    Poll,
    SetUp(u64),
}

fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0..RAM_SIZE).prop_map(|offset| RAM + offset),
        2 => Just(DATA),
        1 => any::<u64>(),
        1 => (0..64_u64).prop_map(|near| RAM + RAM_SIZE - near),
    ]
}

fn descriptor() -> impl Strategy<Value = driver::Descriptor> {
    let len = prop_oneof![4 => 0..2048_u32, 2 => Just(16), 2 => Just(1), 1 => any::<u32>()];
    let flags = prop_oneof![8 => 0..4_u16, 1 => 4..8_u16, 1 => any::<u16>()];
    (address(), len, flags, 0..18_u16)
}

/// The beginning of a block request, or of a frame with a header before it, and anything behind
/// that.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![0..2_u32, Just(4), Just(8), Just(11), Just(13), any::<u32>()];
    let block = (kind, 0..140_u64).prop_map(|(kind, sector)| {
        [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat()
    });
    let range = (0..140_u64, 0..40_u32, 0..2_u32).prop_map(|(sector, sectors, flags)| {
        [
            &sector.to_le_bytes()[..],
            &sectors.to_le_bytes(),
            &flags.to_le_bytes(),
        ]
        .concat()
    });
    let tail = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..100),
        prop::collection::vec(any::<u8>(), 512),
        range,
    ];
    let frame = prop_oneof![
        Just(ARP_REQUEST.to_vec()),
        Just([&[0; 12][..], &[4; 6], &[2; 6], &[8, 0, 0x45, 0, 0]].concat()),
        Just(vec![0; 12]),
    ];
    (prop_oneof![block, frame], tail).prop_map(|(head, tail)| [head, tail].concat())
}

const ARP_REQUEST: &[u8] =
    b"\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\x02\x02\x02\x02\x02\x02\x08\x06\0\x01\x08\0\x06\x04\0\x01";

fn step() -> impl Strategy<Value = Step> {
    let value = prop_oneof![0..20_u32, any::<u32>(), Just(RAM as u32), Just(0xf)];
    prop_oneof![
        2 => ((0..0x50_u64).prop_map(|word| word * 4), value).prop_map(|(at, value)| Step::Register(at, value)),
        1 => (prop_oneof![0..0x140_u64, any::<u64>()], 0..10_usize, any::<u64>()).prop_map(|(at, len, value)| Step::Access(at, len, value)),
        6 => (0..2_usize, 0..16_u16, descriptor()).prop_map(|(queue, index, descriptor)| Step::Descriptor(queue, index, descriptor)),
        6 => (0..2_usize, 0..18_u16).prop_map(|(queue, head)| Step::Offer(queue, head)),
        1 => (0..0x8000_u64, prop::collection::vec(any::<u8>(), 1..40)).prop_map(|(at, bytes)| Step::Scribble(at, bytes)),
        8 => (0..2_usize, content(), 0..40_u32, prop_oneof![Just(1), Just(513), 0..2000_u32])
            .prop_map(|(queue, content, cut, room)| Step::Request(queue, content, cut, room)),
        6 => (0..3_usize).prop_map(Step::Notify),
        2 => Just(Step::Poll),
        3 => prop_oneof![Just(VERSION_1), Just(VERSION_1 | EVENT_IDX), Just(u64::MAX)].prop_map(Step::SetUp),
    ]
}

fn drive(device: impl VirtioDevice, steps: &[Step]) {
    let mut driver = Driver::new(device);
    // No device has smaller queues.
    driver.set_up(8, VERSION_1);
    for step in steps {
        match step {
            Step::Register(at, value) => {
                driver.read(*at);
                driver.write(*at, *value);
            }
            Step::Access(at, len, value) => {
                let mut data = [[0xff; 8], [0xff; 8]].concat();
                driver.device.read(*at, &mut data[..*len]);
                data[..8].copy_from_slice(&value.to_le_bytes());
                driver.device.write(*at, &data[..*len]);
            }
            Step::Descriptor(queue, index, descriptor) => {
                driver.put_descriptor(
                    RAM + *queue as u64 * driver::QUEUE_STEP,
                    *index,
                    *descriptor,
                );
            }
            Step::Offer(queue, head) => driver.offer(*queue, *head),
            Step::Scribble(at, bytes) => driver.put(RAM + at, bytes),
            Step::Request(queue, content, cut, room) => {
                driver.put(DATA, content);
                let cut = *cut % (content.len() as u32 + 1);
                let rest = content.len() as u32 - cut;
                let mut parts = vec![
                    (DATA, cut, 0),
                    (DATA + u64::from(cut), rest, 0),
                    (DATA + 0x1000, *room, WRITE),
                ];
                parts.retain(|part| part.1 != 0);
                driver.submit(*queue, &parts);
                driver.notify(*queue);
            }
            Step::Notify(queue) => driver.notify(*queue),
            Step::Poll => driver.device.poll(),
            Step::SetUp(wanted) => {
                driver.put(RAM + AVAIL, &[0; 64]);
                driver.set_up(8, *wanted);
            }
        }
        assert_eq!(
            driver.wire.high(),
            driver.read(0x60) != 0,
            "the wire is the interrupt status"
        );
        assert!(
            !driver.device.needs_poll(),
            "queues this small fit one call"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_sequence_breaks_a_virtio_device(kind in 0..7_u8, steps in prop::collection::vec(step(), 1..120)) {
        match kind {
            0 => drive(Block::new(Box::new(Zeroes), "id"), &steps),
            1 => drive(Block::new(Box::new(Overlay::new(Box::new(Zeroes), Some(16 << 10))), "id"), &steps),
            2 => {
                let mut console = Console::new(Box::new(Output::default()));
                console.enqueue(b"some input");
                drive(console, &steps);
            }
            3 => drive(rng(), &steps),
            6 => drive(Fs::new(Box::new(Echo), "share"), &steps),
            4 => drive(Net::new(Box::new(Loopback::default()), [2; 6]), &steps),
            _ => drive(Net::new(Box::new(Peer::new([4; 6], Ipv4Addr::LOCALHOST)), [2; 6]), &steps),
        }
    }

    #[test]
    fn no_access_breaks_the_other_devices(
        accesses in prop::collection::vec((0..4_usize, prop_oneof![0..0x24_u64, any::<u64>()], 0..10_usize, any::<u64>()), 1..200),
    ) {
        struct Zero;
        impl trapless_devices::Clock for Zero {
            fn now_ns(&self) -> u64 {
                0
            }
        }
        let mut uart = Uart::new(Box::new(Output::default()), Box::new(()));
        uart.enqueue(b"input");
        let mut devices: [Box<dyn MmioDevice>; 4] = [
            Box::new(uart),
            Box::new(GoldfishRtc::new(Box::new(Zero), u64::MAX, Box::new(()))),
            Box::new(Syscon::new(PowerLatch::default())),
            Box::new(EmptySlot),
        ];
        for (device, offset, len, value) in accesses {
            let mut data = [0xff; 10];
            data[..8].copy_from_slice(&value.to_le_bytes());
            devices[device].write(offset, &data[..len]);
            devices[device].read(offset, &mut data[..len]);
            devices[device].poll();
            devices[device].next_deadline();
        }
    }
}
