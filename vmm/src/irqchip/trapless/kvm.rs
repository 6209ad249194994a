//! Xtrapless by KVM: the device, grants of threads, and the instruction.

use crate::error::{Error, Result};
use crate::irqchip::trapless::chip::{self, Chip};
use crate::irqchip::trapless::port::Port;
use crate::irqchip::trapless::source::SOURCES;
use crate::irqchip::trapless::uapi;
use crate::kvm::device::{KvmDevice, os_error};
use crate::kvm::numbers::{CAP_TRAPLESS, DEVICE_TRAPLESS};
use kvm_ioctls::VmFd;
use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use trapless_isa::xtrapless::csr::UGENVSEI;
use trapless_isa::xtrapless::hgrant;
use vmm_sys_util::eventfd::EventFd;

/// Whether this KVM offers Xtrapless to guests.
pub fn supported(vm: &VmFd) -> bool {
    vm.check_extension_raw(CAP_TRAPLESS as _) > 0
}

/// Creates the KVM device and the domain for `vcpus` vCPUs, which exist already; with sources for
/// messages if there are `messages`.
///
/// # Errors
/// [`Error::User`] without support, [`Error::Failed`] if KVM has no domain left.
pub fn create(vm: &Arc<VmFd>, vcpus: u16, messages: bool) -> Result<Arc<Chip>> {
    if !supported(vm) {
        return Err(Error::user(
            "this KVM has no Xtrapless; load the kvm module of this project on a host with it, or use --irqchip plic",
        ));
    }
    let device = KvmDevice::create(vm, DEVICE_TRAPLESS)
        .map_err(|e| Error::failed("KVM cannot create the Xtrapless device", e))?;
    let port = KvmPort {
        vm: Arc::clone(vm),
        device,
        irqfds: (0..=SOURCES).map(|_| OnceLock::new()).collect(),
        identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
    };
    let highest = chip::highest(messages).into();
    port.set(uapi::GRP_CONFIG, uapi::CONFIG_NR_SOURCES, highest)
        .map_err(|e| Error::failed("KVM refuses the configuration of Xtrapless", e))?;
    port.set(uapi::GRP_CTRL, uapi::CTRL_INIT, 0)
        .map_err(|e| Error::failed("KVM cannot allocate an interrupt domain", e))?;
    Ok(Arc::new(Chip::new(Box::new(port), vcpus, messages)))
}

/// Numbers for [`KvmPort`]s; 0 is none.
static IDENTITIES: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// Identity of the port whose grant this thread holds.
    static GRANTED: Cell<u64> = const { Cell::new(0) };
}

struct Irqfd {
    trigger: EventFd,
    resample: Option<EventFd>,
}

struct KvmPort {
    vm: Arc<VmFd>,
    device: KvmDevice,
    irqfds: Vec<OnceLock<Irqfd>>,
    identity: u64,
}

fn eventfd() -> io::Result<EventFd> {
    EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)
}

impl KvmPort {
    fn irqfd(&self, source: u16) -> Option<&Irqfd> {
        self.irqfds.get(usize::from(source))?.get()
    }

    fn set_grant(&self, first: u64, count: u64) -> io::Result<()> {
        let value = (first << hgrant::FIRST_SHIFT) | (count << hgrant::COUNT_SHIFT);
        self.set(uapi::GRP_GRANT, 0, value)
    }
}

impl Port for KvmPort {
    fn take_grant(&self) -> bool {
        let taken = self.set_grant(1, SOURCES.into()).is_ok();
        if taken {
            GRANTED.set(self.identity);
        }
        taken
    }

    fn return_grant(&self) {
        if self.granted() {
            // First of all: from now on the instruction could be illegal.
            GRANTED.set(0);
            let _ = self.set_grant(0, 0);
        }
    }

    fn granted(&self) -> bool {
        GRANTED.get() == self.identity
    }

    fn ugenvsei(&self, operand: u64) {
        // SAFETY: writes no memory of this program. It is legal because the kernel gave this thread
        // a grant, which `Chip` has checked. No `nomem`: data that the device wrote for the guest
        // must be in memory before.
        unsafe {
            std::arch::asm!(
                "csrw {csr}, {operand}",
                csr = const UGENVSEI,
                operand = in(reg) operand,
                options(nostack)
            )
        };
    }

    fn irq_line(&self, source: u16, high: bool) -> io::Result<()> {
        self.vm.set_irq_line(source.into(), high).map_err(os_error)
    }

    fn add_irqfd(&self, source: u16, resample: bool) -> io::Result<()> {
        let irqfd = Irqfd {
            trigger: eventfd()?,
            resample: resample.then(eventfd).transpose()?,
        };
        match &irqfd.resample {
            Some(notify) => {
                self.vm
                    .register_irqfd_with_resample(&irqfd.trigger, notify, source.into())
            }
            None => self.vm.register_irqfd(&irqfd.trigger, source.into()),
        }
        .map_err(os_error)?;
        let _ = self.irqfds[usize::from(source)].set(irqfd);
        Ok(())
    }

    fn lend_irqfd(&self, source: u16, event: &EventFd) -> io::Result<()> {
        self.vm
            .register_irqfd(event, source.into())
            .map_err(os_error)
    }

    fn take_back(&self, source: u16, event: &EventFd) -> io::Result<()> {
        self.vm
            .unregister_irqfd(event, source.into())
            .map_err(os_error)
    }

    fn lend_resampled(&self, source: u16, trigger: &EventFd, resample: &EventFd) -> io::Result<()> {
        self.vm
            .register_irqfd_with_resample(trigger, resample, source.into())
            .map_err(os_error)
    }

    fn write_irqfd(&self, source: u16) -> io::Result<()> {
        match self.irqfd(source) {
            Some(irqfd) => irqfd.trigger.write(1),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn resample_fd(&self, source: u16) -> Option<RawFd> {
        let notify = self.irqfd(source)?.resample.as_ref()?;
        Some(notify.as_raw_fd())
    }

    fn take_resample(&self, source: u16) -> bool {
        let notify = self.irqfd(source).and_then(|irqfd| irqfd.resample.as_ref());
        notify.is_some_and(|notify| notify.read().is_ok())
    }

    fn set(&self, group: u32, attribute: u64, value: u64) -> io::Result<()> {
        self.device.set(group, attribute, value)
    }

    fn get(&self, group: u32, attribute: u64) -> io::Result<u64> {
        self.device.get(group, attribute)
    }
}
