//! Builds machines from a configuration and a payload.

use std::io::Write;
use std::sync::Arc;

use trapless_devices::PowerLatch;
use trapless_hart::{AiaConfig, CodeCache, Hart, HartConfig, Ram};
use trapless_intc::InterruptArchitecture;
use trapless_intc::aclint_plic::{self, AclintPlic};
use trapless_intc::aia::{self, Aia};
use trapless_intc::trapless::{self, Trapless};
use trapless_intc::vei::Vei;
use trapless_isa::csr;

use crate::boot::dtb::Tree;
use crate::boot::placement::{Payload, Placement};
use crate::boot::{self, reset};
use crate::bus::dma::Messages;
use crate::bus::dma::Steps;
use crate::bus::htif::Htif;
use crate::bus::map;
use crate::bus::peripherals::Peripherals;
use crate::bus::places::{ConsoleInput, Wiring};
use crate::bus::wires::{VirtualClock, Wires};
use crate::bus::{Bus, Parts};
use crate::config::preset::{Engine, Interrupts, MachineConfig};
use crate::drive::progress::Progress;
use crate::error::Error;
use crate::fdt;
use crate::machine::Machine;
use crate::outside::Frames;
use crate::time::input::Inputs;
use crate::time::past::{OnlyNew, Past};

/// Number of message windows, as a power of two: one for each function that there is room for.
const WINDOWS: u8 = 8;

/// The interrupt architecture that a configuration names.
fn architecture(config: &MachineConfig) -> Box<dyn InterruptArchitecture> {
    if let Some(own) = &config.architecture {
        return own.make(config);
    }
    let (harts, cycles_per_tick) = (config.harts, config.hart.cycles_per_tick);
    let aclint = aclint_plic::Config {
        harts,
        cycles_per_tick,
        sswi: config.sswi,
        edge_triggered: 1 << map::UART_IRQ,
    };
    match config.interrupts {
        Interrupts::AclintPlic => with_events(config, AclintPlic::new(aclint)),
        Interrupts::Trapless => {
            let h = config.hart.extensions.h;
            let trapless = Trapless::new(trapless::Config { aclint, h });
            if config.windows {
                with_events(config, trapless.with_windows(WINDOWS))
            } else {
                with_events(config, trapless)
            }
        }
        Interrupts::Aia { guests } => {
            let aia = aia::Config {
                harts,
                cycles_per_tick,
                guests,
            };
            with_events(config, Aia::new(aia))
        }
    }
}

/// Adds Xvei to an architecture if the harts have it.
fn with_events<A: InterruptArchitecture + 'static>(
    config: &MachineConfig,
    architecture: A,
) -> Box<dyn InterruptArchitecture> {
    let extensions = &config.hart.extensions;
    if extensions.h && extensions.xvei {
        Box::new(Vei::new(
            architecture,
            config.harts,
            extensions.xuer && extensions.xhcs,
        ))
    } else {
        Box::new(architecture)
    }
}

/// The device tree the guest gets: its own, or that of the payload.
fn device_tree(
    config: &MachineConfig,
    intc: &dyn InterruptArchitecture,
    payload: &Payload,
    placement: &Placement,
    plugged: &fdt::Plugged<'_>,
) -> Result<Vec<u8>, Error> {
    let Some(dtb) = &payload.dtb else {
        return Ok(fdt::build(
            config,
            intc,
            &payload.append,
            placement,
            plugged,
        )?);
    };
    let fail = |e| Error::Invalid(format!("cannot use the device tree file: {e}"));
    let mut tree = Tree::parse(dtb).map_err(fail)?;
    tree.set_boot(&payload.append, placement);
    tree.flatten().map_err(fail)
}

/// Configuration of harts that `intc` interrupts.
fn hart_config(config: &MachineConfig, intc: &mut dyn InterruptArchitecture) -> HartConfig {
    let files = intc.interrupt_files();
    let aia = files.map(|files| AiaConfig {
        guests: files.guest_files(),
    });
    let description = intc.describe();
    HartConfig {
        reset_pc: map::ROM,
        supervisor_interrupts: description.supervisor_interrupts,
        custom_csrs: description.custom_csrs,
        aia,
        ..config.hart.clone()
    }
}

impl Machine {
    /// A machine that is about to boot `payload`.
    ///
    /// # Errors
    /// If the configuration or a file cannot be used.
    pub fn boot(
        config: MachineConfig,
        payload: &Payload,
        peripherals: Peripherals,
    ) -> Result<Self, Error> {
        config.check()?;
        let intc = architecture(&config);
        Self::boot_with(config, intc, payload, peripherals)
    }

    /// As [`boot`](Self::boot), with another interrupt architecture than the configuration names.
    ///
    /// # Errors
    /// As [`boot`](Self::boot).
    pub fn boot_with(
        config: MachineConfig,
        mut intc: Box<dyn InterruptArchitecture>,
        payload: &Payload,
        peripherals: Peripherals,
    ) -> Result<Self, Error> {
        config.check()?;
        if peripherals.need_messages() && intc.describe().msi_parent.is_none() {
            return Err(Error::Invalid(format!(
                "virtual functions of PCI devices (vfs=) interrupt by messages only, which machine \
                 {} does not take; use one with IMSICs, as aia, or leave vfs out",
                config.machine
            )));
        }
        let ram = Ram::new(map::RAM, config.ram)?;
        let loaded = boot::load(&ram, payload)?;
        let placement = loaded.placement;
        let pci = peripherals.pci_windows(&config);
        let plugged = fdt::Plugged {
            pci: pci.as_ref(),
            port: peripherals.has_platform_port(),
        };
        let fdt = device_tree(&config, intc.as_ref(), payload, &placement, &plugged)?;
        let fdt_addr = boot::place_fdt(&ram, &placement, &fdt)?;
        let rom = reset::rom(placement.entry, placement.kernel, fdt_addr);

        let (wires, clock) = (Arc::new(Wires::default()), VirtualClock::default());
        let (power, console) = (PowerLatch::default(), ConsoleInput::default());
        let past = Past::default();
        let (frames, messages) = (Frames::default(), Messages::default());
        let iommu_steps = Steps::default();
        let console_slot = peripherals.console_slot();
        let cable_slot = peripherals.cable_slot();
        let slots = peripherals.build(&Wiring {
            config: &config,
            ram: ram.guest_memory(),
            wires: &wires,
            clock: &clock,
            power: &power,
            input: &console,
            past: &past,
            frames: &frames,
            messages: &messages,
            interrupt_windows: &intc.describe().windows,
            iommu_steps: &iommu_steps,
        });
        let hart_config = hart_config(&config, intc.as_mut());
        let parts = Parts {
            ram: ram.clone(),
            rom,
            intc,
            slots,
            wires,
            messages,
            iommu_steps,
            clock,
            harts: config.harts,
            power,
            past,
        };
        let bus = Bus::new(parts).map_err(Error::Invalid)?;
        let new_hart = |id| {
            let mut hart = Hart::one_of(config.harts, id, hart_config.clone(), ram.clone());
            hart.set_meter(&bus.meter);
            hart
        };
        let mut code = CodeCache::new(&ram, hart_config.extensions, hart_config.cost);
        code.set_limits(config.code);
        code.set_meter(&bus.meter);
        if let Engine::Jit(tiers) = config.engine {
            code.compile(tiers, &hart_config);
        }
        let mut machine = Self {
            harts: (0..config.harts).map(new_hart).collect(),
            code,
            config,
            ram,
            bus,
            htif: None,
            clock: Progress::default(),
            input: Inputs::default(),
            console,
            console_slot,
            frames,
            cable_slot,
            twin: None,
            symbols: loaded.symbols,
            placement,
            fdt,
        };
        if payload.firmware.is_none() {
            machine.stand_in_for_firmware();
        }
        Ok(machine)
    }

    /// Sets `menvcfg` for kernels in M-mode as QEMU's `virt` does at reset: hardware updates of A
    /// and D bits of page tables if Svadu is present. Firmware sets `menvcfg` itself.
    fn stand_in_for_firmware(&mut self) {
        for hart in 0..self.config.harts {
            self.poke_csr(hart, csr::MENVCFG, csr::envcfg::ADUE);
        }
    }

    /// A machine that runs the bare-metal ELF program `elf` from reset in M-mode, with Spike's
    /// `tohost`/`fromhost` convention if it has these symbols; `htif` receives what it prints
    /// there.
    ///
    /// # Errors
    /// As [`boot`](Self::boot).
    pub fn exec(
        config: MachineConfig,
        elf: &[u8],
        peripherals: Peripherals,
        htif: Box<dyn Write + Send>,
    ) -> Result<Self, Error> {
        if !boot::elf::is_elf(elf) {
            return Err(Error::Invalid("the program is not an ELF file".into()));
        }
        boot::elf::Elf::parse(elf)
            .map_err(|e| Error::Invalid(format!("cannot load the program: {e}")))?;
        let payload = Payload {
            firmware: Some(elf.into()),
            ..Payload::default()
        };
        let mut machine = Self::boot(config, &payload, peripherals)?;
        if let Some(tohost) = machine.symbols.tohost {
            let out = OnlyNew::boxed(htif, &machine.bus.past);
            machine.htif = Some(Htif::new(tohost, machine.symbols.fromhost, out));
        }
        Ok(machine)
    }
}
