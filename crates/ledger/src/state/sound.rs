//! Validation of a ledger from a checkpoint: indices are in range, and tables have the lengths on
//! which the rules rely. Counts are not checked.

use crate::config::Config;
use crate::histogram::Histogram;
use crate::ledger::{Ledger, PHASES};
use crate::reason::{CAUSES, Reason, table_len};
use crate::state::handler::Handler;
use crate::state::hart::Hart;
use crate::state::totals::{HartTotals, IRQS, Totals};
use crate::state::vcpu::Vcpu;
use crate::state::vhart::Vhart;

/// Numbers of objects to which others may refer.
struct Known {
    harts: usize,
    vcpus: usize,
    vharts: usize,
    reasons: usize,
    threads: usize,
    chains: usize,
}

impl Ledger {
    /// Rejects a ledger that cannot be of a machine with `config`: it comes from a damaged
    /// checkpoint and must not be used.
    ///
    /// # Errors
    /// What is wrong, in words that follow "its ledger".
    pub fn check(&self, config: &Config) -> Result<(), &'static str> {
        let known = Known {
            harts: config.harts,
            vcpus: self.vcpus.iter().count(),
            vharts: self.vharts.iter().count(),
            reasons: table_len(config.guest_devices.len()),
            threads: self.threads.numbers(),
            chains: self.chains.count(),
        };
        let place = |&vcpu: &usize| vcpu < known.vcpus;
        let exited = |exit: &crate::GuestExit| {
            exit.vcpu < known.vcpus && exit.reason.is_one_of(config.guest_devices.len())
        };
        let all = [
            (self.config == *config, "is of another machine"),
            (self.harts.len() == known.harts, "has other harts"),
            (
                (1..=PHASES).contains(&self.phases.len()) && self.current < self.phases.len(),
                "counts for a phase that it does not have",
            ),
            (
                self.vcpus.are_sound() && self.vharts.are_sound(),
                "has an inconsistent index of vCPUs",
            ),
            (
                self.threads.are_sound(),
                "has an inconsistent index of threads",
            ),
            (
                self.chains.are_sound(|reason| reason < known.reasons),
                "has an inconsistent index of chains of reasons",
            ),
            (
                self.harts.iter().all(|hart| hart.is_sound(&known)),
                "has an impossible state of a hart",
            ),
            (
                self.vcpus.iter().all(|vcpu| vcpu.is_sound(&known)),
                "has an impossible state of a vCPU",
            ),
            (
                self.vharts.iter().all(|vhart| vhart.is_sound(&known)),
                "has an impossible state of a vhart",
            ),
            (
                self.file_owners.values().all(place),
                "has an impossible state of an interrupt file",
            ),
            (
                self.answered.is_none_or(|a| a.hart < known.harts)
                    && self.exited.as_ref().is_none_or(exited),
                "has an impossible event",
            ),
            (
                self.interrupted_handlers
                    >= self.vcpus.iter().filter(|v| v.handler.is_some()).count(),
                "has a wrong number of handlers",
            ),
            (
                self.phases
                    .iter()
                    .all(|phase| phase.totals.fit(&known, config)),
                "has counters that do not fit",
            ),
        ];
        match all.into_iter().find(|(sound, _)| !sound) {
            None => Ok(()),
            Some((_, what)) => Err(what),
        }
    }
}

fn leads(number: Option<usize>, len: usize) -> bool {
    number.is_none_or(|number| number < len)
}

impl Hart {
    fn is_sound(&self, known: &Known) -> bool {
        leads(self.vcpu, known.vcpus)
            && leads(self.loaded, known.vcpus)
            && leads(self.slot, known.vharts)
            && self.thread < known.threads
            && self
                .exit
                .as_ref()
                .is_none_or(|exit| exit.reason < known.reasons && exit.steps.are_sound())
            && self.direct.as_ref().is_none_or(|d| d.steps.are_sound())
            && self.handler.is_none_or(|handler| handler.is_sound(known))
    }
}

impl Handler {
    fn is_sound(&self, known: &Known) -> bool {
        self.vcpu < known.vcpus && self.reason < known.reasons
    }
}

impl Vcpu {
    fn is_sound(&self, known: &Known) -> bool {
        leads(self.hart, known.harts)
            && leads(self.slot, known.vharts)
            && self.handler.is_none_or(|handler| handler.is_sound(known))
    }
}

impl Vhart {
    fn is_sound(&self, known: &Known) -> bool {
        leads(self.hart, known.harts) && leads(self.vcpu, known.vcpus)
    }
}

impl Reason {
    /// Whether it can be the reason of a trap of a guest with `devices` device windows.
    fn is_one_of(self, devices: usize) -> bool {
        match self {
            Self::Mmio(device, _) => device <= devices,
            Self::SbiOther(_) | Self::Other(_) | Self::Csr(_) | Self::VsLevel(_) => {
                Self::from_index(self.index()) == self
            }
            _ => true,
        }
    }
}

impl Totals {
    fn fit(&self, known: &Known, config: &Config) -> bool {
        let queues = self.queues.iter().map(|queue| &queue.latency);
        let classes = self.classes.iter().flat_map(|class| &class.latency);
        let mut histograms = [
            &self.timer_latency,
            &self.ipi_latency,
            &self.device_latency,
            &self.event_latency,
        ]
        .into_iter()
        .chain(&self.raised_to_taken)
        .chain(queues)
        .chain(classes);
        self.harts.len() == known.harts
            && self.harts.iter().all(HartTotals::is_sound)
            && self.threads.len() <= known.threads
            && self.exits.len() == known.reasons
            && self.redirected.len() == known.reasons
            && self.direct_firmware.len() == CAUSES
            && self.chains.len() <= known.chains
            && self.raised_to_taken.len() == IRQS
            && self.devices.len() == config.devices.len() + 1
            && histograms.all(Histogram::is_sound)
    }
}
