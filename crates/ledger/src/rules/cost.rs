//! Cost of interrupts of a class: exits, firmware traps, system calls.
//!
//! `docs/ledger.md`, section "Interrupt classes", states the rules; `tests/classes.rs` tests each.

use trapless_isa::Mode;
use trapless_isa::cause::{exception, interrupt};
use trapless_isa::haiov;
use trapless_isa::xtrapless::limits;

use crate::class::Class;
use crate::events::event::Trap;
use crate::ledger::Ledger;
use crate::reason::Reason;
use crate::state::hart::{Call, Charged, OpenExit, place_of};

/// Number of `ioctl` in Linux's system-call table (asm-generic).
const IOCTL: u64 = 29;
/// `KVM_INTERRUPT`: sets or clears the external interrupt of a vCPU.
const KVM_INTERRUPT: u32 = 0x4004_ae86;
/// `KVM_IRQ_LINE`: drives a line of an interrupt controller in the kernel.
const KVM_IRQ_LINE: u32 = 0x4008_ae61;
/// `KVM_SIGNAL_MSI`.
const KVM_SIGNAL_MSI: u32 = 0x4020_aea5;

impl Ledger {
    /// A system call begins.
    pub(crate) fn call_begins(&mut self, t: &Trap) {
        let [fd, request, _, number] = t.args;
        let request = if number == IOCTL { request as u32 } else { 0 };
        let signals = matches!(request, KVM_INTERRUPT | KVM_IRQ_LINE | KVM_SIGNAL_MSI);
        let state = &mut self.harts[t.hart];
        state.call = Some(Call {
            signals,
            counted: false,
            depth: 0,
        });
        if signals {
            self.signalled(t.hart, Class::Device);
        }
        if request == KVM_INTERRUPT {
            let (harts, vharts) = (&self.harts, &self.vharts);
            self.vcpus.signal(fd, |index, vcpu| {
                (t.time, place_of(harts, vharts, index, vcpu))
            });
        }
    }

    /// The host returns within V=0.
    pub(crate) fn call_returns(&mut self, hart: usize, to: Mode) {
        let state = &mut self.harts[hart];
        if to == Mode::U {
            state.call = None;
        } else if let Some(call) = &mut state.call {
            call.depth = call.depth.saturating_sub(1);
        }
    }

    /// The system call on `hart` signals an interrupt of `class`; counted once per call, and not if
    /// it is charged to an exit of that class.
    pub(crate) fn signalled(&mut self, hart: usize, class: Class) {
        let state = &mut self.harts[hart];
        let Some(call) = state.call.as_mut().filter(|c| !c.counted && c.depth == 0) else {
            return;
        };
        call.counted = true;
        match &mut state.exit {
            Some(open) if open.class == Some(class) => return,
            // This call is counted here, whatever class the kick is found to have.
            Some(open) => open.charged.syscalls = open.charged.syscalls.saturating_sub(1),
            None => {}
        }
        self.class(class).syscalls += 1;
    }

    /// An M-mode trap from V=0, made on behalf of an exit or of a call that signals.
    pub(crate) fn charge_firmware(&mut self, hart: usize) {
        let state = &mut self.harts[hart];
        let called = state.call.is_some_and(|c| c.signals && c.depth == 0);
        let class = match &mut state.exit {
            Some(OpenExit { class: Some(c), .. }) => Some(*c),
            _ if called => Some(Class::Device),
            Some(open) => {
                open.charged.firmware_traps += 1;
                None
            }
            None => None,
        };
        if let Some(class) = class {
            self.class(class).firmware_traps += 1;
        }
    }

    /// A trap from HS or U to HS-mode.
    pub(crate) fn charge_host(&mut self, t: &Trap) {
        let is_call = t.cause == exception::ECALL_U;
        let state = &mut self.harts[t.hart];
        match &mut state.exit {
            Some(OpenExit { class: Some(c), .. }) => {
                let class = *c;
                let totals = self.class(class);
                totals.host_traps += 1;
                totals.syscalls += u64::from(is_call);
            }
            Some(open) => {
                open.charged.host_traps += 1;
                open.charged.syscalls += u64::from(is_call);
            }
            None => {}
        }
        if is_call {
            self.call_begins(t);
        } else if let Some(call) = self.harts[t.hart].call.as_mut() {
            call.depth += u32::from(t.from == Mode::HS);
        }
        if t.is_interrupt() {
            match t.code() {
                limits::NOTIFY_IRQ => {
                    let totals = &mut self.phases[self.current].totals;
                    totals.notifications.host_interrupts += 1;
                }
                haiov::limits::VEI_IRQ => {
                    self.phases[self.current].totals.events.host_interrupts += 1;
                }
                interrupt::SGEI => {
                    self.phases[self.current].totals.files.wakeups += 1;
                }
                code @ (interrupt::VSSI | interrupt::VSTI | interrupt::VSEI) => {
                    if let Some(class) = Class::of_irq(code) {
                        self.class(class).host_interrupts += 1;
                    }
                }
                _ => {}
            }
        }
    }

    /// An exit begins, with firmware traps charged to it.
    pub(crate) fn charge_exit(
        &mut self,
        why: &Trap,
        vcpu: usize,
        reason: Reason,
        firmware_traps: u64,
    ) -> (Option<Class>, Charged) {
        let class = Class::of_reason(reason, &self.config.guest_devices)
            .or_else(|| self.vcpus.get(vcpu).files.csr_class(reason));
        if let Some(class) = class {
            let totals = self.class(class);
            totals.exits += 1;
            totals.firmware_traps += firmware_traps;
        }
        if let Reason::Mmio(device, write) = reason {
            let virtio = self.config.guest_devices.name(device).starts_with("virtio");
            // InterruptStatus and InterruptACK (virtio 1.2, section 4.2.2).
            let register = if write { 0x64 } else { 0x60 };
            let at_register = virtio && why.gpa & 0xfff == register;
            let totals = self.class(Class::Device);
            totals.acknowledgements += u64::from(at_register);
        }
        let plic = |device: usize| self.config.guest_devices.name(device) == "plic";
        if matches!(reason, Reason::Mmio(device, _) if plic(device)) {
            // Claim/complete registers of the PLIC: one page per context from 0x20_0000 on.
            let offset = why.gpa & 0x3f_ffff;
            if offset >= 0x20_0000 && offset & 0xfff == 4 {
                let write = matches!(reason, Reason::Mmio(_, true));
                let totals = self.class(Class::Device);
                totals.completions += u64::from(write);
                totals.claims += u64::from(!write);
            }
        }
        let charged = Charged {
            firmware_traps,
            ..Charged::default()
        };
        (class, charged)
    }
}
