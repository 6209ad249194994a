//! How devices reach memory: an access names the device that makes it, so that an IOMMU can stand
//! between.

use std::iter::FusedIterator;
use std::sync::Arc;

use vm_memory::guest_memory::GuestMemorySliceIterator;
use vm_memory::{
    GuestAddress, GuestMemory, GuestMemoryBackend, GuestMemoryError, Permissions, VolatileSlice,
};

use crate::GuestRam;
use crate::ats::TranslationAgent;

/// Who makes an access: the `device_id` of an IOMMU, which of a PCI function is its routing ID
/// (bus, device and function number).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

/// What a device does to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DmaAccess {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// Nothing may be accessed there by this device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmaFault;

/// Bytes that follow each other in physical memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Physical address of the first one.
    pub address: u64,
    /// How many, at least one.
    pub len: u64,
}

/// What lies between devices and the rest of the system: a root complex, and an IOMMU if there is
/// one. Everything that a device does there by itself goes through it.
///
/// It takes `&self`, because a device holds it while it works, as do others.
pub trait Dma: Send + Sync {
    /// Where in physical memory the first of the `len` bytes (at least one) at `address` of
    /// `device` are; fewer than asked for, if others are elsewhere. What it tells holds for one
    /// access only.
    ///
    /// # Errors
    /// [`DmaFault`] if the device must not access them. Whoever refuses has reported that.
    fn locate(
        &self,
        device: DeviceId,
        address: u64,
        len: u64,
        access: DmaAccess,
    ) -> Result<Extent, DmaFault>;

    /// `device` writes the word `data` to `address`, after all that it wrote before: a message
    /// signalled interrupt. It is a posted write, so the device does not learn what became of it.
    fn message(&self, device: DeviceId, address: u64, data: u32);

    /// Whether addresses of devices can be others than physical ones, as behind an IOMMU.
    fn translates(&self) -> bool {
        false
    }

    /// Who tells devices translations that they remember, if somebody does.
    fn agent(&self) -> Option<&dyn TranslationAgent> {
        None
    }
}

/// Memory as one device sees it.
#[derive(Clone)]
pub struct DeviceMemory {
    ram: Arc<GuestRam>,
    /// Who it is, and what lies between; `None`: nothing, it sees physical addresses.
    behind: Option<(DeviceId, Arc<dyn Dma>)>,
}

impl DeviceMemory {
    /// That of `device`, whose accesses to `ram` go through `dma`.
    pub fn behind(ram: Arc<GuestRam>, device: DeviceId, dma: Arc<dyn Dma>) -> Self {
        Self {
            ram,
            behind: Some((device, dma)),
        }
    }

    /// Whether something may refuse accesses at one time that it allows at another.
    pub fn is_guarded(&self) -> bool {
        self.behind.is_some()
    }

    /// Whether its addresses can be others than physical ones.
    pub fn is_translated(&self) -> bool {
        self.behind
            .as_ref()
            .is_some_and(|(_, dma)| dma.translates())
    }

    /// Where the first of `len` bytes are.
    fn locate(&self, address: u64, len: u64, access: Permissions) -> Result<Extent, DmaFault> {
        let Some((device, dma)) = &self.behind else {
            return Ok(Extent { address, len });
        };
        let access = match access {
            Permissions::Write | Permissions::ReadWrite => DmaAccess::Write,
            _ => DmaAccess::Read,
        };
        let found = dma.locate(*device, address, len, access)?;
        match found.len.min(len) {
            0 => Err(DmaFault),
            len => Ok(Extent { len, ..found }),
        }
    }
}

impl From<Arc<GuestRam>> for DeviceMemory {
    /// RAM with nothing between.
    fn from(ram: Arc<GuestRam>) -> Self {
        Self { ram, behind: None }
    }
}

impl GuestMemory for DeviceMemory {
    type PhysicalMemory = GuestRam;
    type Bitmap = ();

    fn check_range(&self, address: GuestAddress, count: usize, access: Permissions) -> bool {
        match &self.behind {
            None => GuestMemoryBackend::check_range(&*self.ram, address, count),
            Some(_) => Slices::new(self, address, count, access).all(|slice| slice.is_ok()),
        }
    }

    fn get_slices<'a>(
        &'a self,
        address: GuestAddress,
        count: usize,
        access: Permissions,
    ) -> Result<impl GuestMemorySliceIterator<'a, ()>, GuestMemoryError> {
        Ok(Slices::new(self, address, count, access))
    }

    fn physical_memory(&self) -> Option<&GuestRam> {
        match &self.behind {
            None => Some(&self.ram),
            Some(_) => None,
        }
    }
}

/// A range of a device's addresses, piece by piece.
struct Slices<'a> {
    memory: &'a DeviceMemory,
    address: u64,
    left: u64,
    access: Permissions,
}

impl<'a> Slices<'a> {
    fn new(
        memory: &'a DeviceMemory,
        address: GuestAddress,
        count: usize,
        access: Permissions,
    ) -> Self {
        Self {
            memory,
            address: address.0,
            left: count as u64,
            access,
        }
    }

    /// The next piece, unless what is left goes beyond the end of the address space.
    fn piece(&self) -> Option<VolatileSlice<'a, ()>> {
        let memory = self.memory;
        self.address.checked_add(self.left - 1)?;
        let found = memory.locate(self.address, self.left, self.access).ok()?;
        let len = usize::try_from(found.len).ok()?;
        let mut pieces =
            GuestMemoryBackend::get_slices(&*memory.ram, GuestAddress(found.address), len);
        pieces.next()?.ok()
    }
}

impl<'a> Iterator for Slices<'a> {
    type Item = Result<VolatileSlice<'a, ()>, GuestMemoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let Some(piece) = self.piece().filter(|piece| !piece.is_empty()) else {
            self.left = 0;
            return Some(Err(GuestMemoryError::InvalidGuestAddress(GuestAddress(
                self.address,
            ))));
        };
        self.left -= piece.len() as u64;
        self.address = self.address.wrapping_add(piece.len() as u64);
        Some(Ok(piece))
    }
}

impl FusedIterator for Slices<'_> {}

impl<'a> GuestMemorySliceIterator<'a, ()> for Slices<'a> {}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use vm_memory::Bytes;

    use super::*;

    /// Swaps the two halves of 8 KiB at 0x1000, and lets device 7 only read the first of them.
    #[derive(Default)]
    struct Swap(Mutex<Vec<(u32, u64)>>);

    impl Dma for Swap {
        fn locate(
            &self,
            device: DeviceId,
            address: u64,
            len: u64,
            access: DmaAccess,
        ) -> Result<Extent, DmaFault> {
            self.0.lock().unwrap().push((device.0, address));
            let to = match address {
                0x1000..0x2000 if access == DmaAccess::Read => address + 0x1000,
                0x2000..0x3000 => address - 0x1000,
                _ => return Err(DmaFault),
            };
            let len = len.min(0x1000 - address % 0x1000);
            Ok(Extent { address: to, len })
        }

        fn message(&self, _: DeviceId, _: u64, _: u32) {}
    }

    /// Promise: each byte of an access is where the translation of its page says, and an access
    /// that is refused in the middle goes no further.
    #[test]
    fn accesses_follow_the_translation_piece_by_piece() {
        let ram = Arc::new(GuestRam::from_ranges(&[(GuestAddress(0x1000), 0x2000)]).unwrap());
        ram.write_slice(b"tail", GuestAddress(0x1000)).unwrap();
        ram.write_slice(b"head", GuestAddress(0x2ffc)).unwrap();
        let swap = Arc::new(Swap::default());
        let memory = DeviceMemory::behind(ram.clone(), DeviceId(7), swap.clone());
        let mut bytes = [0; 8];
        memory.read_slice(&mut bytes, GuestAddress(0x1ffc)).unwrap();
        assert_eq!(&bytes, b"headtail");
        assert_eq!(*swap.0.lock().unwrap(), [(7, 0x1ffc), (7, 0x2000)]);
        assert!(
            memory
                .write_slice(b"12345678", GuestAddress(0x1ffc))
                .is_err()
        );
        memory.write_slice(b"T", GuestAddress(0x2000)).unwrap();
        assert_eq!(ram.read_obj::<u8>(GuestAddress(0x1000)).unwrap(), b'T');
        let (read, write) = (Permissions::Read, Permissions::Write);
        assert!(memory.check_range(GuestAddress(0x1000), 0x2000, read));
        assert!(!memory.check_range(GuestAddress(0x1000), 0x2000, write));
        assert!(!memory.check_range(GuestAddress(0x2fff), 2, read));
    }

    /// Promise: addresses at the end of the address space are refused, not wrapped around.
    #[test]
    fn nothing_wraps_around() {
        let ram = Arc::new(GuestRam::from_ranges(&[(GuestAddress(0), 0x1000)]).unwrap());
        let memory = DeviceMemory::from(ram);
        let mut bytes = [0; 8];
        let end = GuestAddress(u64::MAX - 3);
        assert!(memory.read_slice(&mut bytes, end).is_err());
        assert!(!memory.check_range(end, 8, Permissions::Read));
        assert!(memory.check_range(GuestAddress(0), 0x1000, Permissions::Write));
        let memory = DeviceMemory::behind(ram_page(), DeviceId(0), Arc::new(Everywhere));
        let last = GuestAddress(u64::MAX - 0xfff);
        assert!(memory.check_range(last, 0x1000, Permissions::Read));
        assert!(!memory.check_range(last, 0x1001, Permissions::Read));
        let mut bytes = [0; 0x1001];
        assert!(memory.read_slice(&mut bytes, last).is_err());
    }

    fn ram_page() -> Arc<GuestRam> {
        Arc::new(GuestRam::from_ranges(&[(GuestAddress(0), 0x1000)]).unwrap())
    }

    /// Maps each page to the first one of RAM.
    struct Everywhere;

    impl Dma for Everywhere {
        fn locate(
            &self,
            _: DeviceId,
            address: u64,
            len: u64,
            _: DmaAccess,
        ) -> Result<Extent, DmaFault> {
            let address = address % 0x1000;
            let len = len.min(0x1000 - address);
            Ok(Extent { address, len })
        }

        fn message(&self, _: DeviceId, _: u64, _: u32) {}
    }
}
