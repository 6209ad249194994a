//! The file of a saved guest.
//!
//! ```text
//! "TRPLSAVE", u32 version, u32 number of sections
//! section:  u32 length of its name, name, u64 length, u64 checksum of name and bytes, bytes
//! RAM:      u64 guest physical address, 4096 bytes       pages of zeroes are left out
//!           u64::MAX, u64 checksum of all that            end
//! ```
//! Numbers are little-endian. Everything is checked before it is used, but a file from an untrusted
//! source may make the guest do anything, as its kernel might.

use trapless_isa::page::PAGE_SIZE;

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};
use vmm_sys_util::tempfile::TempFile;

const MAGIC: &[u8; 8] = b"TRPLSAVE";
/// Incremented at each change of the format.
pub const VERSION: u32 = 2;
const PAGE: usize = PAGE_SIZE as usize;
const MAX_SECTIONS: u32 = 4096;
const MAX_NAME: u32 = 256;
const MAX_SECTION: u64 = 16 << 20;

/// Everything but RAM, by name.
pub type Sections = BTreeMap<String, Vec<u8>>;

/// FNV-1a over 64-bit words: it detects damage, not tampering.
#[derive(Clone, Copy)]
struct Checksum(u64);

impl Checksum {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let mixed = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x100_0000_01b3);
            self.0 = mixed ^ (mixed >> 32);
        }
    }

    fn of_section(name: &[u8], bytes: &[u8]) -> u64 {
        let mut sum = Self::new();
        sum.add(name);
        sum.add(bytes);
        sum.0
    }
}

/// Writes a saved guest to `path`, which is replaced only when everything is written.
///
/// # Errors
/// [`Error::User`]: the file cannot be written.
pub fn write(path: &Path, sections: &Sections, memory: &GuestMemoryMmap) -> Result<()> {
    // An unpredictable name, so that others who may write to the folder cannot place a link there.
    let mut part = path.as_os_str().to_owned();
    part.push(".part-");
    let written = TempFile::new_with_prefix(part)
        .map_err(io::Error::from)
        .and_then(|part| {
            let mut out = BufWriter::with_capacity(1 << 16, part.as_file());
            write_sections(&mut out, sections)?;
            write_ram(&mut out, memory)?;
            out.into_inner()?.sync_all()?;
            std::fs::rename(part.as_path(), path)
        });
    written.map_err(|e| {
        Error::user(format!(
            "cannot write the saved guest {}: {e}",
            path.display()
        ))
    })
}

fn write_sections(out: &mut impl Write, sections: &Sections) -> io::Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&(sections.len() as u32).to_le_bytes())?;
    for (name, bytes) in sections {
        out.write_all(&(name.len() as u32).to_le_bytes())?;
        out.write_all(name.as_bytes())?;
        out.write_all(&(bytes.len() as u64).to_le_bytes())?;
        out.write_all(&Checksum::of_section(name.as_bytes(), bytes).to_le_bytes())?;
        out.write_all(bytes)?;
    }
    Ok(())
}

fn write_ram(out: &mut impl Write, memory: &GuestMemoryMmap) -> io::Result<()> {
    let mut sum = Checksum::new();
    let mut page = [0; PAGE];
    for region in memory.iter() {
        let start = region.start_addr().0;
        for address in (start..start + region.len()).step_by(PAGE) {
            memory
                .read_slice(&mut page, GuestAddress(address))
                .map_err(io::Error::other)?;
            if page != [0; PAGE] {
                let address = address.to_le_bytes();
                sum.add(&address);
                sum.add(&page);
                out.write_all(&address)?;
                out.write_all(&page)?;
            }
        }
    }
    out.write_all(&u64::MAX.to_le_bytes())?;
    out.write_all(&sum.0.to_le_bytes())
}

/// A saved guest being read.
pub struct Reader {
    name: String,
    file: BufReader<File>,
}

impl Reader {
    /// Opens a saved guest and reads everything but RAM.
    ///
    /// # Errors
    /// [`Error::User`] if the file cannot be used.
    pub fn open(path: &Path) -> Result<(Self, Sections)> {
        let name = path.display().to_string();
        let file = File::open(path)
            .map_err(|e| Error::user(format!("cannot open the saved guest {name}: {e}")))?;
        let file = BufReader::with_capacity(1 << 16, file);
        let mut reader = Self { name, file };
        let sections = read_sections(&mut reader.file).map_err(|why| reader.error(&why))?;
        Ok((reader, sections))
    }

    fn error(&self, why: &str) -> Error {
        Error::user(format!("the saved guest {} {why}", self.name))
    }

    /// Reads RAM into `memory`, which holds zeroes.
    ///
    /// # Errors
    /// [`Error::User`] if the file cannot be used.
    pub fn read_ram(mut self, memory: &GuestMemoryMmap) -> Result<()> {
        read_ram(&mut self.file, memory).map_err(|why| self.error(&why))
    }
}

type Checked<T> = std::result::Result<T, String>;

fn exactly<const N: usize>(from: &mut impl Read) -> Checked<[u8; N]> {
    let mut bytes = [0; N];
    fill(from, &mut bytes)?;
    Ok(bytes)
}

fn fill(from: &mut impl Read, bytes: &mut [u8]) -> Checked<()> {
    from.read_exact(bytes).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => "is cut off; save the guest again".into(),
        _ => format!("cannot be read: {e}"),
    })
}

fn read_sections(from: &mut impl Read) -> Checked<Sections> {
    if exactly(from)? != *MAGIC {
        return Err("is not a saved guest".into());
    }
    let version = u32::from_le_bytes(exactly(from)?);
    if version != VERSION {
        return Err(format!(
            "has version {version}, this VMM reads {VERSION}; use the VMM that saved it"
        ));
    }
    let number = u32::from_le_bytes(exactly(from)?);
    let damaged = || "is damaged; save the guest again".to_string();
    if number > MAX_SECTIONS {
        return Err(damaged());
    }
    let mut sections = Sections::new();
    for _ in 0..number {
        let len = u32::from_le_bytes(exactly(from)?);
        if len > MAX_NAME {
            return Err(damaged());
        }
        let mut name = vec![0; len as usize];
        fill(from, &mut name)?;
        let len = u64::from_le_bytes(exactly(from)?);
        let sum = u64::from_le_bytes(exactly(from)?);
        if len > MAX_SECTION {
            return Err(damaged());
        }
        let mut bytes = vec![0; len as usize];
        fill(from, &mut bytes)?;
        let right = Checksum::of_section(&name, &bytes) == sum;
        let name = String::from_utf8(name).map_err(|_| damaged())?;
        if !right || sections.insert(name, bytes).is_some() {
            return Err(damaged());
        }
    }
    Ok(sections)
}

fn read_ram(from: &mut impl Read, memory: &GuestMemoryMmap) -> Checked<()> {
    let mut sum = Checksum::new();
    loop {
        let address: [u8; 8] = exactly(from)?;
        if address == [0xff; 8] {
            break;
        }
        let page: [u8; PAGE] = exactly(from)?;
        sum.add(&address);
        sum.add(&page);
        memory
            .write_slice(&page, GuestAddress(u64::from_le_bytes(address)))
            .map_err(|_| "holds RAM that this guest does not have; use the same --memory")?;
    }
    if u64::from_le_bytes(exactly(from)?) != sum.0 {
        return Err("is damaged; save the guest again".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x8000_0000;

    fn memory() -> GuestMemoryMmap {
        GuestMemoryMmap::from_ranges(&[(GuestAddress(BASE), 16 * PAGE)]).unwrap()
    }

    fn restored(path: &Path) -> Result<(Sections, GuestMemoryMmap)> {
        let (reader, sections) = Reader::open(path)?;
        let memory = memory();
        reader.read_ram(&memory)?;
        Ok((sections, memory))
    }

    fn saved() -> (TempFile, Sections) {
        let file = TempFile::new().unwrap();
        let sections: Sections = [("a", vec![1, 2, 3]), ("b", Vec::new())]
            .map(|(name, bytes)| (name.to_string(), bytes))
            .into();
        let ram = memory();
        ram.write_obj(0x1122_3344_u32, GuestAddress(BASE + 5 * PAGE as u64 + 8))
            .unwrap();
        write(file.as_path(), &sections, &ram).unwrap();
        (file, sections)
    }

    #[test]
    fn sections_and_ram_come_back_and_zero_pages_cost_nothing() {
        let (file, sections) = saved();
        let len = std::fs::metadata(file.as_path()).unwrap().len();
        assert!(len < 2 * PAGE as u64, "{len}");
        let (read, ram) = restored(file.as_path()).unwrap();
        assert_eq!(read, sections);
        let word: u32 = ram
            .read_obj(GuestAddress(BASE + 5 * PAGE as u64 + 8))
            .unwrap();
        assert_eq!(word, 0x1122_3344);
    }

    #[test]
    fn a_planted_link_is_not_followed_and_nothing_is_left() {
        let folder = vmm_sys_util::tempdir::TempDir::new().unwrap();
        let [guest, victim] = ["guest", "victim"].map(|name| folder.as_path().join(name));
        std::fs::write(&victim, "precious").unwrap();
        for planted in ["guest.part", "guest"] {
            std::os::unix::fs::symlink(&victim, folder.as_path().join(planted)).unwrap();
        }
        write(&guest, &Sections::new(), &memory()).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        assert!(std::fs::symlink_metadata(&guest).unwrap().is_file());
        assert!(write(folder.as_path(), &Sections::new(), &memory()).is_err());
        let names = std::fs::read_dir(folder.as_path()).unwrap();
        assert_eq!(names.count(), 3, "guest, victim, and the link guest.part");
    }

    #[test]
    fn every_damage_is_noticed() {
        let (file, _) = saved();
        let good = std::fs::read(file.as_path()).unwrap();
        // Everything before and after the page, and some of it.
        let ends = |at: &usize| *at < 200 || *at + 40 > good.len() || at % 257 == 0;
        for at in (0..good.len()).filter(ends) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            std::fs::write(file.as_path(), &bad).unwrap();
            assert!(restored(file.as_path()).is_err(), "byte {at}");
        }
        for len in (0..good.len()).filter(ends) {
            std::fs::write(file.as_path(), &good[..len]).unwrap();
            assert_eq!(restored(file.as_path()).unwrap_err().code(), 2);
        }
    }
}
