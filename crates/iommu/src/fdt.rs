//! Device tree node (binding `riscv,iommu`).

use vm_fdt::{Error, FdtWriter};

use crate::{LEN, WIRES};

/// What the node says.
#[derive(Debug, Clone, Copy)]
pub struct Links<'a> {
    /// Physical address of the registers.
    pub base: u64,
    /// Phandle of the node.
    pub phandle: u32,
    /// Phandle of the interrupt controller.
    pub interrupt_parent: u32,
    /// Interrupt of the first wire; the others follow.
    pub first_irq: u32,
    /// Cells that follow the number of an interrupt.
    pub trigger_cells: &'a [u32],
    /// Phandle of the controller that messages go to, if there is one.
    pub msi_parent: Option<u32>,
}

/// Adds the node below one with two cells for addresses and sizes.
///
/// # Errors
/// Passes on errors of the writer.
pub fn node(fdt: &mut FdtWriter, links: &Links<'_>) -> Result<(), Error> {
    let node = fdt.begin_node(&format!("iommu@{:x}", links.base))?;
    fdt.property_string_list(
        "compatible",
        vec!["qemu,riscv-iommu".into(), "riscv,iommu".into()],
    )?;
    fdt.property_array_u64("reg", &[links.base, LEN])?;
    fdt.property_u32("#iommu-cells", 1)?;
    fdt.property_u32("interrupt-parent", links.interrupt_parent)?;
    let wires = (0..WIRES as u32).flat_map(|wire| {
        let irq = [links.first_irq + wire];
        [&irq[..], links.trigger_cells].concat()
    });
    fdt.property_array_u32("interrupts", &wires.collect::<Vec<_>>())?;
    if let Some(parent) = links.msi_parent {
        fdt.property_u32("msi-parent", parent)?;
    }
    fdt.property_phandle(links.phandle)?;
    fdt.end_node(node)
}
