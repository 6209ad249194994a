//! Device tree nodes, as for QEMU's `virt` machine.

use trapless_isa::cause::interrupt::{MEI, SEI};
use vm_fdt::{Error, FdtWriter};

use super::aplic::{APLIC_MACHINE, APLIC_SUPERVISOR, SOURCES};
use super::file::IDENTITIES;
use super::imsic::Imsics;
use crate::aclint_plic::ACLINT;
use crate::architecture::EXTERNAL_PHANDLE;
use crate::fdt::{clint, interrupts_extended};
use crate::mmio::Window;

/// Second interrupt cell of an APLIC's source: level-triggered, active high.
pub(super) const LEVEL_HIGH: u32 = 4;

// Phandles. Devices refer to the supervisor-level domain.
const APLIC_S: u32 = EXTERNAL_PHANDLE;
const APLIC_M: u32 = EXTERNAL_PHANDLE + 1;
pub(super) const IMSIC_S: u32 = EXTERNAL_PHANDLE + 2;
const IMSIC_M: u32 = EXTERNAL_PHANDLE + 3;

/// Adds the nodes of the ACLINT, the IMSICs, and the APLIC's domains.
pub(super) fn nodes(
    fdt: &mut FdtWriter,
    cpu_intc: &[u32],
    imsics: Option<&Imsics>,
) -> Result<(), Error> {
    clint(fdt, ACLINT, cpu_intc)?;
    if let Some(imsics) = imsics {
        let bits = imsics.guest_index_bits();
        let machine = Files {
            window: imsics.machine_window(),
            phandle: IMSIC_M,
            wires: interrupts_extended(cpu_intc, &[MEI]),
            guest_index_bits: 0,
        };
        machine.node(fdt)?;
        let supervisor = Files {
            window: imsics.supervisor_window(),
            phandle: IMSIC_S,
            wires: interrupts_extended(cpu_intc, &[SEI]),
            guest_index_bits: bits,
        };
        supervisor.node(fdt)?;
    }
    let target = |imsic: u32, interrupt: u64| match imsics {
        Some(_) => Target::Imsic(imsic),
        None => Target::Wires(interrupts_extended(cpu_intc, &[interrupt])),
    };
    let machine = Domain {
        window: APLIC_MACHINE,
        phandle: APLIC_M,
        target: target(IMSIC_M, MEI),
        child: Some(APLIC_S),
    };
    machine.node(fdt)?;
    let supervisor = Domain {
        window: APLIC_SUPERVISOR,
        phandle: APLIC_S,
        target: target(IMSIC_S, SEI),
        child: None,
    };
    supervisor.node(fdt)
}

/// The interrupt files of one level.
struct Files {
    window: Window,
    phandle: u32,
    wires: Vec<u32>,
    guest_index_bits: u32,
}

impl Files {
    fn node(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        let node = fdt.begin_node(&format!("interrupt-controller@{:x}", self.window.base))?;
        fdt.property_string("compatible", "riscv,imsics")?;
        fdt.property_array_u64("reg", &[self.window.base, self.window.len])?;
        fdt.property_array_u32("interrupts-extended", &self.wires)?;
        fdt.property_u32("riscv,num-ids", IDENTITIES.into())?;
        if self.guest_index_bits > 0 {
            fdt.property_u32("riscv,guest-index-bits", self.guest_index_bits)?;
        }
        fdt.property_null("msi-controller")?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_u32("#interrupt-cells", 0)?;
        fdt.property_u32("#msi-cells", 0)?;
        fdt.property_phandle(self.phandle)?;
        fdt.end_node(node)
    }
}

/// Target of a domain's interrupts.
enum Target {
    /// As messages to the interrupt files with this phandle.
    Imsic(u32),
    /// To the harts directly: `interrupts-extended`.
    Wires(Vec<u32>),
}

/// A domain of the APLIC.
struct Domain {
    window: Window,
    phandle: u32,
    target: Target,
    /// Phandle of its child domain.
    child: Option<u32>,
}

impl Domain {
    fn node(&self, fdt: &mut FdtWriter) -> Result<(), Error> {
        let node = fdt.begin_node(&format!("interrupt-controller@{:x}", self.window.base))?;
        fdt.property_string("compatible", "riscv,aplic")?;
        fdt.property_array_u64("reg", &[self.window.base, self.window.len])?;
        match &self.target {
            Target::Imsic(imsic) => fdt.property_u32("msi-parent", *imsic)?,
            Target::Wires(wires) => fdt.property_array_u32("interrupts-extended", wires)?,
        }
        fdt.property_u32("riscv,num-sources", SOURCES)?;
        if let Some(child) = self.child {
            fdt.property_u32("riscv,children", child)?;
            // The first is the binding's name, the second is read by older firmware.
            for name in ["riscv,delegation", "riscv,delegate"] {
                fdt.property_array_u32(name, &[child, 1, SOURCES])?;
            }
        }
        fdt.property_null("interrupt-controller")?;
        fdt.property_u32("#interrupt-cells", 2)?;
        fdt.property_u32("#address-cells", 0)?;
        fdt.property_phandle(self.phandle)?;
        fdt.end_node(node)
    }
}
