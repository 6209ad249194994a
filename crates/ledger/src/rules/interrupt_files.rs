//! Rules for interrupt files (AIA): their owners, and the meaning of messages to them.
//!
//! `docs/ledger.md`, section "Interrupt files", states them; `tests/interrupt_files.rs` tests each.

use crate::class::{Class, Place};
use crate::document::GuestFileCounts;
use crate::events::event::{Trap, VirtualStep};
use crate::ledger::Ledger;
use crate::state::hart::place_of;
use crate::state::vcpu::{NEVER, Vcpu};
use crate::state::vhart::Pending;

/// Maximum number of files that are tracked.
const FILES: usize = 64 * 64;
/// Distance of the files of a guest's vCPUs in its physical address space.
const GUEST_STRIDE: u64 = 0x1000;

impl Ledger {
    fn files(&mut self) -> &mut GuestFileCounts {
        &mut self.phases[self.current].totals.files
    }

    /// `hart` is about to enter a guest with `file`.
    pub(crate) fn file_selected(&mut self, hart: usize, file: u8) {
        self.harts[hart].file = Some(file);
    }

    /// vCPU `index` is entered on `hart`. Returns whether it has a file.
    pub(crate) fn enters_with_file(&mut self, index: usize, hart: usize) -> bool {
        let Some(number) = self.harts[hart].file else {
            return false;
        };
        let file = (number != 0).then_some((hart, number));
        let before = self.vcpus.get_mut(index).files.file;
        if before != file {
            self.vcpus.get_mut(index).files.file = file;
            match (before, file) {
                (None, _) => self.files().assigned += 1,
                (Some(_), Some(_)) => self.files().moved += 1,
                (Some(_), None) => self.files().evicted += 1,
            }
        }
        if let Some(file) = file {
            if self.file_owners.len() < FILES || self.file_owners.contains_key(&file) {
                self.file_owners.insert(file, index);
            }
        }
        file.is_some()
    }

    /// A store sent a message to a file.
    pub(crate) fn message(
        &mut self,
        s: &VirtualStep,
        on: usize,
        file: u8,
        identity: u16,
        merged: bool,
    ) {
        if file == 0 {
            if !s.mode.v() {
                self.phases[self.current].totals.counts.host_ipis += 1;
                if let Some(hart) = self.harts.get_mut(on) {
                    hart.host_ipi = Some(identity);
                }
            }
            return;
        }
        let target = self.file_owners.get(&(on, file)).copied();
        let sent_by_exit = !s.mode.v() && self.open_class(s.hart) == Some(Class::Ipi);
        if s.mode.v() {
            self.files().direct_messages += 1;
        } else {
            self.files().host_messages += 1;
        }
        if sent_by_exit {
            // The exit has been counted as the IPI; from here on it is tracked by the file.
            if let Some(index) = target {
                let vcpu = self.vcpus.get_mut(index);
                if std::mem::take(&mut vcpu.files.stored) {
                    let time = std::mem::replace(&mut vcpu.ipi_sent, NEVER);
                    let place = vcpu.ipi_place;
                    let pending = pending(vcpu, time, place);
                    vcpu.files.note(identity, Class::Ipi, pending);
                }
            }
            return;
        }
        let class = if s.mode.v() {
            Class::Ipi
        } else {
            Class::Device
        };
        if class == Class::Device {
            self.signalled(s.hart, class);
        }
        self.class(class).sent += 1;
        if merged {
            self.class(class).coalesced += 1;
            return;
        }
        let place = match target {
            Some(index) => place_of(&self.harts, &self.vharts, index, self.vcpus.get(index)),
            None => Place::Unknown,
        };
        self.arrival(class, place);
        if let Some(index) = target {
            let vcpu = self.vcpus.get_mut(index);
            let pending = pending(vcpu, s.time, place);
            vcpu.files.note(identity, class, pending);
        }
    }

    /// Class of the exit that the host handles on `hart`.
    fn open_class(&self, hart: usize) -> Option<Class> {
        self.harts[hart].exit.as_ref().and_then(|open| open.class)
    }

    /// A hart claimed from one of its files.
    pub(crate) fn file_claimed(&mut self, s: &VirtualStep, file: u8, identity: u16) {
        if file == 0 {
            let host_ipi = &mut self.harts[s.hart].host_ipi;
            if *host_ipi == Some(identity) {
                *host_ipi = None;
            }
            return;
        }
        let Some(&index) = self.file_owners.get(&(s.hart, file)) else {
            return;
        };
        let files = &mut self.vcpus.get_mut(index).files;
        let found = files.messages.remove(&identity);
        let unclaimed = std::mem::take(&mut files.unclaimed);
        let class = found.map(|(class, _)| class).or(files.last);
        let class = class.unwrap_or(Class::Device);
        if identity != 0 {
            files.last = Some(class);
        }
        let (traps, last_trap) = (files.traps, files.last_trap);
        let totals = self.class(class);
        totals.taken += u64::from(unclaimed);
        totals.claims += 1;
        totals.empty_claims += u64::from(identity == 0);
        let Some((class, pending)) = found else {
            return;
        };
        // A running handler takes it without another trap.
        let taken = if traps > pending.traps {
            last_trap
        } else {
            s.time
        };
        self.answer(class, pending, taken, s.hart);
    }

    /// vCPU `index` takes an external interrupt at `time`. Returns its class, if the claim will not
    /// determine it.
    pub(crate) fn external_taken(&mut self, index: usize, time: u64) -> Option<Class> {
        let vcpu = self.vcpus.get_mut(index);
        if vcpu.files.file.is_none() {
            let class = if vcpu.files.stored {
                Class::Ipi
            } else {
                Class::Device
            };
            vcpu.files.stored = false;
            vcpu.files.last = Some(class);
            return Some(class);
        }
        let files = &mut vcpu.files;
        files.traps += 1;
        files.last_trap = time;
        // There was no claim after the previous one.
        let spurious = std::mem::replace(&mut files.unclaimed, true);
        self.class(Class::Device).taken += u64::from(spurious);
        None
    }

    /// A guest's store to the page of another vCPU's file made an exit.
    pub(crate) fn ipi_stored(&mut self, trap: &Trap, sender: usize, base: u64) {
        let number = trap.gpa.wrapping_sub(base) / GUEST_STRIDE;
        let (harts, vharts) = (&self.harts, &self.vharts);
        let class = &mut self.phases[self.current].totals.classes[Class::Ipi as usize];
        class.counts.sent += 1;
        let (_, unknown) = self
            .vcpus
            .for_targets(trap.guest.vmid, 1, number, |index, vcpu| {
                if vcpu.ipi_sent != NEVER {
                    class.counts.coalesced += 1;
                    return;
                }
                vcpu.ipi_sent = trap.time;
                vcpu.files.stored = true;
                vcpu.ipi_place = if index == sender {
                    Place::Paused
                } else {
                    place_of(harts, vharts, index, vcpu)
                };
                class.arrived[vcpu.ipi_place as usize] += 1;
            });
        class.arrived[Place::Unknown as usize] += unknown;
    }
}

pub(super) fn pending(vcpu: &Vcpu, time: u64, place: Place) -> Pending {
    Pending {
        time,
        place,
        traps: vcpu.files.traps,
    }
}
