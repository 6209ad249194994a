//! A doorbell can go away, and its event can move, in every state of a small system: nothing is
//! lost, and nothing that is freed is used. Each of the rules is needed for one of these.

use trapless_protocol::doorbells::{
    Broken::{self, *},
    Doorbells, EXITS, FORGOTTEN, QUIET, SIGNALLED, SIGNALLED_BEFORE, SILENT,
    Way::{self, *},
};
use trapless_protocol::visit;

const WAYS: [Way; 4] = [Last, Others, Memory, Vm];

/// With two stores.
fn holds(ways: &[Way], moves: u8, sleeps: u8, broken: Option<Broken>) {
    for way in ways {
        let start = std::time::Instant::now();
        let mut model = Doorbells::new(*way, broken);
        (model.moves, model.sleeps) = (moves, sleeps);
        let found = visit(model, None);
        println!("{way:?}: {} states, {:.1?}", found.states, start.elapsed());
        assert!(found.violated.is_empty(), "{way:?}: {:#?}", found.violated);
        assert!(
            found.missing.is_empty(),
            "{way:?}: never {:?}",
            found.missing
        );
        assert!(found.states > 50_000);
    }
}

#[test]
fn doorbells_hold() {
    holds(&WAYS, 1, 0, None);
}

/// A hart that nothing names falls asleep and drops its notifications: no event is lost by that.
#[test]
fn doorbells_hold_with_a_hart_that_sleeps() {
    holds(&[Memory], 1, 1, None);
}

/// The same while the doorbell is removed.
#[test]
#[ignore = "long"]
fn doorbells_hold_with_a_hart_that_sleeps_and_a_removal() {
    holds(&[Last, Others, Vm], 1, 1, None);
}

#[test]
fn each_rule_of_sleep_is_needed() {
    for broken in [NoSecondLook, SleepWithoutSync, NoWakeUp, WakeWithoutScan] {
        let mut model = Doorbells::new(Memory, Some(broken));
        model.sleeps = 1;
        let found = visit(model, Some(SIGNALLED));
        let path = found.violated.iter().find(|(name, _)| *name == SIGNALLED);
        let (_, path) = path.unwrap_or_else(|| panic!("{broken:?}: {SIGNALLED} holds"));
        println!("{broken:?}, {} states: {path}", found.states);
    }
}

/// Two moves, or a move and a throttle, of one event.
#[test]
#[ignore = "long"]
fn doorbells_hold_with_two_moves() {
    holds(&WAYS, 2, 0, None);
}

/// No hart is named whose queue is closed, so that it gets no notification before it opens.
#[test]
fn opening_a_queue_needs_no_look_at_all_events() {
    let found = visit(Doorbells::new(Memory, Some(OpenWithoutScan)), None);
    assert!(found.violated.is_empty(), "{:#?}", found.violated);
}

/// After the fence, no doorbell answers whose entry could have become invalid.
#[test]
fn validity_of_the_entry_need_not_be_looked_at() {
    holds(&WAYS, 1, 0, Some(InvalidAnswers));
}

#[test]
fn each_rule_is_needed() {
    let mut not_needed = Vec::new();
    for (broken, way, moves, property) in [
        (LookFirst, Memory, 1, SIGNALLED),
        (AckLate, Memory, 0, SIGNALLED),
        (UnmaskWithoutRepost, Memory, 1, SIGNALLED),
        (ScanWithoutRepost, Memory, 1, SIGNALLED),
        (MoveByStore, Memory, 2, SIGNALLED),
        (OthersIgnored, Memory, 1, SIGNALLED),
        (MoveWithoutLock, Memory, 2, QUIET),
        (DeafNamed, Memory, 2, SIGNALLED),
        (EnterWithoutFence, Last, 0, FORGOTTEN),
        (EnterWithoutFence, Memory, 0, EXITS),
        (NoGracePeriod, Last, 0, FORGOTTEN),
        (FenceFirst, Last, 0, FORGOTTEN),
        (FenceFirst, Memory, 0, EXITS),
        (NoFence, Last, 0, FORGOTTEN),
        (NoFence, Others, 0, FORGOTTEN),
        (NoFence, Memory, 0, EXITS),
        (FreeFirst, Last, 0, FORGOTTEN),
        (NoSync, Last, 0, SIGNALLED_BEFORE),
        (NoSync, Vm, 0, SIGNALLED_BEFORE),
        (SyncLate, Last, 0, SIGNALLED_BEFORE),
        (SyncLate, Vm, 0, SIGNALLED_BEFORE),
        (ValidFirst, Last, 0, SIGNALLED_BEFORE),
        (NoLastSync, Last, 0, FORGOTTEN),
        (StaysRegistered, Last, 1, FORGOTTEN),
        (DeadHandled, Last, 0, FORGOTTEN),
        (FreedAtOnce, Last, 0, FORGOTTEN),
        (EventfdFirst, Last, 0, FORGOTTEN),
        (NoLastSignal, Last, 0, SIGNALLED_BEFORE),
        (NoLastSignal, Others, 0, SIGNALLED_BEFORE),
        (LastSignalAlways, Last, 0, SILENT),
        (LastSignalAlways, Vm, 0, SILENT),
    ] {
        let mut model = Doorbells::new(way, Some(broken));
        model.moves = moves;
        let found = visit(model, Some(property));
        let path = found.violated.iter().find(|(name, _)| *name == property);
        match path {
            Some((_, path)) => println!("{broken:?}, {way:?}, {} states: {path}", found.states),
            None => not_needed.push((broken, way, property)),
        }
    }
    assert!(not_needed.is_empty(), "these hold: {not_needed:#?}");
}
