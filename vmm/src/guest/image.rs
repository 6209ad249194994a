//! The header of a riscv64 Linux `Image`.

/// Header of a riscv64 `Image` (Linux `Documentation/arch/riscv/boot-image-header.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageHeader {
    /// Load offset from the start of RAM.
    pub text_offset: u64,
    /// Bytes the kernel occupies in memory, including its BSS.
    pub image_size: u64,
}

/// Bytes of a kernel that [`parse_header`] needs: the header and the section table after it.
pub const HEAD: u64 = 4096;

/// Parses and checks the beginning of a kernel file of `file_len` bytes.
///
/// # Errors
/// If it is not a kernel; the message says what the file is instead if it is recognised.
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

/// Bytes the file must have according to its PE sections (Microsoft PE format, "COFF file header"
/// and "section table"). `None` without such a header: only kernels with EFI stub have one, which
/// all distributions' kernels do.
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

#[cfg(test)]
mod tests {
    use super::*;

    const MIB2: u64 = 2 << 20;

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
}
