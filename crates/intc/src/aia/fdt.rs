//! Device tree nodes, as QEMU's `virt` machine has them.

use vm_fdt::{Error, FdtWriter};

use super::aplic::{self, SOURCES};
use super::file::IDENTITIES;
use super::imsic::{Imsics, MACHINE_BASE, SUPERVISOR_BASE};
use super::{APLIC_MACHINE_BASE, APLIC_SUPERVISOR_BASE, MEI, MSI, MTI, SEI};
use crate::EXTERNAL_PHANDLE;
use crate::aclint_plic::{ACLINT_BASE, ACLINT_LEN};

/// Second interrupt cell of an APLIC's source: level-triggered, active high.
pub(super) const LEVEL_HIGH: u32 = 4;

/// The supervisor-level domain is what devices name.
const APLIC_SUPERVISOR: u32 = EXTERNAL_PHANDLE;
const APLIC_MACHINE: u32 = EXTERNAL_PHANDLE + 1;
const IMSIC_SUPERVISOR: u32 = EXTERNAL_PHANDLE + 2;
const IMSIC_MACHINE: u32 = EXTERNAL_PHANDLE + 3;

/// Adds the nodes of the ACLINT, the IMSICs, and the APLIC's domains.
pub(super) fn nodes(
    fdt: &mut FdtWriter,
    cpu_intc: &[u32],
    imsics: Option<&Imsics>,
) -> Result<(), Error> {
    let wires = |irqs: &[u32]| -> Vec<u32> {
        let of = |&cpu: &u32| irqs.iter().flat_map(move |&irq| [cpu, irq]);
        cpu_intc.iter().flat_map(of).collect()
    };
    let node = fdt.begin_node(&format!("clint@{ACLINT_BASE:x}"))?;
    fdt.property_string_list(
        "compatible",
        vec!["sifive,clint0".into(), "riscv,clint0".into()],
    )?;
    fdt.property_array_u64("reg", &[ACLINT_BASE, ACLINT_LEN])?;
    fdt.property_array_u32("interrupts-extended", &wires(&[MSI, MTI]))?;
    fdt.end_node(node)?;

    if let Some(imsics) = imsics {
        let mut node = |base: u64, len: u64, irq: u32, phandle: u32, guest_bits: u32| {
            let node = fdt.begin_node(&format!("interrupt-controller@{base:x}"))?;
            fdt.property_string("compatible", "riscv,imsics")?;
            fdt.property_array_u64("reg", &[base, len])?;
            fdt.property_array_u32("interrupts-extended", &wires(&[irq]))?;
            fdt.property_u32("riscv,num-ids", IDENTITIES.into())?;
            if guest_bits > 0 {
                fdt.property_u32("riscv,guest-index-bits", guest_bits)?;
            }
            fdt.property_null("msi-controller")?;
            fdt.property_null("interrupt-controller")?;
            fdt.property_u32("#interrupt-cells", 0)?;
            fdt.property_u32("#msi-cells", 0)?;
            fdt.property_phandle(phandle)?;
            fdt.end_node(node)
        };
        let bits = imsics.guest_index_bits();
        node(MACHINE_BASE, imsics.machine_len(), MEI, IMSIC_MACHINE, 0)?;
        node(
            SUPERVISOR_BASE,
            imsics.supervisor_len(),
            SEI,
            IMSIC_SUPERVISOR,
            bits,
        )?;
    }

    let mut domain = |base: u64, phandle: u32, irq: u32, imsic: u32, child: Option<u32>| {
        let node = fdt.begin_node(&format!("interrupt-controller@{base:x}"))?;
        fdt.property_string("compatible", "riscv,aplic")?;
        fdt.property_array_u64("reg", &[base, aplic::LEN])?;
        if imsics.is_some() {
            fdt.property_u32("msi-parent", imsic)?;
        } else {
            fdt.property_array_u32("interrupts-extended", &wires(&[irq]))?;
        }
        fdt.property_u32("riscv,num-sources", SOURCES)?;
        if let Some(child) = child {
            fdt.property_u32("riscv,children", child)?;
            // The first is the binding's name, the second the one older firmware reads.
            for name in ["riscv,delegation", "riscv,delegate"] {
                fdt.property_array_u32(name, &[child, 1, SOURCES])?;
            }
        }
        fdt.property_null("interrupt-controller")?;
        fdt.property_u32("#interrupt-cells", 2)?;
        fdt.property_u32("#address-cells", 0)?;
        fdt.property_phandle(phandle)?;
        fdt.end_node(node)
    };
    domain(
        APLIC_MACHINE_BASE,
        APLIC_MACHINE,
        MEI,
        IMSIC_MACHINE,
        Some(APLIC_SUPERVISOR),
    )?;
    domain(
        APLIC_SUPERVISOR_BASE,
        APLIC_SUPERVISOR,
        SEI,
        IMSIC_SUPERVISOR,
        None,
    )
}
