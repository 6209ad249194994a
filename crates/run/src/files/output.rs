//! A result file that gets its name only when it is complete.
//!
//! Until then it is in the same folder under an unpredictable name, locked as long as it is
//! written: an unlocked one was left by a command that was killed, and the next command that writes
//! the same result removes it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use tempfile::{Builder, TempPath};

use super::make_parent;

/// Suffix of an unfinished file's name.
const END: &str = ".part";
/// Random characters before it.
const RANDOM: usize = 12;
/// Bytes of the result's name that an unfinished file repeats: names have at most 255.
const REPEATED: usize = 200;

/// A file that is being written, under a temporary name until [`commit`](Self::commit); removed if
/// it is dropped before. Devices and pipes are written directly.
pub struct Output {
    file: BufWriter<File>,
    path: PathBuf,
    aside: Option<TempPath>,
}

impl Output {
    /// Begins a file, and makes its folder.
    ///
    /// # Errors
    /// If there is a folder of that name, or the file cannot be created.
    pub fn create(path: &Path) -> Result<Self> {
        if path.is_dir() {
            bail!("{} is a folder; name a file", path.display());
        }
        make_parent(path)?;
        begin(path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Gives the file its final name.
    ///
    /// # Errors
    /// If the rest cannot be written.
    pub fn commit(mut self) -> Result<()> {
        let context = || format!("cannot write {}", self.path.display());
        self.file.flush().with_context(context)?;
        if let Some(aside) = self.aside.take() {
            aside.persist(&self.path).with_context(context)?;
        }
        Ok(())
    }
}

fn begin(path: &Path) -> io::Result<Output> {
    if path.exists() && !path.is_file() {
        let file = OpenOptions::new().write(true).open(path)?;
        return Ok(Output {
            file: BufWriter::new(file),
            path: path.into(),
            aside: None,
        });
    }
    if path.is_symlink() && path.exists() {
        // The kernel may forbid following another user's link (`protected_symlinks`).
        OpenOptions::new().write(true).open(path)?;
    }
    // A link is followed: what it points to is replaced, not the link.
    let place = path.canonicalize().unwrap_or_else(|_| path.into());
    let begin = beginning(&place);
    let folder = place.parent().filter(|folder| *folder != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    remove_leftovers(folder, &begin);
    let (file, aside) = create(folder, &begin)?;
    if let Ok(old) = std::fs::metadata(&place) {
        file.set_permissions(old.permissions())?;
    }
    Ok(Output {
        file: BufWriter::with_capacity(1 << 20, file),
        path: place,
        aside: Some(aside),
    })
}

/// Prefix of names of unfinished files for `path`.
fn beginning(path: &Path) -> OsString {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let mut begin = OsString::from(".");
    begin.push(OsStr::from_bytes(&name[..name.len().min(REPEATED)]));
    begin.push(".");
    begin
}

/// A new locked file.
fn create(folder: &Path, begin: &OsStr) -> io::Result<(File, TempPath)> {
    loop {
        let made = Builder::new()
            .prefix(begin)
            .suffix(END)
            .rand_bytes(RANDOM)
            .make_in(folder, |path| File::create_new(path));
        let (file, aside) = made?.into_parts();
        // Where locks are not supported, the file is not taken for an unlocked one either.
        let _ = file.lock();
        // Another command may have taken it for a leftover before it was locked.
        if file.metadata()?.nlink() > 0 {
            return Ok((file, aside));
        }
    }
}

/// Removes unfinished files of commands that were killed, as far as this user may.
fn remove_leftovers(folder: &Path, begin: &OsStr) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_unfinished(&entry.file_name(), begin) && is_abandoned(&entry.path()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Whether `name` is one that [`create`] chooses.
fn is_unfinished(name: &OsStr, begin: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(begin.as_bytes());
    let random = rest.and_then(|rest| rest.strip_suffix(END.as_bytes()));
    random.is_some_and(|random| {
        random.len() == RANDOM && random.iter().all(u8::is_ascii_alphanumeric)
    })
}

/// Whether no process writes this file any more.
fn is_abandoned(path: &Path) -> bool {
    let careful = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(careful.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    file.is_ok_and(|file| {
        let regular = file.metadata().is_ok_and(|about| about.is_file());
        regular && file.try_lock().is_ok()
    })
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::super::write;
    use super::*;

    /// Promise: a run that fails half-way leaves an older result as it was, and nothing beside it.
    #[test]
    fn a_file_that_is_not_finished_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.json");
        write(&path, "old").unwrap();
        let mut output = Output::create(&path).unwrap();
        output.write_all(b"half").unwrap();
        drop(output);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        write(&path, "new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn links_are_followed_and_devices_written_directly() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        symlink(&file, &link).unwrap();
        write(&file, "old").unwrap();
        write(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        write(Path::new("/dev/null"), "gone").unwrap();
        assert!(write(Path::new("/dev/full"), "no room").is_err());
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    /// Promise: somebody who may write to the result's folder and knows this process cannot have it
    /// write to, or empty, a file of their choice.
    #[test]
    fn prepared_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        let path = folder.path().join("l.json");
        for name in [
            format!(".l.json.{}.part", std::process::id()),
            format!(".l.json.{}.part", "x".repeat(RANDOM)),
        ] {
            symlink(&victim, folder.path().join(name)).unwrap();
        }
        super::super::check_output(&path).unwrap();
        write(&path, "result").unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        assert_eq!(std::fs::read(&path).unwrap(), b"result");
    }

    /// Promise: what a killed command was writing is gone after the next one; two that write the
    /// same at the same time do not disturb each other.
    #[test]
    fn leftovers_of_killed_commands_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.pt");
        let left = folder.path().join(".t.pt.0123456789ab.part");
        let mine = folder.path().join(".t.pt.my-notes.part");
        for path in [&left, &mine] {
            std::fs::write(path, "half").unwrap();
        }
        let mut one = Output::create(&path).unwrap();
        assert!(!left.exists() && mine.exists());
        let mut two = Output::create(&path).unwrap();
        one.write_all(b"one").unwrap();
        two.write_all(b"two").unwrap();
        two.commit().unwrap();
        one.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        assert_eq!(names(folder.path()).len(), 2);
    }

    #[test]
    fn results_have_the_usual_rights_and_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let rights = |name: &str| {
            let path = folder.path().join(name);
            write(&path, "x").unwrap();
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777
        };
        let usual = folder.path().join("usual");
        std::fs::write(&usual, "").unwrap();
        let usual = std::fs::metadata(&usual).unwrap().permissions().mode() & 0o7777;
        assert_eq!(rights(&"n".repeat(255)), usual);
        assert_eq!(rights("r"), usual);
    }
}
