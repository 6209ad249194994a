//! Guest physical memory map and interrupt numbers: those of QEMU's `virt` machine.

/// Platform-level interrupt controller.
pub const PLIC_BASE: u64 = 0x0c00_0000;
/// Room for the registers of 512 contexts, as QEMU's machine reserves.
pub const PLIC_LEN: u64 = 0x0060_0000;
/// Offset of the context registers, one page per context, in the PLIC.
pub const PLIC_CONTEXTS: u64 = 0x0020_0000;
/// Number of PLIC sources besides source 0, which means "no interrupt".
pub const PLIC_SOURCES: u32 = 95;

/// APLIC of a guest with AIA.
pub const APLIC_BASE: u64 = 0x0d00_0000;
/// Length of the APLIC's window.
pub const APLIC_LEN: u64 = 0x4000;
/// Interrupt files of the vCPUs of a guest with AIA, one page each.
pub const IMSIC_BASE: u64 = 0x2800_0000;
/// Length of an interrupt file's window.
pub const IMSIC_LEN: u64 = 0x1000;

/// Where PCI functions of a guest with Xtrapless send messages: a page that nobody else uses.
pub const MESSAGES_BASE: u64 = IMSIC_BASE;
/// Length of that page.
pub const MESSAGES_LEN: u64 = 0x1000;

/// Address of the interrupt file of vCPU `index`.
pub fn imsic(index: u64) -> u64 {
    IMSIC_BASE + index * IMSIC_LEN
}

/// UART 16550.
pub const UART_BASE: u64 = 0x1000_0000;
/// Length of the UART's window.
pub const UART_LEN: u64 = 0x100;
/// Interrupt source of the UART.
pub const UART_IRQ: u32 = 10;
/// Input clock of the UART in Hz; only the divisor that the guest computes depends on it.
pub const UART_CLOCK: u32 = 3_686_400;

/// First virtio-mmio slot.
pub const VIRTIO_BASE: u64 = 0x1000_1000;
/// Distance from one virtio-mmio slot to the next.
pub const VIRTIO_STEP: u64 = 0x1000;
/// Length of the window of a virtio-mmio slot.
pub const VIRTIO_LEN: u64 = 0x1000;
/// Number of virtio-mmio slots; slot `n` uses interrupt source `n + 1`.
pub const VIRTIO_SLOTS: usize = 8;

/// Goldfish real-time clock.
pub const RTC_BASE: u64 = 0x0010_1000;
/// Length of the clock's window.
pub const RTC_LEN: u64 = 0x1000;
/// Interrupt source of the clock.
pub const RTC_IRQ: u32 = 11;

/// Registers of platform devices of the host that the guest has.
pub const PASSED_BASE: u64 = 0x1100_0000;
/// Length of the window of all of them.
pub const PASSED_LEN: u64 = 0x0100_0000;
/// First of their interrupt sources.
pub const PASSED_IRQ: u32 = 12;
/// Number of these.
pub const PASSED_SOURCES: u32 = 16;

/// First interrupt source of PCI devices, which have four. (QEMU's is where the test device is.)
pub const PCI_IRQ: u32 = 28;

/// Test device.
pub const TEST_BASE: u64 = 0x1000_9000;
/// Length of the test device's window.
pub const TEST_LEN: u64 = 0x1000;
/// First source of the test device.
pub const TEST_IRQ: u32 = 32;
/// Maximum number of sources of the test device.
pub const TEST_SOURCES: u8 = 32;

/// Start of guest RAM.
pub const RAM_BASE: u64 = 0x8000_0000;

/// Base address and interrupt source of virtio-mmio slot `slot`.
pub fn virtio_slot(slot: usize) -> (u64, u32) {
    (VIRTIO_BASE + VIRTIO_STEP * slot as u64, slot as u32 + 1)
}
