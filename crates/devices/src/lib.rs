//! UART, virtio-mmio devices, RTC and power: shared by the machine and the VMM.
