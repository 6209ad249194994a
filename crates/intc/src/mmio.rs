//! Windows in the physical address space.

/// A range of physical addresses of an interrupt architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Name for ledgers and logs, for instance `"plic"`.
    pub name: &'static str,
    /// First byte.
    pub base: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Window {
    /// The `len` bytes from `base` on.
    #[must_use]
    pub const fn new(name: &'static str, base: u64, len: u64) -> Self {
        Self { name, base, len }
    }

    /// Offset of `addr` in the window; `None` outside it.
    #[must_use]
    pub fn offset(&self, addr: u64) -> Option<u64> {
        addr.checked_sub(self.base)
            .filter(|offset| *offset < self.len)
    }
}

/// An MMIO access that reaches no register: wrong address, width or alignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRegister;

/// Rejects accesses of another width than `width` bytes, and misaligned ones.
pub(crate) fn check_access(offset: u64, size: u8, width: u8) -> Result<(), NoRegister> {
    if size == width && offset % u64::from(width) == 0 {
        Ok(())
    } else {
        Err(NoRegister)
    }
}
