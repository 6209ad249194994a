//! Admin commands (NVM Express Base 1.4, section 5).

use trapless_devices::virtio::block::SECTOR;
use trapless_devices::{StateError, StateReader, StateWriter};

use super::command::{Command, Completion, DONE, Done, Failure};
use super::identify::{self, MAX_WAITING, NAMESPACE};
use super::prp::PAGE;
use super::queues::{Completions, MAX_ENTRIES, PAIRS, Ring, Submission};
use super::registers::cc;
use super::{Nvme, SUBSYSTEM_VENDOR, VENDOR};
use crate::port::Port;

/// Operation codes.
mod opcode {
    pub const DELETE_SUBMISSIONS: u8 = 0x00;
    pub const CREATE_SUBMISSIONS: u8 = 0x01;
    pub const GET_LOG_PAGE: u8 = 0x02;
    pub const DELETE_COMPLETIONS: u8 = 0x04;
    pub const CREATE_COMPLETIONS: u8 = 0x05;
    pub const IDENTIFY: u8 = 0x06;
    pub const ABORT: u8 = 0x08;
    pub const SET_FEATURES: u8 = 0x09;
    pub const GET_FEATURES: u8 = 0x0a;
    pub const EVENT_REQUEST: u8 = 0x0c;
}

/// Namespace ID for all namespaces.
pub(super) const ALL_NAMESPACES: u32 = u32::MAX;

/// What the controller says of itself by events (section 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mistake {
    /// A doorbell of no queue was written.
    NoQueue,
    /// A doorbell got a value that its queue cannot have.
    NoEntry,
}

/// Requests for events, and an event that waits for one.
#[derive(Clone, Default)]
pub(super) struct Events {
    /// Commands that wait, oldest first.
    pub waiting: Vec<u16>,
    pub mistake: Option<Mistake>,
    /// One was told; no further ones until the log page is read.
    pub told: bool,
}

/// What failed last, for the error log.
#[derive(Clone, Copy, Default)]
pub(super) struct Errors {
    /// How many commands failed.
    pub count: u64,
    pub queue: u16,
    pub command: u16,
    pub status: u16,
    pub namespace: u32,
    pub sector: u64,
}

/// What SMART tells.
#[derive(Clone, Copy, Default)]
pub(super) struct Traffic {
    pub sectors_read: u64,
    pub sectors_written: u64,
    pub reads: u64,
    pub writes: u64,
    pub media_errors: u64,
}

impl Nvme {
    pub(super) fn admin(&mut self, command: &Command, port: &Port) -> Result<Done, Failure> {
        match command.opcode() {
            opcode::DELETE_SUBMISSIONS => self.delete_submissions(command),
            opcode::CREATE_SUBMISSIONS => self.create_submissions(command),
            opcode::GET_LOG_PAGE => self.log_page(command),
            opcode::DELETE_COMPLETIONS => self.delete_completions(command),
            opcode::CREATE_COMPLETIONS => self.create_completions(command, port),
            opcode::IDENTIFY => self.identify(command),
            opcode::ABORT => Ok(self.abort(command)),
            opcode::SET_FEATURES => {
                let io = self.queues.any_io();
                self.features.set(command, io).map(Done::Now)
            }
            opcode::GET_FEATURES => self.features.get(command).map(Done::Now),
            opcode::EVENT_REQUEST if self.told.waiting.len() == MAX_WAITING => {
                Err(Failure::EVENT_LIMIT)
            }
            opcode::EVENT_REQUEST => {
                self.told.waiting.push(command.id());
                Ok(Done::Waiting)
            }
            _ => Err(Failure::OPCODE),
        }
    }

    /// Whether a queue for I/O may have this number.
    fn is_io_queue(number: u16) -> bool {
        (1..PAIRS).contains(&usize::from(number))
    }

    /// The ring that a command which creates a queue describes.
    fn new_ring(&self, command: &Command) -> Result<Ring, Failure> {
        let entries = (command.word(10) >> 16) + 1;
        let [base, _] = command.prp();
        let sizes = self.registers.cc & cc::ENTRY_SIZES == cc::RIGHT_SIZES;
        if !sizes || !(2..=MAX_ENTRIES).contains(&entries) {
            return Err(Failure::QUEUE_SIZE);
        }
        // Contiguous queues are all there are.
        if command.word(11) & 1 == 0 {
            return Err(Failure::FIELD);
        }
        match base % PAGE {
            0 => Ok(Ring::new(base, entries)),
            _ => Err(Failure::PRP_OFFSET),
        }
    }

    fn create_submissions(&mut self, command: &Command) -> Result<Done, Failure> {
        let (number, completions) = (command.word(10) as u16, (command.word(11) >> 16) as u16);
        let index = usize::from(number);
        if !Self::is_io_queue(number) || self.queues.submissions[index].is_some() {
            return Err(Failure::QUEUE_ID);
        }
        if !Self::is_io_queue(completions) {
            return Err(Failure::QUEUE_ID);
        }
        if self.queues.completion(completions.into()).is_none() {
            return Err(Failure::COMPLETION_QUEUE);
        }
        let ring = self.new_ring(command)?;
        self.queues.submissions[index] = Some(Submission { ring, completions });
        Ok(DONE)
    }

    fn create_completions(&mut self, command: &Command, port: &Port) -> Result<Done, Failure> {
        let (number, vector) = (command.word(10) as u16, (command.word(11) >> 16) as u16);
        let index = usize::from(number);
        if !Self::is_io_queue(number) || self.queues.completions[index].is_some() {
            return Err(Failure::QUEUE_ID);
        }
        let interrupts = command.word(11) & 2 != 0;
        let vectors = if port.uses_messages() { PAIRS } else { 1 };
        if interrupts && usize::from(vector) >= vectors {
            return Err(Failure::VECTOR);
        }
        let ring = self.new_ring(command)?;
        self.queues.completions[index] = Some(Completions::new(ring, interrupts, vector));
        Ok(DONE)
    }

    fn delete_submissions(&mut self, command: &Command) -> Result<Done, Failure> {
        let number = command.word(10) as u16;
        if !Self::is_io_queue(number) || self.queues.submission(number.into()).is_none() {
            return Err(Failure::QUEUE_ID);
        }
        self.queues.submissions[usize::from(number)] = None;
        Ok(DONE)
    }

    fn delete_completions(&mut self, command: &Command) -> Result<Done, Failure> {
        let number = command.word(10) as u16;
        if !Self::is_io_queue(number) || self.queues.completion(number.into()).is_none() {
            return Err(Failure::QUEUE_ID);
        }
        if self.queues.is_used(number) {
            return Err(Failure::QUEUE_DELETION);
        }
        self.queues.completions[usize::from(number)] = None;
        Ok(DONE)
    }

    fn identify(&mut self, command: &Command) -> Result<Done, Failure> {
        let namespace = command.namespace();
        let ours = match namespace {
            NAMESPACE => Ok(()),
            _ => Err(Failure::NAMESPACE),
        };
        // Command set 0 is NVM, the only one.
        let set = command.word(11) >> 24;
        let data = match command.word(10) as u8 {
            0 => ours.map(|()| identify::namespace(&*self.disk, self.number))?,
            1 => identify::controller(self.number, VENDOR, SUBSYSTEM_VENDOR),
            2 if namespace >= ALL_NAMESPACES - 1 => return Err(Failure::NAMESPACE),
            2 => identify::namespaces(namespace),
            3 => ours.map(|()| identify::descriptors(self.number))?,
            5 if set == 0 => ours.map(|()| vec![0; identify::LEN])?,
            6 if set == 0 => identify::command_set(),
            _ => return Err(Failure::FIELD),
        };
        self.give(command, &data)?;
        Ok(DONE)
    }

    /// All commands but requests for events are complete when another one is looked at, so these
    /// are all that can be aborted.
    fn abort(&mut self, command: &Command) -> Done {
        const NOT_ABORTED: Done = Done::Now(1);
        let (queue, id) = (command.word(10) as u16, (command.word(10) >> 16) as u16);
        let waiting = &mut self.told.waiting;
        let Some(index) = waiting.iter().position(|waiting| *waiting == id) else {
            return NOT_ABORTED;
        };
        // Its completion needs an entry, as that of the abort does.
        let room = self.queues.completion(0).is_some_and(|queue| {
            let mut ring = queue.ring;
            ring.tail = ring.after(ring.tail);
            !queue.ring.is_full() && !ring.is_full()
        });
        if queue != 0 || !room {
            return NOT_ABORTED;
        }
        waiting.remove(index);
        self.complete(0, id, Err(Failure::ABORTED));
        DONE
    }

    fn log_page(&mut self, command: &Command) -> Result<Done, Failure> {
        let (kind, keeps) = (command.word(10) as u8, command.word(10) >> 15 & 1 != 0);
        let dwords = u64::from(command.word(11) & 0xffff) << 16 | u64::from(command.word(10) >> 16);
        let len = (dwords + 1) * 4;
        let offset = command.long(12);
        let page = match kind {
            1 => self.error_log(),
            2 => self.health_log(),
            3 => firmware_log(),
            _ => return Err(Failure::LOG_PAGE),
        };
        if !matches!(command.namespace(), 0 | NAMESPACE | ALL_NAMESPACES) {
            return Err(Failure::NAMESPACE);
        }
        let rest = usize::try_from(offset).ok().and_then(|at| page.get(at..));
        let rest = rest.filter(|_| offset % 4 == 0).ok_or(Failure::FIELD)?;
        let len = usize::try_from(len)
            .ok()
            .filter(|len| *len <= identify::MAX_TRANSFER);
        let mut data = rest.to_vec();
        data.resize(len.ok_or(Failure::FIELD)?, 0);
        self.give(command, &data)?;
        if kind == 1 && !keeps {
            self.told.told = false;
        }
        Ok(DONE)
    }

    /// Section 5.14.1.1: one entry.
    fn error_log(&self) -> Vec<u8> {
        let mut entry = vec![0; 64];
        let errors = &self.errors;
        if errors.count != 0 {
            entry[..8].copy_from_slice(&errors.count.to_le_bytes());
            entry[8..10].copy_from_slice(&errors.queue.to_le_bytes());
            entry[10..12].copy_from_slice(&errors.command.to_le_bytes());
            entry[12..14].copy_from_slice(&(errors.status << 1).to_le_bytes());
            // Which parameter was wrong is not told.
            entry[14..16].fill(0xff);
            entry[16..24].copy_from_slice(&errors.sector.to_le_bytes());
            entry[24..28].copy_from_slice(&errors.namespace.to_le_bytes());
        }
        entry
    }

    /// Section 5.14.1.2.
    fn health_log(&self) -> Vec<u8> {
        let mut page = vec![0; 512];
        page[1..3].copy_from_slice(&identify::TEMPERATURE.to_le_bytes());
        // Spare blocks in percent, and when there are too few.
        page[3..5].copy_from_slice(&[100, 10]);
        // Data is in thousands of units of 512 bytes.
        let thousands = |sectors: u64| (sectors * (SECTOR / 512)).div_ceil(1000);
        for (at, value) in [
            (32, thousands(self.traffic.sectors_read)),
            (48, thousands(self.traffic.sectors_written)),
            (64, self.traffic.reads),
            (80, self.traffic.writes),
            (112, 1),
            (160, self.traffic.media_errors),
            (176, self.errors.count),
        ] {
            page[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        page
    }

    /// A mistake at the doorbells, of which an event tells.
    pub(super) fn mistake(&mut self, mistake: Mistake) {
        self.events.guest_error(
            super::NAME,
            match mistake {
                Mistake::NoQueue => "doorbell of no queue",
                Mistake::NoEntry => "doorbell with a value beyond the queue",
            },
        );
        if !self.told.told {
            self.told.mistake.get_or_insert(mistake);
        }
    }

    /// Tells what there is to be told, if somebody asked.
    pub(super) fn tell_events(&mut self) {
        let room = self.queues.completion(0).is_some_and(|q| !q.ring.is_full());
        if !room || self.told.waiting.is_empty() {
            return;
        }
        if let Some(mistake) = self.told.mistake.take() {
            let id = self.told.waiting.remove(0);
            let information = match mistake {
                Mistake::NoQueue => 0,
                Mistake::NoEntry => 1,
            };
            self.told.told = true;
            // An error, which log page 1 has more of.
            let result = information << 8 | 1 << 16;
            self.complete(0, id, Ok(result));
        }
    }

    /// Puts the completion of a command into the queue of its submission queue, which has room.
    pub(super) fn complete(&mut self, queue: u16, id: u16, result: Result<u32, Failure>) {
        let Some(submission) = self.queues.submission(queue.into()) else {
            return;
        };
        let completion = Completion {
            result: result.unwrap_or(0),
            queue,
            head: submission.ring.head as u16,
            command: id,
            status: result.err().map_or(0, Failure::field),
        };
        let number = submission.completions;
        self.post(number.into(), &completion);
    }
}

/// Section 5.14.1.3: one slot, which is active.
fn firmware_log() -> Vec<u8> {
    let mut page = vec![0; 512];
    page[0] = 1;
    page[8..16].copy_from_slice(identify::FIRMWARE);
    page
}

/// Appends what is told.
pub(super) fn save(events: &Events, errors: &Errors, traffic: &Traffic, to: &mut StateWriter) {
    to.number(events.waiting.len() as u64);
    events.waiting.iter().for_each(|id| to.number(*id));
    to.number(match events.mistake {
        None => 0_u8,
        Some(Mistake::NoQueue) => 1,
        Some(Mistake::NoEntry) => 2,
    });
    to.number(events.told);
    for number in [errors.queue, errors.command, errors.status] {
        to.number(number);
    }
    to.number(errors.namespace);
    for number in [
        errors.count,
        errors.sector,
        traffic.sectors_read,
        traffic.sectors_written,
        traffic.reads,
        traffic.writes,
        traffic.media_errors,
    ] {
        to.number(number);
    }
}

/// Takes over what [`save`] wrote.
pub(super) fn restore(from: &mut StateReader<'_>) -> Result<(Events, Errors, Traffic), StateError> {
    let count: usize = from.number()?;
    if count > MAX_WAITING {
        return Err(StateError("holds more than such a device can"));
    }
    let waiting = (0..count)
        .map(|_| from.number())
        .collect::<Result<_, _>>()?;
    let mistake = match from.number::<u8>()? {
        0 => None,
        1 => Some(Mistake::NoQueue),
        2 => Some(Mistake::NoEntry),
        _ => return Err(StateError("has a number out of range")),
    };
    let events = Events {
        waiting,
        mistake,
        told: from.flag()?,
    };
    let [queue, command, status] = [from.number()?, from.number()?, from.number()?];
    let errors = Errors {
        queue,
        command,
        status,
        namespace: from.number()?,
        count: from.number()?,
        sector: from.number()?,
    };
    let traffic = Traffic {
        sectors_read: from.number()?,
        sectors_written: from.number()?,
        reads: from.number()?,
        writes: from.number()?,
        media_errors: from.number()?,
    };
    Ok((events, errors, traffic))
}
