//! Kernel file formats: Linux `Image`, ELF, flat binary, gzip of the first and the last.

use std::io::Read;

use trapless_isa::decode::decode;
use trapless_isa::inst::Op;

use super::elf::{Elf, is_elf};

/// A kernel that is ready to be placed.
#[derive(Debug)]
pub enum Kernel<'a> {
    /// Linux `Image` (Documentation/arch/riscv/boot-image-header.rst).
    Image {
        /// The file, decompressed.
        bytes: std::borrow::Cow<'a, [u8]>,
        /// Where it is loaded.
        header: Header,
    },
    /// ELF, loaded to its physical addresses.
    Elf(Elf<'a>),
    /// Anything else: starts at its first byte, as with QEMU.
    Flat(std::borrow::Cow<'a, [u8]>),
}

/// Length of the header.
const HEADER: usize = 64;
const MAGIC_AT: usize = 56;
const MAGIC: &[u8] = b"RSC\x05";
/// Larger offsets are rejected: no kernel has one, and the sum must not wrap.
const MAX_TEXT_OFFSET: u64 = 64 << 20;

/// Recognises the format of `file`. At most `limit` bytes are decompressed.
///
/// # Errors
/// If the file is something else or malformed; the message says what.
pub fn parse(file: &[u8], limit: u64) -> Result<Kernel<'_>, String> {
    if is_elf(file) {
        return Elf::parse(file).map(Kernel::Elf);
    }
    if file.starts_with(&[0x1f, 0x8b]) {
        let mut bytes = Vec::new();
        flate2::read::MultiGzDecoder::new(file)
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|e| format!("the gzip file is damaged or truncated ({e})"))?;
        if bytes.len() as u64 > limit {
            return Err("it is larger than RAM when decompressed; use a larger --ram".into());
        }
        return unwrapped(bytes.into());
    }
    unwrapped(file.into())
}

/// The header of a Linux `Image`, if a file of `len` bytes that begins with these is one and
/// complete as far as the header shows: then the rest need not be read.
pub fn header(start: &[u8], len: u64) -> Option<Header> {
    let plain = !is_elf(start) && !start.starts_with(&[0x1f, 0x8b]);
    plain.then(|| check(start, len).ok()).flatten()
}

/// Placement of a Linux `Image`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Offset of its start from a 2 MiB boundary of RAM.
    pub text_offset: u64,
    /// Memory it needs from its start, including what it clears itself.
    pub memory_size: u64,
}

/// Parses an uncompressed file: an image, or a flat binary unless it is known to be something else.
fn unwrapped(bytes: std::borrow::Cow<'_, [u8]>) -> Result<Kernel<'_>, String> {
    if !bytes.is_empty() && bytes.get(MAGIC_AT..MAGIC_AT + 4) != Some(MAGIC) {
        return match foreign(&bytes) {
            Some(what) => Err(what.into()),
            None => Ok(Kernel::Flat(bytes)),
        };
    }
    let header = check(&bytes, bytes.len() as u64)?;
    Ok(Kernel::Image { bytes, header })
}

/// A message about a file without the magic number of a RISC-V Linux image, if it cannot be
/// started.
fn foreign(bytes: &[u8]) -> Option<&'static str> {
    let text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    if bytes.get(4..8) == Some(b"zimg") {
        Some("it is a compressed EFI kernel; take the Image or Image.gz of the same build")
    } else if bytes.get(MAGIC_AT..MAGIC_AT + 4) == Some(b"ARMd") {
        Some("it is a kernel for arm64")
    } else if bytes.starts_with(b"070701") {
        Some("it is an initial RAM disk; give it with --initrd")
    } else if bytes[..bytes.len().min(HEADER)].iter().all(text) || !starts_with_code(bytes) {
        Some(
            "it is neither a RISC-V Linux Image, a gzip file of one, an ELF file nor a flat binary",
        )
    } else {
        None
    }
}

/// Whether a file can be a flat binary: longer than the header of an image that was cut off, and
/// legal instructions at its start.
fn starts_with_code(bytes: &[u8]) -> bool {
    let mut at = 0;
    for _ in 0..4 {
        let Some(raw) = bytes.get(at..at + 4).and_then(|b| b.try_into().ok()) else {
            return false;
        };
        let inst = decode(u32::from_le_bytes(raw));
        // A jump may skip data.
        match inst.op {
            Op::Illegal => return false,
            Op::Jal | Op::Jalr => break,
            _ => at += usize::from(inst.len),
        }
    }
    bytes.len() >= HEADER
}

fn check(bytes: &[u8], len: u64) -> Result<Header, String> {
    if bytes.is_empty() {
        return Err("the file is empty".into());
    }
    if bytes.get(MAGIC_AT..MAGIC_AT + 4) != Some(MAGIC) {
        return Err("it is not a RISC-V Linux Image".into());
    }
    if bytes.len() < HEADER {
        return Err(format!(
            "the Linux Image is truncated: it has {} bytes of at least {HEADER}",
            bytes.len()
        ));
    }
    let word = |at: usize| -> u64 {
        bytes
            .get(at..at + 8)
            .map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap_or_default()))
    };
    let (text_offset, memory_size) = (word(8), word(16));
    if text_offset > MAX_TEXT_OFFSET || memory_size > 1 << 40 {
        return Err("the header of the Linux Image is damaged".into());
    }
    // Images with an EFI stub begin with `MZ`, and their headers have the end of the last section.
    if bytes.starts_with(b"MZ") && pe_file_size(bytes).is_none() {
        return Err("the Linux Image is truncated: it ends inside its EFI header".into());
    }
    if let Some(expected) = pe_file_size(bytes).filter(|&size| size > len) {
        return Err(format!(
            "the Linux Image is truncated: it has {len} bytes of at least {expected}"
        ));
    }
    Ok(Header {
        text_offset,
        memory_size,
    })
}

/// End of the last section according to the EFI header that Linux images carry.
fn pe_file_size(file: &[u8]) -> Option<u64> {
    let half = |at: usize| {
        file.get(at..at + 2)
            .map(|b| u16::from_le_bytes([b[0], b[1]]))
    };
    let word = |at: usize| Some(u64::from(half(at)?) | u64::from(half(at + 2)?) << 16);
    if !file.starts_with(b"MZ") {
        return None;
    }
    let pe = word(0x3c)? as usize;
    if file.get(pe..pe.checked_add(4)?)? != b"PE\0\0" {
        return None;
    }
    let sections = usize::from(half(pe + 6)?);
    let table = pe + 24 + usize::from(half(pe + 20)?);
    (0..sections.min(16))
        .filter_map(|i| Some(word(table + 40 * i + 16)? + word(table + 40 * i + 20)?))
        .max()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A Linux Image of `len` bytes that claims `memory` bytes.
    pub fn linux_image(len: usize, memory: u64) -> Vec<u8> {
        let mut image = vec![0x13; len];
        image[8..16].copy_from_slice(&0x20_0000u64.to_le_bytes());
        image[16..24].copy_from_slice(&memory.to_le_bytes());
        image[MAGIC_AT..MAGIC_AT + 4].copy_from_slice(MAGIC);
        image
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        use std::io::Write;
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(bytes).unwrap();
        gz.finish().unwrap()
    }

    #[test]
    fn compressed_image_is_the_same_kernel() {
        let image = linux_image(5000, 9000);
        let packed = gzip(&image);
        let Kernel::Image { bytes, header } = parse(&packed, 1 << 20).unwrap() else {
            panic!("not an image");
        };
        assert_eq!((bytes.as_ref(), header.memory_size), (&image[..], 9000));
        assert_eq!(super::header(&image[..4096], 5000), Some(header));
        assert_eq!(super::header(&packed, packed.len() as u64), None);
    }

    #[test]
    fn anything_else_is_a_flat_binary() {
        let mut code = [0; HEADER];
        code[0] = 0x6f;
        let flat =
            |file: &[u8]| matches!(parse(file, 100), Ok(Kernel::Flat(bytes)) if *bytes == code);
        assert!(flat(&code) && flat(&gzip(&code)));
    }

    #[test]
    fn broken_kernels_are_explained() {
        let packed = gzip(&linux_image(5000, 9000));
        for (file, limit, part) in [
            (&packed[..packed.len() / 2], 1 << 20, "truncated"),
            (&packed[..], 4000, "larger than RAM"),
            (b"", 1 << 20, "empty"),
            (b"#!/bin/sh", 1 << 20, "neither"),
            (b"070701000000", 1 << 20, "--initrd"),
            (&linux_image(5000, u64::MAX), 1 << 20, "header"),
            (&linux_image(63, 64), 1 << 20, "truncated"),
            (b"\x7fELF", 1 << 20, "truncated"),
        ] {
            let error = parse(file, limit).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn truncated_efi_image_is_noticed() {
        let mut image = linux_image(4096, 4096);
        image[..2].copy_from_slice(b"MZ");
        image[0x3c..0x40].copy_from_slice(&64u32.to_le_bytes());
        image[64..68].copy_from_slice(b"PE\0\0");
        image[64 + 6..64 + 8].copy_from_slice(&1u16.to_le_bytes());
        image[64 + 20..64 + 22].copy_from_slice(&0u16.to_le_bytes());
        let section = 64 + 24;
        image[section + 16..section + 20].copy_from_slice(&3000u32.to_le_bytes());
        image[section + 20..section + 24].copy_from_slice(&1096u32.to_le_bytes());
        assert!(parse(&image, 1 << 20).is_ok());
        assert!(header(&image[..1000], 4096).is_some() && header(&image[..1000], 4000).is_none());
        let error = parse(&image[..4000], 1 << 20).unwrap_err();
        assert!(error.contains("truncated"), "{error}");
    }
}
