//! Each virtio device, driven through its registers and through rings in guest RAM.

mod driver;

use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use driver::{DATA, Driver, EVENT_IDX, INDIRECT, Output, RAM, USED, VERSION_1, WRITE};
use tempfile::NamedTempFile;
use trapless_devices::MmioDevice;
use trapless_devices::virtio::block::{Block, Disk, Overlay, RawDisk};
use trapless_devices::virtio::console::Console;
use trapless_devices::virtio::fs::{FileServer, Fs};
use trapless_devices::virtio::net::{Loopback, Net, Peer};
use trapless_devices::virtio::rng::{Rng, SeededEntropy};
use trapless_devices::virtio::shadow::{ACKNOWLEDGEMENT, SHADOWED, Shadow};

const HEADER: u64 = DATA;
const STATUS: u64 = DATA + 0x100;
const BUFFER: u64 = DATA + 0x1000;

/// A disk of 8 sectors; every byte of sector `n` is `n + 1`.
fn image() -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    for sector in 1..=8 {
        file.write_all(&[sector; 512]).unwrap();
    }
    file
}

fn block(file: &NamedTempFile, writable: bool) -> Driver<Block> {
    let disk = RawDisk::open(file.path(), writable).unwrap();
    Driver::started(Block::new(Box::new(disk), "serial-0"), 16)
}

/// One request with `len` bytes at BUFFER; returns the status and the used length.
fn request(driver: &mut Driver<Block>, kind: u32, sector: u64, len: u32, flags: u16) -> (u8, u32) {
    driver.put(
        HEADER,
        &[&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat(),
    );
    driver.put(STATUS, &[0xee]);
    let mut parts = vec![(HEADER, 16, 0), (BUFFER, len, flags), (STATUS, 1, WRITE)];
    parts.retain(|part| part.1 != 0);
    driver.submit(0, &parts);
    driver.notify(0);
    let (_, used) = driver.next_used(0).expect("every request is completed");
    assert_eq!(driver.take_interrupt(), 1);
    (driver.get(STATUS, 1)[0], used)
}

#[test]
fn registers_identify_the_device_and_its_queues() {
    let file = image();
    let mut driver = block(&file, false);
    assert_eq!(
        [0, 4, 8].map(|register| driver.read(register)),
        [0x7472_6976, 2, 2]
    );
    assert_eq!(driver.read(0x34), 0, "queue 1 does not exist");
    driver.write(0x30, 0);
    assert_eq!((driver.read(0x34), driver.read(0x44)), (256, 1));
    assert_eq!(driver.config(0), 8_u64.to_le_bytes());
    assert_eq!(driver.config(20), 512_u32.to_le_bytes());
    assert_eq!(driver.config::<4>(58), [0; 4], "beyond the configuration");
    assert_eq!(driver.read(0xb0), u32::MAX, "no shared memory");
}

/// Registers as a guest finds them without the device being asked.
struct Registers([AtomicU32; 1024]);

impl Shadow for Registers {
    fn register(&self, offset: u32) -> &AtomicU32 {
        &self.0[offset as usize / 4]
    }
}

#[test]
fn a_shadow_shows_what_reading_would_return_and_takes_acknowledgements() {
    let file = image();
    let mut driver = block(&file, true);
    let shadow = Arc::new(Registers([const { AtomicU32::new(0) }; 1024]));
    driver.device.share(shadow.clone());
    let agree = |driver: &mut Driver<Block>| {
        for register in SHADOWED {
            let shown = shadow.register(register).load(Ordering::SeqCst);
            assert_eq!(shown, driver.read(register.into()), "{register:#x}");
        }
    };
    agree(&mut driver);
    let (_, status) = ACKNOWLEDGEMENT;
    assert_eq!(request(&mut driver, 0, 2, 1024, WRITE), (0, 1025));
    agree(&mut driver);
    driver.submit(
        0,
        &[(HEADER, 16, 0), (BUFFER, 512, WRITE), (STATUS, 1, WRITE)],
    );
    driver.notify(0);
    assert_eq!(shadow.register(status).swap(0, Ordering::SeqCst), 1);
    assert_eq!(driver.read(status.into()), 0, "acknowledged in memory");
    // Another driver takes over.
    driver.write(0x70, 0);
    agree(&mut driver);
    driver.device.config_changed();
    agree(&mut driver);
}

#[test]
fn block_reads_and_writes_the_file() {
    let file = image();
    let mut driver = block(&file, true);
    assert_eq!(request(&mut driver, 0, 2, 1024, WRITE), (0, 1025));
    assert_eq!(driver.get(BUFFER, 1024), [[3; 512], [4; 512]].concat());
    driver.put(BUFFER, &[0xaa; 512]);
    assert_eq!(request(&mut driver, 1, 7, 512, 0), (0, 1));
    assert_eq!(request(&mut driver, 4, 0, 0, 0), (0, 1));
    assert_eq!(std::fs::read(file.path()).unwrap()[7 * 512..], [0xaa; 512]);
    assert_eq!(request(&mut driver, 8, 0, 20, WRITE), (0, 21));
    assert_eq!(driver.get(BUFFER, 20), b"serial-0\0\0\0\0\0\0\0\0\0\0\0\0");
}

#[test]
fn block_requests_may_be_cut_anywhere_and_indirect() {
    let file = image();
    let mut driver = block(&file, true);
    // Header in two parts, data in three of odd length, the status at the end of the last.
    driver.put(
        HEADER,
        &[0_u32.to_le_bytes(), [0; 4], 1_u32.to_le_bytes(), [0; 4]].concat(),
    );
    let table = DATA + 0x800;
    let parts = [
        (HEADER, 5, 0),
        (HEADER + 5, 11, 0),
        (BUFFER, 100, 2),
        (BUFFER + 100, 401, 2),
        (BUFFER + 501, 12, 2),
    ];
    for (n, (address, len, flags)) in (0..).zip(parts) {
        let more = u16::from(n < 4);
        driver.put_descriptor(table, n, (address, len, flags | more, n + 1));
    }
    driver.submit(0, &[(table, 5 * 16, INDIRECT)]);
    driver.notify(0);
    assert_eq!(driver.next_used(0), Some((0, 513)));
    assert_eq!(driver.get(BUFFER, 513), [&[2; 512][..], &[0]].concat());
}

#[test]
fn block_refuses_what_does_not_fit_the_disk() {
    let file = image();
    let mut driver = block(&file, true);
    for (sector, len) in [
        (8, 512),
        (7, 1024),
        (u64::MAX, 512),
        (u64::MAX / 512, 1024),
        (0, 511),
    ] {
        for (kind, flags) in [(0, WRITE), (1, 0)] {
            assert_eq!(
                request(&mut driver, kind, sector, len, flags).0,
                1,
                "sector {sector} length {len}"
            );
        }
    }
    assert_eq!(
        request(&mut driver, 99, 0, 0, 0).0,
        2,
        "an unknown request is unsupported"
    );
    assert_eq!(
        request(&mut driver, 0, 0, 512, WRITE).0,
        0,
        "the device works on"
    );
}

#[test]
fn read_only_disk_says_so_and_refuses_writes() {
    let file = image();
    let mut driver = block(&file, false);
    assert_eq!(driver.offered() & (1 << 5 | 1 << 13), 1 << 5);
    assert_eq!(request(&mut driver, 1, 0, 512, 0).0, 1);
    assert_eq!(std::fs::read(file.path()).unwrap()[..512], [1; 512]);
}

#[test]
fn overlay_keeps_writes_and_leaves_the_file_alone() {
    let file = image();
    let overlay = Overlay::new(Box::new(RawDisk::open(file.path(), false).unwrap()), None);
    assert!(!overlay.read_only());
    let mut driver = Driver::started(Block::new(Box::new(overlay), ""), 16);
    driver.put(BUFFER, &[0xaa; 512]);
    assert_eq!(request(&mut driver, 1, 3, 512, 0).0, 0);
    // Write zeroes: sector 4, one sector, with permission to unmap.
    driver.put(
        BUFFER,
        &[
            &4_u64.to_le_bytes()[..],
            &1_u32.to_le_bytes(),
            &1_u32.to_le_bytes(),
        ]
        .concat(),
    );
    assert_eq!(request(&mut driver, 13, 0, 16, 0).0, 0);
    assert_eq!(request(&mut driver, 0, 2, 4 * 512, WRITE).0, 0);
    assert_eq!(
        driver.get(BUFFER, 4 * 512),
        [[3; 512], [0xaa; 512], [0; 512], [6; 512]].concat()
    );
    // Too many sectors, beyond the end, an unknown flag.
    for (sector, sectors, flags, status) in
        [(0_u64, 8_u32 << 20, 0_u32, 1), (7, 2, 0, 1), (0, 1, 2, 2)]
    {
        driver.put(
            BUFFER,
            &[
                &sector.to_le_bytes()[..],
                &sectors.to_le_bytes(),
                &flags.to_le_bytes(),
            ]
            .concat(),
        );
        assert_eq!(request(&mut driver, 11, 0, 16, 0).0, status);
    }
    assert_eq!(
        std::fs::read(file.path()).unwrap(),
        std::fs::read(image().path()).unwrap()
    );
}

#[test]
fn console_moves_bytes_both_ways() {
    let out = Output::default();
    let mut driver = Driver::started(Console::new(Box::new(out.clone())), 16);
    driver.put(BUFFER, b"hello, world");
    driver.submit(1, &[(BUFFER, 7, 0), (BUFFER + 7, 5, 0)]);
    driver.notify(1);
    assert_eq!(driver.next_used(1), Some((0, 0)));
    assert_eq!(*out.0.lock().unwrap(), b"hello, world");
    driver.take_interrupt();

    // Input waits for buffers, fills them one after the other, and is bounded.
    assert_eq!(driver.device.device_mut().enqueue(b"abcdef"), 6);
    driver.device.poll();
    assert!(!driver.wire.high());
    driver.submit(0, &[(BUFFER, 4, WRITE)]);
    driver.submit(0, &[(BUFFER + 4, 4, WRITE)]);
    driver.notify(0);
    assert_eq!(
        (driver.next_used(0), driver.next_used(0)),
        (Some((0, 4)), Some((1, 2)))
    );
    assert_eq!(driver.get(BUFFER, 6), b"abcdef");
    assert_eq!(driver.take_interrupt(), 1);
    assert_eq!(driver.device.device_mut().enqueue(&[0; 5000]), 4096);

    driver.device.device_mut().set_size(132, 43);
    driver.device.config_changed();
    assert_eq!(driver.take_interrupt(), 2);
    assert_eq!((driver.config(0), driver.read(0xfc)), ([132, 0, 43, 0], 1));
    driver.device.write(0x108, b"!\0\0\0");
    assert!(out.0.lock().unwrap().ends_with(b"d!"));
}

/// Turns each request around; requests of one byte get no answer.
struct Reverse;

impl FileServer for Reverse {
    fn answer(&mut self, request: &[u8], room: usize, answer: &mut Vec<u8>) {
        if request.len() > 1 {
            answer.extend(request.iter().rev().take(room));
        }
    }

    fn reset(&mut self) {}
}

#[test]
fn file_system_passes_requests_and_answers_on() {
    let mut driver = Driver::started(Fs::new(Box::new(Reverse), "share"), 16);
    assert_eq!(
        (driver.config(0), driver.config(4)),
        (*b"shar", *b"e\0\0\0")
    );
    assert_eq!(driver.config(36), [1, 0, 0, 0], "queues for requests");
    driver.put(BUFFER, b"request");
    let answer = BUFFER + 0x1000;
    for (parts, used) in [
        (
            &[(BUFFER, 3, 0), (BUFFER + 3, 4, 0), (answer, 16, WRITE)][..],
            7,
        ),
        (&[(BUFFER, 7, 0), (answer, 2, WRITE)], 2),
        (&[(BUFFER, 1, 0)], 0),
    ] {
        driver.submit(1, parts);
        driver.notify(1);
        assert_eq!(driver.next_used(1).map(|(_, used)| used), Some(used));
    }
    assert_eq!(driver.get(answer, 7), b"tseuqer");
}

#[test]
fn rng_gives_the_sequence_of_its_seed() {
    let bytes = |seed, len| {
        let mut driver = Driver::started(Rng::new(Box::new(SeededEntropy::new(seed))), 8);
        driver.submit(0, &[(BUFFER, len, WRITE)]);
        driver.notify(0);
        let (_, used) = driver.next_used(0).unwrap();
        driver.get(BUFFER, used as usize)
    };
    assert_eq!(bytes(1, 19).len(), 19);
    assert_eq!(bytes(1, 19), bytes(1, 19));
    assert_ne!(bytes(1, 19), bytes(2, 19));
    assert_eq!(bytes(1, 60_000).len(), 4096, "a request is bounded");
}

#[test]
fn net_gives_frames_back_with_a_header() {
    let mac = [0x52, 0x54, 0, 1, 2, 3];
    let mut driver = Driver::started(Net::new(Box::new(Loopback::default()), mac), 16);
    assert_eq!(driver.config(0), [0x52, 0x54, 0, 1, 2, 3, 1, 0]);
    let frame: Vec<u8> = (0..60).collect();
    driver.put(BUFFER, &[&[0; 12][..], &frame].concat());
    // Two frames while there is no buffer for them; they wait.
    driver.submit(1, &[(BUFFER, 12, 0), (BUFFER + 12, 60, 0)]);
    driver.submit(1, &[(BUFFER, 72, 0)]);
    driver.notify(1);
    assert_eq!(
        (driver.next_used(1), driver.next_used(1)),
        (Some((0, 0)), Some((2, 0)))
    );
    let room = BUFFER + 0x1000;
    driver.submit(0, &[(room, 12, WRITE), (room + 12, 1514, WRITE)]);
    driver.notify(0);
    assert_eq!(driver.next_used(0), Some((0, 72)));
    assert_eq!(
        driver.get(room, 72),
        [&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0][..], &frame].concat()
    );
    // The second frame does not fit the next buffer: it is dropped and the buffer stays.
    driver.submit(0, &[(room, 70, WRITE)]);
    driver.notify(0);
    assert_eq!(driver.next_used(0), None);
    assert!(driver.last_error().contains("too small"));
    let short: Vec<u8> = (0..20).collect();
    driver.put(BUFFER, &[&[0; 12][..], &short].concat());
    driver.submit(1, &[(BUFFER, 32, 0)]);
    driver.notify(1);
    assert_eq!(driver.next_used(0), Some((2, 32)));
    assert_eq!(driver.get(room + 12, 20), short);
}

#[test]
fn net_peer_answers_arp() {
    let peer = Peer::new([2; 6], Ipv4Addr::new(10, 0, 2, 2));
    let mut driver = Driver::started(Net::new(Box::new(peer), [4; 6]), 16);
    let arp = [
        &[0; 12][..],
        &[0xff; 6],
        &[4; 6],
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
        &[4; 6],
        &[10, 0, 2, 15],
        &[0; 6],
        &[10, 0, 2, 2],
    ]
    .concat();
    driver.put(BUFFER, &arp);
    driver.submit(0, &[(BUFFER + 0x1000, 2000, WRITE)]);
    driver.submit(1, &[(BUFFER, arp.len() as u32, 0)]);
    driver.notify(1);
    assert_eq!(driver.next_used(0), Some((0, 54)));
    assert_eq!(
        driver.get(BUFFER + 0x1000 + 12 + 22, 10),
        [2, 2, 2, 2, 2, 2, 10, 0, 2, 2]
    );
}

/// xv6 takes the version-2 registers without negotiating VIRTIO_F_VERSION_1, and expects QEMU's
/// vendor.
#[test]
fn driver_without_version_1_is_served_with_the_short_network_header() {
    let mut driver = Driver::new(Net::new(Box::new(Loopback::default()), [2; 6]));
    assert_eq!(driver.read(0xc), u32::from_le_bytes(*b"QEMU"));
    driver.set_up(8, 0);
    driver.put(DATA, &[[0; 10].as_slice(), &[7; 60]].concat());
    driver.submit(0, &[(BUFFER, 2048, WRITE)]);
    driver.submit(1, &[(DATA, 70, 0)]);
    driver.notify(1);
    assert_eq!(driver.next_used(0), Some((0, 70)));
    assert_eq!(driver.get(BUFFER + 10, 60), [7; 60]);
}

#[test]
fn event_index_suppresses_notifications_and_interrupts() {
    let mut driver = Driver::new(Rng::new(Box::new(SeededEntropy::new(1))));
    driver.set_up(8, VERSION_1 | EVENT_IDX);
    // used_event = 1: interrupt when the second chain is used. It is at the end of the available
    // ring of 8.
    let used_event = RAM + driver::AVAIL + 4 + 8 * 2;
    driver.put(used_event, &1_u16.to_le_bytes());
    driver.put_descriptor(RAM, 0, (BUFFER, 4, WRITE, 0));
    for (count, interrupt) in [(1_u16, 0), (2, 1), (3, 0)] {
        driver.put(RAM + driver::AVAIL, &[[0; 2], count.to_le_bytes()].concat());
        driver.notify(0);
        assert_eq!(driver.take_interrupt(), interrupt, "chain {count}");
        // avail_event, behind the used ring: the device requests a notification of the next chain.
        assert_eq!(driver.get_u16(RAM + USED + 4 + 8 * 8), count);
    }
}

#[test]
fn reset_forgets_queues_features_and_interrupts() {
    let file = image();
    let mut driver = block(&file, true);
    driver.submit(0, &[(HEADER, 16, 0), (STATUS, 1, WRITE)]);
    driver.notify(0);
    assert!(driver.wire.high());
    driver.write(0x70, 0);
    assert!(!driver.wire.high());
    driver.write(0x30, 0);
    assert_eq!(
        [0x60, 0x70, 0x44].map(|register| driver.read(register)),
        [0; 3]
    );
    driver.put(RAM, &[0; 0x8000]);
    driver.set_up(16, VERSION_1);
    assert_eq!(request(&mut driver, 0, 0, 512, WRITE), (0, 513));
}

#[test]
fn a_restored_device_goes_on_where_the_saved_one_was() {
    let file = image();
    let mut driver = block(&file, true);
    assert_eq!(request(&mut driver, 0, 0, 512, WRITE), (0, 513));
    // An interrupt that the driver has not seen yet, and a request that the device has not.
    driver.put(HEADER, &[0; 16]);
    driver.submit(
        0,
        &[(HEADER, 16, 0), (BUFFER, 512, WRITE), (STATUS, 1, WRITE)],
    );
    driver.notify(0);
    driver.submit(
        0,
        &[(HEADER, 16, 0), (BUFFER, 512, WRITE), (STATUS, 1, WRITE)],
    );
    let disk = || RawDisk::open(file.path(), true).unwrap();
    let again = || Block::new(Box::new(disk()), "serial-0");
    driver.replace(again()).unwrap();
    assert_eq!(driver.take_interrupt(), 1);
    assert_eq!(driver.next_used(0).unwrap().1, 513);
    assert_eq!(driver.next_used(0), None);
    driver.notify(0);
    assert_eq!(driver.next_used(0).unwrap().1, 513);
    assert_eq!(driver.take_interrupt(), 1);

    // A frame that waits in the device for a buffer.
    let card = || Net::new(Box::new(Loopback::default()), [2; 6]);
    let mut driver = Driver::started(card(), 16);
    driver.put(DATA, &[[0; 12].as_slice(), &[7; 60]].concat());
    driver.submit(1, &[(DATA, 72, 0)]);
    driver.notify(1);
    driver.replace(card()).unwrap();
    driver.submit(0, &[(BUFFER, 2048, WRITE)]);
    driver.notify(0);
    assert_eq!(driver.next_used(0), Some((0, 72)));
    assert_eq!(driver.get(BUFFER + 12, 60), [7; 60]);
}

#[test]
fn states_that_are_cut_or_changed_are_errors_or_harmless() {
    let card = || Net::new(Box::new(Loopback::default()), [2; 6]);
    let mut driver = Driver::started(card(), 16);
    let mut writer = trapless_devices::StateWriter::default();
    trapless_devices::Persist::save(&driver.device, &mut writer);
    let state = writer.into_bytes();
    for len in 0..state.len() {
        assert!(driver.restore(card(), &state[..len]).is_err(), "{len}");
    }
    for at in 0..state.len() {
        let mut changed = state.clone();
        changed[at] ^= 0xff;
        if driver.restore(card(), &changed).is_ok() {
            driver.notify(0);
            driver.notify(1);
            driver.device.poll();
        }
    }
    let disk = image();
    let disk = || Box::new(RawDisk::open(disk.path(), true).unwrap());
    let mut other = Driver::new(Block::new(disk(), ""));
    assert!(other.restore(Block::new(disk(), ""), &state).is_err());
}
