//! Kernel, initial RAM disk and device tree into guest RAM.
//!
//! ```text
//! RAM_BASE + text_offset   kernel Image (text_offset is 2 MiB on riscv64)
//!         ...              free
//! below the tree           initial RAM disk, page aligned
//! end of low RAM           device tree, 2 MiB aligned
//! ```
//!
//! "Low" RAM ends at 4 GiB at the latest, where every kernel configuration can reach it early.

use crate::error::{Error, Result};
use crate::map;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// The largest device tree Linux maps early.
pub const FDT_MAX: u64 = 2 << 20;
const MIB2: u64 = 2 << 20;
const PAGE: u64 = 4096;

/// What the header of a riscv64 `Image` says (Linux `Documentation/arch/riscv/boot-image-header.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageHeader {
    /// Load offset from the start of RAM.
    pub text_offset: u64,
    /// Bytes the kernel occupies in memory, including its BSS.
    pub image_size: u64,
}

/// Bytes of a kernel that [`parse_header`] wants to see: the header and the section table after it.
pub const HEAD: u64 = 4096;

/// Parses and checks the beginning of a kernel file of `file_len` bytes.
///
/// # Errors
/// A sentence that says what the file is instead, if that can be told.
pub fn parse_header(head: &[u8], file_len: u64) -> std::result::Result<ImageHeader, String> {
    if head.starts_with(&[0x1f, 0x8b]) {
        return Err("is compressed by gzip; unpack it first (gunzip)".into());
    }
    if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return Err("is compressed by zstd; unpack it first (unzstd)".into());
    }
    if head.starts_with(b"\x7fELF") {
        return Err(
            "is an ELF file; use arch/riscv/boot/Image (on Debian: /boot/vmlinux-VERSION)".into(),
        );
    }
    if head.len() < 64 || head[56..60] != *b"RSC\x05" {
        return Err("is not a riscv64 Linux Image".into());
    }
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
    let header = ImageHeader {
        text_offset: word(8),
        image_size: word(16).max(file_len),
    };
    if header.text_offset > 1 << 30 || header.image_size > 1 << 32 {
        return Err("has a damaged header (unreasonable size)".into());
    }
    if sections_end(head).is_some_and(|end| end > file_len) {
        return Err("is cut off; copy or download it again".into());
    }
    Ok(header)
}

/// Bytes the file must have according to its PE sections (Microsoft PE format, "COFF file header" and "section
/// table"). `None` without such a header: only kernels with EFI stub have one, which all distributions' kernels do.
fn sections_end(head: &[u8]) -> Option<u64> {
    let half = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let coff = word(60)? as usize;
    if !head.get(coff..)?.starts_with(b"PE\0\0") {
        return None;
    }
    let table = coff + 24 + usize::from(half(coff + 20)?);
    let end = |section: usize| {
        let at = table + 40 * section;
        Some(u64::from(word(at + 16)?) + u64::from(word(at + 20)?))
    };
    (0..usize::from(half(coff + 6)?)).filter_map(end).max()
}

/// Where everything lies in guest RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Entry point of the kernel.
    pub entry: u64,
    /// First address and end of the initial RAM disk.
    pub initrd: Option<(u64, u64)>,
    /// Address of the device tree.
    pub fdt: u64,
}

/// Finds room for everything in `memory` bytes of RAM.
///
/// # Errors
/// A sentence with the amount of RAM that would do.
pub fn layout(
    memory: u64,
    kernel: ImageHeader,
    initrd_len: Option<u64>,
) -> std::result::Result<Layout, String> {
    let entry = map::RAM_BASE + kernel.text_offset;
    let kernel_end = entry + kernel.image_size;
    let low_end = (map::RAM_BASE + memory).min(1 << 32);
    let need = |end: u64| {
        format!(
            "more guest RAM is needed; try --memory {}M",
            ((end - map::RAM_BASE) >> 20) + 64
        )
    };
    let initrd_len = initrd_len.filter(|&len| len > 0);
    let initrd_room = initrd_len
        .unwrap_or(0)
        .checked_next_multiple_of(PAGE)
        .ok_or("the initrd is too big")?;
    let end = (kernel_end.next_multiple_of(PAGE).checked_add(initrd_room))
        .and_then(|end| end.checked_add(FDT_MAX + MIB2))
        .ok_or("the initrd is too big")?;
    if end > 1 << 32 {
        return Err("kernel and initrd do not fit below 4 GiB".into());
    }
    if end > low_end {
        return Err(need(end));
    }
    let fdt = (low_end - FDT_MAX) / MIB2 * MIB2;
    let initrd = initrd_len.map(|len| (fdt - initrd_room, fdt - initrd_room + len));
    Ok(Layout { entry, initrd, fdt })
}

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
    /// [`Error::User`] if it is no usable kernel.
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

/// Checks a device tree given by the user and returns it.
///
/// # Errors
/// [`Error::User`] if it is no device tree blob.
pub fn read_dtb(path: &Path) -> Result<Vec<u8>> {
    let blob = Input::open("device tree", path)?.read_all(FDT_MAX)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text_offset: u64, image_size: u64) -> Vec<u8> {
        let mut head = vec![0; 64];
        head[8..16].copy_from_slice(&text_offset.to_le_bytes());
        head[16..24].copy_from_slice(&image_size.to_le_bytes());
        head[56..60].copy_from_slice(b"RSC\x05");
        head
    }

    #[test]
    fn header_tells_what_the_file_is() {
        let ok = parse_header(&header(0x20_0000, 0x100_0000), 0x80_0000).unwrap();
        assert_eq!(
            ok,
            ImageHeader {
                text_offset: 0x20_0000,
                image_size: 0x100_0000
            }
        );
        for (bytes, word) in [
            (&b"\x1f\x8b\x08"[..], "gzip"),
            (b"\x7fELF\x02", "ELF"),
            (b"", "not a riscv64"),
            (&header(u64::MAX, 1), "damaged"),
            (&header(0x20_0000, u64::MAX), "damaged"),
        ] {
            assert!(parse_header(bytes, 1 << 20).unwrap_err().contains(word));
        }
    }

    #[test]
    fn a_cut_off_kernel_is_noticed() {
        let mut head = header(MIB2, 0x180_0000);
        head.resize(512, 0);
        head[60..64].copy_from_slice(&64u32.to_le_bytes());
        head[64..68].copy_from_slice(b"PE\0\0");
        head[70] = 1;
        head[84] = 160;
        let section = 64 + 24 + 160;
        head[section + 16..section + 20].copy_from_slice(&0x10_0000u32.to_le_bytes());
        head[section + 20..section + 24].copy_from_slice(&0x1000u32.to_le_bytes());
        assert!(parse_header(&head, 0x10_1000).is_ok());
        assert!(
            parse_header(&head, 0x10_0fff)
                .unwrap_err()
                .contains("cut off")
        );
        // Numbers that point beyond the header are no reason to refuse a kernel, or to panic.
        head[70..72].copy_from_slice(&u16::MAX.to_le_bytes());
        assert!(parse_header(&head, 0x10_1000).is_ok());
        head[60..64].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(parse_header(&head, 0x10_1000).is_ok());
    }

    #[test]
    fn parts_do_not_overlap_and_lie_in_ram() {
        let kernel = ImageHeader {
            text_offset: MIB2,
            image_size: 33_000_001,
        };
        for memory in [64u64 << 20, (64 << 20) + 4096, 1 << 30, 8 << 30] {
            let at = layout(memory, kernel, Some(5_000_001)).unwrap();
            let (start, end) = at.initrd.unwrap();
            assert!(at.entry + kernel.image_size <= start);
            assert_eq!(start % PAGE, 0);
            assert_eq!(end - start, 5_000_001);
            assert!(end <= at.fdt && at.fdt % MIB2 == 0);
            assert!(at.fdt + FDT_MAX <= (map::RAM_BASE + memory).min(1 << 32));
        }
    }

    #[test]
    fn too_little_ram_names_an_amount() {
        let kernel = ImageHeader {
            text_offset: MIB2,
            image_size: 33_000_000,
        };
        assert!(
            layout(32 << 20, kernel, None)
                .unwrap_err()
                .contains("--memory")
        );
        assert!(layout(1 << 40, kernel, Some(u64::MAX)).is_err());
        assert!(
            layout(1 << 40, kernel, Some(3 << 30))
                .unwrap_err()
                .contains("4 GiB")
        );
    }
}
