//! `/proc/interrupts` of host and guest, before and after the workload, against the events of the
//! log (which `determinism::log_and_ledger_agree` ties to the ledger).
//!
//! The tables are read while the machine runs, so the question is when. `cat` reads one with a
//! single `sendfile` call, which the log shows: what came before the call is in the table, what
//! came after it is not. An interrupt *during* the call (0.1 ms) can be on either side, as can one
//! that another processor handles meanwhile: Linux counts it when the handler begins, and the log
//! shows when it ends. All others are reported exactly.

use trapless_ledger::document::{Section, TrapCount};

use crate::console::{Interrupts, Row};
use crate::log::{Event, Kind};
use crate::runs::{Run, logged};

/// `sendfile` in Linux's generic system call table.
const SENDFILE: u64 = 71;
/// Harts are ahead of each other by at most a quantum, in cycles.
const QUANTUM: u64 = 1_000;
/// Cycles (1 ms) that a sent IPI may be on its way to a vCPU that sleeps or is preempted: it is
/// counted where it arrives, and the event is its sending.
const ON_ITS_WAY: u64 = 1_000_000;
/// Window of the PLIC's contexts, of host and guest: both use QEMU's memory map.
const PLIC_CONTEXTS: std::ops::Range<u64> = 0xC20_0000..0x1000_0000;

/// The abbreviation that the log uses for an interrupt.
pub fn short(cause: &str) -> &str {
    match cause {
        "supervisor software interrupt" => "SSI",
        "machine software interrupt" => "MSI",
        "supervisor timer interrupt" => "STI",
        "machine timer interrupt" => "MTI",
        "supervisor external interrupt" => "SEI",
        "machine external interrupt" => "MEI",
        "virtual supervisor software interrupt" => "VSSI",
        "virtual supervisor timer interrupt" => "VSTI",
        "virtual supervisor external interrupt" => "VSEI",
        "notification interrupt" => "NOTIFY",
        "event interrupt" => "VEI",
        other => other,
    }
}

/// Whose table it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Host,
    Guest,
}

/// A processor as its Linux numbers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Processor<'a> {
    /// Hart number.
    Hart(usize),
    /// A vCPU: its context, and its hart number in the guest.
    Vcpu(&'a str, u64),
}

impl Processor<'_> {
    /// Whether `event` happened on it.
    fn ran(self, event: &Event) -> bool {
        match self {
            Self::Hart(hart) => event.hart == hart,
            Self::Vcpu(context, _) => event.field("vcpu") == Some(context),
        }
    }

    /// Its number for SBI.
    fn number(self) -> u64 {
        match self {
            Self::Hart(hart) => hart as u64,
            Self::Vcpu(_, number) => number,
        }
    }
}

/// Processors in Linux's order: the one that booted first, then by number.
fn processors(run: &Run, side: Side) -> Vec<Processor<'_>> {
    match side {
        Side::Host => {
            // The first to leave firmware for the kernel booted.
            let boot = run
                .log
                .events
                .iter()
                .find(|e| e.kind == Kind::Return && e.step == "M>HS");
            let boot = boot.expect("a hart boots").hart;
            let others = (0..run.ledger.total.harts.len()).filter(|h| *h != boot);
            std::iter::once(boot)
                .chain(others)
                .map(Processor::Hart)
                .collect()
        }
        Side::Guest => {
            let vcpu =
                |v: &trapless_ledger::document::VcpuInfo| v.vhart.expect("vCPUs are distinguished");
            let mut vcpus: Vec<_> = run.ledger.vcpus.iter().collect();
            vcpus.sort_by_key(|v| vcpu(v));
            let list = vcpus
                .iter()
                .map(|v| Processor::Vcpu(v.context.as_str(), vcpu(v)));
            list.collect()
        }
    }
}

/// One kind of interrupt: the rows of the table, and the events that must be as many.
struct Rule {
    name: &'static str,
    row: fn(&Row) -> bool,
    event: fn(Side, Processor, &Event) -> bool,
}

const RULES: [Rule; 8] = [
    Rule {
        name: "timer",
        row: |r| r.about.ends_with("riscv-timer"),
        event: timer,
    },
    Rule {
        name: "devices",
        row: |r| r.about.contains("PLIC") || r.about.contains("RISC-V trapless"),
        event: completion,
    },
    Rule {
        name: "IPIs",
        row: |r| r.name.starts_with("IPI"),
        event: ipi,
    },
    Rule {
        name: "a vCPU's IPIs at V=0",
        row: |r| r.about.ends_with("kvm-vs-soft"),
        event: |side, processor, e| at_host(side, processor, e, "VSSI"),
    },
    Rule {
        name: "a vCPU's timer at V=0",
        row: |r| r.about.ends_with("kvm-vs-timer"),
        event: |side, processor, e| at_host(side, processor, e, "VSTI"),
    },
    Rule {
        name: "a vCPU's devices at V=0",
        row: |r| r.about.ends_with("kvm-vs-ext"),
        event: |side, processor, e| at_host(side, processor, e, "VSEI"),
    },
    Rule {
        name: "notifications",
        row: |r| r.about.ends_with("kvm-notify"),
        event: |side, processor, e| at_host(side, processor, e, "NOTIFY"),
    },
    Rule {
        name: "interrupts by events",
        row: |r| r.about.ends_with("kvm-event"),
        event: |side, processor, e| at_host(side, processor, e, "VEI"),
    },
];

/// An interrupt that Xtrapless raises for the host while the guest does not run.
fn at_host(side: Side, processor: Processor, e: &Event, cause: &str) -> bool {
    side == Side::Host && taken(e, &["U>HS", "HS>HS"], cause) && processor.ran(e)
}

/// A supervisor timer interrupt taken by this Linux itself. One that ends a guest's run (VS>HS) is
/// still pending when KVM lets interrupts in, and is taken, and counted, from HS then.
fn timer(side: Side, processor: Processor, e: &Event) -> bool {
    let steps = match side {
        Side::Host => ["U>HS", "HS>HS"],
        Side::Guest => ["VU>VS", "VS>VS"],
    };
    taken(e, &steps, "STI") && processor.ran(e)
}

/// An interrupt that Linux handles. One that ends the handler of a guest is taken again, as one
/// that ends a guest's run is.
fn taken(e: &Event, steps: &[&str], cause: &str) -> bool {
    e.is_trap(steps, cause) && !e.in_handler
}

/// A completion written to the PLIC: Linux writes one for each interrupt it handles, several for
/// one external interrupt if more are pending. The guest's are exits to its emulated PLIC, or
/// `vsclaim`; edge-triggered sources are claimed only.
fn completion(side: Side, processor: Processor, e: &Event) -> bool {
    if e.is_step("VS", "completed") || e.edge.is_some() {
        // Its driver completes each source when it starts, before anything is claimed.
        let handled = e.claimed_for.is_some() || e.edge.is_some();
        return side == Side::Guest && handled && e.number("vhart") == Some(processor.number());
    }
    let addr = match side {
        Side::Host if e.kind == Kind::Write && e.step == "HS" => e.addr,
        Side::Guest if e.is_trap(&["VS>HS"], "store/AMO guest-page fault") => {
            e.hex("gpa").unwrap_or_default()
        }
        _ => return false,
    };
    PLIC_CONTEXTS.contains(&addr) && addr & 0xFFF == 4 && processor.ran(e)
}

/// Whether Linux may have completed an interrupt that it did not handle, and counts none: a level
/// source that was disabled just then is pending again at once, because its line is high; the first
/// event of an edge-triggered one may come before its driver. Where the line is lowered in user
/// mode, only the time tells: there was none for a handler.
fn unhandled(e: &Event) -> bool {
    let at_once = e.claimed_for.is_some_and(|cycles| cycles < 1000);
    let again = e.number("again") == Some(1);
    e.is_step("VS", "completed") && (again || at_once) || e.edge == Some(0)
}

/// When Linux may have begun to handle, and counted, what an event ends: at the claim before a
/// completion.
fn began(e: &Event) -> u64 {
    e.time - e.claimed_for.unwrap_or(0)
}

/// An IPI sent to the processor. Linux sends one for each kind of work newly queued, and counts
/// each kind when it is done; two that arrive together are two in the table, but one software
/// interrupt.
///
/// With Xtrapless, `sgenipi` sends; one step of the controller for each target. What a guest sends
/// by SBI the host posts: a step in HS-mode, which is not counted again.
fn ipi(side: Side, processor: Processor, e: &Event) -> bool {
    let (mode, step, to) = match side {
        Side::Host => ("HS", "hart_ipi", "to"),
        Side::Guest => ("VS", "post_soft", "vhart"),
    };
    if e.is_step(mode, step) {
        return e.number(to) == Some(processor.number());
    }
    let (steps, cause) = match side {
        Side::Host => (["HS>M"], "environment call from HS"),
        Side::Guest => (["VS>HS"], "environment call from VS"),
    };
    if !e.is_trap(&steps, cause) || e.field("sbi") != Some("IPI.0") {
        return false;
    }
    let (Some(mask), Some(base)) = (e.hex("a0"), e.hex("a1")) else {
        return false;
    };
    let bit = processor.number().checked_sub(base).filter(|bit| *bit < 64);
    base == u64::MAX || bit.is_some_and(|bit| mask >> bit & 1 == 1)
}

/// Times at which the kernel was asked for the table, and at which it had returned it.
fn moments(run: &Run, side: Side) -> [(u64, u64); 2] {
    let (step, back) = match side {
        Side::Host => ("U>HS", "HS>U"),
        Side::Guest => ("VU>VS", "VS>VU"),
    };
    let events = &run.log.events;
    let called =
        |e: &Event| e.kind == Kind::Trap && e.step == step && e.hex("a7") == Some(SENDFILE);
    let calls: Vec<usize> = (0..events.len()).filter(|i| called(&events[*i])).collect();
    // `cat` calls twice: for the file, and to see that it has ended. The table of the beginning is
    // the first file read; that of the end is read before the dumps are printed, of which KVM's is
    // earlier.
    let prefix = format!("{side:?}.").to_lowercase();
    let own = |label: &&String| label.starts_with(&prefix) && *label != "host.kvm";
    let dumps = run.console.dumps.keys().filter(own).count();
    let end = calls.len() - 2 * dumps - 2;
    [calls[0], calls[end]].map(|call| {
        // Behind the four bytes of the call.
        let next = events[call].hex("epc").map(|epc| epc + 4);
        let mut later = events[call + 1..].iter();
        let returned =
            later.find(|e| e.kind == Kind::Return && e.step == back && e.hex("pc") == next);
        (events[call].time, returned.expect("the call returns").time)
    })
}

/// Promise: each processor's timer interrupts, device interrupts and IPIs in the ledger are those
/// that the Linux on it counted, in host and guest, to the last one.
#[test]
fn interrupts_are_those_that_linux_counts() {
    let (mut exact, mut all) = (0, 0);
    for run in logged() {
        for side in [Side::Host, Side::Guest] {
            for (label, (asked, written)) in ["begin", "end"].into_iter().zip(moments(run, side)) {
                let key = format!("{side:?}.interrupts-{label}").to_lowercase();
                let table = run.console.interrupts(&key);
                assert_eq!(
                    table.unknown(&RULES.map(|r| r.row)),
                    [""; 0],
                    "{}",
                    run.name()
                );
                let processors = processors(run, side);
                assert_eq!(table.cpus, processors.len(), "{}", run.name());
                for (cpu, processor) in processors.into_iter().enumerate() {
                    for rule in RULES {
                        // Which also completes claims of nothing
                        if rule.name == "devices" && run.job.workload == "micro" {
                            continue;
                        }
                        let shown = table.sum(cpu, rule.row);
                        let events = || {
                            let events = run.log.events.iter();
                            events.filter(|e| (rule.event)(side, processor, e))
                        };
                        let way = if rule.name == "IPIs" { ON_ITS_WAY } else { 0 };
                        let counted = |e: &&Event| e.time < asked - QUANTUM - way && !unhandled(e);
                        let begun = |e: &&Event| began(e) < written + QUANTUM;
                        let least = events().filter(counted).count() as u64;
                        let most = events().filter(begun).count() as u64;
                        assert!(
                            (least..=most).contains(&shown),
                            "{}, {key}, CPU{cpu}, {}: {shown} shown, {least} to {most} in the log",
                            run.name(),
                            rule.name,
                        );
                        // What never comes says nothing.
                        if most > 0 {
                            all += 1;
                            exact += usize::from(least == most);
                        }
                    }
                }
            }
        }
    }
    println!("{exact} of {all} counts have equal bounds");
    // Where an interrupt fell into the call itself, the bounds differ by it. That is rare, or the
    // comparison would say little.
    assert!(
        exact * 10 >= all * 9,
        "{exact} of {all} counts have equal bounds"
    );
}

fn sum(section: &Section, which: impl Fn(&TrapCount) -> bool) -> u64 {
    section
        .traps
        .iter()
        .filter(|t| which(t))
        .map(|t| t.count)
        .sum()
}

/// Promise: in the measured part, the guest's own count of timer interrupts (difference of its two
/// tables) and the ledger's differ by those between reading a table and printing the mark, and by
/// nothing else.
#[test]
fn the_measured_part_differs_by_what_lies_between_table_and_mark() {
    for run in logged().filter(|r| r.job.workload == "timer") {
        let processor = processors(run, Side::Guest)[0];
        let tables =
            ["begin", "end"].map(|l| run.console.interrupts(&format!("guest.interrupts-{l}")));
        let shown = tables.map(|t| t.sum(0, RULES[0].row));
        let between = |from: u64, to: u64| {
            let events = run
                .log
                .events
                .iter()
                .filter(|e| from < e.time && e.time <= to);
            events.filter(|e| timer(Side::Guest, processor, e)).count() as u64
        };
        let phase = |name| {
            run.ledger
                .phases
                .iter()
                .find(|p| p.name == name)
                .expect("is marked")
        };
        let (begin, end) = (phase("workload").from, phase("after").from);
        let ledger = sum(run.ledger.workload(), |t| {
            t.interrupt && t.code == 5 && t.to == "VS"
        });
        assert_eq!(ledger, between(begin, end), "{}: phase and log", run.name());
        // The mark of the end may be printed before or after its table is read.
        let explained = |first: u64, last: u64| {
            between(first, begin) + ledger + between(end, last) - between(last, end)
        };
        let [first, last] = moments(run, Side::Guest);
        let bounds = explained(first.1, last.0)..=explained(first.0, last.1);
        let shown = shown[1] - shown[0];
        assert!(
            bounds.contains(&shown),
            "{}: {shown} not in {bounds:?}",
            run.name()
        );
    }
}

/// Promise: an interrupt of the host that ends a guest's run is taken again by the host, at once:
/// so the ledger has it twice (VS>HS, HS>HS), and Linux's table once.
#[test]
fn interrupts_that_end_a_guests_run_are_taken_again_by_the_host() {
    for run in logged() {
        let harts = run.ledger.total.harts.len();
        for hart in 0..harts {
            let traps = run
                .log
                .events
                .iter()
                .filter(|e| e.hart == hart && e.kind == Kind::Trap);
            // Firmware may come between: it sees other interrupts first.
            let traps: Vec<_> = traps.filter(|e| !e.step.ends_with(">M")).collect();
            for pair in traps.windows(2) {
                let (exit, next) = (pair[0], pair[1]);
                let interrupt = ["STI", "SSI", "SEI"].contains(&exit.cause);
                if interrupt && exit.step.starts_with('V') && exit.step.ends_with(">HS") {
                    let taken = ["STI", "SSI", "SEI"].contains(&next.cause) && next.step == "HS>HS";
                    assert!(taken, "{}: {exit:?} then {next:?}", run.name());
                }
            }
        }
    }
}

/// Promise: the guest's counts of IPIs are the ledger's: sent, received and interrupts taken.
#[test]
fn ipis_of_the_guest_are_those_that_the_ledger_matches() {
    for run in logged() {
        let total = &run.ledger.total.guest_interrupts;
        let call = |e: &&Event, call| {
            e.is_trap(&["VS>HS"], "environment call from VS") && e.field("sbi") == Some(call)
        };
        let sent = run.log.events.iter().filter(|e| call(e, "IPI.0"));
        assert_eq!(total.ipi_sends, sent.count() as u64, "{}", run.name());
        assert_eq!(total.ipi_unmatched, 0, "{}", run.name());
        let taken = total.taken.get("software").copied().unwrap_or(0);
        // Nobody takes what another vCPU sends once the guest has asked for its end.
        let end = run.log.events.iter().rfind(|e| call(e, "SRST.0"));
        let late = end.map_or(0, |end| {
            let later = run.log.events.iter().filter(|e| e.time > end.time);
            later.filter(|e| call(e, "IPI.0")).count() as u64
        });
        // One interrupt answers all that wait; each sender's is answered.
        assert!(
            taken + total.ipi_coalesced + late >= total.ipi_targets,
            "{}: {taken} taken, {} coalesced, {late} late, {} sent",
            run.name(),
            total.ipi_coalesced,
            total.ipi_targets
        );
    }
}

/// The rows that tell nothing of their own.
#[test]
fn tables_are_read_as_linux_prints_them() {
    let text = "@trapless dump x\r\n           CPU0       CPU1\r\n 10:  7  8  RISC-V INTC   5 Edge  riscv-timer\r\n\
                IPI0:   1  2  Rescheduling interrupts\r\n@trapless dump-end x\r\n";
    let table: Interrupts = crate::console::Console::parse(text).interrupts("x");
    assert_eq!((table.cpus, table.sum(1, RULES[0].row)), (2, 8));
    assert_eq!(table.sum(0, RULES[2].row), 1);
    assert!(table.unknown(&RULES.map(|r| r.row)).is_empty());
}
