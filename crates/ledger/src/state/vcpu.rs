//! State of each vCPU: identity, programmed deadline, unanswered IPI.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use trapless_isa::{csr, sbi::eid};

use crate::class::{Class, Place};
use crate::events::event::{Guest, Trap};
use crate::reason::Reason;
use crate::state::handler::Handler;
use crate::state::totals::IRQS;
use crate::state::vhart::Pending;

/// Maximum number of vCPUs. If the host uses more identities, the rest is counted as one.
const VCPUS: usize = 1024;

/// Maximum number of identities of an interrupt file that are tracked.
const IDENTITIES: usize = 2048;

/// No time.
pub const NEVER: u64 = u64::MAX;

/// `KVM_INTERRUPT` calls that may be for a vCPU. They name it by a file descriptor, which is bound
/// at the first injection preceded by calls on a single one.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Signals {
    /// The descriptor, once known.
    pub fd: Option<u64>,
    /// Time of the last call since the last injection, and the state of the vCPU.
    pub last: Option<(u64, Place)>,
    /// Descriptor of that call.
    last_fd: u64,
    /// Whether there were calls with several descriptors since.
    mixed: bool,
}

impl Signals {
    fn called(&mut self, fd: u64, call: (u64, Place)) {
        self.mixed |= self.last.is_some() && self.last_fd != fd;
        self.last = Some(call);
        self.last_fd = fd;
    }

    /// The host injects the interrupt; returns the call that requested it.
    pub fn injected(&mut self) -> Option<(u64, Place)> {
        let call = self.last.take()?;
        if !std::mem::take(&mut self.mixed) {
            self.fd = Some(self.last_fd);
        }
        Some(call)
    }
}

/// Bookkeeping for a vCPU's interrupt file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FileState {
    /// Hart and number of the file that it was last entered with.
    pub file: Option<(usize, u8)>,
    /// What is pending in it.
    pub messages: BTreeMap<u16, (Class, Pending)>,
    /// External interrupts taken so far.
    pub traps: u64,
    /// When the last one was taken.
    pub last_trap: u64,
    /// The last one has not been followed by a claim yet.
    pub unclaimed: bool,
    /// Class of the last claim.
    pub last: Option<Class>,
    /// The unanswered IPI was sent by a store that made an exit.
    pub stored: bool,
}

impl FileState {
    /// Class of an exit at a CSR that stands for the vCPU's interrupt file: that of the interrupt
    /// it handles.
    pub fn csr_class(&self, reason: Reason) -> Option<Class> {
        match reason {
            Reason::Csr(csr::STOPEI | csr::SIREG | csr::SISELECT) => {
                Some(self.last.unwrap_or(Class::Device))
            }
            _ => None,
        }
    }

    /// Tracks a message that is pending now, up to a bound.
    pub fn note(&mut self, identity: u16, class: Class, pending: Pending) {
        if self.messages.len() < IDENTITIES {
            self.messages.insert(identity, (class, pending));
        }
    }
}

/// One vCPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Vcpu {
    /// Hardware identity.
    pub guest: Guest,
    /// Interrupt domain of its VM, if the controller delivers by itself.
    pub domain: Option<u16>,
    /// Hart number inside its VM, once known.
    pub vhart: Option<u64>,
    /// Exits.
    pub exits: u64,
    /// Entries.
    pub entries: u64,
    /// Time from which the timer interrupt is due: the deadline, or the moment of programming if
    /// the deadline had passed by then. [`NEVER`] if none is programmed.
    pub timer_due: u64,
    /// The deadline was programmed by SBI, so that the host has to notice when it passes.
    pub timer_by_sbi: bool,
    /// Whether the host, or the guest itself, has noticed.
    pub timer_noticed: bool,
    /// The guest has taken the interrupt of this deadline.
    pub timer_taken: bool,
    /// When the last deadline was programmed.
    pub timer_set_at: u64,
    /// A deadline is programmed that has not passed yet.
    pub timer_open: bool,
    /// State of the vCPU when it passed.
    pub timer_place: Place,
    /// When the oldest unanswered IPI was sent to it by SBI; [`NEVER`] if none.
    pub ipi_sent: u64,
    /// State of the vCPU then.
    pub ipi_place: Place,
    /// External interrupt that the host has injected.
    pub device: Option<Pending>,
    /// Hart on which it was last entered.
    pub hart: Option<usize>,
    /// Its vhart, if its hart's slot was valid at the last entry.
    pub slot: Option<usize>,
    /// The VMM's calls for it.
    pub signals: Signals,
    /// Its interrupt file (AIA).
    pub files: FileState,
    /// Handler in user mode that the host has interrupted.
    pub handler: Option<Handler>,
    /// When each interrupt became pending for it; [`NEVER`] if it is not.
    pub raised: [u64; IRQS],
}

impl Vcpu {
    fn new(guest: Guest, vhart: Option<u64>) -> Self {
        Self {
            guest,
            domain: None,
            vhart,
            exits: 0,
            entries: 0,
            timer_due: NEVER,
            timer_by_sbi: false,
            timer_noticed: true,
            timer_taken: true,
            timer_set_at: 0,
            timer_open: false,
            timer_place: Place::Unknown,
            ipi_sent: NEVER,
            ipi_place: Place::Unknown,
            device: None,
            hart: None,
            slot: None,
            signals: Signals::default(),
            files: FileState::default(),
            handler: None,
            raised: [NEVER; IRQS],
        }
    }

    /// The guest programs its timer at `now` for `deadline`.
    pub fn program_timer(&mut self, now: u64, deadline: u64, by_sbi: bool) {
        self.timer_due = if deadline == NEVER {
            NEVER
        } else {
            deadline.max(now)
        };
        self.timer_set_at = now;
        self.timer_by_sbi = by_sbi;
        self.timer_noticed = deadline == NEVER;
        self.timer_taken = deadline == NEVER;
    }

    /// Whether a deadline of this vCPU has passed that the host has to handle.
    pub fn timer_needs_host(&self, now: u64) -> bool {
        self.timer_by_sbi && !self.timer_noticed && self.timer_due <= now
    }
}

/// All vCPUs seen, in order of appearance.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Vcpus {
    list: Vec<Vcpu>,
    #[serde(serialize_with = "crate::state::sorted::serialize")]
    index: HashMap<Guest, usize>,
    /// Hart numbers that a VM has asked to start and that have not run yet, oldest first.
    #[serde(serialize_with = "crate::state::sorted::serialize")]
    starting: HashMap<u16, Vec<u64>>,
}

impl Vcpus {
    /// Index of a vCPU; a new one is added.
    ///
    /// The first vCPU of a VM to run is its boot hart, assumed to be hart 0. Every other one runs
    /// first after a vCPU of that VM called SBI hart_start, which names its number.
    pub fn find(&mut self, guest: Guest) -> usize {
        if let Some(index) = self.index.get(&guest) {
            return *index;
        }
        if self.list.len() >= VCPUS {
            return VCPUS - 1;
        }
        let first = !self.list.iter().any(|v| v.guest.vmid == guest.vmid);
        let vhart = if first {
            Some(0)
        } else {
            let queue = self.starting.entry(guest.vmid).or_default();
            if queue.is_empty() {
                None
            } else {
                Some(queue.remove(0))
            }
        };
        let index = self.list.len();
        self.list.push(Vcpu::new(guest, vhart));
        self.index.insert(guest, index);
        index
    }

    /// The vCPU of a guest context that has been seen before.
    pub fn known(&self, guest: Guest) -> Option<usize> {
        self.index.get(&guest).copied()
    }

    /// Records SBI hart_start calls, which have the numbers of vCPUs that will start.
    pub fn note_ecall(&mut self, trap: &Trap) {
        let [hart, _, function, extension] = trap.args;
        if extension != eid::HSM || function != 0 {
            return;
        }
        let vmid = trap.guest.vmid;
        let known = self
            .list
            .iter()
            .any(|v| v.guest.vmid == vmid && v.vhart == Some(hart));
        let queue = self.starting.entry(vmid).or_default();
        // Bounded, and a repeated call names the same vCPU.
        if !known && !queue.contains(&hart) && queue.len() < 64 {
            queue.push(hart);
        }
    }

    /// The vCPU at `index`.
    pub fn get(&self, index: usize) -> &Vcpu {
        &self.list[index]
    }

    /// The vCPU at `index`.
    pub fn get_mut(&mut self, index: usize) -> &mut Vcpu {
        &mut self.list[index]
    }

    /// Applies `act` to every vCPU that an SBI hart mask names; gives the number of vCPUs named and
    /// the number of those not known.
    pub fn for_targets(
        &mut self,
        vmid: u16,
        mask: u64,
        base: u64,
        mut act: impl FnMut(usize, &mut Vcpu),
    ) -> (u64, u64) {
        let all = base == u64::MAX;
        let mut known = 0;
        let list = self.list.iter_mut().enumerate();
        for (index, vcpu) in list.filter(|(_, v)| v.guest.vmid == vmid) {
            let bit = vcpu
                .vhart
                .and_then(|n| n.checked_sub(base))
                .filter(|b| *b < 64);
            if all || bit.is_some_and(|b| mask >> b & 1 == 1) {
                known += 1;
                act(index, vcpu);
            }
        }
        let named = if all {
            known
        } else {
            u64::from(mask.count_ones())
        };
        (named, named.saturating_sub(known))
    }

    /// The VMM calls `KVM_INTERRUPT` with descriptor `fd`; `now` gives time and state of a vCPU.
    pub fn signal(&mut self, fd: u64, now: impl Fn(usize, &Vcpu) -> (u64, Place)) {
        let owners = self.list.iter().filter(|v| v.signals.fd == Some(fd));
        let owned: Vec<u16> = owners.map(|v| v.guest.vmid).collect();
        for index in 0..self.list.len() {
            let vcpu = &self.list[index];
            let mine = match vcpu.signals.fd {
                Some(known) => known == fd,
                // The descriptor is that of another vCPU of the same VM.
                None => !owned.contains(&vcpu.guest.vmid),
            };
            if mine {
                let call = now(index, vcpu);
                self.list[index].signals.called(fd, call);
            }
        }
    }

    /// Whether each is found by its guest context.
    pub fn are_sound(&self) -> bool {
        let place = |(index, vcpu): (usize, &Vcpu)| self.known(vcpu.guest) == Some(index);
        self.list.len() <= VCPUS
            && self.index.len() == self.list.len()
            && self.list.iter().enumerate().all(place)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Vcpu> {
        self.list.iter()
    }
}
