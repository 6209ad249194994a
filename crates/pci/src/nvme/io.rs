//! Commands of the NVM command set, and the data of all commands (NVM Express Base 1.4, section 6).

use trapless_devices::virtio::block::SECTOR;
use vm_memory::{Bytes, GuestAddress};

use super::Nvme;
use super::admin::ALL_NAMESPACES;
use super::command::{Command, DONE, Done, Failure};
use super::identify::{MAX_DEALLOCATED, MAX_TRANSFER, NAMESPACE};
use super::prp::{self, Piece};

/// Operation codes.
mod opcode {
    pub const FLUSH: u8 = 0x00;
    pub const WRITE: u8 = 0x01;
    pub const READ: u8 = 0x02;
    pub const WRITE_ZEROES: u8 = 0x08;
    pub const DATASET_MANAGEMENT: u8 = 0x09;
}

/// Bytes that are moved at a time.
const CHUNK: usize = 64 << 10;
/// Bytes of a range of Dataset Management.
const RANGE: usize = 16;

impl Nvme {
    pub(super) fn io(&mut self, command: &Command) -> Result<Done, Failure> {
        let (opcode, namespace) = (command.opcode(), command.namespace());
        let all = opcode == opcode::FLUSH && namespace == ALL_NAMESPACES;
        if namespace != NAMESPACE && !all {
            return Err(Failure::NAMESPACE);
        }
        match opcode {
            opcode::FLUSH => self.flush(),
            opcode::READ => self.read_sectors(command),
            opcode::WRITE => self.write_sectors(command),
            opcode::WRITE_ZEROES => self.write_zeroes(command),
            opcode::DATASET_MANAGEMENT => self.deallocate(command),
            _ => Err(Failure::OPCODE),
        }
    }

    fn flush(&mut self) -> Result<Done, Failure> {
        let flushed = self.disk.flush();
        self.media(flushed, Failure::WRITE_FAULT)?;
        Ok(DONE)
    }

    /// Offset and length in bytes of the sectors that a command names.
    fn range(&self, command: &Command) -> Result<(u64, usize), Failure> {
        let (first, count) = (command.long(10), u64::from(command.word(12) & 0xffff) + 1);
        let end = first.checked_add(count).ok_or(Failure::LBA_RANGE)?;
        if end > self.disk.sectors() {
            return Err(Failure::LBA_RANGE);
        }
        let len = (count * SECTOR) as usize;
        if len > MAX_TRANSFER {
            return Err(Failure::FIELD);
        }
        Ok((first * SECTOR, len))
    }

    fn check_writable(&self) -> Result<(), Failure> {
        match self.disk.read_only() {
            true => Err(Failure::WRITE_PROTECTED),
            false => Ok(()),
        }
    }

    /// What the disk says; a failure is counted.
    fn media(&mut self, result: std::io::Result<()>, failure: Failure) -> Result<(), Failure> {
        result.map_err(|_| {
            self.traffic.media_errors += 1;
            failure
        })
    }

    fn read_sectors(&mut self, command: &Command) -> Result<Done, Failure> {
        let (mut at, len) = self.range(command)?;
        let pieces = prp::pieces(&self.memory, command.prp(), len)?;
        let mut chunk = std::mem::take(&mut self.chunk);
        for group in groups(&pieces) {
            let len = group.iter().map(|piece| piece.len).sum();
            chunk.resize(len, 0);
            let read = self.disk.read(at, &mut chunk);
            self.media(read, Failure::READ_ERROR)?;
            self.scatter(group, &chunk)?;
            at += len as u64;
        }
        self.chunk = chunk;
        self.traffic.reads += 1;
        self.traffic.sectors_read += len as u64 / SECTOR;
        Ok(DONE)
    }

    fn write_sectors(&mut self, command: &Command) -> Result<Done, Failure> {
        const FORCE_UNIT_ACCESS: u32 = 1 << 30;
        let (mut at, len) = self.range(command)?;
        self.check_writable()?;
        let pieces = prp::pieces(&self.memory, command.prp(), len)?;
        let mut chunk = std::mem::take(&mut self.chunk);
        for group in groups(&pieces) {
            let len = group.iter().map(|piece| piece.len).sum();
            chunk.resize(len, 0);
            self.gather(group, &mut chunk)?;
            let written = self.disk.write(at, &chunk);
            self.media(written, Failure::WRITE_FAULT)?;
            at += len as u64;
        }
        self.chunk = chunk;
        self.traffic.writes += 1;
        self.traffic.sectors_written += len as u64 / SECTOR;
        match command.word(12) & FORCE_UNIT_ACCESS {
            0 => Ok(DONE),
            _ => self.flush(),
        }
    }

    fn write_zeroes(&mut self, command: &Command) -> Result<Done, Failure> {
        let (at, len) = self.range(command)?;
        self.check_writable()?;
        let written = self.disk.write_zeroes(at, len as u64);
        self.media(written, Failure::WRITE_FAULT)?;
        Ok(DONE)
    }

    /// Dataset Management: ranges, which become zeroes if they may be deallocated. All else that it
    /// says is advice.
    fn deallocate(&mut self, command: &Command) -> Result<Done, Failure> {
        const DEALLOCATE: u32 = 1 << 2;
        let count = (command.word(10) as usize & 0xff) + 1;
        let mut bytes = vec![0; count * RANGE];
        let pieces = prp::pieces(&self.memory, command.prp(), bytes.len())?;
        self.gather(&pieces, &mut bytes)?;
        if command.word(11) & DEALLOCATE == 0 {
            return Ok(DONE);
        }
        self.check_writable()?;
        let mut left = MAX_DEALLOCATED;
        for range in bytes.chunks_exact(RANGE) {
            let value = trapless_devices::value_le;
            let (sectors, first) = (value(&range[4..8]), value(&range[8..16]));
            let end = first.checked_add(sectors).ok_or(Failure::LBA_RANGE)?;
            if end > self.disk.sectors() {
                return Err(Failure::LBA_RANGE);
            }
            if sectors == 0 || sectors > left {
                continue;
            }
            left -= sectors;
            let cleared = self.disk.write_zeroes(first * SECTOR, sectors * SECTOR);
            self.media(cleared, Failure::WRITE_FAULT)?;
        }
        Ok(DONE)
    }

    /// Writes `data` to where a command wants it.
    pub(super) fn give(&mut self, command: &Command, data: &[u8]) -> Result<(), Failure> {
        let pieces = prp::pieces(&self.memory, command.prp(), data.len())?;
        self.scatter(&pieces, data)
    }

    fn scatter(&self, pieces: &[Piece], data: &[u8]) -> Result<(), Failure> {
        let mut rest = data;
        for piece in pieces {
            let (part, tail) = rest.split_at(piece.len);
            let written = self.memory.write_slice(part, GuestAddress(piece.address));
            written.map_err(|_| Failure::DATA_TRANSFER)?;
            rest = tail;
        }
        Ok(())
    }

    fn gather(&self, pieces: &[Piece], data: &mut [u8]) -> Result<(), Failure> {
        let mut rest = data;
        for piece in pieces {
            let (part, tail) = rest.split_at_mut(piece.len);
            let read = self.memory.read_slice(part, GuestAddress(piece.address));
            read.map_err(|_| Failure::DATA_TRANSFER)?;
            rest = tail;
        }
        Ok(())
    }
}

/// Pieces that are moved at a time. None is longer than a page.
fn groups(pieces: &[Piece]) -> impl Iterator<Item = &[Piece]> {
    pieces.chunks(CHUNK / prp::PAGE as usize)
}
