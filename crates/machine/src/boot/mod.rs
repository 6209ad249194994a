//! Puts firmware, kernel, initrd, device tree and reset vector into memory before the first
//! instruction.
//!
//! ```text
//!   0x0000_1000  reset vector (ROM), then its data
//!   0x8000_0000  firmware
//!   0x8020_0000  kernel (or after the firmware, on a 2 MiB boundary)
//!   + 128 MiB    initrd (or half of RAM, or after the kernel)
//!   top of RAM   device tree (below 3 GiB, on a 2 MiB boundary; else behind the initrd)
//! ```
//!
//! Files are read by the caller and passed as bytes, which are not trusted. Kernel and initrd,
//! which are large, may stay files until they are loaded.

mod content;
pub mod dtb;
pub mod elf;
pub mod image;
mod memory;
pub(crate) mod placement;
pub mod reset;

use trapless_hart::Ram;

use crate::error::Error;
pub use content::Content;
use elf::Elf;
use image::{Header, Kernel};
use memory::write;
pub use placement::{Payload, Placement};

/// Where kernels are linked or moved to: 2 MiB is what Linux needs for its mappings.
const KERNEL_ALIGN: u64 = 2 << 20;
/// Highest end of the device tree: firmware and early kernels reach it with 32-bit mappings.
const FDT_LIMIT: u64 = 3 << 30;
/// Largest distance of the initrd from the kernel's start.
const INITRD_DISTANCE: u64 = 128 << 20;
/// Maximum size of a kernel's file even if RAM is smaller: symbols and debug information are not
/// loaded.
const KERNEL_FILE: u64 = 1 << 30;

/// Result of [`load`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Loaded {
    /// Where the parts were placed.
    pub placement: Placement,
    /// Symbols of the firmware, if it is an ELF file.
    pub symbols: elf::Symbols,
}

/// Loads firmware, kernel and initrd.
///
/// # Errors
/// If a part does not fit or is malformed; the message names it.
pub fn load(ram: &Ram, payload: &Payload) -> Result<Loaded, Error> {
    let mut place = Placement::default();
    let mut symbols = elf::Symbols::default();
    let mut free = ram.base();
    if let Some(firmware) = &payload.firmware {
        if firmware.is_empty() {
            return Err(Error::Invalid("the firmware file is empty".into()));
        }
        if elf::is_elf(firmware) {
            let elf = Elf::parse(firmware)
                .map_err(|e| Error::Invalid(format!("cannot load the firmware: {e}")))?;
            elf.load(ram, "the firmware")?;
            place.entry = elf.entry;
            symbols = elf.symbols;
            free = elf.end;
        } else {
            write(ram, ram.base(), firmware, "the firmware")?;
            place.entry = ram.base();
            free = ram.base() + firmware.len() as u64;
        }
    }
    if let Some(kernel) = &payload.kernel {
        let free = payload.firmware.is_some().then_some(free);
        (place.kernel, place.kernel_end) = load_kernel(ram, kernel, free)?;
        if payload.firmware.is_none() {
            place.entry = place.kernel;
        }
    } else if payload.firmware.is_none() {
        return Err(Error::Invalid(
            "there is nothing to boot: give a kernel or a firmware".into(),
        ));
    }
    if let Some(initrd) = &payload.initrd {
        let base = place.kernel.max(ram.base());
        let start = align((base + INITRD_DISTANCE.min(ram.size() / 2)).max(place.kernel_end));
        let len = initrd.load(ram, start, "the initrd")?;
        place.initrd = Some((start, start + len));
    }
    place.kernel_end = place.kernel_end.max(free);
    Ok(Loaded {
        placement: place,
        symbols,
    })
}

fn align(addr: u64) -> u64 {
    addr.checked_next_multiple_of(KERNEL_ALIGN)
        .unwrap_or(u64::MAX)
}

/// Loads a kernel behind the firmware, which ends at `firmware`. Returns its entry point and the
/// first address behind the memory that it needs.
fn load_kernel(ram: &Ram, kernel: &Content, firmware: Option<u64>) -> Result<(u64, u64), Error> {
    const WHAT: &str = "the kernel";
    let free = align(firmware.unwrap_or(ram.base()));
    let place = |header: &Header| free.max(ram.base() + header.text_offset);
    let end = |start: u64, header: &Header, len: u64| {
        let size = header.memory_size.max(len);
        (start, start.saturating_add(size))
    };
    let (first, len) = kernel.start(WHAT)?;
    if let Some(header) = image::header(&first, len) {
        let start = place(&header);
        let len = kernel.load(ram, start, WHAT)?;
        return Ok(end(start, &header, len));
    }
    let bytes = kernel.bytes(ram.size().max(KERNEL_FILE), WHAT)?;
    let parsed = image::parse(&bytes, ram.size())
        .map_err(|e| Error::Invalid(format!("cannot load the kernel: {e}")))?;
    match parsed {
        Kernel::Image { bytes, header } => {
            let start = place(&header);
            write(ram, start, &bytes, WHAT)?;
            Ok(end(start, &header, bytes.len() as u64))
        }
        Kernel::Flat(bytes) => {
            write(ram, free, &bytes, WHAT)?;
            Ok((free, free + bytes.len() as u64))
        }
        Kernel::Elf(mut elf) => {
            let outside = elf.end <= ram.base() || elf.start >= ram.base() + ram.size();
            if elf.virtual_code && outside {
                elf.move_to(free);
            }
            if firmware.is_some_and(|end| elf.start < end) {
                return Err(Error::Invalid(format!(
                    "the kernel is linked to {:#x}, where the firmware is; link it to {free:#x} or boot it without \
                     firmware",
                    elf.start
                )));
            }
            elf.load(ram, WHAT)?;
            Ok((elf.entry, elf.end))
        }
    }
}

/// Puts the device tree at the top of RAM (below 3 GiB), or behind everything else if that is
/// taken, and returns its address.
///
/// # Errors
/// If there is no room.
pub fn place_fdt(ram: &Ram, place: &Placement, fdt: &[u8]) -> Result<u64, Error> {
    let len = fdt.len() as u64;
    let align = if ram.size() >= 16 << 20 {
        KERNEL_ALIGN
    } else {
        4096
    };
    let end = (ram.base() + ram.size()).min(FDT_LIMIT.max(ram.base()));
    let high = end.saturating_sub(len) / align * align;
    let used = place
        .kernel_end
        .max(place.initrd.map_or(0, |(_, end)| end))
        .max(ram.base());
    let behind = used.checked_next_multiple_of(align).unwrap_or(u64::MAX);
    let start = if high >= used { high } else { behind };
    if !ram.contains(start, len) {
        return Err(Error::Invalid(
            "kernel and initrd leave no room for the device tree; use a larger --ram".into(),
        ));
    }
    write(ram, start, fdt, "the device tree")?;
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ram(mib: u64) -> Ram {
        Ram::new(crate::bus::map::RAM, mib << 20).unwrap()
    }

    fn payload(kernel: usize, initrd: usize) -> Payload {
        Payload {
            firmware: Some(vec![0x13; 300 << 10]),
            kernel: Some(Content::Bytes(image::tests::linux_image(
                kernel,
                kernel as u64,
            ))),
            initrd: Some(Content::Bytes(vec![1; initrd])),
            ..Payload::default()
        }
    }

    /// Loads and checks that no part lies on another.
    fn layout(ram: &Ram, payload: &Payload) -> (Placement, u64) {
        let place = load(ram, payload).unwrap().placement;
        let fdt = place_fdt(ram, &place, &[0xee; 20_000]).unwrap();
        let (start, end) = place.initrd.unwrap();
        assert_eq!(place.kernel % KERNEL_ALIGN, 0);
        assert!(place.kernel >= ram.base() + (300 << 10));
        assert!(place.kernel_end <= start);
        assert!(end <= fdt || fdt + 20_000 <= start && place.kernel_end <= fdt);
        (place, fdt)
    }

    #[test]
    fn parts_lie_where_qemu_puts_them() {
        let ram = ram(1024);
        let (place, fdt) = layout(&ram, &payload(30 << 20, 5 << 20));
        assert_eq!((place.entry, place.kernel), (0x8000_0000, 0x8020_0000));
        assert_eq!(place.initrd.unwrap().0, 0x8820_0000);
        assert_eq!(fdt, 0xbfe0_0000);
    }

    #[test]
    fn initrd_beyond_the_limit_of_the_device_tree_is_fine() {
        let ram = ram(4096);
        let (place, fdt) = layout(&ram, &payload(1 << 20, 900 << 20));
        assert!(fdt >= place.initrd.unwrap().1, "{fdt:#x}");
    }

    #[test]
    fn small_ram_is_filled_or_refused() {
        layout(&ram(16), &payload(3 << 20, 3 << 20));
        let place = load(&ram(16), &payload(3 << 20, 6 << 20))
            .unwrap()
            .placement;
        let error = place_fdt(&ram(16), &place, &[0; 3 << 20])
            .unwrap_err()
            .to_string();
        assert!(error.contains("larger --ram"), "{error}");
    }
}
