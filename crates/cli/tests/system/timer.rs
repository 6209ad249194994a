//! What the comparison of `sbi` and `sstc` on workload `timer` claims.

use crate::runs::{WAKEUPS, Watched, run};

/// Promise: with Sstc a guest programs its timer without any exit, and no firmware runs for it.
#[test]
fn sstc_timers_cost_no_exit() {
    let run = run("sstc", "timer", Watched::Log);
    for section in [&run.ledger.total, run.ledger.workload()] {
        assert_eq!(section.exits_of("timer_set").exits, 0);
        assert_eq!(section.exits_of("timer_fire").exits, 0);
        assert_eq!(section.guest_interrupts.timer_set_with_exit, 0);
        assert!(section.guest_interrupts.timer_set_without_exit >= WAKEUPS);
    }
    assert_eq!(run.ledger.workload().firmware.total, 0);
}

/// Promise: without Sstc every programming of the timer is an exit, and the phase has at least one
/// firmware trap for each, all of them charged to exits.
#[test]
fn sbi_timers_cost_an_exit_and_firmware_traps() {
    let run = run("sbi", "timer", Watched::Log);
    let section = run.ledger.workload();
    let sets = section.guest_interrupts.timer_set_with_exit;
    assert!(sets >= WAKEUPS);
    assert_eq!(section.exits_of("timer_set").exits, sets);
    assert_eq!(section.guest_interrupts.timer_set_without_exit, 0);
    assert!(
        section.firmware.total >= sets,
        "{} traps for {sets}",
        section.firmware.total
    );
    assert_eq!(section.firmware.charged_to_exits, section.firmware.total);
}

/// Promise: the comparison is per unit of work, and all machines did the same work.
#[test]
fn all_machines_did_the_same_work() {
    for machine in ["sbi", "sstc", "trapless"] {
        let ledger = &run(machine, "timer", Watched::Log).ledger;
        let work = ledger.run.work.as_ref().expect("timer counts its work");
        assert_eq!((work.unit.as_str(), work.count), ("wake-ups", WAKEUPS));
        assert!(ledger.workload().guest_interrupts.taken["timer"] >= WAKEUPS);
    }
}
