//! The bus: decodes guest physical addresses.

use std::sync::Arc;

/// Registers of a device. Called from vCPU threads concurrently.
pub trait BusDevice: Send + Sync {
    /// Guest load of `data.len()` (1, 2, 4 or 8) bytes at `offset`.
    fn read(&self, offset: u64, data: &mut [u8]);
    /// Guest store of `data.len()` (1, 2, 4 or 8) bytes at `offset`.
    fn write(&self, offset: u64, data: &[u8]);
}

struct Slot {
    name: String,
    base: u64,
    len: u64,
    device: Arc<dyn BusDevice>,
}

/// The guest physical addresses of all devices.
#[derive(Default)]
pub struct Bus(Vec<Slot>);

impl Bus {
    /// Adds a device at `base .. base + len`; `name` is for messages and statistics.
    ///
    /// # Panics
    /// If the window overlaps another one: the memory map is fixed, so this is a bug of the VMM.
    pub fn add(&mut self, name: &str, base: u64, len: u64, device: Arc<dyn BusDevice>) {
        let overlaps = |slot: &Slot| base < slot.base + slot.len && slot.base < base + len;
        assert!(
            !self.0.iter().any(overlaps),
            "{name} overlaps another device"
        );
        self.0.push(Slot {
            name: name.into(),
            base,
            len,
            device,
        });
    }

    /// Names of the slots, in the order of their numbers.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|slot| slot.name.clone()).collect()
    }

    /// The slot that has all `len` bytes at `addr`, and the offset in it.
    fn find(&self, addr: u64, len: usize) -> Option<(usize, u64)> {
        let fits = |slot: &Slot| {
            let offset = addr.checked_sub(slot.base)?;
            (offset.checked_add(len as u64)? <= slot.len).then_some(offset)
        };
        self.0
            .iter()
            .enumerate()
            .find_map(|(number, slot)| Some((number, fits(slot)?)))
    }

    /// Guest load; returns the accessed slot. Without a device the guest reads zeroes.
    pub fn read(&self, addr: u64, data: &mut [u8]) -> Option<u16> {
        data.fill(0);
        let (number, offset) = self.find(addr, data.len())?;
        self.0[number].device.read(offset, data);
        Some(number as u16)
    }

    /// Guest store; returns the accessed slot. Without a device the store has no effect.
    pub fn write(&self, addr: u64, data: &[u8]) -> Option<u16> {
        let (number, offset) = self.find(addr, data.len())?;
        self.0[number].device.write(offset, data);
        Some(number as u16)
    }
}

/// Little-endian value of 1 to 8 bytes.
pub fn value(data: &[u8]) -> u64 {
    data.iter()
        .rev()
        .fold(0, |value, &byte| (value << 8) | u64::from(byte))
}

/// Fills `data` with the low bytes of `value`.
pub fn fill(data: &mut [u8], value: u64) {
    let bytes = value.to_le_bytes();
    let len = data.len().min(bytes.len());
    data[..len].copy_from_slice(&bytes[..len]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    struct Memory(Mutex<[u8; 16]>);

    impl BusDevice for Memory {
        fn read(&self, offset: u64, data: &mut [u8]) {
            let at = offset as usize;
            data.copy_from_slice(&self.0.lock().unwrap()[at..at + data.len()]);
        }
        fn write(&self, offset: u64, data: &[u8]) {
            let at = offset as usize;
            self.0.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
        }
    }

    fn bus() -> Bus {
        let mut bus = Bus::default();
        for (name, base) in [("a", 0x1000), ("b", 0x1010)] {
            bus.add(name, base, 16, Arc::new(Memory(Mutex::new([0; 16]))));
        }
        bus
    }

    #[test]
    fn accesses_reach_the_device_that_holds_all_their_bytes() {
        let bus = bus();
        assert_eq!(bus.write(0x1018, &[1, 2, 3, 4, 5, 6, 7, 8]), Some(1));
        let mut data = [0; 4];
        assert_eq!(bus.read(0x101c, &mut data), Some(1));
        assert_eq!(value(&data), 0x0807_0605);
        assert_eq!(bus.read(0x100e, &mut data), None, "crosses from a to b");
        assert_eq!(data, [0; 4]);
        assert_eq!(bus.write(u64::MAX, &[0; 8]), None);
        assert_eq!(bus.write(0xfff, &[0; 2]), None);
    }

    #[test]
    #[should_panic(expected = "overlaps")]
    fn overlapping_windows_are_a_bug() {
        bus().add("c", 0x101f, 4, Arc::new(Memory(Mutex::new([0; 16]))));
    }
}
