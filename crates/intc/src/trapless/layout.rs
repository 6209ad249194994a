//! Fields of registers and table words.

use trapless_isa::cause::interrupt;

/// `mip.SSIP`, which is also where `sip` and a guest's `sip` have it.
pub(super) const SSI_HS: u64 = interrupt::SSI;

/// Whether a set of inputs has only those that a vhart's file drives.
pub(super) fn is_vs_level(lines: u64) -> bool {
    lines & !(1 << interrupt::VSSI | 1 << interrupt::VSEI) == 0
}
