//! Files and folders that a guest has opened. `server` keeps them, and the two modules depend on
//! each other.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;

use super::place::{self, Place, visible};
use super::server::{Answer, Server};
use super::tree::ROOT;
use super::wire::{Fields, Put};

/// Maximum number of files and folders that a guest has open: less than the limit of a process.
const MAX_OPEN: usize = 512;
/// Maximum number of names that are kept for all open folders.
const MAX_NAMES: usize = 1 << 20;

/// A file or folder that the guest has opened.
pub enum Open {
    /// A file and its node.
    File(File, u64),
    /// A folder, with its names at the start of listing; none before that.
    Folder(Vec<OsString>),
}

impl Open {
    fn names(&self) -> &[OsString] {
        match self {
            Self::Folder(names) => names,
            Self::File(..) => &[],
        }
    }
}

impl Server {
    /// Stores an opened file under a new number, which is appended to `answer`.
    fn keep(&mut self, open: Open, answer: &mut Vec<u8>) -> Result<(), Errno> {
        if self.open.len() >= MAX_OPEN {
            return Err(Errno::NFILE);
        }
        self.handles += 1;
        self.open.insert(self.handles, open);
        answer.u64(self.handles);
        answer.zeroes(8);
        Ok(())
    }

    pub(super) fn open_file(&mut self, node: u64, mut fields: Fields<'_>) -> Answer {
        let access = access(fields.u32()?)?;
        if self.read_only && access != OFlags::RDONLY {
            return Err(Errno::ROFS);
        }
        let file = self.tree.stat(node)?.0.open(access)?;
        let mut answer = Vec::new();
        self.keep(Open::File(file, node), &mut answer)?;
        Ok(answer)
    }

    pub(super) fn create(&mut self, parent: u64, mut fields: Fields<'_>) -> Answer {
        let (flags, mode) = (fields.u32()?, fields.u32()?);
        fields.skip(8)?;
        let access = access(flags)?;
        let name = place::name(fields.text()?)?;
        let place = self.tree.child(parent, name)?;
        if self.open.len() >= MAX_OPEN {
            return Err(Errno::NFILE);
        }
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
        self.keep(Open::File(file, number), &mut answer)?;
        Ok(answer)
    }

    pub(super) fn file(&self, handle: u64) -> Result<(&File, u64), Errno> {
        match self.open.get(&handle) {
            Some(Open::File(file, node)) => Ok((file, *node)),
            _ => Err(Errno::BADF),
        }
    }

    pub(super) fn read(&mut self, mut fields: Fields<'_>, room: usize) -> Answer {
        let (handle, offset, size) = (fields.u64()?, fields.u64()?, fields.u32()?);
        let (file, _) = self.file(handle)?;
        let mut data = vec![0; room.min(size as usize)];
        let mut done = 0;
        while done < data.len() {
            let at = offset.checked_add(done as u64).ok_or(Errno::INVAL)?;
            match file.read_at(&mut data[done..], at) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(error)),
            }
        }
        data.truncate(done);
        Ok(data)
    }

    pub(super) fn write(&mut self, mut fields: Fields<'_>) -> Answer {
        let (handle, offset, size) = (fields.u64()?, fields.u64()?, fields.u32()?);
        fields.skip(20)?;
        let data = fields.bytes(size as usize)?;
        let (file, node) = self.file(handle)?;
        offset.checked_add(data.len() as u64).ok_or(Errno::FBIG)?;
        file.write_all_at(data, offset).map_err(errno)?;
        self.tree.touch(node);
        let mut answer = Vec::new();
        answer.u32(size);
        answer.zeroes(4);
        Ok(answer)
    }

    pub(super) fn sync(&mut self, mut fields: Fields<'_>) -> Answer {
        self.file(fields.u64()?)?.0.sync_data().map_err(errno)?;
        Ok(Vec::new())
    }

    pub(super) fn close(&mut self, mut fields: Fields<'_>) -> Answer {
        let open = self.open.remove(&fields.u64()?);
        open.map(|_| Vec::new()).ok_or(Errno::BADF)
    }

    pub(super) fn open_folder(&mut self, node: u64) -> Answer {
        self.tree.stat(node)?.0.open_folder()?;
        let mut answer = Vec::new();
        self.keep(Open::Folder(Vec::new()), &mut answer)?;
        Ok(answer)
    }

    pub(super) fn sync_folder(&mut self, node: u64) -> Answer {
        rustix::fs::fsync(self.tree.stat(node)?.0.open_folder()?)?;
        Ok(Vec::new())
    }

    /// The names in an open folder, as it is now.
    fn refresh(&mut self, handle: u64, folder: &Place) -> Result<(), Errno> {
        let others = self.open.iter().filter(|(of, _)| **of != handle);
        let kept: usize = others.map(|(_, open)| open.names().len()).sum();
        match self.open.get_mut(&handle) {
            Some(Open::Folder(names)) => {
                names.clear();
                *names = folder.list(MAX_NAMES - kept)?;
                Ok(())
            }
            _ => Err(Errno::BADF),
        }
    }

    /// Lists a folder from an offset on: `.`, `..` and then its names have the offsets 0, 1, 2, ...
    pub(super) fn list(&mut self, node: u64, mut fields: Fields<'_>, room: usize) -> Answer {
        let (handle, offset, size) = (fields.u64()?, fields.u64()?, fields.u32()?);
        let folder = self.tree.stat(node)?.0;
        if offset == 0 {
            self.refresh(handle, &folder)?;
        }
        let Some(Open::Folder(names)) = self.open.get(&handle) else {
            return Err(Errno::BADF);
        };
        let room = room.min(size as usize);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let mut answer = Vec::new();
        for (index, name) in [".", ".."].iter().enumerate().skip(start) {
            // The guest resolves these by itself.
            if !put_name(
                &mut answer,
                room,
                ROOT,
                index,
                FileType::Directory,
                name.as_bytes(),
            ) {
                return Ok(answer);
            }
        }
        for (index, name) in names.iter().enumerate().skip(start.saturating_sub(2)) {
            // Entries that were removed meanwhile, or are not visible to guests, are skipped.
            let Ok(stat) = folder.child(name).and_then(|place| place.stat()) else {
                continue;
            };
            let kind = FileType::from_raw_mode(stat.st_mode);
            let number = self.tree.number(&stat)?;
            let name = name.as_encoded_bytes();
            if visible(&stat) && !put_name(&mut answer, room, number, index + 2, kind, name) {
                break;
            }
        }
        Ok(answer)
    }
}

/// Appends `struct fuse_dirent` for the name at `index`; `false`: there is no room.
fn put_name(
    to: &mut Vec<u8>,
    room: usize,
    number: u64,
    index: usize,
    kind: FileType,
    name: &[u8],
) -> bool {
    let len = (24 + name.len()).next_multiple_of(8);
    if to.len() + len > room {
        return false;
    }
    let end = to.len() + len;
    to.u64(number);
    to.u64(index as u64 + 1);
    to.u32(name.len() as u32);
    // DT_DIR and so on are the type bits of a mode.
    to.u32(kind.as_raw_mode() >> 12);
    to.extend(name);
    to.resize(end, 0);
    true
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

/// The number of a failure.
pub(super) fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
