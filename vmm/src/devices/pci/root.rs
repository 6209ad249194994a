//! The root complex: which function answers which address.

use crate::bus::BusDevice;
use crate::devices::pci::function::Function;
use crate::devices::registry::{Registered, Registry};
use std::sync::Arc;
use trapless_pci::Windows;

/// Bytes of a configuration space in the ECAM.
const SPACE: u64 = 4096;

/// The root complex with its functions.
pub struct Root {
    /// Function 0 of each device of bus 0, by device number.
    functions: Vec<Arc<dyn Function>>,
}

impl Root {
    /// A host bridge, and `functions` from device 1 on.
    ///
    /// # Panics
    /// If there are more than [`trapless_pci::MAX_DEVICES`].
    pub fn new(functions: Vec<Arc<dyn Function>>) -> Self {
        assert!(
            functions.len() <= trapless_pci::MAX_DEVICES,
            "a bus has 32 devices"
        );
        let bridge: Arc<dyn Function> = Arc::new(Bridge);
        Self {
            functions: std::iter::once(bridge).chain(functions).collect(),
        }
    }

    /// Registers its windows.
    pub fn register(self, windows: &Windows, registry: &mut Registry) {
        let root = Arc::new(self);
        let ecam = Registered::new("pci-config");
        let len = windows.ecam.end - windows.ecam.start;
        registry.add(ecam.at(windows.ecam.start, len, Arc::new(Ecam(root.clone()))));
        for (name, window) in [
            ("pci-memory", &windows.low),
            ("pci-memory-high", &windows.high),
        ] {
            let memory = Memory {
                root: root.clone(),
                base: window.start,
            };
            let len = window.end - window.start;
            registry.add(Registered::new(name).at(window.start, len, Arc::new(memory)));
        }
    }

    /// The function that an offset in the ECAM belongs to, and the offset in its space.
    fn at(&self, offset: u64) -> Option<(&dyn Function, usize)> {
        // Bits of a routing ID: bus, device and function number.
        let id = offset / SPACE;
        let number = usize::try_from(id >> 3).ok()?;
        let function = self.functions.get(number).filter(|_| id & 7 == 0)?;
        Some((&**function, (offset % SPACE) as usize))
    }
}

/// The configuration spaces. What no function answers reads as all ones.
struct Ecam(Arc<Root>);

impl BusDevice for Ecam {
    fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0xff);
        if let Some((function, offset)) = self.0.at(offset) {
            function.read_config(offset, data);
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        if let Some((function, offset)) = self.0.at(offset) {
            function.write_config(offset, data);
        }
    }
}

/// A window of memory, where bus and physical addresses are the same. Where regions overlap, the
/// function with the lowest number answers.
struct Memory {
    root: Arc<Root>,
    base: u64,
}

impl BusDevice for Memory {
    fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0xff);
        let address = self.base + offset;
        let mut functions = self.root.functions.iter();
        functions.any(|function| function.read_memory(address, data));
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let address = self.base + offset;
        let mut functions = self.root.functions.iter();
        functions.any(|function| function.write_memory(address, data));
    }
}

/// The host bridge: QEMU's generic one, which needs no driver.
struct Bridge;

impl Bridge {
    /// Vendor and device, command and status, class.
    const HEADER: [u32; 3] = [0x0008_1b36, 0, 0x0600_0000];
}

impl Function for Bridge {
    fn read_config(&self, offset: usize, data: &mut [u8]) {
        for (at, byte) in (offset..).zip(data) {
            let word = Self::HEADER.get(at / 4).copied().unwrap_or(0);
            *byte = word.to_le_bytes()[at % 4];
        }
    }

    fn write_config(&self, _: usize, _: &[u8]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::{Bus, value};
    use std::sync::Mutex;

    /// 64 bytes of configuration space, and a region of 16 bytes.
    struct Scratch(Mutex<[u8; 64]>, u64);

    impl Function for Scratch {
        fn read_config(&self, offset: usize, data: &mut [u8]) {
            data.copy_from_slice(&self.0.lock().unwrap()[offset..offset + data.len()]);
        }

        fn write_config(&self, offset: usize, data: &[u8]) {
            self.0.lock().unwrap()[offset..offset + data.len()].copy_from_slice(data);
        }

        fn read_memory(&self, address: u64, data: &mut [u8]) -> bool {
            let inside = (self.1..self.1 + 16).contains(&address);
            if inside {
                data.fill(self.1 as u8);
            }
            inside
        }
    }

    fn bus() -> Bus {
        let windows = Windows::virt(0x9000_0000);
        let scratch = |base| Arc::new(Scratch(Mutex::new([0; 64]), base)) as Arc<dyn Function>;
        let root = Root::new(vec![scratch(0x4000_0011), scratch(0x4000_0012)]);
        let mut registry = Registry::default();
        root.register(&windows, &mut registry);
        registry.bus
    }

    fn read(bus: &Bus, address: u64) -> u32 {
        let mut data = [0; 4];
        bus.read(address, &mut data).unwrap();
        value(&data) as u32
    }

    /// Promise: only function 0 of devices that there are answers, and a guest sees the end of the
    /// bus as all ones.
    #[test]
    fn routing_ids_choose_functions() {
        let bus = bus();
        let ecam = 0x3000_0000;
        assert_eq!(read(&bus, ecam), 0x0008_1b36);
        assert_eq!(read(&bus, ecam + 0x3c), 0);
        bus.write(ecam + 0x8010, &[1, 2, 3, 4]);
        assert_eq!(read(&bus, ecam + 0x8010), 0x0403_0201);
        assert_eq!(read(&bus, ecam + 0x1_0010), 0);
        for absent in [0x1000, 0x9000, 0x1_8000, 0x10_0000, 0xfff_f000] {
            assert_eq!(read(&bus, ecam + absent), u32::MAX);
            bus.write(ecam + absent, &[0; 4]);
        }
    }

    #[test]
    fn the_first_function_with_an_address_answers() {
        let bus = bus();
        assert_eq!(read(&bus, 0x4000_0014), 0x1111_1111);
        assert_eq!(read(&bus, 0x4000_0021), 0x1212_1212);
        assert_eq!(read(&bus, 0x4000_0040), u32::MAX);
    }
}
