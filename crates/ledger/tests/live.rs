//! What a ledger reports while the run continues.

mod script;

use script::{Script, V0};
use trapless_isa::Mode::{HS, M, VS};
use trapless_isa::cause::{INTERRUPT, exception, interrupt};
use trapless_isa::xtrapless::state;
use trapless_ledger::event::StepKind;
use trapless_ledger::{Left, Reason, State};

/// `wfi`.
const WFI: u32 = 0x1050_0073;

#[test]
fn an_exit_is_reported_once() {
    let mut s = Script::new();
    s.enter().insn(HS, exception::VIRTUAL_INSTRUCTION, WFI);
    let exit = s.ledger.take_exit().unwrap();
    assert_eq!((exit.vcpu, exit.reason), (0, Reason::Wfi));
    assert_eq!(s.ledger.take_exit(), None);
    s.ret(HS, VS);
    assert_eq!(s.ledger.take_exit(), None);
}

#[test]
fn firmware_that_resumes_the_guest_makes_no_exit() {
    let mut s = Script::new();
    s.enter().irq(VS, M, interrupt::MTI);
    let now = s.ledger.vcpu(0);
    assert_eq!((now.state, now.in_firmware), (State::Paused, true));
    s.ret(M, VS);
    let now = s.ledger.vcpu(0);
    assert_eq!((now.state, now.in_firmware), (State::Running, false));
    assert_eq!(s.ledger.take_exit(), None);
    s.trap(VS, HS, INTERRUPT | interrupt::STI);
    let now = s.ledger.vcpu(0);
    assert_eq!((now.state, now.in_firmware), (State::Paused, false));
    assert_eq!(s.ledger.take_exit().unwrap().reason, Reason::HostTimer);
}

#[test]
fn a_vcpu_is_known_by_its_slot() {
    let mut s = Script::new();
    s.step(HS, StepKind::Attached { vhart: 4 }, 0).enter();
    let now = s.ledger.vcpu(0);
    assert_eq!((now.guest, now.domain, now.number), (V0, Some(5), Some(4)));
    assert_eq!((now.state, now.hart), (State::Running, Some(0)));
    assert_eq!(s.ledger.loaded_on(0), Some(0));
    s.insn(HS, exception::VIRTUAL_INSTRUCTION, WFI);
    let state = state::PREEMPTED as u8;
    s.step(HS, StepKind::Detached { vhart: 4, state }, 0);
    let now = s.ledger.vcpu(0);
    assert_eq!(now.state, State::ScheduledOff);
    assert_eq!(now.left, Some(Left::Preempted));
    assert_eq!(s.ledger.loaded_on(0), None);
    assert_eq!(s.ledger.loaded_on(9), None);
}

#[test]
fn the_phase_is_the_one_being_counted() {
    let mut s = Script::new();
    assert_eq!(s.ledger.phase(), "start");
    s.ledger.mark("workload", 10);
    assert_eq!(s.ledger.phase(), "workload");
}
