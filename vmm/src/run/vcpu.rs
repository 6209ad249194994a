//! One vCPU: its registers at start, its thread's loop around `KVM_RUN`, and the handles other threads use on it.

use crate::devices::Bus;
use crate::devices::sbi_console::{self, SbiConsole};
use crate::error::{Error, Result};
use crate::irqchip::plic::ExternalLine;
use crate::irqchip::trapless::Chip;
use crate::kvm::exit::{Counts, Outcome, Reason};
use crate::kvm::isa::{Isa, KVM_EXTENSIONS};
use crate::run::gate::Ticket;
use crate::terminal::Output;
use kvm_bindings::{
    KVM_EXIT_RISCV_CSR, KVM_EXIT_RISCV_SBI, KVM_INTERRUPT_SET, KVM_INTERRUPT_UNSET,
    KVM_MP_STATE_STOPPED, KVM_REG_RISCV, KVM_REG_RISCV_CONFIG, KVM_REG_RISCV_CORE,
    KVM_REG_RISCV_CSR, KVM_REG_RISCV_ISA_EXT, KVM_REG_RISCV_SBI_EXT, KVM_REG_RISCV_TIMER,
    KVM_REG_RISCV_TYPE_MASK, KVM_REG_SIZE_U64, KVM_RISCV_SBI_EXT_ID_KVM_RISCV_SBI_EXT_DBCN,
    kvm_interrupt, kvm_mp_state,
};
use kvm_ioctls::{VcpuExit, VcpuFd, VmFd};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use trapless_devices::{StateError, StateReader, StateWriter};
use vm_memory::GuestMemoryMmap;
use vmm_sys_util::ioctl::{ioctl_with_mut_ref, ioctl_with_ref};

mod request {
    #![allow(missing_docs)] // The macro makes a public function without one.
    use kvm_bindings::{KVMIO, kvm_interrupt, kvm_reg_list};
    vmm_sys_util::ioctl_iow_nr!(KVM_INTERRUPT, KVMIO, 0x86, kvm_interrupt);
    vmm_sys_util::ioctl_iowr_nr!(KVM_GET_REG_LIST, KVMIO, 0xb0, kvm_reg_list);
}

// Indices of the registers (Linux UAPI asm/kvm.h): `struct kvm_riscv_core`, `kvm_riscv_config`, `kvm_riscv_timer`.
const CORE_PC: u32 = 0;
const CORE_A0: u32 = 10;
const CORE_A1: u32 = 11;
const CONFIG_CBOM_BLOCK: u32 = 1;
const CONFIG_CBOZ_BLOCK: u32 = 5;
const CONFIG_SATP_MODE: u32 = 6;
const TIMER_FREQUENCY: u32 = 0;
const TIMER_TIME: u32 = 1;
const TIMER_STATE: u32 = 3;
const ISA_EXT_SSTC: u32 = 8;
/// Index of `sip` in `struct kvm_riscv_csr`.
const CSR_SIP: u32 = 7;
/// SSIP, STIP and SEIP.
const VS_INTERRUPTS: u64 = 1 << 1 | 1 << 5 | 1 << 9;

const SATP_MODE_SV39: u64 = 8;
const CSR_SEED: u64 = 0x015;

fn register(kind: u32, index: u32) -> u64 {
    KVM_REG_RISCV as u64 | KVM_REG_SIZE_U64 | u64::from(kind) | u64::from(index)
}

fn get(vcpu: &VcpuFd, kind: u32, index: u32) -> std::result::Result<u64, kvm_ioctls::Error> {
    let mut bytes = [0; 8];
    vcpu.get_one_reg(register(kind, index), &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn set(
    vcpu: &VcpuFd,
    kind: u32,
    index: u32,
    value: u64,
) -> std::result::Result<(), kvm_ioctls::Error> {
    vcpu.set_one_reg(register(kind, index), &value.to_le_bytes())
        .map(|_| ())
}

/// Switches off what the guest shall not see, as far as KVM can.
///
/// KVM cannot switch off every extension (Sstc, for instance, has no control of its own that KVM would use); it is
/// enough then that the device tree does not name it.
pub fn disable_extensions(vcpu: &VcpuFd, hidden: &[String]) {
    for &(id, name) in &KVM_EXTENSIONS {
        if hidden.iter().any(|h| h == name) {
            let _ = set(vcpu, KVM_REG_RISCV_ISA_EXT, id as u32, 0);
        }
    }
}

/// Lets the guest use the SBI debug console; kernels before 6.6 do not forward it.
pub fn enable_debug_console(vcpu: &VcpuFd) {
    let _ = set(
        vcpu,
        KVM_REG_RISCV_SBI_EXT,
        KVM_RISCV_SBI_EXT_ID_KVM_RISCV_SBI_EXT_DBCN,
        1,
    );
}

/// Asks KVM what the guest's harts can do and takes `hidden` out.
///
/// # Errors
/// [`Error::Failed`] if KVM does not tell the frequency of `time`.
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
            .map_err(|e| Error::failed("KVM does not tell the timer frequency", e))?,
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

/// Sets the registers for the start: hart 0 at the kernel's entry with `a0` = hart id and `a1` = device tree
/// (Linux `Documentation/arch/riscv/boot.rst`), the others stopped until the guest starts them by SBI HSM.
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
    Ok(())
}

/// Kind of register in its id (Linux UAPI `asm/kvm.h`).
fn register_type(id: u64) -> u32 {
    id as u32 & KVM_REG_RISCV_TYPE_MASK
}

/// Length in bytes of the register with this id.
fn register_len(id: u64) -> usize {
    1 << (id >> 52 & 0xf)
}

/// Longest register: a vector register of 65 536 bits.
const REGISTER_MAX: usize = 8192;
/// Most registers of a vCPU; a few hundred are there.
const REGISTERS_MAX: usize = 2047;

/// `struct kvm_reg_list` with room; that of `kvm-bindings` ends at 200 registers.
#[repr(C)]
struct RegisterList {
    n: u64,
    ids: [u64; REGISTERS_MAX],
}

/// Ids of all registers of a vCPU.
fn register_ids(vcpu: &VcpuFd) -> std::io::Result<Vec<u64>> {
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

/// Appends everything KVM knows of a vCPU that does not run.
///
/// # Errors
/// [`Error::Failed`] if KVM does not tell.
pub fn save(vcpu: &VcpuFd, to: &mut StateWriter) -> Result<()> {
    let failed = |e| Error::failed("KVM does not tell the state of a vCPU", e);
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

/// What [`restore`] restores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Everything but the timer.
    State {
        /// Interrupts are pending in the controller's files and nowhere else.
        trapless: bool,
    },
    /// The timer, which goes on from here: to be restored last.
    Timer {
        /// Set the guest's time, too. All vCPUs share one.
        time: bool,
    },
}

/// Takes over a part of a saved vCPU that has not run.
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
        Part::State { trapless } => {
            // What the vCPU can do comes first, as it decides which registers exist.
            registers.retain(|&(id, _)| register_type(id) != KVM_REG_RISCV_TIMER);
            registers.sort_by_key(|&(id, _)| match register_type(id) {
                KVM_REG_RISCV_CONFIG | KVM_REG_RISCV_ISA_EXT | KVM_REG_RISCV_SBI_EXT => 0,
                _ => 1,
            });
            for (id, bytes) in registers {
                let sip = trapless && id == register(KVM_REG_RISCV_CSR, CSR_SIP);
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
            // In the order frequency, time, comparator, state: the state starts the timer. With Sstc the comparator
            // is all there is.
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

/// Sets a register; one that cannot be set, such as a frequency, has to have the value already.
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

fn duplicate(vcpu: &VcpuFd) -> Result<File> {
    // SAFETY: the descriptor is open for as long as `vcpu` is borrowed.
    let fd = unsafe { BorrowedFd::borrow_raw(vcpu.as_raw_fd()) };
    fd.try_clone_to_owned()
        .map(File::from)
        .map_err(|e| Error::failed("cannot duplicate a vCPU descriptor", e))
}

/// A second handle on a vCPU whose thread holds the first.
///
/// # Errors
/// [`Error::Failed`] without address space or descriptors.
pub fn second_handle(vm: &VmFd, vcpu: &VcpuFd) -> Result<VcpuFd> {
    let fd = duplicate(vcpu)?.into_raw_fd();
    // SAFETY: `fd` is a descriptor of a vCPU of this VM that nobody else owns.
    unsafe { vm.create_vcpu_from_rawfd(fd) }.map_err(|e| Error::failed("cannot map a vCPU", e))
}

/// The external-interrupt input of a vCPU, by `KVM_INTERRUPT`. The ioctl does not wait for `KVM_RUN` to return.
pub struct KvmLine(File);

impl KvmLine {
    /// A handle that stays valid while the vCPU runs in another thread.
    ///
    /// # Errors
    /// [`Error::Failed`] without free descriptors.
    pub fn new(vcpu: &VcpuFd) -> Result<Self> {
        duplicate(vcpu).map(Self)
    }
}

impl ExternalLine for KvmLine {
    fn set(&self, high: bool) {
        let irq = if high {
            KVM_INTERRUPT_SET
        } else {
            KVM_INTERRUPT_UNSET
        };
        let argument = kvm_interrupt { irq: irq as u32 };
        // SAFETY: KVM only reads `argument`. The call cannot fail with these two values.
        unsafe { ioctl_with_ref(&self.0, request::KVM_INTERRUPT(), &argument) };
    }
}

/// Makes `KVM_RUN` return, or return at once the next time.
///
/// Holds its own mapping of `struct kvm_run`, so it does not depend on when the vCPU's thread ends.
pub struct Kicker {
    page: *mut libc::c_void,
}

const PAGE: usize = 4096;

// SAFETY: the mapping is shared memory with the kernel and is accessed only atomically.
unsafe impl Send for Kicker {}

impl Kicker {
    /// A kicker for `vcpu`.
    ///
    /// # Errors
    /// [`Error::Failed`] without address space or descriptors.
    pub fn new(vcpu: &VcpuFd) -> Result<Self> {
        let fd = duplicate(vcpu)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; the first page of a vCPU is kvm_run's head.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE,
                protection,
                libc::MAP_SHARED,
                fd.as_raw_fd() as RawFd,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(Error::failed(
                "cannot map a vCPU",
                std::io::Error::last_os_error(),
            ));
        }
        Ok(Self { page })
    }

    /// Sets `immediate_exit`; a signal to the thread must follow to end a `KVM_RUN` under way.
    pub fn request_exit(&self) {
        let offset = std::mem::offset_of!(kvm_bindings::kvm_run, immediate_exit);
        // SAFETY: the byte lies in the page mapped for the life of `self`; KVM reads it without a lock.
        let flag = unsafe { AtomicU8::from_ptr(self.page.cast::<u8>().add(offset)) };
        flag.store(1, Ordering::SeqCst);
    }
}

impl Drop for Kicker {
    fn drop(&mut self) {
        // SAFETY: `page` was mapped with this length and nothing refers to it any more.
        unsafe { libc::munmap(self.page, PAGE) };
    }
}

/// What the loop of a vCPU needs.
pub struct Context {
    /// Number of the vCPU.
    pub index: u32,
    /// All devices.
    pub bus: Arc<Bus>,
    /// Guest RAM.
    pub memory: GuestMemoryMmap,
    /// Console of the SBI calls.
    pub sbi: Arc<SbiConsole>,
    /// Xtrapless, if the guest has it.
    pub chip: Option<Arc<Chip>>,
    /// Set before the vCPUs are told to stop.
    pub stopping: Arc<AtomicBool>,
    /// Closed while the guest is paused.
    pub ticket: Ticket,
    /// Exits so far.
    pub counts: Arc<Mutex<Counts>>,
}

impl Context {
    /// Runs the vCPU until the guest ends, something fails, or it is told to stop (`None`).
    pub fn run(&self, vcpu: &mut VcpuFd) -> Option<Outcome> {
        // Devices interrupt from here when the guest accesses them.
        let _grant = self.chip.as_ref().map(Chip::grant);
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
                    let text =
                        format!("KVM returned with an exit the VMM does not know: {other:?}");
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

    /// A signal ended `KVM_RUN`, which completed the last exit before: `true` if the vCPU shall end, else it waits while
    /// the guest is paused.
    fn interrupted(&self, vcpu: &mut VcpuFd) -> bool {
        self.count(Reason::Signal);
        // Before looking at what is wanted: a request after the look sets it again.
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
        // SAFETY: the exit reason says that this member of the union is valid, and any bits are valid integers.
        let call = unsafe { &mut vcpu.get_kvm_run().__bindgen_anon_1.riscv_sbi };
        let (extension, function) = (call.extension_id, call.function_id);
        let routing = self.chip.as_ref().and_then(|chip| {
            sbi_console::trapless_call(extension, function, &call.args, |source, vhart| {
                chip.route(source, vhart)
            })
        });
        let (error, value) = routing.unwrap_or_else(|| {
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

/// KVM forwards `seed` (Zkr) and CSRs it does not know. `seed` returns 16 random bits with status ES16
/// (scalar cryptography specification, entropy source), the others read as zero.
fn csr_access(vcpu: &mut VcpuFd) -> u64 {
    // SAFETY: the exit reason says that this member of the union is valid, and any bits are valid integers.
    let access = unsafe { &mut vcpu.get_kvm_run().__bindgen_anon_1.riscv_csr };
    access.ret_value = 0;
    if access.csr_num == CSR_SEED {
        const ES16: u64 = 0b10 << 30;
        let mut bytes = [0u8; 2];
        // SAFETY: the buffer has the length given. Requests this short do not fail once the pool is ready.
        let got =
            unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
        if got == 2 {
            access.ret_value = ES16 | u64::from(u16::from_le_bytes(bytes));
        }
    }
    access.csr_num
}
