//! A controller of NVM Express before a scripted driver: what stock drivers do, and what hostile
//! ones may.

mod driver;
#[path = "../rig/mod.rs"]
mod rig;

use std::sync::atomic::Ordering::Relaxed;

use driver::{
    BAR, DATA, DNR, DOORBELLS, Done, Driver, ENTRIES, Memory, QUEUES, SECTORS, Words, io, plug,
};
use rig::{RAM, RAM_LEN};
use trapless_devices::{MmioDevice, Persist, StateReader, StateWriter};
use trapless_pci::Host;
use vm_memory::{Bytes, GuestAddress};

/// Promise: a driver finds the registers and structures that it needs to use the disk.
#[test]
fn drivers_find_what_they_need() {
    let mut driver = Driver::new();
    assert_eq!(driver.rig.config(1, 8, 4) >> 8, 0x01_0802);
    let capabilities = driver.rig.load(BAR, 8);
    assert_eq!((capabilities & 0xffff, capabilities >> 37 & 1), (1023, 1));
    assert_eq!(driver.rig.load(BAR + 4, 4), capabilities >> 32, "halves");
    assert_eq!(driver.rig.load(BAR + 8, 4), 0x0001_0400);
    let controller = driver.identify(1, 0).unwrap();
    assert_eq!(&controller[4..14], b"trapless0 ");
    assert_eq!(controller[512..514], [0x66, 0x44]);
    let namespace = driver.identify(0, 1).unwrap();
    assert_eq!(namespace[..8], SECTORS.to_le_bytes());
    assert_eq!(namespace[130], 9, "512 bytes");
    assert_eq!(
        driver.identify(2, 0).unwrap()[..8],
        [1, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(driver.identify(2, 1).unwrap()[..4], [0; 4]);
    assert_eq!(driver.identify(3, 1).unwrap()[..2], [3, 16]);
    assert_eq!(driver.identify(0, 2), Err(0x0b | DNR));
    assert_eq!(driver.identify(0x55, 1), Err(0x02 | DNR));
    let words = Words {
        opcode: 9,
        w10: 7,
        w11: 0x7f_007f,
        ..Words::default()
    };
    assert_eq!(driver.command(0, words), 0x0c | DNR, "there are queues");
    let id = driver.submit(
        0,
        Words {
            opcode: 10,
            ..words
        },
    );
    let done = driver.take(0).unwrap();
    assert_eq!((done.id, done.result), (id, 15 << 16 | 15));
}

/// Promise: data goes where it should, whatever describes it; the wire is high as long as there is
/// a completion that was not taken, and messages are sent once.
#[test]
fn sectors_are_read_and_written() {
    let mut driver = Driver::new();
    driver.submit(1, io(2, 3, 2, [DATA + 0xf00, DATA + 0x4000]));
    assert!(driver.rig.wires[1].0.load(Relaxed));
    driver.rig.store(BAR + 0xc, 4, 1);
    assert!(!driver.rig.wires[1].0.load(Relaxed), "masked");
    driver.rig.store(BAR + 0x10, 4, 1);
    assert!(driver.rig.wires[1].0.load(Relaxed));
    assert_eq!(driver.take(1).unwrap().status, 0);
    assert!(!driver.rig.wires[1].0.load(Relaxed));
    assert_eq!(driver.data(0xf00, 256), [3; 256]);
    let rest = driver.data(0x4000, 768);
    assert_eq!((&rest[..256], &rest[256..]), (&[3; 256][..], &[4; 512][..]));
    // Nine pages need a list.
    for page in 0..9_u64 {
        let entry = GuestAddress(DATA + 0x2000 + 8 * page);
        driver
            .rig
            .ram
            .write_obj(DATA + 0x8000 - 0x1000 * (page % 4), entry)
            .unwrap();
    }
    driver.use_messages();
    driver.create(2);
    driver.rig.messages();
    let list = [DATA + 0x1800, DATA + 0x2000];
    assert_eq!(driver.command(2, io(2, 40, 24, list)), 0);
    assert_eq!(driver.rig.messages(), [(8, 0x2800_0000, 2)]);
    assert_eq!(driver.data(0x1800, 512), [40; 512]);
    assert_eq!(driver.data(0x8000, 512), [44; 512]);
    driver
        .rig
        .ram
        .write_slice(&[0xab; 1024], GuestAddress(DATA))
        .unwrap();
    assert_eq!(driver.command(1, io(1, 62, 2, [DATA, 0])), 0);
    assert_eq!(driver.command(1, io(8, 5, 1, [0, 0])), 0, "zeroes");
    let range = [&[0; 4][..], &2_u32.to_le_bytes(), &7_u64.to_le_bytes()].concat();
    driver
        .rig
        .ram
        .write_slice(&range, GuestAddress(DATA))
        .unwrap();
    let words = Words {
        w11: 4,
        ..io(9, 0, 1, [DATA, 0])
    };
    assert_eq!(driver.command(1, words), 0, "deallocated");
    assert_eq!(driver.command(1, io(0, 0, 1, [0, 0])), 0, "flushed");
    let disk = driver.disk.bytes.lock().unwrap();
    assert_eq!(disk[62 * 512..], [0xab; 1024]);
    let sector = |n: usize| disk[n * 512];
    assert_eq!([4, 5, 6, 7, 8, 9].map(sector), [4, 0, 6, 0, 0, 9]);
}

/// Promise: a command that is wrong fails with its status, in itself.
#[test]
fn wrong_commands_have_their_status() {
    let mut driver = Driver::new();
    let end = [!0xfff, !0xfff];
    let other = Words {
        namespace: 9,
        ..io(2, 0, 1, [DATA, 0])
    };
    let far = Words {
        w11: u32::MAX,
        ..io(2, u32::MAX, 1, [DATA, 0])
    };
    for (words, status) in [
        (io(0x55, 0, 1, [DATA, 0]), 0x01 | DNR),
        (other, 0x0b | DNR),
        (io(2, 63, 2, [DATA, 0]), 0x80 | DNR),
        (far, 0x80 | DNR),
        (io(2, 0, 1, [DATA + 1, 0]), 0x13 | DNR),
        (io(2, 0, 16, [DATA, DATA + 8]), 0x13 | DNR),
        (io(2, 0, 17, [DATA, DATA + 4]), 0x13 | DNR),
        (io(2, 0, 9, [DATA, 0]), 0x04),
        (io(2, 0, 1, [RAM + RAM_LEN - 512, 0]), 0x04),
        (io(2, 0, 8, [u64::MAX - 3, 0x1000]), 0x04),
        (io(2, 20, 16, end), 0x04),
        (io(2, 20, 24, end), 0x04),
        (io(2, 13, 1, [DATA, 0]), 0x281 | DNR),
    ] {
        assert_eq!(
            driver.command(1, words),
            status,
            "{:x} {:x?}",
            words.opcode,
            words.prp
        );
    }
    assert!(!driver.fatal());
    assert_eq!(driver.command(1, io(2, 0, 1, [DATA, 0])), 0);
    let log = |kind: u32| Words {
        opcode: 2,
        prp: [DATA, 0],
        w10: 0x7f << 16 | kind,
        ..Words::default()
    };
    assert_eq!(driver.command(0, log(1)), 0);
    assert_eq!(driver.data(0, 8), 13_u64.to_le_bytes(), "errors");
    assert_eq!(driver.command(0, log(2)), 0);
    assert_eq!(driver.data(64, 1), [1], "one read");
    assert_eq!(driver.command(0, log(3)), 0);
    assert_eq!(driver.command(0, log(0x70)), 0x109 | DNR);
    driver = Driver::with(Memory {
        read_only: true,
        ..Memory::new()
    });
    driver.enable();
    driver.create(1);
    assert_eq!(driver.identify(0, 1).unwrap()[99], 1);
    assert_eq!(driver.command(1, io(1, 0, 1, [DATA, 0])), 0x20 | DNR);
}

/// Promise: impossible queues are refused, and those in use are not deleted.
#[test]
fn impossible_queues_are_refused() {
    let mut driver = Driver::new();
    let make = |opcode, size: u32, queue, base, w11| Words {
        opcode,
        prp: [base, 0],
        w10: size << 16 | queue,
        w11,
        ..Words::default()
    };
    let place = QUEUES + 0x4000;
    for (words, status) in [
        (make(5, 7, 0, place, 3), 0x101),
        (make(5, 7, 17, place, 3), 0x101),
        (make(5, 7, 0xffff, place, 3), 0x101),
        (make(5, 7, 1, place, 3), 0x101),
        (make(5, 0, 2, place, 3), 0x102),
        (make(5, 1024, 2, place, 3), 0x102),
        (make(5, 0xffff, 2, place, 3), 0x102),
        (make(5, 7, 2, place, 2), 0x02),
        (make(5, 7, 2, place + 8, 3), 0x13),
        (make(5, 7, 2, place, 1 << 16 | 3), 0x108),
        (make(1, 7, 2, place, 2 << 16 | 1), 0x100),
        (make(1, 7, 2, place, 99 << 16 | 1), 0x101),
        (make(1, 7, 1, place, 1 << 16 | 1), 0x101),
        (make(4, 0, 1, 0, 0), 0x10c),
        (make(4, 0, 2, 0, 0), 0x101),
        (make(0, 0, 0, 0, 0), 0x101),
        (make(0, 0, 9, 0, 0), 0x101),
    ] {
        let status = status | DNR;
        assert_eq!(
            driver.command(0, words),
            status,
            "{:x} {:x}",
            words.opcode,
            words.w10
        );
    }
    assert_eq!(driver.command(0, make(0, 0, 1, 0, 0)), 0);
    assert_eq!(driver.command(0, make(4, 0, 1, 0, 0)), 0);
    // The administrator's: too short, and not on a page.
    for (sizes, place) in [(0, QUEUES), (0x7_0007, QUEUES + 64)] {
        driver.rig.store(BAR + 0x14, 4, 0);
        driver.rig.store(BAR + 0x24, 4, sizes);
        driver.rig.store(BAR + 0x28, 8, place);
        driver.rig.store(BAR + 0x14, 4, 1);
        assert_eq!(driver.rig.load(BAR + 0x1c, 4), 2, "fatal, not ready");
    }
}

/// Promise: nothing is executed while its completion has no place, and all of it once it has.
#[test]
fn full_queues_wait() {
    let mut driver = Driver::new();
    // Queue 2 completes in queue 1 as well.
    let words = Words {
        opcode: 1,
        prp: [QUEUES + 0x4000, 0],
        w10: 7 << 16 | 2,
        w11: 1 << 16 | 1,
        ..Words::default()
    };
    assert_eq!(driver.command(0, words), 0);
    let mut ids: Vec<u16> = (0..6)
        .map(|_| driver.submit(1, io(2, 0, 1, [DATA, 0])))
        .collect();
    ids.extend((0..5).map(|_| driver.submit(2, io(8, 1, 1, [0, 0]))));
    let waits = driver.disk.bytes.lock().unwrap()[512];
    assert_eq!(waits, 0, "the first of them had a place");
    let mut taken = Vec::new();
    while let Some(done) = driver.take(1) {
        assert_eq!(done.status, 0);
        taken.push(done.id);
    }
    assert_eq!(taken, ids);
}

/// Promise: a doorbell that no queue can have has no effect but an event, once until it is looked
/// at; events wait for requests, of which there are few.
#[test]
fn wrong_doorbells_are_told() {
    let mut driver = Driver::new();
    driver.rig.store(DOORBELLS + 8, 4, ENTRIES);
    driver.rig.store(DOORBELLS + 12, 4, 3);
    driver.rig.store(DOORBELLS + 8 * 17, 4, 0);
    driver.rig.store(DOORBELLS + 0x2ffc, 4, 1);
    let event = Words {
        opcode: 12,
        ..Words::default()
    };
    let first = driver.submit(0, event);
    let done = driver.take(0).unwrap();
    assert_eq!(
        done,
        Done {
            result: 0x1_0100,
            id: first,
            status: 0
        }
    );
    let waiting: Vec<u16> = (0..4).map(|_| driver.submit(0, event)).collect();
    assert_eq!(driver.peek(0), None);
    assert_eq!(driver.command(0, event), 0x105 | DNR);
    driver.rig.store(DOORBELLS + 8 * 17, 4, 0);
    assert_eq!(driver.peek(0), None, "nobody has looked");
    let log = Words {
        opcode: 2,
        prp: [DATA, 0],
        w10: 1,
        ..Words::default()
    };
    assert_eq!(driver.command(0, log), 0);
    driver.rig.store(DOORBELLS + 8 * 17, 4, 0);
    let done = driver.take(0).unwrap();
    assert_eq!(
        done,
        Done {
            result: 0x1_0000,
            id: waiting[0],
            status: 0
        }
    );
    let abort = Words {
        opcode: 8,
        w10: u32::from(waiting[2]) << 16,
        ..Words::default()
    };
    driver.submit(0, abort);
    let aborted = driver.take(0).unwrap();
    assert_eq!((aborted.id, aborted.status), (waiting[2], 7));
    assert_eq!(driver.take(0).unwrap().result, 0);
    assert_eq!(driver.command(1, io(2, 0, 1, [DATA, 0])), 0);
}

/// Promise: queues that cannot be reached stop the controller, and a reset starts it again.
#[test]
fn unreachable_queues_are_fatal() {
    for (at, place) in [(0x28, !0xfff), (0x30, RAM + RAM_LEN - 0x1000)] {
        let mut driver = Driver::with(Memory::new());
        driver.enable();
        driver.rig.store(BAR + 0x14, 4, 0);
        driver.rig.store(BAR + at, 8, place);
        driver.rig.store(BAR + 0x14, 4, 1);
        driver.submit(
            0,
            Words {
                opcode: 10,
                w10: 7,
                ..Words::default()
            },
        );
        assert!(driver.fatal());
        driver.rig.store(BAR + 0x14, 4, 0);
        assert_eq!(driver.rig.load(BAR + 0x1c, 4), 0);
        driver.tails = [0; 20];
        driver.enable();
        driver.create(1);
    }
}

/// Promise: resets in the middle of work leave nothing of it: of the controller, whose queues of
/// the administrator stay where they are, and of the function, which leaves nothing at all. A
/// function that is not bus master does nothing, and goes on later.
#[test]
fn resets_leave_nothing() {
    let mut driver = Driver::new();
    driver.rig.set_config(1, 4, 2, 2);
    driver.submit(1, io(8, 1, 1, [0, 0]));
    driver.rig.host.poll();
    assert_eq!((driver.peek(1), driver.fatal()), (None, false));
    driver.rig.set_config(1, 4, 2, 6);
    assert_eq!(driver.take(1).unwrap().status, 0);
    driver.rig.set_config(1, 4, 2, 2);
    driver.submit(1, io(8, 2, 1, [0, 0]));
    driver.rig.store(BAR + 0x14, 4, 0);
    driver.rig.set_config(1, 4, 2, 6);
    assert_eq!(driver.peek(1), None);
    assert_eq!(
        driver.disk.bytes.lock().unwrap()[1024],
        2,
        "it was not executed"
    );
    assert_eq!(driver.rig.load(BAR + 0x28, 8), QUEUES);
    driver
        .rig
        .store(BAR + 0x14, 4, 4 << 20 | 6 << 16 | 1 | 1 << 14);
    assert_eq!(driver.rig.load(BAR + 0x1c, 4), 9, "ready, and shut down");
    let express = driver.rig.capability(1, 0x10, 0);
    driver.rig.set_config(1, express + 8, 2, 0x8000);
    driver.rig.set_config(1, 0x10, 4, BAR & 0xffff_ffff);
    driver.rig.set_config(1, 0x14, 4, BAR >> 32);
    driver.rig.set_config(1, 4, 2, 6);
    for at in [0x14, 0x1c, 0x24, 0x28, 0x30] {
        assert_eq!(driver.rig.load(BAR + at, 4), 0);
    }
}

/// Promise: a controller that comes out of a checkpoint goes on, with waiting commands.
#[test]
fn a_restored_controller_goes_on() {
    let mut driver = Driver::new();
    let event = driver.submit(
        0,
        Words {
            opcode: 12,
            ..Words::default()
        },
    );
    driver.rig.set_config(1, 4, 2, 2);
    driver.submit(1, io(2, 9, 1, [DATA, 0]));
    let save = |host: &Host| {
        let mut state = StateWriter::default();
        host.save(&mut state);
        state.into_bytes()
    };
    let state = save(&driver.rig.host);
    driver.rig.renew(plug(&driver.disk));
    driver
        .rig
        .host
        .restore(&mut StateReader::new(&state))
        .unwrap();
    assert_eq!(save(&driver.rig.host), state);
    driver.rig.set_config(1, 4, 2, 6);
    assert_eq!(driver.take(1).unwrap().status, 0);
    assert_eq!(driver.data(0, 1), [9]);
    driver.rig.store(DOORBELLS + 8 * 17, 4, 0);
    assert_eq!(driver.take(0).unwrap().id, event);
    for cut in 0..state.len() {
        driver.rig.renew(plug(&driver.disk));
        let cut = &mut StateReader::new(&state[..cut]);
        assert!(driver.rig.host.restore(cut).is_err());
    }
}
