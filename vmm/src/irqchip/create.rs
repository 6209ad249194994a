//! The interrupt controller that the user chose, or the best available one.

use crate::error::{Error, Result};
use crate::irqchip::controller::InterruptController;
use crate::irqchip::options::{Choice, Injection, Options};
use crate::irqchip::plic::kvm::KvmLine;
use crate::irqchip::plic::shared::SharedPlic;
use crate::irqchip::{aia, plic, trapless};
use crate::map;
use kvm_ioctls::{VcpuFd, VmFd};
use std::sync::Arc;

/// Creates the interrupt controller of `vcpus`, which have not run; with something that takes
/// messages of PCI functions if there are to be `messages`, and if it can.
///
/// # Errors
/// [`Error::User`] for options that are inconsistent or not supported by this host,
/// [`Error::Failed`] for other errors of KVM.
pub fn create(
    options: &Options,
    vm: &Arc<VmFd>,
    vcpus: &[VcpuFd],
    messages: bool,
) -> Result<Arc<dyn InterruptController>> {
    let choice = match options.choice {
        Choice::Auto if trapless::kvm::supported(vm) => Choice::Trapless,
        Choice::Auto if aia::kvm::supported(vm) => Choice::Aia,
        choice => choice,
    };
    match choice {
        Choice::Trapless => trapless(options, vm, vcpus, messages),
        Choice::Aia => aia(options, vm, vcpus),
        Choice::Plic | Choice::Auto => plic(vcpus),
    }
}

fn trapless(
    options: &Options,
    vm: &Arc<VmFd>,
    vcpus: &[VcpuFd],
    messages: bool,
) -> Result<Arc<dyn InterruptController>> {
    let chip = trapless::kvm::create(vm, vcpus.len() as u16, messages)?;
    let way = options.inject.unwrap_or(Injection::Ugenvsei);
    Ok(Arc::new(trapless::controller::Controller::new(chip, way)))
}

fn aia(
    options: &Options,
    vm: &Arc<VmFd>,
    vcpus: &[VcpuFd],
) -> Result<Arc<dyn InterruptController>> {
    let split = match options.inject {
        None | Some(Injection::Ioctl) => false,
        Some(Injection::Irqfd) => true,
        Some(Injection::Ugenvsei) => {
            return Err(Error::user(
                "this guest has AIA, whose devices interrupt by --inject ioctl or irqfd",
            ));
        }
    };
    let aia = aia::kvm::create(vm, vcpus.len() as u16, options.aia_mode, split)?;
    Ok(Arc::new(aia::controller::Controller::new(aia)))
}

fn plic(vcpus: &[VcpuFd]) -> Result<Arc<dyn InterruptController>> {
    let lines = vcpus
        .iter()
        .map(|fd| Ok(Box::new(KvmLine::new(fd)?) as _))
        .collect::<Result<Vec<_>>>()?;
    let plic = SharedPlic::new(map::PLIC_SOURCES, lines);
    Ok(Arc::new(plic::controller::Controller::new(Arc::new(plic))))
}
