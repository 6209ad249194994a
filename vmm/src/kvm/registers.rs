//! Registers of a vCPU by `KVM_GET_ONE_REG` and `KVM_SET_ONE_REG` (Linux UAPI `asm/kvm.h`).

use kvm_bindings::{KVM_REG_RISCV, KVM_REG_RISCV_TYPE_MASK, KVM_REG_SIZE_U64};
use kvm_ioctls::VcpuFd;
use vmm_sys_util::ioctl::ioctl_with_mut_ref;

mod request {
    #![allow(missing_docs)] // The macro makes a public function without one.
    use kvm_bindings::{KVMIO, kvm_reg_list};
    vmm_sys_util::ioctl_iowr_nr!(KVM_GET_REG_LIST, KVMIO, 0xb0, kvm_reg_list);
}

/// `pc` in `struct kvm_riscv_core`.
pub const CORE_PC: u32 = 0;

/// Id of the 64-bit register `index` of a kind (`KVM_REG_RISCV_CORE` and the like).
pub fn register(kind: u32, index: u32) -> u64 {
    KVM_REG_RISCV as u64 | KVM_REG_SIZE_U64 | u64::from(kind) | u64::from(index)
}

/// Reads a 64-bit register.
///
/// # Errors
/// The error that KVM returned.
pub fn get(vcpu: &VcpuFd, kind: u32, index: u32) -> Result<u64, kvm_ioctls::Error> {
    let mut bytes = [0; 8];
    vcpu.get_one_reg(register(kind, index), &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Writes a 64-bit register.
///
/// # Errors
/// The error that KVM returned.
pub fn set(vcpu: &VcpuFd, kind: u32, index: u32, value: u64) -> Result<(), kvm_ioctls::Error> {
    vcpu.set_one_reg(register(kind, index), &value.to_le_bytes())
        .map(|_| ())
}

/// Kind of the register with this id.
pub fn register_type(id: u64) -> u32 {
    id as u32 & KVM_REG_RISCV_TYPE_MASK
}

/// Length in bytes of the register with this id.
pub fn register_len(id: u64) -> usize {
    1 << ((id >> 52) & 0xf)
}

/// Maximum length of a register in bytes: a vector register of 65 536 bits.
pub const REGISTER_MAX: usize = 8192;
/// Maximum number of registers of a vCPU, which has a few hundred.
pub const REGISTERS_MAX: usize = 2047;

/// `struct kvm_reg_list` with more room than that of `kvm-bindings`, which ends at 200 registers.
#[repr(C)]
struct RegisterList {
    n: u64,
    ids: [u64; REGISTERS_MAX],
}

/// Ids of all registers of a vCPU.
///
/// # Errors
/// The error that KVM returned.
pub fn register_ids(vcpu: &VcpuFd) -> std::io::Result<Vec<u64>> {
    let mut list = Box::new(RegisterList {
        n: REGISTERS_MAX as u64,
        ids: [0; REGISTERS_MAX],
    });
    // SAFETY: KVM writes at most `n` ids behind `n`, for which there is room.
    if unsafe { ioctl_with_mut_ref(vcpu, request::KVM_GET_REG_LIST(), &mut *list) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    let count = (list.n as usize).min(REGISTERS_MAX);
    Ok(list.ids[..count].to_vec())
}
