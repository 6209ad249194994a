//! Pages of the base size.

/// Bits of an address that are the offset in its page.
pub const PAGE_SHIFT: u32 = 12;

/// Bytes of a page.
pub const PAGE_SIZE: u64 = 1 << PAGE_SHIFT;

/// Bits of an address that say which page it is in.
pub const PAGE_MASK: u64 = !(PAGE_SIZE - 1);

/// Physical page numbers, as `satp`, `vsatp` and `hgatp` have them in their low bits, and
/// page-table entries from bit 10 on.
pub const PPN: u64 = (1 << 44) - 1;

/// Offset of an address in its page.
#[inline(always)]
pub const fn page_offset(address: u64) -> u64 {
    address & !PAGE_MASK
}
