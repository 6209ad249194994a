//! The thread of a vCPU: its loop around `KVM_RUN`.

use crate::bus::Bus;
use crate::devices::sbi_console::SbiConsole;
use crate::irqchip::controller::InterruptController;
use crate::kvm::exit::{Counts, Reason};
use crate::kvm::numbers::EXIT_UER;
use crate::kvm::registers::{CORE_PC, get};
use crate::run::affinity;
use crate::run::gate::Ticket;
use crate::run::outcome::Outcome;
use crate::run::stop::Stop;
use crate::terminal::Output;
use crate::uer::setup::Redirection;
use kvm_bindings::{KVM_EXIT_RISCV_CSR, KVM_EXIT_RISCV_SBI, KVM_REG_RISCV_CORE};
use kvm_ioctls::{VcpuExit, VcpuFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use vm_memory::GuestMemoryMmap;

const CSR_SEED: u64 = 0x015;

/// Environment of a vCPU's loop.
pub struct Context {
    /// Number of the vCPU.
    pub index: u32,
    /// All devices.
    pub bus: Arc<Bus>,
    /// Guest RAM.
    pub memory: GuestMemoryMmap,
    /// Console of the SBI calls.
    pub sbi: Arc<SbiConsole>,
    /// Devices that are accessed in user mode.
    pub redirection: Option<Arc<Redirection>>,
    /// The interrupt controller.
    pub controller: Arc<dyn InterruptController>,
    /// Set before the vCPUs are made to stop.
    pub stopping: Arc<AtomicBool>,
    /// Closed while the guest is paused.
    pub ticket: Ticket,
    /// Exits so far.
    pub counts: Arc<Mutex<Counts>>,
    /// How long it waits before it runs.
    pub delay: Duration,
}

impl Context {
    /// Runs the vCPU until the guest ends, something fails, or it is stopped (`None`).
    pub fn run(&self, vcpu: &mut VcpuFd) -> Option<Outcome> {
        // Devices may interrupt from this thread when the guest accesses them.
        let _permit = self.controller.permit();
        let handler = self.redirection.as_ref().map(|r| r.attach(self.index));
        let _handler = match handler.transpose() {
            Ok(handler) => handler,
            Err(e) => {
                let what = format!("KVM refuses the handler of vCPU {}: {e}", self.index);
                return Some(Outcome::Failure(what));
            }
        };
        std::thread::sleep(self.delay);
        self.ticket.pass(&self.stopping);
        loop {
            let number = match vcpu.run() {
                Ok(VcpuExit::MmioRead(addr, data)) => {
                    let slot = self.bus.read(addr, data);
                    self.count(slot.map_or(Reason::UnmappedRead, Reason::MmioRead));
                    continue;
                }
                Ok(VcpuExit::MmioWrite(addr, data)) => {
                    let slot = self.bus.write(addr, data);
                    self.count(slot.map_or(Reason::UnmappedWrite, Reason::MmioWrite));
                    continue;
                }
                Ok(VcpuExit::SystemEvent(event, data)) => {
                    self.count(Reason::SystemEvent);
                    return Some(Outcome::from_system_event(event, data));
                }
                Ok(VcpuExit::Unsupported(number)) => number,
                Ok(VcpuExit::FailEntry(reason, _)) => {
                    return Some(self.failure(
                        vcpu,
                        &format!("KVM could not enter the guest (reason {reason:#x})"),
                    ));
                }
                Ok(VcpuExit::InternalError) => {
                    return Some(self.failure(vcpu, "KVM reported an internal error"));
                }
                Ok(VcpuExit::Intr) => {
                    if self.interrupted(vcpu) {
                        return None;
                    }
                    continue;
                }
                Ok(other) => {
                    let text = format!("KVM returned with an unknown exit: {other:?}");
                    return Some(self.failure(vcpu, &text));
                }
                Err(e) if e.errno() == libc::EINTR => {
                    if self.interrupted(vcpu) {
                        return None;
                    }
                    continue;
                }
                Err(e) if e.errno() == libc::EAGAIN => continue,
                Err(e) => return Some(self.failure(vcpu, &run_error(e))),
            };
            match number {
                KVM_EXIT_RISCV_SBI => self.count(Reason::Sbi(self.sbi_call(vcpu))),
                KVM_EXIT_RISCV_CSR => self.count(Reason::Csr(csr_access(vcpu))),
                EXIT_UER => {
                    self.count(Reason::Settle);
                    self.redirection.iter().for_each(|r| r.settle());
                }
                other => {
                    self.count(Reason::Other(other));
                    return Some(self.failure(
                        vcpu,
                        &format!("KVM returned with exit reason {other}, which is unknown"),
                    ));
                }
            }
        }
    }

    fn count(&self, reason: Reason) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.add(reason);
    }

    /// A signal ended `KVM_RUN`, which completed the last exit before. Returns `true` if the thread
    /// must exit; else waits while the guest is paused.
    fn interrupted(&self, vcpu: &mut VcpuFd) -> bool {
        self.count(Reason::Signal);
        let redirection = self.redirection.as_ref();
        if redirection.is_some_and(|r| r.in_handler(self.index)) {
            // Registers of a stopped guest must be its own, not the handler's.
            vcpu.set_kvm_immediate_exit(1);
            return false;
        }
        // Before checking for requests: a later request sets it again.
        vcpu.set_kvm_immediate_exit(0);
        if !self.stopping.load(Ordering::SeqCst) {
            self.ticket.pass(&self.stopping);
        }
        self.stopping.load(Ordering::SeqCst)
    }

    fn failure(&self, vcpu: &VcpuFd, what: &str) -> Outcome {
        let pc = get(vcpu, KVM_REG_RISCV_CORE, CORE_PC)
            .map_or("unknown".into(), |pc| format!("{pc:#x}"));
        Outcome::Failure(format!(
            "{what}; vCPU {} at pc {pc}. `dmesg` of the host may say more",
            self.index
        ))
    }

    fn sbi_call(&self, vcpu: &mut VcpuFd) -> u64 {
        // SAFETY: the exit reason says that this member of the union is valid, and any bits are
        // valid integers.
        let call = unsafe { &mut vcpu.get_kvm_run().__bindgen_anon_1.riscv_sbi };
        let (extension, function) = (call.extension_id, call.function_id);
        let answer = self.controller.sbi_call(extension, function, &call.args);
        let (error, value) = answer.unwrap_or_else(|| {
            let console = &self.sbi;
            console.call(&self.memory, &mut Output, extension, function, &call.args)
        });
        call.ret = [error as u64, value];
        call.extension_id
    }
}

/// A failure of `KVM_RUN` in words (Linux 6.12 `arch/riscv/kvm/vcpu_exit.c`, `vcpu_insn.c`).
fn run_error(error: kvm_ioctls::Error) -> String {
    match error.errno() {
        libc::EOPNOTSUPP => {
            "the guest jumped to an address without RAM, or used an instruction on it \
                             that KVM does not emulate"
                .into()
        }
        libc::EIO => "the guest made a misaligned access to an address without RAM".into(),
        libc::EFAULT | libc::ENOMEM => format!("KVM got no memory for the guest ({error})"),
        _ => format!("KVM_RUN failed ({error})"),
    }
}

/// KVM forwards `seed` (Zkr) and CSRs it does not know. `seed` returns 16 random bits with status
/// ES16 (scalar cryptography specification, entropy source), the others read as zero.
fn csr_access(vcpu: &mut VcpuFd) -> u64 {
    // SAFETY: the exit reason says that this member of the union is valid, and any bits are valid
    // integers.
    let access = unsafe { &mut vcpu.get_kvm_run().__bindgen_anon_1.riscv_csr };
    access.ret_value = 0;
    if access.csr_num == CSR_SEED {
        const ES16: u64 = 0b10 << 30;
        let mut bytes = [0u8; 2];
        // SAFETY: the buffer has the length given. Requests this short do not fail once the pool is
        // ready.
        let got =
            unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
        if got == 2 {
            access.ret_value = ES16 | u64::from(u16::from_le_bytes(bytes));
        }
    }
    access.csr_num
}

/// Starts the thread of a vCPU, on host CPU `pin` only if that is given.
///
/// # Errors
/// If the thread cannot be started.
pub fn spawn(
    context: Context,
    mut fd: VcpuFd,
    pin: Option<usize>,
    stop: Arc<Stop>,
) -> std::io::Result<JoinHandle<()>> {
    /// Ends the run if the thread panics.
    struct Guard(Arc<Stop>, u32);
    impl Drop for Guard {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.request(Outcome::Failure(format!(
                    "the thread of vCPU {} panicked: a bug of the VMM",
                    self.1
                )));
            }
        }
    }
    std::thread::Builder::new()
        .name(format!("vcpu{}", context.index))
        .spawn(move || {
            let guard = Guard(stop, context.index);
            if let Some(cpu) = pin {
                // The CPU was checked; if it went away since, any other will do.
                affinity::pin_this_thread(cpu);
            }
            if let Some(outcome) = context.run(&mut fd) {
                guard.0.request(outcome);
            }
        })
}
