//! The IOMMU before tables that a test builds in memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use trapless_devices::DeviceId;
use vm_memory::GuestMemoryBackend;

use super::*;
use crate::registers::at;

mod ats;

const RAM: u64 = 0x8000_0000;
/// Where the tests put things.
const DDT: u64 = RAM;
const COMMANDS: u64 = RAM + 0x1000;
const FAULTS: u64 = RAM + 0x2000;
const MSI: u64 = RAM + 0x3000;
const MRIF: u64 = RAM + 0x3800;
const FIRST: u64 = RAM + 0x1_0000;
const SECOND: u64 = RAM + 0x2_0000;
const DATA: u64 = RAM + 0x8_0000;
/// Nothing takes words from here on.
const NOWHERE: u64 = 0x9000_0000;

const DEVICE: u64 = 8;
const GSCID: u64 = 5;
const PSCID: u64 = 3;

#[derive(Clone, Default)]
struct Wire(Arc<AtomicBool>);

impl IrqLine for Wire {
    fn set(&self, high: bool) {
        self.0.store(high, Relaxed);
    }
}

/// A clock that a test sets, in ns.
#[derive(Clone, Default)]
struct Time(Arc<AtomicU64>);

impl Clock for Time {
    fn now_ns(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

struct Rig {
    iommu: Iommu,
    time: Time,
    wires: [Wire; WIRES],
    posted: Arc<Mutex<Vec<(u64, u32)>>>,
}

fn pte(address: u64, flags: u64) -> u64 {
    address >> 12 << 10 | flags
}

/// V, R, W, X, U, A, D.
const LEAF: u64 = 0xdf;
const READ_ONLY: u64 = 0x53;

impl Rig {
    fn new() -> Self {
        let ram = GuestRam::from_ranges(&[(GuestAddress(RAM), 0x10_0000)]).unwrap();
        let wires: [Wire; WIRES] = Default::default();
        let posted = Arc::new(Mutex::new(Vec::new()));
        let log = posted.clone();
        let lines = [0, 1, 2, 3].map(|n: usize| Box::new(wires[n].clone()) as Box<dyn IrqLine>);
        let post = Box::new(move |address, data| {
            log.lock().unwrap().push((address, data));
            address < NOWHERE
        });
        let time = Time::default();
        let clock = Box::new(time.clone());
        let mut rig = Self {
            time,
            iommu: Iommu::new(Arc::new(ram), lines, clock, post),
            wires,
            posted,
        };
        rig.set64(at::CQB, COMMANDS >> 2 | 4);
        rig.set64(at::FQB, FAULTS >> 2 | 1);
        rig.set(at::CQCSR, 3);
        rig.set(at::FQCSR, 3);
        // One level.
        rig.set64(at::DDTP, DDT >> 2 | 2);
        rig
    }

    fn set(&mut self, offset: u64, value: u32) {
        self.iommu.write(offset, 4, value.into());
    }

    fn set64(&mut self, offset: u64, value: u64) {
        self.iommu.write(offset, 8, value);
    }

    fn get(&self, offset: u64) -> u64 {
        self.iommu.read(offset, 4)
    }

    fn get64(&self, offset: u64) -> u64 {
        self.iommu.read(offset, 8)
    }

    fn put(&self, address: u64, words: &[u64]) {
        for (n, word) in words.iter().enumerate() {
            let place = GuestAddress(address + 8 * n as u64);
            self.iommu.ram.write_obj(*word, place).unwrap();
        }
    }

    fn word(&self, address: u64) -> u64 {
        self.iommu.load_u64(address).unwrap()
    }

    /// The context of the device.
    fn context(&self, tc: u64, iohgatp: u64, fsc: u64) {
        let messages = match iohgatp {
            0 => [0; 3],
            // Two interrupt files at 0x2800_0000.
            _ => [1 << 60 | MSI >> 12, 1, 0x2_8000],
        };
        let place = DDT + DEVICE * 64;
        self.put(place, &[1 | tc, iohgatp, PSCID << 12, fsc]);
        self.put(place + 32, &messages);
        self.put(place + 56, &[0]);
    }

    /// Sv39x4: 4 KiB pages of the first GiB; page n is page n of `DATA`.
    fn second_stage(&self, flags: u64) -> u64 {
        self.put(SECOND, &[pte(SECOND + 0x4000, 1)]);
        self.put(SECOND + 0x4000, &[pte(SECOND + 0x5000, 1)]);
        for page in 0..16 {
            let entry = pte(DATA + page * 0x1000, flags);
            self.put(SECOND + 0x5000 + page * 8, &[entry]);
        }
        8 << 60 | GSCID << 44 | SECOND >> 12
    }

    /// Sv39 of the host: address 0x4000_0000 + n pages is page n of `DATA`.
    fn first_stage(&self, flags: u64) -> u64 {
        self.put(FIRST + 8, &[pte(FIRST + 0x1000, 1)]);
        self.put(FIRST + 0x1000, &[pte(FIRST + 0x2000, 1)]);
        for page in 0..16 {
            let entry = pte(DATA + page * 0x1000, flags);
            self.put(FIRST + 0x2000 + page * 8, &[entry]);
        }
        8 << 60 | FIRST >> 12
    }

    fn go(&mut self, address: u64, access: Access) -> Option<u64> {
        self.request(None, address, access)
    }

    fn request(&mut self, process: Option<u32>, address: u64, access: Access) -> Option<u64> {
        let request = Request {
            device: DeviceId(DEVICE as u32),
            process,
            privileged: false,
            address,
            address_type: AddressType::Untranslated,
            access,
        };
        match self.iommu.translate(&request).ok()?.target {
            Target::Memory(address) => Some(address),
            Target::Mrif { file, .. } => Some(file),
        }
    }

    fn command(&mut self, first: u64, second: u64) {
        let tail = self.get(at::CQT);
        self.put(COMMANDS + tail * 16, &[first, second]);
        self.set(at::CQT, (tail + 1) as u32 & 31);
    }

    /// The cause of the last fault, and what else it says.
    fn fault(&mut self) -> (u64, u64, u64) {
        let (head, tail) = (self.get(at::FQH), self.get(at::FQT));
        assert_ne!(head, tail, "a fault is reported");
        self.set(at::FQH, tail as u32);
        let record = FAULTS + (tail + 3) % 4 * 32;
        let first = self.word(record);
        assert_eq!(first >> 40, DEVICE);
        (
            first & 0xfff,
            self.word(record + 16),
            self.word(record + 24),
        )
    }

    fn no_fault(&self) {
        assert_eq!(self.get(at::FQH), self.get(at::FQT));
    }
}

const INVAL_DDT: u64 = 3;
const VMA: u64 = 1;
const GVMA: u64 = 1 | 1 << 7;
const AV: u64 = 1 << 10;
const PSCV: u64 = 1 << 32;
const GV: u64 = 1 << 33;

/// Promise: Bare, as after reset, lets everything pass, Off nothing.
#[test]
fn modes_without_a_directory() {
    let mut rig = Rig::new();
    rig.set64(at::DDTP, 0);
    assert_eq!(rig.go(DATA, Access::Read), None);
    assert_eq!(rig.fault().0, 256);
    rig.set64(at::DDTP, 1);
    assert_eq!(rig.go(0x1234, Access::Write), Some(0x1234));
    rig.set64(at::DDTP, DDT >> 2 | 9);
    assert_eq!(rig.get(at::DDTP) & 0xf, 1, "a mode that there is not");
}

/// Promise: each stage translates, alone and together, with the rights that both give.
#[test]
fn both_stages_translate() {
    let mut rig = Rig::new();
    let first = rig.first_stage(LEAF);
    rig.context(0, 0, first);
    assert_eq!(rig.go(0x4000_2345, Access::Write), Some(DATA + 0x2345));
    assert_eq!(rig.go(0x8000_0000, Access::Read), None);
    assert_eq!(rig.fault(), (13, 0x8000_0000, 0));
    assert_eq!(rig.go(1 << 38, Access::Read), None, "not canonical");
    assert_eq!(rig.fault().0, 13);
    let second = rig.second_stage(READ_ONLY);
    rig.context(0, second, 0);
    rig.command(INVAL_DDT, 0);
    assert_eq!(rig.go(0x3008, Access::Read), Some(DATA + 0x3008));
    assert_eq!(rig.go(0x3008, Access::Write), None);
    assert_eq!(rig.fault(), (23, 0x3008, 0x3008));
    // Tables of the first stage are guest physical: the root is page 1, then page 2 and 3.
    rig.put(DATA + 0x1000, &[pte(0x2000, 1)]);
    rig.put(DATA + 0x2000, &[pte(0x3000, 1)]);
    rig.put(DATA + 0x3000 + 8, &[pte(0x7000, LEAF)]);
    rig.put(DATA + 0x3000 + 16, &[pte(0x7_0000, LEAF)]);
    rig.context(0, second, 8 << 60 | 1);
    rig.command(INVAL_DDT, 0);
    assert_eq!(rig.go(0x1010, Access::Read), Some(DATA + 0x7010));
    assert_eq!(rig.go(0x2000, Access::Read), None);
    assert_eq!(rig.fault(), (21, 0x2000, 0x7_0000));
    rig.context(0, second, 8 << 60 | 0x7_0);
    rig.command(INVAL_DDT, 0);
    assert_eq!(rig.go(0x5000, Access::Write), None);
    let implicit = (23, 0x5000, 0x7_0000 | 1);
    assert_eq!(rig.fault(), implicit, "the table itself is not there");
}

/// Promise: 64 KiB of equal entries are one page (Svnapot), as every IOMMU has them; other sizes,
/// and entries that are no such leaf, are refused.
#[test]
fn contiguous_entries_are_one_page() {
    const N: u64 = 1 << 63;
    let frame = DATA + 0x1_0000;
    for second in [true, false] {
        let mut rig = Rig::new();
        let (table, base) = match second {
            true => (SECOND + 0x5000, 0),
            false => (FIRST + 0x2000, 0x4000_0000),
        };
        match second {
            true => rig.context(0, rig.second_stage(LEAF), 0),
            false => rig.context(0, 0, rig.first_stage(LEAF)),
        }
        rig.put(table, &[pte(frame | 0x8000, LEAF) | N; 16]);
        for page in 0..16 {
            let address = page * 0x1000 + 8;
            assert_eq!(rig.go(base + address, Access::Write), Some(frame + address));
        }
        rig.no_fault();
        for wrong in [
            pte(frame, LEAF) | N,
            pte(frame | 0x4000, LEAF) | N,
            pte(frame | 0x9000, LEAF) | N,
            pte(frame | 0x8000, 1) | N,
        ] {
            rig.command(INVAL_DDT, 0);
            rig.command(VMA, 0);
            rig.command(GVMA, 0);
            rig.put(table, &[wrong]);
            assert_eq!(rig.go(base, Access::Read), None, "{wrong:#x}");
        }
    }
}

/// Promise: what was translated once stays so until a command names it, whatever software has
/// written meanwhile; entries that were not valid are not kept.
#[test]
fn a_missing_invalidation_is_seen() {
    let mut rig = Rig::new();
    let first = rig.first_stage(LEAF);
    rig.context(0, 0, first);
    let (page, other) = (0x4000_1000, 0x4000_2000);
    rig.go(page, Access::Read).unwrap();
    rig.go(other, Access::Read).unwrap();
    let entry = FIRST + 0x2000 + 8;
    rig.put(entry, &[0, 0]);
    assert_eq!(rig.go(page, Access::Read), Some(DATA + 0x1000), "stale");
    let addressed = |page: u64| page >> 12 << 10;
    // Commands for others change nothing.
    rig.command(VMA | GV | GSCID << 44, 0);
    rig.command(VMA | PSCV | 9 << 12, 0);
    rig.command(VMA | AV, addressed(0x4000_3000));
    rig.command(GVMA, 0);
    assert_eq!(rig.go(page, Access::Read), Some(DATA + 0x1000), "stale");
    rig.no_fault();
    rig.command(VMA | AV | PSCV | PSCID << 12, addressed(page));
    assert_eq!(rig.go(page, Access::Read), None);
    assert_eq!(rig.fault().0, 13);
    assert_eq!(rig.go(other, Access::Read), Some(DATA + 0x2000), "stale");
    rig.put(entry, &[pte(DATA, LEAF)]);
    assert_eq!(rig.go(page, Access::Read), Some(DATA), "nothing to forget");
    rig.context(0, 0, 0);
    assert_eq!(rig.go(other, Access::Read), Some(DATA + 0x2000), "stale");
    rig.command(INVAL_DDT | 1 << 33 | DEVICE << 40, 0);
    assert_eq!(rig.go(other, Access::Read), Some(other));
    // Of a superpage any address is forgotten by any other.
    let second = rig.second_stage(LEAF);
    rig.put(SECOND + 0x4000, &[pte(RAM & !0x1f_ffff, LEAF)]);
    rig.context(0, second, 0);
    rig.command(INVAL_DDT, 0);
    assert_eq!(rig.go(0x5000, Access::Read), Some(RAM + 0x5000));
    rig.put(SECOND + 0x4000, &[0]);
    rig.command(GVMA | GV | AV | (GSCID + 1) << 44, addressed(0x5000));
    rig.command(GVMA | GV | AV | GSCID << 44, addressed(0x20_0000));
    assert_eq!(rig.go(0x5000, Access::Read), Some(RAM + 0x5000), "stale");
    rig.command(GVMA | GV | AV | GSCID << 44, addressed(0x9000));
    assert_eq!(rig.go(0x5000, Access::Read), None);
}

/// Promise: A and D bits are set only where software asks for it; else their lack is a fault.
#[test]
fn accessed_and_dirty_bits() {
    const GADE: u64 = 1 << 7;
    let mut rig = Rig::new();
    let flags = LEAF & !0xc0;
    let second = rig.second_stage(flags);
    rig.context(0, second, 0);
    assert_eq!(rig.go(0x1000, Access::Read), None);
    assert_eq!(rig.fault().0, 21);
    rig.context(GADE, second, 0);
    rig.command(INVAL_DDT, 0);
    let entry = SECOND + 0x5000 + 8;
    rig.go(0x1000, Access::Read).unwrap();
    assert_eq!(rig.word(entry) & 0xc0, 0x40);
    rig.go(0x1000, Access::Write).unwrap();
    assert_eq!(rig.word(entry) & 0xc0, 0xc0, "although it was known");
}

/// Promise: a guest's message goes where its table says, its own page table notwithstanding;
/// files in memory take identities, and the notice is always sent.
#[test]
fn messages_follow_the_table() {
    let mut rig = Rig::new();
    let second = rig.second_stage(LEAF);
    rig.context(0, second, 0);
    // Faults do not interrupt.
    rig.set(at::FQCSR, 1);
    let device = DeviceId(DEVICE as u32);
    rig.put(MSI, &[pte(0x2810_0000, 7), 0]);
    let notice = pte(0x2800_1000, 0);
    rig.put(MSI + 16, &[MRIF >> 2 | 3, notice | 0x2a | 1 << 60]);
    let mut send = |address, data| rig.iommu.message(device, address, data);
    assert_eq!(send(0x2800_0000, 7), Ok(Arrived::At(0x2810_0000)));
    assert_eq!(send(0x2800_1000, 65), Ok(Arrived::InMemory));
    assert_eq!(
        send(0x2800_1004, 66_u32.swap_bytes()),
        Ok(Arrived::InMemory)
    );
    assert_eq!(send(0x2800_1000, 2048), Ok(Arrived::Dropped));
    assert_eq!(send(0x2800_1008, 1), Ok(Arrived::Dropped));
    assert_eq!(send(0x2800_2000, 1), Err(trapless_devices::dma::DmaFault));
    assert_eq!(rig.fault().0, 23);
    assert_eq!(rig.word(MRIF + 16), 0b110);
    let told = std::mem::take(&mut *rig.posted.lock().unwrap());
    assert_eq!(told, [(0x2800_1000, 0x42a); 2]);
    // Until it is named, the old entry counts.
    rig.put(MSI, &[pte(0x2820_0000, 7)]);
    let send = |rig: &mut Rig| rig.iommu.message(device, 0x2800_0000, 7);
    assert_eq!(send(&mut rig), Ok(Arrived::At(0x2810_0000)));
    rig.command(GVMA | GV | AV | GSCID << 44, 0x2_8000 << 10);
    assert_eq!(send(&mut rig), Ok(Arrived::At(0x2820_0000)));
    for (entry, cause) in [
        (0, 262),
        (pte(0, 1), 263),
        (pte(0, 5), 263),
        (pte(0, 3), 264),
        (7 | 1 << 63, 263),
    ] {
        rig.put(MSI, &[entry]);
        rig.command(GVMA, 0);
        assert!(send(&mut rig).is_err());
        assert_eq!(rig.fault().0, cause, "{entry:#x}");
    }
    assert_eq!(rig.go(0x2800_0000, Access::Execute), None);
}

/// Promise: what a directory must not hold is found, each with its cause.
#[test]
fn wrong_contexts_are_refused() {
    let mut rig = Rig::new();
    let second = rig.second_stage(LEAF);
    let place = DDT + DEVICE * 64;
    let wrong: [(usize, u64); 14] = [
        (0, 1 | 1 << 2),          // PRI without ATS
        (0, 1 | 1 << 3),          // T2GPA without ATS
        (0, 1 | 1 << 1 | 1 << 6), // PRPR without PRI
        (0, 1 | 1 << 10),         // big-endian
        (0, 1 | 1 << 32),         // reserved
        (0, 1 | 1 << 9),          // DPE without PDTV
        (1, second | 1),          // not aligned
        (1, 7 << 60),             // no scheme
        (1, 0),                   // messages without a second stage
        (2, 1),                   // reserved
        (3, 8 << 60 | 1 << 44),
        (4, 2 << 60),
        (5, 1 << 47),
        (7, 1),
    ];
    for (word, value) in wrong {
        rig.context(0, second, 0);
        rig.put(place + 8 * word as u64, &[value]);
        rig.command(INVAL_DDT, 0);
        assert_eq!(rig.go(0x1000, Access::Read), None);
        assert_eq!(rig.fault().0, 259, "word {word} is {value:#x}");
    }
    rig.put(place, &[0]);
    assert_eq!(rig.go(0x1000, Access::Read), None);
    assert_eq!(rig.fault().0, 258);
    // A directory with more levels, of which the upper one is wrong.
    rig.set64(at::DDTP, DDT >> 2 | 3);
    for (entry, cause) in [(0, 258), (1 | 1 << 54, 259), (pte(0x1000, 1), 257)] {
        rig.put(DDT, &[entry]);
        rig.go(0x1000, Access::Read);
        assert_eq!(rig.fault().0, cause);
    }
    // DTF: the device's own faults are not reported.
    rig.set64(at::DDTP, DDT >> 2 | 2);
    rig.context(1 << 4, second, 0);
    rig.command(INVAL_DDT, 0);
    assert_eq!(rig.go(0x7_0000, Access::Read), None);
    rig.no_fault();
}

/// Promise: process contexts choose the first stage, with IDs as wide as the directory.
#[test]
fn processes_have_first_stages() {
    const PDTV: u64 = 1 << 5;
    const DPE: u64 = 1 << 9;
    let mut rig = Rig::new();
    let pdt = RAM + 0x4_0000;
    let first = rig.first_stage(LEAF);
    rig.context(PDTV, 0, 1 << 60 | pdt >> 12);
    rig.put(pdt + 7 * 16, &[1 | 9 << 12, first]);
    assert_eq!(
        rig.request(Some(7), 0x4000_1000, Access::Read),
        Some(DATA + 0x1000)
    );
    assert_eq!(
        rig.request(None, 0x4000_1000, Access::Read),
        Some(0x4000_1000)
    );
    assert_eq!(rig.request(Some(6), 0, Access::Read), None);
    assert_eq!(rig.fault().0, 266);
    assert_eq!(rig.request(Some(256), 0, Access::Read), None);
    assert_eq!(rig.fault().0, 260);
    rig.put(pdt, &[1 | 1 << 5, 0]);
    rig.context(PDTV | DPE, 0, 1 << 60 | pdt >> 12);
    rig.command(INVAL_DDT, 0);
    assert_eq!(rig.go(0, Access::Read), None);
    assert_eq!(rig.fault().0, 267);
    rig.context(0, 0, 0);
    rig.command(INVAL_DDT, 0);
    assert_eq!(rig.request(Some(7), 0, Access::Read), None);
    assert_eq!(rig.fault().0, 260, "no process without a directory");
}

/// Promise: a command that is none stops the queue until software has cleared that; a fence writes
/// its word and interrupts.
#[test]
fn commands_are_checked_and_fences_tell() {
    let mut rig = Rig::new();
    rig.command(2 | AV | 0x55 << 32, (DATA + 8) >> 2);
    assert_eq!(rig.word(DATA + 8), 0x55);
    rig.command(2 | AV | 7 << 32, 0x2800_0000 >> 2);
    assert_eq!(*rig.posted.lock().unwrap(), [(0x2800_0000, 7)]);
    rig.command(2 | 1 << 11, 0);
    assert_eq!(rig.get(at::CQCSR) & 1 << 10, 1 << 10, "no wires");
    let head = rig.get(at::CQH);
    rig.command(2, 0);
    assert_eq!(rig.get(at::CQH), head);
    rig.set(at::FCTL, 2);
    rig.set(at::IPSR, 1);
    assert!(rig.wires[0].0.load(Relaxed), "the error is still there");
    rig.set(at::CQCSR, 3 | 1 << 10);
    // Now the fence is one, and interrupts.
    assert_eq!(rig.get(at::CQH), rig.get(at::CQT));
    assert_eq!(rig.get(at::CQCSR) >> 8 & 0xf, 8);
    rig.set(at::CQCSR, 3 | 1 << 11);
    rig.set(at::IPSR, 1);
    assert!(!rig.wires[0].0.load(Relaxed));
    for wrong in [
        0,
        5,
        4 | 2 << 7,
        VMA | 1 << 34,
        GVMA | PSCV,
        3 | 1 << 7,
        2 | 1 << 14,
    ] {
        rig.command(wrong, 0);
        assert_eq!(rig.get(at::CQCSR) & 1 << 10, 1 << 10, "{wrong:#x}");
        rig.set(at::CQT, rig.get(at::CQH) as u32);
        rig.set(at::CQCSR, 3 | 1 << 10);
    }
}

/// Promise: a full fault queue loses faults and says so; interrupts by message keep to their masks.
#[test]
fn full_queues_and_masked_messages() {
    let mut rig = Rig::new();
    rig.set64(at::ICVEC, 0x10);
    rig.set64(at::MSI_CFG_TBL + 16, 0x2800_0000);
    rig.set(at::MSI_CFG_TBL + 24, 9);
    rig.set(at::MSI_CFG_TBL + 28, 1);
    for _ in 0..5 {
        rig.go(0, Access::Read);
    }
    assert_eq!(rig.get(at::FQCSR) & 1 << 9, 1 << 9);
    assert_eq!(rig.get(at::FQT), 3);
    assert!(rig.posted.lock().unwrap().is_empty(), "masked");
    rig.set(at::MSI_CFG_TBL + 28, 0);
    assert_eq!(*rig.posted.lock().unwrap(), [(0x2800_0000, 9)]);
    rig.set(at::FQH, 3);
    rig.set(at::FQCSR, 3 | 1 << 9);
    rig.set(at::IPSR, 2);
    rig.go(0, Access::Read);
    assert_eq!(rig.posted.lock().unwrap().len(), 2);
}

/// Promise: what an access with supervisor privilege may read of a user's page is not executed
/// because it is remembered.
#[test]
fn a_known_page_of_a_user_is_not_executed_with_privilege() {
    const PDTV: u64 = 1 << 5;
    let mut rig = Rig::new();
    let pdt = RAM + 0x4_0000;
    let first = rig.first_stage(LEAF);
    rig.context(PDTV, 0, 1 << 60 | pdt >> 12);
    // V, ENS, SUM.
    rig.put(pdt + 7 * 16, &[7, first]);
    let mut go = |access| {
        let request = Request {
            device: DeviceId(DEVICE as u32),
            process: Some(7),
            privileged: true,
            address: 0x4000_1000,
            address_type: AddressType::Untranslated,
            access,
        };
        rig.iommu.translate(&request).is_ok()
    };
    assert!(!go(Access::Execute));
    assert!(go(Access::Read));
    assert!(!go(Access::Execute));
}

/// Promise: software can ask what a device's access would do.
#[test]
fn the_debug_interface_translates() {
    let mut rig = Rig::new();
    let second = rig.second_stage(READ_ONLY);
    rig.context(0, second, 0);
    rig.set64(at::TR_REQ_IOVA, 0x3000);
    rig.set64(at::TR_REQ_CTL, DEVICE << 40 | 1 << 3 | 1);
    assert_eq!(rig.get(at::TR_REQ_CTL) & 1, 0);
    let response = rig.iommu.read(at::TR_RESPONSE, 8);
    assert_eq!(response, (DATA + 0x3000) >> 2);
    rig.set64(at::TR_REQ_CTL, DEVICE << 40 | 1);
    assert_eq!(rig.iommu.read(at::TR_RESPONSE, 8) & 1, 1);
    assert_eq!(rig.fault().0, 23);
    // A file in memory is no place for what is not a message.
    rig.put(MSI, &[MRIF >> 2 | 3, 0]);
    rig.set64(at::TR_REQ_IOVA, 0x2800_0000);
    rig.set64(at::TR_REQ_CTL, DEVICE << 40 | 1);
    assert_eq!(rig.iommu.read(at::TR_RESPONSE, 8), 1);
    assert_eq!(rig.fault().0, 260);
    // The device's context may want none of its faults reported.
    rig.context(1 << 4, second, 0);
    rig.command(INVAL_DDT, 0);
    rig.set64(at::TR_REQ_CTL, DEVICE << 40 | 1);
    assert_eq!(rig.iommu.read(at::TR_RESPONSE, 8), 1);
    rig.put(MSI, &[3, 0]);
    rig.command(GVMA, 0);
    let device = DeviceId(DEVICE as u32);
    assert!(rig.iommu.message(device, 0x2800_0000, 7).is_err());
    rig.no_fault();
}

/// Promise: what is remembered is saved, too: a stale entry is stale after a checkpoint.
#[test]
fn a_saved_iommu_remembers() {
    let mut rig = Rig::new();
    let first = rig.first_stage(LEAF);
    rig.context(0, 0, first);
    rig.go(0x4000_1000, Access::Read).unwrap();
    rig.put(FIRST + 0x2000 + 8, &[0]);
    let mut to = StateWriter::default();
    rig.iommu.save(&mut to);
    let state = to.into_bytes();
    rig.iommu.state = State::default();
    let mut from = StateReader::new(&state);
    rig.iommu.restore(&mut from).unwrap();
    assert_eq!(rig.go(0x4000_1000, Access::Read), Some(DATA + 0x1000));
    for cut in 0..state.len() {
        let mut from = StateReader::new(&state[..cut]);
        assert!(rig.iommu.restore(&mut from).is_err());
    }
}

/// Promise: tables of any content end in a translation or a fault, and nothing is written outside
/// RAM.
#[test]
fn tables_of_any_content_end() {
    let mut rig = Rig::new();
    let mut seed = 1_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let end = rig.iommu.ram.last_addr().0;
    for round in 0..3000 {
        let tc = random() & 0x3a0;
        let schemes = [0, 8, 9, 10][random() as usize % 4];
        let other = [0, 8, 9, 10, 1][random() as usize % 5];
        let root = |bits: u64| (RAM >> 12) + ((bits % 0xf0) & !3);
        rig.context(
            tc,
            schemes << 60 | root(random()),
            other << 60 | root(random()),
        );
        for _ in 0..64 {
            let place = (RAM + random() % (end - RAM - 8)) & !7;
            let entry = pte(RAM + random() % 0x10_0000, random() & 0xff);
            rig.put(place, &[entry]);
        }
        rig.command(INVAL_DDT, 0);
        rig.command([VMA, GVMA][round & 1], 0);
        let access = [Access::Read, Access::Write, Access::Execute][round % 3];
        let process = [None, Some(random() as u32 & 0xff)][round / 3 % 2];
        rig.request(process, random() % (1 << 41), access);
        rig.request(process, random() % (1 << 16), access);
    }
}

#[test]
fn switched_on_a_queue_keeps_the_index_of_software() {
    let mut rig = Rig::new();
    rig.command(2, 0);
    rig.set(at::CQCSR, 0);
    rig.put(COMMANDS, &[2 | AV | 0x77 << 32, DATA >> 2]);
    rig.set(at::CQT, 1);
    rig.set(at::CQCSR, 3);
    assert_eq!((rig.get(at::CQH), rig.get(at::CQT)), (1, 1));
    assert_eq!(rig.word(DATA), 0x77, "what waits is carried out");
    rig.set(at::FQCSR, 0);
    rig.set(at::FQH, 3);
    rig.set(at::FQCSR, 3);
    assert_eq!((rig.get(at::FQH), rig.get(at::FQT)), (3, 0));
}

#[test]
fn own_words_that_nothing_takes_are_faults() {
    let mut rig = Rig::new();
    rig.set(at::CQCSR, 1);
    rig.command(2 | AV, NOWHERE >> 2);
    assert_eq!(rig.get(at::CQCSR) & 1 << 8, 1 << 8, "cqmf");
    assert_eq!(rig.get(at::CQH), 0, "the fence is not over");
    rig.set(at::ICVEC, 1);
    rig.set64(at::MSI_CFG_TBL, 0x2800_0000);
    rig.set64(at::MSI_CFG_TBL + 16, NOWHERE + 4);
    // The interrupt of the command queue, which is pending still.
    rig.set(at::CQCSR, 3);
    assert_eq!(rig.get(at::IPSR), 3);
    assert_eq!(rig.word(FAULTS), 273);
    assert_eq!(rig.word(FAULTS + 16), NOWHERE + 4);
    assert_eq!(
        *rig.posted.lock().unwrap(),
        [(NOWHERE, 0), (NOWHERE + 4, 0), (0x2800_0000, 0)]
    );
}

/// Register of a counter, and of its selector.
fn counter(number: u64) -> (u64, u64) {
    (
        at::IOHPMCTR + 8 * (number - 1),
        at::IOHPMEVT + 8 * (number - 1),
    )
}

/// `DV_GSCV`: the number that counts is of a device.
const DEVICE_ONLY: u64 = 1 << 61;
/// With `IDT`: of a guest.
const GUEST_ONLY: u64 = DEVICE_ONLY | 1 << 62;

#[test]
fn counters_count_what_their_selectors_name() {
    let mut rig = Rig::new();
    let guest = rig.second_stage(LEAF);
    rig.context(0, guest, 0);
    let (requests, misses, directory, second) = (1, 4, 5, 8);
    let selectors = [
        requests,
        requests | DEVICE_ONLY | (DEVICE + 1) << 36,
        // Devices 8 to 15.
        requests | DEVICE_ONLY | 1 << 15 | (DEVICE | 3) << 36,
        misses | GUEST_ONLY | GSCID << 36,
        misses | GUEST_ONLY | (GSCID + 1) << 36,
        directory,
        second,
        2,
    ];
    for (number, selector) in (1..).zip(selectors) {
        rig.set64(counter(number).1, selector);
    }
    for _ in 0..2 {
        rig.go(0x3008, Access::Read).unwrap();
    }
    let counted: Vec<u64> = (1..=8).map(|n| rig.get64(counter(n).0)).collect();
    assert_eq!(counted, [2, 0, 2, 1, 0, 1, 3, 0]);
    rig.set(at::IOCOUNTINH, 1 << 1);
    rig.go(0x3008, Access::Read).unwrap();
    assert_eq!((rig.get64(counter(1).0), rig.get64(counter(3).0)), (2, 3));
}

#[test]
fn counters_that_overflow_interrupt_once() {
    let mut rig = Rig::new();
    rig.set(at::FCTL, 2);
    // Wire 3.
    rig.set(at::ICVEC, 3 << 8);
    let (count, selector) = counter(8);
    rig.set64(selector, 1);
    rig.set64(count, u64::MAX);
    rig.set64(at::DDTP, 1);
    rig.go(0x3008, Access::Read).unwrap();
    assert_eq!((rig.get64(count), rig.get64(selector)), (0, 1 << 63 | 1));
    assert_eq!((rig.get(at::IOCOUNTOVF), rig.get(at::IPSR)), (1 << 8, 4));
    assert!(rig.wires[3].0.load(Relaxed));
    rig.set(at::IPSR, 4);
    rig.set64(count, u64::MAX);
    rig.go(0x3008, Access::Read).unwrap();
    assert_eq!(
        (rig.get64(count), rig.get(at::IPSR)),
        (0, 0),
        "OF is set still"
    );
    // Cycles.
    rig.time.0.store(1000, Relaxed);
    assert_eq!(rig.get64(at::IOHPMCYCLES), 1000);
    rig.set64(at::IOHPMCYCLES, (1 << 63) - 5);
    rig.time.0.store(1010, Relaxed);
    assert_eq!(
        (rig.get(at::IOCOUNTOVF), rig.get(at::IPSR)),
        (1 << 8 | 1, 0)
    );
    rig.go(0x3008, Access::Read).unwrap();
    assert_eq!(rig.get(at::IPSR), 4);
    rig.set(at::IOCOUNTINH, 1);
    rig.time.0.store(2000, Relaxed);
    assert_eq!(rig.get64(at::IOHPMCYCLES), 1 << 63 | 5);
}
