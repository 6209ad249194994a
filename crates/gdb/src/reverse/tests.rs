//! Ways back, compared with what a way forward came by.

use gdbstub::target::ext::breakpoints::WatchKind;
use trapless_asm::reg::{A0, S0, S1, S2, T0, T1, T2, ZERO};
use trapless_asm::{Asm, Label};
use trapless_hart::Tiers;
use trapless_isa::csr::{MHARTID, MIE, MSTATUS, MTVEC};
use trapless_machine::{Engine, MachineConfig, Payload, Peripherals};

use super::*;
use crate::breaks::Watch;

const RAM: u64 = 0x8000_0000;
const WORD: u64 = RAM + 0x10_0000;
/// Cycles that the program runs.
const END: u64 = 200_000;
/// Stops that are gone back to; many more are the same again and again.
const MOST: usize = 20;

/// Harts that count in a word of their own and in one of all, and sometimes in another one, while
/// timers interrupt them. Returns the addresses of some instructions that make no access.
fn program() -> (Asm, [u64; 3]) {
    const MTIME: u64 = 0x200_bff8;
    const MTIMECMP: u64 = 0x200_4000;
    let mut a = Asm::new(RAM);
    let (start, handler): (Label, Label) = (a.label(), a.label());
    a.j(start);
    a.bind(handler);
    a.csrw(0x340, T0).csrw(0x343, T1);
    let in_handler = a.pc();
    a.addi(A0, A0, 1);
    a.li(T0, MTIME).ld(T0, T0, 0).addi(T0, T0, 200);
    a.csrr(T1, MHARTID).slli(T1, T1, 3).add(T1, T1, S2);
    a.sd(T0, T1, 0);
    a.csrr(T1, 0x343).csrr(T0, 0x340).mret();
    a.bind(start);
    let vector = a.address(handler);
    a.li(T0, vector).csrw(MTVEC, T0);
    a.li(S2, MTIMECMP).li(S0, WORD);
    a.csrr(T1, MHARTID).slli(T1, T1, 3);
    a.add(T2, T1, S2).li(T0, 30).sd(T0, T2, 0);
    // A page for each hart, and the common one.
    a.slli(T1, T1, 9).addi(T1, T1, 0x100).add(T1, T1, S0);
    a.li(T0, 1 << 7).csrw(MIE, T0).li(T0, 8).csrs(MSTATUS, T0);
    let again = a.here();
    let often = a.pc();
    a.addi(S1, S1, 1);
    a.sd(S1, T1, 0).ld(T2, T1, 0);
    a.addi(T0, ZERO, 1).amoadd(T2, T0, S0);
    a.andi(T2, S1, 63).bne(T2, ZERO, again);
    let seldom = a.pc();
    a.addi(T2, ZERO, 5);
    a.sb(S1, S0, 0x43).j(again);
    (a, [in_handler, often, seldom])
}

fn machine(engine: Engine, code: &Asm) -> Machine {
    let config = MachineConfig {
        engine,
        harts: 2,
        ram: 16 << 20,
        ..MachineConfig::preset("sstc").unwrap()
    };
    let payload = Payload {
        firmware: Some(code.finish()),
        ..Payload::default()
    };
    let quiet = Peripherals::new(Box::new(std::io::sink()));
    Machine::boot(config, &payload, quiet).unwrap()
}

/// Stops at each place that a way back would.
struct Forward<'a> {
    breaks: &'a Breaks,
    /// The access that was made last.
    made: Option<(usize, Watch)>,
    stopped: bool,
    found: Option<(usize, Hit)>,
}

impl Observer for Forward<'_> {
    fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
        let id = hart.id();
        if !std::mem::take(&mut self.stopped) {
            let made = self.made.take();
            let made = made.map(|(hart, watch)| (hart, Hit::Watch(watch)));
            self.found = self.breaks.breakpoint(pc).map(|hit| (id, hit)).or(made);
            self.stopped = self.found.is_some();
            if self.stopped {
                return false;
            }
        }
        self.made = self.breaks.watched(hart, inst).map(|watch| (id, watch));
        true
    }
}

/// All stops up to the end, in order.
fn forward(machine: &mut Machine, breaks: &Breaks) -> Vec<(Place, usize, Hit)> {
    let mut forward = Forward {
        breaks,
        made: None,
        stopped: false,
        found: None,
    };
    let limits = Limits {
        until: END,
        ..Limits::default()
    };
    let mut stops = Vec::new();
    while let Outcome::Observer(_) = machine.run_observed(&limits, Some(&mut forward)) {
        let (hart, hit) = forward.found.unwrap();
        stops.push((machine.place(), hart, hit));
    }
    stops
}

fn travel(goal: Goal, machine: &mut Machine, history: &mut History, breaks: &Breaks) -> Progress {
    let mut travel = Travel::new(goal, machine);
    loop {
        match travel.go_on(machine, history, breaks) {
            Progress::Ongoing => {}
            way => return way,
        }
    }
}

fn breaks(addresses: &[u64], watches: &[(u64, u64, WatchKind)]) -> Breaks {
    let mut breaks = Breaks::default();
    addresses.iter().for_each(|&at| breaks.add(false, at));
    for &(addr, len, kind) in watches {
        breaks.add_watch(Watch { addr, len, kind });
    }
    breaks.resumed();
    breaks
}

/// Promise: a way back comes by each breakpoint and each watched access that a way forward comes
/// by, in the opposite order, and then forward the machine ends as if it had not gone back.
#[test]
fn a_way_back_is_the_way_forward_turned_round() {
    use WatchKind::{Read, ReadWrite, Write};
    let (code, [in_handler, often, seldom]) = program();
    let cases = [
        (vec![in_handler], vec![]),
        (vec![seldom], vec![(WORD + 0x43, 1, Write)]),
        (vec![in_handler, seldom], vec![(WORD + 0x40, 8, ReadWrite)]),
        (vec![], vec![(WORD + 0x43, 1, Read)]),
        (vec![in_handler], vec![(WORD + 0x50, 0xAF, ReadWrite)]),
        (vec![often], vec![]),
        (vec![], vec![(WORD, 8, Read)]),
        (vec![often], vec![(WORD + 0x1100, 2, Write)]),
    ];
    let mut to_beginning = 0;
    for engine in [Engine::Jit(Tiers::EAGER), Engine::Interp] {
        for (addresses, watches) in &cases {
            let breaks = breaks(addresses, watches);
            let mut known = machine(engine, &code);
            let mut expected = forward(&mut known, &breaks);
            let (end, hash) = (known.place(), known.state_hash());

            let mut machine = machine(engine, &code);
            let mut history = History::new(1 << 30);
            history.begin(&mut machine);
            for until in (END / 5..=END).step_by(END as usize / 5) {
                let limits = Limits {
                    until,
                    ..Limits::default()
                };
                machine.run(&limits);
                if until < END {
                    history.keep(&mut machine);
                }
            }
            assert_eq!((machine.place(), machine.state_hash()), (end, hash));
            let all = expected.len();
            expected.drain(..all.saturating_sub(MOST));
            while let Some((place, hart, hit)) = expected.pop() {
                let way = travel(Goal::Continue, &mut machine, &mut history, &breaks);
                assert_eq!(
                    way,
                    Progress::Stopped(hart, hit),
                    "{engine:?} {} left",
                    expected.len()
                );
                assert_eq!(machine.place(), place, "{engine:?} {hit:?}");
                if let Hit::Watch(_) = hit {
                    // As gdb undoes it.
                    let way = travel(Goal::Step(hart), &mut machine, &mut history, &breaks);
                    assert_eq!(way, Progress::Stopped(hart, Hit::Step));
                }
            }
            if all <= MOST {
                let way = travel(Goal::Continue, &mut machine, &mut history, &breaks);
                assert_eq!(way, Progress::Beginning);
                assert_eq!(Some(machine.place()), history.beginning());
            }
            let (mut none, mut passed) = (Breaks::default(), false);
            while history.present().is_some() {
                towards_present(&mut machine, &mut history, &mut none, &mut passed);
            }
            assert_eq!((machine.place(), machine.state_hash()), (end, hash));
            to_beginning += usize::from((1..=MOST).contains(&all));
        }
    }
    assert!(to_beginning >= 2);
}
