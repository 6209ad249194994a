//! The trace, read back.

mod decoded;
mod synthetic;

use std::collections::BTreeMap;

use decoded::Trace;
use trapless_isa::Mode::{self, HS, M, U, VS};
use trapless_isa::cause::{INTERRUPT, exception, interrupt};
use trapless_isa::xtrapless::state;
use trapless_ledger::event::{Event, Guest, Raise, Return, Sink, StepKind, Trap, VirtualStep};
use trapless_ledger::{Config, Ledger};
use trapless_report::PerfettoTrace;

/// A trace, and a ledger of the same events.
type Both = (PerfettoTrace<Vec<u8>>, Ledger);

fn both() -> Both {
    // A cycle is a nanosecond.
    let trace = PerfettoTrace::new(Vec::new(), "sbi", 1_000_000_000, Config::new(2));
    (trace, Ledger::new(Config::new(2)))
}

fn mark(both: &mut Both, name: &str, time: u64) {
    both.0.mark(name, time);
    both.1.mark(name, time);
}

fn finish((trace, mut ledger): Both, time: u64) -> (Vec<u8>, Ledger) {
    ledger.finish(time);
    (trace.finish(time).unwrap(), ledger)
}

/// A guest with two vCPUs, some work of which is in a phase, and a lookup that tells hart 1.
fn played() -> (Vec<u8>, Ledger) {
    let mut player = synthetic::Player::new(both());
    player.boot();
    let time = player.time;
    mark(&mut player.sink, "workload", time);
    (0..50).for_each(|_| player.wake_up(false));
    let time = player.time;
    mark(&mut player.sink, "after", time);
    let guest = Guest::default();
    player.sink.record(&Event::Virtual(VirtualStep {
        time,
        hart: 0,
        mode: VS,
        by_device: false,
        domain: 1,
        kind: StepKind::Hit { vhart: 1, on: 1 },
        memory: 0,
    }));
    player.sink.record(&Event::Raise(Raise {
        time,
        hart: 1,
        irq: 2,
        guest,
    }));
    finish(player.sink, time)
}

#[test]
fn tracks_of_harts_show_modes_traps_and_flows() {
    let trace = Trace::read(&played().0);
    let hart = trace.track("hart 0");
    assert!(hart.slices.iter().all(|slice| slice.depth == 0));
    let idle = hart.slices.iter().filter(|s| s.name == "idle").count();
    assert_eq!(idle, 50);
    let calls = hart.instants.iter().filter(|i| *i == "VS>HS ecall TIME.0");
    assert_eq!(calls.count(), 50);
    assert_eq!(trace.joined["raise MTI -> HS>M MTI"], 50);
    assert_eq!(trace.joined["raise VSTI -> VS>VS STI"], 50);
    assert_eq!(trace.joined["hit -> raise VSSI"], 1);
}

#[test]
fn tracks_are_a_tree_of_phases_harts_and_vms() {
    let trace = Trace::read(&played().0);
    let groups = ["VM 1/exits/", "VM 1/exits per ms/", "VM 1/reasons/"];
    let inside = |path: &&str| groups.iter().any(|group| path.starts_with(group));
    let (members, tracks): (Vec<&str>, Vec<&str>) = trace.paths().into_iter().partition(inside);
    let expected = [
        "phases",
        "hart 0",
        "hart 1",
        "VM 1",
        "VM 1/vCPU 0",
        "VM 1/vCPU 1",
        "VM 1/exits",
        "VM 1/exits per ms",
        "VM 1/reasons",
    ];
    assert_eq!(tracks, expected);
    let parts = ["exits", "exits per ms", "reasons"].map(|group| trace.below(group).count());
    assert_eq!(members.len(), parts.iter().sum::<usize>());
    assert!(parts.iter().all(|n| *n > 1), "{parts:?}");
}

/// Promise: slices of a vCPU follow each other without a gap, and exits are the ledger's.
#[test]
fn vcpus_show_the_exits_of_the_ledger() {
    let (bytes, mut ledger) = played();
    let trace = Trace::read(&bytes);
    let section = ledger.total_section();
    let exits = section.exits.iter();
    let counted: BTreeMap<String, u64> = exits.map(|(key, e)| (key.to_string(), e.exits)).collect();
    assert_eq!(trace.exits(), counted);
    assert!(counted.len() > 4, "{counted:?}");
    for vcpu in trace.vcpus() {
        let outer = vcpu.by_begin().into_iter().filter(|s| s.depth == 0);
        let outer: Vec<_> = outer.collect();
        let gap = outer.windows(2).find(|pair| pair[0].end != pair[1].begin);
        assert_eq!(gap, None, "{}", vcpu.path);
    }
    let guest = trace.track("vCPU 0").by_begin();
    assert!(guest.iter().any(|s| s.name == "scheduled_off"));
}

/// Promise: counters rise by one with each exit, to the ledger's totals of each class.
#[test]
fn counters_grow_to_the_totals_of_the_ledger() {
    let (bytes, mut ledger) = played();
    let trace = Trace::read(&bytes);
    let mut classes: BTreeMap<String, u64> = BTreeMap::new();
    for (key, exit) in &ledger.total_section().exits {
        *classes.entry(key.class().to_string()).or_default() += exit.exits;
    }
    for counter in trace.counters() {
        let values = counter.values.iter().map(|(_, value)| *value);
        assert!(values.eq(1..=classes[counter.name()]), "{}", counter.path);
    }
    assert_eq!(trace.counters().count(), classes.len());
}

/// Promise: the track of a reason has an instant for each exit that the ledger counts, named by
/// who made it.
#[test]
fn reasons_have_tracks_of_their_own() {
    let (bytes, mut ledger) = played();
    let trace = Trace::read(&bytes);
    let shown = trace
        .below("reasons")
        .map(|t| (t.name().to_string(), t.instants.len() as u64));
    let exits = ledger.total_section().exits;
    let counted = exits.iter().map(|(key, e)| (key.to_string(), e.exits));
    assert_eq!(
        shown.collect::<BTreeMap<_, _>>(),
        counted.collect::<BTreeMap<_, _>>()
    );
    let all = &trace.track("reasons/ipi_send").instants;
    assert!(all.iter().all(|name| name == "vCPU 0"), "{all:?}");
}

/// Promise: a guest that makes up reasons gets no more than 64 tracks.
#[test]
fn tracks_of_reasons_are_bounded() {
    let mut s = script();
    s.ret(HS, VS);
    for csr in 0..100 {
        s.trap(VS, HS, exception::VIRTUAL_INSTRUCTION, csr << 20 | 0x2073);
        s.ret(HS, VS);
    }
    let time = s.time;
    let trace = Trace::read(&finish(s.sink, time).0);
    assert_eq!(trace.below("reasons").count(), 65);
    let instants = trace.below("reasons").map(|t| t.instants.len());
    assert_eq!(instants.sum::<usize>(), 100);
    assert_eq!(trace.track("reasons/others").instants.len(), 36);
}

/// Promise: a rate is the number of exits in its millisecond, and 0 after it.
#[test]
fn rates_are_exits_of_each_millisecond() {
    let mut s = script();
    let wfi = |s: &mut Script, time| {
        s.time = time;
        s.trap(VS, HS, exception::VIRTUAL_INSTRUCTION, 0x1050_0073);
        s.ret(HS, VS);
    };
    s.ret(HS, VS);
    for time in [500, 600, 700, 1_000_500, 4_200_000, 4_300_000] {
        wfi(&mut s, time);
    }
    s.time = 4_400_000;
    s.trap(VS, HS, INTERRUPT | interrupt::VSTI, 0);
    let (bytes, _) = finish(s.sink, 4_500_000);
    let trace = Trace::read(&bytes);
    let other = &trace.track("exits per ms/other").values;
    let expected = [(0, 3), (1_000_000, 1), (2_000_000, 0), (4_000_000, 2)];
    assert_eq!(*other, expected);
    assert_eq!(trace.track("exits per ms/timer").values, [(4_000_000, 1)]);
}

#[test]
fn phases_are_those_of_the_ledger() {
    let (bytes, mut ledger) = played();
    let trace = Trace::read(&bytes);
    let file = ledger.to_file(Default::default(), None);
    let counted = file.phases.into_iter();
    let counted: Vec<_> = counted.map(|p| (p.name, p.from, p.totals.cycles)).collect();
    let slices = trace.track("phases").by_begin().into_iter();
    let shown: Vec<_> = slices.map(|s| (s.name, s.begin, s.end - s.begin)).collect();
    assert_eq!(shown, counted);
    assert_eq!(shown.len(), 3);
}

/// Promise: a phase that continues is shown again, and those beyond the ledger's bound are one.
#[test]
fn phases_come_again_and_are_bounded() {
    let mut player = both();
    for (time, name) in ["a", "b", "a"].into_iter().enumerate() {
        mark(&mut player, name, 10 * time as u64);
    }
    (0..100).for_each(|n| mark(&mut player, &format!("p{n}"), 100 + n));
    let (bytes, mut ledger) = finish(player, 200);
    let slices = Trace::read(&bytes).track("phases").by_begin();
    let names: Vec<&str> = slices.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names[..4], ["start", "a", "b", "a"]);
    let kept = ledger.to_file(Default::default(), None).phases;
    assert_eq!(*names.last().unwrap(), kept.last().unwrap().name);
}

/// Sends events of one guest, 10 cycles after each other.
struct Script {
    sink: Both,
    time: u64,
    hart: usize,
}

const GUEST: Guest = Guest {
    vmid: 3,
    context: 0x1000,
};

impl Script {
    fn trap(&mut self, from: Mode, to: Mode, cause: u64, insn: u32) {
        self.time += 10;
        self.sink.record(&Event::Trap(Trap {
            time: self.time,
            hart: self.hart,
            from,
            to,
            guest: GUEST,
            cause,
            epc: 0x100,
            tval: 0,
            gpa: 0,
            insn,
            args: [0; 4],
            htimedelta: 0,
            instret: 0,
        }));
    }

    fn ret(&mut self, from: Mode, to: Mode) {
        self.time += 10;
        self.sink.record(&Event::Return(Return {
            time: self.time,
            hart: self.hart,
            from,
            to,
            guest: GUEST,
            pc: 0x100,
            instret: 0,
            masked: false,
        }));
    }

    fn step(&mut self, kind: StepKind) {
        self.time += 10;
        self.sink.record(&Event::Virtual(VirtualStep {
            time: self.time,
            hart: self.hart,
            mode: HS,
            by_device: false,
            domain: 7,
            kind,
            memory: 0,
        }));
    }
}

fn script() -> Script {
    Script {
        sink: both(),
        time: 0,
        hart: 0,
    }
}

/// Slices of the only vCPU: begin, end, depth, category and name.
fn slices(script: Script, path: &str) -> Vec<(u64, u64, usize, String)> {
    let time = script.time + 10;
    let (bytes, mut ledger) = finish(script.sink, time);
    let trace = Trace::read(&bytes);
    let exits: u64 = trace.exits().values().sum();
    assert_eq!(exits, ledger.total_section().guest_exits);
    let shown = trace.track(path).by_begin().into_iter();
    let line = |s: decoded::Slice| {
        (
            s.begin,
            s.end,
            s.depth,
            format!("{} {}", s.category, s.name),
        )
    };
    shown.map(line).collect()
}

fn expected(list: &[(u64, u64, usize, &str)]) -> Vec<(u64, u64, usize, String)> {
    let owned = |s: &(u64, u64, usize, &str)| (s.0, s.1, s.2, s.3.to_string());
    list.iter().map(owned).collect()
}

/// Promise: firmware that resumes the guest makes no exit; one that hands its trap on does.
#[test]
fn firmware_is_shown_inside_the_guest() {
    let mut s = script();
    s.ret(HS, VS); // 10
    s.trap(VS, M, INTERRUPT | interrupt::MTI, 0);
    s.ret(M, VS);
    s.trap(VS, HS, INTERRUPT | interrupt::STI, 0);
    s.ret(HS, VS); // 50
    s.trap(VS, M, exception::ILLEGAL, 0x1050_0073);
    s.ret(M, HS);
    s.trap(HS, M, exception::ECALL_S, 0);
    s.ret(M, HS);
    s.ret(HS, VS); // 100
    let list = [
        (10, 40, 0, "guest running on hart 0"),
        (20, 30, 1, "firmware firmware"),
        (40, 50, 0, "exit host_timer"),
        (50, 70, 0, "guest running on hart 0"),
        (60, 70, 1, "firmware firmware"),
        (70, 100, 0, "exit wfi"),
        (100, 110, 0, "guest running on hart 0"),
    ];
    assert_eq!(slices(s, "VM 3/vCPU 0"), expected(&list));
}

/// Promise: with slots the trace shows how a vCPU was left, and an exit is over when it is.
#[test]
fn slots_show_how_a_vcpu_was_left() {
    let halted = StepKind::Detached {
        vhart: 5,
        state: state::HALTED as u8,
    };
    let mut s = script();
    s.step(StepKind::Attached { vhart: 5 });
    s.ret(HS, VS); // 20
    s.trap(VS, HS, exception::VIRTUAL_INSTRUCTION, 0x1050_0073);
    s.step(halted);
    // It moves.
    s.hart = 1;
    s.step(StepKind::Attached { vhart: 5 }); // 50
    s.ret(HS, VS);
    let list = [
        (20, 30, 0, "guest running on hart 0"),
        (30, 40, 0, "exit wfi"),
        (40, 50, 0, "scheduled_off halted"),
        (50, 60, 0, "host paused"),
        (60, 70, 0, "guest running on hart 1"),
    ];
    assert_eq!(slices(s, "VM 3, domain 7/vCPU 5"), expected(&list));
}

/// Promise: without slots a vCPU is off from the return to user space, and what another hart shows
/// does not bring it back.
#[test]
fn a_return_to_user_space_ends_an_exit() {
    let mut s = script();
    s.ret(HS, VS); // 10
    s.trap(VS, HS, exception::VIRTUAL_INSTRUCTION, 0x1050_0073);
    s.ret(HS, U); // 30
    s.trap(U, HS, exception::ECALL_U, 0);
    s.hart = 1;
    s.ret(HS, VS); // 50
    s.hart = 0;
    s.ret(HS, U);
    let list = [
        (10, 20, 0, "guest running on hart 0"),
        (20, 30, 0, "exit wfi"),
        (30, 50, 0, "scheduled_off scheduled_off"),
        (50, 70, 0, "guest running on hart 1"),
    ];
    assert_eq!(slices(s, "VM 3/vCPU 0"), expected(&list));
}

#[test]
#[ignore = "writes a file to look at in the viewer"]
fn write_a_trace_to_look_at() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join("trace.perfetto-trace");
    std::fs::write(&path, played().0).unwrap();
    eprintln!("{}", path.display());
}
