//! Sequence diagrams from synthetic events.

mod synthetic;

use synthetic::Player;
use trapless_isa::Mode::{self, HS, M, U, VS};
use trapless_isa::cause::{INTERRUPT, exception, interrupt};
use trapless_ledger::event::{
    Event, Guest, Return, Sink, StepKind, TimerSet, Trap, VirtualStep, Wait,
};
use trapless_ledger::{Class, Config, EventStream, State};
use trapless_report::sequence::{self, Finder, Wanted};

const HZ: u64 = 1_000_000_000;

/// Two vCPUs of domain 5 with slots; each event takes 100 cycles.
struct Play<S> {
    sink: S,
    time: u64,
}

impl<S: Sink> Play<S> {
    fn guest(hart: usize) -> Guest {
        let context = 0x1000 * (hart as u64 + 1);
        Guest { vmid: 1, context }
    }

    fn trap(&mut self, hart: usize, from: Mode, to: Mode, cause: u64) {
        self.time += 100;
        self.sink.record(&Event::Trap(Trap {
            time: self.time,
            hart,
            from,
            to,
            guest: Self::guest(hart),
            cause,
            epc: 0,
            tval: 0,
            gpa: 0,
            insn: 0x1050_0073,
            args: [0; 4],
            htimedelta: 0,
            instret: 0,
        }));
    }

    fn ret(&mut self, hart: usize, from: Mode, to: Mode) {
        self.time += 100;
        self.sink.record(&Event::Return(Return {
            time: self.time,
            hart,
            from,
            to,
            guest: Self::guest(hart),
            pc: 0,
            instret: 0,
            masked: false,
        }));
    }

    fn step(&mut self, hart: usize, mode: Mode, kind: StepKind) {
        self.time += 100;
        self.step_now(hart, mode, kind);
    }

    fn step_now(&mut self, hart: usize, mode: Mode, kind: StepKind) {
        self.sink.record(&Event::Virtual(VirtualStep {
            time: self.time,
            hart,
            mode,
            by_device: false,
            domain: 5,
            kind,
            memory: 2,
        }));
    }

    fn wait(&mut self, hart: usize, begin: bool) {
        self.time += 100;
        self.sink.record(&Event::Wait(Wait {
            time: self.time,
            hart,
            mode: HS,
            begin,
        }));
    }

    /// vCPU 0 interrupts vCPU 1, which runs; then again while it is halted.
    fn play(&mut self) {
        for hart in [0, 1] {
            self.ret(hart, M, HS);
            let vhart = hart as u16;
            self.step(hart, HS, StepKind::Attached { vhart });
            self.ret(hart, HS, VS);
        }
        let post = StepKind::PostSoft {
            vhart: 1,
            merged: false,
        };
        self.step(0, VS, post);
        self.step_now(0, VS, StepKind::Hit { vhart: 1, on: 1 });
        self.trap(1, VS, VS, INTERRUPT | interrupt::SSI);
        self.ret(1, VS, VS);
        // Somebody else's business on hart 0.
        self.trap(0, VS, HS, exception::VIRTUAL_INSTRUCTION);
        self.ret(0, HS, VS);
        self.trap(1, VS, HS, exception::VIRTUAL_INSTRUCTION);
        self.step(1, HS, StepKind::Detached { vhart: 1, state: 2 });
        self.wait(1, true);
        self.step(0, VS, post);
        let wake = StepKind::Notified {
            vhart: 1,
            to: 1,
            kind: 1,
        };
        self.step_now(0, VS, wake);
        self.trap(0, VS, HS, exception::VIRTUAL_INSTRUCTION);
        self.trap(0, HS, HS, exception::LOAD_PAGE);
        self.ret(0, HS, VS);
        self.wait(1, false);
        self.trap(1, HS, HS, INTERRUPT | 24);
        self.step(1, HS, StepKind::Fetched { id: 1, kind: 1 });
        self.ret(1, HS, HS);
        self.step(1, HS, StepKind::Attached { vhart: 1 });
        self.ret(1, HS, VS);
        self.trap(1, VS, VS, INTERRUPT | interrupt::SSI);
        self.ret(1, VS, VS);
        self.ret(1, VS, U);
    }
}

fn wanted(text: &str) -> Wanted {
    text.parse().unwrap()
}

fn found(text: &str) -> Option<sequence::Sequence> {
    let sink = Finder::new(Config::new(2), wanted(text));
    let mut play = Play { sink, time: 0 };
    play.play();
    play.sink.finish()
}

#[test]
fn an_ipi_to_a_running_vcpu_passes_the_host_by() {
    let expected = "\
---
title: \"IPI for a running vCPU: its handler runs 100 ns after it was sent\"
---
sequenceDiagram
    participant a0 as vCPU 0
    participant a1 as controller
    participant a2 as hart 1
    participant a3 as vCPU 1
    a0->>a1: +0 ns sgenipi: posts SOFT vhart 1
    a1->>a2: +0 ns lookup hits: vhart 1, on 1
    a2->>a3: +100 ns SSI: the guest's handler
    Note over a3: +200 ns sret: the handler ends
";
    assert_eq!(found("ipi.running").unwrap().mermaid(HZ), expected);
}

#[test]
fn an_ipi_to_a_halted_vcpu_shows_the_notification_and_nothing_else() {
    let sequence = found("ipi.scheduled_off").unwrap();
    let text = sequence.text(HZ);
    println!("{text}");
    let messages: Vec<&str> = sequence
        .messages()
        .iter()
        .map(|m| m.text.as_str())
        .collect();
    assert_eq!(
        messages,
        [
            "sgenipi: posts SOFT vhart 1",
            "lookup misses, notification: vhart 1, to 1, kind wake",
            "WFI ends",
            "NOTIFY",
            "hnotify: fetches id 1, kind wake",
            "hifmap: attaches vhart 1",
            "enters the guest",
            "SSI: the guest's handler",
            "sret: the handler ends"
        ]
    );
    assert!(text.starts_with("IPI for a vCPU that is halted: its handler runs 1 µs after"));
    let columns = text.lines().map(|l| l.chars().count()).max().unwrap();
    assert!(columns <= 150, "{columns}");
}

#[test]
fn a_stream_gives_the_same_diagram_as_the_run() {
    let sink = EventStream::new(Vec::new(), 1000);
    let mut play = Play { sink, time: 0 };
    play.play();
    let bytes = play.sink.finish().unwrap();
    let read = sequence::find(&bytes[..], Config::new(2), wanted("ipi:2"));
    let read = read.unwrap().unwrap();
    assert_eq!(read.text(HZ), found("ipi:2").unwrap().text(HZ));
    let none = sequence::find(&bytes[..], Config::new(2), wanted("ipi:3"));
    assert!(none.unwrap().is_none());
    let broken = [&bytes[..], b"tea\n"].concat();
    let error = sequence::find(&broken[..], Config::new(2), wanted("timer")).unwrap_err();
    assert!(error.starts_with("line "), "{error}");
}

#[test]
fn without_a_controller_firmware_and_host_are_in_between() {
    let sink = Finder::new(Config::new(2), wanted("ipi:1"));
    let mut player = Player::new(sink);
    player.boot();
    (0..200).for_each(|_| player.wake_up(false));
    let text = player.sink.finish().unwrap().mermaid(HZ);
    for line in [
        "exit: ecall IPI.0",
        "firmware, hart 0",
        "ecall IPI.0",
        "firmware, hart 1",
        "MSI",
        "exit: SSI",
        "VSSI pending",
        "SSI: the guest's handler",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn a_timer_begins_with_its_programming_and_leaves_asides_out() {
    let sink = Finder::new(Config::new(1), wanted("timer.running:2"));
    let mut play = Play { sink, time: 0 };
    let set = |play: &mut Play<Finder>, mode, after| {
        let deadline = play.time + after;
        play.sink.record(&Event::TimerSet(TimerSet {
            time: play.time,
            hart: 0,
            mode,
            guest: Play::<Finder>::guest(0),
            deadline,
        }));
    };
    play.ret(0, M, HS);
    play.ret(0, HS, VS);
    for _ in 0..3 {
        set(&mut play, VS, 5_000);
        for _ in 0..4 {
            // The host serves an access, and does something of its own.
            play.trap(0, VS, HS, exception::STORE_GUEST_PAGE);
            set(&mut play, HS, 77);
            play.trap(0, HS, HS, INTERRUPT | interrupt::STI);
            play.ret(0, HS, HS);
            play.ret(0, HS, VS);
        }
        play.time += 5_000;
        play.trap(0, VS, VS, INTERRUPT | interrupt::STI);
        play.ret(0, VS, VS);
    }
    let sequence = play.sink.finish().unwrap();
    let messages: Vec<_> = sequence
        .messages()
        .iter()
        .map(|m| (m.text.as_str(), m.times))
        .collect();
    assert_eq!(
        messages,
        [
            ("timer: in 5 000 cycles", 1),
            ("exit: mmio.unknown.write", 4),
            ("STI: the guest's handler", 1),
            ("sret: the handler ends", 1)
        ]
    );
}

#[test]
fn wanted_is_class_state_and_number_or_a_sentence() {
    let ipi = Wanted {
        class: Class::Ipi,
        state: Some(State::ScheduledOff),
        left: None,
        number: 3,
    };
    assert_eq!("ipi.scheduled_off:3".parse(), Ok(ipi));
    assert_eq!(wanted("timer").number, 1);
    assert_eq!(wanted("ipi.halted").state, Some(State::ScheduledOff));
    assert!(found("ipi.halted").is_some() && found("ipi.preempted").is_none());
    for text in ["", "tea", "ipi.asleep", "ipi:0", "ipi:x"] {
        let error = text.parse::<Wanted>().unwrap_err();
        assert!(error.contains("timer, ipi or device"), "{error}");
    }
}
