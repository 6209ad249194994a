//! Device tree nodes shared by several interrupt architectures.

use trapless_isa::cause::interrupt;
use vm_fdt::{Error, FdtWriter};

use crate::mmio::Window;

/// Value of `interrupts-extended`: for each hart's local interrupt controller in `cpu_intc`, all
/// `interrupts` (codes as in `mcause`).
#[must_use]
pub fn interrupts_extended(cpu_intc: &[u32], interrupts: &[u64]) -> Vec<u32> {
    let of = |&cpu: &u32| interrupts.iter().flat_map(move |&code| [cpu, code as u32]);
    cpu_intc.iter().flat_map(of).collect()
}

/// Adds the node of a CLINT-compatible window: MSWI and MTIMER.
///
/// # Errors
/// Those of the writer.
pub fn clint(fdt: &mut FdtWriter, window: Window, cpu_intc: &[u32]) -> Result<(), Error> {
    let node = fdt.begin_node(&format!("clint@{:x}", window.base))?;
    fdt.property_string_list(
        "compatible",
        vec!["sifive,clint0".into(), "riscv,clint0".into()],
    )?;
    fdt.property_array_u64("reg", &[window.base, window.len])?;
    let wires = interrupts_extended(cpu_intc, &[interrupt::MSI, interrupt::MTI]);
    fdt.property_array_u32("interrupts-extended", &wires)?;
    fdt.end_node(node)
}
