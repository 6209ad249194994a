//! Default priorities of interrupts.

use trapless_isa::cause::interrupt;

/// Interrupts in order of decreasing priority (section 3.1.9, with the H extension's).
const PRIORITY: [u64; 11] = [
    interrupt::MEI,
    interrupt::MSI,
    interrupt::MTI,
    interrupt::SEI,
    interrupt::SSI,
    interrupt::STI,
    interrupt::SGEI,
    interrupt::VSEI,
    interrupt::VSSI,
    interrupt::VSTI,
    interrupt::LCOFI,
];

/// Highest-priority interrupt in a set; numbers from 16 up come after the standard ones, lowest first.
pub(crate) fn first(pending: u64) -> Option<u64> {
    PRIORITY
        .into_iter()
        .find(|&irq| pending >> irq & 1 != 0)
        .or_else(|| (pending != 0).then(|| u64::from(pending.trailing_zeros())))
}

/// Place of an interrupt in the order of decreasing priority.
pub(crate) fn position(irq: u64) -> usize {
    let named = PRIORITY.into_iter().position(|known| known == irq);
    named.unwrap_or(PRIORITY.len() + irq as usize)
}

/// Marks an interrupt number as the one that the trap's cause shows.
pub(crate) const RAW: u64 = 1 << 32;
