//! The physical memory map, the one of QEMU's `virt` machine.

/// Reset vector and the data that it passes to the firmware.
pub const ROM: u64 = 0x1000;
/// Length of the ROM in bytes.
pub const ROM_LEN: u64 = 0xf000;
/// Test finisher: power-off and reboot.
pub const FINISHER: u64 = 0x10_0000;
/// Real-time clock.
pub const RTC: u64 = 0x10_1000;
/// Interrupt of the RTC.
pub const RTC_IRQ: u32 = 11;
/// 16550 UART.
pub const UART: u64 = 0x1000_0000;
/// Interrupt of the UART.
pub const UART_IRQ: u32 = 10;
/// First virtio-mmio slot.
pub const VIRTIO: u64 = 0x1000_1000;
/// Distance of the slots.
pub const VIRTIO_STEP: u64 = 0x1000;
/// Number of slots.
pub const VIRTIO_SLOTS: usize = 8;
/// Interrupt of slot 0; those of other slots follow.
pub const VIRTIO_IRQ: u32 = 1;
/// Interrupt of the first wire of PCI devices (INTA of device 0), the others follow.
pub const PCI_IRQ: u32 = 32;
/// Registers of the IOMMU.
pub const IOMMU: u64 = 0x301_0000;
/// Interrupt of its first wire, the others follow.
pub const IOMMU_IRQ: u32 = 36;
/// Registers of the platform port of a network card.
pub const PORT: u64 = VIRTIO + VIRTIO_SLOTS as u64 * VIRTIO_STEP;
/// Interrupt of the platform port.
pub const PORT_IRQ: u32 = 40;
/// Who the platform port is for an IOMMU: no PCI function has such a routing ID.
pub const PORT_DEVICE: u32 = 0x1_0000;
/// Whether an interrupt is one of PCI devices.
pub const fn is_pci(irq: u32) -> bool {
    matches!(irq.checked_sub(PCI_IRQ), Some(0..4))
}
/// Length of each other device window.
pub const DEVICE_LEN: u64 = 0x1000;
/// Length of the UART window.
pub const UART_LEN: u64 = 0x100;
/// RAM.
pub const RAM: u64 = 0x8000_0000;
