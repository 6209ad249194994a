//! A user context (Xhcs): a kick of a guest runs a handler of this process, which serves the queues
//! and interrupts a guest without a system call.
//!
//! The handler may interrupt a guest on another CPU, or be continued in its thread at any
//! instruction. So it allocates nothing, makes no system call, and has a stack of its own; it has
//! the thread pointer of its thread, which waits in KVM meanwhile.

use crate::backend::cli::Cpu;
use crate::backend::service::{Calls, Service, Wires, Worker};
use crate::kvm::device::{KvmDevice, os_error};
use crate::kvm::numbers::DEVICE_UCTX;
use kvm_ioctls::Kvm;
use std::arch::global_asm;
use std::cell::Cell;
use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use trapless_isa::haiov::csr;
use trapless_isa::xtrapless::csr::UGENVSEI;
use vhost_user_backend::VringT;
use vmm_sys_util::signal::{Killable, SIGRTMIN, register_signal_handler};

const GROUP_ATTR: u32 = 0;
const UTVEC: u64 = 0;
const USCRATCH: u64 = 1;
const CPU: u64 = 3;
const CPU_THREAD: u64 = !0;
const CPU_OWN: u64 = !1;
const GROUP_KICK: u32 = 1;
const GROUP_CALL: u32 = 2;
/// `KVM_UCTX_RUN`: `_IOR(0xae, 0xe8, struct kvm_uctx_run)`.
const RUN: libc::c_ulong = 2 << 30 | (size_of::<Run>() as libc::c_ulong) << 16 | 0xae << 8 | 0xe8;
const EXIT_ECALL: u32 = 0;
const EXIT_HANDLER: u32 = 2;

/// `struct kvm_uctx_run`.
#[repr(C)]
#[derive(Default)]
struct Run {
    reason: u32,
    padding: u32,
    pending: u64,
    cause: u64,
    pc: u64,
    value: u64,
}

/// Bytes of the handler's stack.
const STACK: usize = 64 << 10;

/// State of the handler. `uscratch` holds its address.
#[repr(C)]
struct Frame {
    /// End of the stack, 16-byte aligned.
    stack: u64,
    /// Thread pointer of the handler's thread.
    tp: u64,
    /// Global pointer of this program.
    gp: u64,
    /// [`serve_once`] of the service.
    serve: unsafe fn(*mut ()) -> Calls,
    service: *mut (),
    /// Source by which the handler interrupts the first of [`Wires::calls`]; 0: none, so its thread
    /// does.
    source: u64,
    /// Drivers that its thread is to interrupt.
    left: Cell<Calls>,
}

/// Serves requests, in the handler.
///
/// # Safety
/// `service` is an `S` that is not used otherwise meanwhile.
unsafe fn serve_once<S: Service>(service: *mut ()) -> Calls {
    // SAFETY: guaranteed by the caller.
    let service = unsafe { &mut *service.cast::<S>() };
    service.serve(true).unwrap_or(Calls::BROKEN)
}

global_asm!(
    ".text",
    ".balign 4",
    ".globl trapless_context_entry",
    "trapless_context_entry:",
    "csrr t0, {uscratch}",
    "ld sp, {stack}(t0)",
    "ld tp, {tp}(t0)",
    "ld gp, {gp}(t0)",
    "mv a0, t0",
    "call {handle}",
    "bnez a0, 1f",
    ".4byte 0x8c000073",
    "1:",
    "ecall",
    uscratch = const csr::USCRATCH,
    stack = const offset_of!(Frame, stack),
    tp = const offset_of!(Frame, tp),
    gp = const offset_of!(Frame, gp),
    handle = sym handle,
);

unsafe extern "C" {
    /// The handler's first instruction.
    safe fn trapless_context_entry();
}

/// Turns of a handler; after that its thread checks whether it must stop.
const TURNS: u32 = 16;

/// The handler. Returns whether its thread has to do the rest.
extern "C" fn handle(frame: &Frame) -> bool {
    let mut left = Calls::NONE;
    for _ in 0..TURNS {
        // SAFETY: KVM lets the handler run in one place at a time, and only while its thread, which
        // has made the frame and is the only other user of the service, waits in `KVM_UCTX_RUN`.
        let calls = unsafe { (frame.serve)(frame.service) };
        left = calls;
        if calls.includes(Calls::FIRST) && frame.source != 0 {
            // SAFETY: writes no memory of this program; KVM has granted the source. No `nomem`:
            // results must be in memory before.
            unsafe {
                std::arch::asm!(
                    "csrw {csr}, {operand}",
                    csr = const UGENVSEI,
                    operand = in(reg) frame.source,
                    options(nostack)
                )
            };
            left = calls.without(Calls::FIRST);
        }
        if left != Calls::MORE {
            break;
        }
    }
    frame.left.set(left);
    left != Calls::NONE
}

/// The context of a service, and its thread.
pub struct Context<S> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<S>,
}

impl<S: Service> Context<S> {
    /// Starts a service by handlers.
    ///
    /// # Errors
    /// The error of KVM; if it has no user contexts, with that as the reason.
    pub fn start(service: S, wires: Wires, cpu: Cpu) -> io::Result<Self> {
        let device = device(cpu)?;
        extern "C" fn nothing(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}
        register_signal_handler(SIGRTMIN(), nothing)
            .map_err(|e| io::Error::from_raw_os_error(e.errno()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("context".into())
            .spawn(move || serve(&device, service, &wires, &stopped))?;
        Ok(Self { stop, thread })
    }
}

impl<S: Service> Worker<S> for Context<S> {
    /// KVM is notified as well.
    fn kicked(&mut self) -> bool {
        false
    }

    fn stop(self: Box<Self>) -> Option<S> {
        self.stop.store(true, Ordering::SeqCst);
        // The signal may come before the thread is in KVM, where it would end the wait.
        while !self.thread.is_finished() {
            let _ = self.thread.kill(SIGRTMIN());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.thread.join().ok()
    }
}

/// A context of this process without a handler, whose interrupts go to `cpu`.
///
/// # Errors
/// The error of KVM, with the reason.
pub fn device(cpu: Cpu) -> io::Result<KvmDevice> {
    let none = |e: io::Error| {
        let why = "--loop handler needs harts with Xhcs and this project's KVM";
        io::Error::new(e.kind(), format!("{why}: {e}"))
    };
    let kvm = Kvm::new().map_err(|e| none(os_error(e)))?;
    // A VM without vCPUs; the device keeps it.
    let vm = kvm.create_vm().map_err(|e| none(os_error(e)))?;
    let device = KvmDevice::create(&vm, DEVICE_UCTX).map_err(none)?;
    let cpu = match cpu {
        Cpu::Number(number) => number,
        Cpu::Own => CPU_OWN,
        Cpu::Thread => CPU_THREAD,
    };
    device.set(GROUP_ATTR, CPU, cpu)?;
    Ok(device)
}

/// Body of the thread.
fn serve<S: Service>(device: &KvmDevice, mut service: S, wires: &Wires, stop: &AtomicBool) -> S {
    if let Err(e) = serve_by_handler(device, &mut service, wires, stop) {
        eprintln!("trapless-backend: {e}");
        // A VMM whose back end ends reports that to the guest.
        std::process::exit(1);
    }
    service
}

/// Gives the context the eventfds of the service. Returns the source by which its handler
/// interrupts the first driver; 0: none.
fn connect(device: &KvmDevice, wires: &Wires) -> io::Result<u64> {
    for (vector, vring) in wires.kicks.iter().enumerate() {
        if let Some(kick) = vring.get_ref().get_kick() {
            device.set(GROUP_KICK, vector as u64, kick.as_raw_fd() as u64)?;
        }
    }
    let Some(first) = wires.calls.first() else {
        return Ok(0);
    };
    match first.get_ref().get_call() {
        Some(call) => match device.set(GROUP_CALL, 0, call.as_raw_fd() as u64) {
            Ok(()) => device.get(GROUP_CALL, 0),
            // No irqfd, or no Xtrapless: the thread signals the eventfd.
            Err(_) => Ok(0),
        },
        None => Ok(0),
    }
}

fn serve_by_handler<S: Service>(
    device: &KvmDevice,
    service: &mut S,
    wires: &Wires,
    stop: &AtomicBool,
) -> io::Result<()> {
    let source = connect(device, wires)?;
    let mut stack = vec![0_u128; STACK / 16];
    let (tp, gp) = crate::uer::stub::pointers();
    let frame = Frame {
        stack: stack.as_mut_ptr_range().end as u64,
        tp,
        gp,
        serve: serve_once::<S>,
        service: (&raw mut *service).cast(),
        source,
        left: Cell::new(Calls::NONE),
    };
    device.set(GROUP_ATTR, USCRATCH, &raw const frame as u64)?;
    device.set(
        GROUP_ATTR,
        UTVEC,
        trapless_context_entry as *const () as u64,
    )?;
    let mut begun = false;
    while begun || !stop.load(Ordering::SeqCst) {
        if !begun {
            // Requests from before, and the rest that the handler has left. SAFETY: no handler is
            // running.
            let calls = unsafe { serve_once::<S>(frame.service) };
            wires.finish(calls);
            if calls.includes(Calls::MORE) {
                continue;
            }
        }
        begun = false;
        let mut run = Run::default();
        // SAFETY: the structure that KVM_UCTX_RUN takes.
        match unsafe { device.command(RUN, &mut run) } {
            Ok(()) if run.reason == EXIT_ECALL => wires.finish(frame.left.take()),
            Ok(()) => {
                let (cause, pc, value) = (run.cause, run.pc, run.value);
                return Err(io::Error::other(format!(
                    "the handler failed: cause {cause} at {pc:#x}, {value:#x}"
                )));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {
                begun = run.reason == EXIT_HANDLER;
            }
            Err(e) => return Err(e),
        }
    }
    // No handler is running: the context is removed with the device, after its memory.
    Ok(())
}
