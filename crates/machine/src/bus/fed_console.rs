//! Virtio consoles with their input line: whenever the guest has touched one, waiting input
//! follows.

use trapless_devices::virtio::VirtioMmio;
use trapless_devices::virtio::console::Console;
use trapless_devices::{MmioDevice, Persist, StateError, StateReader, StateWriter};
use trapless_pci::virtio::VirtioPci;
use trapless_pci::{Function, Layout, Port};

use crate::bus::peripherals::{ConsoleInput, MAX_INPUT};

/// In a slot.
pub(crate) struct FedMmio {
    pub device: VirtioMmio<Console>,
    pub input: ConsoleInput,
}

impl MmioDevice for FedMmio {
    fn writes_memory(&self) -> bool {
        true
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) {
        self.device.read(offset, data);
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.device.write(offset, data);
        self.poll();
    }

    fn poll(&mut self) {
        let console = self.device.device_mut();
        self.input
            .pass_on(MAX_INPUT, |bytes| console.enqueue(bytes));
        self.device.poll();
    }

    fn needs_poll(&self) -> bool {
        self.device.needs_poll()
    }
}

impl Persist for FedMmio {
    fn save(&self, to: &mut StateWriter) {
        self.device.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.device.restore(from)
    }
}

/// As a PCI function.
pub(crate) struct FedFunction {
    pub device: VirtioPci<Console>,
    pub input: ConsoleInput,
}

impl Function for FedFunction {
    fn layout(&self) -> Layout {
        self.device.layout()
    }

    fn read(&mut self, bar: u8, offset: u64, data: &mut [u8], port: &mut Port) {
        self.device.read(bar, offset, data, port);
    }

    fn write(&mut self, bar: u8, offset: u64, data: &[u8], port: &mut Port) {
        self.device.write(bar, offset, data, port);
        self.poll(port);
    }

    fn poll(&mut self, port: &mut Port) {
        let console = self.device.device_mut();
        self.input
            .pass_on(MAX_INPUT, |bytes| console.enqueue(bytes));
        self.device.poll(port);
    }

    fn needs_poll(&self) -> bool {
        self.device.needs_poll()
    }

    fn reset(&mut self) {
        self.device.reset();
    }

    fn save(&self, to: &mut StateWriter) {
        self.device.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.device.restore(from)
    }
}
