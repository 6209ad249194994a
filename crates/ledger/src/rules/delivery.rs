//! Rules by which interrupts are counted per class: sent, arrived, taken, and their cost.
//!
//! `docs/ledger.md`, section "Interrupt classes", states them; `tests/classes.rs` tests each.

use trapless_isa::cause::interrupt;

use crate::class::{Class, Place};
use crate::events::event::Trap;
use crate::ledger::{Answered, Ledger};
use crate::reason::Reason;
use crate::state::hart::{OpenExit, place_of};
use crate::state::vcpu::NEVER;
use crate::state::vhart::Pending;

impl Ledger {
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
                // Not the number of bits: vCPUs of an old VM can share number and VMID with new
                // ones.
                class.counts.sent += 1;
                if vcpu.ipi_sent != NEVER {
                    coalesced += 1;
                    return;
                }
                vcpu.ipi_sent = trap.time;
                // The call itself has taken the sender out of V=1.
                vcpu.ipi_place = if index == sender {
                    Place::Paused
                } else {
                    place_of(harts, vharts, index, vcpu)
                };
                class.arrived[vcpu.ipi_place as usize] += 1;
            });
        class.counts.sent += unknown;
        class.counts.coalesced += coalesced;
        class.arrived[Place::Unknown as usize] += unknown;
        totals.guest_interrupts.ipi_targets += named;
        totals.guest_interrupts.ipi_unmatched += unknown;
        totals.guest_interrupts.ipi_coalesced += coalesced;
    }

    /// A trap to VS-mode with interrupt `code` (VS-level numbering).
    pub(crate) fn guest_takes(&mut self, t: &Trap, index: usize, code: u64) {
        let Some(mut class) = Class::of_irq(code) else {
            return;
        };
        if class == Class::Device && self.harts[t.hart].file.is_some() {
            match self.external_taken(index, t.time) {
                Some(known) => class = known,
                None => return,
            }
        }
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
                let (place, traps) = (vcpu.ipi_place, 0);
                posted.or(Some(Pending { time, place, traps }))
            }
            Class::Device => vcpu.device.take(),
            _ => posted,
        };
        let Some(p) = pending else { return };
        self.answer(class, p, t.time, t.hart);
    }

    /// The guest takes the interrupt of its deadline after `waited` cycles.
    pub(crate) fn timer_taken(&mut self, t: &Trap, index: usize, waited: u64) {
        let vcpu = self.vcpus.get_mut(index);
        if std::mem::replace(&mut vcpu.timer_open, false) {
            // No event of its hart came in between.
            vcpu.timer_place = Place::Running;
            self.arrival(Class::Timer, Place::Running);
        }
        let vcpu = self.vcpus.get_mut(index);
        let (place, sent, arrived) = (vcpu.timer_place, vcpu.timer_set_at, vcpu.timer_due);
        self.totals().classes[Class::Timer as usize].latency[place as usize].record(waited);
        self.answered = Some(Answered {
            class: Class::Timer,
            state: place.state(),
            left: place.left(),
            sent,
            arrived,
            taken: t.time,
            hart: t.hart,
        });
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
        // Interrupts that the controller delivers need no injection.
        let own_sources = slot.is_some_and(|s| !self.vharts.get(s).sources.is_empty());
        let own_file = self.enters_with_file(index, hart);
        // An IPI that a store sent is injected in the same way.
        let stored = self.vcpus.get_mut(index).files.stored;
        let mut device = injected(interrupt::VSEI) && !own_sources && !own_file && !stored;
        if device {
            let vcpu = self.vcpus.get_mut(index);
            // Loading a vCPU raises its unhandled interrupts again: these are not new.
            let fresh = vcpu.signals.fd.is_none() || vcpu.signals.last.is_some();
            device = fresh && vcpu.device.is_none();
            if device {
                let unknown = (raised[interrupt::VSEI as usize], Place::Unknown);
                let (time, place) = vcpu.signals.injected().unwrap_or(unknown);
                let traps = 0;
                vcpu.device = Some(Pending { time, place, traps });
                self.class(Class::Device).sent += 1;
                self.arrival(Class::Device, place);
            }
        }
        let kick = closed.filter(|o| Reason::from_index(o.reason) == Reason::IpiReceive);
        let class = if injected(interrupt::VSSI) && slot.is_none()
            || injected(interrupt::VSEI) && stored && !own_file
        {
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

    /// Another vCPU, or none, is loaded on `hart` from `now` on.
    pub(crate) fn load(&mut self, index: Option<usize>, hart: usize, now: u64) {
        if self.harts[hart].loaded == index {
            return;
        }
        self.harts[hart].loaded = index;
        let Some(index) = index else { return };
        let vcpu = self.vcpus.get_mut(index);
        vcpu.hart = Some(hart);
        if vcpu.timer_open && vcpu.timer_due <= now {
            let place = match vcpu.slot {
                Some(slot) => self.vharts.get(slot).left,
                None => Place::Off,
            };
            vcpu.timer_open = false;
            vcpu.timer_place = place;
            self.arrival(Class::Timer, place);
        }
    }
}
