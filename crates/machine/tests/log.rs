//! Logs say what happens, and change nothing.

mod common;

use std::path::PathBuf;

use common::*;
use trapless_ledger::event::{Event, Sink};
use trapless_machine::log::LogOptions;
use trapless_machine::{Limits, Machine, Outcome, Shared};

const MSIP1: u64 = 0x200_0004;
const MTIMECMP0: u64 = 0x200_4000;
const MSCRATCH: u16 = 0x340;

/// Hart 0 makes an environment call, interrupts hart 1, and waits for its timer; hart 1 waits for
/// the interrupt and answers it.
fn program() -> Asm {
    let mut a = Asm::new(RAM);
    let (start, handler, other, interrupt) = (a.label(), a.label(), a.label(), a.label());
    a.j(start);
    a.bind(handler);
    a.csrr(T0, MCAUSE);
    a.branch(4, T0, ZERO, interrupt); // blt: interrupts are negative
    a.csrr(T0, MEPC).addi(T0, T0, 4).csrw(MEPC, T0).mret();
    a.bind(interrupt);
    a.csrr(T0, MHARTID);
    let answer = a.label();
    a.bne(T0, ZERO, answer);
    a.power_off();
    a.bind(answer);
    a.li(T0, MSIP1).sw(ZERO, T0, 0).mret();
    a.bind(start);
    let vector = a.address(handler);
    a.li(T0, vector).csrw(MTVEC, T0);
    a.li(T0, 1 << 7 | 1 << 3).csrw(MIE, T0);
    a.li(T0, 8).csrs(MSTATUS, T0);
    a.csrr(T0, MHARTID).bne(T0, ZERO, other);
    a.li(S0, DATA)
        .addi(A0, ZERO, 77)
        .sb(A0, S0, 3)
        .lw(A1, S0, 0);
    a.addi(T1, ZERO, 5).amoadd(T2, T1, S0);
    a.csrw(MSCRATCH, A0);
    a.word(0x0000_0073); // ecall
    a.li(T0, MSIP1).addi(T1, ZERO, 1).sw(T1, T0, 0);
    a.li(T0, MTIMECMP0).li(T1, 100).sd(T1, T0, 0);
    let wait = a.here();
    a.wfi().j(wait);
    a.bind(other);
    let wait = a.here();
    a.wfi().j(wait);
    a
}

/// Everything the ledger could see.
#[derive(Default)]
struct Events(Vec<String>);

impl Sink for Events {
    fn record(&mut self, event: &Event) {
        self.0.push(format!("{event:?}"));
    }
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("trapless-{name}-{}.log", std::process::id()))
}

/// State and events of a run with the log `kinds`, and the log.
fn run(kinds: Option<&str>) -> ((u64, u64, Vec<String>), String) {
    let mut machine = Machine::boot(config("sbi", 2), &program().payload(), quiet()).unwrap();
    let events = Shared::new(Events::default());
    machine.add_sink(Box::new(events.clone()));
    let file = path(&kinds.unwrap_or("none").replace(',', "-"));
    let mut text = String::new();
    let outcome = if let Some(kinds) = kinds {
        let options: LogOptions = format!("{kinds}:{}", file.display()).parse().unwrap();
        let mut log = options.open().unwrap();
        log.attach(&mut machine);
        let outcome = machine.run_observed(&Limits::default(), log.observer());
        log.finish().unwrap();
        text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        outcome
    } else {
        machine.run(&Limits::default())
    };
    assert_eq!(outcome, Outcome::PoweredOff);
    let events = std::mem::take(&mut events.lock().0);
    ((machine.state_hash(), machine.now(), events), text)
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    let found = text
        .lines()
        .any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(found, "no line with {parts:?} in\n{text}");
}

#[test]
fn logs_change_nothing() {
    let (plain, _) = run(None);
    for kinds in ["exec", "csr", "intc", "exec,csr,intc"] {
        let (logged, text) = run(Some(kinds));
        assert_eq!(logged, plain, "with {kinds}");
        assert!(!text.is_empty());
    }
}

#[test]
fn exec_lines_show_registers_and_memory() {
    let ((_, _, events), text) = run(Some("exec"));
    has(&text, &[" 0 exec   M pc=0x1000 insn=0x"]);
    has(&text, &["insn=0x04d00513 li a0,77 ; a0=0x4d"]);
    has(&text, &["sb a0,3(s0) ; store=0x80100003 value=0x4d"]);
    has(&text, &["lw a1,0(s0) ; a1=0x4d000000 load=0x80100000"]);
    has(
        &text,
        &["amoadd.d t2,t1,(s0) ; t2=0x4d000000 amo=0x80100000"],
    );
    has(&text, &[" ecall ; trap"]);
    has(&text, &[" mret ;"]);
    // Every retired instruction has a line, and those that trapped.
    let traps = events.iter().filter(|e| e.contains("cause: 11")).count();
    let lines = text.lines().count() as u64;
    let mut machine = Machine::boot(config("sbi", 2), &program().payload(), quiet()).unwrap();
    machine.run(&Limits::default());
    assert_eq!(lines, machine.instret() + traps as u64);
}

#[test]
fn times_of_a_hart_never_go_back() {
    let (_, text) = run(Some("exec,csr"));
    let mut last = [0; 2];
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let time: u64 = words.next().unwrap().parse().unwrap();
        let hart: usize = words.next().unwrap().parse().unwrap();
        assert!(time >= last[hart], "{line}\nafter {}", last[hart]);
        last[hart] = time;
    }
}

#[test]
fn csr_lines_show_instructions_traps_and_returns() {
    let (_, text) = run(Some("csr"));
    has(&text, &[" 0 csr    M write mscratch 0x0 -> 0x4d pc=0x8000"]);
    has(&text, &[" 1 csr    M read  mhartid 0x1 pc="]);
    has(&text, &[" 0 csr    M trap  mcause 0x0 -> 0xb"]);
    has(&text, &[" 0 csr    M trap  mepc 0x0 -> 0x8000"]);
    has(&text, &[" 0 csr    M trap  mstatus", "08 -> 0x", "1880"]);
    has(&text, &[" 0 csr    M ret   mstatus", "1880 -> 0x", "88"]);
    has(
        &text,
        &[" 1 csr    M trap  mcause 0x0 -> 0x8000000000000003"],
    );
    has(
        &text,
        &[" 0 csr    M trap  mcause 0xb -> 0x8000000000000007"],
    );
}

#[test]
fn intc_lines_show_accesses_and_lines() {
    let (_, text) = run(Some("intc"));
    has(
        &text,
        &[" 0 intc   store", "+0x4 addr=0x2000004 size=4 value=0x1"],
    );
    has(&text, &[" 1 intc   line  MSIP high"]);
    has(
        &text,
        &[" 1 intc   store", "addr=0x2000004 size=4 value=0x0"],
    );
    has(&text, &[" 1 intc   line  MSIP low"]);
    has(&text, &[" 0 intc   line  MTIP high"]);
    // The line rises when the comparator does: tick 100 of 100 cycles.
    let line = text.lines().find(|l| l.contains("MTIP high")).unwrap();
    let time: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
    assert!(time == 10_000, "{line}");
}
