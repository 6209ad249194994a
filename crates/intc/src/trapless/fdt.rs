//! The extension in the device tree of the host.

use trapless_isa::xtrapless::limits;
use vm_fdt::{Error, FdtWriter};

use crate::fdt::interrupts_extended;

/// Adds the nodes: the targets of notification interrupts (`h` only), and `sgenipi` with hart
/// numbers.
pub(super) fn nodes(fdt: &mut FdtWriter, cpu_intc: &[u32], h: bool) -> Result<(), Error> {
    if h {
        let wires = interrupts_extended(cpu_intc, &[limits::NOTIFY_IRQ]);
        let node = fdt.begin_node("virtual-interrupts")?;
        fdt.property_string("compatible", "trapless,virtual-interrupts")?;
        fdt.property_array_u32("interrupts-extended", &wires)?;
        fdt.end_node(node)?;
    }
    let node = fdt.begin_node("ipi")?;
    fdt.property_string("compatible", "trapless,ipi")?;
    fdt.end_node(node)
}
