//! What to boot, and where its parts are placed.

use super::content::Content;

/// What to boot. Parts are the bytes of files.
#[derive(Default, Clone)]
pub struct Payload {
    /// M-mode firmware: ELF or flat binary. Without one the kernel itself starts in M-mode.
    pub firmware: Option<Vec<u8>>,
    /// Linux `Image`, ELF, flat binary, or gzip of the first or the last.
    pub kernel: Option<Content>,
    /// Initial RAM disk.
    pub initrd: Option<Content>,
    /// Kernel command line.
    pub append: String,
    /// Device tree that replaces the machine's own.
    pub dtb: Option<Vec<u8>>,
}

/// Where parts were placed, for the reset vector and the device tree.
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
