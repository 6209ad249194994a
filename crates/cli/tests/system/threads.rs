//! Threads of the host and the switches between them, against what its kernel counts itself.

use trapless_ledger::Slot;
use trapless_ledger::document::{Section, Thread};

use crate::hosts::switches;
use crate::runs::runs;

/// Switches between the host's last look at its own count and the end of the run: it prints a line
/// and powers off.
const AFTER: u64 = 100;
/// Most cycles by which the kernel's account of a thread and the ledger's differ for each switch:
/// the kernel looks at the clock before it chooses the next thread, the ledger sees the switch
/// itself.
const EDGE: u64 = 2000;
/// Part of a thread's time by which they differ besides, in percent: a new thread's account begins
/// later than the thread, and that of one that wakes up on another hart with that hart's clock.
const PART: u64 = 1;

fn sums(section: &Section) -> [u64; 2] {
    let of_threads = section.threads.iter().flat_map(|t| t.cycles.values());
    let of_harts = section.harts.iter().flat_map(|h| h.cycles.values());
    [of_threads.sum(), of_harts.sum()]
}

fn host_cycles(thread: &Thread) -> u64 {
    let used = thread
        .cycles
        .iter()
        .filter(|(slot, _)| **slot != Slot::Idle);
    used.map(|(_, n)| n).sum()
}

/// Promise: each cycle of a hart belongs to one thread, all threads have names, and guests run in
/// threads of their VMM.
#[test]
fn threads_account_for_all_cycles() {
    for run in runs() {
        let name = run.name();
        let parts = run.ledger.phases.iter().map(|p| &p.totals);
        for section in parts.chain([&run.ledger.total]) {
            let [threads, harts] = sums(section);
            assert_eq!(threads, harts, "{name}");
            let switches: u64 = section.threads.iter().map(|t| t.switches).sum();
            assert_eq!(switches, section.context_switches, "{name}");
            for thread in &section.threads {
                let runs_guest = thread
                    .cycles
                    .keys()
                    .any(|slot| matches!(slot, Slot::VU | Slot::VS));
                let known = thread.name.is_some() && (thread.number < 2 || thread.pid.is_some());
                assert!(known, "{name}: {thread:?}");
                assert!(
                    !runs_guest || thread.process > Some(1),
                    "{name}: {thread:?}"
                );
            }
        }
        assert!(run.ledger.workload().context_switches > 0, "{name}");
    }
}

/// Promise: the ledger counts the switches that the kernel counts, of all threads to the last one
/// and of each thread, and their time is that of the kernel's scheduler.
#[test]
fn the_hosts_scheduler_agrees() {
    for machine in ["sbi", "full"] {
        let host = switches(machine).unwrap_or_else(|what| panic!("{what}"));
        let total = &host.ledger.total;
        let counted = host.number("switches");
        assert!(
            counted > 2000 && (counted..counted + AFTER).contains(&total.context_switches),
            "{machine}: {} and {counted}",
            total.context_switches
        );
        let mut vcpus = 0;
        for (key, value) in host.results() {
            let Some(pid) = key.strip_prefix("thread_") else {
                continue;
            };
            let (switches, nanoseconds) = value.split_once(':').expect("two numbers");
            let pid = Some(pid.parse().expect("a number"));
            let mut same = total.threads.iter().filter(|t| t.pid == pid);
            let thread = same
                .next()
                .unwrap_or_else(|| panic!("{machine}: no {pid:?}"));
            // It has stopped: each time that it began has ended.
            let switches: u64 = switches.parse().expect("a number");
            assert_eq!(thread.switches, switches, "{machine}: {thread:?}");
            // A cycle is a nanosecond.
            let ran: u64 = nanoseconds.parse().expect("a number");
            let cycles = host_cycles(thread);
            assert!(
                cycles.abs_diff(ran) <= EDGE * (switches + 1) + ran * PART / 100,
                "{machine}: {ran} ns and {thread:?}"
            );
            let runs_guest = thread.cycles.get("VS").is_some_and(|n| *n > 1_000_000);
            vcpus += u64::from(runs_guest);
        }
        assert_eq!(vcpus, 2, "{machine}");
    }
}
