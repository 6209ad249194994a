//! The handlers of a guest's vCPUs: KVM's device, and the function that the stub calls. For that,
//! this module and `stub` depend on each other.

use trapless_isa::page::{PAGE_MASK, PAGE_SIZE};

use crate::error::{Error, Result};
use crate::kvm::device::KvmDevice;
use crate::kvm::numbers::DEVICE_UER;
use crate::uer::access::Instruction;
use crate::uer::device::{Answer, RedirectedDevice};
use crate::uer::stub::{
    Ending, Frame, answered, pointers, step_over, trapless_uer_entry, trapless_uer_exit,
};
use kvm_ioctls::VmFd;
use std::sync::Arc;

const GROUP_REGION: u32 = 0;
const GROUP_VCPU: u32 = 1;
const UTVEC: u64 = 0;
const USCRATCH: u64 = 1;
const UEXIT: u64 = 2;
const IN_HANDLER: u64 = 3;

/// Bytes of a handler's stack.
const STACK: usize = 64 << 10;

/// A page of the guest and the device of its first `len` bytes.
struct Window {
    base: u64,
    len: u64,
    device: Arc<dyn RedirectedDevice>,
}

/// Context of handlers.
pub struct Context {
    windows: Vec<Window>,
}

/// The devices of a guest that are accessed in user mode.
pub struct Redirection {
    context: Arc<Context>,
    kvm: KvmDevice,
}

/// Resources of a vCPU's handler; to be held as long as the vCPU may run.
pub struct Handler {
    /// Raw pointers: the handler changes this memory without the compiler's knowledge.
    frame: *mut Frame,
    stack: *mut [u128],
    _context: Arc<Context>,
}

impl Drop for Handler {
    fn drop(&mut self) {
        // SAFETY: both came from `Box::into_raw`; the vCPU does not run any more.
        unsafe {
            drop(Box::from_raw(self.frame));
            drop(Box::from_raw(self.stack));
        }
    }
}

impl Redirection {
    /// Makes KVM redirect accesses to `devices` (name, base, length).
    ///
    /// # Errors
    /// [`Error::Failed`] if KVM or the harts do not support that.
    pub fn new(vm: &VmFd, devices: Vec<(u64, u64, Arc<dyn RedirectedDevice>)>) -> Result<Self> {
        let kvm = KvmDevice::create(vm, DEVICE_UER).map_err(|e| {
            Error::failed(
                "KVM does not redirect accesses to user mode (needs harts with Xuer and this \
                 project's KVM)",
                e,
            )
        })?;
        let window = |(base, len, device)| Window { base, len, device };
        let windows: Vec<Window> = devices.into_iter().map(window).collect();
        for window in &windows {
            kvm.set(GROUP_REGION, window.base & PAGE_MASK, PAGE_SIZE)
                .map_err(|e| Error::failed("KVM does not redirect accesses to a device", e))?;
        }
        Ok(Self {
            context: Arc::new(Context { windows }),
            kvm,
        })
    }

    /// Gives vCPU `index` a handler that runs in the calling thread, which must be the one that
    /// calls `KVM_RUN`.
    ///
    /// # Errors
    /// The error that KVM returned.
    pub fn attach(&self, index: u32) -> std::io::Result<Handler> {
        // 16-byte aligned, as the calling convention has it.
        let stack = vec![0u128; STACK / size_of::<u128>()].into_boxed_slice();
        let stack = Box::into_raw(stack);
        let (tp, gp) = pointers();
        let frame = Box::into_raw(Box::new(Frame {
            x: [0; 32],
            stack: stack as *mut u128 as u64 + STACK as u64,
            tp,
            gp,
            context: Arc::as_ptr(&self.context),
        }));
        let handler = Handler {
            frame,
            stack,
            _context: Arc::clone(&self.context),
        };
        let register = |number: u64| u64::from(index) << 8 | number;
        let set = |number, value| self.kvm.set(GROUP_VCPU, register(number), value);
        set(USCRATCH, frame as u64)?;
        set(UEXIT, trapless_uer_exit as *const () as u64)?;
        set(UTVEC, trapless_uer_entry as *const () as u64)?;
        Ok(handler)
    }

    /// Whether vCPU `index`, which does not run, is in its handler.
    pub fn in_handler(&self, index: u32) -> bool {
        let state = self.kvm.get(GROUP_VCPU, u64::from(index) << 8 | IN_HANDLER);
        state.is_ok_and(|state| state == 1)
    }

    /// Completes work left by handlers.
    pub fn settle(&self) {
        for window in &self.context.windows {
            window.device.settle();
        }
    }
}

/// Registers that functions preserve: x8, x9 and x18 to x27.
const PRESERVED: u32 = 0x0FFC_0300;

/// The handler of an access to guest physical address `address`.
pub(super) extern "C" fn handle(frame: &mut Frame, address: u64, instruction: u64) -> Ending {
    // SAFETY: the context lives as long as the handler that this frame belongs to.
    let context = unsafe { &*frame.context };
    let Some(instruction) = Instruction::decode(instruction) else {
        return Ending::Host;
    };
    let Instruction { len, register, .. } = instruction;
    let found = context.windows.iter().find_map(|window| {
        let offset = address.checked_sub(window.base)?;
        (offset + u64::from(len) <= window.len).then_some((&*window.device, offset))
    });
    let Some((device, offset)) = found else {
        return Ending::Host;
    };
    let mut ending = Ending::Guest;
    let answer = if instruction.store {
        device.store(offset, len, frame.x[register & 31])
    } else {
        let (answer, value) = device.load(offset, len);
        if answer != Answer::Left && register != 0 {
            frame.x[register & 31] = instruction.extended(value);
            if PRESERVED >> register & 1 != 0 {
                ending = Ending::Changed;
            }
        }
        answer
    };
    if answer == Answer::Left {
        return Ending::Host;
    }
    step_over(instruction.size);
    if answer == Answer::Settle {
        answered();
        return Ending::Host;
    }
    ending
}
