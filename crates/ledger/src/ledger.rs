//! The ledger's state: phases and their totals, virtual time, states of harts and vCPUs.
//!
//! Rules that turn events into counts are in `attribution`, `delivery`, `cost`, `interrupt_files`
//! and `controller`, written down in `docs/ledger.md`; each has a test in `tests/`.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use trapless_isa::Mode;

use crate::class::{Class, Left, Place, State};
use crate::config::Config;
use crate::counters::Merge;
use crate::document::InterruptCounts;
use crate::events::event::Guest;
use crate::reason::{Reason, cause_index};
use crate::state::chain::Chains;
use crate::state::hart::{Direct, Hart};
use crate::state::queued_events::QueuedEvents;
use crate::state::thread::Threads;
use crate::state::totals::{HartTotals, IDLE, Totals};
use crate::state::vcpu::Vcpus;
use crate::state::vhart::{Pending, Vharts};

/// Maximum number of phases; marks beyond that are counted in the last one.
pub(crate) const PHASES: usize = 64;

/// A guest interrupt that has been followed from its sender to the guest's handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Answered {
    /// Class.
    pub class: Class,
    /// State of the vCPU at the arrival.
    pub state: State,
    /// State in its slot of a vCPU that is scheduled off, if known.
    pub left: Option<Left>,
    /// When it was sent; timer: when its deadline was programmed.
    pub sent: u64,
    /// When it arrived; timer: its deadline, or `sent` if that is later.
    pub arrived: u64,
    /// When the guest's handler was entered.
    pub taken: u64,
    /// Hart on which it was taken.
    pub hart: usize,
}

/// A guest exit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GuestExit {
    /// Index of the vCPU, for [`Ledger::vcpu`].
    pub vcpu: usize,
    /// Why.
    pub reason: Reason,
}

/// One phase with its totals.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Phase {
    pub name: String,
    pub from: u64,
    pub totals: Totals,
}

/// Exact totals of a run, counted from its events.
///
/// ```
/// use trapless_ledger::{Config, Ledger, event::{Event, Sink, Wait}};
/// use trapless_isa::Mode;
///
/// let mut ledger = Ledger::new(Config::new(1));
/// ledger.record(&Event::Wait(Wait { time: 500, hart: 0, mode: Mode::M, begin: true }));
/// ledger.finish(2_000);
/// let section = ledger.total_section();
/// assert_eq!(section.harts[0].cycles["idle"], 1_500);
/// ```
#[derive(Debug, Serialize, Deserialize)]
pub struct Ledger {
    pub(crate) config: Config,
    pub(crate) chains: Chains,
    pub(crate) vcpus: Vcpus,
    pub(crate) vharts: Vharts,
    pub(crate) threads: Threads,
    pub(crate) queued_events: QueuedEvents,
    pub(crate) phases: Vec<Phase>,
    /// Phase being counted.
    pub(crate) current: usize,
    /// When it began, or was continued.
    current_since: u64,
    pub(crate) harts: Vec<Hart>,
    /// See [`take_answered`](Self::take_answered).
    pub(crate) answered: Option<Answered>,
    /// See [`take_exit`](Self::take_exit).
    pub(crate) exited: Option<GuestExit>,
    /// vCPUs by hart and number of their interrupt files.
    #[serde(serialize_with = "crate::state::sorted::serialize")]
    pub(crate) file_owners: HashMap<(usize, u8), usize>,
    /// Time and class of the last post that a device has caused.
    pub(crate) device_post: Option<(u64, Class)>,
    /// Handlers in user mode that the host has interrupted.
    pub(crate) interrupted_handlers: usize,
}

impl Ledger {
    /// An empty ledger of a machine that starts at time 0 with every hart in M-mode.
    ///
    /// Counting begins in a phase named `start`.
    pub fn new(config: Config) -> Self {
        let mut ledger = Self {
            harts: vec![Hart::new(0); config.harts],
            chains: Chains::default(),
            vcpus: Vcpus::default(),
            vharts: Vharts::default(),
            threads: Threads::default(),
            queued_events: QueuedEvents::default(),
            phases: Vec::new(),
            current: 0,
            current_since: 0,
            answered: None,
            exited: None,
            file_owners: HashMap::new(),
            device_post: None,
            interrupted_handlers: 0,
            config,
        };
        ledger.add_phase("start", 0);
        ledger
    }

    fn add_phase(&mut self, name: &str, from: u64) {
        let config = &self.config;
        let totals = Totals::new(
            self.harts.len(),
            config.guest_devices.len(),
            config.devices.len(),
        );
        self.phases.push(Phase {
            name: name.to_string(),
            from,
            totals,
        });
    }

    /// Ends the current phase at `time` and begins, or continues, phase `name`.
    ///
    /// A name seen before continues that phase, so that a loop in a workload adds up. Beyond 64
    /// names everything goes to the last phase: marks of the guest must not take unbounded memory.
    /// A hart that has run past `time` (by less than a quantum) keeps what it counted.
    pub fn mark(&mut self, name: &str, time: u64) {
        self.charge_all(time);
        self.current_since = time;
        match self.phases.iter().position(|p| p.name == name) {
            Some(index) => self.current = index,
            None => {
                if self.phases.len() < PHASES {
                    self.add_phase(name, time);
                }
                self.current = self.phases.len() - 1;
            }
        }
    }

    /// Counts all time up to `time`, the end of the run. May be called again later.
    pub fn finish(&mut self, time: u64) {
        self.charge_all(time);
        self.current_since = self.current_since.max(time);
    }

    fn charge_all(&mut self, time: u64) {
        for hart in 0..self.harts.len() {
            self.charge(hart, time);
        }
        self.phases[self.current].totals.counts.cycles += time.saturating_sub(self.current_since);
    }

    /// Totals of all phases, with the chains of exits still open counted as they are.
    pub(crate) fn total(&mut self) -> Totals {
        let mut total = self.phases[0].totals.clone();
        self.phases[1..].iter().for_each(|p| total.merge(&p.totals));
        for hart in &self.harts {
            if let Some(open) = &hart.exit {
                total.count_chain(self.chains.number(open.reason, &open.steps));
            }
            if let Some(direct) = &hart.direct {
                count_direct(&mut total, direct);
            }
        }
        total
    }

    /// Charges the time since the last event of `hart` to its mode.
    fn charge(&mut self, hart: usize, now: u64) {
        let state = &mut self.harts[hart];
        let elapsed = now.saturating_sub(state.since);
        state.since = state.since.max(now);
        let slot = if state.waiting {
            IDLE
        } else {
            state.mode as usize
        };
        let totals = &mut self.phases[self.current].totals;
        totals.harts[hart].cycles[slot] += elapsed;
        totals.thread(state.charged_thread()).cycles[slot] += elapsed;
        if let Some(handler) = state.handler.filter(|_| slot == Mode::U as usize) {
            totals.redirected[handler.reason].cycles += elapsed;
        }
        if let Some(direct) = state.direct.as_mut().filter(|d| d.resumed.is_none()) {
            direct.cycles += elapsed;
        } else if let Some(open) = &state.exit {
            totals.exits[open.reason].cycles[slot] += elapsed;
        }
    }

    /// Charges the instructions since the last trap or return of `hart` to its mode. Modes change
    /// with these only.
    pub(crate) fn retired(&mut self, hart: usize, instret: u64) {
        let state = &mut self.harts[hart];
        let before = std::mem::replace(&mut state.instret, instret);
        let instructions = if before == 0 {
            0
        } else {
            instret.saturating_sub(before)
        };
        if let Some(direct) = state.direct.as_mut().filter(|d| d.resumed.is_none()) {
            direct.instructions += instructions;
        } else if let Some(open) = &state.exit {
            let totals = &mut self.phases[self.current].totals;
            totals.exits[open.reason].instructions[state.mode as usize] += instructions;
        }
    }

    /// Makes sure that `hart` exists.
    pub(crate) fn grow(&mut self, hart: usize, now: u64) {
        while self.harts.len() <= hart {
            self.harts.push(Hart::new(now));
        }
        for phase in &mut self.phases {
            if phase.totals.harts.len() <= hart {
                phase.totals.harts.resize(hart + 1, HartTotals::default());
            }
        }
    }

    /// Counts the time of `hart` up to `now` in the mode it was in.
    pub(crate) fn at(&mut self, hart: usize, now: u64) {
        if hart >= self.harts.len() {
            self.grow(hart, now);
        }
        self.charge(hart, now);
        self.timer_arrival(hart, now);
    }

    pub(crate) fn vcpu_of(&mut self, hart: usize, guest: Guest) -> usize {
        let state = &mut self.harts[hart];
        match state.vcpu {
            Some(index) if state.guest == guest => index,
            _ => {
                let index = self.vcpus.find(guest);
                state.guest = guest;
                state.vcpu = Some(index);
                index
            }
        }
    }

    /// Totals of the current phase.
    pub(crate) fn totals(&mut self) -> &mut Totals {
        &mut self.phases[self.current].totals
    }

    /// Counters of a class in the current phase.
    pub(crate) fn class(&mut self, class: Class) -> &mut InterruptCounts {
        &mut self.totals().classes[class as usize].counts
    }

    /// An interrupt arrived at a vCPU in this place.
    pub(crate) fn arrival(&mut self, class: Class, place: Place) {
        self.totals().classes[class as usize].arrived[place as usize] += 1;
    }

    /// The deadline of the vCPU on `hart` may have passed: it arrives in the state that the hart
    /// was in until `now`.
    pub(crate) fn timer_arrival(&mut self, hart: usize, now: u64) {
        let state = &self.harts[hart];
        if let Some(index) = state.loaded {
            let vcpu = self.vcpus.get_mut(index);
            if vcpu.timer_open && vcpu.timer_due <= now {
                let place = if state.runs_guest() {
                    Place::Running
                } else {
                    Place::Paused
                };
                vcpu.timer_open = false;
                vcpu.timer_place = place;
                self.arrival(Class::Timer, place);
            }
        }
    }

    /// The guest took, at `taken` on `hart`, the interrupt that was pending.
    pub(crate) fn answer(&mut self, class: Class, pending: Pending, taken: u64, hart: usize) {
        // Harts run ahead of each other by up to a quantum: never below zero.
        let waited = taken.saturating_sub(pending.time);
        let totals = self.totals();
        totals.classes[class as usize].latency[pending.place as usize].record(waited);
        match class {
            Class::Timer => &mut totals.timer_latency,
            Class::Ipi => &mut totals.ipi_latency,
            Class::Device => &mut totals.device_latency,
        }
        .record(waited);
        self.answered = Some(Answered {
            class,
            state: pending.place.state(),
            left: pending.place.left(),
            sent: pending.time,
            arrived: pending.time,
            taken,
            hart,
        });
    }

    /// The host waits, or runs a program: without slots, this shows that the vCPU of `hart` was
    /// put.
    pub(crate) fn host_moved_on(&mut self, hart: usize) {
        let state = &mut self.harts[hart];
        if state.slot.is_none() {
            state.loaded = None;
        }
    }

    /// Takes the interrupt that the last event has completed.
    pub fn take_answered(&mut self) -> Option<Answered> {
        self.answered.take()
    }

    /// Takes the exit that the last event has completed.
    pub fn take_exit(&mut self) -> Option<GuestExit> {
        self.exited.take()
    }

    /// Every vCPU seen with its number in its VM, if known.
    pub fn vcpu_numbers(&self) -> impl Iterator<Item = (Guest, Option<u64>)> + '_ {
        self.vcpus.iter().map(|v| (v.guest, v.vhart))
    }

    /// Configuration of the ledger.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

/// Counts M-mode traps that led to no exit.
pub(crate) fn count_direct(totals: &mut Totals, direct: &Direct) {
    let entry = &mut totals.direct_firmware[usize::from(cause_index(direct.first.cause))];
    entry.traps += direct.traps;
    entry.cycles += direct.cycles;
}
