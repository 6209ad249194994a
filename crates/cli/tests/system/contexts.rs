//! What user contexts (Xhcs) claim, tried by processes whose handlers answer a guest's requests
//! (`linux/tests/contexts.c` says what it tries).

use std::process::Command;
use std::sync::OnceLock;

use crate::hosts::{Host, contexts};
use crate::runs::{BLK_HANDLER, CABLE_HANDLER, REQUESTS, logged, runs};

fn host() -> &'static Host {
    static RUN: OnceLock<Result<Host, String>> = OnceLock::new();
    let run = RUN.get_or_init(contexts);
    run.as_ref().unwrap_or_else(|what| panic!("{what}"))
}

/// Promise: a guest that knows Xvei rings a doorbell by the number of its request, without an exit,
/// and invalid numbers have no effect (`linux/tests/events.c`).
#[test]
fn guests_can_post_by_number() {
    host().assert_passed(&[
        "sgenvei rings a doorbell",
        "which is not the first",
        "a hundred thousand times",
        "numbers that nobody has given",
        "without an exit",
    ]);
}

/// Promise: a guest's kick arrives even if the doorbell is removed before it was handled.
#[test]
fn a_kick_outlives_its_doorbell() {
    host().assert_passed(&["a kick is heard though its doorbell goes"]);
}

/// Promise: every request of a guest is answered, by a handler that interrupts this guest, or
/// another one on another hart, and whose thread is not woken for it; and by the thread where no
/// guest runs.
#[test]
fn requests_are_answered_wherever_the_handler_runs() {
    host().assert_passed(&[
        "the guest's own CPU: 1000 requests are answered",
        "the guest's own CPU: the thread runs few or none",
        "an idle CPU: 1000 requests are answered",
        "an idle CPU: the thread runs them",
        "a CPU with another guest: 1000 requests are answered",
        "a CPU with another guest: the thread runs few or none",
    ]);
}

/// Promise: a handler sees no register of the guest that it interrupts, and that guest notices
/// nothing.
#[test]
fn guest_and_handler_see_nothing_of_each_other() {
    host().assert_passed(&[
        "the guest's own CPU: the handler finds no register",
        "a CPU with another guest: the handler finds no register",
        "which notices nothing",
        "nor does it of mistakes",
    ]);
}

/// Promise: a handler that is handed over continues at once, though its thread waits by WFI on
/// another hart; there the next tick is up to 4 ms away.
#[test]
fn a_long_handler_does_not_wait_for_a_tick() {
    host().assert_passed(&[
        "requests that take long are answered",
        "by the thread, which they are handed over to",
        "and nobody waits for its tick",
    ]);
}

/// Promise: a back end that cannot have handlers says so at its start, and so does `trapless run`.
#[test]
fn a_handler_without_xhcs_is_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapless"));
    command.args(["run", "--machine", "sstc", "--workload", "blk"]);
    command.args(["--set", "backend=handler", "--time-limit", "10"]);
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let failure = "its last output:\ntrapless-backend: --loop handler needs harts with Xhcs";
    assert!(text.contains(failure), "{text}");
}

/// Promise: a handler that does not end, faults, or dies with its process costs the guest its
/// budget and no more.
#[test]
fn mistakes_of_handlers_are_their_own() {
    let host = host();
    host.assert_passed(&[
        "a handler without end is its thread's",
        "a page that is not there yet",
        "ECALL ends KVM_UCTX_RUN",
        "no floating point",
        "a handler that is not there",
        "memory comes and goes",
        "a child cannot run the handler",
        "another program in the place of the backend: the guest goes on",
        "backend killed in its handler: the guest goes on",
        "a kick whose handler has died is eventfd's",
        "bad utvec: kicks are eventfd's again",
    ]);
    host.assert_result("kvm_test", "0");
}

/// Promise: a handler that reaches for memory that is not its own, whose stack or code others
/// change or take away, whose process is debugged, forks or dies, fails or answers, and its guest
/// continues (`linux/tests/context_hostile.c`).
#[test]
fn hostile_processes_harm_themselves() {
    host().assert_passed(&[
        "devices without a descriptor for them",
        "a stack that is not mapped",
        "a stack of the kernel's",
        "a return address that another thread writes",
        "one of the kernel's",
        "registers of user mode overwritten",
        "a handler whose code is unmapped while it runs",
        "code that comes and goes: the handler answers or fails",
        "a debugger attaches to a process in its handler",
        "and again while requests come: all are answered",
        "vfork() beside the handler",
        "and goes on when the first has died",
        "both died: the guest goes on",
    ]);
}

/// Promise: however long handlers run, they take their budget at a time from the guest that they
/// interrupt, and half of its time in all, and neither that guest nor the thread of the process
/// finds a register changed.
#[test]
fn a_guest_that_is_interrupted_loses_the_budget_and_nothing_else() {
    host().assert_passed(&[
        "kicks without end, and handlers for them",
        "leave another guest its share of the CPU",
        "handlers without end, again and again",
        "take from another guest what the budget says at a time",
        "a guest with numbers in all registers is interrupted",
        "and finds them unchanged",
        "so does the handler's thread",
        "the other guest notices nothing",
    ]);
}

/// Promise: a guest that kicks without end, or accesses a page of doorbells in any other way,
/// neither keeps the host from its work nor changes what it may not.
#[test]
fn hostile_guests_are_bounded() {
    host().assert_passed(&[
        "two vCPUs kick 3000000 times and move",
        "a thread of the host comes in time",
        "and each interrupt tells it of a few",
        "each single kick after that is heard",
        "stores beside doorbells exit",
        "one clears its bits, no other changes any",
        "KVM refuses the rest",
    ]);
}

/// Promise: a process gets no more of other guests' time by a context than by its threads, and what
/// it may inject ends with the irqfd in whose place it does (`linux/tests/context_rights.c`).
#[test]
fn rights_of_a_context_end_with_what_they_come_from() {
    host().assert_passed(&[
        "a large budget or a CPU that a process may not use is refused",
        "the usual one and a CPU of its own are not",
        "nor anything with CAP_SYS_NICE",
        "a handler injects what an irqfd does",
        "not after that has another route",
        "again, when it has the old one",
        "and not after it has gone",
    ]);
}

/// Promise: an ordinary user who creates, uses and closes contexts as often as it can interrupts no
/// CPU on which no guest has agreed to that, so neither idle nor isolated ones.
#[test]
fn cpus_without_guests_are_left_alone() {
    host().assert_passed(&["a user's contexts come and go", "other CPUs are left alone"]);
}

/// Promise: handlers of other processes take no time from a guest unless its VMM has agreed, nor on
/// a CPU that is taken away from the process after it has named it.
#[test]
fn only_guests_that_have_agreed_are_interrupted() {
    host().assert_passed(&[
        "a guest that has not agreed is not interrupted by handlers",
        "one that has agreed is",
        "until its CPU is taken away from the thread",
        "who has vCPUs does not agree any more, nor to what is unknown",
    ]);
}

/// Promise: a user who may open `/dev/kvm` takes a stated share of what all need: no interrupt
/// number and a few hundred bytes for a doorbell, in the account of its memory cgroup; some user
/// contexts, some interrupt domains (`linux/tests/hog.c`).
#[test]
fn a_user_takes_a_share_and_no_more() {
    host().assert_passed(&[
        "ioeventfds take none of the host's interrupts",
        "and little of its memory",
        "however far they are apart",
        "a user has 16 user contexts",
        "and 256 interrupt domains",
        "doorbells are in the account of a memory group",
    ]);
}

/// Promise: a kick arrives in time though the CPU that is notified of it would sleep, and a CPU
/// that comes later forgets pages that a process unmaps.
#[test]
fn cpus_that_sleep_or_come_miss_nothing() {
    host().assert_passed(&[
        "a CPU that nobody tells anything is suspended",
        "and wakes up for the first doorbell",
        "one that is told is not: a kick is heard",
        "is told of pages that are unmapped",
    ]);
}

/// Promise: the hart that a context names can be switched off and on while requests are made.
#[test]
fn requests_survive_harts_that_come_and_go() {
    host().assert_passed(&["a CPU goes and comes ten times: all are answered"]);
}

/// Promise: no request is lost while vCPUs and processes move, are interrupted, die and come again,
/// with one, two and four vCPUs for each hart (`linux/tests/context_stress.c`).
#[test]
fn whatever_happens_meanwhile_all_requests_are_answered() {
    let all = host().console.matches("killed: all answered").count();
    let failed = host().console.contains("FAIL");
    assert!(all == 3 && !failed, "{}", host().console);
}

/// Promise: requests of a stock guest's virtio disk, served by a process in user mode on the
/// guest's own hart, cost no exit, no system call and no wake-up. What is left are the host's
/// timer, the guest's console, and what these disturb.
#[test]
fn a_virtio_disk_is_served_without_anybody_being_scheduled() {
    let job = |r: &&crate::runs::Run| r.job.set == BLK_HANDLER;
    let run = logged().find(job).expect("it is in JOBS");
    let section = run.ledger.workload();
    let events = section.events.clone().unwrap_or_default();
    assert!(events.doorbell >= REQUESTS, "{events:?}");
    assert!(events.handled * 10 >= events.doorbell * 9, "{events:?}");
    assert_eq!(events.exits, 0, "{events:?}");
    let of_requests = |key: &&str| key.starts_with("mmio.virtio") || *key == "event";
    let reasons: Vec<_> = section.exits.keys().map(|key| key.as_str()).collect();
    assert!(!reasons.iter().any(of_requests), "{reasons:?}");
    let exits: u64 = section.exits.values().map(|exit| exit.exits).sum();
    assert!(exits * 4 < REQUESTS, "{exits} exits: {reasons:?}");
}

/// Promise: what guests send each other over a cable is moved by handlers: no exit is for a message
/// but those of waiting, and of telling the host that the receiver, who shares the hart, has one.
#[test]
fn guests_send_each_other_messages_without_exits() {
    let job = |r: &&crate::runs::Run| r.job.set == CABLE_HANDLER;
    let run = runs().iter().find(job).expect("it is in JOBS");
    let section = run.ledger.workload();
    let events = section.events.clone().unwrap_or_default();
    // A message and its answer.
    assert!(events.handled >= 2 * REQUESTS, "{events:?}");
    let waiting = ["wfi", "host_timer", "ipi_receive", "notification"];
    let exits = section.exits.iter();
    let others = exits.filter(|(key, _)| !waiting.contains(&key.as_str()));
    let count: u64 = others.map(|(_, exit)| exit.exits).sum();
    assert!(count * 4 < REQUESTS, "{:?}", section.exits);
}
