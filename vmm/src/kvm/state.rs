//! Save and restore of a vCPU.

use crate::error::{Error, Result};
use crate::kvm::registers::{
    REGISTER_MAX, REGISTERS_MAX, get, register, register_ids, register_len, register_type,
};
use kvm_bindings::{
    KVM_REG_RISCV_CONFIG, KVM_REG_RISCV_CSR, KVM_REG_RISCV_ISA_EXT, KVM_REG_RISCV_SBI_EXT,
    KVM_REG_RISCV_TIMER, kvm_mp_state,
};
use kvm_ioctls::VcpuFd;
use trapless_devices::{StateError, StateReader, StateWriter};

// Indices of registers (Linux UAPI asm/kvm.h): `struct kvm_riscv_timer`, `kvm_riscv_csr`.
const TIMER_TIME: u32 = 1;
const TIMER_STATE: u32 = 3;
const CSR_SIP: u32 = 7;
const ISA_EXT_SSTC: u32 = 8;
/// SSIP, STIP and SEIP.
const VS_INTERRUPTS: u64 = (1 << 1) | (1 << 5) | (1 << 9);

/// Appends the registers and the MP state of a vCPU that does not run.
///
/// # Errors
/// [`Error::Failed`] if KVM does not report the state.
pub fn save(vcpu: &VcpuFd, to: &mut StateWriter) -> Result<()> {
    let failed = |e| Error::failed("KVM does not report the state of a vCPU", e);
    let ids = register_ids(vcpu).map_err(|e| Error::failed("KVM lists no registers", e))?;
    to.number(vcpu.get_mp_state().map_err(failed)?.mp_state);
    to.number(ids.len() as u64);
    for id in ids {
        let mut bytes = [0; REGISTER_MAX];
        let bytes = &mut bytes[..register_len(id).min(REGISTER_MAX)];
        vcpu.get_one_reg(id, bytes).map_err(failed)?;
        to.number(id);
        to.bytes(bytes);
    }
    Ok(())
}

/// The part of a vCPU's state to restore.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Everything but the timer.
    State {
        /// Whether interrupts are pending only in the interrupt controller's state.
        drop_pending: bool,
    },
    /// The timer, which runs from here: to be restored last.
    Timer {
        /// Whether to set the guest's time, too, which all vCPUs share.
        time: bool,
    },
}

/// Restores a part of a saved vCPU to one that has not run.
///
/// # Errors
/// [`Error::User`] if the state is damaged or from a host that differs.
pub fn restore(vcpu: &VcpuFd, mut from: StateReader<'_>, part: Part) -> Result<()> {
    let bad = |e| Error::user(format!("the saved vCPU {e}"));
    let mp_state = from.number().map_err(bad)?;
    let count: usize = from.number().map_err(bad)?;
    if count > REGISTERS_MAX {
        return Err(bad(StateError("has too many registers")));
    }
    let mut registers = Vec::new();
    for _ in 0..count {
        let id: u64 = from.number().map_err(bad)?;
        let bytes = from.bytes(REGISTER_MAX).map_err(bad)?;
        if bytes.len() != register_len(id) {
            return Err(bad(StateError("has a register of a wrong length")));
        }
        registers.push((id, bytes));
    }
    match part {
        Part::State { drop_pending } => {
            // Configuration comes first, as it determines which registers exist.
            registers.retain(|&(id, _)| register_type(id) != KVM_REG_RISCV_TIMER);
            registers.sort_by_key(|&(id, _)| match register_type(id) {
                KVM_REG_RISCV_CONFIG | KVM_REG_RISCV_ISA_EXT | KVM_REG_RISCV_SBI_EXT => 0,
                _ => 1,
            });
            for (id, bytes) in registers {
                let sip = drop_pending && id == register(KVM_REG_RISCV_CSR, CSR_SIP);
                let value = match bytes.try_into() {
                    Ok(value) if sip => u64::from_le_bytes(value) & !VS_INTERRUPTS,
                    _ => 0,
                };
                let value = value.to_le_bytes();
                set_or_match(vcpu, id, if sip { &value } else { bytes })?;
            }
            vcpu.set_mp_state(kvm_mp_state { mp_state })
                .map_err(|e| Error::failed("KVM refuses the saved state of a vCPU", e))
        }
        Part::Timer { time } => {
            let sstc = get(vcpu, KVM_REG_RISCV_ISA_EXT, ISA_EXT_SSTC).unwrap_or(0) == 1;
            // In the order frequency, time, comparator, state: the state starts the timer. With
            // Sstc there is only the comparator.
            registers.sort_by_key(|&(id, _)| id);
            registers
                .into_iter()
                .filter(|&(id, _)| {
                    register_type(id) == KVM_REG_RISCV_TIMER
                        && (time || id != register(KVM_REG_RISCV_TIMER, TIMER_TIME))
                        && (!sstc || id != register(KVM_REG_RISCV_TIMER, TIMER_STATE))
                })
                .try_for_each(|(id, bytes)| set_or_match(vcpu, id, bytes))
        }
    }
}

/// Sets a register; a read-only one, such as a frequency, must already hold the value.
fn set_or_match(vcpu: &VcpuFd, id: u64, bytes: &[u8]) -> Result<()> {
    let Err(error) = vcpu.set_one_reg(id, bytes) else {
        return Ok(());
    };
    let mut present = vec![0; bytes.len()];
    if vcpu.get_one_reg(id, &mut present).is_ok() && present == bytes {
        return Ok(());
    }
    Err(Error::user(format!(
        "this host cannot continue the saved guest: KVM refuses register {id:#x} ({error}); use a host like the one it was saved on"
    )))
}
