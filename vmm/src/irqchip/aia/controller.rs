//! AIA as the interrupt controller of a guest.

use crate::error::Result;
use crate::irqchip::aia::aplic::UserAplic;
use crate::irqchip::aia::device::Aia;
use crate::irqchip::aia::line::Line;
use crate::irqchip::aia::registers::SOURCES;
use crate::irqchip::controller::{
    Features, InterruptController, PHANDLE, Window, external_interrupts,
};
use crate::irqchip::injections::Injections;
use crate::irqchip::messages::MessageController;
use crate::irqchip::options::Injection;
use crate::irqchip::wire::{Kind, Wire};
use crate::map;
use std::io;
use std::sync::Arc;
use trapless_devices::{StateReader, StateWriter};
use vm_fdt::FdtWriter;

/// AIA, whose wires are edge- or level-triggered.
pub struct Controller(Arc<Aia>);

impl Controller {
    /// The controller that `aia` is.
    pub fn new(aia: Arc<Aia>) -> Self {
        Self(aia)
    }
}

impl InterruptController for Controller {
    fn features(&self) -> Features {
        Features {
            name: "aia",
            isa_extension: Some("ssaia"),
            late_driver: false,
            holds_pending: false,
            trigger_cell: true,
            device_kind: Kind::Level,
            // A message of the VMM's APLIC is an edge, which needs no access to a register to end
            // it.
            virtio_kind: match self.0.aplic() {
                Some(_) => Kind::Edge,
                None => Kind::Level,
            },
            edges: true,
            completions: false,
            test_kinds: &[Kind::Edge, Kind::Level],
        }
    }

    fn connect(&self, source: u32, kind: Kind, _: Option<Injection>) -> Result<Box<dyn Wire>> {
        Ok(Box::new(Line::new(&self.0, source, kind)))
    }

    fn windows(&self) -> Vec<Window> {
        let window = |aplic: &Arc<UserAplic>| Window {
            name: "aplic",
            base: map::APLIC_BASE,
            len: map::APLIC_LEN,
            device: aplic.clone(),
        };
        self.0.aplic().map(window).into_iter().collect()
    }

    /// Interrupt files and the APLIC that sends messages to them (bindings `riscv,imsics.yaml` and
    /// `riscv,aplic.yaml`).
    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> std::result::Result<(), vm_fdt::Error> {
        let cpus = cpu_intc.len() as u32;
        let imsics = imsics(cpus);
        let node = fdt.begin_node(&format!("imsics@{:x}", map::IMSIC_BASE))?;
        fdt.property_string("compatible", "riscv,imsics")?;
        fdt.property_array_u64("reg", &[map::IMSIC_BASE, u64::from(cpus) * map::IMSIC_LEN])?;
        fdt.property_u32("#interrupt-cells", 0)?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_null("msi-controller")?;
        fdt.property_u32("#msi-cells", 0)?;
        fdt.property_array_u32("interrupts-extended", &external_interrupts(cpu_intc))?;
        fdt.property_u32("riscv,num-ids", self.0.ids())?;
        fdt.property_phandle(imsics)?;
        fdt.end_node(node)?;
        let node = fdt.begin_node(&format!("interrupt-controller@{:x}", map::APLIC_BASE))?;
        fdt.property_string("compatible", "riscv,aplic")?;
        fdt.property_array_u64("reg", &[map::APLIC_BASE, map::APLIC_LEN])?;
        fdt.property_u32("#interrupt-cells", 2)?;
        fdt.property_u32("#address-cells", 0)?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_u32("msi-parent", imsics)?;
        fdt.property_u32("riscv,num-sources", SOURCES)?;
        fdt.property_phandle(PHANDLE)?;
        fdt.end_node(node)
    }

    fn save(&self, to: &mut StateWriter) -> io::Result<()> {
        self.0.save(to)
    }

    fn restore(&self, from: &mut StateReader<'_>) -> std::result::Result<(), String> {
        self.0.restore(from)
    }

    fn injections(&self) -> Injections {
        self.0.counters.totals()
    }

    fn messages(&self) -> Option<MessageController> {
        Some(MessageController {
            phandle: imsics(self.0.vcpus.into()),
            messages: Arc::clone(&self.0.routes),
        })
    }
}

/// Phandle of the node of the interrupt files of so many vCPUs.
fn imsics(cpus: u32) -> u32 {
    PHANDLE + cpus + 1
}
