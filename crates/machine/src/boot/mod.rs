//! Puts firmware, kernel, initrd, device tree and reset vector into memory before the first
//! instruction.
//!
//! ```text
//!   0x0000_1000  reset vector (ROM), then what it reads
//!   0x8000_0000  firmware
//!   0x8020_0000  kernel (or after the firmware, on a 2 MiB boundary)
//!   + 128 MiB    initrd (or half of RAM, or after the kernel)
//!   top of RAM   device tree (below 3 GiB, on a 2 MiB boundary; else behind the initrd)
//! ```
//!
//! Files are read by the caller and arrive as bytes: everything here treats them as hostile.

pub mod dtb;
pub mod elf;
pub mod image;
pub mod reset;

use vm_memory::{Bytes, GuestAddress};

use crate::Error;
use elf::Elf;
use image::Kernel;
use trapless_hart::Ram;

/// Where kernels are linked or moved to: 2 MiB is what Linux needs for its mappings.
const KERNEL_ALIGN: u64 = 2 << 20;
/// Highest end of the device tree: firmware and early kernels reach it with 32-bit mappings.
const FDT_LIMIT: u64 = 3 << 30;
/// Largest distance of the initrd from the kernel's start.
const INITRD_DISTANCE: u64 = 128 << 20;

/// What to boot. All parts are the bytes of files.
#[derive(Default, Clone)]
pub struct Payload {
    /// M-mode firmware: ELF or flat binary. Without one the kernel itself starts in M-mode.
    pub firmware: Option<Vec<u8>>,
    /// Linux `Image`, gzip of one, or ELF.
    pub kernel: Option<Vec<u8>>,
    /// Initial RAM disk.
    pub initrd: Option<Vec<u8>>,
    /// Kernel command line.
    pub append: String,
    /// Device tree that replaces the machine's own.
    pub dtb: Option<Vec<u8>>,
}

/// Where things went, which the reset vector and the device tree need.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    /// First instruction after the reset vector.
    pub entry: u64,
    /// Where the firmware continues; 0 without a kernel.
    pub kernel: u64,
    /// First address behind kernel and firmware.
    pub kernel_end: u64,
    /// Initrd: first byte and first byte behind it.
    pub initrd: Option<(u64, u64)>,
}

/// What [`load`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Loaded {
    /// Where things went.
    pub placement: Placement,
    /// Symbols of the firmware, if it is an ELF file.
    pub symbols: elf::Symbols,
}

/// Writes `bytes` to RAM at `addr`.
pub(crate) fn write(ram: &Ram, addr: u64, bytes: &[u8], what: &str) -> Result<(), Error> {
    if !ram.contains(addr, bytes.len() as u64) {
        return Err(Error::Invalid(format!(
            "{what} does not fit: {} bytes at {addr:#x}, but RAM is {:#x}..{:#x}; use a larger --ram",
            bytes.len(),
            ram.base(),
            ram.base() + ram.size()
        )));
    }
    ram.expect_writes(addr, bytes.len() as u64);
    ram.guest_memory()
        .write_slice(bytes, GuestAddress(addr))
        .map_err(|e| Error::Invalid(format!("cannot load {what}: {e}")))
}

/// Loads firmware, kernel and initrd.
///
/// # Errors
/// A sentence that names the part that does not fit or is not what it should be.
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
    let align = |addr: u64| {
        addr.checked_next_multiple_of(KERNEL_ALIGN)
            .unwrap_or(u64::MAX)
    };
    if let Some(kernel) = &payload.kernel {
        let kernel = image::parse(kernel, ram.size())
            .map_err(|e| Error::Invalid(format!("cannot load the kernel: {e}")))?;
        match kernel {
            Kernel::Image {
                bytes,
                text_offset,
                memory_size,
            } => {
                let start = align(free).max(ram.base() + text_offset);
                write(ram, start, &bytes, "the kernel")?;
                place.kernel = start;
                place.kernel_end = start.saturating_add(memory_size.max(bytes.len() as u64));
            }
            Kernel::Elf(elf) => {
                if payload.firmware.is_some() && elf.start < free {
                    return Err(Error::Invalid(format!(
                        "the kernel is linked to {:#x}, where the firmware is; link it to {:#x} or \
                         boot it without firmware",
                        elf.start,
                        align(free)
                    )));
                }
                elf.load(ram, "the kernel")?;
                place.kernel = elf.entry;
                place.kernel_end = elf.end;
            }
        }
        if payload.firmware.is_none() {
            place.entry = place.kernel;
        }
    } else if payload.firmware.is_none() {
        return Err(Error::Invalid(
            "there is nothing to boot: give a kernel or a firmware".into(),
        ));
    }
    if let Some(initrd) = &payload.initrd {
        if initrd.is_empty() {
            return Err(Error::Invalid("the initrd file is empty".into()));
        }
        let base = place.kernel.max(ram.base());
        let start = align((base + INITRD_DISTANCE.min(ram.size() / 2)).max(place.kernel_end));
        write(ram, start, initrd, "the initrd")?;
        place.initrd = Some((start, start + initrd.len() as u64));
    }
    place.kernel_end = place.kernel_end.max(free);
    Ok(Loaded {
        placement: place,
        symbols,
    })
}

/// Puts the device tree at the top of RAM (below 3 GiB), or behind everything else if that is taken,
/// and returns its address.
///
/// # Errors
/// A sentence, if there is no room.
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
        Ram::new(crate::map::RAM, mib << 20).unwrap()
    }

    fn payload(kernel: usize, initrd: usize) -> Payload {
        Payload {
            firmware: Some(vec![0x13; 300 << 10]),
            kernel: Some(image::tests::linux_image(kernel, kernel as u64)),
            initrd: Some(vec![1; initrd]),
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
