//! Queries of the state of vCPUs during a run, for displays.

use crate::class::{Left, State};
use crate::events::event::Guest;
use crate::ledger::Ledger;
use crate::state::hart::place_of;

/// The present state of a vCPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VcpuNow {
    /// Hardware identity.
    pub guest: Guest,
    /// Interrupt domain of its VM, if the controller delivers by itself.
    pub domain: Option<u16>,
    /// Its number in its VM, if known.
    pub number: Option<u64>,
    /// Its state.
    pub state: State,
    /// Its state in its slot, if it is scheduled off and that is known.
    pub left: Option<Left>,
    /// Hart on which it was entered last.
    pub hart: Option<usize>,
    /// Whether M-mode handles a trap taken straight from this vCPU, which may not become an exit.
    pub in_firmware: bool,
}

impl Ledger {
    /// Index of the vCPU that is running or paused on `hart`.
    pub fn loaded_on(&self, hart: usize) -> Option<usize> {
        self.harts.get(hart)?.loaded
    }

    /// The vCPU at `index`.
    ///
    /// # Panics
    /// If there is no such vCPU.
    pub fn vcpu(&self, index: usize) -> VcpuNow {
        let vcpu = self.vcpus.get(index);
        let place = place_of(&self.harts, &self.vharts, index, vcpu);
        let hart = vcpu.hart.and_then(|hart| self.harts.get(hart));
        let direct = hart.and_then(|hart| hart.direct.as_ref());
        VcpuNow {
            guest: vcpu.guest,
            domain: vcpu.domain,
            number: vcpu.vhart,
            state: place.state(),
            left: place.left(),
            hart: vcpu.hart,
            in_firmware: place.state() == State::Paused
                && direct.is_some_and(|direct| direct.resumed.is_none()),
        }
    }

    /// Name of the phase that is being counted.
    pub fn phase(&self) -> &str {
        &self.phases[self.current].name
    }
}
