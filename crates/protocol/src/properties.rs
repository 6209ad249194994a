//! Properties that must hold in every state, and states that must be reachable for the check to be
//! meaningful.

use std::sync::atomic::Ordering::Relaxed;

use stateright::Property;

use crate::config::{Config, OnRules};
use crate::model::Protocol;
use crate::state::{Fault, Handler, RunState, Scan, Stage, State, Thread};

/// The wake-up of a sleeping vCPU whose guest would take an interrupt is in progress.
pub const NO_LOST_WAKEUP: &str = "no lost wake-up";
/// The inputs of a loaded vCPU's hart agree with the file, unless a poke is in flight.
pub const NO_MISSED_DELIVERY: &str = "no missed delivery";
/// No vCPU takes an interrupt posted to another one.
pub const NO_WRONG_TARGET: &str = "no wrong target";
/// No interrupt is taken twice.
pub const NO_DUPLICATE: &str = "no duplicate";
/// At most one notification per vCPU in all queues and handlers; `ON` is set only for that one.
/// Promised by the rules `Strict` as long as no queue overflows.
pub const BOUNDED: &str = "bounded notifications";
/// However much is sent, the host is notified of a vCPU at most once between two attaches. Promised
/// by the rules `Strict`.
pub const TOLD_ONCE: &str = "told once per detach";
/// The work after an overflow takes only vCPUs of which a notification is outstanding. Promised by
/// the rules `Strict`.
pub const RESTRAINT: &str = "overflows disturb nobody else";
/// No vCPU in two slots, no thread on two harts.
pub const ONE_HART: &str = "at most one hart per vCPU";
/// If nothing is left to do, nothing is left to deliver.
pub const NOTHING_STUCK: &str = "nothing stuck";
/// Checked by the search for runs without end: host and hardware come to rest once nothing is sent
/// or preempted.
pub const COMES_TO_REST: &str = "comes to rest";

fn no_lost_wakeup(m: &Protocol, s: &State) -> bool {
    s.vcpus[..usize::from(m.config.vcpus)]
        .iter()
        .zip(0..)
        .all(|(vcpu, v)| {
            let unheard = vcpu.on && s.open == 0;
            !(vcpu.thread == Thread::Asleep && vcpu.has_interrupts())
                || unheard
                || wake_under_way(s, v)
        })
}

/// Whether a step in flight will check this vCPU. (While no queue is counted as open, opening one
/// checks all vCPUs with `ON`.)
fn wake_under_way(s: &State, v: u8) -> bool {
    s.accesses().any(|access| access.target == v)
        || s.vcpus[usize::from(v)].scan != Scan::Done
        || s.harts.iter().any(|hart| {
            hart.overflow
                || hart.queue.iter().flatten().any(|note| note.vcpu == v)
                || match hart.handler {
                    Handler::Clear(note) | Handler::Wake(note) => note.vcpu == v,
                    Handler::None | Handler::Latch => false,
                }
        })
}

fn no_missed_delivery(_: &Protocol, s: &State) -> bool {
    s.harts.iter().filter(|hart| hart.attached()).all(|hart| {
        let Some(v) = hart.slot else { return false };
        let vcpu = &s.vcpus[usize::from(v)];
        let shown = hart.ssip == vcpu.soft && hart.seip == vcpu.seip();
        shown
            || s.accesses().any(|access| {
                access.target == v
                    && matches!(
                        access.stage,
                        Stage::EarlyOn
                            | Stage::Lookup(_)
                            | Stage::Poke(_)
                            | Stage::PokeRest(..)
                            | Stage::Sync
                    )
            })
    })
}

fn queues(stage: Stage) -> bool {
    matches!(stage, Stage::Queue(..) | Stage::Store(..))
}

fn bounded(m: &Protocol, s: &State) -> bool {
    s.vcpus[..usize::from(m.config.vcpus)]
        .iter()
        .zip(0..)
        .all(|(vcpu, v)| {
            let queueing = s
                .accesses()
                .filter(|access| access.target == v && queues(access.stage));
            let queued = s
                .harts
                .iter()
                .flat_map(|h| h.queue)
                .flatten()
                .filter(|note| note.vcpu == v);
            let handled = s.harts.iter().filter(|hart| match hart.handler {
                Handler::Clear(note) => note.vcpu == v,
                _ => false,
            });
            let outstanding = queueing.count() + queued.count() + handled.count();
            let dropped = matches!(vcpu.scan, Scan::Clear | Scan::WakeAndRepeat)
                || s.harts.iter().any(|hart| hart.overflow);
            let exact = m.config.rules != OnRules::Strict
                || !m.config.mutations.is_empty()
                || dropped
                || vcpu.on == (outstanding == 1);
            outstanding <= 1 && exact
        })
}

fn one_hart(m: &Protocol, s: &State) -> bool {
    let harts = &s.harts[..usize::from(m.config.harts)];
    (0..m.config.vcpus).all(|v| {
        harts.iter().filter(|hart| hart.slot == Some(v)).count() <= 1
            && harts.iter().filter(|hart| hart.thread == Some(v)).count() <= 1
    })
}

fn nothing_stuck(m: &Protocol, s: &State) -> bool {
    let mut left = Vec::new();
    m.progress(s, &mut left);
    !left.is_empty()
        || s.vcpus.iter().all(|vcpu| {
            let soft = vcpu.soft || vcpu.owed_soft;
            let external = vcpu.external || vcpu.owed_external;
            let open = vcpu.enabled && !vcpu.raised && !vcpu.weak;
            let owed = (soft && !vcpu.masked) || (external && open);
            !owed
        })
}

/// Reports the first counterexample only, which is the shortest in a breadth-first search.
fn report(m: &Protocol, index: usize, holds: bool) -> bool {
    holds || m.reported[index].swap(true, Relaxed)
}

/// Properties for a configuration; with a mutation, only those that must always hold.
pub(crate) fn all(config: &Config) -> Vec<Property<Protocol>> {
    let mut all: Vec<Property<Protocol>> = vec![
        Property::always(NO_LOST_WAKEUP, |m, s: &State| {
            report(m, 0, no_lost_wakeup(m, s))
        }),
        Property::always(NO_MISSED_DELIVERY, |m, s: &State| {
            report(m, 1, no_missed_delivery(m, s))
        }),
        Property::always(NO_WRONG_TARGET, |m, s: &State| {
            report(m, 2, s.fault != Fault::WrongTarget)
        }),
        Property::always(NO_DUPLICATE, |m, s: &State| {
            report(m, 3, s.fault != Fault::Duplicate)
        }),
        Property::always(ONE_HART, |m, s: &State| report(m, 5, one_hart(m, s))),
        Property::always(NOTHING_STUCK, |m, s: &State| {
            report(m, 6, nothing_stuck(m, s))
        }),
    ];
    if config.rules == OnRules::Strict {
        all.push(Property::always(RESTRAINT, |m, s: &State| {
            report(m, 8, s.fault != Fault::Disturbed)
        }));
    }
    if config.promises_told_once() {
        all.push(Property::always(TOLD_ONCE, |m, s: &State| {
            report(m, 7, s.fault != Fault::ToldTwice)
        }));
    }
    // The scan after an overflow, or after the first opening, clears the `ON` of entries that are
    // still queued or in flight.
    let scans = config.queue < config.vcpus || config.features.sleep;
    if (config.rules == OnRules::Strict && !scans) || config.check_bound {
        all.push(Property::always(BOUNDED, |m, s: &State| {
            report(m, 4, bounded(m, s))
        }));
    }
    if config.mutations.is_empty() && !config.check_bound {
        all.extend(reachable(config));
    }
    all
}

/// States a run must reach for its verdict to count.
fn reachable(config: &Config) -> Vec<Property<Protocol>> {
    let mut all: Vec<Property<Protocol>> = vec![
        Property::sometimes(
            "a sleeping vCPU is woken by a notification",
            |_, s: &State| {
                s.harts.iter().any(|hart| match hart.handler {
                    Handler::Wake(note) => s.vcpus[usize::from(note.vcpu)].thread == Thread::Asleep,
                    _ => false,
                })
            },
        ),
        Property::sometimes("a preempted vCPU makes a YIELD", |_, s: &State| {
            s.harts
                .iter()
                .flat_map(|hart| hart.queue)
                .flatten()
                .any(|note| !note.wake)
        }),
        Property::sometimes("the re-check of a detach notifies", |_, s: &State| {
            s.rechecks
                .iter()
                .any(|access| matches!(access.stage, Stage::Queue(..)))
        }),
        Property::sometimes(
            "what arrives at V=0 keeps a thread from blocking",
            |_, s: &State| {
                s.harts.iter().any(|hart| {
                    hart.latch && hart.thread.is_some_and(|v| s.vcpus[usize::from(v)].waiting)
                })
            },
        ),
        Property::sometimes("ON makes a second post silent", |_, s: &State| {
            s.posts.iter().any(|access| {
                let vcpu = &s.vcpus[usize::from(access.target)];
                access.stage == Stage::Amo && vcpu.on && vcpu.state == RunState::Halted
            })
        }),
        Property::sometimes(
            "a lookup misses a vCPU that is loaded meanwhile",
            |_, s: &State| {
                s.posts.iter().any(|access| {
                    let vcpu = &s.vcpus[usize::from(access.target)];
                    access.stage == Stage::Amo && vcpu.state == RunState::Loaded
                })
            },
        ),
    ];
    if config.features.sleep {
        all.push(Property::sometimes(
            "a notification finds no open queue",
            |_, s: &State| s.open == 0 && s.vcpus.iter().any(|vcpu| vcpu.on),
        ));
    }
    if config.queue < config.vcpus {
        all.push(Property::sometimes("a queue overflows", |_, s: &State| {
            s.harts.iter().any(|hart| hart.overflow)
        }));
    }
    all
}
