//! Input files of a guest, and output files.

use crate::error::{Error, Result};
use crate::guest::image::{HEAD, ImageHeader, parse_header};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// A file that goes into guest RAM, opened, with its length.
pub struct Input {
    file: File,
    len: u64,
    name: String,
}

impl Input {
    /// Opens `path`; `what` names it in errors.
    ///
    /// # Errors
    /// [`Error::User`].
    pub fn open(what: &str, path: &Path) -> Result<Self> {
        let name = format!("{what} {}", path.display());
        let open = || {
            let mut file = File::open(path)?;
            if file.metadata()?.is_dir() {
                return Err(std::io::Error::other("is a directory"));
            }
            let len = file.seek(SeekFrom::End(0))?;
            file.rewind()?;
            Ok((file, len))
        };
        let (file, len) =
            open().map_err(|e| Error::user(format!("cannot open the {name}: {e}")))?;
        Ok(Self { file, len, name })
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads the file's beginning as the header of a kernel.
    ///
    /// # Errors
    /// [`Error::User`] if it is not a usable kernel.
    pub fn kernel_header(&mut self) -> Result<ImageHeader> {
        let mut head = Vec::new();
        let mut read = || {
            (&mut self.file).take(HEAD).read_to_end(&mut head)?;
            self.file.rewind()
        };
        read().map_err(|e| Error::user(format!("cannot read the {}: {e}", self.name)))?;
        parse_header(&head, self.len).map_err(|why| Error::user(format!("the {} {why}", self.name)))
    }

    /// Loads the file at guest physical address `at`.
    ///
    /// # Errors
    /// [`Error::User`] if it cannot be read or does not fit.
    pub fn load(&mut self, memory: &GuestMemoryMmap, at: u64) -> Result<()> {
        memory
            .read_exact_volatile_from(GuestAddress(at), &mut self.file, self.len as usize)
            .map_err(|e| Error::user(format!("cannot load the {}: {e}", self.name)))
    }

    /// Reads the whole file, at most `limit` bytes.
    ///
    /// # Errors
    /// [`Error::User`] if it cannot be read or is longer.
    pub fn read_all(&mut self, limit: u64) -> Result<Vec<u8>> {
        if self.len > limit {
            return Err(Error::user(format!(
                "the {} is longer than {limit} bytes",
                self.name
            )));
        }
        let mut bytes = Vec::new();
        (&mut self.file)
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(|e| Error::user(format!("cannot read the {}: {e}", self.name)))?;
        Ok(bytes)
    }
}

/// Reads and checks a device tree of at most `limit` bytes.
///
/// # Errors
/// [`Error::User`] if it is not a device tree blob.
pub fn read_dtb(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let blob = Input::open("device tree", path)?.read_all(limit)?;
    let total = blob
        .get(4..8)
        .map(|b| u32::from_be_bytes(b.try_into().unwrap_or_default()) as usize);
    match total {
        Some(total)
            if blob.starts_with(&[0xd0, 0x0d, 0xfe, 0xed])
                && total <= blob.len()
                && total >= 40 =>
        {
            Ok(blob)
        }
        _ => Err(Error::user(format!(
            "{} is not a complete device tree blob; compile the source with dtc -O dtb",
            path.display()
        ))),
    }
}

/// Creates an output file; `what` names it in errors.
///
/// # Errors
/// [`Error::User`].
pub fn create(what: &str, path: &Path) -> Result<File> {
    File::create(path).map_err(|e| {
        Error::user(format!(
            "cannot create the {what} file {}: {e}",
            path.display()
        ))
    })
}
