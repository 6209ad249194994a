//! Rules by which interrupts are counted per class: sent, arrived, taken, and what it cost.
//!
//! `docs/ledger.md`, section "Interrupt classes", states them; `tests/classes.rs` tests each.

use trapless_isa::Mode;
use trapless_isa::cause::{INTERRUPT, exception, interrupt};
use trapless_isa::xtrapless::{kind, limits};

use crate::book::{Hart, Ledger, OpenExit};
use crate::class::{Class, ClassTotals, State};
use crate::config::Config;
use crate::event::{Guest, StepKind, Trap, VirtualStep};
use crate::reason::Reason;
use crate::vcpu::{NEVER, Vcpu};
use crate::vhart::{Pending, Vharts};

/// Number of `ioctl` in Linux's system-call table (asm-generic).
const IOCTL: u64 = 29;
/// `KVM_INTERRUPT`: sets or clears the external interrupt of a vCPU.
const KVM_INTERRUPT: u32 = 0x4004_ae86;
/// `KVM_IRQ_LINE`: drives a line of an interrupt controller in the kernel.
const KVM_IRQ_LINE: u32 = 0x4008_ae61;
/// `KVM_SIGNAL_MSI`.
const KVM_SIGNAL_MSI: u32 = 0x4020_aea5;

/// A system call that the host serves for U-mode on a hart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// By its number it signals a device interrupt.
    signals: bool,
    /// It has been counted for a class.
    counted: bool,
    /// Traps taken within it.
    depth: u32,
}

/// A guest interrupt whose way has been followed to the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered {
    /// Class.
    pub class: Class,
    /// What the vCPU was doing at the arrival.
    pub state: State,
    /// When it was sent; timer: when its deadline was programmed.
    pub sent: u64,
    /// When it arrived; timer: its deadline, or `sent` if that is later.
    pub arrived: u64,
    /// When the guest's handler was entered.
    pub taken: u64,
    /// Hart on which it was taken.
    pub hart: usize,
}

/// What an exit whose class is not known yet has led to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Charged {
    pub firmware_traps: u64,
    pub host_traps: u64,
    pub syscalls: u64,
}

/// State of a vCPU: by the slots if one of its harts has them, else by what the harts did.
fn state_of(harts: &[Hart], vharts: &Vharts, index: usize, vcpu: &Vcpu) -> State {
    let hart = match vcpu.slot {
        Some(slot) => vharts.get(slot).hart,
        None => vcpu.hart.filter(|h| harts[*h].loaded == Some(index)),
    };
    state_on(harts, hart)
}

fn state_on(harts: &[Hart], hart: Option<usize>) -> State {
    match hart.and_then(|h| harts.get(h)) {
        Some(hart) if hart.mode.v() => State::Running,
        Some(_) => State::Paused,
        None => State::ScheduledOff,
    }
}

impl Ledger {
    pub(crate) fn class(&mut self, class: Class) -> &mut ClassTotals {
        &mut self.phases[self.current].totals.classes[class as usize]
    }

    fn arrival(&mut self, class: Class, state: State) {
        self.class(class).arrived[state as usize] += 1;
    }

    /// The deadline of the vCPU on `hart` may have passed: it arrives in the state that the hart was
    /// in until `now`.
    pub(crate) fn timer_arrival(&mut self, hart: usize, now: u64) {
        let state = &self.harts[hart];
        if let Some(index) = state.loaded {
            let vcpu = self.vcpus.get_mut(index);
            if vcpu.timer_open && vcpu.timer_due <= now {
                let state = if state.mode.v() {
                    State::Running
                } else {
                    State::Paused
                };
                vcpu.timer_open = false;
                vcpu.timer_state = state;
                self.arrival(Class::Timer, state);
            }
        }
    }

    /// The guest programs its timer; `deadline` [`NEVER`] stops it.
    pub(crate) fn timer_programmed(&mut self, vcpu: usize, now: u64, deadline: u64, by_sbi: bool) {
        let vcpu = self.vcpus.get_mut(vcpu);
        let superseded = std::mem::replace(&mut vcpu.timer_open, deadline != NEVER);
        vcpu.program_timer(now, deadline, by_sbi);
        let totals = self.class(Class::Timer);
        totals.superseded += u64::from(superseded);
        totals.sent += u64::from(deadline != NEVER);
    }

    /// An SBI call of `sender` sends an IPI to the vCPUs that the hart mask names.
    pub(crate) fn ipi_sent(&mut self, trap: &Trap, sender: usize) {
        let [a0, a1, _, _] = trap.args;
        let (harts, vharts) = (&self.harts, &self.vharts);
        let totals = &mut self.phases[self.current].totals;
        let class = &mut totals.classes[Class::Ipi as usize];
        let mut coalesced = 0;
        let (named, unknown) = self
            .vcpus
            .for_targets(trap.guest.vmid, a0, a1, |index, vcpu| {
                // Not the number of bits: vCPUs of an old VM can share number and VMID with new ones.
                class.sent += 1;
                if vcpu.ipi_sent != NEVER {
                    coalesced += 1;
                    return;
                }
                vcpu.ipi_sent = trap.time;
                // The call itself has taken the sender out of V=1.
                vcpu.ipi_state = if index == sender {
                    State::Paused
                } else {
                    state_of(harts, vharts, index, vcpu)
                };
                class.arrived[vcpu.ipi_state as usize] += 1;
            });
        class.sent += unknown;
        class.coalesced += coalesced;
        class.arrived[State::Unknown as usize] += unknown;
        totals.ipi_targets += named;
        totals.ipi_unmatched += unknown;
        totals.ipi_coalesced += coalesced;
    }

    /// A trap to VS-mode with interrupt `code` (VS-level numbering).
    pub(crate) fn guest_takes(&mut self, t: &Trap, index: usize, code: u64) {
        let Some(class) = Class::of_irq(code) else {
            return;
        };
        self.class(class).taken += 1;
        let slot = self.harts[t.hart].slot;
        let posted = match (class, slot) {
            (Class::Ipi, Some(slot)) => self.vharts.get_mut(slot).soft.take(),
            (Class::Device, Some(slot)) => {
                let vhart = self.vharts.get_mut(slot);
                vhart.traps += 1;
                vhart.last_trap = t.time;
                None
            }
            _ => None,
        };
        let vcpu = self.vcpus.get_mut(index);
        let pending = match class {
            Class::Ipi if vcpu.ipi_sent != NEVER => {
                let time = std::mem::replace(&mut vcpu.ipi_sent, NEVER);
                let (state, traps) = (vcpu.ipi_state, 0);
                posted.or(Some(Pending { time, state, traps }))
            }
            Class::Device => vcpu.device.take(),
            _ => posted,
        };
        let Some(p) = pending else { return };
        // Harts run ahead of each other by up to a quantum: never below zero.
        let waited = t.time.saturating_sub(p.time);
        let totals = &mut self.phases[self.current].totals;
        totals.classes[class as usize].latency[p.state as usize].record(waited);
        match class {
            Class::Ipi => totals.ipi_latency.record(waited),
            _ => totals.device_latency.record(waited),
        }
        self.answered = Some(Answered {
            class,
            state: p.state,
            sent: p.time,
            arrived: p.time,
            taken: t.time,
            hart: t.hart,
        });
    }

    /// The guest takes the interrupt of its deadline after `waited` cycles.
    pub(crate) fn timer_taken(&mut self, t: &Trap, index: usize, waited: u64) {
        let vcpu = self.vcpus.get_mut(index);
        if std::mem::replace(&mut vcpu.timer_open, false) {
            // No event of its hart came in between.
            vcpu.timer_state = State::Running;
            self.arrival(Class::Timer, State::Running);
        }
        let vcpu = self.vcpus.get_mut(index);
        let (state, sent, arrived) = (vcpu.timer_state, vcpu.timer_set_at, vcpu.timer_due);
        self.class(Class::Timer).latency[state as usize].record(waited);
        self.answered = Some(Answered {
            class: Class::Timer,
            state,
            sent,
            arrived,
            taken: t.time,
            hart: t.hart,
        });
    }

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
                (t.time, state_of(harts, vharts, index, vcpu))
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
    /// an exit of that class is charged with it anyway.
    fn signalled(&mut self, hart: usize, class: Class) {
        let state = &mut self.harts[hart];
        let Some(call) = state.call.as_mut().filter(|c| !c.counted && c.depth == 0) else {
            return;
        };
        call.counted = true;
        match &mut state.exit {
            Some(open) if open.class == Some(class) => return,
            // Whatever class the kick turns out to have: this call is counted here.
            Some(open) => open.charged.syscalls = open.charged.syscalls.saturating_sub(1),
            None => {}
        }
        self.class(class).syscalls += 1;
    }

    /// An M-mode trap from V=0: firmware works for an exit, or for a call that signals.
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
        if t.cause & INTERRUPT != 0 {
            match t.cause & !INTERRUPT {
                limits::NOTIFY_IRQ => {
                    let totals = &mut self.phases[self.current].totals;
                    totals.host.host_interrupts += 1;
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

    /// An exit is opened with the firmware traps charged to it already.
    pub(crate) fn charge_exit(
        &mut self,
        why: &Trap,
        reason: Reason,
        firmware_traps: u64,
    ) -> (Option<Class>, Charged) {
        let class = Class::of_reason(reason, &self.config.guest_devices);
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
        if class == Some(Class::Device) && matches!(reason, Reason::Mmio(..)) {
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

    /// The vCPU on no hart any more, as far as the hart without slots tells: the host waits, or runs
    /// a program.
    pub(crate) fn host_moved_on(&mut self, hart: usize) {
        let state = &mut self.harts[hart];
        if state.slot.is_none() {
            state.loaded = None;
        }
    }

    /// `index` is on `hart` now. `closed` is the exit that this entry ends.
    pub(crate) fn guest_enters(
        &mut self,
        index: usize,
        hart: usize,
        now: u64,
        closed: Option<&OpenExit>,
    ) {
        let slot = self.harts[hart].slot;
        if let Some(slot) = slot {
            self.vharts.get_mut(slot).vcpu = Some(index);
            let (domain, vhart) = self.vharts.key(slot);
            let vcpu = self.vcpus.get_mut(index);
            vcpu.domain = Some(domain);
            vcpu.vhart = Some(u64::from(vhart));
        }
        self.load(Some(index), hart, now);
        self.harts[hart].call = None;
        self.vcpus.get_mut(index).slot = slot;
        let raised = self.harts[hart].raised;
        let injected = |code: u64| raised[code as usize] != NEVER;
        // What the controller delivers needs no injection.
        let own_sources = slot.is_some_and(|s| !self.vharts.get(s).sources.is_empty());
        let mut device = injected(interrupt::VSEI) && !own_sources;
        if device {
            let vcpu = self.vcpus.get_mut(index);
            // Loading a vCPU raises again what it had not finished: no new interrupt.
            let fresh = vcpu.signals.fd.is_none() || vcpu.signals.last.is_some();
            device = fresh && vcpu.device.is_none();
            if device {
                let unknown = (raised[interrupt::VSEI as usize], State::Unknown);
                let (time, state) = vcpu.signals.injected().unwrap_or(unknown);
                let traps = 0;
                vcpu.device = Some(Pending { time, state, traps });
                self.class(Class::Device).sent += 1;
                self.arrival(Class::Device, state);
            }
        }
        let kick = closed.filter(|o| Reason::from_index(o.reason) == Reason::IpiReceive);
        let class = if injected(interrupt::VSSI) && slot.is_none() {
            Some(Class::Ipi)
        } else if device {
            Some(Class::Device)
        } else if injected(interrupt::VSTI) && self.vcpus.get_mut(index).timer_by_sbi {
            // A comparator of the guest's own raises it without the host.
            Some(Class::Timer)
        } else {
            None
        };
        if let (Some(open), Some(class)) = (kick, class) {
            let totals = self.class(class);
            totals.exits += 1;
            totals.firmware_traps += open.charged.firmware_traps;
            totals.host_traps += open.charged.host_traps;
            totals.syscalls += open.charged.syscalls;
        }
    }

    /// Another vCPU, or none, is on `hart` from `now` on.
    fn load(&mut self, index: Option<usize>, hart: usize, now: u64) {
        if self.harts[hart].loaded == index {
            return;
        }
        self.harts[hart].loaded = index;
        let Some(index) = index else { return };
        let vcpu = self.vcpus.get_mut(index);
        vcpu.hart = Some(hart);
        if vcpu.timer_open && vcpu.timer_due <= now {
            vcpu.timer_open = false;
            vcpu.timer_state = State::ScheduledOff;
            self.arrival(Class::Timer, State::ScheduledOff);
        }
    }

    /// One step of an interrupt architecture that delivers by itself.
    pub(crate) fn virtual_step(&mut self, s: &VirtualStep) {
        self.at(s.hart, s.time);
        let words = u64::from(s.memory);
        let vhart = |ledger: &mut Self, vhart: u16| ledger.vharts.find((s.domain, vhart));
        let class = match s.kind {
            StepKind::PostSoft { vhart: to, merged } => {
                let target = vhart(self, to);
                self.post_soft(s, target, merged);
                Some(Class::Ipi)
            }
            StepKind::PostSource {
                vhart: to,
                source,
                merged,
            } => {
                let target = vhart(self, to);
                self.post_source(s, target, source, merged);
                Some(Class::Device)
            }
            StepKind::Lowered { source } => {
                let vharts = self.vharts.of_domain(s.domain);
                let pending = vharts.filter_map(|v| v.sources.remove(&source)).count();
                let totals = self.class(Class::Device);
                totals.lowered += 1;
                totals.withdrawn += pending as u64;
                Some(Class::Device)
            }
            StepKind::Claimed { vhart: by, source } => {
                let target = vhart(self, by);
                self.claimed(s, target, source);
                Some(Class::Device)
            }
            StepKind::Completed { source, again, .. } => {
                // What is pending again is posted next.
                let totals = self.class(Class::Device);
                totals.completions += 1;
                totals.repended += u64::from(again);
                self.harts[s.hart].completed = source;
                Some(Class::Device)
            }
            StepKind::Notified { vhart, kind, .. } => {
                let resample = u64::from(kind) == kind::RESAMPLE;
                let id = if resample {
                    self.harts[s.hart].completed
                } else {
                    vhart
                };
                self.vharts.notify(s.domain, id, kind, s.time);
                self.host().queue(kind);
                self.posted(s)
            }
            StepKind::Silent { .. } => {
                self.host().silent += 1;
                self.posted(s)
            }
            StepKind::Hit { .. } => self.posted(s),
            StepKind::Attached { vhart: id } => {
                let target = vhart(self, id);
                self.attached(s, target);
                self.host().slot_memory_words += words;
                return;
            }
            StepKind::Detached { state, .. } => {
                self.host().detach(state);
                self.host().slot_memory_words += words;
                self.detached(s.hart);
                return;
            }
            StepKind::HartIpi { .. } => {
                self.host().ipis += 1;
                return;
            }
            StepKind::Fetched { id, kind } => {
                let queued = self.vharts.fetch(s.domain, id, kind);
                let waited = queued.map(|time| s.time.saturating_sub(time));
                self.host().fetch(kind, waited);
                None
            }
            StepKind::Overflow { .. } => {
                self.host().overflows += 1;
                None
            }
        };
        match class {
            Some(class) => {
                self.class(class).memory_words += words;
                self.harts[s.hart].posted = Some((s.time, class));
            }
            None => self.host().memory_words += words,
        }
    }

    fn host(&mut self) -> &mut crate::class::HostTotals {
        &mut self.phases[self.current].totals.host
    }

    /// Class of the post whose lookup this is; `None` for an evaluation without a post.
    fn posted(&self, s: &VirtualStep) -> Option<Class> {
        let (time, class) = self.harts[s.hart].posted?;
        (time == s.time).then_some(class)
    }

    fn post_soft(&mut self, s: &VirtualStep, target: Option<usize>, merged: bool) {
        let vcpu = target.and_then(|t| self.vharts.get(t).vcpu);
        // KVM posts what a guest has sent by SBI, which has been counted.
        let announced = vcpu.is_some_and(|v| self.vcpus.get_mut(v).ipi_sent != NEVER);
        if announced && !s.mode.v() {
            return;
        }
        self.class(Class::Ipi).sent += 1;
        if merged {
            self.class(Class::Ipi).coalesced += 1;
            return;
        }
        let pending = self.pending_for(s, target);
        self.arrival(Class::Ipi, pending.state);
        if let Some(target) = target {
            self.vharts.get_mut(target).soft = Some(pending);
        }
    }

    fn post_source(&mut self, s: &VirtualStep, target: Option<usize>, source: u16, merged: bool) {
        if s.mode == Mode::HS {
            self.signalled(s.hart, Class::Device);
        }
        self.class(Class::Device).sent += 1;
        if merged {
            self.class(Class::Device).coalesced += 1;
            return;
        }
        let pending = self.pending_for(s, target);
        self.arrival(Class::Device, pending.state);
        if let Some(target) = target {
            self.vharts.get_mut(target).post(source, pending);
        }
    }

    fn pending_for(&self, s: &VirtualStep, target: Option<usize>) -> Pending {
        let (state, traps) = match target {
            Some(target) => {
                let vhart = self.vharts.get(target);
                (state_on(&self.harts, vhart.hart), vhart.traps)
            }
            None => (State::Unknown, 0),
        };
        Pending {
            time: s.time,
            state,
            traps,
        }
    }

    fn claimed(&mut self, s: &VirtualStep, target: Option<usize>, source: u16) {
        let totals = self.class(Class::Device);
        totals.claims += 1;
        totals.empty_claims += u64::from(source == 0);
        let Some(vhart) = target.map(|t| self.vharts.get_mut(t)) else {
            return;
        };
        let Some(pending) = vhart.sources.remove(&source) else {
            return;
        };
        // A handler that is running already takes it without another trap.
        let taken = if vhart.traps > pending.traps {
            vhart.last_trap
        } else {
            s.time
        };
        let waited = taken.saturating_sub(pending.time);
        let totals = &mut self.phases[self.current].totals;
        totals.classes[Class::Device as usize].latency[pending.state as usize].record(waited);
        totals.device_latency.record(waited);
        self.answered = Some(Answered {
            class: Class::Device,
            state: pending.state,
            sent: pending.time,
            arrived: pending.time,
            taken,
            hart: s.hart,
        });
    }

    /// The interrupt that the last event has answered, once.
    pub fn take_answered(&mut self) -> Option<Answered> {
        self.answered.take()
    }

    /// Every vCPU seen with its number in its VM, if known.
    pub fn vcpu_numbers(&self) -> impl Iterator<Item = (Guest, Option<u64>)> + '_ {
        self.vcpus.iter().map(|v| (v.guest, v.vhart))
    }

    /// What the ledger knows of the machine.
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn attached(&mut self, s: &VirtualStep, target: Option<usize>) {
        self.host().attached += 1;
        self.detached(s.hart);
        self.harts[s.hart].slot = target;
        if let Some(target) = target {
            let vhart = self.vharts.get_mut(target);
            vhart.hart = Some(s.hart);
            let vcpu = vhart.vcpu;
            self.load(vcpu, s.hart, s.time);
        }
    }

    fn detached(&mut self, hart: usize) {
        if let Some(slot) = self.harts[hart].slot.take() {
            let vhart = self.vharts.get_mut(slot);
            if vhart.hart == Some(hart) {
                vhart.hart = None;
            }
        }
        self.harts[hart].loaded = None;
    }
}
