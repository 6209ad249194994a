//! Default priorities of interrupts.

use trapless_isa::cause::interrupt;

/// Interrupts in order of decreasing priority (privileged specification, "Machine Interrupt (mip
/// and mie) Registers" and "Hypervisor Interrupt (hvip, hip, and hie) Registers").
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

/// Highest-priority interrupt in a set; numbers from 16 up come after the standard ones, lowest
/// first.
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

/// Flag of an interrupt number that is written to `xcause` untranslated.
pub(crate) const RAW: u64 = 1 << 32;
