//! What a debugger shows of the controller's state.

use trapless_isa::xtrapless::{op, state};

use super::world::{EDGE, Routing, World};
use crate::{InterruptArchitecture, Row, Snapshot};

fn value(rows: &[Row], part: &str, name: &str) -> Option<String> {
    let same = |row: &&Row| row.part == part && row.name.trim() == name;
    rows.iter().find(same).map(|row| row.value.clone())
}

/// A vCPU that is off its hart: the host sees what is pending for it, and which hart was notified.
#[test]
fn pending_state_of_a_vhart_and_the_notified_hart_are_shown() {
    let mut world = World::new();
    world.attach(0, 1, 0);
    world.detach(0, state::HALTED);
    world.route(1, 7, EDGE);
    world.generate(1, op::EDGE, 1, 7);
    let rows = world.intc.inspect(0);
    assert_eq!(value(&rows, "domain 1", "pending").as_deref(), Some("7"));
    let file = value(&rows, "domain 1", "vhart 0").unwrap();
    assert!(
        file.starts_with("HALTED on hart 0, notification outstanding, drives SEIP"),
        "{file}"
    );
    let queue = value(&rows, "xtrapless", "queue");
    assert_eq!(queue.as_deref(), Some("WAKE domain 1 vhart 0"));
}

#[test]
fn looking_changes_nothing() {
    let mut world = World::new();
    let vhart = Routing { vhart: 1, ..EDGE };
    world.route(1, 3, vhart);
    world.attach(2, 1, 1);
    world.generate(0, op::EDGE, 1, 3);
    let (before, ram) = (world.intc.save(), world.ctl(1, 1));
    let rows = world.intc.inspect(0);
    assert!(rows.iter().any(|row| row.active));
    assert_eq!((world.intc.save(), world.ctl(1, 1)), (before, ram));
    // Nor what the next access costs.
    world.take_steps();
    world.generate(0, op::SOFT, 1, 1);
    let cost = |steps: Vec<crate::VirtualStep>| steps.iter().map(|s| s.memory).sum::<u16>();
    let first = cost(world.take_steps());
    world.intc.inspect(0);
    world.generate(0, op::SOFT, 1, 1);
    assert_eq!(cost(world.take_steps()), first);
}
