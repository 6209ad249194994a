//! Interrupt classes: what is counted for each, in memory and in the file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trapless_isa::cause::interrupt;
use trapless_isa::{csr, xtrapless};

use crate::config::DeviceMap;
use crate::histogram::{Histogram, Latency};
use crate::reason::Reason;

/// Kind of a guest's interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// The guest's timer.
    Timer,
    /// Software interrupts between vCPUs.
    Ipi,
    /// External interrupts: devices of the guest.
    Device,
}

impl Class {
    /// All of them, in index order.
    pub const ALL: [Self; 3] = [Self::Timer, Self::Ipi, Self::Device];

    /// Name in ledgers.
    pub fn name(self) -> &'static str {
        ["timer", "ipi", "device"][self as usize]
    }

    /// Class of an interrupt by its bit in `mip` or its code in `xcause`; both levels of a kind
    /// (SSI and VSSI) are one class.
    pub fn of_irq(code: u64) -> Option<Self> {
        match code {
            interrupt::STI | interrupt::VSTI => Some(Self::Timer),
            interrupt::SSI | interrupt::VSSI => Some(Self::Ipi),
            interrupt::SEI | interrupt::VSEI => Some(Self::Device),
            _ => None,
        }
    }

    /// Class to which an exit belongs by its reason alone. Kicks ([`Reason::IpiReceive`]) are told
    /// by what the host injects before the next entry, not by this.
    pub fn of_reason(reason: Reason, guest_devices: &DeviceMap) -> Option<Self> {
        match reason {
            Reason::TimerSet | Reason::TimerFire | Reason::Csr(csr::STIMECMP) => Some(Self::Timer),
            Reason::IpiSend | Reason::Csr(xtrapless::csr::SGENIPI) => Some(Self::Ipi),
            Reason::Csr(
                xtrapless::csr::VSCLAIM | xtrapless::csr::VSENABLE | xtrapless::csr::VSTHRESHOLD,
            ) => Some(Self::Device),
            Reason::Mmio(device, _) => match guest_devices.name(device) {
                "plic" | "aplic" => Some(Self::Device),
                "imsic" => Some(Self::Ipi),
                _ => None,
            },
            Reason::VsLevel(code) => Self::of_irq(u64::from(code)),
            _ => None,
        }
    }
}

/// Where the vCPU was when an interrupt for it arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// On a hart with V=1.
    Running,
    /// Loaded on a hart with V=0: the host handles an exit.
    Paused,
    /// On no hart: preempted, blocked, or `KVM_RUN` has returned.
    ScheduledOff,
    /// Not told by the events.
    Unknown,
}

impl State {
    /// All of them, in index order.
    pub const ALL: [Self; 4] = [
        Self::Running,
        Self::Paused,
        Self::ScheduledOff,
        Self::Unknown,
    ];

    /// Name in ledgers.
    pub fn name(self) -> &'static str {
        ["running", "paused", "scheduled_off", "unknown"][self as usize]
    }
}

/// [`State`] with what slots tell of a vCPU that is scheduled off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// [`State::Running`].
    Running,
    /// [`State::Paused`].
    Paused,
    /// [`State::ScheduledOff`], and nothing is known beyond that.
    #[default]
    Off,
    /// [`State::Unknown`].
    Unknown,
    /// [`State::ScheduledOff`]: `KVM_RUN` has returned, or it has never run.
    Stopped,
    /// [`State::ScheduledOff`]: its thread waits for a processor.
    Preempted,
    /// [`State::ScheduledOff`]: it waits for an interrupt.
    Halted,
}

/// Number of [`Place`]s.
const PLACES: usize = 7;

impl Place {
    /// Those that slots tell apart.
    const LEFT: [(Self, &'static str); 3] = [
        (Self::Stopped, "stopped"),
        (Self::Preempted, "preempted"),
        (Self::Halted, "halted"),
    ];

    /// Where a vCPU is that was detached with this `hifmap.STATE`.
    pub fn left_in(state: u8) -> Self {
        match u64::from(state) {
            xtrapless::state::STOPPED => Self::Stopped,
            xtrapless::state::PREEMPTED => Self::Preempted,
            xtrapless::state::HALTED => Self::Halted,
            _ => Self::Off,
        }
    }

    /// The state.
    pub fn state(self) -> State {
        match self {
            Self::Running => State::Running,
            Self::Paused => State::Paused,
            Self::Unknown => State::Unknown,
            _ => State::ScheduledOff,
        }
    }

    /// Name of what slots tell of a vCPU that is scheduled off.
    pub fn left(self) -> Option<&'static str> {
        Self::LEFT.iter().find(|(p, _)| *p == self).map(|(_, n)| *n)
    }

    /// All places that are `state`.
    fn of(state: State) -> &'static [Self] {
        match state {
            State::Running => &[Self::Running],
            State::Paused => &[Self::Paused],
            State::ScheduledOff => &[Self::Off, Self::Stopped, Self::Preempted, Self::Halted],
            State::Unknown => &[Self::Unknown],
        }
    }
}

/// Counters of one class. Meaning of the fields: [`InterruptClass`].
#[derive(Clone, Debug, Default)]
pub struct ClassTotals {
    pub(crate) sent: u64,
    /// By [`Place`].
    pub(crate) arrived: [u64; PLACES],
    pub(crate) coalesced: u64,
    pub(crate) superseded: u64,
    pub(crate) taken: u64,
    pub(crate) exits: u64,
    pub(crate) firmware_traps: u64,
    pub(crate) host_traps: u64,
    pub(crate) syscalls: u64,
    pub(crate) host_interrupts: u64,
    pub(crate) claims: u64,
    pub(crate) empty_claims: u64,
    pub(crate) completions: u64,
    pub(crate) repended: u64,
    pub(crate) lowered: u64,
    pub(crate) withdrawn: u64,
    pub(crate) acknowledgements: u64,
    pub(crate) memory_words: u64,
    /// By [`Place`].
    pub(crate) latency: [Histogram; PLACES],
}

impl ClassTotals {
    pub(crate) fn merge(&mut self, other: &Self) {
        let pairs = [
            (&mut self.sent, other.sent),
            (&mut self.coalesced, other.coalesced),
            (&mut self.superseded, other.superseded),
            (&mut self.taken, other.taken),
            (&mut self.exits, other.exits),
            (&mut self.firmware_traps, other.firmware_traps),
            (&mut self.host_traps, other.host_traps),
            (&mut self.syscalls, other.syscalls),
            (&mut self.host_interrupts, other.host_interrupts),
            (&mut self.claims, other.claims),
            (&mut self.empty_claims, other.empty_claims),
            (&mut self.completions, other.completions),
            (&mut self.repended, other.repended),
            (&mut self.lowered, other.lowered),
            (&mut self.withdrawn, other.withdrawn),
            (&mut self.acknowledgements, other.acknowledgements),
            (&mut self.memory_words, other.memory_words),
        ];
        pairs.into_iter().for_each(|(mine, n)| *mine += n);
        for (mine, n) in self.arrived.iter_mut().zip(other.arrived) {
            *mine += n;
        }
        for (mine, theirs) in self.latency.iter_mut().zip(&other.latency) {
            mine.merge(theirs);
        }
    }

    pub(crate) fn summary(&self) -> InterruptClass {
        let arrived = State::ALL.map(|state| {
            let places = Place::of(state).iter();
            let sum = places.map(|p| self.arrived[*p as usize]).sum();
            (state.name().to_string(), sum)
        });
        let measured = State::ALL.into_iter().filter_map(|state| {
            let mut all = Histogram::default();
            let places = Place::of(state).iter();
            places.for_each(|p| all.merge(&self.latency[*p as usize]));
            (all.count() != 0).then(|| (state.name().to_string(), all.summary()))
        });
        let left = Place::LEFT.iter().filter_map(|(place, name)| {
            let arrived = self.arrived[*place as usize];
            let histogram = &self.latency[*place as usize];
            let latency = (histogram.count() != 0).then(|| histogram.summary());
            let left = Left { arrived, latency };
            (left != Left::default()).then(|| ((*name).to_string(), left))
        });
        InterruptClass {
            sent: self.sent,
            arrived: arrived.into(),
            left: left.collect(),
            coalesced: self.coalesced,
            superseded: self.superseded,
            taken: self.taken,
            exits: self.exits,
            firmware_traps: self.firmware_traps,
            host_traps: self.host_traps,
            syscalls: self.syscalls,
            host_interrupts: self.host_interrupts,
            claims: self.claims,
            empty_claims: self.empty_claims,
            completions: self.completions,
            repended: self.repended,
            lowered: self.lowered,
            withdrawn: self.withdrawn,
            acknowledgements: self.acknowledgements,
            memory_words: self.memory_words,
            latency: measured.collect(),
        }
    }
}

/// One class of guest interrupts. Rules: `docs/ledger.md`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InterruptClass {
    /// Timer: deadlines programmed. IPI: vCPUs named by sends. Device: interrupts made pending.
    pub sent: u64,
    /// Arrivals by what the vCPU was doing: `running`, `paused`, `scheduled_off`, `unknown`.
    pub arrived: BTreeMap<String, u64>,
    /// Arrivals at vCPUs that are scheduled off by how they were left, where slots tell: `stopped`,
    /// `preempted`, `halted`.
    pub left: BTreeMap<String, Left>,
    /// Sent while the same one was pending already.
    pub coalesced: u64,
    /// Timer: programmed anew or stopped before the deadline.
    pub superseded: u64,
    /// Traps to VS-mode.
    pub taken: u64,
    /// Exits.
    pub exits: u64,
    /// M-mode traps charged to those exits, or taken on behalf of a call that signals one.
    pub firmware_traps: u64,
    /// HS-mode traps from HS and U charged to those exits.
    pub host_traps: u64,
    /// System calls charged to those exits, and others that signal an interrupt of the class.
    pub syscalls: u64,
    /// VS-level interrupts that the host took at V=0.
    pub host_interrupts: u64,
    /// Device: reads of the claim register, those that found nothing included.
    pub claims: u64,
    /// Device: those that found nothing, where that can be seen (claims without a trap).
    pub empty_claims: u64,
    /// Device: completions.
    pub completions: u64,
    /// Device: those after which the source was pending again. Part of `sent`.
    pub repended: u64,
    /// Device: times that a source's line was driven low.
    pub lowered: u64,
    /// Device: those that withdrew what was pending and not claimed.
    pub withdrawn: u64,
    /// Device: exits at the interrupt registers of virtio devices. Not part of `exits`.
    pub acknowledgements: u64,
    /// Words of memory that the interrupt controller read and wrote.
    pub memory_words: u64,
    /// From sent to the trap in the guest, by what the vCPU was doing at the arrival.
    pub latency: BTreeMap<String, Latency>,
}

/// Arrivals at vCPUs that were left in one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Arrivals.
    pub arrived: u64,
    /// From sent to the trap in the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

impl InterruptClass {
    /// Arrivals in `state`.
    pub fn arrived_in(&self, state: State) -> u64 {
        self.arrived.get(state.name()).copied().unwrap_or(0)
    }
}

/// Names of notification kinds, by `hnotify.KIND`.
pub const KINDS: [&str; 4] = ["other", "wake", "yield", "resample"];

/// Name of a notification kind.
pub fn kind_name(kind: u8) -> &'static str {
    KINDS.get(usize::from(kind)).copied().unwrap_or(KINDS[0])
}

fn kind_index(kind: u8) -> usize {
    if usize::from(kind) < KINDS.len() {
        usize::from(kind)
    } else {
        0
    }
}

/// Counters of notifications and slots. Meaning of the fields: [`Notifications`], [`Slots`].
#[derive(Clone, Debug, Default)]
pub struct HostTotals {
    queued: [u64; 4],
    fetched: [u64; 4],
    latency: [Histogram; 4],
    pub(crate) silent: u64,
    pub(crate) overflows: u64,
    pub(crate) host_interrupts: u64,
    pub(crate) memory_words: u64,
    pub(crate) attached: u64,
    detached: [u64; 4],
    pub(crate) slot_memory_words: u64,
    pub(crate) ipis: u64,
}

impl HostTotals {
    pub(crate) fn queue(&mut self, kind: u8) {
        self.queued[kind_index(kind)] += 1;
    }

    pub(crate) fn fetch(&mut self, kind: u8, waited: Option<u64>) {
        self.fetched[kind_index(kind)] += 1;
        if let Some(waited) = waited {
            self.latency[kind_index(kind)].record(waited);
        }
    }

    pub(crate) fn detach(&mut self, state: u8) {
        self.detached[usize::from(state & 3)] += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for i in 0..4 {
            self.queued[i] += other.queued[i];
            self.fetched[i] += other.fetched[i];
            self.detached[i] += other.detached[i];
            self.latency[i].merge(&other.latency[i]);
        }
        self.silent += other.silent;
        self.overflows += other.overflows;
        self.host_interrupts += other.host_interrupts;
        self.memory_words += other.memory_words;
        self.attached += other.attached;
        self.slot_memory_words += other.slot_memory_words;
        self.ipis += other.ipis;
    }

    /// Notifications; `exits` are those of reason `notification`.
    pub(crate) fn notifications(&self, exits: u64) -> Notifications {
        let kinds = (0..KINDS.len()).filter(|i| self.queued[*i] + self.fetched[*i] != 0);
        let kind = |i: usize| {
            let kind = NotificationKind {
                queued: self.queued[i],
                fetched: self.fetched[i],
                latency: (self.latency[i].count() != 0).then(|| self.latency[i].summary()),
            };
            (KINDS[i].to_string(), kind)
        };
        Notifications {
            kinds: kinds.map(kind).collect(),
            silent: self.silent,
            overflows: self.overflows,
            exits,
            host_interrupts: self.host_interrupts,
            memory_words: self.memory_words,
        }
    }

    pub(crate) fn slots(&self) -> Slots {
        let states = [
            (xtrapless::state::STOPPED, "stopped"),
            (xtrapless::state::PREEMPTED, "preempted"),
            (xtrapless::state::HALTED, "halted"),
        ];
        let detached =
            states.map(|(state, name)| (name.to_string(), self.detached[state as usize]));
        Slots {
            attached: self.attached,
            detached: detached.into(),
            memory_words: self.slot_memory_words,
        }
    }
}

/// Notifications of the interrupt controller to the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notifications {
    /// By kind: `wake`, `yield`, `resample`.
    pub kinds: BTreeMap<String, NotificationKind>,
    /// Posts for a vCPU on no hart that told nobody: one was outstanding, or the state wants none.
    pub silent: u64,
    /// Notifications dropped because a queue was full.
    pub overflows: u64,
    /// Exits that notification interrupts caused.
    pub exits: u64,
    /// Notification interrupts that the host took at V=0.
    pub host_interrupts: u64,
    /// Words of memory that reading the queues and evaluating without a post touched.
    pub memory_words: u64,
}

impl Notifications {
    /// Queued, all kinds.
    pub fn queued(&self) -> u64 {
        self.kinds.values().map(|k| k.queued).sum()
    }
}

/// Notifications of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationKind {
    /// Put into a queue.
    pub queued: u64,
    /// Taken from a queue by the host.
    pub fetched: u64,
    /// From queued to taken from the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

/// What the host does with the slots of harts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slots {
    /// A slot became valid.
    pub attached: u64,
    /// A slot became invalid, by the state the vCPU was left in.
    pub detached: BTreeMap<String, u64>,
    /// Words of memory touched by it.
    pub memory_words: u64,
}
