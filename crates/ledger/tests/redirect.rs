//! Rules of `docs/ledger.md`, section "Accesses that user mode handles".

mod script;

use script::{Script, V0};
use trapless_isa::Mode::{HS, U, VS};
use trapless_isa::cause::{exception, interrupt};
use trapless_ledger::Section;
use trapless_ledger::event::Trap;

const UART: u64 = 0x1000_0000;
/// What the guest has in its own context, and a process of the host in its.
const PROCESS: trapless_ledger::event::Guest = trapless_ledger::event::Guest {
    vmid: 0,
    context: 0x9000,
};

/// The guest runs, and stores to its serial port: the handler begins.
fn storing() -> Script {
    let mut s = Script::new();
    s.ret(HS, VS);
    let trap = s.base(VS, U, exception::STORE_MMIO_PAGE);
    s.send(Trap { gpa: UART, ..trap });
    s
}

/// Accesses, those that were left, and cycles of stores to the serial port.
fn stores(section: &Section) -> [u64; 3] {
    let found = section.redirected.iter();
    let counts = found.filter(|(key, _)| key.as_str() == "mmio.uart.write");
    let mut counts = counts.map(|(_, r)| [r.accesses, r.left, r.cycles]);
    counts.next_back().unwrap_or_default()
}

#[test]
fn an_access_that_user_mode_answers_is_no_exit() {
    let mut s = storing();
    s.ret(U, VS);
    let total = s.done();
    assert_eq!(stores(&total), [1, 0, 10]);
    assert_eq!((total.guest_exits, total.guest_entries), (0, 1));
    assert!(total.exits.is_empty());
}

#[test]
fn one_that_the_handler_leaves_is_an_exit_for_the_access() {
    let mut s = storing();
    s.trap(U, HS, exception::ECALL_U).ret(HS, VS);
    let total = s.done();
    assert_eq!(stores(&total), [1, 1, 10]);
    assert_eq!((total.guest_exits, total.guest_entries), (1, 2));
    let exit = total.exits_of("mmio.uart.write");
    assert_eq!((exit.exits, exit.syscalls, exit.host_traps), (1, 0, 0));
}

#[test]
fn an_interrupt_in_the_handler_is_an_exit_after_which_it_continues() {
    let mut s = storing();
    s.irq(U, HS, interrupt::STI).ret(HS, U).ret(U, VS);
    let total = s.done();
    assert_eq!(stores(&total), [1, 0, 20]);
    assert_eq!((total.guest_exits, total.guest_entries), (1, 2));
    assert_eq!(total.exits_of("host_timer").exits, 1);
}

#[test]
fn an_interrupted_handler_may_go_on_elsewhere_after_the_host_ran_others() {
    let mut s = storing();
    s.irq(U, HS, interrupt::STI);
    // A process of the host runs and makes a system call: neither is the handler's.
    s.on(0, PROCESS).ret(HS, U).trap(U, HS, exception::ECALL_U);
    s.on(1, V0).ret(HS, U).ret(U, VS);
    let total = s.done();
    assert_eq!(stores(&total), [1, 0, 20]);
    assert_eq!((total.guest_exits, total.guest_entries), (1, 2));
    assert_eq!(total.exits_of("mmio").exits, 0);
}
