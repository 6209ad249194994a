//! A name in a folder of the host, resolved without following any link. Guests' names are mapped to
//! the host's files only by this module.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RawMode, RenameFlags, Stat, Timestamps, chmod, fchmod,
    fstat, linkat, mkdirat, openat, readlinkat, renameat_with, statat, symlinkat, unlinkat,
    utimensat,
};
use rustix::io::Errno;

/// Maximum length of a name in bytes, as in all file systems of Linux.
const MAX_NAME: usize = 255;
/// Maximum depth of a file.
const MAX_DEPTH: usize = 128;
/// Maximum number of entries of a folder that are checked before it is moved.
const MAX_CHECKED: usize = 100_000;
/// Maximum length of a new symbolic link's target.
const MAX_TARGET: usize = 4095;

/// Opens the folder that is shared.
pub fn open_root(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(root.into())
}

/// Checks that a name can only refer to an entry of its folder.
pub fn name(bytes: &[u8]) -> Result<&OsStr, Errno> {
    match bytes {
        b"" | b"." | b".." => Err(Errno::INVAL),
        _ if bytes.len() > MAX_NAME => Err(Errno::NAMETOOLONG),
        _ if bytes.iter().any(|byte| matches!(byte, 0 | b'/')) => Err(Errno::INVAL),
        _ => Ok(OsStr::from_bytes(bytes)),
    }
}

/// What identifies a file on the host: device and inode.
pub type Key = (u64, u64);

/// The key of the file of `stat`.
pub fn key(stat: &Stat) -> Key {
    (stat.st_dev, stat.st_ino)
}

/// Whether a guest may see it: a file, folder or symbolic link.
pub fn visible(stat: &Stat) -> bool {
    let kind = FileType::from_raw_mode(stat.st_mode);
    kind.is_file() || kind.is_dir() || kind.is_symlink()
}

/// An entry of a folder.
pub struct Place {
    folder: OwnedFd,
    /// `.` for the shared folder itself.
    name: OsString,
}

impl Place {
    /// The shared folder itself.
    pub fn root(root: &File) -> Result<Self, Errno> {
        Ok(Self {
            folder: rustix::io::fcntl_dupfd_cloexec(root, 0)?,
            name: ".".into(),
        })
    }

    /// The entry at the path `names` from `root`, each checked by [`name`]. The last one need not
    /// exist.
    pub fn find(root: &File, names: &[OsString]) -> Result<Self, Errno> {
        let Some((last, above)) = names.split_last() else {
            return Self::root(root);
        };
        if above.len() > MAX_DEPTH {
            return Err(Errno::LOOP);
        }
        let mut folder = rustix::io::fcntl_dupfd_cloexec(root, 0)?;
        for name in above {
            folder = open_folder(&folder, name, OFlags::PATH)?;
        }
        Ok(Self {
            folder,
            name: last.clone(),
        })
    }

    /// The entry `name` of this folder.
    pub fn child(&self, name: &OsStr) -> Result<Self, Errno> {
        Ok(Self {
            folder: open_folder(&self.folder, &self.name, OFlags::PATH)?,
            name: name.into(),
        })
    }

    /// Attributes of the entry, if a guest may see it.
    pub fn stat(&self) -> Result<Stat, Errno> {
        let stat = statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        visible(&stat).then_some(stat).ok_or(Errno::NOENT)
    }

    /// Opens the entry, a regular file.
    pub fn open(&self, access: OFlags) -> Result<File, Errno> {
        // Opening a device may have side effects.
        match FileType::from_raw_mode(self.stat()?.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR),
            _ => return Err(Errno::ACCESS),
        }
        let file = openat(&self.folder, &self.name, access | FILE, Mode::empty())?;
        let stat = fstat(&file)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(Errno::ACCESS);
        }
        // A set-user-ID program of the host must not be written by the guest. The kernel would
        // clear that bit, but not for root.
        if access != OFlags::RDONLY && stat.st_mode & LENDS != 0 {
            return Err(Errno::PERM);
        }
        Ok(file.into())
    }

    /// Creates a file that does not exist, and opens it.
    pub fn create(&self, access: OFlags, mode: u32) -> Result<File, Errno> {
        let flags = access | FILE | OFlags::CREATE | OFlags::EXCL;
        let file = openat(&self.folder, &self.name, flags, permissions(mode))?;
        // Independent of the umask of this process.
        fchmod(&file, permissions(mode))?;
        Ok(file.into())
    }

    /// Opens the entry, a folder.
    pub fn open_folder(&self) -> Result<OwnedFd, Errno> {
        open_folder(&self.folder, &self.name, OFlags::RDONLY)
    }

    /// Sorted names in the folder; an error if there are more than `most`.
    pub fn list(&self, most: usize) -> Result<Vec<OsString>, Errno> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.open_folder()?)? {
            let entry = entry?;
            let bytes = entry.file_name().to_bytes();
            if name(bytes).is_ok() {
                if names.len() >= most {
                    return Err(Errno::NOMEM);
                }
                names.push(OsString::from_vec(bytes.to_vec()));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Makes a folder.
    pub fn make_folder(&self, mode: u32) -> Result<(), Errno> {
        mkdirat(&self.folder, &self.name, Mode::RWXU)?;
        let made = open_folder(&self.folder, &self.name, OFlags::RDONLY)?;
        fchmod(&made, permissions(mode))
    }

    /// Makes a symbolic link, if its target is below its folder: programs on the host may follow
    /// it.
    pub fn make_link(&self, target: &[u8]) -> Result<(), Errno> {
        let climbs = |part: &[u8]| part == b"..";
        if target.starts_with(b"/") || target.split(|byte| *byte == b'/').any(climbs) {
            return Err(Errno::PERM);
        }
        if target.is_empty() || target.len() > MAX_TARGET {
            return Err(Errno::INVAL);
        }
        symlinkat(OsStr::from_bytes(target), &self.folder, &self.name)
    }

    /// Target of the symbolic link.
    pub fn read_link(&self) -> Result<Vec<u8>, Errno> {
        Ok(readlinkat(&self.folder, &self.name, Vec::new())?.into_bytes())
    }

    /// Makes this another name of the file at `old`.
    pub fn link_to(&self, old: &Self) -> Result<(), Errno> {
        linkat(
            &old.folder,
            &old.name,
            &self.folder,
            &self.name,
            AtFlags::empty(),
        )
    }

    /// Removes a file or link, or with [`AtFlags::REMOVEDIR`] an empty folder.
    pub fn remove(&self, flags: AtFlags) -> Result<(), Errno> {
        unlinkat(&self.folder, &self.name, flags)
    }

    /// Refuses a move from a folder at depth `from` below the shared one to one at depth `to`, if a
    /// relative link would then point outside: programs on the host may follow it. `EXDEV`, because
    /// the content can still be copied.
    pub fn check_move(&self, from: usize, to: usize) -> Result<(), Errno> {
        let kind = FileType::from_raw_mode(self.stat()?.st_mode);
        if kind.is_dir() && to >= from {
            return Ok(());
        }
        self.check_inside(to)
    }

    /// Refuses the entry in a folder at depth `depth` below the shared one if it is, or contains, a
    /// relative link that would point outside.
    pub fn check_inside(&self, depth: usize) -> Result<(), Errno> {
        let mut left = MAX_CHECKED;
        self.check_links(depth, &mut left)
    }

    fn check_links(&self, depth: usize, left: &mut usize) -> Result<(), Errno> {
        let kind = FileType::from_raw_mode(self.stat()?.st_mode);
        if kind.is_symlink() && climbs(&self.read_link()?) > depth {
            return Err(Errno::XDEV);
        }
        if kind.is_dir() {
            if depth > MAX_DEPTH {
                return Err(Errno::XDEV);
            }
            for name in self.list(*left).map_err(|_| Errno::XDEV)? {
                *left = left.checked_sub(1).ok_or(Errno::XDEV)?;
                match self.child(&name)?.check_links(depth + 1, left) {
                    // A pipe of the host's, which is not visible to guests.
                    Err(Errno::NOENT) => {}
                    checked => checked?,
                }
            }
        }
        Ok(())
    }

    /// Renames to `new`.
    pub fn rename(&self, new: &Self, flags: RenameFlags) -> Result<(), Errno> {
        renameat_with(&self.folder, &self.name, &new.folder, &new.name, flags)
    }

    /// Changes the permissions of the file or folder.
    pub fn set_permissions(&self, mode: u32) -> Result<(), Errno> {
        let kind = FileType::from_raw_mode(self.stat()?.st_mode);
        if kind.is_symlink() {
            return Err(Errno::OPNOTSUPP);
        }
        // `fchmodat` would follow a link that replaced the file, and a file that its owner may not
        // read cannot be opened, but changed.
        let file = openat(&self.folder, &self.name, FILE | OFlags::PATH, Mode::empty())?;
        if !visible(&fstat(&file)?) {
            return Err(Errno::ACCESS);
        }
        let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
        chmod(opened, permissions(mode))
    }

    /// Sets times.
    pub fn set_times(&self, times: &Timestamps) -> Result<(), Errno> {
        utimensat(&self.folder, &self.name, times, AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Maximum number of folders that a link's target ascends.
fn climbs(target: &[u8]) -> usize {
    if target.starts_with(b"/") {
        // Its target does not change.
        return 0;
    }
    let parts = target.split(|byte| *byte == b'/');
    let mut parts = parts.filter(|part| !matches!(*part, b"" | b"."));
    let up = parts.by_ref().take_while(|part| *part == b"..").count();
    // A folder on the path may itself be a link with an unknown target.
    if parts.any(|part| part == b"..") {
        return usize::MAX;
    }
    up
}

/// Flags for opening every file: no link is followed, and no pipe or terminal can block this
/// process.
const FILE: OFlags = OFlags::CLOEXEC
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

fn open_folder(above: impl AsFd, name: &OsStr, access: OFlags) -> Result<OwnedFd, Errno> {
    let flags = access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(above, name, flags, Mode::empty())
}

/// Set-user-ID and set-group-ID.
const LENDS: RawMode = 0o6000;

/// Permissions of a guest's new files: without set-user-ID and set-group-ID.
fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode((mode & 0o777) as RawMode)
}
