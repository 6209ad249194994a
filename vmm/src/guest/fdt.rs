//! The device tree of the guest.

use crate::irqchip::aia;
use crate::irqchip::trapless::{Kind, SOURCES};
use crate::kvm::isa::Isa;
use crate::map;
use vm_fdt::{Error, FdtWriter};

/// Everything the tree depends on.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// What the harts can do.
    pub isa: Isa,
    /// Number of harts; hart ids are 0 .. cpus - 1.
    pub cpus: u32,
    /// Bytes of RAM from [`map::RAM_BASE`].
    pub memory: u64,
    /// Kernel command line.
    pub command_line: String,
    /// First address and end of the initial RAM disk.
    pub initrd: Option<(u64, u64)>,
    /// Whether the serial port exists.
    pub uart: bool,
    /// Number of occupied virtio-mmio slots, from slot 0.
    pub virtio: usize,
    /// Whether their interrupts are edges instead of levels, which not every controller can tell.
    pub virtio_edges: bool,
    /// Whether the real-time clock exists.
    pub rtc: bool,
    /// The interrupt controller.
    pub irqchip: Irqchip,
    /// Kinds of the test device's sources; empty without it.
    pub test_device: Vec<Kind>,
}

/// Interrupt controller of the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Irqchip {
    /// `riscv,plic0`; interprocessor interrupts by SBI.
    #[default]
    Plic,
    /// `trapless,irqchip` and `trapless,ipi`.
    Trapless,
    /// `riscv,imsics`, which interprocessor interrupts use, too, and `riscv,aplic`.
    Aia {
        /// Identities of each interrupt file.
        ids: u32,
    },
}

const IRQCHIP_PHANDLE: u32 = 1;
const IRQ_S_EXTERNAL: u32 = 9;

fn cpu_intc_phandle(cpu: u32) -> u32 {
    IRQCHIP_PHANDLE + 1 + cpu
}

/// Phandle of the interrupt files; those below are taken.
fn imsic_phandle(cpus: u32) -> u32 {
    cpu_intc_phandle(cpus)
}

/// Builds the flattened device tree.
///
/// # Errors
/// Passes on errors of the writer (a NUL in the command line).
pub fn build(machine: &Description) -> Result<Vec<u8>, Error> {
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
    match machine.irqchip {
        Irqchip::Plic => plic(&mut fdt, machine.cpus)?,
        Irqchip::Trapless => trapless(&mut fdt, machine.cpus)?,
        Irqchip::Aia { ids } => imsic_and_aplic(&mut fdt, machine.cpus, ids)?,
    }
    if machine.uart {
        let node = device(
            &mut fdt,
            machine.irqchip,
            "serial",
            "ns16550a",
            map::UART_BASE,
            map::UART_LEN,
            (map::UART_IRQ, Kind::Level),
        )?;
        fdt.property_u32("clock-frequency", map::UART_CLOCK)?;
        fdt.end_node(node)?;
    }
    if machine.rtc {
        let node = device(
            &mut fdt,
            machine.irqchip,
            "rtc",
            "google,goldfish-rtc",
            map::RTC_BASE,
            map::RTC_LEN,
            (map::RTC_IRQ, Kind::Level),
        )?;
        fdt.end_node(node)?;
    }
    let virtio = match machine.virtio_edges {
        true => Kind::Edge,
        false => Kind::Level,
    };
    for slot in 0..machine.virtio {
        let (base, irq) = map::virtio_slot(slot);
        let node = device(
            &mut fdt,
            machine.irqchip,
            "virtio_mmio",
            "virtio,mmio",
            base,
            map::VIRTIO_LEN,
            (irq, virtio),
        )?;
        fdt.end_node(node)?;
    }
    if !machine.test_device.is_empty() {
        test_device(&mut fdt, machine)?;
    }
    fdt.end_node(soc)?;
    fdt.end_node(root)?;
    fdt.finish()
}

fn chosen(fdt: &mut FdtWriter, machine: &Description) -> Result<(), Error> {
    let node = fdt.begin_node("chosen")?;
    fdt.property_string("bootargs", &machine.command_line)?;
    if let Some((start, end)) = machine.initrd {
        fdt.property_u64("linux,initrd-start", start)?;
        fdt.property_u64("linux,initrd-end", end)?;
    }
    if machine.uart {
        fdt.property_string("stdout-path", &format!("/soc/serial@{:x}", map::UART_BASE))?;
    }
    fdt.end_node(node)
}

fn cpus(fdt: &mut FdtWriter, machine: &Description) -> Result<(), Error> {
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
        // Both forms: kernels before 6.7 and other systems know only the string.
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

/// S-external interrupt of every hart. One S-mode context per hart: a guest has no M-mode.
fn external_interrupts(cpus: u32) -> Vec<u32> {
    (0..cpus)
        .flat_map(|cpu| [cpu_intc_phandle(cpu), IRQ_S_EXTERNAL])
        .collect()
}

fn plic(fdt: &mut FdtWriter, cpus: u32) -> Result<(), Error> {
    let node = fdt.begin_node(&format!("plic@{:x}", map::PLIC_BASE))?;
    fdt.property_string_list(
        "compatible",
        vec!["sifive,plic-1.0.0".into(), "riscv,plic0".into()],
    )?;
    fdt.property_array_u64("reg", &[map::PLIC_BASE, map::PLIC_LEN])?;
    fdt.property_u32("#interrupt-cells", 1)?;
    fdt.property_u32("#address-cells", 0)?;
    fdt.property_null("interrupt-controller")?;
    fdt.property_array_u32("interrupts-extended", &external_interrupts(cpus))?;
    fdt.property_u32("riscv,ndev", map::PLIC_SOURCES)?;
    fdt.property_phandle(IRQCHIP_PHANDLE)?;
    fdt.end_node(node)
}

/// Xtrapless has CSRs only, so its nodes have no registers.
fn trapless(fdt: &mut FdtWriter, cpus: u32) -> Result<(), Error> {
    let node = fdt.begin_node("interrupt-controller")?;
    fdt.property_string("compatible", "trapless,irqchip")?;
    fdt.property_u32("#interrupt-cells", 2)?;
    fdt.property_u32("#address-cells", 0)?;
    fdt.property_null("interrupt-controller")?;
    fdt.property_array_u32("interrupts-extended", &external_interrupts(cpus))?;
    fdt.property_u32("trapless,num-sources", SOURCES.into())?;
    fdt.property_phandle(IRQCHIP_PHANDLE)?;
    fdt.end_node(node)?;
    let node = fdt.begin_node("ipi")?;
    fdt.property_string("compatible", "trapless,ipi")?;
    fdt.end_node(node)
}

/// Interrupt files and the APLIC that sends messages to them (bindings `riscv,imsics.yaml` and `riscv,aplic.yaml`).
fn imsic_and_aplic(fdt: &mut FdtWriter, cpus: u32, ids: u32) -> Result<(), Error> {
    let node = fdt.begin_node(&format!("imsics@{:x}", map::IMSIC_BASE))?;
    fdt.property_string("compatible", "riscv,imsics")?;
    fdt.property_array_u64("reg", &[map::IMSIC_BASE, u64::from(cpus) * map::IMSIC_LEN])?;
    fdt.property_u32("#interrupt-cells", 0)?;
    fdt.property_null("interrupt-controller")?;
    fdt.property_null("msi-controller")?;
    fdt.property_u32("#msi-cells", 0)?;
    fdt.property_array_u32("interrupts-extended", &external_interrupts(cpus))?;
    fdt.property_u32("riscv,num-ids", ids)?;
    fdt.property_phandle(imsic_phandle(cpus))?;
    fdt.end_node(node)?;
    let node = fdt.begin_node(&format!("interrupt-controller@{:x}", map::APLIC_BASE))?;
    fdt.property_string("compatible", "riscv,aplic")?;
    fdt.property_array_u64("reg", &[map::APLIC_BASE, map::APLIC_LEN])?;
    fdt.property_u32("#interrupt-cells", 2)?;
    fdt.property_u32("#address-cells", 0)?;
    fdt.property_null("interrupt-controller")?;
    fdt.property_u32("msi-parent", imsic_phandle(cpus))?;
    fdt.property_u32("riscv,num-sources", aia::SOURCES)?;
    fdt.property_phandle(IRQCHIP_PHANDLE)?;
    fdt.end_node(node)
}

/// Cells of `interrupts` for one source.
fn cells(irqchip: Irqchip, irq: u32, kind: Kind) -> Vec<u32> {
    match irqchip {
        Irqchip::Plic => vec![irq],
        Irqchip::Trapless | Irqchip::Aia { .. } => vec![irq, kind.trigger_cell()],
    }
}

fn device(
    fdt: &mut FdtWriter,
    irqchip: Irqchip,
    name: &str,
    compatible: &str,
    base: u64,
    len: u64,
    (irq, kind): (u32, Kind),
) -> Result<vm_fdt::FdtWriterNode, Error> {
    let node = fdt.begin_node(&format!("{name}@{base:x}"))?;
    fdt.property_string("compatible", compatible)?;
    fdt.property_array_u64("reg", &[base, len])?;
    fdt.property_u32("interrupt-parent", IRQCHIP_PHANDLE)?;
    fdt.property_array_u32("interrupts", &cells(irqchip, irq, kind))?;
    Ok(node)
}

fn test_device(fdt: &mut FdtWriter, machine: &Description) -> Result<(), Error> {
    let node = fdt.begin_node(&format!("test-device@{:x}", map::TEST_BASE))?;
    fdt.property_string("compatible", "trapless,test-device")?;
    fdt.property_array_u64("reg", &[map::TEST_BASE, map::TEST_LEN])?;
    fdt.property_u32("interrupt-parent", IRQCHIP_PHANDLE)?;
    let kinds = machine.test_device.iter();
    let interrupts: Vec<u32> = (map::TEST_IRQ..)
        .zip(kinds.clone())
        .flat_map(|(irq, &kind)| cells(machine.irqchip, irq, kind))
        .collect();
    fdt.property_array_u32("interrupts", &interrupts)?;
    let kinds: Vec<u32> = kinds.map(|&kind| kind as u32).collect();
    fdt.property_array_u32("trapless,kinds", &kinds)?;
    fdt.end_node(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(blob: &[u8], needle: &[u8]) -> usize {
        blob.windows(needle.len())
            .filter(|window| *window == needle)
            .count()
    }

    #[test]
    fn tree_holds_every_cpu_device_and_the_initrd() {
        let isa = Isa {
            extensions: ["i", "m", "sstc"].map(String::from).to_vec(),
            timebase_hz: 10_000_000,
            satp_mode: 9,
            ..Isa::default()
        };
        let machine = Description {
            isa,
            cpus: 3,
            memory: 64 << 20,
            command_line: "quiet".into(),
            initrd: Some((0x8300_0000, 0x8300_1234)),
            uart: true,
            virtio: 2,
            ..Description::default()
        };
        let blob = build(&machine).unwrap();
        assert_eq!(blob[..4], [0xd0, 0x0d, 0xfe, 0xed]);
        assert_eq!(count(&blob, b"riscv,cpu-intc\0"), 3);
        assert_eq!(count(&blob, b"riscv,sv48\0"), 3);
        assert_eq!(count(&blob, b"rv64im_sstc\0"), 3);
        assert_eq!(count(&blob, b"virtio_mmio@"), 2);
        assert_eq!(count(&blob, b"ns16550a\0"), 1);
        assert_eq!(count(&blob, b"google,goldfish-rtc\0"), 0);
        assert_eq!(count(&blob, &0x8300_1234u64.to_be_bytes()), 1);
        let contexts: Vec<u8> = [2, 9, 3, 9, 4, 9u32]
            .iter()
            .flat_map(|cell| cell.to_be_bytes())
            .collect();
        assert_eq!(count(&blob, &contexts), 1);
    }

    #[test]
    fn xtrapless_replaces_the_plic_and_adds_a_cell() {
        let machine = Description {
            cpus: 2,
            uart: true,
            irqchip: Irqchip::Trapless,
            test_device: vec![Kind::Edge, Kind::Level, Kind::Resample],
            ..Description::default()
        };
        let blob = build(&machine).unwrap();
        assert_eq!(count(&blob, b"riscv,plic0\0"), 0);
        assert_eq!(count(&blob, b"trapless,irqchip\0"), 1);
        assert_eq!(count(&blob, b"trapless,ipi\0"), 1);
        let cells = |cells: &[u32]| -> Vec<u8> {
            cells.iter().flat_map(|cell| cell.to_be_bytes()).collect()
        };
        assert_eq!(count(&blob, &cells(&[map::UART_IRQ, 4])), 1);
        assert_eq!(count(&blob, &cells(&[32, 1, 33, 4, 34, 4])), 1);
        assert_eq!(count(&blob, &cells(&[0, 1, 2])), 1, "kinds");
    }

    #[test]
    fn aia_has_a_file_for_each_cpu_and_an_aplic_that_sends_to_them() {
        let machine = Description {
            cpus: 3,
            uart: true,
            irqchip: Irqchip::Aia { ids: 255 },
            ..Description::default()
        };
        let blob = build(&machine).unwrap();
        assert_eq!(count(&blob, b"riscv,plic0\0"), 0);
        assert_eq!(count(&blob, b"riscv,imsics\0"), 1);
        assert_eq!(count(&blob, b"riscv,aplic\0"), 1);
        let reg: Vec<u8> = [0, 0x2800_0000, 0, 0x3000u32]
            .iter()
            .flat_map(|cell| cell.to_be_bytes())
            .collect();
        assert_eq!(count(&blob, &reg), 1);
        let uart: Vec<u8> = [map::UART_IRQ, 4]
            .iter()
            .flat_map(|cell| cell.to_be_bytes())
            .collect();
        assert_eq!(count(&blob, &uart), 1);
    }

    #[test]
    fn nul_in_the_command_line_is_an_error() {
        let machine = Description {
            command_line: "a\0b".into(),
            cpus: 1,
            ..Description::default()
        };
        assert!(build(&machine).is_err());
    }
}
