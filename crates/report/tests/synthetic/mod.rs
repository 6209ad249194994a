//! Event streams in the shape of the real ones (two harts, one guest with a periodic timer), made
//! up for tests only.

#![allow(dead_code)]

use std::collections::BTreeMap;

use trapless_isa::Mode::{self, HS, M, U, VS, VU};
use trapless_isa::cause::{INTERRUPT, exception, interrupt};
use trapless_isa::sbi::eid;
use trapless_ledger::document::{Cost, HostInfo, Measurement, Work};
use trapless_ledger::event::{
    DeviceAccess, Event, Guest, Raise, Return, Sink, TimerSet, Trap, Wait,
};
use trapless_ledger::{Config, Ledger, LedgerFile, RunInfo};

/// Cycles between wake-ups.
const PERIOD: u64 = 1_000_000;

/// Plays a guest on hart 0 and its neighbour on hart 1 into a sink.
pub struct Player<S> {
    pub sink: S,
    pub time: u64,
    hart: usize,
    state: u64,
}

impl<S: Sink> Player<S> {
    pub fn new(sink: S) -> Self {
        Self {
            sink,
            time: 0,
            hart: 0,
            state: 0x1234_5678_9abc_def1,
        }
    }

    fn draw(&mut self, n: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % n
    }

    /// Time passes: `base` cycles, and now and then up to twenty times as many.
    fn work(&mut self, base: u64) {
        let rare = if self.draw(50) == 0 { self.draw(20) } else { 0 };
        self.time += base + self.draw(base / 2 + 1) + base * rare;
    }

    fn guest(&self) -> Guest {
        Guest {
            vmid: 1,
            context: 0xffff_ffd8_0012_0000 + 0x2000 * self.hart as u64,
        }
    }

    fn trap(&mut self, from: Mode, to: Mode, cause: u64) -> Trap {
        Trap {
            time: self.time,
            hart: self.hart,
            from,
            to,
            guest: self.guest(),
            cause,
            epc: 0xffff_ffff_8000_1000,
            tval: 0,
            gpa: 0,
            insn: 0,
            args: [0; 4],
            htimedelta: 0,
            instret: 0,
        }
    }

    fn send(&mut self, trap: Trap) {
        self.sink.record(&Event::Trap(trap));
    }

    fn irq(&mut self, from: Mode, to: Mode, code: u64) {
        let trap = self.trap(from, to, INTERRUPT | code);
        self.send(trap);
    }

    fn ecall(&mut self, from: Mode, to: Mode, extension: u64, a0: u64) {
        let cause = if from == VS {
            exception::ECALL_VS
        } else {
            exception::ECALL_S
        };
        let trap = self.trap(from, to, cause);
        self.send(Trap {
            args: [a0, 0, 0, extension],
            ..trap
        });
    }

    fn ret(&mut self, from: Mode, to: Mode) {
        let (time, hart, guest) = (self.time, self.hart, self.guest());
        let pc = 0xffff_ffff_8000_1000;
        self.sink.record(&Event::Return(Return {
            time,
            hart,
            from,
            to,
            guest,
            pc,
            instret: 0,
            masked: false,
        }));
    }

    fn raise(&mut self, irq: u64) {
        let (time, hart, guest) = (self.time, self.hart, self.guest());
        self.sink.record(&Event::Raise(Raise {
            time,
            hart,
            irq: irq as u8,
            guest,
        }));
    }

    fn wait(&mut self, begin: bool) {
        self.sink.record(&Event::Wait(Wait {
            time: self.time,
            hart: self.hart,
            mode: HS,
            begin,
        }));
    }

    /// Reset to a running guest on both harts.
    pub fn boot(&mut self) {
        for hart in 0..2 {
            self.hart = hart;
            self.work(2000);
            self.ret(M, HS);
            self.ecall(HS, M, eid::BASE, 0);
            self.work(300);
            self.ret(M, HS);
            self.work(5000);
            self.ret(HS, VS);
            if hart == 0 {
                self.ecall(VS, HS, eid::HSM, 1);
                self.work(900);
                self.ret(HS, VS);
            }
            for page in 0..40 {
                self.work(700);
                let trap = self.trap(VS, HS, exception::STORE_GUEST_PAGE);
                self.send(Trap {
                    gpa: 0x8000_0000 + page * 4096,
                    ..trap
                });
                self.work(2500);
                self.ret(HS, VS);
            }
        }
        self.hart = 0;
    }

    fn set_timer(&mut self, sstc: bool, deadline: u64) {
        if sstc {
            let (time, hart, guest) = (self.time, self.hart, self.guest());
            self.sink.record(&Event::TimerSet(TimerSet {
                time,
                hart,
                mode: VS,
                guest,
                deadline,
            }));
            return;
        }
        self.ecall(VS, HS, eid::TIME, deadline / 100);
        self.work(900);
        self.ecall(HS, M, eid::TIME, deadline / 100);
        self.work(250);
        self.ret(M, HS);
        self.work(600);
        self.ret(HS, VS);
    }

    fn uart(&mut self) {
        let trap = self.trap(VS, HS, exception::STORE_GUEST_PAGE);
        self.send(Trap {
            gpa: 0x1000_0000,
            ..trap
        });
        self.work(1200);
        self.ret(HS, U);
        self.work(800);
        let (time, hart) = (self.time, self.hart);
        let access = DeviceAccess {
            time,
            hart,
            mode: U,
            addr: 0x1000_0000,
            write: true,
        };
        self.sink.record(&Event::DeviceAccess(access));
        let call = self.trap(U, HS, exception::ECALL_U);
        self.send(call);
        self.work(1100);
        self.ret(HS, VS);
    }

    /// One wake-up: programs the timer, halts, takes the interrupt, runs the thread.
    pub fn wake_up(&mut self, sstc: bool) {
        let deadline = (self.time / PERIOD + 1) * PERIOD;
        self.set_timer(sstc, deadline);
        self.work(400);
        let wfi = self.trap(VS, HS, exception::VIRTUAL_INSTRUCTION);
        self.send(Trap {
            insn: 0x1050_0073,
            ..wfi
        });
        self.work(1500);
        self.wait(true);
        self.time = self.time.max(deadline);
        self.wait(false);
        if sstc {
            self.raise(interrupt::STI);
        } else {
            self.raise(interrupt::MTI);
            self.irq(HS, M, interrupt::MTI);
            self.work(260);
            self.ret(M, HS);
        }
        self.irq(HS, HS, interrupt::STI);
        self.work(2200);
        self.ret(HS, HS);
        self.work(1500);
        self.raise(interrupt::VSTI);
        self.work(200);
        self.ret(HS, VS);
        self.work(30);
        self.irq(VS, VS, interrupt::STI);
        self.work(700);
        self.ret(VS, VS);
        self.ret(VS, VU);
        self.work(1000);
        if self.draw(40) == 0 {
            self.uart();
        }
        if self.draw(10) == 0 {
            self.ipi();
        }
        let call = self.trap(VU, VS, exception::ECALL_U);
        self.send(call);
        self.work(300);
    }

    /// vCPU 0 sends vCPU 1 an IPI.
    fn ipi(&mut self) {
        self.ecall(VS, HS, eid::IPI, 0b10);
        self.work(800);
        self.ecall(HS, M, eid::IPI, 0b10);
        self.work(300);
        self.ret(M, HS);
        let back = self.time;
        self.work(400);
        self.ret(HS, VS);
        let sender = self.time;
        (self.hart, self.time) = (1, back);
        self.raise(interrupt::MSI);
        self.irq(VU, M, interrupt::MSI);
        self.work(250);
        self.ret(M, VU);
        self.irq(VU, HS, interrupt::SSI);
        self.work(900);
        self.raise(interrupt::VSSI);
        self.ret(HS, VU);
        self.irq(VU, VS, interrupt::SSI);
        self.work(300);
        self.ret(VS, VU);
        (self.hart, self.time) = (0, sender.max(self.time));
    }
}

/// A ledger of `wake_ups` on machine `sbi` or `sstc`.
pub fn ledger(machine: &str, wake_ups: u64) -> LedgerFile {
    let sstc = machine != "sbi";
    let mut player = Player::new(Ledger::new(Config::new(2)));
    player.boot();
    let time = player.time;
    player.sink.mark("workload", time);
    for _ in 0..wake_ups {
        player.wake_up(sstc);
    }
    let time = player.time;
    player.sink.finish(time);
    let text = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect()
    };
    let cost = |name: &str, cycles, source: &str| Cost {
        name: name.into(),
        cycles,
        source: source.into(),
    };
    let run = RunInfo {
        machine: machine.to_string(),
        workload: "timer".to_string(),
        work: Some(Work {
            unit: "wake-ups".into(),
            count: wake_ups,
        }),
        configuration: text(&[
            ("harts", "2"),
            ("ram", "2 GiB"),
            ("extensions", if sstc { "h sstc" } else { "h" }),
            ("guest harts", "2"),
            ("note", "SYNTHETIC <test> & \"data\""),
        ]),
        cost_model: vec![
            cost(
                "simple",
                1,
                "rocket-sched: one micro-op per cycle, ALU latency 1",
            ),
            cost("trap", 5, "assumption: the five-stage pipeline refills"),
            cost(
                "device",
                40,
                "assumption: uncached round trip over a crossbar",
            ),
        ],
        packages: text(&[
            ("linux-image-6.12.107+deb13-riscv64", "6.12.107-1"),
            ("opensbi", "1.6-1"),
            ("rt-tests", "2.8-1"),
        ]),
        git_revision: "0123456789abcdef0123456789abcdef01234567".into(),
        measurements: vec![Measurement {
            name: "latency_avg".into(),
            value: if sstc { 9.0 } else { 11.0 },
            unit: "us".into(),
        }],
        counters: [("instructions".to_string(), 123_456_789)].into(),
        ..RunInfo::default()
    };
    player.sink.to_file(
        run,
        Some(HostInfo {
            wall_seconds: 1.5,
            ..HostInfo::default()
        }),
    )
}
