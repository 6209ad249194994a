//! Addresses of kernel, initial RAM disk and device tree in guest RAM.
//!
//! ```text
//! RAM_BASE + text_offset   kernel Image (text_offset is 2 MiB on riscv64)
//!         ...              free
//! below the tree           initial RAM disk, page aligned
//! end of low RAM           device tree, 2 MiB aligned
//! ```
//!
//! "Low" RAM ends at 4 GiB at the latest, where every kernel configuration can reach it early.

use trapless_isa::page::PAGE_SIZE;

use crate::guest::image::ImageHeader;
use crate::map;

/// The largest device tree Linux maps early.
pub const FDT_MAX: u64 = 2 << 20;
const MIB2: u64 = 2 << 20;

/// Addresses of all parts in guest RAM.
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
/// If RAM is too small; the message has the amount that suffices.
pub fn layout(memory: u64, kernel: ImageHeader, initrd_len: Option<u64>) -> Result<Layout, String> {
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
        .checked_next_multiple_of(PAGE_SIZE)
        .ok_or("the initrd is too big")?;
    let end = (kernel_end
        .next_multiple_of(PAGE_SIZE)
        .checked_add(initrd_room))
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(start % PAGE_SIZE, 0);
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
