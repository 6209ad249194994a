//! A script of events for tests of the ledger's rules.

#![allow(dead_code)]

use trapless_isa::Mode::{self, HS, M, U, VS};
use trapless_isa::cause::{INTERRUPT, exception};
use trapless_ledger::event::{
    Event, Guest, Raise, Return, Sink, StepKind, TimerSet, Trap, VirtualStep, Wait,
};
use trapless_ledger::{Config, Ledger, Section};

pub const V0: Guest = Guest {
    vmid: 1,
    context: 0x1000,
};
pub const V1: Guest = Guest {
    vmid: 1,
    context: 0x2000,
};

/// Feeds events with a running clock on hart 0 (10 cycles per event) unless set otherwise.
pub struct Script {
    pub ledger: Ledger,
    pub time: u64,
    hart: usize,
    guest: Guest,
    /// Instructions retired so far, and before each trap and return.
    instret: u64,
    pub instructions: u64,
    /// HS-mode enters guests without having enabled its interrupts.
    pub masked: bool,
}

impl Script {
    pub fn new() -> Self {
        Self {
            ledger: Ledger::new(Config::new(2)),
            time: 0,
            hart: 0,
            guest: V0,
            instret: 0,
            instructions: 0,
            masked: false,
        }
    }

    pub fn base(&mut self, from: Mode, to: Mode, cause: u64) -> Trap {
        self.time += 10;
        self.instret += self.instructions;
        Trap {
            time: self.time,
            hart: self.hart,
            from,
            to,
            guest: self.guest,
            cause,
            epc: 0x100,
            tval: 0,
            gpa: 0,
            insn: 0,
            args: [0; 4],
            htimedelta: 0,
            instret: self.instret,
        }
    }

    pub fn send(&mut self, trap: Trap) -> &mut Self {
        self.ledger.record(&Event::Trap(trap));
        self
    }

    pub fn trap(&mut self, from: Mode, to: Mode, cause: u64) -> &mut Self {
        let trap = self.base(from, to, cause);
        self.send(trap)
    }

    pub fn irq(&mut self, from: Mode, to: Mode, code: u64) -> &mut Self {
        self.trap(from, to, INTERRUPT | code)
    }

    pub fn ecall(&mut self, from: Mode, to: Mode, extension: u64, a0: u64, a1: u64) -> &mut Self {
        let cause = if from == VS {
            exception::ECALL_VS
        } else {
            exception::ECALL_S
        };
        let trap = self.base(from, to, cause);
        self.send(Trap {
            args: [a0, a1, 0, extension],
            ..trap
        })
    }

    pub fn fault(&mut self, cause: u64, gpa: u64) -> &mut Self {
        let trap = self.base(VS, HS, cause);
        self.send(Trap { gpa, ..trap })
    }

    pub fn insn(&mut self, to: Mode, cause: u64, insn: u32) -> &mut Self {
        let trap = self.base(VS, to, cause);
        self.send(Trap { insn, ..trap })
    }

    pub fn ret(&mut self, from: Mode, to: Mode) -> &mut Self {
        self.ret_to(from, to, 0x100)
    }

    pub fn ret_to(&mut self, from: Mode, to: Mode, pc: u64) -> &mut Self {
        self.time += 10;
        self.instret += self.instructions;
        let event = Return {
            time: self.time,
            hart: self.hart,
            from,
            to,
            guest: self.guest,
            pc,
            instret: self.instret,
            masked: self.masked,
        };
        self.ledger.record(&Event::Return(event));
        self
    }

    pub fn raise(&mut self, irq: u8) -> &mut Self {
        self.time += 10;
        let event = Raise {
            time: self.time,
            hart: self.hart,
            irq,
            guest: self.guest,
        };
        self.ledger.record(&Event::Raise(event));
        self
    }

    pub fn timer(&mut self, deadline: u64) -> &mut Self {
        self.time += 10;
        let (time, hart, guest) = (self.time, self.hart, self.guest);
        self.ledger.record(&Event::TimerSet(TimerSet {
            time,
            hart,
            mode: VS,
            guest,
            deadline,
        }));
        self
    }

    pub fn wait(&mut self, mode: Mode, begin: bool) -> &mut Self {
        self.time += 10;
        self.ledger.record(&Event::Wait(Wait {
            time: self.time,
            hart: self.hart,
            mode,
            begin,
        }));
        self
    }

    /// A system call `ioctl(fd, request)` of U-mode.
    pub fn ioctl(&mut self, fd: u64, request: u64) -> &mut Self {
        let trap = self.base(U, HS, exception::ECALL_U);
        self.send(Trap {
            args: [fd, request, 0, 29],
            ..trap
        })
    }

    /// A step of the controller, in domain 5.
    pub fn step(&mut self, mode: Mode, kind: StepKind, memory: u16) -> &mut Self {
        self.time += 10;
        self.step_now(mode, kind, memory)
    }

    /// A further step of the same access.
    pub fn step_now(&mut self, mode: Mode, kind: StepKind, memory: u16) -> &mut Self {
        self.ledger.record(&Event::Virtual(VirtualStep {
            time: self.time,
            hart: self.hart,
            mode,
            by_device: false,
            domain: 5,
            kind,
            memory,
        }));
        self
    }

    pub fn on(&mut self, hart: usize, guest: Guest) -> &mut Self {
        (self.hart, self.guest) = (hart, guest);
        self
    }

    pub fn at(&mut self, time: u64) -> &mut Self {
        self.time = time;
        self
    }

    /// Reset, then host, then guest: `M -> HS -> VS`.
    pub fn enter(&mut self) -> &mut Self {
        self.ret(M, HS).ret(HS, VS)
    }

    pub fn done(&mut self) -> Section {
        self.ledger.finish(self.time);
        let section = self.ledger.total_section();
        let charged: u64 = section.exits.values().map(|e| e.firmware_traps).sum();
        let direct: u64 = section.firmware.direct.values().map(|d| d.traps).sum();
        assert_eq!(
            charged + direct + section.firmware.host,
            section.firmware.total
        );
        let by_reason: u64 = section.exits.values().map(|e| e.exits).sum();
        assert_eq!(by_reason, section.guest_exits);
        assert_eq!(section.chains.values().sum::<u64>(), section.guest_exits);
        section
    }
}
