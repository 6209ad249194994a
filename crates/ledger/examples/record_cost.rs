//! How much recording costs: nanoseconds per event for the event mix of a guest timer tick.
//!
//! `cargo run --release -p trapless-ledger --example record_cost`

use std::hint::black_box;
use std::time::Instant;

use trapless_isa::Mode;
use trapless_isa::cause::{INTERRUPT, exception};
use trapless_isa::sbi::eid;
use trapless_ledger::event::{Discard, Event, Guest, Return, Sink, Trap};
use trapless_ledger::{Config, Ledger};

const ROUNDS: u64 = 2_000_000;

fn main() {
    let events = tick();
    let off = measure(&events, Box::new(Discard));
    let on = measure(&events, Box::new(Ledger::new(Config::new(2))));
    println!("off {off:.1} ns, on {on:.1} ns per event");
}

fn measure(events: &[Event], mut sink: Box<dyn Sink>) -> f64 {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for event in events {
            sink.record(black_box(event));
        }
    }
    start.elapsed().as_nanos() as f64 / (ROUNDS * events.len() as u64) as f64
}

/// set_timer through host and firmware, then the guest's own interrupt.
fn tick() -> Vec<Event> {
    let guest = Guest {
        vmid: 1,
        context: 0x1000,
    };
    let trap = |from, to, cause| {
        Event::Trap(Trap {
            time: 100,
            hart: 0,
            from,
            to,
            guest,
            cause,
            epc: 0,
            tval: 0,
            gpa: 0,
            insn: 0,
            args: [50, 0, 0, eid::TIME],
            htimedelta: 0,
            instret: 0,
        })
    };
    let ret = |from, to| {
        Event::Return(Return {
            time: 100,
            hart: 0,
            from,
            to,
            guest,
            pc: 0,
            instret: 0,
            masked: false,
        })
    };
    vec![
        trap(Mode::VS, Mode::HS, exception::ECALL_VS),
        trap(Mode::HS, Mode::M, exception::ECALL_S),
        ret(Mode::M, Mode::HS),
        ret(Mode::HS, Mode::VS),
        trap(Mode::VU, Mode::VS, INTERRUPT | 5),
        ret(Mode::VS, Mode::VU),
    ]
}
