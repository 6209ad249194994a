//! A guest's writes of its timer may be recorded as a sum: the ledger must be the same as with each
//! of them.

mod script;

use script::{Script, V0};
use trapless_isa::Mode::{HS, VS};
use trapless_isa::cause::interrupt::VSTI;
use trapless_ledger::event::{Sink, TimerSet, TimerSets};

const NEVER: u64 = u64::MAX;

/// A vCPU that programs its timer by `deadlines`, one write after the other or all as one sum,
/// after a timer that may already run, and before one that fires.
fn ledger(before: Option<u64>, deadlines: &[u64], sum: bool) -> String {
    let mut script = Script::new();
    script.ret(HS, VS);
    if let Some(deadline) = before {
        script.timer(deadline);
    }
    if sum {
        let first = script.time + 10;
        script.time += 10 * deadlines.len() as u64;
        script.ledger.timer_sets(&TimerSets {
            last: TimerSet {
                time: script.time,
                hart: 0,
                mode: VS,
                guest: V0,
                deadline: *deadlines.last().expect("some writes"),
            },
            first,
            writes: deadlines.len() as u64,
            armed: deadlines.iter().filter(|&&d| d != NEVER).count() as u64,
        });
    } else {
        for &deadline in deadlines {
            script.timer(deadline);
        }
    }
    script
        .raise(VSTI as u8)
        .irq(VS, VS, 5)
        .ret(VS, VS)
        .timer(NEVER);
    script.ledger.finish(10_000);
    serde_json::to_string(&script.ledger.total_section()).expect("a section is JSON")
}

#[test]
fn a_sum_counts_as_each_of_its_writes() {
    let cases: [&[u64]; 6] = [
        &[700],
        &[NEVER],
        &[700, 800],
        &[700, NEVER, 900],
        &[NEVER, NEVER, 900, NEVER],
        &[900, 800, 700, 701],
    ];
    for before in [None, Some(NEVER), Some(5), Some(500)] {
        for deadlines in cases {
            let single = ledger(before, deadlines, false);
            assert_eq!(
                ledger(before, deadlines, true),
                single,
                "{before:?} {deadlines:?}"
            );
        }
    }
}

#[test]
fn sums_are_taken_only_where_no_sink_wants_each_event() {
    let script = Script::new();
    assert!(script.ledger.sums_timer_sets());
    let stream = trapless_ledger::EventStream::new(Vec::new(), 10);
    assert!(!(script.ledger, stream).sums_timer_sets());
}
