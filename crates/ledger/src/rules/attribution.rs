//! Rules by which traps become exits with a reason, and later traps are charged to them.
//!
//! `docs/ledger.md`, sections "Reasons of exits" and "What is charged to an exit", states them;
//! `tests/attribution.rs` tests each.

use trapless_isa::cause::{INTERRUPT, exception, interrupt};
use trapless_isa::sbi::eid;
use trapless_isa::{Mode, Priv};

use crate::class::{Class, Place};
use crate::events::event::{
    DeviceAccess, Event, Raise, Return, Sink, TimerSet, TimerSets, Trap, Wait,
};
use crate::ledger::{GuestExit, Ledger, count_direct};
use crate::reason::{Reason, cause_index};
use crate::state::chain::{Steps, leads_to};
use crate::state::hart::{Direct, OpenExit};
use crate::state::totals::IRQS;
use crate::state::vcpu::NEVER;

impl Ledger {
    fn trap(&mut self, t: &Trap) {
        self.at(t.hart, t.time);
        self.retired(t.hart, t.instret);
        self.harts[t.hart].waiting = false;
        let cause = cause_index(t.cause);
        let totals = &mut self.phases[self.current].totals;
        *totals.harts[t.hart].trap_mut(t.from, t.to, cause) += 1;
        if t.is_interrupt() && !t.to.v() {
            self.taken(t, (cause & 63) as usize);
        }
        match (t.from.v(), t.to) {
            _ if t.is_exit() => self.guest_exit(t),
            (true, Mode::M) => self.direct_trap(t),
            (true, Mode::U) => self.redirected(t),
            (true, _) => self.guest_trap(t),
            (false, Mode::M) => self.firmware_trap(t),
            (false, _) if self.handler_trapped(t) => {}
            (false, _) => self.host_trap(t),
        }
        self.harts[t.hart].mode = t.to;
    }

    /// A trap from V=1 to HS-mode.
    fn guest_exit(&mut self, t: &Trap) {
        let direct = self.harts[t.hart].direct.take();
        let caused = |d: &Direct| d.resumed == Some(t.epc) && leads_to(d.first.cause, t.cause);
        match direct {
            Some(d) if caused(&d) => self.open_exit(t, t, Some(&d)),
            other => {
                if let Some(d) = other {
                    count_direct(&mut self.phases[self.current].totals, &d);
                }
                self.open_exit(t, t, None);
            }
        }
    }

    /// Opens the exit on `trap.hart` that `why` explains. They differ if firmware redirected a trap
    /// that it took from the guest.
    pub(crate) fn open_exit(&mut self, trap: &Trap, why: &Trap, direct: Option<&Direct>) {
        let index = self.vcpu_of(trap.hart, why.guest);
        let vcpu = self.vcpus.get_mut(index);
        vcpu.exits += 1;
        let mut reason = Reason::classify(why, &self.config, vcpu.timer_needs_host(trap.time));
        if reason == Reason::ExternalInterrupt && self.harts[trap.hart].host_ipi.is_some() {
            // With IMSICs, IPIs of the host are external interrupts.
            reason = Reason::IpiReceive;
        }
        let vcpu = self.vcpus.get_mut(index);
        if reason == Reason::TimerFire {
            vcpu.timer_noticed = true;
        }
        self.exited = Some(GuestExit {
            vcpu: index,
            reason,
        });
        self.note_sbi(why, index, reason);
        let firmware_traps = direct.map_or(0, |d| d.traps);
        let (class, charged) = self.charge_exit(why, index, reason, firmware_traps);
        let totals = &mut self.phases[self.current].totals;
        totals.harts[trap.hart].counts.guest_exits += 1;
        let entry = &mut totals.exits[reason.index()];
        entry.counts.exits += 1;
        let mut steps = Steps::default();
        if let Some(direct) = direct {
            entry.counts.firmware_traps += direct.traps;
            entry.counts.timer_traps += direct.timer_traps;
            entry.cycles[Mode::M as usize] += direct.cycles;
            entry.instructions[Mode::M as usize] += direct.instructions;
            steps.append(&direct.steps);
        }
        let opened = OpenExit {
            reason: reason.index(),
            since: trap.time,
            steps,
            class,
            charged,
        };
        if let Some(old) = self.harts[trap.hart].exit.replace(opened) {
            // Only if entries were not reported; the sums are still right.
            totals.count_chain(self.chains.number(old.reason, &old.steps));
        }
    }

    /// Records the effects of an SBI call of the guest on its timer and its IPIs.
    fn note_sbi(&mut self, t: &Trap, vcpu: usize, reason: Reason) {
        let totals = &mut self.phases[self.current].totals;
        let [a0, _, _, extension] = t.args;
        match reason {
            Reason::TimerSet => {
                totals.guest_interrupts.timer_set_with_exit += 1;
                let deadline = match a0 {
                    u64::MAX => NEVER,
                    ticks => {
                        let host_ticks = ticks.wrapping_sub(t.htimedelta);
                        host_ticks.saturating_mul(self.config.cycles_per_tick)
                    }
                };
                self.timer_programmed(vcpu, t.time, deadline, true);
            }
            Reason::IpiSend => {
                totals.guest_interrupts.ipi_sends += 1;
                if extension == eid::LEGACY_SEND_IPI {
                    // The mask lies in guest memory.
                    totals.guest_interrupts.ipi_targets += 1;
                    totals.guest_interrupts.ipi_unmatched += 1;
                    self.class(Class::Ipi).sent += 1;
                    self.arrival(Class::Ipi, Place::Unknown);
                    return;
                }
                self.ipi_sent(t, vcpu);
            }
            Reason::SbiOther(_) => self.vcpus.note_ecall(t),
            Reason::Mmio(device, true) => {
                if let Some(base) = self.config.guest_devices.base_of(device, "imsic") {
                    self.ipi_stored(t, vcpu, base);
                }
            }
            _ => {}
        }
    }

    /// A trap from V=1 to M-mode.
    fn direct_trap(&mut self, t: &Trap) {
        let state = &mut self.harts[t.hart];
        if let Some(d) = state.direct.as_mut().filter(|d| d.resumed == Some(t.epc)) {
            // The guest has not executed anything in between.
            d.traps += 1;
            d.timer_traps += u64::from(for_timer(t));
            d.resumed = None;
            d.steps.push(t);
            return;
        }
        let mut steps = Steps::default();
        steps.push(t);
        let fresh = Direct {
            first: *t,
            traps: 1,
            timer_traps: u64::from(for_timer(t)),
            cycles: 0,
            instructions: 0,
            steps,
            resumed: None,
        };
        if let Some(old) = state.direct.replace(fresh) {
            count_direct(&mut self.phases[self.current].totals, &old);
        }
    }

    /// A trap handled inside the guest.
    fn guest_trap(&mut self, t: &Trap) {
        if let Some(d) = self.harts[t.hart].direct.take() {
            count_direct(&mut self.phases[self.current].totals, &d);
        }
        if !t.is_interrupt() {
            return;
        }
        let index = self.vcpu_of(t.hart, t.guest);
        let vcpu = self.vcpus.get_mut(index);
        let totals = &mut self.phases[self.current].totals;
        let code = vs_irq(t.code());
        if code == interrupt::VSTI {
            vcpu.timer_noticed = true;
            if vcpu.timer_taken || vcpu.timer_due > t.time {
                totals.guest_interrupts.timer_unmatched += 1;
            } else {
                vcpu.timer_taken = true;
                let waited = t.time - vcpu.timer_due;
                totals.timer_latency.record(waited);
                self.timer_taken(t, index, waited);
            }
        }
        self.guest_takes(t, index, code);
        let has_slot = self.harts[t.hart].slot.is_some();
        let vcpu = self.vcpus.get_mut(index);
        let totals = &mut self.phases[self.current].totals;
        // The line of a slot also falls without the guest, when its source has been claimed.
        let withdrawn = has_slot && code != interrupt::VSTI;
        if let Some(raised) = vcpu.raised.get_mut(code as usize) {
            let raised = std::mem::replace(raised, NEVER);
            if raised != NEVER && !withdrawn {
                let waited = t.time.saturating_sub(raised);
                totals.raised_to_taken[code as usize].record(waited);
            }
        }
    }

    /// An interrupt taken outside V=1.
    fn taken(&mut self, t: &Trap, code: usize) {
        if let Some(raised) = self.harts[t.hart].raised.get_mut(code) {
            if *raised != NEVER {
                let waited = t.time.saturating_sub(*raised);
                self.phases[self.current].totals.raised_to_taken[code].record(waited);
                *raised = NEVER;
            }
        }
    }

    /// A trap from V=0 to M-mode.
    fn firmware_trap(&mut self, t: &Trap) {
        let state = &mut self.harts[t.hart];
        let totals = &mut self.phases[self.current].totals;
        if let Some(d) = state.direct.as_mut().filter(|d| d.resumed.is_none()) {
            d.traps += 1;
            d.timer_traps += u64::from(for_timer(t));
            d.steps.push(t);
        } else if let Some(open) = &mut state.exit {
            let counts = &mut totals.exits[open.reason].counts;
            counts.firmware_traps += 1;
            counts.timer_traps += u64::from(for_timer(t));
            open.steps.push(t);
            self.charge_firmware(t.hart);
        } else {
            totals.firmware.host += 1;
            self.charge_firmware(t.hart);
        }
    }

    /// A trap from HS or U to HS-mode.
    fn host_trap(&mut self, t: &Trap) {
        if let Some(open) = &mut self.harts[t.hart].exit {
            let entry = &mut self.phases[self.current].totals.exits[open.reason];
            entry.counts.host_traps += 1;
            entry.counts.syscalls += u64::from(t.cause == exception::ECALL_U);
            open.steps.push(t);
        }
        self.charge_host(t);
    }

    fn returned(&mut self, r: &Return) {
        self.at(r.hart, r.time);
        self.retired(r.hart, r.instret);
        let totals = &mut self.phases[self.current].totals;
        totals.harts[r.hart].returns[r.from as usize][r.to as usize] += 1;
        let state = &mut self.harts[r.hart];
        state.mode = r.to;
        if r.from.v() {
            return;
        }
        if r.from == Mode::U && r.to.v() {
            state.handler = None;
            return;
        }
        if r.to == Mode::U && self.handler_resumes(r) {
            return;
        }
        if matches!(r.to, Mode::U | Mode::HS) && r.from == Mode::HS {
            self.call_returns(r.hart, r.to);
            if r.to == Mode::U {
                self.host_moved_on(r.hart);
            }
        }
        let state = &mut self.harts[r.hart];
        let direct_active = state.direct.as_ref().is_some_and(|d| d.resumed.is_none());
        if r.to.v() {
            match state.direct.as_mut() {
                Some(d) if direct_active && r.from == Mode::M => d.resumed = Some(r.pc),
                _ => self.guest_entry(r),
            }
        } else if direct_active && r.from == Mode::M && r.to.privilege() != Priv::M {
            if let Some(d) = state.direct.take() {
                // Firmware redirects the guest's trap to HS-mode: an exit by way of M-mode.
                let seen = Trap {
                    time: r.time,
                    hart: r.hart,
                    ..d.first
                };
                self.open_exit(&seen, &d.first, Some(&d));
            }
        }
    }

    pub(crate) fn guest_entry(&mut self, r: &Return) {
        let index = self.vcpu_of(r.hart, r.guest);
        let closed = self.harts[r.hart].exit.take();
        self.guest_enters(index, r.hart, r.time, closed.as_ref());
        let state = &mut self.harts[r.hart];
        let totals = &mut self.phases[self.current].totals;
        totals.harts[r.hart].counts.guest_entries += 1;
        if let Some(open) = closed {
            if r.masked {
                let counts = &mut totals.exits[open.reason].counts;
                counts.fast += 1;
                counts.fast_cycles += r.time.saturating_sub(open.since);
            }
            totals.count_chain(self.chains.number(open.reason, &open.steps));
        }
        let vcpu = self.vcpus.get_mut(index);
        vcpu.entries += 1;
        // Interrupts raised for the hart since it left V=1 are for the vCPU that it enters now.
        for code in VS_IRQS {
            let raised = std::mem::replace(&mut state.raised[code], NEVER);
            vcpu.raised[code] = vcpu.raised[code].min(raised);
        }
        if vcpu.raised[interrupt::VSTI as usize] != NEVER {
            // The host has injected the timer interrupt.
            vcpu.timer_noticed = true;
        }
    }

    fn raised(&mut self, r: &Raise) {
        if r.hart >= self.harts.len() {
            self.grow(r.hart, r.time);
        }
        let code = usize::from(r.irq);
        if code >= IRQS {
            return;
        }
        let state = &mut self.harts[r.hart];
        let slot = match state.vcpu {
            Some(index) if state.runs_guest() && VS_IRQS.contains(&code) => {
                &mut self.vcpus.get_mut(index).raised[code]
            }
            _ => &mut state.raised[code],
        };
        *slot = (*slot).min(r.time);
    }

    fn timer_set(&mut self, t: &TimerSet) {
        self.at(t.hart, t.time);
        if t.mode.v() {
            self.phases[self.current]
                .totals
                .guest_interrupts
                .timer_set_without_exit += 1;
            let index = self.vcpu_of(t.hart, t.guest);
            self.timer_programmed(index, t.time, t.deadline, false);
        }
    }

    fn timer_sets(&mut self, sets: &TimerSets) {
        let last = &sets.last;
        self.at(last.hart, sets.first);
        self.at(last.hart, last.time);
        self.phases[self.current]
            .totals
            .guest_interrupts
            .timer_set_without_exit += sets.writes;
        let index = self.vcpu_of(last.hart, last.guest);
        // All but the last deadline are superseded at once; the one before the first is handled as
        // usual.
        let others = sets.armed - u64::from(last.deadline != NEVER);
        self.timer_programmed(index, last.time, last.deadline, false);
        let timer = self.class(Class::Timer);
        timer.sent += others;
        timer.superseded += others;
    }

    fn device_access(&mut self, d: &DeviceAccess) {
        let device = self.config.devices.find(d.addr);
        let totals = &mut self.phases[self.current].totals;
        totals.devices[device][d.mode as usize][usize::from(d.write)] += 1;
    }

    fn wait(&mut self, w: &Wait) {
        self.at(w.hart, w.time);
        self.harts[w.hart].waiting = w.begin;
        if w.begin && w.mode == Mode::HS {
            self.host_moved_on(w.hart);
        }
    }
}

/// Whether it is a call that sets the timer, or a timer interrupt.
fn for_timer(trap: &Trap) -> bool {
    const MTI: u64 = INTERRUPT | interrupt::MTI;
    let call = matches!(trap.args[3], eid::TIME | eid::LEGACY_SET_TIMER);
    match trap.cause {
        MTI => true,
        exception::ECALL_S | exception::ECALL_VS => call,
        _ => false,
    }
}

/// VS-level interrupts by `mip` bit.
const VS_IRQS: [usize; 3] = [
    interrupt::VSSI as usize,
    interrupt::VSTI as usize,
    interrupt::VSEI as usize,
];

/// `mip` bit of an interrupt that VS-mode took: `vscause` holds the supervisor-level number.
fn vs_irq(code: u64) -> u64 {
    match code {
        interrupt::SSI => interrupt::VSSI,
        interrupt::STI => interrupt::VSTI,
        interrupt::SEI => interrupt::VSEI,
        other => other,
    }
}

impl Sink for Ledger {
    fn record(&mut self, event: &Event) {
        match event {
            Event::Trap(t) => self.trap(t),
            Event::Return(r) => self.returned(r),
            Event::Raise(r) => self.raised(r),
            Event::TimerSet(t) => self.timer_set(t),
            Event::DeviceAccess(d) => self.device_access(d),
            Event::Switch(s) => self.switched(s),
            Event::Virtual(s) => self.virtual_step(s),
            Event::Wait(w) => self.wait(w),
            Event::PciInterrupt(p) => self.pci_interrupt(p),
            Event::Iommu(step) => self.iommu_step(step),
        }
    }

    fn sums_timer_sets(&self) -> bool {
        true
    }

    fn timer_sets(&mut self, sets: &TimerSets) {
        Ledger::timer_sets(self, sets);
    }
}
