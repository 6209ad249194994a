//! KVM itself, and the RAM of a VM.

use super::numbers::{CAP_DISABLE_EXITS, CAP_UCTX};
use crate::error::{Error, Result};
use crate::map;
use kvm_bindings::{kvm_enable_cap, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// Opens `/dev/kvm` for VMs of `cpus` vCPUs.
///
/// # Errors
/// [`Error::User`] if KVM cannot be used.
pub fn open(cpus: u16) -> Result<Kvm> {
    let kvm = Kvm::new().map_err(|e| {
        Error::user(match e.errno() {
            libc::ENOENT => {
                "there is no /dev/kvm; the host needs the H extension and the kvm module (modprobe kvm)"
                    .into()
            }
            libc::EACCES => "no permission for /dev/kvm; run as root or join the group kvm".into(),
            _ => format!("cannot open /dev/kvm: {e}"),
        })
    })?;
    if kvm.get_api_version() != 12 {
        return Err(Error::user(
            "this KVM has an API version other than 12, the only stable one",
        ));
    }
    let most = kvm.get_max_vcpus();
    if usize::from(cpus) > most {
        return Err(Error::user(format!(
            "this host allows at most {most} vCPUs; use a smaller --cpus"
        )));
    }
    Ok(kvm)
}

/// `KVM_ENABLE_CAP` with one argument.
fn enable(vm: &VmFd, cap: u32, argument: u64) -> std::result::Result<(), kvm_ioctls::Error> {
    vm.enable_cap(&kvm_enable_cap {
        cap,
        args: [argument, 0, 0, 0],
        ..Default::default()
    })
}

/// `KVM_CAP_RISCV_UCTX_INTERRUPT`.
const UCTX_INTERRUPT: u64 = 1;

/// Permits handlers of user contexts to interrupt a guest, which has no vCPUs yet.
///
/// # Errors
/// [`Error::User`] if KVM or the harts have no user contexts.
pub fn allow_user_contexts(vm: &VmFd) -> Result<()> {
    enable(vm, CAP_UCTX, UCTX_INTERRUPT).map_err(|e| {
        Error::user(format!(
            "KVM has no user contexts ({e}): they need harts with Xhcs and this project's KVM; \
             leave out --user-contexts"
        ))
    })
}

/// `KVM_RISCV_DISABLE_EXITS_WFI`.
const DISABLE_WFI: u64 = 1;

/// Makes WFI of a guest wait on the hart instead of exiting.
///
/// # Errors
/// [`Error::User`] if KVM does not support it.
pub fn let_wfi_wait(vm: &VmFd) -> Result<()> {
    enable(vm, CAP_DISABLE_EXITS, DISABLE_WFI).map_err(|e| {
        Error::user(format!(
            "KVM lets WFI of all guests exit ({e}): --wfi native needs this project's KVM"
        ))
    })
}

/// Creates the vCPUs of a VM.
///
/// # Errors
/// [`Error::Failed`] if KVM refuses.
pub fn create_vcpus(vm: &VmFd, cpus: u16) -> Result<Vec<VcpuFd>> {
    let create = |index| {
        vm.create_vcpu(index)
            .map_err(|e| Error::failed("KVM cannot create a vCPU", e))
    };
    (0..u64::from(cpus)).map(create).collect()
}

/// Makes `bytes` of `memory`, which begin at [`map::RAM_BASE`], the RAM of a VM.
///
/// # Errors
/// [`Error::User`] if KVM refuses this size.
///
/// # Safety
/// The mapping of `memory` outlives the VM's vCPUs and the threads that run them.
pub unsafe fn set_ram(vm: &VmFd, memory: &GuestMemoryMmap, bytes: u64) -> Result<()> {
    let host = memory
        .get_host_address(GuestAddress(map::RAM_BASE))
        .map_err(|e| Error::failed("guest RAM has no host address", e))?;
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: map::RAM_BASE,
        memory_size: bytes,
        userspace_addr: host as u64,
    };
    // SAFETY: the mapping is `bytes` long, and the caller guarantees its lifetime.
    unsafe { vm.set_user_memory_region(region) }.map_err(|e| {
        Error::user(format!(
            "KVM refuses {} MiB of guest RAM ({e}); use a smaller --memory",
            bytes >> 20
        ))
    })
}
