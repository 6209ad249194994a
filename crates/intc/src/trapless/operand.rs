//! Operands of CSRs that only take writes.

use trapless_isa::port::CsrOp;
use trapless_isa::xtrapless::sgenipi;

use crate::words::field;

/// Setting or clearing bits of a CSR that has none.
pub(super) struct NoSuchAccess;

/// The value written to a write-only CSR; setting or clearing bits is illegal (CSR-1). `None` for a
/// read.
pub(super) fn value_of_write(op: CsrOp) -> Result<Option<u64>, NoSuchAccess> {
    match op {
        CsrOp::Set(_) | CsrOp::Clear(_) => Err(NoSuchAccess),
        _ => Ok(op.written(0)),
    }
}

/// The numbers that an operand of `sgenipi` names.
pub(super) fn targets(value: u64) -> impl Iterator<Item = u16> {
    let base = field(value, sgenipi::BASE, sgenipi::BASE_SHIFT) as u16;
    let mask = field(value, sgenipi::MASK, sgenipi::MASK_SHIFT);
    (0..32u16)
        .filter(move |&i| mask >> i & 1 != 0)
        .filter_map(move |i| base.checked_add(i))
}
