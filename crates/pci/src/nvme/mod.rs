//! A controller of NVM Express (Base Specification 1.4) with one namespace, which is a disk.
//!
//! ```text
//!   BAR 0   registers; from 0x1000 on doorbells, two words for each pair of queues
//!   BAR 4   MSI-X: a vector for each completion queue
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `registers` | what the owner sets |
//! | `queues` | rings of commands and completions |
//! | `command` | their entries |
//! | `prp` | where the data of a command is |
//! | `admin`, `identify`, `features` | admin commands |
//! | `io` | commands of the NVM command set |
//!
//! A command is executed when its doorbell is written, as far as the queue of its completion has
//! room. What a DMA fault hits is a command's data, of which its status tells, or a queue: then the
//! controller stops (CSTS.CFS) until it is reset.

mod admin;
mod command;
mod features;
mod identify;
mod io;
mod prp;
mod queues;
mod registers;

use trapless_devices::virtio::block::Disk;
use trapless_devices::{
    DeviceEvents, DeviceMemory, StateError, StateReader, StateWriter, fill_le, value_le,
};
use vm_memory::{Bytes, GuestAddress};

use crate::config::{Bar, BarKind, Identity};
use crate::function::{Function, Layout};
use crate::port::Port;
use admin::{Errors, Events, Mistake, Traffic};
use command::{Command, Completion, Done};
use features::Features;
use queues::{Completions, PAIRS, Queues, Submission};
use registers::{DOORBELLS, Register, Registers, cc, csts};

/// QEMU's controller, which is the same to software.
const VENDOR: u16 = 0x1b36;
const DEVICE: u16 = 0x0010;
const SUBSYSTEM_VENDOR: u16 = 0x1af4;
/// Mass storage, non-volatile memory, NVM Express for I/O.
const CLASS: u32 = 0x01_0802;
/// Name in messages.
const NAME: &str = "nvme";

const BAR: u8 = 0;
const LEN: u64 = 0x4000;
const MSIX_BAR: u8 = 4;
/// Most commands that are executed in one call.
const COMMANDS_PER_CALL: usize = 256;

/// See the [module](self).
pub struct Nvme {
    disk: Box<dyn Disk>,
    memory: DeviceMemory,
    events: Box<dyn DeviceEvents>,
    /// Which controller of the machine it is.
    number: u8,
    registers: Registers,
    queues: Queues,
    features: Features,
    told: Events,
    errors: Errors,
    traffic: Traffic,
    /// There was more to do than one call may.
    backlog: bool,
    /// Room for data on its way.
    chunk: Vec<u8>,
}

impl Nvme {
    /// A controller on `disk` with `number` in its serial number; it reaches only `memory`. Errors
    /// of the driver go to `events`.
    pub fn new(
        disk: Box<dyn Disk>,
        number: u8,
        memory: DeviceMemory,
        events: Box<dyn DeviceEvents>,
    ) -> Self {
        Self {
            disk,
            memory,
            events,
            number,
            registers: Registers::default(),
            queues: Queues::default(),
            features: Features::default(),
            told: Events::default(),
            errors: Errors::default(),
            traffic: Traffic::default(),
            backlog: false,
            chunk: Vec::new(),
        }
    }

    fn running(&self) -> bool {
        self.registers.csts & (csts::READY | csts::FATAL) == csts::READY
    }

    /// Stops until it is reset: a queue cannot be reached, or the owner wants something impossible.
    fn fail(&mut self, what: &'static str) {
        self.events.guest_error(NAME, what);
        self.registers.csts |= csts::FATAL;
    }

    fn write_register(&mut self, register: Register, value: u32) {
        let registers = &mut self.registers;
        let half = |address: &mut u64, high: bool| {
            *address = match high {
                true => *address & 0xffff_ffff | u64::from(value) << 32,
                false => *address & !0xffff_ffff | u64::from(value),
            };
        };
        match register {
            Register::MaskSet => registers.masked |= value,
            Register::MaskClear => registers.masked &= !value,
            Register::Configuration => self.configure(value),
            Register::AdminSizes => registers.aqa = value,
            Register::AdminSubmissions { high } => half(&mut registers.asq, high),
            Register::AdminCompletions { high } => half(&mut registers.acq, high),
        }
    }

    /// A write to CC (section 3.1.5): starts, resets or shuts down.
    fn configure(&mut self, value: u32) {
        let before = std::mem::replace(&mut self.registers.cc, value);
        match (before & cc::ENABLE != 0, value & cc::ENABLE != 0) {
            (false, true) => self.start(),
            (true, false) => self.stop(),
            _ => {}
        }
        if value & cc::SHUTDOWN != 0 && before & cc::SHUTDOWN == 0 {
            if self.disk.flush().is_err() {
                self.traffic.media_errors += 1;
            }
            self.registers.csts |= csts::SHUT_DOWN;
        }
    }

    fn start(&mut self) {
        match self.registers.admin_queues() {
            Some([submissions, completions]) => {
                self.queues.submissions[0] = Some(Submission {
                    ring: submissions,
                    completions: 0,
                });
                self.queues.completions[0] = Some(Completions::new(completions, true, 0));
                self.registers.csts |= csts::READY;
            }
            None => self.fail("enabled with queues, pages or commands that are not possible"),
        }
    }

    /// Controller reset (section 7.3.2): the places of the administrator's queues stay.
    fn stop(&mut self) {
        self.registers.csts = 0;
        self.registers.masked = 0;
        self.queues = Queues::default();
        self.features = Features::default();
        self.told = Events::default();
        self.backlog = false;
    }

    /// A doorbell (sections 3.1.24 and 3.1.25).
    fn ring(&mut self, doorbell: u64, value: u32) {
        if !self.running() {
            return self
                .events
                .guest_error(NAME, "doorbell of a stopped controller");
        }
        let number = (doorbell / 2) as usize;
        let ring = match doorbell % 2 {
            0 => self.queues.submission(number).map(|queue| &mut queue.ring),
            _ => self.queues.completion(number).map(|queue| &mut queue.ring),
        };
        let Some(ring) = ring else {
            return self.mistake(Mistake::NoQueue);
        };
        if value >= ring.entries {
            return self.mistake(Mistake::NoEntry);
        }
        if doorbell % 2 == 0 {
            ring.tail = value;
            return;
        }
        // Only entries that are there can have been taken.
        let taken = (value + ring.entries - ring.head) % ring.entries;
        let there = (ring.tail + ring.entries - ring.head) % ring.entries;
        match taken <= there {
            true => ring.head = value,
            false => self.mistake(Mistake::NoEntry),
        }
    }

    /// Executes what waits: one command of each queue in turn (section 4.13.1).
    fn work(&mut self, port: &mut Port) {
        self.backlog = false;
        let mut executed = 0;
        while self.running() && port.is_master() {
            let before = executed;
            for number in 0..PAIRS as u16 {
                executed += usize::from(self.serve(number, port));
            }
            if executed == before {
                self.tell_events();
                break;
            }
            if executed >= COMMANDS_PER_CALL {
                self.backlog = true;
                break;
            }
        }
        self.interrupt(port);
    }

    /// Executes the next command of a queue, if there is one and room for its completion.
    fn serve(&mut self, number: u16, port: &Port) -> bool {
        let Some(submission) = self.queues.submission(number.into()).copied() else {
            return false;
        };
        let completions = self.queues.completion(submission.completions.into());
        let room = completions.is_some_and(|queue| !queue.ring.is_full());
        if !self.running() || submission.ring.is_empty() || !room {
            return false;
        }
        let (ring, mut bytes) = (submission.ring, [0; command::LEN]);
        let at = entry(ring.base, ring.head, command::LEN);
        let read = at.map(|at| self.memory.read_slice(&mut bytes, GuestAddress(at)));
        if !matches!(read, Some(Ok(()))) {
            self.fail("submission queue that cannot be read");
            return false;
        }
        if let Some(submission) = self.queues.submission(number.into()) {
            submission.ring.head = ring.after(ring.head);
        }
        let command = Command(bytes);
        let result = match (command.is_special(), number) {
            (true, _) => Err(command::Failure::FIELD),
            (false, 0) => self.admin(&command, port),
            (false, _) => self.io(&command),
        };
        if let Err(failure) = result {
            self.errors = Errors {
                count: self.errors.count + 1,
                queue: number,
                command: command.id(),
                status: failure.field(),
                namespace: command.namespace(),
                sector: if number == 0 { 0 } else { command.long(10) },
            };
        }
        match result {
            Ok(Done::Now(result)) => self.complete(number, command.id(), Ok(result)),
            Ok(Done::Waiting) => {}
            Err(failure) => self.complete(number, command.id(), Err(failure)),
        }
        true
    }

    /// Puts a completion into a queue that has room.
    fn post(&mut self, number: usize, completion: &Completion) {
        let Some(queue) = self.queues.completion(number) else {
            return;
        };
        let (ring, phase) = (queue.ring, queue.phase);
        queue.ring.tail = ring.after(ring.tail);
        queue.phase ^= queue.ring.tail == 0;
        queue.fresh = true;
        let bytes = completion.bytes(phase);
        let at = entry(ring.base, ring.tail, bytes.len());
        let written = at.map(|at| self.memory.write_slice(&bytes, GuestAddress(at)));
        if !matches!(written, Some(Ok(()))) {
            self.fail("completion queue that cannot be written");
        }
    }

    /// Tells the owner of new completions: by messages once, by the wire as long as there are some
    /// (section 7.5.1).
    fn interrupt(&mut self, port: &mut Port) {
        let messages = port.uses_messages();
        let mut level = false;
        for queue in self.queues.completions.iter_mut().flatten() {
            let fresh = std::mem::take(&mut queue.fresh);
            if messages && fresh && queue.interrupts {
                port.signal(queue.vector);
            }
            level |= queue.interrupts && !queue.ring.is_empty();
        }
        // The wire is vector 0.
        port.set_intx(level && !messages && self.registers.masked & 1 == 0);
    }
}

/// Address of an entry of a ring of entries of `len` bytes, if all of it is in the address space.
fn entry(base: u64, index: u32, len: usize) -> Option<u64> {
    let at = base.checked_add(u64::from(index) * len as u64)?;
    at.checked_add(len as u64 - 1).map(|_| at)
}

impl Function for Nvme {
    fn layout(&self) -> Layout {
        Layout {
            identity: Identity {
                vendor: VENDOR,
                device: DEVICE,
                revision: 2,
                class: CLASS,
                subsystem_vendor: SUBSYSTEM_VENDOR,
                subsystem: 0x1100,
            },
            bars: vec![Bar {
                index: BAR,
                kind: BarKind::Memory64,
                size: LEN,
            }],
            vectors: PAIRS as u16,
            msix_bar: MSIX_BAR,
            msi_vectors: 0,
            ats: false,
            capabilities: Vec::new(),
            access: None,
        }
    }

    fn read(&mut self, bar: u8, offset: u64, data: &mut [u8], _port: &mut Port) {
        data.fill(0);
        if bar != BAR || offset >= DOORBELLS {
            return;
        }
        // Words and pairs of words, or a part of one.
        let word = offset & !3;
        let value = u64::from(self.registers.read(word + 4)) << 32;
        let value = value | u64::from(self.registers.read(word));
        fill_le(data, value >> (8 * (offset - word)));
    }

    fn write(&mut self, bar: u8, offset: u64, data: &[u8], port: &mut Port) {
        if bar != BAR || offset % 4 != 0 || !matches!(data.len(), 4 | 8) {
            return self
                .events
                .guest_error(NAME, "register write of another width");
        }
        for (at, word) in (offset..).step_by(4).zip(data.chunks_exact(4)) {
            let value = value_le(word) as u32;
            match at.checked_sub(DOORBELLS) {
                Some(doorbell) => self.ring(doorbell / 4, value),
                None => match Register::at(at) {
                    Some(register) => self.write_register(register, value),
                    None => self
                        .events
                        .guest_error(NAME, "write to a place with no register"),
                },
            }
        }
        self.work(port);
    }

    fn poll(&mut self, port: &mut Port) {
        self.work(port);
    }

    fn needs_poll(&self) -> bool {
        self.backlog
    }

    fn reset(&mut self) {
        self.stop();
        self.registers = Registers::default();
    }

    fn obstacle(&self) -> Option<&'static str> {
        self.disk.obstacle()
    }

    fn save(&self, to: &mut StateWriter) {
        self.registers.save(to);
        self.queues.save(to);
        self.features.save(to);
        admin::save(&self.told, &self.errors, &self.traffic, to);
        to.number(self.backlog);
        self.disk.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.registers = Registers::restore(from)?;
        self.queues = Queues::restore(from)?;
        self.features = Features::restore(from)?;
        (self.told, self.errors, self.traffic) = admin::restore(from)?;
        self.backlog = from.flag()?;
        self.disk.restore(from)
    }
}
