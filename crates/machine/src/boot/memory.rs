//! Writing to RAM before the first instruction.

use trapless_hart::Ram;
use vm_memory::{Bytes, GuestAddress};

use crate::error::Error;

/// Rejects `len` bytes at `addr` that are not in RAM.
pub(super) fn room(ram: &Ram, addr: u64, len: u64, what: &str) -> Result<(), Error> {
    if ram.contains(addr, len) {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "{what} does not fit: {len} bytes at {addr:#x}, but RAM is {:#x}..{:#x}; use a larger --ram",
        ram.base(),
        ram.base() + ram.size()
    )))
}

/// Writes `bytes` to RAM at `addr`.
pub(super) fn write(ram: &Ram, addr: u64, bytes: &[u8], what: &str) -> Result<(), Error> {
    room(ram, addr, bytes.len() as u64, what)?;
    ram.expect_writes(addr, bytes.len() as u64);
    ram.guest_memory()
        .write_slice(bytes, GuestAddress(addr))
        .map_err(|e| Error::Invalid(format!("cannot load {what}: {e}")))
}
