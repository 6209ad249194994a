//! Payloads that go into memory as they are: bytes, or a file loaded straight into guest RAM.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use trapless_hart::Ram;
use vm_memory::{Bytes, GuestAddress};

use super::memory::{room, write};
use crate::error::Error;

/// Bytes of a file that are read to recognise its format: enough for the headers of all formats.
pub(super) const START: usize = 64 << 10;

/// Bytes for the guest's memory.
#[derive(Clone, Debug)]
pub enum Content {
    /// These.
    Bytes(Vec<u8>),
    /// Those of a regular file, which is read straight into guest memory when it is loaded.
    File(PathBuf),
    /// Placeholder for a machine that is restored from a checkpoint, which has the content of RAM:
    /// nothing is loaded, but its length determines the placement.
    Outline(PathBuf),
}

impl Content {
    /// The content of a file. One that is not a regular file, such as a pipe, is read now.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        if file.metadata()?.is_file() {
            return Ok(Self::File(path.into()));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Self::Bytes(bytes))
    }

    /// The placeholder for a machine that is restored from a checkpoint.
    #[must_use]
    pub fn outline(&self) -> Self {
        match self {
            Self::File(path) => Self::Outline(path.clone()),
            other => other.clone(),
        }
    }

    /// Its first bytes, at most [`START`], and its length.
    ///
    /// # Errors
    /// If the file cannot be read any more.
    pub(super) fn start(&self, what: &str) -> Result<(Vec<u8>, u64), Error> {
        let path = match self {
            Self::Bytes(bytes) => {
                let start = &bytes[..bytes.len().min(START)];
                return Ok((start.into(), bytes.len() as u64));
            }
            Self::File(path) | Self::Outline(path) => path,
        };
        let read = || -> io::Result<_> {
            let file = File::open(path)?;
            let len = file.metadata()?.len();
            let mut start = Vec::new();
            file.take(START as u64).read_to_end(&mut start)?;
            Ok((start, len))
        };
        read().map_err(|e| unreadable(what, path, &e))
    }

    /// All of it, if that is at most `most` bytes.
    ///
    /// # Errors
    /// If there is more, or the file cannot be read any more.
    pub(super) fn bytes(&self, most: u64, what: &str) -> Result<Cow<'_, [u8]>, Error> {
        let path = match self {
            Self::Bytes(bytes) => return Ok(bytes.into()),
            Self::File(path) | Self::Outline(path) => path,
        };
        let read = || -> io::Result<_> {
            let file = File::open(path)?;
            let len = file.metadata()?.len();
            let mut bytes = Vec::new();
            // A sparse file may have any length.
            if len <= most {
                file.take(most).read_to_end(&mut bytes)?;
            }
            Ok((len, bytes))
        };
        let (len, bytes) = read().map_err(|e| unreadable(what, path, &e))?;
        if len > most {
            return Err(Error::Invalid(format!(
                "{what} {} has {len} bytes, more than fit; check the file, or use a larger --ram",
                path.display()
            )));
        }
        Ok(bytes.into())
    }

    /// Puts it at `addr`, and returns how many bytes there are.
    ///
    /// # Errors
    /// If it is empty, does not fit, or the file cannot be read any more.
    pub(super) fn load(&self, ram: &Ram, addr: u64, what: &str) -> Result<u64, Error> {
        let path = match self {
            Self::Bytes(bytes) => {
                some(bytes.len() as u64, what)?;
                write(ram, addr, bytes, what)?;
                return Ok(bytes.len() as u64);
            }
            Self::File(path) | Self::Outline(path) => path,
        };
        let mut file = File::open(path).map_err(|e| unreadable(what, path, &e))?;
        let len = file.metadata().map_err(|e| unreadable(what, path, &e))?;
        let len = len.len();
        some(len, what)?;
        room(ram, addr, len, what)?;
        if matches!(self, Self::Outline(_)) {
            return Ok(len);
        }
        ram.expect_writes(addr, len);
        ram.guest_memory()
            .read_exact_volatile_from(GuestAddress(addr), &mut file, len as usize)
            .map_err(|e| unreadable(what, path, &e))?;
        Ok(len)
    }
}

fn unreadable(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::Invalid(format!("cannot read {what} {}: {error}", path.display()))
}

/// Rejects an empty file.
fn some(len: u64, what: &str) -> Result<(), Error> {
    match len {
        0 => Err(Error::Invalid(format!("{what} file is empty"))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x8000_0000;

    fn load(content: &Content) -> (Ram, Result<u64, String>) {
        let ram = Ram::new(BASE, 1 << 20).unwrap();
        let loaded = content.load(&ram, BASE + 4096, "the initrd");
        (ram, loaded.map_err(|e| e.to_string()))
    }

    #[test]
    fn a_file_is_loaded_as_its_bytes_are() {
        let bytes: Vec<u8> = (0..100_003_u32).map(|i| (i * 7) as u8).collect();
        let file = std::env::temp_dir().join(format!("content-{}", std::process::id()));
        std::fs::write(&file, &bytes).unwrap();
        let content = Content::of_file(&file).unwrap();
        assert!(matches!(content, Content::File(_)));
        let [(by_bytes, a), (by_file, b)] =
            [Content::Bytes(bytes.clone()), content.clone()].map(|content| load(&content));
        assert_eq!((a, b), (Ok(100_003), Ok(100_003)));
        for at in (BASE + 4096..BASE + 110_000).step_by(8) {
            assert_eq!(by_bytes.load(at, 8), by_file.load(at, 8), "{at:#x}");
        }
        std::fs::write(&file, vec![1; 2 << 20]).unwrap();
        assert!(load(&content).1.unwrap_err().contains("does not fit"));
        std::fs::write(&file, []).unwrap();
        assert_eq!(load(&content).1.unwrap_err(), "the initrd file is empty");
        std::fs::remove_file(&file).unwrap();
        assert!(load(&content).1.unwrap_err().contains("cannot read"));
        assert!(Content::of_file(&file).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_read_once() {
        let pipe = std::env::temp_dir().join(format!("content-pipe-{}", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let writer = {
            let pipe = pipe.clone();
            std::thread::spawn(move || std::fs::write(pipe, vec![3; 100_000]))
        };
        let content = Content::of_file(&pipe).unwrap();
        assert!(writer.join().unwrap().is_ok());
        std::fs::remove_file(&pipe).unwrap();
        assert_eq!(load(&content).1, Ok(100_000));
    }
}
