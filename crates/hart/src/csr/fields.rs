//! What a write leaves of a register's fields.

/// The bits of `mask` from the new value, the others from the old one.
pub(super) fn merge(old: u64, new: u64, mask: u64) -> u64 {
    old & !mask | new & mask
}

/// `xtvec`: direct and vectored modes exist; writes of reserved modes are ignored.
pub(super) fn tvec(old: u64, new: u64) -> u64 {
    if new & 2 != 0 { old } else { new }
}
