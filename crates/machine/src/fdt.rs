//! The device tree of a machine, as for QEMU's `virt` machine and by the Linux bindings.

use trapless_devices::virtio::rng::{Entropy, SeededEntropy};
use trapless_hart::CACHE_BLOCK;
use trapless_intc::{EXTERNAL_PHANDLE, InterruptArchitecture};
use trapless_isa::extension::isa_string;
use trapless_pci::Windows;
use trapless_pci::fdt::Links;
use vm_fdt::{Error, FdtWriter};

use crate::boot::placement::Placement;
use crate::bus::map;
use crate::config::preset::MachineConfig;

/// Phandles: local interrupt controllers from here, one per hart.
const CPU_INTC: u32 = 1;
/// Phandles of harts.
const CPU: u32 = 0x100;
/// Phandle of the test finisher.
const FINISHER: u32 = 0x200;
/// Phandle of the IOMMU.
const IOMMU: u32 = 0x201;

/// What is plugged into the machine beside the devices that all have.
#[derive(Default)]
pub struct Plugged<'a> {
    /// Where the PCI host is, if there is one.
    pub pci: Option<&'a Windows>,
    /// A network card has a platform port.
    pub port: bool,
}

/// Builds the device tree.
///
/// # Errors
/// Those of the writer.
pub fn build(
    config: &MachineConfig,
    interrupts: &dyn InterruptArchitecture,
    append: &str,
    place: &Placement,
    plugged: &Plugged<'_>,
) -> Result<Vec<u8>, Error> {
    let mut fdt = FdtWriter::new()?;
    let root = fdt.begin_node("")?;
    fdt.property_u32("#address-cells", 2)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_string_list(
        "compatible",
        vec!["trapless,virt".into(), "riscv-virtio".into()],
    )?;
    fdt.property_string("model", "trapless,virt")?;

    let description = interrupts.describe();
    // First, and with `phandle` first in its nodes: OpenSBI walks from the beginning of the tree to
    // each hart for each wire of an interrupt controller.
    cpus(&mut fdt, config, description.isa_extensions)?;
    chosen(&mut fdt, config, append, place)?;
    let node = fdt.begin_node("aliases")?;
    fdt.property_string("serial0", &format!("/soc/serial@{:x}", map::UART))?;
    fdt.end_node(node)?;
    let node = fdt.begin_node(&format!("memory@{:x}", map::RAM))?;
    fdt.property_string("device_type", "memory")?;
    fdt.property_array_u64("reg", &[map::RAM, config.ram])?;
    fdt.end_node(node)?;
    power(&mut fdt)?;

    let soc = fdt.begin_node("soc")?;
    fdt.property_u32("#address-cells", 2)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_string("compatible", "simple-bus")?;
    fdt.property_null("ranges")?;
    let cpu_intc: Vec<u32> = (0..config.harts as u32)
        .map(|hart| CPU_INTC + hart)
        .collect();
    interrupts.fdt(&mut fdt, &cpu_intc)?;
    devices(&mut fdt, description.trigger_cells)?;
    if let Some(windows) = plugged.pci {
        let links = Links {
            interrupt_parent: EXTERNAL_PHANDLE,
            first_irq: map::PCI_IRQ,
            trigger_cells: description.trigger_cells,
            msi_parent: description.msi_parent,
            iommu: config.iommu.then_some(IOMMU),
        };
        trapless_pci::fdt::node(&mut fdt, windows, &links)?;
        if config.iommu {
            let links = trapless_iommu::fdt::Links {
                base: map::IOMMU,
                phandle: IOMMU,
                interrupt_parent: EXTERNAL_PHANDLE,
                first_irq: map::IOMMU_IRQ,
                trigger_cells: description.trigger_cells,
                msi_parent: description.msi_parent,
            };
            trapless_iommu::fdt::node(&mut fdt, &links)?;
        }
    }
    if plugged.port {
        platform_port(&mut fdt, config, description.trigger_cells)?;
    }
    fdt.end_node(soc)?;

    fdt.end_node(root)?;
    fdt.finish()
}

fn chosen(
    fdt: &mut FdtWriter,
    config: &MachineConfig,
    append: &str,
    place: &Placement,
) -> Result<(), Error> {
    let node = fdt.begin_node("chosen")?;
    if !append.is_empty() {
        fdt.property_string("bootargs", append)?;
    }
    fdt.property_string("stdout-path", &format!("/soc/serial@{:x}", map::UART))?;
    if let Some((start, end)) = place.initrd {
        fdt.property_u64("linux,initrd-start", start)?;
        fdt.property_u64("linux,initrd-end", end)?;
    }
    // Seeds the kernel's random numbers at once, and equally in each run. There is no kaslr-seed:
    // addresses are to be the same in each run.
    let mut seed = [0; 64];
    // This source of random numbers never fails.
    let _ = SeededEntropy::new(config.seed).fill(&mut seed);
    fdt.property("rng-seed", &seed)?;
    fdt.end_node(node)
}

fn cpus(fdt: &mut FdtWriter, config: &MachineConfig, more: &[&str]) -> Result<(), Error> {
    let extensions = &config.hart.extensions;
    let names = [&extensions.names(), more].concat();
    let isa = isa_string(names.iter().copied());
    let names: Vec<String> = names.into_iter().map(Into::into).collect();
    let node = fdt.begin_node("cpus")?;
    fdt.property_u32("#address-cells", 1)?;
    fdt.property_u32("#size-cells", 0)?;
    fdt.property_u32("timebase-frequency", config.timebase())?;
    for hart in 0..config.harts as u32 {
        let cpu = fdt.begin_node(&format!("cpu@{hart:x}"))?;
        fdt.property_phandle(CPU + hart)?;
        fdt.property_string("device_type", "cpu")?;
        fdt.property_u32("reg", hart)?;
        fdt.property_string("status", "okay")?;
        fdt.property_string("compatible", "riscv")?;
        fdt.property_string("riscv,isa", &isa)?;
        fdt.property_string("riscv,isa-base", "rv64i")?;
        fdt.property_string_list("riscv,isa-extensions", names.clone())?;
        fdt.property_string("mmu-type", "riscv,sv57")?;
        if extensions.zicbo {
            for kind in ["cbom", "cbop", "cboz"] {
                fdt.property_u32(&format!("riscv,{kind}-block-size"), CACHE_BLOCK as u32)?;
            }
        }
        let intc = fdt.begin_node("interrupt-controller")?;
        fdt.property_phandle(CPU_INTC + hart)?;
        fdt.property_u32("#interrupt-cells", 1)?;
        fdt.property_null("interrupt-controller")?;
        fdt.property_string("compatible", "riscv,cpu-intc")?;
        fdt.end_node(intc)?;
        fdt.end_node(cpu)?;
    }
    let cpu_map = fdt.begin_node("cpu-map")?;
    let cluster = fdt.begin_node("cluster0")?;
    for hart in 0..config.harts as u32 {
        let core = fdt.begin_node(&format!("core{hart}"))?;
        fdt.property_u32("cpu", CPU + hart)?;
        fdt.end_node(core)?;
    }
    fdt.end_node(cluster)?;
    fdt.end_node(cpu_map)?;
    fdt.end_node(node)
}

fn power(fdt: &mut FdtWriter) -> Result<(), Error> {
    for (name, value) in [("poweroff", 0x5555), ("reboot", 0x7777)] {
        let node = fdt.begin_node(name)?;
        fdt.property_string("compatible", &format!("syscon-{name}"))?;
        fdt.property_u32("regmap", FINISHER)?;
        fdt.property_u32("offset", 0)?;
        fdt.property_u32("value", value)?;
        fdt.end_node(node)?;
    }
    Ok(())
}

/// Adds the devices; `trigger` follows the number of each interrupt.
fn devices(fdt: &mut FdtWriter, trigger: &[u32]) -> Result<(), Error> {
    let mut device = |name: &str, compatible: &[&str], base: u64, len: u64, irq: Option<u32>| {
        let node = fdt.begin_node(&format!("{name}@{base:x}"))?;
        let compatible = compatible.iter().map(|&c| c.into()).collect();
        fdt.property_string_list("compatible", compatible)?;
        fdt.property_array_u64("reg", &[base, len])?;
        if let Some(irq) = irq {
            fdt.property_u32("interrupt-parent", EXTERNAL_PHANDLE)?;
            fdt.property_array_u32("interrupts", &[&[irq], trigger].concat())?;
        }
        match name {
            "serial" => fdt.property_u32("clock-frequency", 3_686_400)?,
            "test" => fdt.property_phandle(FINISHER)?,
            "virtio_mmio" => fdt.property_null("dma-coherent")?,
            _ => {}
        }
        fdt.end_node(node)
    };
    device(
        "test",
        &["sifive,test1", "sifive,test0", "syscon"],
        map::FINISHER,
        map::DEVICE_LEN,
        None,
    )?;
    device(
        "rtc",
        &["google,goldfish-rtc"],
        map::RTC,
        map::DEVICE_LEN,
        Some(map::RTC_IRQ),
    )?;
    device(
        "serial",
        &["ns16550a"],
        map::UART,
        map::UART_LEN,
        Some(map::UART_IRQ),
    )?;
    for slot in 0..map::VIRTIO_SLOTS as u64 {
        let base = map::VIRTIO + slot * map::VIRTIO_STEP;
        let irq = map::VIRTIO_IRQ + slot as u32;
        device(
            "virtio_mmio",
            &["virtio,mmio"],
            base,
            map::DEVICE_LEN,
            Some(irq),
        )?;
    }
    Ok(())
}

/// Adds the platform port of a network card.
fn platform_port(
    fdt: &mut FdtWriter,
    config: &MachineConfig,
    trigger: &[u32],
) -> Result<(), Error> {
    let node = fdt.begin_node(&format!("virtio_mmio@{:x}", map::PORT))?;
    fdt.property_string("compatible", "virtio,mmio")?;
    fdt.property_array_u64("reg", &[map::PORT, map::DEVICE_LEN])?;
    fdt.property_u32("interrupt-parent", EXTERNAL_PHANDLE)?;
    fdt.property_array_u32("interrupts", &[&[map::PORT_IRQ], trigger].concat())?;
    fdt.property_null("dma-coherent")?;
    if config.iommu {
        fdt.property_array_u32("iommus", &[IOMMU, map::PORT_DEVICE])?;
    }
    fdt.end_node(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::dtb::Tree;
    use trapless_intc::aclint_plic::{AclintPlic, Config};

    fn tree(harts: usize, machine: &str) -> Tree {
        tree_with(harts, machine, false)
    }

    /// With PCI and an IOMMU, if `pci`.
    fn tree_with(harts: usize, machine: &str, pci: bool) -> Tree {
        let mut config = MachineConfig::preset(machine).unwrap();
        config.harts = harts;
        config.iommu = pci;
        let intc = AclintPlic::new(Config {
            harts,
            cycles_per_tick: 100,
            sswi: true,
            edge_triggered: 0,
        });
        let place = Placement {
            initrd: Some((0x8800_0000, 0x8900_0000)),
            ..Default::default()
        };
        let windows = pci.then(|| config.pci_windows());
        let plugged = Plugged {
            pci: windows.as_ref(),
            port: pci,
        };
        let tree = build(&config, &intc, "console=ttyS0", &place, &plugged);
        Tree::parse(&tree.unwrap()).unwrap()
    }

    #[test]
    fn isa_string_is_canonical_and_follows_options() {
        let sstc = MachineConfig::preset("sstc").unwrap().hart.extensions;
        let isa = isa_string(sstc.names());
        assert!(
            isa.starts_with("rv64imafdch_zicbom_zicbop_zicboz_zicntr_"),
            "{isa}"
        );
        assert!(isa.contains("_sstc_"));
        let sbi = MachineConfig::preset("sbi").unwrap().hart.extensions;
        assert!(!isa_string(sbi.names()).contains("sstc"));
    }

    #[test]
    fn phandles_are_unique_and_references_resolve() {
        let tree = tree_with(64, "sbi", true);
        let mut handles = Vec::new();
        let mut stack = vec![&tree.root];
        while let Some(node) = stack.pop() {
            handles.extend(node.cells("phandle").unwrap_or_default());
            stack.extend(&node.children);
        }
        let count = handles.len();
        handles.sort_unstable();
        handles.dedup();
        assert_eq!(handles.len(), count);
        let wires = tree
            .root
            .at("soc/plic@c000000")
            .unwrap()
            .cells("interrupts-extended")
            .unwrap();
        assert_eq!(wires.len(), 64 * 4);
        for pair in wires.chunks(2) {
            assert!(handles.contains(&pair[0]));
        }
        let uart = tree.root.at("soc/serial@10000000").unwrap();
        assert!(handles.contains(&uart.cells("interrupt-parent").unwrap()[0]));
        assert_eq!(uart.cells("interrupts"), Some(vec![10]));
    }

    /// Promise: all wires of PCI devices lead to the interrupt controller, spread as usual, all
    /// functions and the platform port to the IOMMU; a machine without PCI has none of these.
    #[test]
    fn pci_is_there_if_something_is_plugged_in() {
        let tree = tree_with(1, "sbi", true);
        let host = tree.root.at("soc/pci@30000000").unwrap();
        let map = host.cells("interrupt-map").unwrap();
        assert_eq!(map.len(), 16 * 6);
        for entry in map.chunks(6) {
            let (device, pin) = (entry[0] >> 11, entry[3] - 1);
            assert_eq!(entry[5], 32 + (device + pin) % 4);
            assert_eq!(entry[4], EXTERNAL_PHANDLE);
        }
        let ranges = host.cells("ranges").unwrap();
        assert_eq!(ranges[14..], [0x300_0000, 4, 0, 4, 0, 4, 0], "above RAM");
        assert_eq!(host.cells("msi-parent"), None);
        let iommu = tree.root.at("soc/iommu@3010000").unwrap();
        let phandle = iommu.cells("phandle").unwrap()[0];
        assert_eq!(host.cells("iommu-map"), Some(vec![0, phandle, 0, 0x1_0000]));
        assert_eq!(iommu.cells("interrupts"), Some(vec![36, 37, 38, 39]));
        let port = tree.root.at("soc/virtio_mmio@10009000").unwrap();
        assert_eq!(port.cells("iommus"), Some(vec![phandle, 0x1_0000]));
        assert_eq!(port.cells("interrupts"), Some(vec![40]));
        let without = self::tree(1, "sbi");
        assert!(without.root.at("soc/virtio_mmio@10009000").is_none());
        assert!(without.root.at("soc/pci@30000000").is_none());
        assert!(without.root.at("soc/iommu@3010000").is_none());
    }

    #[test]
    fn chosen_describes_how_to_boot() {
        let tree = tree(1, "sstc");
        let chosen = tree.root.at("chosen").unwrap();
        assert_eq!(chosen.text("bootargs"), Some("console=ttyS0"));
        let console = chosen.text("stdout-path").unwrap();
        assert!(tree.root.at(console).is_some(), "{console} does not exist");
        assert_eq!(
            chosen.cells("linux,initrd-start"),
            Some(vec![0, 0x8800_0000])
        );
        assert_eq!(chosen.property("rng-seed").map(<[u8]>::len), Some(64));
    }
}
