//! Files and folders that a guest has opened.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::place::{Place, visible};
use super::tree::{ROOT, Tree};
use super::wire::{Answer, Fields, Put};

/// Maximum number of files and folders that a guest has open: less than the limit of a process.
const MAX_OPEN: usize = 512;
/// Maximum number of names that are kept for all open folders.
const MAX_NAMES: usize = 1 << 20;

/// What a guest has opened, by handle.
#[derive(Default)]
pub struct OpenFiles {
    open: HashMap<u64, Open>,
    /// Number of the last one.
    handles: u64,
}

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

impl OpenFiles {
    /// Closes all.
    pub fn clear(&mut self) {
        self.open.clear();
    }

    /// # Errors
    /// ENFILE if as many are open as may be.
    pub fn check_room(&self) -> Result<(), Errno> {
        if self.open.len() < MAX_OPEN {
            Ok(())
        } else {
            Err(Errno::NFILE)
        }
    }

    /// Stores an opened file under a new handle, which is appended to `answer`.
    ///
    /// # Errors
    /// As [`check_room`](Self::check_room).
    pub fn keep(&mut self, open: Open, answer: &mut Vec<u8>) -> Result<(), Errno> {
        self.check_room()?;
        self.handles += 1;
        self.open.insert(self.handles, open);
        answer.u64(self.handles);
        answer.zeroes(8);
        Ok(())
    }

    /// The file `handle`, if it is one of `node`.
    pub fn of_node(&self, handle: u64, node: u64) -> Option<&File> {
        let (file, of) = self.file(handle).ok()?;
        (of == node).then_some(file)
    }

    /// Opens the file `node`.
    pub fn open_file(&mut self, tree: &mut Tree, node: u64, access: OFlags) -> Answer {
        let file = tree.stat(node)?.0.open(access)?;
        let mut answer = Vec::new();
        self.keep(Open::File(file, node), &mut answer)?;
        Ok(answer)
    }

    fn file(&self, handle: u64) -> Result<(&File, u64), Errno> {
        match self.open.get(&handle) {
            Some(Open::File(file, node)) => Ok((file, *node)),
            _ => Err(Errno::BADF),
        }
    }

    /// Reads from a file at an offset.
    pub fn read(&self, mut fields: Fields<'_>, room: usize) -> Answer {
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

    /// Writes to a file at an offset.
    pub fn write(&self, tree: &mut Tree, mut fields: Fields<'_>) -> Answer {
        let (handle, offset, size) = (fields.u64()?, fields.u64()?, fields.u32()?);
        fields.skip(20)?;
        let data = fields.bytes(size as usize)?;
        let (file, node) = self.file(handle)?;
        offset.checked_add(data.len() as u64).ok_or(Errno::FBIG)?;
        file.write_all_at(data, offset).map_err(errno)?;
        tree.touch(node);
        let mut answer = Vec::new();
        answer.u32(size);
        answer.zeroes(4);
        Ok(answer)
    }

    /// Writes a file's data to the disk of the host.
    pub fn sync(&self, mut fields: Fields<'_>) -> Answer {
        self.file(fields.u64()?)?.0.sync_data().map_err(errno)?;
        Ok(Vec::new())
    }

    /// Closes a file or folder.
    pub fn close(&mut self, mut fields: Fields<'_>) -> Answer {
        let open = self.open.remove(&fields.u64()?);
        open.map(|_| Vec::new()).ok_or(Errno::BADF)
    }

    /// Opens the folder `node`.
    pub fn open_folder(&mut self, tree: &mut Tree, node: u64) -> Answer {
        tree.stat(node)?.0.open_folder()?;
        let mut answer = Vec::new();
        self.keep(Open::Folder(Vec::new()), &mut answer)?;
        Ok(answer)
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
    pub fn list(
        &mut self,
        tree: &mut Tree,
        node: u64,
        mut fields: Fields<'_>,
        room: usize,
    ) -> Answer {
        let (handle, offset, size) = (fields.u64()?, fields.u64()?, fields.u32()?);
        let folder = tree.stat(node)?.0;
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
            let number = tree.number(&stat)?;
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

/// The number of a failure.
pub fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
