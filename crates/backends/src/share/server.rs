//! Handling of requests.

use std::ffi::OsStr;
use std::fs::File;

use rustix::fs::{AtFlags, FileType, OFlags, RenameFlags, Timespec, Timestamps, fstat};
use rustix::fs::{UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use trapless_devices::Clock;
use trapless_devices::virtio::fs::FileServer;

use super::attributes::{self, Time};
use super::files::{Open, OpenFiles, errno};
use super::place::{self, Place};
use super::tree::Tree;
use super::wire::{Answer, Fields, Header, OUT_HEADER, Put, op};

/// Version of the protocol.
const MAJOR: u32 = 7;
const MINOR: u32 = 31;
/// FUSE_BIG_WRITES, FUSE_AUTO_INVAL_DATA, FUSE_PARALLEL_DIROPS, FUSE_MAX_PAGES.
const FEATURES: u32 = 1 << 5 | 1 << 12 | 1 << 18 | 1 << 22;
/// Maximum number of bytes of one read or write, and their number of pages.
const MAX_DATA: u32 = 512 << 10;
const MAX_PAGES: u16 = (MAX_DATA >> 12) as u16;

/// A server of one folder.
pub struct Server {
    pub(super) tree: Tree,
    read_only: bool,
    open: OpenFiles,
}

impl FileServer for Server {
    fn answer(&mut self, request: &[u8], room: usize, answer: &mut Vec<u8>) {
        let Some((header, fields)) = Header::parse(request) else {
            // The request has no number, so there is no reply.
            return;
        };
        let body = match header.opcode {
            op::FORGET | op::BATCH_FORGET | op::INTERRUPT => {
                // These have no reply, so errors are ignored.
                let _ = self.forget(&header, fields);
                return;
            }
            _ => self.serve(&header, fields, room.saturating_sub(OUT_HEADER)),
        };
        let fits = |body: &Vec<u8>| OUT_HEADER + body.len() <= room;
        let body = body.and_then(|body| fits(&body).then_some(body).ok_or(Errno::INVAL));
        let error = body.as_ref().err().map_or(0, |errno| -errno.raw_os_error());
        let body = body.unwrap_or_default();
        answer.u32((OUT_HEADER + body.len()) as u32);
        answer.u32(error as u32);
        answer.u64(header.unique);
        answer.extend(body);
    }

    fn reset(&mut self) {
        self.open.clear();
        self.tree.reset();
    }
}

impl Server {
    /// A server of `root`; `clock` counts nanoseconds from 1970.
    pub fn new(root: File, read_only: bool, clock: Box<dyn Clock>) -> Self {
        Self {
            tree: Tree::new(root, clock),
            read_only,
            open: OpenFiles::default(),
        }
    }

    fn serve(&mut self, header: &Header, fields: Fields<'_>, room: usize) -> Answer {
        let node = header.node;
        match header.opcode {
            op::INIT => self.begin(fields),
            op::LOOKUP => self.look_up(node, fields),
            op::GETATTR => self.attributes(node, fields),
            op::READLINK => self.tree.stat(node)?.0.read_link(),
            op::OPEN => self.open_file(node, fields),
            op::READ => self.open.read(fields, room),
            op::OPENDIR => self.open.open_folder(&mut self.tree, node),
            op::READDIR => self.open.list(&mut self.tree, node, fields, room),
            op::RELEASE | op::RELEASEDIR => self.open.close(fields),
            op::STATFS => {
                let mut answer = Vec::new();
                attributes::put_file_system(&mut answer);
                Ok(answer)
            }
            op::FSYNC => self.open.sync(fields),
            op::FSYNCDIR => self.sync_folder(node),
            op::SYNCFS => self.tree.sync().map(|()| Vec::new()),
            op::FLUSH => Ok(Vec::new()),
            op::DESTROY => {
                self.reset();
                Ok(Vec::new())
            }
            op::SETATTR
            | op::SYMLINK
            | op::MKNOD
            | op::MKDIR
            | op::UNLINK
            | op::RMDIR
            | op::RENAME
            | op::RENAME2
            | op::LINK
            | op::WRITE
            | op::CREATE => {
                if self.read_only {
                    return Err(Errno::ROFS);
                }
                self.change(header.opcode, node, fields)
            }
            _ => Err(Errno::NOSYS),
        }
    }

    fn change(&mut self, opcode: u32, node: u64, mut fields: Fields<'_>) -> Answer {
        match opcode {
            op::SETATTR => self.set_attributes(node, fields),
            op::WRITE => self.open.write(&mut self.tree, fields),
            op::CREATE => self.create(node, fields),
            op::MKNOD => {
                let mode = fields.u32()?;
                fields.skip(12)?;
                if !FileType::from_raw_mode(mode).is_file() {
                    return Err(Errno::PERM);
                }
                self.make(node, fields, |place, _| {
                    place.create(OFlags::WRONLY, mode).map(drop)
                })
            }
            op::MKDIR => {
                let mode = fields.u32()?;
                fields.skip(4)?;
                self.make(node, fields, |place, _| place.make_folder(mode))
            }
            op::SYMLINK => self.make(node, fields, |place, fields| {
                place.make_link(fields.text()?)
            }),
            op::LINK => {
                let (old, name) = (fields.u64()?, place::name(fields.text()?)?);
                let alone = self.tree.alone()?;
                let old = self.tree.stat(old)?.0;
                let place = self.tree.child(node, name)?;
                old.check_inside(self.tree.depth(node))?;
                place.link_to(&old)?;
                drop(alone);
                self.made(node, name, &place)
            }
            op::UNLINK => self.remove(node, fields, AtFlags::empty()),
            op::RMDIR => self.remove(node, fields, AtFlags::REMOVEDIR),
            op::RENAME => {
                let to = fields.u64()?;
                self.rename(node, to, RenameFlags::empty(), fields)
            }
            _ => {
                let (to, flags) = (fields.u64()?, fields.u32()?);
                fields.skip(4)?;
                let known = RenameFlags::NOREPLACE | RenameFlags::EXCHANGE;
                let flags = RenameFlags::from_bits(flags).ok_or(Errno::INVAL)?;
                if !known.contains(flags) {
                    return Err(Errno::INVAL);
                }
                self.rename(node, to, flags, fields)
            }
        }
    }

    fn begin(&mut self, mut fields: Fields<'_>) -> Answer {
        let (major, _minor) = (fields.u32()?, fields.u32()?);
        let (readahead, flags) = match major {
            0..MAJOR => return Err(Errno::PROTO),
            MAJOR => (fields.u32()?, fields.u32()?),
            // The guest repeats the request with our version.
            _ => (0, 0),
        };
        self.reset();
        let mut answer = Vec::new();
        answer.u32(MAJOR);
        answer.u32(MINOR);
        answer.u32(readahead);
        answer.u32(flags & FEATURES);
        // Limits of background requests: the guest's defaults.
        answer.zeroes(4);
        answer.u32(MAX_DATA);
        // Unit of times in nanoseconds.
        answer.u32(1);
        answer.u16(MAX_PAGES);
        answer.zeroes(2 + 4 + 4 + 6 * 4);
        Ok(answer)
    }

    fn forget(&mut self, header: &Header, mut fields: Fields<'_>) -> Result<(), Errno> {
        match header.opcode {
            op::FORGET => self.tree.forget(header.node, fields.u64()?),
            op::BATCH_FORGET => {
                let count = fields.u32()?;
                fields.skip(4)?;
                for _ in 0..count {
                    let (node, lookups) = (fields.u64()?, fields.u64()?);
                    self.tree.forget(node, lookups);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The reply for `place`, which is the entry `name` of `parent`.
    fn entry(&mut self, parent: u64, name: &OsStr, place: &Place) -> Answer {
        let stat = place.stat()?;
        let mut answer = Vec::new();
        self.tree.enter(parent, name, &stat)?.put_entry(&mut answer);
        Ok(answer)
    }

    fn look_up(&mut self, parent: u64, mut fields: Fields<'_>) -> Answer {
        let name = place::name(fields.text()?)?;
        let place = self.tree.child(parent, name)?;
        self.entry(parent, name, &place)
    }

    fn attributes(&mut self, node: u64, mut fields: Fields<'_>) -> Answer {
        let flags = fields.u32()?;
        fields.skip(4)?;
        let handle = fields.u64()?;
        const BY_HANDLE: u32 = 1;
        let stat = match self.open.of_node(handle, node) {
            Some(file) if flags & BY_HANDLE != 0 => fstat(file)?,
            _ => self.tree.stat(node)?.1,
        };
        let mut answer = Vec::new();
        self.tree.attributes(node, &stat).put_answer(&mut answer);
        Ok(answer)
    }

    fn set_attributes(&mut self, node: u64, mut fields: Fields<'_>) -> Answer {
        const MODE: u32 = 1 << 0;
        const SIZE: u32 = 1 << 3;
        const ATIME: u32 = 1 << 4;
        const MTIME: u32 = 1 << 5;
        const HANDLE: u32 = 1 << 6;
        const MTIME_NOW: u32 = 1 << 8;
        let valid = fields.u32()?;
        fields.skip(4)?;
        let (handle, size) = (fields.u64()?, fields.u64()?);
        fields.skip(8 + 8)?;
        let seconds = fields.u64()?;
        fields.skip(8 + 4)?;
        let rest = fields.u32()?;
        fields.skip(4)?;
        let mode = fields.u32()?;
        let open = self.open.of_node(handle, node);
        let open = open.filter(|_| valid & HANDLE != 0);
        // Owners are not kept: everything belongs to root.
        if valid & SIZE != 0 {
            match open {
                Some(file) => file.set_len(size),
                None => self.tree.stat(node)?.0.open(OFlags::WRONLY)?.set_len(size),
            }
            .map_err(errno)?;
            self.tree.touch(node);
        }
        if valid & MODE != 0 {
            self.tree.stat(node)?.0.set_permissions(mode)?;
        }
        if valid & (MTIME | ATIME) != 0 {
            let omit = Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            };
            let mut times = Timestamps {
                last_access: omit,
                last_modification: omit,
            };
            let (place, _) = self.tree.stat(node)?;
            let mut changed = None;
            if valid & MTIME_NOW != 0 {
                times.last_modification.tv_nsec = UTIME_NOW;
                changed = Some(None);
            } else if valid & MTIME != 0 {
                if rest >= 1_000_000_000 {
                    return Err(Errno::INVAL);
                }
                let seconds = i64::try_from(seconds).map_err(|_| Errno::INVAL)?;
                times.last_modification.tv_sec = seconds;
                times.last_modification.tv_nsec = rest.into();
                let time = (seconds as Time).saturating_mul(1_000_000_000);
                changed = Some(Some(time.saturating_add(rest.into())));
            }
            place.set_times(&times)?;
            match changed {
                Some(Some(time)) => self.tree.set_time(node, time),
                Some(None) => self.tree.touch(node),
                None => {}
            }
        }
        let stat = match self.open.of_node(handle, node) {
            Some(file) if valid & HANDLE != 0 => fstat(file)?,
            _ => self.tree.stat(node)?.1,
        };
        let mut answer = Vec::new();
        self.tree.attributes(node, &stat).put_answer(&mut answer);
        Ok(answer)
    }

    fn open_file(&mut self, node: u64, mut fields: Fields<'_>) -> Answer {
        let access = access(fields.u32()?)?;
        if self.read_only && access != OFlags::RDONLY {
            return Err(Errno::ROFS);
        }
        self.open.open_file(&mut self.tree, node, access)
    }

    fn create(&mut self, parent: u64, mut fields: Fields<'_>) -> Answer {
        let (flags, mode) = (fields.u32()?, fields.u32()?);
        fields.skip(8)?;
        let access = access(flags)?;
        let name = place::name(fields.text()?)?;
        let place = self.tree.child(parent, name)?;
        self.open.check_room()?;
        let exclusive = flags & OFlags::EXCL.bits() != 0;
        let (file, mut answer) = match place.create(access, mode) {
            Ok(file) => (file, self.made(parent, name, &place)?),
            // It was created on the host after the guest had looked it up.
            Err(Errno::EXIST) if !exclusive => {
                (place.open(access)?, self.entry(parent, name, &place)?)
            }
            Err(error) => return Err(error),
        };
        let number = self.tree.number(&fstat(&file)?)?;
        self.open.keep(Open::File(file, number), &mut answer)?;
        Ok(answer)
    }

    fn sync_folder(&mut self, node: u64) -> Answer {
        rustix::fs::fsync(self.tree.stat(node)?.0.open_folder()?)?;
        Ok(Vec::new())
    }

    /// Makes an entry by `make`, which gets the rest of the message after the name.
    fn make(
        &mut self,
        parent: u64,
        mut fields: Fields<'_>,
        make: impl FnOnce(&Place, &mut Fields<'_>) -> Result<(), Errno>,
    ) -> Answer {
        let name = place::name(fields.text()?)?;
        let place = self.tree.child(parent, name)?;
        make(&place, &mut fields)?;
        self.made(parent, name, &place)
    }

    /// Reply after the guest has made an entry.
    fn made(&mut self, parent: u64, name: &OsStr, place: &Place) -> Answer {
        let stat = place.stat()?;
        // Only nodes that the guest holds have a time set by the guest.
        self.tree.enter(parent, name, &stat)?;
        let number = self.tree.number(&stat)?;
        self.tree.touch(number);
        self.tree.touch(parent);
        let mut answer = Vec::new();
        self.tree.attributes(number, &stat).put_entry(&mut answer);
        Ok(answer)
    }

    fn remove(&mut self, parent: u64, mut fields: Fields<'_>, flags: AtFlags) -> Answer {
        let name = place::name(fields.text()?)?;
        let place = self.tree.child(parent, name)?;
        let stat = place.stat()?;
        place.remove(flags)?;
        self.tree.removed(parent, &stat);
        Ok(Vec::new())
    }

    fn rename(&mut self, from: u64, to: u64, flags: RenameFlags, mut fields: Fields<'_>) -> Answer {
        let old_name = place::name(fields.text()?)?;
        let new_name = place::name(fields.text()?)?;
        // No other machine replaces the link between the check and the move.
        let alone = self.tree.alone()?;
        let old = self.tree.child(from, old_name)?;
        let new = self.tree.child(to, new_name)?;
        let (moved, replaced) = (old.stat()?, new.stat());
        if matches!(replaced, Err(error) if error != Errno::NOENT) {
            return Err(Errno::ACCESS);
        }
        if from != to {
            let (above, below) = (self.tree.depth(from), self.tree.depth(to));
            old.check_move(above, below)?;
            if flags.contains(RenameFlags::EXCHANGE) {
                new.check_move(below, above)?;
            }
        }
        old.rename(&new, flags)?;
        drop(alone);
        if let Ok(replaced) = replaced {
            // Two names of one file stay as they are.
            if flags.contains(RenameFlags::EXCHANGE) {
                self.tree.renamed(&replaced, to, from, old_name);
            } else if place::key(&replaced) != place::key(&moved) {
                self.tree.removed(to, &replaced);
            }
        }
        self.tree.renamed(&moved, from, to, new_name);
        Ok(Vec::new())
    }
}

/// Mode in which to open a file for these flags of a guest. Writes have explicit offsets.
fn access(flags: u32) -> Result<OFlags, Errno> {
    match flags & 3 {
        0 => Ok(OFlags::RDONLY),
        1 => Ok(OFlags::WRONLY),
        2 => Ok(OFlags::RDWR),
        _ => Err(Errno::INVAL),
    }
}
