//! Interrupt classes, and where a vCPU is when an interrupt for it arrives.

use serde::{Deserialize, Serialize};
use trapless_isa::cause::interrupt;
use trapless_isa::port::{LEFT, NOTIFICATIONS};
use trapless_isa::{csr, xtrapless};

use crate::config::DeviceMap;
use crate::names::names;
use crate::reason::Reason;
use crate::reason_key::ExitReason;

names! {
    /// Kind of a guest's interrupt.
    pub enum Class("class of interrupts") {
        /// The guest's timer.
        Timer = "timer",
        /// Software interrupts between vCPUs.
        Ipi = "ipi",
        /// External interrupts: devices of the guest.
        Device = "device",
    }
}

names! {
    /// Where the vCPU was when an interrupt for it arrived.
    pub enum State("state of a vCPU") {
        /// On a hart with V=1.
        Running = "running",
        /// Loaded on a hart with V=0: the host handles an exit.
        Paused = "paused",
        /// On no hart: preempted, blocked, or `KVM_RUN` has returned.
        ScheduledOff = "scheduled_off",
        /// Cannot be derived from the events.
        Unknown = "unknown",
    }
}

names! {
    /// State in which a vCPU was detached (`hifmap.STATE`).
    pub enum Left("state of a slot") {
        /// `KVM_RUN` has returned, or it has never run.
        Stopped = LEFT[0],
        /// Its thread waits for a processor.
        Preempted = LEFT[1],
        /// It waits for an interrupt.
        Halted = LEFT[2],
    }
}

names! {
    /// Kind of a notification (`hnotify.KIND`).
    pub enum NotificationKind("kind of notifications") {
        /// A source of the host is pending (message windows); or any other value.
        Source = NOTIFICATIONS[0],
        /// A vCPU that is halted has an interrupt.
        Wake = NOTIFICATIONS[1],
        /// A vCPU that is preempted has an interrupt.
        Yield = NOTIFICATIONS[2],
        /// The guest has completed a level-triggered interrupt.
        Resample = NOTIFICATIONS[3],
    }
}

impl Class {
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

    /// Class to which an exit belongs by its reason alone. The class of kicks
    /// ([`Reason::IpiReceive`]) follows from what the host injects before the next entry.
    pub fn of_reason(reason: Reason, guest_devices: &DeviceMap) -> Option<Self> {
        match reason {
            Reason::Csr(csr) => CSRS
                .iter()
                .find(|(c, _)| *c == csr)
                .map(|(_, class)| *class),
            Reason::Mmio(device, _) => Self::of_device(guest_devices.name(device)),
            reason => Self::of_fixed(reason),
        }
    }

    /// The same for a reason by its name in ledgers.
    pub fn of_exit(reason: &ExitReason) -> Option<Self> {
        match reason {
            ExitReason::Fixed(reason) => Self::of_fixed(*reason),
            ExitReason::Mmio { device, .. } => Self::of_device(device),
            ExitReason::Csr(name) => CSRS
                .iter()
                .find(|(c, _)| csr::name(*c) == *name)
                .map(|(_, class)| *class),
            ExitReason::SbiOther(_) | ExitReason::Other(_) => None,
        }
    }

    fn of_fixed(reason: Reason) -> Option<Self> {
        match reason {
            Reason::TimerSet | Reason::TimerFire => Some(Self::Timer),
            Reason::IpiSend => Some(Self::Ipi),
            Reason::VsLevel(code) => Self::of_irq(u64::from(code)),
            _ => None,
        }
    }

    fn of_device(name: &str) -> Option<Self> {
        match name {
            "plic" | "aplic" => Some(Self::Device),
            "imsic" => Some(Self::Ipi),
            _ => None,
        }
    }
}

/// CSRs an access to which is an exit of a class.
const CSRS: [(u16, Class); 5] = [
    (csr::STIMECMP, Class::Timer),
    (xtrapless::csr::SGENIPI, Class::Ipi),
    (xtrapless::csr::VSCLAIM, Class::Device),
    (xtrapless::csr::VSENABLE, Class::Device),
    (xtrapless::csr::VSTHRESHOLD, Class::Device),
];

impl Left {
    /// By the value of `hifmap.STATE`; `None` for values without a meaning.
    pub fn of(state: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|left| left.state() == state)
    }

    /// Its value in `hifmap.STATE`.
    pub fn state(self) -> u8 {
        let state = match self {
            Self::Stopped => xtrapless::state::STOPPED,
            Self::Preempted => xtrapless::state::PREEMPTED,
            Self::Halted => xtrapless::state::HALTED,
        };
        state as u8
    }
}

impl NotificationKind {
    /// By the value of `hnotify.KIND`.
    pub fn of(kind: u8) -> Self {
        let known = Self::ALL.get(usize::from(kind)).copied();
        known.unwrap_or(Self::Source)
    }
}

/// [`State`], with the state in slots of a vCPU that is scheduled off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Place {
    /// [`State::Running`].
    Running,
    /// [`State::Paused`].
    Paused,
    /// [`State::ScheduledOff`] for an unknown reason.
    #[default]
    Off,
    /// [`State::Unknown`].
    Unknown,
    /// [`State::ScheduledOff`], [`Left::Stopped`].
    Stopped,
    /// [`State::ScheduledOff`], [`Left::Preempted`].
    Preempted,
    /// [`State::ScheduledOff`], [`Left::Halted`].
    Halted,
}

/// Number of [`Place`]s.
pub(crate) const PLACES: usize = 7;

impl Place {
    /// The place of a vCPU that was detached with this `hifmap.STATE`.
    pub fn left_in(state: u8) -> Self {
        Left::of(state).map_or(Self::Off, Self::of_left)
    }

    /// The place of a vCPU that was detached in this state.
    pub fn of_left(left: Left) -> Self {
        match left {
            Left::Stopped => Self::Stopped,
            Left::Preempted => Self::Preempted,
            Left::Halted => Self::Halted,
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

    /// State in slots of a vCPU that is scheduled off.
    pub fn left(self) -> Option<Left> {
        Left::ALL
            .into_iter()
            .find(|left| Self::of_left(*left) == self)
    }

    /// All places of a `state`.
    pub(crate) fn of(state: State) -> &'static [Self] {
        match state {
            State::Running => &[Self::Running],
            State::Paused => &[Self::Paused],
            State::ScheduledOff => &[Self::Off, Self::Stopped, Self::Preempted, Self::Halted],
            State::Unknown => &[Self::Unknown],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a reason belongs to one class, whether by number while counting or by name in a
    /// report.
    #[test]
    fn names_and_numbers_of_reasons_have_the_same_class() {
        let devices = DeviceMap::default();
        let mut found = Vec::new();
        for csr in 0..4096 {
            let reason = Reason::Csr(csr);
            let class = Class::of_reason(reason, &devices);
            assert_eq!(Class::of_exit(reason.key(&devices).reason()), class);
            found.extend(class);
        }
        use Class::{Device, Ipi, Timer};
        let count = |class| found.iter().filter(|c| **c == class).count();
        assert_eq!([Timer, Ipi, Device].map(count), [1, 1, 3]);
        for code in [2, 6, 10] {
            let reason = Reason::VsLevel(code);
            let class = Class::of_reason(reason, &devices);
            assert!(class.is_some());
            assert_eq!(Class::of_exit(reason.key(&devices).reason()), class);
        }
    }
}
