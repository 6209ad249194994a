//! Exits that are unrelated to interrupts of the guest. A diagram shows one line for each.

use std::collections::HashMap;

use trapless_isa::Mode;
use trapless_ledger::Config;
use trapless_ledger::class::Class;
use trapless_ledger::event::{Event, StepKind, Trap};
use trapless_ledger::reason::Reason;

/// Events of one hart from an exit to the next entry.
#[derive(Default)]
struct Episode {
    /// Events after the exit itself.
    events: Vec<usize>,
    /// It is related to interrupts of guests.
    matters: bool,
}

/// Marks events of exits unrelated to the followed interrupt: a page fault, a device access, a tick
/// of the host, or any that was over when the interrupt arrived at `arrived`. The trap that begins
/// the exit is not marked.
pub fn aside(events: &[Event], config: &Config, arrived: u64) -> Vec<bool> {
    let mut aside = vec![false; events.len()];
    let mut open: HashMap<usize, Episode> = HashMap::new();
    for (index, event) in events.iter().enumerate() {
        let hart = event.hart();
        match event {
            Event::Trap(t) if t.from.v() && !t.to.v() => {
                let matters = t.to == Mode::M || reason_matters(t, config);
                let events = Vec::new();
                open.insert(hart, Episode { events, matters });
            }
            _ => {
                let Some(episode) = open.get_mut(&hart) else {
                    continue;
                };
                episode.events.push(index);
                episode.matters |= event_matters(event);
                let ends = matches!(event, Event::Return(r) if r.to.v());
                if ends {
                    let over = event.time() < arrived;
                    let episode = open.remove(&hart).filter(|e| over || !e.matters);
                    for index in episode.into_iter().flat_map(|e| e.events) {
                        aside[index] = true;
                    }
                }
            }
        }
    }
    aside
}

fn reason_matters(t: &Trap, config: &Config) -> bool {
    let reason = Reason::classify(t, config, false);
    let of_class = Class::of_reason(reason, &config.guest_devices).is_some();
    of_class || matches!(reason, Reason::Wfi | Reason::Notification | Reason::Event)
}

/// Whether an event of the host concerns an interrupt of a guest. A put and load of a vCPU around a
/// device access does not.
fn event_matters(event: &Event) -> bool {
    match event {
        Event::Raise(r) => matches!(r.irq, 2 | 6 | 10 | 24 | 25),
        Event::Wait(_) => true,
        Event::Virtual(s) => match s.kind {
            StepKind::Attached { .. }
            | StepKind::Lowered { .. }
            | StepKind::HartIpi { .. }
            | StepKind::FileSelected { .. } => false,
            StepKind::Detached { state, .. } => state != 0,
            _ => true,
        },
        _ => false,
    }
}
