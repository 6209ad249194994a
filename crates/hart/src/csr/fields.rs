//! Values of a register's fields after a write.

use trapless_isa::csr::hstatus;

/// The bits of `mask` from the new value, the others from the old one.
pub(super) fn merge(old: u64, new: u64, mask: u64) -> u64 {
    old & !mask | new & mask
}

/// `xtvec`: direct and vectored modes exist; writes of reserved modes are ignored.
pub(super) fn tvec(old: u64, new: u64) -> u64 {
    if new & 2 != 0 { old } else { new }
}

/// Number of the guest external interrupt that `hstatus.VGEIN` selects; 0 for none.
pub(super) fn vgein(value: u64) -> u64 {
    (value & hstatus::VGEIN) >> hstatus::VGEIN.trailing_zeros()
}
