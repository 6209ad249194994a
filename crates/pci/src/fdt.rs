//! Device tree node of the host (binding `host-generic-pci`).

use vm_fdt::{Error, FdtWriter};

use crate::host::{PINS, wire};
use crate::map::Windows;

/// What the node refers to.
#[derive(Debug, Clone, Copy)]
pub struct Links<'a> {
    /// Phandle of the interrupt controller.
    pub interrupt_parent: u32,
    /// Interrupt of the first wire; the others follow.
    pub first_irq: u32,
    /// Cells that follow the number of an interrupt.
    pub trigger_cells: &'a [u32],
    /// Phandle of the controller that messages go to; `None`: there is none, functions interrupt by
    /// wires.
    pub msi_parent: Option<u32>,
    /// Phandle of the IOMMU before all functions, if there is one.
    pub iommu: Option<u32>,
}

/// Codes of address spaces in `ranges` (Open Firmware's PCI binding).
const PORTS: u32 = 0x0100_0000;
const MEMORY32: u32 = 0x0200_0000;
const MEMORY64: u32 = 0x0300_0000;

/// Adds the node below one with two cells for addresses and sizes.
///
/// # Errors
/// Passes on errors of the writer.
pub fn node(fdt: &mut FdtWriter, windows: &Windows, links: &Links<'_>) -> Result<(), Error> {
    let ecam = &windows.ecam;
    let node = fdt.begin_node(&format!("pci@{:x}", ecam.start))?;
    fdt.property_string("compatible", "pci-host-ecam-generic")?;
    fdt.property_string("device_type", "pci")?;
    fdt.property_u32("#address-cells", 3)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_u32("#interrupt-cells", 1)?;
    fdt.property_u32("linux,pci-domain", 0)?;
    fdt.property_array_u32("bus-range", &[0, 255])?;
    fdt.property_null("dma-coherent")?;
    fdt.property_array_u64("reg", &[ecam.start, ecam.end - ecam.start])?;
    // Ports begin at 0 on the bus; memory has the same addresses there.
    let ranges = [
        (PORTS, 0, &windows.ports),
        (MEMORY32, windows.low.start, &windows.low),
        (MEMORY64, windows.high.start, &windows.high),
    ];
    let cells = ranges.map(|(space, bus, window)| {
        let [bus, base, len] = [bus, window.start, window.end - window.start]
            .map(|n: u64| [(n >> 32) as u32, n as u32]);
        [&[space][..], &bus, &base, &len].concat()
    });
    fdt.property_array_u32("ranges", &cells.concat())?;
    // Two bits of the device number tell the wire.
    fdt.property_array_u32("interrupt-map-mask", &[(PINS as u32 - 1) << 11, 0, 0, 7])?;
    let mut map = Vec::new();
    for device in 0..PINS {
        for pin in 0..PINS {
            let irq = links.first_irq + wire(device, pin) as u32;
            map.extend([(device as u32) << 11, 0, 0, pin as u32 + 1]);
            map.extend([links.interrupt_parent, irq]);
            map.extend(links.trigger_cells);
        }
    }
    fdt.property_array_u32("interrupt-map", &map)?;
    if let Some(parent) = links.msi_parent {
        fdt.property_u32("msi-parent", parent)?;
    }
    if let Some(iommu) = links.iommu {
        // All routing IDs, as they are.
        fdt.property_array_u32("iommu-map", &[0, iommu, 0, 0x1_0000])?;
    }
    fdt.end_node(node)
}
