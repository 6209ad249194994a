//! The disk and the driver of these tests.

use std::io;
use std::sync::{Arc, Mutex};

use crate::rig::{RAM, Rig};
use trapless_devices::virtio::block::Disk;

use trapless_pci::Host;
use trapless_pci::nvme::Nvme;
use vm_memory::{Bytes, GuestAddress};

/// Where the tests put the BARs.
pub const BAR: u64 = 0x4_0000_0000;
pub const TABLE: u64 = 0x4000_0000;
pub const DOORBELLS: u64 = BAR + 0x1000;
/// Queue n has its commands and completions here, each in a page of its own.
pub const QUEUES: u64 = RAM;
pub const DATA: u64 = RAM + 0x1_0000;
pub const ENTRIES: u64 = 8;
pub const SECTORS: u64 = 64;
/// Status codes, with "do not retry".
pub const DNR: u16 = 1 << 14;

/// A disk in memory, which stays when its machine is built anew.
#[derive(Clone)]
pub struct Memory {
    pub bytes: Arc<Mutex<Vec<u8>>>,
    pub read_only: bool,
}

impl Memory {
    pub fn new() -> Self {
        let bytes = (0..SECTORS * 512).map(|at| (at / 512) as u8).collect();
        Self {
            bytes: Arc::new(Mutex::new(bytes)),
            read_only: false,
        }
    }
}

impl Disk for Memory {
    fn sectors(&self) -> u64 {
        SECTORS
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        // Sector 13 cannot be read.
        if (offset..offset + data.len() as u64).contains(&(13 * 512)) {
            return Err(io::ErrorKind::Other.into());
        }
        data.copy_from_slice(&self.bytes.lock().unwrap()[offset as usize..][..data.len()]);
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.bytes.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }

    fn write_zeroes(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.bytes.lock().unwrap()[offset as usize..][..len as usize].fill(0);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A completion.
#[derive(Debug, PartialEq, Eq)]
pub struct Done {
    pub result: u32,
    pub id: u16,
    pub status: u16,
}

/// Words 10 to 12, and PRP entries, of a command on namespace 1.
#[derive(Clone, Copy, Default)]
pub struct Words {
    pub opcode: u8,
    pub namespace: u32,
    pub prp: [u64; 2],
    pub w10: u32,
    pub w11: u32,
    pub w12: u32,
}

pub fn io(opcode: u8, sector: u32, sectors: u32, prp: [u64; 2]) -> Words {
    Words {
        opcode,
        namespace: 1,
        prp,
        w10: sector,
        w11: 0,
        w12: sectors - 1,
    }
}

pub struct Driver {
    pub rig: Rig,
    pub disk: Memory,
    /// Tails of submission queues, heads of completion queues, and phases there.
    pub tails: [u64; 20],
    pub heads: [u64; 20],
    pub phases: [u16; 20],
    pub next: u16,
}

pub fn plug(disk: &Memory) -> impl FnOnce(&mut Host) {
    let disk = disk.clone();
    move |host| host.plug(|at| Box::new(Nvme::new(Box::new(disk), 0, at.memory, Box::new(()))))
}

impl Driver {
    pub fn with(disk: Memory) -> Self {
        let mut rig = Rig::with(plug(&disk));
        rig.set_config(1, 0x10, 4, BAR & 0xffff_ffff);
        rig.set_config(1, 0x14, 4, BAR >> 32);
        rig.set_config(1, 0x20, 4, TABLE);
        rig.set_config(1, 4, 2, 6);
        Self {
            rig,
            disk,
            tails: [0; 20],
            heads: [0; 20],
            phases: [1; 20],
            next: 0,
        }
    }

    /// With the queues of the administrator, and one pair for I/O.
    pub fn new() -> Self {
        let mut driver = Self::with(Memory::new());
        driver.enable();
        driver.create(1);
        driver
    }

    pub fn enable(&mut self) {
        let last = ENTRIES - 1;
        self.rig.store(BAR + 0x24, 4, last << 16 | last);
        self.rig.store(BAR + 0x28, 8, QUEUES);
        self.rig.store(BAR + 0x30, 8, QUEUES + 0x1000);
        self.rig.store(BAR + 0x14, 4, 4 << 20 | 6 << 16 | 1);
        assert_eq!(self.rig.load(BAR + 0x1c, 4), 1, "ready");
    }

    /// Makes pair `queue`, with vector `queue`.
    pub fn create(&mut self, queue: u32) {
        let base = QUEUES + u64::from(queue) * 0x2000;
        let size = (ENTRIES as u32 - 1) << 16 | queue;
        let vector = if self.messages() { queue } else { 0 };
        for (opcode, base, w11) in [
            (5, base + 0x1000, vector << 16 | 3),
            (1, base, queue << 16 | 1),
        ] {
            let words = Words {
                opcode,
                prp: [base, 0],
                w10: size,
                w11,
                ..Words::default()
            };
            assert_eq!(self.command(0, words), 0);
        }
    }

    fn messages(&mut self) -> bool {
        let msix = self.rig.capability(1, 0x11, 0);
        self.rig.config(1, msix + 2, 2) & 0x8000 != 0
    }

    /// Vector n is message n.
    pub fn use_messages(&mut self) {
        for vector in 0..17 {
            let entry = TABLE + 16 * vector;
            self.rig.store(entry, 8, 0x2800_0000);
            self.rig.store(entry + 8, 4, vector);
            self.rig.store(entry + 12, 4, 0);
        }
        let msix = self.rig.capability(1, 0x11, 0);
        self.rig.set_config(1, msix + 2, 2, 0x8000);
    }

    /// Puts a command into a queue without ringing.
    fn put(&mut self, queue: usize, words: Words) -> u16 {
        self.next += 1;
        let mut bytes = [0; 64];
        bytes[0] = words.opcode;
        bytes[2..4].copy_from_slice(&self.next.to_le_bytes());
        bytes[4..8].copy_from_slice(&words.namespace.to_le_bytes());
        bytes[24..32].copy_from_slice(&words.prp[0].to_le_bytes());
        bytes[32..40].copy_from_slice(&words.prp[1].to_le_bytes());
        for (at, word) in [(40, words.w10), (44, words.w11), (48, words.w12)] {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let base = QUEUES + queue as u64 * 0x2000;
        let at = base + 64 * self.tails[queue];
        self.rig.ram.write_slice(&bytes, GuestAddress(at)).unwrap();
        self.tails[queue] = (self.tails[queue] + 1) % ENTRIES;
        self.next
    }

    fn ring(&mut self, queue: usize) {
        let tail = self.tails[queue];
        self.rig.store(DOORBELLS + 8 * queue as u64, 4, tail);
    }

    pub fn submit(&mut self, queue: usize, words: Words) -> u16 {
        let id = self.put(queue, words);
        self.ring(queue);
        id
    }

    /// Looks at the next completion, and leaves it.
    pub fn peek(&self, queue: usize) -> Option<Done> {
        let at = QUEUES + queue as u64 * 0x2000 + 0x1000 + 16 * self.heads[queue];
        let mut bytes = [0; 16];
        self.rig
            .ram
            .read_slice(&mut bytes, GuestAddress(at))
            .unwrap();
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        (half(14) & 1 == self.phases[queue]).then(|| Done {
            result: u32::from(half(0)) | u32::from(half(2)) << 16,
            id: half(12),
            status: half(14) >> 1,
        })
    }

    /// Takes the next completion.
    pub fn take(&mut self, queue: usize) -> Option<Done> {
        let done = self.peek(queue)?;
        self.heads[queue] = (self.heads[queue] + 1) % ENTRIES;
        self.phases[queue] ^= u16::from(self.heads[queue] == 0);
        let head = self.heads[queue];
        self.rig.store(DOORBELLS + 8 * queue as u64 + 4, 4, head);
        Some(done)
    }

    /// Executes a command, and returns its status.
    pub fn command(&mut self, queue: usize, words: Words) -> u16 {
        let id = self.submit(queue, words);
        let done = self.take(queue).expect("it is complete");
        assert_eq!(done.id, id);
        done.status
    }

    pub fn identify(&mut self, kind: u32, namespace: u32) -> Result<Vec<u8>, u16> {
        let words = Words {
            opcode: 6,
            namespace,
            prp: [DATA + 0x800, DATA + 0x2000],
            w10: kind,
            ..Words::default()
        };
        match self.command(0, words) {
            0 => Ok([self.data(0x800, 0x800), self.data(0x2000, 0x800)].concat()),
            status => Err(status),
        }
    }

    pub fn data(&self, at: u64, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.rig
            .ram
            .read_slice(&mut data, GuestAddress(DATA + at))
            .unwrap();
        data
    }

    pub fn fatal(&mut self) -> bool {
        self.rig.load(BAR + 0x1c, 4) & 2 != 0
    }
}
