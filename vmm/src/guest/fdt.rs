//! The device tree of the guest.

use crate::devices::vfio::platform::Node;
use crate::irqchip::controller::{Features, InterruptController, PHANDLE};
use crate::irqchip::wire::Kind;
use crate::kvm::isa::Isa;
use crate::map;
use trapless_pci::Windows;
use vm_fdt::{Error, FdtWriter};

/// Bytes of `rng-seed`, as QEMU's `virt` gives them: twice what Linux's generator needs.
pub const SEED: usize = 64;

/// Content of the device tree.
pub struct Description<'a> {
    /// ISA of the harts.
    pub isa: Isa,
    /// Number of harts; hart ids are 0 .. cpus - 1.
    pub cpus: u32,
    /// Bytes of RAM from [`map::RAM_BASE`].
    pub memory: u64,
    /// Kernel command line.
    pub command_line: String,
    /// Random bytes that seed the kernel's generator.
    pub rng_seed: [u8; SEED],
    /// First address and end of the initial RAM disk.
    pub initrd: Option<(u64, u64)>,
    /// Whether the serial port exists.
    pub uart: bool,
    /// Number of occupied virtio-mmio slots, from slot 0.
    pub virtio: usize,
    /// Kind of their devices' interrupts.
    pub virtio_kind: Kind,
    /// The interrupt controller.
    pub controller: &'a dyn InterruptController,
    /// Kinds of the test device's sources; empty without it.
    pub test_device: Vec<Kind>,
    /// The PCI host, if there is one: its windows, and the kind of its interrupts.
    pub pci: Option<(Windows, Kind)>,
    /// Platform devices of the host.
    pub passed: &'a [Node],
}

fn cpu_intc_phandle(cpu: u32) -> u32 {
    PHANDLE + 1 + cpu
}

/// Builds the flattened device tree.
///
/// # Errors
/// Those of the writer (a NUL in the command line).
pub fn build(machine: &Description<'_>) -> Result<Vec<u8>, Error> {
    let mut fdt = FdtWriter::new()?;
    let root = fdt.begin_node("")?;
    fdt.property_u32("#address-cells", 2)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_string("compatible", "riscv-virtio")?;
    fdt.property_string("model", "trapless-vmm")?;

    chosen(&mut fdt, machine)?;

    let memory = fdt.begin_node(&format!("memory@{:x}", map::RAM_BASE))?;
    fdt.property_string("device_type", "memory")?;
    fdt.property_array_u64("reg", &[map::RAM_BASE, machine.memory])?;
    fdt.end_node(memory)?;

    cpus(&mut fdt, machine)?;

    let soc = fdt.begin_node("soc")?;
    fdt.property_u32("#address-cells", 2)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_string("compatible", "simple-bus")?;
    fdt.property_null("ranges")?;
    let cpu_intc: Vec<u32> = (0..machine.cpus).map(cpu_intc_phandle).collect();
    machine.controller.fdt(&mut fdt, &cpu_intc)?;
    devices(&mut fdt, machine)?;
    if !machine.test_device.is_empty() {
        test_device(&mut fdt, machine)?;
    }
    if let Some((windows, kind)) = &machine.pci {
        pci(&mut fdt, machine, windows, *kind)?;
    }
    for node in machine.passed {
        passed(&mut fdt, &machine.controller.features(), node)?;
    }
    fdt.end_node(soc)?;
    fdt.end_node(root)?;
    fdt.finish()
}

fn chosen(fdt: &mut FdtWriter, machine: &Description<'_>) -> Result<(), Error> {
    let node = fdt.begin_node("chosen")?;
    fdt.property_string("bootargs", &machine.command_line)?;
    // Without it Linux has no random numbers until it has received enough interrupts, and until
    // then reseeds at each system call, which takes longer than most of these.
    fdt.property("rng-seed", &machine.rng_seed)?;
    if let Some((start, end)) = machine.initrd {
        fdt.property_u64("linux,initrd-start", start)?;
        fdt.property_u64("linux,initrd-end", end)?;
    }
    if machine.uart {
        fdt.property_string("stdout-path", &format!("/soc/serial@{:x}", map::UART_BASE))?;
    }
    fdt.end_node(node)
}

fn cpus(fdt: &mut FdtWriter, machine: &Description<'_>) -> Result<(), Error> {
    let isa = &machine.isa;
    let cpus = fdt.begin_node("cpus")?;
    fdt.property_u32("#address-cells", 1)?;
    fdt.property_u32("#size-cells", 0)?;
    fdt.property_u32("timebase-frequency", isa.timebase_hz as u32)?;
    for cpu in 0..machine.cpus {
        let node = fdt.begin_node(&format!("cpu@{cpu:x}"))?;
        fdt.property_string("device_type", "cpu")?;
        fdt.property_u32("reg", cpu)?;
        fdt.property_string("status", "okay")?;
        fdt.property_string("compatible", "riscv")?;
        fdt.property_string("mmu-type", isa.mmu_type())?;
        // Both forms: kernels before 6.7 and other systems support only the string.
        fdt.property_string("riscv,isa", &isa.string())?;
        fdt.property_string("riscv,isa-base", "rv64i")?;
        let names = isa.ordered().into_iter().map(String::from).collect();
        fdt.property_string_list("riscv,isa-extensions", names)?;
        if let Some(bytes) = isa.cbom_block {
            fdt.property_u32("riscv,cbom-block-size", bytes)?;
        }
        if let Some(bytes) = isa.cboz_block {
            fdt.property_u32("riscv,cboz-block-size", bytes)?;
        }
        let intc = fdt.begin_node("interrupt-controller")?;
        fdt.property_u32("#interrupt-cells", 1)?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_string("compatible", "riscv,cpu-intc")?;
        fdt.property_phandle(cpu_intc_phandle(cpu))?;
        fdt.end_node(intc)?;
        fdt.end_node(node)?;
    }
    fdt.end_node(cpus)
}

/// A device with registers and one interrupt.
struct Device<'a> {
    name: &'a str,
    compatible: &'a str,
    base: u64,
    len: u64,
    irq: u32,
    kind: Kind,
}

impl Device<'_> {
    /// Begins its node, to which properties may be added.
    fn begin(
        &self,
        fdt: &mut FdtWriter,
        features: &Features,
    ) -> Result<vm_fdt::FdtWriterNode, Error> {
        let node = fdt.begin_node(&format!("{}@{:x}", self.name, self.base))?;
        fdt.property_string("compatible", self.compatible)?;
        fdt.property_array_u64("reg", &[self.base, self.len])?;
        fdt.property_u32("interrupt-parent", PHANDLE)?;
        let cells = features.interrupt_cells(self.irq, self.kind);
        fdt.property_array_u32("interrupts", &cells)?;
        Ok(node)
    }
}

fn devices(fdt: &mut FdtWriter, machine: &Description<'_>) -> Result<(), Error> {
    let features = machine.controller.features();
    if machine.uart {
        let uart = Device {
            name: "serial",
            compatible: "ns16550a",
            base: map::UART_BASE,
            len: map::UART_LEN,
            irq: map::UART_IRQ,
            kind: features.device_kind,
        };
        let node = uart.begin(fdt, &features)?;
        fdt.property_u32("clock-frequency", map::UART_CLOCK)?;
        fdt.end_node(node)?;
    }
    let rtc = Device {
        name: "rtc",
        compatible: "google,goldfish-rtc",
        base: map::RTC_BASE,
        len: map::RTC_LEN,
        irq: map::RTC_IRQ,
        kind: features.device_kind,
    };
    let node = rtc.begin(fdt, &features)?;
    fdt.end_node(node)?;
    for slot in 0..machine.virtio {
        let (base, irq) = map::virtio_slot(slot);
        let virtio = Device {
            name: "virtio_mmio",
            compatible: "virtio,mmio",
            base,
            len: map::VIRTIO_LEN,
            irq,
            kind: machine.virtio_kind,
        };
        let node = virtio.begin(fdt, &features)?;
        fdt.end_node(node)?;
    }
    Ok(())
}

fn test_device(fdt: &mut FdtWriter, machine: &Description<'_>) -> Result<(), Error> {
    let node = fdt.begin_node(&format!("test-device@{:x}", map::TEST_BASE))?;
    fdt.property_string("compatible", "trapless,test-device")?;
    fdt.property_array_u64("reg", &[map::TEST_BASE, map::TEST_LEN])?;
    fdt.property_u32("interrupt-parent", PHANDLE)?;
    let features = machine.controller.features();
    let kinds = machine.test_device.iter();
    let interrupts: Vec<u32> = (map::TEST_IRQ..)
        .zip(kinds.clone())
        .flat_map(|(irq, &kind)| features.interrupt_cells(irq, kind))
        .collect();
    fdt.property_array_u32("interrupts", &interrupts)?;
    let kinds: Vec<u32> = kinds.map(|&kind| kind as u32).collect();
    fdt.property_array_u32("trapless,kinds", &kinds)?;
    fdt.end_node(node)
}

fn passed(fdt: &mut FdtWriter, features: &Features, device: &Node) -> Result<(), Error> {
    let base = device.regions.first().map_or(0, |(base, _)| *base);
    let node = fdt.begin_node(&format!("{}@{base:x}", device.name))?;
    fdt.property_string_list("compatible", device.compatible.clone())?;
    let regions: Vec<u64> = device.regions.iter().flat_map(|r| [r.0, r.1]).collect();
    fdt.property_array_u64("reg", &regions)?;
    fdt.property_u32("interrupt-parent", PHANDLE)?;
    let interrupts = device.interrupts.iter();
    let cells = interrupts.flat_map(|&(irq, kind)| features.interrupt_cells(irq, kind));
    fdt.property_array_u32("interrupts", &cells.collect::<Vec<_>>())?;
    fdt.end_node(node)
}

fn pci(
    fdt: &mut FdtWriter,
    machine: &Description<'_>,
    windows: &Windows,
    kind: Kind,
) -> Result<(), Error> {
    let controller = machine.controller;
    let cells = controller.features().interrupt_cells(map::PCI_IRQ, kind);
    let links = trapless_pci::fdt::Links {
        interrupt_parent: PHANDLE,
        first_irq: map::PCI_IRQ,
        trigger_cells: &cells[1..],
        msi_parent: controller.messages().map(|messages| messages.phandle),
        iommu: None,
    };
    trapless_pci::fdt::node(fdt, windows, &links)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::irqchip::options::Injection;
    use crate::irqchip::{aia, plic, trapless};

    fn machine(controller: &dyn InterruptController) -> Description<'_> {
        Description {
            isa: Isa::default(),
            cpus: 3,
            memory: 64 << 20,
            command_line: "quiet".into(),
            rng_seed: [0x5e; SEED],
            initrd: None,
            uart: true,
            virtio: 0,
            virtio_kind: Kind::Level,
            controller,
            test_device: Vec::new(),
            pci: None,
            passed: &[],
        }
    }

    fn count(blob: &[u8], needle: &[u8]) -> usize {
        blob.windows(needle.len())
            .filter(|window| *window == needle)
            .count()
    }

    fn cells(cells: &[u32]) -> Vec<u8> {
        cells.iter().flat_map(|cell| cell.to_be_bytes()).collect()
    }

    #[test]
    fn tree_holds_every_cpu_device_and_the_initrd() {
        let isa = Isa {
            extensions: ["i", "m", "sstc"].map(String::from).to_vec(),
            timebase_hz: 10_000_000,
            satp_mode: 9,
            ..Isa::default()
        };
        let plic = plic::unconnected();
        let machine = Description {
            isa,
            initrd: Some((0x8300_0000, 0x8300_1234)),
            virtio: 2,
            virtio_kind: Kind::Level,
            ..machine(&*plic)
        };
        let blob = build(&machine).unwrap();
        assert_eq!(blob[..4], [0xd0, 0x0d, 0xfe, 0xed]);
        assert_eq!(count(&blob, b"riscv,cpu-intc\0"), 3);
        assert_eq!(count(&blob, b"riscv,sv48\0"), 3);
        assert_eq!(count(&blob, b"rv64im_sstc\0"), 3);
        assert_eq!(count(&blob, b"virtio_mmio@"), 2);
        assert_eq!(count(&blob, b"ns16550a\0"), 1);
        assert_eq!(count(&blob, &[0x5e; SEED]), 1);
        assert_eq!(count(&blob, b"google,goldfish-rtc\0"), 1);
        assert_eq!(count(&blob, &0x8300_1234u64.to_be_bytes()), 1);
        assert_eq!(count(&blob, &cells(&[2, 9, 3, 9, 4, 9])), 1);
    }

    #[test]
    fn xtrapless_replaces_the_plic_and_adds_a_cell() {
        let controller = trapless::tests::controller(Injection::Ugenvsei);
        let machine = Description {
            test_device: vec![Kind::Edge, Kind::Level, Kind::Resample],
            ..machine(&controller)
        };
        let blob = build(&machine).unwrap();
        assert_eq!(count(&blob, b"riscv,plic0\0"), 0);
        assert_eq!(count(&blob, b"trapless,irqchip\0"), 1);
        assert_eq!(count(&blob, b"trapless,ipi\0"), 1);
        assert_eq!(count(&blob, &cells(&[map::UART_IRQ, 4])), 1);
        assert_eq!(count(&blob, &cells(&[32, 1, 33, 4, 34, 4])), 1);
        assert_eq!(count(&blob, &cells(&[0, 1, 2])), 1, "kinds");
    }

    #[test]
    fn aia_has_a_file_for_each_cpu_and_an_aplic_that_sends_to_them() {
        let controller = aia::tests::controller(255);
        let blob = build(&machine(&controller)).unwrap();
        assert_eq!(count(&blob, b"riscv,plic0\0"), 0);
        assert_eq!(count(&blob, b"riscv,imsics\0"), 1);
        assert_eq!(count(&blob, b"riscv,aplic\0"), 1);
        assert_eq!(count(&blob, &cells(&[0, 0x2800_0000, 0, 0x3000])), 1);
        assert_eq!(count(&blob, &cells(&[map::UART_IRQ, 4])), 1);
    }

    /// Promise: the PCI host is there only if something is plugged into it, and sends messages to
    /// interrupt files if the guest has some.
    #[test]
    fn a_pci_host_fits_the_interrupt_controller() {
        let aia = aia::tests::controller(255);
        let xtrapless = trapless::tests::controller_with_messages();
        let plic = plic::unconnected();
        let none = build(&machine(&*plic)).unwrap();
        assert_eq!(count(&none, b"pci-host-ecam-generic\0"), 0);
        let with = |controller, kind| {
            let windows = Windows::virt(map::RAM_BASE + (64 << 20));
            build(&Description {
                cpus: 2,
                pci: Some((windows, kind)),
                ..machine(controller)
            })
            .unwrap()
        };
        let [aia, xtrapless, plic] = [
            with(&aia, Kind::Edge),
            with(&xtrapless, Kind::Resample),
            with(&*plic, Kind::Resample),
        ];
        for blob in [&aia, &xtrapless, &plic] {
            assert_eq!(count(blob, b"pci-host-ecam-generic\0"), 1);
        }
        // INTA of device 1: child address, pin, phandle, source, trigger.
        let line = [1 << 11, 0, 0, 1, PHANDLE, map::PCI_IRQ + 1];
        assert_eq!(count(&aia, &cells(&[&line[..], &[1]].concat())), 1);
        assert_eq!(count(&xtrapless, &cells(&[&line[..], &[4]].concat())), 1);
        assert_eq!(count(&plic, &cells(&[&line[..], &[1 << 11]].concat())), 1);
        // A property: its tag, the length of its value, its name in the block of strings.
        let parents = |blob: &[u8], phandle: u32| {
            let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|n| blob[at + n]));
            let strings = word(12) as usize;
            let names = blob[strings..].windows(11);
            let mut names = names
                .enumerate()
                .filter(|(_, name)| *name == b"msi-parent\0");
            let name = names.next().map_or(u32::MAX, |(at, _)| at as u32);
            count(blob, &cells(&[3, 4, name, phandle]))
        };
        assert_eq!(parents(&aia, 4), 2, "of the APLIC and of the PCI host");
        assert_eq!(parents(&xtrapless, PHANDLE), 1);
        assert_eq!(count(&xtrapless, &cells(&[64, 960])), 1, "sources");
        assert_eq!([4, PHANDLE].map(|phandle| parents(&plic, phandle)), [0, 0]);
    }

    #[test]
    fn nul_in_the_command_line_is_an_error() {
        let plic = plic::unconnected();
        let machine = Description {
            command_line: "a\0b".into(),
            ..machine(&*plic)
        };
        assert!(build(&machine).is_err());
    }
}
