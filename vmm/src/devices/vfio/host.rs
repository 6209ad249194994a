//! Passed devices by VFIO, iommufd and KVM.

use crate::devices::vfio::device::{Chosen, Device, Region};
use crate::devices::vfio::handle::{self, Handle};
use crate::devices::vfio::iommufd::AddressSpace;
use crate::devices::vfio::pin::Level;
use crate::devices::vfio::platform::Platform;
use crate::error::{Error, Result};
use crate::kvm::device::KvmDevice;
use crate::kvm::device::os_error;
use crate::map;
use kvm_bindings::{
    KVM_DEV_VFIO_FILE, KVM_DEV_VFIO_FILE_ADD, KVM_DEV_VFIO_FILE_DEL,
    kvm_device_type_KVM_DEV_TYPE_VFIO as DEVICE_TYPE, kvm_userspace_memory_region,
};
use kvm_ioctls::VmFd;
use std::any::Any;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use trapless_isa::page::PAGE_SIZE;
use vfio_bindings::bindings::vfio::{
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_INTX_IRQ_INDEX,
    VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_REQ_IRQ_INDEX,
};
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

/// Numbers of KVM's memory slots. RAM has 0.
#[derive(Default)]
struct Slots(Vec<bool>);

impl Slots {
    fn take(&mut self) -> u32 {
        let free = self.0.iter().position(|taken| !taken);
        let index = free.unwrap_or_else(|| {
            self.0.push(false);
            self.0.len() - 1
        });
        self.0[index] = true;
        index as u32 + 1
    }

    fn give_back(&mut self, slot: u32) {
        self.0[slot as usize - 1] = false;
    }
}

/// What all devices of a guest share: the address space that they see, which is guest RAM at its
/// guest physical addresses.
pub struct SharedSpace {
    vm: Arc<VmFd>,
    addresses: Arc<AddressSpace>,
    known: Option<Arc<KvmDevice>>,
    slots: Arc<Mutex<Slots>>,
}

impl SharedSpace {
    /// The space of a guest with `bytes` of `memory`, all of which the host keeps in RAM from now
    /// on.
    ///
    /// # Errors
    /// [`Error::User`] if the host has no iommufd or not enough memory.
    ///
    /// # Safety
    /// Nothing has references into `memory`, which devices change at any time.
    pub unsafe fn new(vm: &Arc<VmFd>, memory: &GuestMemoryMmap, bytes: u64) -> Result<Self> {
        let addresses = AddressSpace::new().map_err(|e| {
            Error::user(match e.kind() {
                io::ErrorKind::NotFound => {
                    "--vfio needs /dev/iommu; load the module iommufd".to_string()
                }
                _ => format!("--vfio needs /dev/iommu: {e}"),
            })
        })?;
        let host = memory
            .get_host_address(GuestAddress(map::RAM_BASE))
            .map_err(|e| Error::failed("guest RAM has no host address", e))?;
        // SAFETY: the mapping is `bytes` long, and iommufd keeps its pages until the device is
        // closed; the caller guarantees that there are no references.
        unsafe { addresses.map(map::RAM_BASE, host, bytes) }.map_err(|e| {
            Error::user(format!(
                "the host cannot keep {} MiB of guest RAM for devices ({e}); use a smaller --memory, or raise `ulimit -l`",
                bytes >> 20
            ))
        })?;
        Ok(Self {
            vm: Arc::clone(vm),
            addresses: Arc::new(addresses),
            // KVM's list of devices of a VM, for kernels that let devices interrupt the guest
            // directly; others may have none.
            known: KvmDevice::create(vm, DEVICE_TYPE).ok().map(Arc::new),
            slots: Arc::default(),
        })
    }

    /// Opens a device, and lets it reach guest RAM.
    ///
    /// # Errors
    /// [`Error::User`] if it cannot be used.
    pub fn open(&self, chosen: &Chosen) -> Result<Arc<HostDevice>> {
        let path = &chosen.path;
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name = name.to_string_lossy().into_owned();
        let Some(character) = handle::path(path) else {
            return Err(Error::user(not_bound(path, &name)));
        };
        let refused = |(what, e)| Error::user(format!("--vfio {name}: {what} ({e})"));
        let file = handle::open(&character)
            .map_err(|e| refused(("its character device cannot be opened", e)))?;
        // Before VFIO has the device: the IOMMU may ask for the VM then.
        let known = match &self.known {
            Some(list) => Some(Known::add(list, file.as_raw_fd())),
            None => None,
        };
        let known = known.transpose();
        let known = known.map_err(|e| refused(("KVM refuses it", e)))?;
        let vfio = Handle::new(file, &self.addresses, !chosen.relay).map_err(refused)?;
        if !vfio.is_pci() && !vfio.is_platform() {
            return Err(Error::user(format!(
                "--vfio {name}: it is neither a PCI device nor a platform device"
            )));
        }
        if vfio.is_platform() && vfio.has_more() {
            return Err(Error::user(format!(
                "--vfio {name}: the device has more regions or interrupts than can be passed"
            )));
        }
        Ok(Arc::new(HostDevice {
            _known: known,
            vfio,
            _addresses: Arc::clone(&self.addresses),
            vm: Arc::clone(&self.vm),
            slots: Arc::clone(&self.slots),
            name,
            node: path.join("of_node"),
            relayed: chosen.relay,
        }))
    }
}

/// What to do with a device that has no character device.
fn not_bound(path: &Path, name: &str) -> String {
    if !path.exists() {
        let folder = path.parent().unwrap_or(path).display();
        return format!("--vfio {name}: there is no such device in {folder}");
    }
    let (bus, driver) = match path.starts_with("/sys/bus/platform") {
        true => ("platform", "vfio-platform"),
        false => ("pci", "vfio-pci"),
    };
    let folder = path.display();
    format!(
        "--vfio {name}: the device is not bound to {driver}, or the kernel has no character devices of VFIO; \
         `modprobe {driver}; echo {driver} >{folder}/driver_override; echo {name} >{folder}/driver/unbind; echo {name} >/sys/bus/{bus}/drivers_probe`"
    )
}

/// A device in KVM's list.
struct Known(Arc<KvmDevice>, RawFd);

impl Known {
    fn add(list: &Arc<KvmDevice>, fd: RawFd) -> io::Result<Self> {
        list.set_struct(KVM_DEV_VFIO_FILE, KVM_DEV_VFIO_FILE_ADD.into(), &fd)?;
        Ok(Self(Arc::clone(list), fd))
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let delete = KVM_DEV_VFIO_FILE_DEL.into();
        let _ = self.0.set_struct(KVM_DEV_VFIO_FILE, delete, &self.1);
    }
}

/// A device.
pub struct HostDevice {
    name: String,
    /// Its node in the host's device tree, if it has one.
    node: PathBuf,
    relayed: bool,
    /// Ends before the descriptor is closed.
    _known: Option<Known>,
    vfio: Handle,
    _addresses: Arc<AddressSpace>,
    vm: Arc<VmFd>,
    slots: Arc<Mutex<Slots>>,
}

/// VFIO's number of a region.
fn index(region: Region) -> u32 {
    match region {
        Region::Bar(bar) => VFIO_PCI_BAR0_REGION_INDEX + u32::from(bar),
        Region::Config => VFIO_PCI_CONFIG_REGION_INDEX,
    }
}

impl HostDevice {
    /// Writes `event` when the host wants the device back.
    ///
    /// # Errors
    /// The error that VFIO returned.
    pub fn tell_of_request(&self, event: &EventFd) -> io::Result<()> {
        if !self.is_pci() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.vfio.enable(VFIO_PCI_REQ_IRQ_INDEX, &[event]).map(drop)
    }

    /// What the user calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a PCI device; else it is a platform device.
    pub fn is_pci(&self) -> bool {
        self.vfio.is_pci()
    }

    /// Lets the guest access a part of a region at guest physical address `guest`.
    fn map_region(
        &self,
        index: u32,
        part: Range<u64>,
        guest: u64,
    ) -> io::Result<Box<dyn Any + Send>> {
        let len = (part.end - part.start) as usize;
        let offset = self.vfio.offset(index) + part.start;
        // SAFETY: a new mapping, which replaces none.
        let host = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                self.vfio.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if host == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mapped = Mapped {
            vm: Arc::clone(&self.vm),
            slots: Arc::clone(&self.slots),
            slot: None,
            host: host as usize,
            len,
        };
        let slot = slots.take();
        // SAFETY: the mapping is `len` bytes long, and `Mapped` ends it after the slot.
        let done = unsafe {
            self.vm
                .set_user_memory_region(region(slot, guest, host as u64, len))
        };
        match done {
            Ok(()) => mapped.slot = Some((slot, guest)),
            Err(_) => slots.give_back(slot),
        }
        drop(slots);
        done.map_err(os_error)?;
        Ok(Box::new(mapped))
    }
}

impl Platform for HostDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn compatible(&self) -> Vec<String> {
        let names = fs::read(self.node.join("compatible")).unwrap_or_default();
        let names = names.split(|&byte| byte == 0);
        let names = names.filter_map(|name| std::str::from_utf8(name).ok());
        names
            .filter(|name| !name.is_empty())
            .map(Into::into)
            .collect()
    }

    fn regions(&self) -> Vec<(u64, bool)> {
        let region = |index| {
            let len = self.vfio.len(index);
            let all = [0..len];
            (
                len,
                self.vfio.mappable(index) == all && len % PAGE_SIZE == 0,
            )
        };
        (0..self.vfio.regions()).map(region).collect()
    }

    fn map(&self, region: u32, guest: u64) -> io::Result<Box<dyn Any + Send>> {
        self.map_region(region, 0..self.vfio.len(region), guest)
    }

    fn interrupts(self: Arc<Self>) -> Vec<Option<Arc<dyn Level>>> {
        let wire = |(index, level): (u32, bool)| {
            let device = Arc::clone(&self);
            level.then(|| Arc::new(PlatformWire { device, index }) as _)
        };
        (0..).zip(self.vfio.levels()).map(wire).collect()
    }

    fn is_relayed(&self) -> bool {
        self.relayed
    }
}

/// A level-triggered interrupt of a platform device.
struct PlatformWire {
    device: Arc<HostDevice>,
    index: u32,
}

impl Level for PlatformWire {
    fn enable(&self, trigger: &EventFd, resample: Option<&EventFd>) -> io::Result<()> {
        let vfio = &self.device.vfio;
        vfio.enable(self.index, &[trigger])?;
        // An interrupt for an earlier trigger may have masked it, and it stays so.
        self.unmask();
        match resample {
            Some(event) => vfio.unmask_by(self.index, event),
            None => Ok(()),
        }
    }

    fn unmask(&self) {
        // It may have been disabled.
        let _ = self.device.vfio.unmask(self.index);
    }

    fn disable(&self) {
        let _ = self.device.vfio.disable(self.index);
    }
}

impl Device for HostDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self, region: Region) -> u64 {
        self.vfio.len(index(region))
    }

    fn read(&self, region: Region, offset: u64, data: &mut [u8]) {
        if self.vfio.read(index(region), offset, data).is_err() {
            data.fill(0xff);
        }
    }

    fn write(&self, region: Region, offset: u64, data: &[u8]) {
        // As on a bus: what nothing takes is lost.
        let _ = self.vfio.write(index(region), offset, data);
    }

    fn mappable(&self, bar: u8) -> Vec<Range<u64>> {
        let pages = |part: &Range<u64>| {
            part.start.next_multiple_of(PAGE_SIZE)..part.end / PAGE_SIZE * PAGE_SIZE
        };
        let parts = self.vfio.mappable(index(Region::Bar(bar))).iter();
        parts.map(pages).filter(|part| !part.is_empty()).collect()
    }

    fn map(&self, bar: u8, part: Range<u64>, guest: u64) -> io::Result<Box<dyn Any + Send>> {
        self.map_region(index(Region::Bar(bar)), part, guest)
    }

    fn has_intx(&self) -> bool {
        self.vfio.number(VFIO_PCI_INTX_IRQ_INDEX) != 0
    }

    fn enable_intx(&self, trigger: &EventFd, resample: Option<&EventFd>) -> io::Result<()> {
        self.vfio.enable(VFIO_PCI_INTX_IRQ_INDEX, &[trigger])?;
        match resample {
            Some(event) => self.vfio.unmask_by(VFIO_PCI_INTX_IRQ_INDEX, event),
            None => Ok(()),
        }
    }

    fn unmask_intx(&self) {
        // It may have been disabled.
        let _ = self.vfio.unmask(VFIO_PCI_INTX_IRQ_INDEX);
    }

    fn disable_intx(&self) {
        let _ = self.vfio.disable(VFIO_PCI_INTX_IRQ_INDEX);
    }

    fn enable_msix(&self, events: &[&EventFd]) -> io::Result<usize> {
        self.vfio.enable(VFIO_PCI_MSIX_IRQ_INDEX, events)
    }

    fn disable_msix(&self) {
        let _ = self.vfio.disable(VFIO_PCI_MSIX_IRQ_INDEX);
    }

    fn reset(&self) {
        // VFIO has reset those that can be when it gave them to this process.
        let _ = self.vfio.reset();
    }
}

fn region(slot: u32, guest: u64, host: u64, len: usize) -> kvm_userspace_memory_region {
    kvm_userspace_memory_region {
        slot,
        flags: 0,
        guest_phys_addr: guest,
        memory_size: len as u64,
        userspace_addr: host,
    }
}

/// A part of a region in this process and, if it has a slot, in the guest.
struct Mapped {
    vm: Arc<VmFd>,
    slots: Arc<Mutex<Slots>>,
    slot: Option<(u32, u64)>,
    host: usize,
    len: usize,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if let Some((slot, guest)) = self.slot {
            // SAFETY: a slot of length 0 is none.
            let _ = unsafe { self.vm.set_user_memory_region(region(slot, guest, 0, 0)) };
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.give_back(slot);
        }
        // SAFETY: this value has made the mapping, which only the guest has used.
        unsafe { libc::munmap(self.host as *mut libc::c_void, self.len) };
    }
}
