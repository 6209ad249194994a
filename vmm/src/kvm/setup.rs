//! Setup of a vCPU before its start: its ISA, and its initial state.

use crate::error::{Error, Result};
use crate::kvm::isa::{Isa, KVM_EXTENSIONS};
use crate::kvm::registers::{CORE_PC, get, set};
use kvm_bindings::{
    KVM_MP_STATE_STOPPED, KVM_REG_RISCV_CONFIG, KVM_REG_RISCV_CORE, KVM_REG_RISCV_CSR,
    KVM_REG_RISCV_ISA_EXT, KVM_REG_RISCV_SBI_EXT, KVM_REG_RISCV_TIMER,
    KVM_RISCV_SBI_EXT_ID_KVM_RISCV_SBI_EXT_DBCN, kvm_mp_state,
};
use kvm_ioctls::VcpuFd;

// Indices of registers (Linux UAPI asm/kvm.h): `struct kvm_riscv_core`, `kvm_riscv_config`,
// `kvm_riscv_csr`, `kvm_riscv_timer`.
const CORE_A0: u32 = 10;
const CORE_A1: u32 = 11;
const CONFIG_CBOM_BLOCK: u32 = 1;
const CONFIG_CBOZ_BLOCK: u32 = 5;
const CONFIG_SATP_MODE: u32 = 6;
const CSR_SCOUNTEREN: u32 = 9;
const TIMER_FREQUENCY: u32 = 0;

const SATP_MODE_SV39: u64 = 8;
/// User mode may read `cycle`, `time` and `instret`: what KVM before 7 starts vCPUs with.
const SCOUNTEREN: u64 = 7;

/// Disables extensions hidden from the guest, as far as KVM supports that.
///
/// KVM cannot disable every extension (Sstc, for instance, has no control of its own that KVM would
/// use); then they are only left out of the device tree.
pub fn disable_extensions(vcpu: &VcpuFd, hidden: &[String]) {
    for &(id, name) in &KVM_EXTENSIONS {
        if hidden.iter().any(|h| h == name) {
            let _ = set(vcpu, KVM_REG_RISCV_ISA_EXT, id as u32, 0);
        }
    }
}

/// Enables the SBI debug console; kernels before 6.6 do not forward it.
pub fn enable_debug_console(vcpu: &VcpuFd) {
    let _ = set(
        vcpu,
        KVM_REG_RISCV_SBI_EXT,
        KVM_RISCV_SBI_EXT_ID_KVM_RISCV_SBI_EXT_DBCN,
        1,
    );
}

/// Reads the ISA of the guest's harts from KVM, without the extensions in `hidden`.
///
/// # Errors
/// [`Error::Failed`] if KVM does not report the frequency of `time`.
pub fn probe_isa(vcpu: &VcpuFd, hidden: &[String]) -> Result<Isa> {
    let extensions = KVM_EXTENSIONS
        .iter()
        .filter(|(id, name)| {
            get(vcpu, KVM_REG_RISCV_ISA_EXT, *id as u32).unwrap_or(0) == 1
                && !hidden.iter().any(|h| h == name)
        })
        .map(|(_, name)| (*name).to_string())
        .collect();
    let mut isa = Isa {
        extensions,
        timebase_hz: get(vcpu, KVM_REG_RISCV_TIMER, TIMER_FREQUENCY)
            .map_err(|e| Error::failed("KVM does not report the timer frequency", e))?,
        satp_mode: get(vcpu, KVM_REG_RISCV_CONFIG, CONFIG_SATP_MODE).unwrap_or(SATP_MODE_SV39),
        ..Isa::default()
    };
    let block = |ext: &str, index| {
        let bytes = isa
            .has(ext)
            .then(|| get(vcpu, KVM_REG_RISCV_CONFIG, index).ok())
            .flatten()?;
        u32::try_from(bytes).ok()
    };
    (isa.cbom_block, isa.cboz_block) = (
        block("zicbom", CONFIG_CBOM_BLOCK),
        block("zicboz", CONFIG_CBOZ_BLOCK),
    );
    Ok(isa)
}

/// Sets the registers for the start: hart 0 at the kernel's entry with `a0` = hart id and `a1` =
/// device tree (Linux `Documentation/arch/riscv/boot.rst`), the others stopped until the guest
/// starts them by SBI HSM. If KVM leaves `scounteren` at 0, as 7.2 does, hart 0 gets it set: Linux
/// 6.12 leaves it alone without SBI PMU, and its programs read `time`. Those that the guest starts
/// are reset by KVM.
///
/// # Errors
/// [`Error::Failed`] with the register KVM refused.
pub fn set_start(vcpu: &VcpuFd, index: u32, entry: u64, fdt: u64) -> Result<()> {
    let failed = |e| Error::failed("KVM refused the start state of a vCPU", e);
    if index > 0 {
        return vcpu
            .set_mp_state(kvm_mp_state {
                mp_state: KVM_MP_STATE_STOPPED,
            })
            .map_err(failed);
    }
    for (register, value) in [
        (CORE_PC, entry),
        (CORE_A0, u64::from(index)),
        (CORE_A1, fdt),
    ] {
        set(vcpu, KVM_REG_RISCV_CORE, register, value).map_err(failed)?;
    }
    if get(vcpu, KVM_REG_RISCV_CSR, CSR_SCOUNTEREN).map_err(failed)? == 0 {
        set(vcpu, KVM_REG_RISCV_CSR, CSR_SCOUNTEREN, SCOUNTEREN).map_err(failed)?;
    }
    Ok(())
}
