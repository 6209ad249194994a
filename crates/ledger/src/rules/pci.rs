//! Rules for interrupts of PCI devices.
//!
//! `docs/ledger.md`, section "PCI", states them; `tests/pci.rs` tests each.

use crate::class::{Class, Place};
use crate::events::event::{IommuAct, IommuStep, PciInterrupt, PciWay};
use crate::ledger::Ledger;
use crate::rules::interrupt_files::pending;
use crate::state::hart::place_of;

impl Ledger {
    /// A device interrupts. No hart causes it, so nothing is charged to one.
    pub(crate) fn pci_interrupt(&mut self, p: &PciInterrupt) {
        let totals = &mut self.phases[self.current].totals;
        let (pci, functions) = (&mut totals.pci, &mut totals.pci_functions);
        match p.way {
            PciWay::Intx { .. } => pci.intx += 1,
            PciWay::Lost { device, .. } => {
                pci.lost += 1;
                functions.entry(device).or_default().lost += 1;
            }
            // What a message posts, the steps of the controller say.
            PciWay::Window { merged, .. } => {
                pci.window_messages += 1;
                pci.window_merged += u64::from(merged);
            }
            PciWay::Dropped { .. } => pci.window_dropped += 1,
            PciWay::Message {
                device,
                file,
                identity,
                merged,
            } => {
                let function = functions.entry(device).or_default();
                for (counter, more) in [
                    (&mut pci.messages, true),
                    (&mut function.messages, true),
                    (&mut pci.merged, merged),
                    (&mut function.merged, merged),
                    (&mut pci.guest_messages, file != 0),
                    (&mut function.guest_messages, file != 0),
                ] {
                    *counter += u64::from(more);
                }
                if file != 0 {
                    self.device_message(p.time, (p.hart, file), identity, merged);
                }
            }
        }
    }

    /// The IOMMU does something. The time of the hart that asked for it is in its exits already.
    pub(crate) fn iommu_step(&mut self, step: &IommuStep) {
        let pci = &mut self.phases[self.current].totals.pci;
        *match step.act {
            IommuAct::InvalidatedTables => &mut pci.iommu_invalidations,
            IommuAct::InvalidatedDirectory => &mut pci.iommu_directory_invalidations,
            IommuAct::Fenced => &mut pci.iommu_fences,
            IommuAct::Stored { .. } => &mut pci.memory_messages,
            IommuAct::Refused { .. } => &mut pci.iommu_faults,
        } += 1;
    }

    /// A message of a device reaches a guest interrupt file: an interrupt of class device.
    fn device_message(&mut self, time: u64, file: (usize, u8), identity: u32, merged: bool) {
        self.class(Class::Device).sent += 1;
        if merged {
            self.class(Class::Device).coalesced += 1;
            return;
        }
        let target = self.file_owners.get(&file).copied();
        let place = match target {
            Some(index) => place_of(&self.harts, &self.vharts, index, self.vcpus.get(index)),
            None => Place::Unknown,
        };
        self.arrival(Class::Device, place);
        if let (Some(index), Ok(identity)) = (target, u16::try_from(identity)) {
            let vcpu = self.vcpus.get_mut(index);
            let pending = pending(vcpu, time, place);
            vcpu.files.note(identity, Class::Device, pending);
        }
    }
}
