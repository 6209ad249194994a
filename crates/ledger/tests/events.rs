//! Rules of `docs/ledger.md`, section "Events".

mod script;

use script::{Script, V0};
use trapless_isa::Mode::{HS, VS};
use trapless_ledger::document::Events;
use trapless_ledger::event::EventOrigin::{self, Doorbell, Guest, Host};
use trapless_ledger::event::StepKind::{EventPosted, EventQueued, EventTaken};

const EVENT: u64 = 25;

fn posted(by: EventOrigin, merged: bool) -> trapless_ledger::event::StepKind {
    EventPosted {
        request: 3,
        by,
        merged,
    }
}

/// A guest on hart 0; the host has hart 1.
fn running() -> Script {
    let mut s = Script::new();
    s.ret(HS, VS);
    s
}

/// Without an exit of the guest that posts, the host has the event when it takes it.
#[test]
fn a_doorbell_is_counted_from_post_to_taken() {
    let mut s = running();
    s.step(VS, posted(Doorbell, false), 3)
        .step(VS, EventQueued { to: 1, id: 7 }, 1)
        .step(VS, posted(Doorbell, true), 1);
    s.on(1, V0)
        .irq(HS, HS, EVENT)
        .step(HS, EventTaken { id: 7 }, 1);
    let total = s.done();
    let events = total.events.clone().unwrap();
    assert_eq!((events.doorbell, events.guest, events.host), (2, 0, 0));
    assert_eq!((events.merged, events.queued, events.taken), (1, 1, 1));
    assert_eq!((events.host_interrupts, events.exits), (1, 0));
    assert_eq!(events.memory_words, 6);
    assert_eq!(events.latency.map(|l| l.count), Some(1));
    assert_eq!(total.guest_exits, 0);
}

#[test]
fn posters_are_distinguished() {
    let mut s = running();
    s.step(VS, posted(Guest, false), 1)
        .step(HS, posted(Host, false), 1);
    let events = s.done().events.unwrap();
    assert_eq!((events.doorbell, events.guest, events.host), (0, 1, 1));
}

#[test]
fn an_event_interrupt_that_ends_a_guests_turn_is_an_exit() {
    let mut s = running();
    s.irq(VS, HS, EVENT).ret(HS, VS);
    let total = s.done();
    assert_eq!(total.exits_of("event").exits, 1);
    let expected = Events {
        exits: 1,
        ..Events::default()
    };
    assert_eq!(total.events, Some(expected));
}

#[test]
fn ledgers_without_events_have_no_such_section() {
    let mut s = running();
    assert_eq!(s.done().events, None);
}
