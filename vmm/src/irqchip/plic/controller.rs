//! The PLIC as the interrupt controller of a guest.

use crate::error::Result;
use crate::irqchip::controller::{
    Features, InterruptController, PHANDLE, Window, external_interrupts,
};
use crate::irqchip::injections::Injections;
use crate::irqchip::options::Injection;
use crate::irqchip::plic::shared::{Line, SharedPlic};
use crate::irqchip::plic::window::ClaimWindow;
use crate::irqchip::wire::{Kind, Wire};
use crate::map;
use std::io;
use std::sync::Arc;
use trapless_devices::{StateReader, StateWriter};
use vm_fdt::FdtWriter;

/// The PLIC. Its guest does not know which of its sources are edge-triggered.
pub struct Controller(Arc<SharedPlic>);

impl Controller {
    /// The controller that `plic` is.
    pub fn new(plic: Arc<SharedPlic>) -> Self {
        Self(plic)
    }
}

impl InterruptController for Controller {
    fn features(&self) -> Features {
        Features {
            name: "plic",
            isa_extension: None,
            late_driver: false,
            holds_pending: false,
            trigger_cell: false,
            device_kind: Kind::Level,
            virtio_kind: Kind::Level,
            edges: true,
            completions: true,
            test_kinds: &[Kind::Level],
        }
    }

    fn connect(&self, source: u32, kind: Kind, _: Option<Injection>) -> Result<Box<dyn Wire>> {
        Ok(Box::new(Line::new(&self.0, source, kind)))
    }

    fn windows(&self) -> Vec<Window> {
        let contexts = map::PLIC_CONTEXTS;
        vec![
            Window {
                name: "plic-setup",
                base: map::PLIC_BASE,
                len: contexts,
                device: self.0.clone(),
            },
            Window {
                name: "plic-claim",
                base: map::PLIC_BASE + contexts,
                len: map::PLIC_LEN - contexts,
                device: Arc::new(ClaimWindow(Arc::clone(&self.0))),
            },
        ]
    }

    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> std::result::Result<(), vm_fdt::Error> {
        let node = fdt.begin_node(&format!("plic@{:x}", map::PLIC_BASE))?;
        fdt.property_string_list(
            "compatible",
            vec!["sifive,plic-1.0.0".into(), "riscv,plic0".into()],
        )?;
        fdt.property_array_u64("reg", &[map::PLIC_BASE, map::PLIC_LEN])?;
        fdt.property_u32("#interrupt-cells", 1)?;
        fdt.property_u32("#address-cells", 0)?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_array_u32("interrupts-extended", &external_interrupts(cpu_intc))?;
        fdt.property_u32("riscv,ndev", map::PLIC_SOURCES)?;
        fdt.property_phandle(PHANDLE)?;
        fdt.end_node(node)
    }

    fn save(&self, to: &mut StateWriter) -> io::Result<()> {
        self.0.save(to);
        Ok(())
    }

    /// Before the devices, which then drive their wires as before.
    fn begin_restore(&self, from: &mut StateReader<'_>) -> std::result::Result<(), String> {
        self.0
            .restore(from)
            .map_err(|e| format!("the saved interrupt controller {e}"))
    }

    fn restore(&self, _: &mut StateReader<'_>) -> std::result::Result<(), String> {
        Ok(())
    }

    fn injections(&self) -> Injections {
        self.0.injections()
    }
}
