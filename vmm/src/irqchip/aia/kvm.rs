//! Setup of KVM's AIA device for a guest.

use crate::error::{Error, Result};
use crate::irqchip::aia::device::Aia;
use crate::irqchip::aia::port::Port;
use crate::irqchip::aia::registers::{SOURCES, hart_bits};
use crate::irqchip::aia::uapi::{self, Mode};
use crate::irqchip::messages::Message;
use crate::kvm::device::{KvmDevice, os_error};
use crate::map;
use kvm_bindings::{
    KVM_IRQ_ROUTING_MSI, KvmIrqRouting, kvm_device_type_KVM_DEV_TYPE_RISCV_AIA as DEVICE_TYPE,
    kvm_irq_routing_entry, kvm_irq_routing_msi, kvm_msi,
};
use kvm_ioctls::{Cap, VmFd};
use std::io;
use std::sync::Arc;
use vmm_sys_util::eventfd::EventFd;

/// Whether this KVM offers AIA to guests: the host has it.
pub fn supported(vm: &VmFd) -> bool {
    vm.check_extension(Cap::Irqchip)
}

struct KvmPort {
    vm: Arc<VmFd>,
    device: KvmDevice,
}

impl Port for KvmPort {
    fn irq_line(&self, source: u32, high: bool) -> io::Result<()> {
        self.vm.set_irq_line(source, high).map_err(os_error)
    }

    fn set_routes(&self, messages: &[Option<Message>]) -> io::Result<()> {
        let entry = |(gsi, message): (usize, &Option<Message>)| {
            let message = (*message)?;
            let mut entry = kvm_irq_routing_entry {
                gsi: gsi as u32,
                type_: KVM_IRQ_ROUTING_MSI,
                ..Default::default()
            };
            entry.u.msi = kvm_irq_routing_msi {
                address_lo: message.address as u32,
                address_hi: (message.address >> 32) as u32,
                data: message.data,
                ..Default::default()
            };
            Some(entry)
        };
        let entries: Vec<_> = messages.iter().enumerate().filter_map(entry).collect();
        let routing = KvmIrqRouting::from_entries(&entries)
            .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        self.vm.set_gsi_routing(&routing).map_err(os_error)
    }

    fn attach(&self, gsi: u32, event: &EventFd) -> io::Result<()> {
        self.vm.register_irqfd(event, gsi).map_err(os_error)
    }

    fn detach(&self, gsi: u32, event: &EventFd) -> io::Result<()> {
        self.vm.unregister_irqfd(event, gsi).map_err(os_error)
    }

    fn signal(&self, address: u64, data: u32) -> io::Result<()> {
        let message = kvm_msi {
            address_lo: address as u32,
            address_hi: (address >> 32) as u32,
            data,
            ..Default::default()
        };
        self.vm.signal_msi(message).map(|_| ()).map_err(os_error)
    }

    fn set(&self, group: u32, attribute: u64, value: u64) -> io::Result<()> {
        self.device.set(group, attribute, value)
    }

    fn get(&self, group: u32, attribute: u64) -> io::Result<u64> {
        self.device.get(group, attribute)
    }
}

/// Creates the AIA of a VM whose vCPUs exist and have not run; with an APLIC of the VMM if `split`.
///
/// # Errors
/// [`Error::User`] if the host has no AIA or no guest interrupt files for `mode`, [`Error::Failed`]
/// if KVM refuses anything else.
pub fn create(vm: &Arc<VmFd>, vcpus: u16, mode: Mode, split: bool) -> Result<Arc<Aia>> {
    if !supported(vm) {
        return Err(Error::user(
            "this host has no AIA (extension Ssaia, or its kernel's irqchip is not in use); use --irqchip plic",
        ));
    }
    let device = KvmDevice::create(vm, DEVICE_TYPE)
        .map_err(|e| Error::failed("KVM cannot create the AIA device", e))?;
    let port = KvmPort {
        vm: Arc::clone(vm),
        device,
    };
    let refused = |what: &'static str| move |e| Error::failed(what, e);
    // Without guest files KVM knows only emulation, and `auto` means that.
    let offered = port
        .get(uapi::GRP_CONFIG, uapi::MODE)
        .map_err(refused("KVM does not report its mode of AIA"))?;
    let without_files = offered == Mode::Emul.number();
    if mode == Mode::Hwaccel && without_files {
        return Err(Error::user(
            "the harts of this host have no guest interrupt files; use --aia-mode auto or emul",
        ));
    }
    if !(mode == Mode::Auto && without_files) {
        port.set(uapi::GRP_CONFIG, uapi::MODE, mode.number())
            .map_err(refused("KVM refuses the mode of AIA"))?;
    }
    let ids = port.get(uapi::GRP_CONFIG, uapi::IDS).map_err(refused(
        "KVM does not report the number of interrupt identities",
    ))?;
    for (attribute, value) in [
        (uapi::SOURCES, if split { 0 } else { SOURCES.into() }),
        (uapi::HART_BITS, u64::from(hart_bits(vcpus))),
    ] {
        port.set(uapi::GRP_CONFIG, attribute, value)
            .map_err(refused("KVM refuses the configuration of AIA"))?;
    }
    let files = (1..).zip((0..u64::from(vcpus)).map(map::imsic));
    let aplic = (!split).then_some((0, map::APLIC_BASE));
    for (attribute, address) in aplic.into_iter().chain(files) {
        port.set(uapi::GRP_ADDR, attribute, address)
            .map_err(refused("KVM refuses an address of the AIA"))?;
    }
    port.set(uapi::GRP_CTRL, 0, 0)
        .map_err(refused("KVM cannot set up the AIA"))?;
    Ok(Arc::new(Aia::new(Arc::new(port), vcpus, ids as u32, split)))
}
