//! A function that remembers translations behind the IOMMU: a host maps pages for it, changes them,
//! tells it to forget, and answers its wishes for pages.

mod common;

use common::*;
use trapless_machine::checkpoint::About;
use trapless_machine::{Limits, Machine, Outcome, map};

/// Configuration space of device 1, its BAR 0, and registers there (`endpoint_test`).
const FUNCTION: u64 = 0x3000_8000;
const REGISTERS: u64 = 0x4000_0000;
const COMMAND: u64 = REGISTERS + 0x04;
const STATUS: u64 = REGISTERS + 0x08;
const SOURCE: u64 = REGISTERS + 0x0c;
const DESTINATION: u64 = REGISTERS + 0x14;
const SIZE: u64 = REGISTERS + 0x1c;
const COPY: u64 = 1 << 5;
const COPIED: u64 = 1 << 4;
const COPY_FAILED: u64 = 1 << 5 | 1 << 7;
/// Where its extended capabilities are: ATS, and page requests.
const ATS: u64 = FUNCTION + 0x100;
const PRI: u64 = FUNCTION + 0x108;

/// Registers of the IOMMU.
const CQT: u64 = map::IOMMU + 0x24;
const PQT: u64 = map::IOMMU + 0x44;
const CQCSR: u64 = map::IOMMU + 0x48;

/// The directory, the second stage, queues.
const DIRECTORY: u64 = RAM + 0x40_0000;
const STAGE: u64 = DIRECTORY + 0x4000;
const LAST: u64 = STAGE + 0x5000;
const COMMANDS: u64 = DIRECTORY + 0x1000;
const PAGES: u64 = DIRECTORY + 0x2000;
const FAULTS: u64 = DIRECTORY + 0x3000;
/// What a fence writes.
const FLAG: u64 = DATA + 0x1000;
/// Pages of the function's memory: frame n holds n in each byte; page 2 is where it copies to.
const FRAMES: u64 = RAM + 0x80_0000;
const TO: u64 = 0x2000;

const T2GPA: u64 = 1 << 3;

/// A host that writes down what it sees.
struct Host {
    program: Asm,
    commands: u64,
    results: u64,
}

impl Host {
    fn new() -> Self {
        let mut a = Asm::new(RAM);
        for (register, value) in [
            (0x18, COMMANDS >> 2 | 4),
            (0x28, FAULTS >> 2 | 4),
            (0x38, PAGES >> 2 | 4),
            (0x10, DIRECTORY >> 2 | 2),
        ] {
            a.store(map::IOMMU + register, 8, value);
        }
        for register in [0x48, 0x4c, 0x50] {
            a.store(map::IOMMU + register, 4, 1);
        }
        // Memory and bus master; ATS and page requests.
        a.store(FUNCTION + 0x10, 4, REGISTERS);
        a.store(FUNCTION + 4, 2, 6);
        a.store(ATS + 6, 2, 1 << 15);
        a.store(PRI + 12, 4, 1);
        a.store(PRI + 4, 2, 1);
        Self {
            program: a,
            commands: 0,
            results: 0,
        }
    }

    /// Maps a page to a frame, or to none.
    fn map(&mut self, page: u64, frame: Option<u64>) {
        let entry = frame.map_or(0, |n| (FRAMES + n * 0x1000) >> 12 << 10 | 0xd7);
        self.program.store(LAST + page * 8, 8, entry);
    }

    /// Lets the function copy 8 bytes of a page; what is waited for comes after.
    fn copy(&mut self, page: u64) {
        let a = &mut self.program;
        a.store(SOURCE, 4, page << 12);
        a.store(DESTINATION, 4, TO);
        a.store(SIZE, 4, 8);
        a.store(COMMAND, 4, COPY);
    }

    /// Waits until something is done, and writes down how it ended, and what has been copied.
    fn result(&mut self) {
        let to = DATA + 16 * self.results;
        self.results += 1;
        let a = &mut self.program;
        a.li(A0, STATUS);
        let again = a.here();
        a.lw(T0, A0, 0).beq(T0, ZERO, again);
        a.li(A0, to).sd(T0, A0, 0);
        a.li(T0, FRAMES + TO).ld(T0, T0, 0).sd(T0, A0, 8);
    }

    fn command(&mut self, first: u64, second: u64) {
        let place = COMMANDS + self.commands * 16;
        self.commands += 1;
        self.program.store(place, 8, first);
        self.program.store(place + 8, 8, second);
        self.program.store(CQT, 4, self.commands);
    }

    /// Tells device `id` to forget a page, and waits for that.
    fn forget(&mut self, id: u64, page: u64) {
        self.command(4 | id << 40, page << 12);
        self.command(2 | 1 << 10 | self.commands << 32, FLAG >> 2);
    }

    /// A machine with the program, and the context of device 8 in memory.
    fn machine(&self, context: u64) -> Machine {
        let mut config = config("aia", 1);
        config.iommu = true;
        let mut devices = quiet();
        devices.plug_endpoint_test(Box::new(())).unwrap();
        let machine = Machine::boot(config, &self.program.payload(), devices).unwrap();
        let store = |addr, value| machine.ram().store(addr, 8, value).unwrap();
        let entry = |addr: u64, flags: u64| addr >> 12 << 10 | flags;
        store(DIRECTORY + 8 * 64, 1 | context);
        store(DIRECTORY + 8 * 64 + 8, 8 << 60 | STAGE >> 12);
        store(STAGE, entry(STAGE + 0x4000, 1));
        store(STAGE + 0x4000, entry(LAST, 1));
        for frame in 0..16 {
            let place = FRAMES + frame * 0x1000;
            store(place, frame * 0x0101_0101_0101_0101);
            store(LAST + frame * 8, entry(place, 0xd7));
        }
        machine
    }

    fn run(mut self, context: u64) -> (Machine, Vec<(u64, u64)>) {
        self.program.power_off();
        let mut machine = self.machine(context);
        assert_eq!(machine.run(&limits(u64::MAX)), Outcome::PoweredOff);
        let results = self.results_in(&machine);
        (machine, results)
    }

    /// What the program has written down.
    fn results_in(&self, machine: &Machine) -> Vec<(u64, u64)> {
        let word = |addr| machine.ram().load(addr, 8).unwrap();
        (0..self.results)
            .map(|n| (word(DATA + 16 * n) & !(1 << 6), word(DATA + 16 * n + 8)))
            .collect()
    }
}

fn limits(until: u64) -> Limits {
    let instret = 100_000;
    Limits { until, instret }
}

/// Eight bytes of a frame.
fn bytes(frame: u64) -> u64 {
    frame * 0x0101_0101_0101_0101
}

/// Promise: a function goes on with a page that it remembers, whatever the IOMMU has been told,
/// until it is told itself; the fence after that is over when it has forgotten.
#[test]
fn a_function_forgets_when_it_is_told() {
    for context in [1 << 1, 1 << 1 | T2GPA] {
        let mut host = Host::new();
        host.copy(5);
        host.result();
        host.map(5, Some(6));
        // GVMA, of everything.
        host.command(1 | 1 << 7, 0);
        host.copy(5);
        host.result();
        host.forget(8, 4);
        host.copy(5);
        host.result();
        host.forget(8, 5);
        let fence = host.commands - 1;
        host.program.wait(FLAG, u64::from(u32::MAX), fence);
        host.copy(5);
        host.result();
        let (_, results) = host.run(context);
        // With T2GPA the IOMMU translates what the function was told once more.
        let stale = if context & T2GPA == 0 { 5 } else { 6 };
        let seen = [5, stale, stale, 6].map(|frame| (COPIED, bytes(frame)));
        assert_eq!(results, seen, "{context:#x}");
    }
}

/// Promise: a page that is not there arrives in the queue as a wish, and the transfer goes on or
/// fails as it is answered.
#[test]
fn a_function_waits_for_a_page() {
    let mut host = Host::new();
    host.map(7, None);
    host.copy(7);
    host.program.wait(PQT, u64::from(u32::MAX), 1);
    host.map(7, Some(9));
    // Success, for group 0.
    host.command(4 | 1 << 7 | 8 << 40, 0);
    host.result();
    host.map(3, None);
    host.copy(3);
    host.program.wait(PQT, u64::from(u32::MAX), 2);
    // Invalid Request, for group 1.
    host.command(4 | 1 << 7 | 8 << 40, 1 << 44 | 1 << 32);
    host.result();
    // Without page requests it is not asked for, and fails at once.
    host.program.store(PRI + 4, 2, 0);
    host.copy(3);
    host.result();
    let (machine, results) = host.run(1 << 1 | 1 << 2);
    assert_eq!(
        results,
        [
            (COPIED, bytes(9)),
            (COPY_FAILED, bytes(9)),
            (COPY_FAILED, bytes(9))
        ]
    );
    let word = |addr| machine.ram().load(addr, 8).unwrap();
    assert_eq!([word(PAGES), word(PAGES + 8)], [8 << 40, 7 << 12 | 0b101]);
    let group = 1 << 3;
    assert_eq!(word(PAGES + 24), 3 << 12 | group | 0b101);
}

/// Promise: a function that is not there, or cannot remember, lets the fence after its message stop
/// with a timeout; one whose ATS has been switched off does not.
#[test]
fn who_does_not_answer_times_out() {
    for device in [0, 9, 0x80] {
        let mut host = Host::new();
        host.forget(device, 5);
        host.program.wait(CQCSR, 1 << 9, 1 << 9);
        let (machine, _) = host.run(1 << 1);
        assert_eq!(machine.ram().load(FLAG, 8).unwrap(), 0, "{device:#x}");
    }
    let mut host = Host::new();
    host.program.store(ATS + 6, 2, 0);
    host.forget(8, 5);
    host.program.wait(FLAG, u64::from(u32::MAX), 1);
    host.run(1 << 1);
}

/// Promise: a checkpoint keeps what is under way between function and IOMMU: translations that the
/// function remembers, a page that it waits for, a fence that waits for it, a message that times
/// out.
#[test]
fn a_checkpoint_keeps_what_is_under_way() {
    let context = 1 << 1 | 1 << 2;
    let mut host = Host::new();
    host.copy(5);
    host.result();
    host.map(5, Some(6));
    host.copy(5);
    host.result();
    host.forget(8, 5);
    let fence = host.commands - 1;
    host.program.wait(FLAG, u64::from(u32::MAX), fence);
    host.map(7, None);
    host.copy(7);
    host.program.wait(PQT, u64::from(u32::MAX), 1);
    host.map(7, Some(9));
    host.command(4 | 1 << 7 | 8 << 40, 0);
    host.result();
    host.forget(9, 5);
    host.program.wait(CQCSR, 1 << 9, 1 << 9);
    host.program.power_off();

    let mut whole = host.machine(context);
    assert_eq!(whole.run(&limits(u64::MAX)), Outcome::PoweredOff);
    let seen = [5, 5, 9].map(|frame| (COPIED, bytes(frame)));
    assert_eq!(host.results_in(&whole), seen);
    let steps = 60;
    for step in 0..steps {
        let at = whole.now() * step / steps;
        let mut first = host.machine(context);
        first.run(&limits(at));
        let mut file = Vec::new();
        first.save(&mut file, About::default(), b"").unwrap();
        let mut second = host.machine(context);
        second.restore(&mut &file[..]).unwrap();
        assert_eq!(second.state_hash(), first.state_hash(), "at {at}");
        assert_eq!(second.run(&limits(u64::MAX)), Outcome::PoweredOff);
        assert_eq!(second.state_hash(), whole.state_hash(), "at {at}");
    }
}
