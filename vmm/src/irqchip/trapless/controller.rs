//! Xtrapless as the interrupt controller of a guest.

use crate::error::{Error, Result};
use crate::irqchip::controller::{
    Features, InterruptController, PHANDLE, Permit, Watch, external_interrupts,
};
use crate::irqchip::injections::Injections;
use crate::irqchip::messages::MessageController;
use crate::irqchip::options::Injection;
use crate::irqchip::trapless::chip::Chip;
use crate::irqchip::trapless::line::Line;
use crate::irqchip::trapless::messages::SourceMessages;
use crate::irqchip::trapless::source::MESSAGES;
use crate::irqchip::trapless::uapi;
use crate::irqchip::wire::{Kind, Wire};
use crate::kvm::sbi;
use crate::map;
use std::io;
use std::sync::Arc;
use trapless_devices::{StateReader, StateWriter};
use trapless_isa::xtrapless;
use vm_fdt::FdtWriter;
use vmm_sys_util::eventfd::EventFd;

/// Xtrapless, with the default way of injection of devices.
pub struct Controller {
    chip: Arc<Chip>,
    way: Injection,
}

impl Controller {
    /// A controller with `chip`, whose devices interrupt by `way`.
    pub fn new(chip: Arc<Chip>, way: Injection) -> Self {
        Self { chip, way }
    }
}

impl InterruptController for Controller {
    fn features(&self) -> Features {
        let device_kind = match self.way {
            Injection::Ugenvsei | Injection::Ioctl => Kind::Level,
            // An irqfd cannot lower the line, so completion must.
            Injection::Irqfd => Kind::Resample,
        };
        Features {
            name: "trapless",
            isa_extension: Some(xtrapless::isa::XTRAPLESSVI),
            late_driver: true,
            holds_pending: true,
            trigger_cell: true,
            device_kind,
            virtio_kind: device_kind,
            edges: true,
            completions: true,
            test_kinds: &[Kind::Edge, Kind::Level, Kind::Resample],
        }
    }

    fn connect(&self, source: u32, kind: Kind, way: Option<Injection>) -> Result<Box<dyn Wire>> {
        let way = match (kind, way.unwrap_or(self.way)) {
            // Nothing would lower the line.
            (Kind::Level, Injection::Irqfd) => Injection::Ioctl,
            (_, way) => way,
        };
        let line = Line::connect(&self.chip, source as u16, kind, way)
            .map_err(|e| Error::failed("KVM refuses an interrupt source", e))?;
        Ok(Box::new(line))
    }

    fn interrupt_by(&self, source: u32, event: &EventFd) -> io::Result<bool> {
        self.chip.interrupt_by(source as u16, event).map(|()| true)
    }

    fn resample_by(&self, source: u32, trigger: &EventFd, resample: &EventFd) -> io::Result<bool> {
        let chip = &self.chip;
        chip.resample_by(source as u16, trigger, resample)
            .map(|()| true)
    }

    fn drive_by(&self, source: u32, trigger: &EventFd) -> io::Result<bool> {
        self.chip.drive_by(source as u16, trigger)
    }

    /// Xtrapless has CSRs only, so its nodes have no registers; but messages need a place.
    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> std::result::Result<(), vm_fdt::Error> {
        let name = match self.chip.has_messages() {
            true => format!("interrupt-controller@{:x}", map::MESSAGES_BASE),
            false => "interrupt-controller".into(),
        };
        let node = fdt.begin_node(&name)?;
        fdt.property_string("compatible", "trapless,irqchip")?;
        fdt.property_u32("#interrupt-cells", 2)?;
        fdt.property_u32("#address-cells", 0)?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_array_u32("interrupts-extended", &external_interrupts(cpu_intc))?;
        fdt.property_u32("trapless,num-sources", self.chip.highest().into())?;
        if self.chip.has_messages() {
            fdt.property_array_u64("reg", &[map::MESSAGES_BASE, map::MESSAGES_LEN])?;
            fdt.property_null("msi-controller")?;
            fdt.property_u32("#msi-cells", 0)?;
            let (first, count) = (*MESSAGES.start(), MESSAGES.len());
            let sources = [first.into(), count as u32];
            fdt.property_array_u32("trapless,msi-sources", &sources)?;
        }
        fdt.property_phandle(PHANDLE)?;
        fdt.end_node(node)?;
        let node = fdt.begin_node("ipi")?;
        fdt.property_string("compatible", "trapless,ipi")?;
        fdt.end_node(node)
    }

    fn save(&self, to: &mut StateWriter) -> io::Result<()> {
        self.chip.settle()?;
        self.chip.save(to)
    }

    fn begin_restore(&self, _: &mut StateReader<'_>) -> std::result::Result<(), String> {
        self.chip.hush();
        Ok(())
    }

    fn restore(&self, from: &mut StateReader<'_>) -> std::result::Result<(), String> {
        self.chip.restore(from)
    }

    fn messages(&self) -> Option<MessageController> {
        let messages = SourceMessages(Arc::clone(&self.chip));
        self.chip.has_messages().then(|| MessageController {
            phandle: PHANDLE,
            messages: Arc::new(messages),
        })
    }

    fn injections(&self) -> Injections {
        self.chip.counters.totals()
    }

    fn permit(&self) -> Permit {
        Some(Box::new(self.chip.grant()))
    }

    /// Queries devices for the level of their line when the guest has completed a resampled source.
    fn watches(&self) -> Vec<Watch> {
        let watch = |number| {
            let fd = self.chip.resample_fd(number)?;
            let chip = Arc::clone(&self.chip);
            Some((fd, Box::new(move || chip.resampled(number)) as _))
        };
        self.chip.numbers().filter_map(watch).collect()
    }

    /// The extension that routes sources, and the probe for it.
    fn sbi_call(&self, extension: u64, function: u64, args: &[u64; 6]) -> Option<(i64, u64)> {
        match (extension, function) {
            (sbi::BASE, sbi::BASE_PROBE) if args[0] == uapi::SBI_EXT => Some((sbi::SUCCESS, 1)),
            (uapi::SBI_EXT, 0) if self.chip.route(args[0], args[1]) => Some((sbi::SUCCESS, 0)),
            (uapi::SBI_EXT, 0) => Some((sbi::ERR_INVALID_PARAM, 0)),
            _ => None,
        }
    }
}
