//! Description of the machine and its guests, for names in the ledger.

use serde::{Deserialize, Serialize};

/// A window of physical addresses with the name of its device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceWindow {
    /// First byte.
    pub base: u64,
    /// Length in bytes.
    pub size: u64,
    /// Name in ledgers: lower case, no dot.
    pub name: String,
}

impl DeviceWindow {
    /// A window.
    pub fn new(base: u64, size: u64, name: &str) -> Self {
        Self {
            base,
            size,
            name: name.to_string(),
        }
    }
}

/// Named windows of one address space, searched by address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMap {
    windows: Vec<DeviceWindow>,
}

impl DeviceMap {
    /// A map of `windows`; where two overlap, the one with the higher base wins.
    pub fn new(mut windows: Vec<DeviceWindow>) -> Self {
        windows.sort_by_key(|w| w.base);
        Self { windows }
    }

    /// The map of QEMU's `virt` machine, which the machine and the VMM's guests share
    /// (`docs/architecture.md`).
    pub fn virt() -> Self {
        let mut windows = vec![
            DeviceWindow::new(0x10_0000, 0x1000, "syscon"),
            DeviceWindow::new(0x10_1000, 0x1000, "rtc"),
            DeviceWindow::new(0x200_0000, 0x4000, "mswi"),
            DeviceWindow::new(0x200_4000, 0x8000, "mtimer"),
            DeviceWindow::new(0x2f0_0000, 0x4000, "sswi"),
            DeviceWindow::new(0xc00_0000, 0x60_0000, "plic"),
            DeviceWindow::new(0x1000_0000, 0x100, "uart"),
        ];
        for slot in 0..8 {
            let base = 0x1000_1000 + 0x1000 * slot;
            windows.push(DeviceWindow::new(base, 0x1000, &format!("virtio{slot}")));
        }
        Self::new(windows)
    }

    /// Index of the window that holds `addr`; [`len`](Self::len) if none does.
    pub fn find(&self, addr: u64) -> usize {
        let after = self.windows.partition_point(|w| w.base <= addr);
        match after.checked_sub(1) {
            Some(i) if addr - self.windows[i].base < self.windows[i].size => i,
            _ => self.windows.len(),
        }
    }

    /// Name of window `index`; `unknown` for an address outside all of them.
    pub fn name(&self, index: usize) -> &str {
        self.windows.get(index).map_or("unknown", |w| &w.name)
    }

    /// First byte of window `index`, if it is called `name`.
    pub fn base_of(&self, index: usize, name: &str) -> Option<u64> {
        let window = self.windows.get(index).filter(|w| w.name == name)?;
        Some(window.base)
    }

    /// The same map with IMSICs and an APLIC, as the machine `aia` has them; `plic`: guests may
    /// have a PLIC as well.
    pub fn with_aia(self, plic: bool) -> Self {
        let mut windows = self.windows;
        windows.retain(|w| plic || w.name != "plic");
        if !plic {
            windows.push(DeviceWindow::new(0xc00_0000, 0x8000, "aplic_m"));
            windows.push(DeviceWindow::new(0x2400_0000, 0x10_0000, "imsic_m"));
        }
        windows.push(DeviceWindow::new(0xd00_0000, 0x8000, "aplic"));
        windows.push(DeviceWindow::new(0x2800_0000, 0x400_0000, "imsic"));
        Self::new(windows)
    }

    /// The same map with a PCI host, whose window above RAM begins at `high`.
    pub fn with_pci(self, high: u64) -> Self {
        let mut windows = self.windows;
        windows.push(DeviceWindow::new(0x3000_0000, 0x1000_0000, "pci_config"));
        windows.push(DeviceWindow::new(0x4000_0000, 0x4000_0000, "pci"));
        windows.push(DeviceWindow::new(high, 1 << 34, "pci_high"));
        Self::new(windows)
    }

    /// The same map with the registers and pages of message windows (Xtrapless).
    pub fn with_message_windows(self) -> Self {
        let mut windows = self.windows;
        windows.push(DeviceWindow::new(0x302_0000, 0x4000, "window_registers"));
        windows.push(DeviceWindow::new(0x2800_0000, 0x10_0000, "messages"));
        Self::new(windows)
    }

    /// Number of windows.
    pub fn len(&self) -> usize {
        self.windows.len()
    }

    /// Whether there is no window.
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }
}

impl Default for DeviceMap {
    fn default() -> Self {
        Self::virt()
    }
}

/// Configuration of a [`Ledger`](crate::Ledger).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Number of harts. More are added when an event names one.
    pub harts: usize,
    /// Cycles of virtual time in one tick of `time`.
    pub cycles_per_tick: u64,
    /// The machine's own devices, for [`DeviceAccess`](crate::events::event::DeviceAccess) events.
    pub devices: DeviceMap,
    /// Devices in the guests' physical address space, for guest-page faults.
    pub guest_devices: DeviceMap,
    /// First guest physical address of guest RAM: faults from here on, outside `guest_devices`,
    /// are page faults and not device accesses.
    pub guest_ram_base: u64,
}

impl Config {
    /// The default machine (1 GHz, `time` at 10 MHz, `virt` map) with `harts` harts.
    pub fn new(harts: usize) -> Self {
        Self {
            harts,
            cycles_per_tick: 100,
            devices: DeviceMap::virt(),
            guest_devices: DeviceMap::virt(),
            guest_ram_base: 0x8000_0000,
        }
    }

    /// The same for a machine with IMSICs and an APLIC, whose guests may also have them.
    #[must_use]
    pub fn with_aia(self) -> Self {
        Self {
            devices: self.devices.with_aia(false),
            guest_devices: self.guest_devices.with_aia(true),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_names_first_and_last_byte_and_nothing_beyond() {
        let map = DeviceMap::virt();
        let name = |addr| map.name(map.find(addr)).to_string();
        assert_eq!(name(0x1000_0000), "uart");
        assert_eq!(name(0x1000_00ff), "uart");
        assert_eq!(name(0x1000_0100), "unknown");
        assert_eq!(name(0x1000_8fff), "virtio7");
        assert_eq!(name(0x200_3fff), "mswi");
        assert_eq!(name(0x200_4000), "mtimer");
        assert_eq!(name(0), "unknown");
        assert_eq!(name(u64::MAX), "unknown");
    }
}
