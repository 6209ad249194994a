//! A device by VFIO's character device (Linux UAPI `linux/vfio.h`).

use crate::devices::vfio::iommufd::{AddressSpace, check};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use vfio_bindings::bindings::vfio::*;
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::ioctl::{ioctl, ioctl_with_mut_ptr, ioctl_with_mut_ref, ioctl_with_ptr};

mod request {
    #![allow(missing_docs)] // The macro makes public functions without one.
    use vfio_bindings::bindings::vfio::{VFIO_BASE, VFIO_TYPE};
    macro_rules! request {
        ($name:ident, $number:literal) => {
            vmm_sys_util::ioctl_io_nr!($name, VFIO_TYPE as u32, VFIO_BASE + $number);
        };
    }
    request!(VFIO_DEVICE_GET_INFO, 7);
    request!(VFIO_DEVICE_GET_REGION_INFO, 8);
    request!(VFIO_DEVICE_GET_IRQ_INFO, 9);
    request!(VFIO_DEVICE_SET_IRQS, 10);
    request!(VFIO_DEVICE_RESET, 11);
    request!(VFIO_DEVICE_BIND_IOMMUFD, 18);
    request!(VFIO_DEVICE_ATTACH_IOMMUFD_PT, 19);
}

/// Where the character device of a device of the host is, which has the folder `sysfs`.
pub fn path(sysfs: &Path) -> Option<PathBuf> {
    let entry = sysfs.join("vfio-dev").read_dir().ok()?.next()?.ok()?;
    Some(Path::new("/dev/vfio/devices").join(entry.file_name()))
}

/// Most regions, and kinds of interrupts, that this program knows of a device.
const MAX_KINDS: u32 = 16;

/// Most bytes of what VFIO says of a region.
const REGION_INFO: usize = 4096;

/// A region: of a PCI device a BAR or the configuration space.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Region {
    len: u64,
    /// Where it is in the file.
    offset: u64,
    /// Parts that can be mapped.
    mappable: Vec<Range<u64>>,
}

impl Region {
    /// Reads what VFIO wrote: a `vfio_region_info` and capabilities.
    fn parse(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 4).unwrap_or(&[0; 4]);
            u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        let long = |at: usize| u64::from(word(at + 4)) << 32 | u64::from(word(at));
        let mut region = Self {
            len: long(16),
            offset: long(24),
            mappable: Vec::new(),
        };
        let flags = word(4);
        if flags & VFIO_REGION_INFO_FLAG_MMAP == 0 {
            return region;
        }
        let mut at = match flags & VFIO_REGION_INFO_FLAG_CAPS {
            0 => 0,
            _ => word(12) as usize,
        };
        while at != 0 {
            if word(at) & 0xffff == VFIO_REGION_INFO_CAP_SPARSE_MMAP {
                let first = at + size_of::<vfio_region_info_cap_sparse_mmap>();
                let areas = (first..).step_by(16).take(word(at + 8) as usize);
                let part = |at| long(at)..long(at) + long(at + 8);
                region.mappable = areas.take_while(|at| *at < bytes.len()).map(part).collect();
                return region;
            }
            // They follow each other.
            let next = word(at + 4) as usize;
            at = if next > at { next } else { 0 };
        }
        region.mappable = std::iter::once(0..region.len).collect();
        region
    }
}

/// A device that is in an address space.
pub struct Handle {
    file: File,
    flags: u32,
    regions: Vec<Region>,
    interrupts: Vec<Interrupts>,
    /// It has more of either, of which nothing is known here.
    more: bool,
}

/// Interrupts of a kind; of a platform device each has a kind of its own.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Interrupts {
    number: u32,
    /// They are level-triggered.
    level: bool,
}

impl Handle {
    /// Puts the device whose character device is `file`, opened, into `space`; as
    /// [`AddressSpace::enter`] says if `guest`.
    ///
    /// # Errors
    /// The error that the system returned, and what was refused.
    pub fn new(
        file: File,
        space: &AddressSpace,
        guest: bool,
    ) -> Result<Self, (&'static str, io::Error)> {
        let mut bind = vfio_device_bind_iommufd {
            argsz: size_of::<vfio_device_bind_iommufd>() as u32,
            iommufd: space.as_raw_fd(),
            ..Default::default()
        };
        // SAFETY: the kernel writes this structure, which has the size that it says.
        let bound = check(unsafe {
            ioctl_with_mut_ref(&file, request::VFIO_DEVICE_BIND_IOMMUFD(), &mut bind)
        });
        bound.map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => (
                "iommufd refuses it; load that with allow_unsafe_interrupts=1 if the kernel's log \
                 says that MSIs are not isolated",
                e,
            ),
            _ => ("VFIO cannot have it", e),
        })?;
        let attach = |table| {
            let mut attach = vfio_device_attach_iommufd_pt {
                argsz: size_of::<vfio_device_attach_iommufd_pt>() as u32,
                pt_id: table,
                ..Default::default()
            };
            // SAFETY: as above.
            check(unsafe {
                ioctl_with_mut_ref(&file, request::VFIO_DEVICE_ATTACH_IOMMUFD_PT(), &mut attach)
            })
        };
        space
            .enter(bind.out_devid, guest, attach)
            .map_err(|e| ("the IOMMU cannot translate for it", e))?;
        Self::describe(file).map_err(|e| ("VFIO does not describe it", e))
    }

    fn describe(file: File) -> io::Result<Self> {
        let mut info = vfio_device_info {
            argsz: size_of::<vfio_device_info>() as u32,
            ..Default::default()
        };
        // SAFETY: as above.
        check(unsafe { ioctl_with_mut_ref(&file, request::VFIO_DEVICE_GET_INFO(), &mut info) })?;
        let region = |index| Self::region(&file, index).unwrap_or_default();
        let interrupts = |index| Self::interrupts(&file, index).unwrap_or_default();
        Ok(Self {
            flags: info.flags,
            more: info.num_regions.max(info.num_irqs) > MAX_KINDS,
            regions: (0..info.num_regions.min(MAX_KINDS)).map(region).collect(),
            interrupts: (0..info.num_irqs.min(MAX_KINDS)).map(interrupts).collect(),
            file,
        })
    }

    fn region(file: &File, index: u32) -> io::Result<Region> {
        // As words of the structure's alignment.
        let mut buffer = [0_u64; REGION_INFO / 8];
        let header = vfio_region_info {
            argsz: REGION_INFO as u32,
            index,
            ..Default::default()
        };
        // SAFETY: the buffer is aligned as the structure, and has room for it.
        unsafe { buffer.as_mut_ptr().cast::<vfio_region_info>().write(header) };
        // SAFETY: the kernel writes at most as many bytes as the structure says there are.
        check(unsafe {
            ioctl_with_mut_ptr(
                file,
                request::VFIO_DEVICE_GET_REGION_INFO(),
                buffer.as_mut_ptr(),
            )
        })?;
        let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(Region::parse(&bytes))
    }

    fn interrupts(file: &File, index: u32) -> io::Result<Interrupts> {
        let mut info = vfio_irq_info {
            argsz: size_of::<vfio_irq_info>() as u32,
            index,
            ..Default::default()
        };
        // SAFETY: the kernel writes this structure, which has the size that it says.
        check(unsafe { ioctl_with_mut_ref(file, request::VFIO_DEVICE_GET_IRQ_INFO(), &mut info) })?;
        Ok(Interrupts {
            number: info.count,
            level: info.flags & VFIO_IRQ_INFO_AUTOMASKED != 0,
        })
    }

    fn at(&self, region: u32) -> Option<&Region> {
        self.regions.get(region as usize)
    }

    /// Length of a region; 0 if there is none.
    pub fn len(&self, region: u32) -> u64 {
        self.at(region).map_or(0, |region| region.len)
    }

    /// Parts of a region that can be mapped.
    pub fn mappable(&self, region: u32) -> &[Range<u64>] {
        self.at(region).map_or(&[], |region| &region.mappable)
    }

    /// Where a region is in the file.
    pub fn offset(&self, region: u32) -> u64 {
        self.at(region).map_or(0, |region| region.offset)
    }

    /// Where `len` bytes of a region are in the file.
    fn place(&self, region: u32, offset: u64, len: usize) -> io::Result<u64> {
        let region = self.at(region);
        let end = offset.checked_add(len as u64);
        let inside = region.zip(end).filter(|(region, end)| *end <= region.len);
        let (region, _) = inside.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(region.offset + offset)
    }

    /// Loads from a region.
    ///
    /// # Errors
    /// The error that the system returned.
    pub fn read(&self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let place = self.place(region, offset, data.len())?;
        self.file.read_exact_at(data, place)
    }

    /// Stores to a region.
    ///
    /// # Errors
    /// The error that the system returned.
    pub fn write(&self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        let place = self.place(region, offset, data.len())?;
        self.file.write_all_at(data, place)
    }

    /// Number of interrupts of a kind (`VFIO_PCI_*_IRQ_INDEX`).
    pub fn number(&self, kind: u32) -> u32 {
        self.interrupts.get(kind as usize).map_or(0, |i| i.number)
    }

    /// For each kind of interrupts whether they are level-triggered.
    pub fn levels(&self) -> impl Iterator<Item = bool> {
        self.interrupts.iter().map(|interrupts| interrupts.level)
    }

    /// Number of regions.
    pub fn regions(&self) -> u32 {
        self.regions.len() as u32
    }

    /// Whether it has regions or kinds of interrupts that this program does not know.
    pub fn has_more(&self) -> bool {
        self.more
    }

    /// Whether it is a PCI device.
    pub fn is_pci(&self) -> bool {
        self.flags & VFIO_DEVICE_FLAGS_PCI != 0
    }

    /// Whether it is a platform device.
    pub fn is_platform(&self) -> bool {
        self.flags & VFIO_DEVICE_FLAGS_PLATFORM != 0
    }

    /// `VFIO_DEVICE_SET_IRQS`: `action` for interrupts of a kind from the first on, as many as
    /// there are `events`; without any, for `count` of them.
    ///
    /// Returns how many there can be, if VFIO has refused because there are too many.
    fn set(&self, kind: u32, action: u32, count: u32, events: &[&EventFd]) -> io::Result<usize> {
        let data = match events {
            [] => VFIO_IRQ_SET_DATA_NONE,
            _ => VFIO_IRQ_SET_DATA_EVENTFD,
        };
        let count = count.max(events.len() as u32);
        let len = size_of::<vfio_irq_set>() + size_of::<RawFd>() * events.len();
        let mut words = vec![len as u32, data | action, kind, 0, count];
        words.extend(events.iter().map(|event| event.as_raw_fd() as u32));
        let request = request::VFIO_DEVICE_SET_IRQS();
        // SAFETY: the kernel reads as many bytes as the structure says there are; it consists of
        // words.
        let result = unsafe { ioctl_with_ptr(&self.file, request, words.as_ptr()) };
        check(result).map(|()| result as usize)
    }

    /// Writes `events[n]` when interrupt n of a kind comes; of the first, if the host has no more.
    /// Returns how many these are. An old set has to be disabled first.
    ///
    /// # Errors
    /// The error that the system returned.
    pub fn enable(&self, kind: u32, events: &[&EventFd]) -> io::Result<usize> {
        let enable = |events: &[_]| self.set(kind, VFIO_IRQ_SET_ACTION_TRIGGER, 0, events);
        match enable(events)? {
            0 => Ok(events.len()),
            most => {
                let events = &events[..most.min(events.len())];
                match enable(events)? {
                    0 => Ok(events.len()),
                    _ => Err(io::Error::other("the host has no interrupts left")),
                }
            }
        }
    }

    /// Disables all interrupts of a kind.
    ///
    /// # Errors
    /// The error that the system returned, also if none is enabled.
    pub fn disable(&self, kind: u32) -> io::Result<()> {
        self.set(kind, VFIO_IRQ_SET_ACTION_TRIGGER, 0, &[])
            .map(drop)
    }

    /// Unmasks interrupt 0 of a kind.
    ///
    /// # Errors
    /// The error that the system returned.
    pub fn unmask(&self, kind: u32) -> io::Result<()> {
        self.set(kind, VFIO_IRQ_SET_ACTION_UNMASK, 1, &[]).map(drop)
    }

    /// Unmasks interrupt 0 of a kind whenever `event` is written.
    ///
    /// # Errors
    /// The error that the system returned.
    pub fn unmask_by(&self, kind: u32, event: &EventFd) -> io::Result<()> {
        self.set(kind, VFIO_IRQ_SET_ACTION_UNMASK, 0, &[event])
            .map(drop)
    }

    /// Resets the device.
    ///
    /// # Errors
    /// The error that the system returned, or that it cannot be reset.
    pub fn reset(&self) -> io::Result<()> {
        if self.flags & VFIO_DEVICE_FLAGS_RESET == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // SAFETY: the request has no argument.
        check(unsafe { ioctl(&self.file, request::VFIO_DEVICE_RESET()) })
    }
}

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// Opens a character device.
///
/// # Errors
/// The error that the system returned.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(flags: u32, capabilities: &[u32]) -> Vec<u8> {
        let header = [REGION_INFO as u32, flags, 0, 32, 0x4000, 0, 0, 0x100];
        let words = header.iter().chain(capabilities);
        words.flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Promise: only what VFIO lets us map is mapped, and what it says is read to its end only.
    #[test]
    fn regions_say_what_can_be_mapped() {
        let mappable = |flags, caps: &[u32]| {
            let parts = Region::parse(&info(flags, caps)).mappable;
            let ends = |part: Range<u64>| (part.start, part.end);
            parts.into_iter().map(ends).collect::<Vec<_>>()
        };
        let none = Region::parse(&info(VFIO_REGION_INFO_FLAG_READ, &[]));
        assert_eq!((none.len, none.offset), (0x4000, 0x100 << 32));
        assert!(none.mappable.is_empty());
        let flags = VFIO_REGION_INFO_FLAG_MMAP | VFIO_REGION_INFO_FLAG_CAPS;
        assert_eq!(mappable(VFIO_REGION_INFO_FLAG_MMAP, &[]), [(0, 0x4000)]);
        // Another capability before: MSI-X can be mapped.
        let other = [3 | 1 << 16, 40];
        let sparse = [1 | 1 << 16, 0, 2, 0, 0, 0, 0x1000, 0, 0x2000, 0, 0x800, 0];
        let both = [&other[..], &sparse].concat();
        assert_eq!(mappable(flags, &both), [(0, 0x1000), (0x2000, 0x2800)]);
        assert_eq!(mappable(flags, &[3, 0]), [(0, 0x4000)]);
        assert_eq!(mappable(flags, &[3, 32]), [(0, 0x4000)], "a circle");
        let long = [1, 0, u32::MAX, 0, 0, 0, 0x1000, 0];
        assert_eq!(mappable(flags, &long), [(0, 0x1000)], "cut off");
    }
}
