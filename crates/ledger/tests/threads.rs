//! Rules of `docs/ledger.md`, section "Threads of the host".

mod script;

use script::{Script, V0, V1};
use trapless_isa::Mode::{HS, M, U, VS};
use trapless_isa::cause::{INTERRUPT, exception};
use trapless_ledger::event::{Event, Sink, Switch};
use trapless_ledger::{Section, ThreadName};

/// Addresses of threads.
const VCPU: u64 = 0xff60_0000_0000_1000;
const IDLE: u64 = 0xff60_0000_0000_2000;

impl Script {
    fn switch(&mut self, from: u64, to: u64) -> &mut Self {
        self.switch_on(0, from, to)
    }

    fn switch_on(&mut self, hart: usize, from: u64, to: u64) -> &mut Self {
        self.time += 10;
        let time = self.time;
        let satp = 0;
        self.ledger.record(&Event::Switch(Switch {
            time,
            hart,
            from,
            to,
            satp,
        }));
        self
    }

    fn named(&mut self, task: u64, pid: u32, name: &str) -> &mut Self {
        let process = pid;
        let thread = ThreadName { pid, process, name };
        self.ledger.name_thread(task, &thread);
        self
    }
}

/// Number, switches, and cycles in M, HS, U, VS and idle of each thread.
fn threads(section: &Section) -> Vec<(u64, u64, [u64; 5])> {
    let of_harts: u64 = section.harts.iter().flat_map(|h| h.cycles.values()).sum();
    let of_threads = section.threads.iter().flat_map(|t| t.cycles.values());
    assert_eq!(of_threads.sum::<u64>(), of_harts);
    let switches: u64 = section.threads.iter().map(|t| t.switches).sum();
    assert_eq!(switches, section.context_switches);
    let row = |t: &trapless_ledger::document::Thread| {
        let of = |mode| t.cycles.get(mode).copied().unwrap_or(0);
        let cycles = ["M", "HS", "U", "VS", "idle"].map(of);
        (t.number, t.switches, cycles)
    };
    section.threads.iter().map(row).collect()
}

/// Those of hart 0; hart 1 stays in M-mode.
fn of_hart_0(section: &Section) -> Vec<(u64, u64, [u64; 5])> {
    let mut rows = threads(section);
    rows[0].2[0] -= section.harts[1].cycles["M"];
    rows
}

#[test]
fn time_belongs_to_the_thread_that_was_switched_to() {
    let mut s = Script::new();
    // The first thread is no switch: it has been there before.
    s.ret(M, HS).switch(0, IDLE).wait(HS, true).wait(HS, false);
    s.switch(IDLE, VCPU).ret(HS, U).switch(VCPU, IDLE);
    let total = s.done();
    assert_eq!(
        of_hart_0(&total),
        [
            (0, 0, [10, 10, 0, 0, 0]),
            (2, 1, [0, 20, 0, 0, 10]),
            (3, 1, [0, 10, 10, 0, 0]),
        ]
    );
}

#[test]
fn a_guest_and_firmware_are_charged_to_the_thread_they_interrupt() {
    let mut s = Script::new();
    s.ret(M, HS).switch(0, VCPU).ret(HS, VS);
    // Firmware takes the guest's timer; the guest exits after it.
    s.irq(VS, M, 7).ret(M, VS).trap(VS, HS, exception::ECALL_VS);
    s.switch(VCPU, IDLE);
    let total = s.done();
    assert_eq!(
        of_hart_0(&total)[1..],
        [(2, 0, [10, 20, 0, 20, 0]), (3, 1, [0; 5])]
    );
}

#[test]
fn a_handler_of_an_access_belongs_to_the_guests_thread() {
    let mut s = Script::new();
    s.ret(M, HS).switch(0, VCPU).ret(HS, VS);
    s.trap(VS, U, exception::STORE_MMIO_PAGE).ret(U, VS);
    let total = s.done();
    assert_eq!(of_hart_0(&total)[1..], [(2, 0, [0, 10, 10, 10, 0])]);
}

#[test]
fn a_handler_of_a_user_context_has_a_line_of_its_own_until_it_traps() {
    let mut s = Script::new();
    s.ret(M, HS).switch(0, VCPU).ret(HS, VS);
    s.trap(VS, U, INTERRUPT | 25).ret(U, VS);
    // The host hands this one over: from here on KVM works in the vCPU's thread.
    s.trap(VS, U, INTERRUPT | 25);
    s.trap(U, HS, exception::ECALL_U).ret(HS, VS);
    let total = s.done();
    let rows = of_hart_0(&total);
    assert_eq!(rows[1], (1, 0, [0, 0, 20, 0, 0]));
    assert_eq!(rows[2], (2, 0, [0, 20, 0, 20, 0]));
    assert_eq!(total.threads[1].name.as_deref(), Some("(handlers)"));
}

#[test]
fn a_thread_that_moves_to_another_hart_is_the_same() {
    let mut s = Script::new();
    s.ret(M, HS).switch(0, VCPU).switch(VCPU, IDLE);
    s.on(1, V1).ret(M, HS);
    let before = s.time;
    s.switch_on(1, 0, VCPU).on(0, V0).at(before + 50);
    let total = s.done();
    let found = threads(&total);
    let vcpu = found.iter().find(|t| t.0 == 2).unwrap();
    assert_eq!(vcpu.2[1], 10 + 40);
}

#[test]
fn memory_of_a_thread_that_ended_is_another_ones() {
    let mut s = Script::new();
    s.ret(M, HS).named(VCPU, 7, "sh").switch(0, VCPU);
    // A program in the place of another is the same thread.
    s.named(VCPU, 7, "cat").switch(VCPU, IDLE);
    s.named(VCPU, 8, "ls").switch(IDLE, VCPU);
    // So is one that a hart runs, whatever its number: `exec` by a thread of a process.
    s.named(VCPU, 6, "dd").switch(VCPU, IDLE);
    let total = s.done();
    let named: Vec<_> = total.threads.iter().map(|t| (&t.name, t.pid)).collect();
    let name = |name: &str| Some(name.to_string());
    assert_eq!(
        named[1..],
        [
            (&name("cat"), Some(7)),
            (&None, None),
            (&name("dd"), Some(6)),
        ]
    );
}

#[test]
fn phases_have_their_own_threads() {
    let mut s = Script::new();
    s.ret(M, HS).switch(0, VCPU);
    let now = s.time;
    s.ledger.mark("workload", now);
    s.switch(VCPU, IDLE).ret(HS, U);
    let file = {
        let time = s.time;
        s.ledger.finish(time);
        s.ledger.to_file(Default::default(), None)
    };
    let part = &file.phases[1].totals;
    assert_eq!(part.context_switches, 1);
    // Hart 1 is in M-mode all the time, without a thread.
    let numbers: Vec<_> = part.threads.iter().map(|t| t.number).collect();
    assert_eq!(numbers, [0, 2, 3]);
}

#[test]
fn threads_without_end_are_counted_as_one() {
    let mut s = Script::new();
    s.ret(M, HS);
    for task in 0..20_000 {
        s.switch(0, IDLE + 64 * task);
    }
    let total = s.done();
    assert_eq!(total.context_switches, 19_999);
    let last = total.threads.last().unwrap();
    assert_eq!(
        (last.number, last.name.as_deref()),
        (8192, Some("(others)"))
    );
    threads(&total);
}
