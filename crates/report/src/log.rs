//! The log of traps: one line of text per event. Format: `docs/tracing.md`.

use std::io::{self, Write};

use trapless_isa::cause::{INTERRUPT, exception};
use trapless_isa::{Mode, csr, sbi};
use trapless_ledger::event::{Event, Guest, Return, Sink, Trap, VirtualStep};
use trapless_ledger::fields;
use trapless_ledger::reason::{cause_index, cause_name, short_cause};

/// Writes a line for each event to `out`.
///
/// After a failed write nothing more is written; [`finish`](Self::finish) reports the failure.
#[derive(Debug)]
pub struct TrapLog<W: Write> {
    out: W,
    failed: Option<io::Error>,
}

impl<W: Write> TrapLog<W> {
    /// A log to `out`; give it a [`io::BufWriter`] over a file.
    pub fn new(out: W) -> Self {
        Self { out, failed: None }
    }

    /// Flushes and returns the writer.
    ///
    /// # Errors
    /// The first write that failed.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write> Sink for TrapLog<W> {
    fn record(&mut self, event: &Event) {
        // Switches of threads are counted by the ledger and not logged.
        if self.failed.is_none() && !matches!(event, Event::Switch(_)) {
            self.failed = writeln!(self.out, "{}", line(event)).err();
        }
    }
}

/// The line of an event, without its end.
pub fn line(event: &Event) -> String {
    match event {
        Event::Trap(t) => trap(t),
        Event::Return(r) => returned(r),
        Event::Raise(r) => {
            let irq = short_cause(cause_index(INTERRUPT | u64::from(r.irq)));
            format!("{} raise  {irq}", start(r.time, r.hart))
        }
        Event::TimerSet(t) => {
            let deadline = match t.deadline {
                u64::MAX => "never".to_string(),
                cycles => cycles.to_string(),
            };
            format!(
                "{} timer  {} deadline={deadline}{}",
                start(t.time, t.hart),
                t.mode,
                guest(t.mode, t.mode, t.guest)
            )
        }
        Event::Virtual(s) => virtual_step(s),
        Event::DeviceAccess(d) => {
            let what = if d.write { "write" } else { "read" };
            format!(
                "{} device {} {what} {:#x}",
                start(d.time, d.hart),
                d.mode,
                d.addr
            )
        }
        Event::Wait(w) => {
            let what = if w.begin { "begin" } else { "end" };
            format!("{} wait   {} {what}", start(w.time, w.hart), w.mode)
        }
        other => {
            let start = start(other.time(), other.hart());
            format!(
                "{start} {:<6}{}",
                other.name(),
                fields::text(&fields::of(other))
            )
        }
    }
}

fn virtual_step(s: &VirtualStep) -> String {
    let (step, fields) = fields::of_step(&s.kind);
    let by = if s.by_device {
        format!("{:>14}  - virt   -", s.time)
    } else {
        format!("{} virt   {}", start(s.time, s.hart), s.mode)
    };
    format!(
        "{by} {step} domain={}{} memory={}",
        s.domain,
        fields::text(&fields),
        s.memory
    )
}

fn start(time: u64, hart: usize) -> String {
    format!("{time:>14} {hart:>2}")
}

fn guest(from: Mode, to: Mode, guest: Guest) -> String {
    if from.v() || to.v() {
        format!(" vmid={} vcpu={:#x}", guest.vmid, guest.context)
    } else {
        String::new()
    }
}

fn trap(t: &Trap) -> String {
    let index = cause_index(t.cause);
    let cause = if t.is_interrupt() {
        short_cause(index)
    } else {
        cause_name(index)
    };
    let mut line = format!(
        "{} trap   {}>{} {cause} epc={:#x}",
        start(t.time, t.hart),
        t.from,
        t.to,
        t.epc
    );
    if !t.is_interrupt() {
        match t.cause {
            exception::ECALL_U => line.push_str(&format!(" a7={:#x}", t.args[3])),
            exception::ECALL_S | exception::ECALL_VS => line.push_str(&call(t)),
            exception::ECALL_M => {}
            exception::ILLEGAL | exception::VIRTUAL_INSTRUCTION => {
                line.push_str(&format!(" insn={:#010x}", t.insn));
                if let Some(csr) = t.csr() {
                    line.push_str(&format!(" csr={}", csr::name(csr)));
                }
            }
            _ => line.push_str(&format!(" tval={:#x}", t.tval)),
        }
        if t.gpa != 0 {
            line.push_str(&format!(" gpa={:#x}", t.gpa));
        }
    }
    line + &guest(t.from, t.to, t.guest)
}

/// An SBI call: extension, function and the first two arguments.
fn call(t: &Trap) -> String {
    let [a0, a1, function, extension] = t.args;
    let name = match sbi::extension_name(extension) {
        Some(name) => name.replace(' ', "-"),
        None => format!("{extension:#x}"),
    };
    format!(" sbi={name}.{function} a0={a0:#x} a1={a1:#x}")
}

fn returned(r: &Return) -> String {
    let guest = guest(r.from, r.to, r.guest);
    format!(
        "{} return {}>{} pc={:#x}{guest}",
        start(r.time, r.hart),
        r.from,
        r.to,
        r.pc
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_ledger::event::{Raise, StepKind, TimerSet, Wait};

    const GUEST: Guest = Guest {
        vmid: 3,
        context: 0x10,
    };

    fn base(from: Mode, to: Mode, cause: u64) -> Trap {
        Trap {
            time: 1234,
            hart: 1,
            from,
            to,
            guest: GUEST,
            cause,
            epc: 0x8000_0000,
            tval: 0x1000,
            gpa: 0,
            insn: 0,
            args: [0; 4],
            htimedelta: 0,
            instret: 0,
        }
    }

    #[test]
    fn lines_keep_the_documented_form() {
        let time = sbi::eid::TIME;
        let call = Trap {
            args: [5, 0, 0, time],
            ..base(Mode::VS, Mode::HS, exception::ECALL_VS)
        };
        let fault = Trap {
            gpa: 0x1000_0000,
            ..base(Mode::VU, Mode::HS, exception::LOAD_GUEST_PAGE)
        };
        let csr = Trap {
            insn: 0x14d5_1073,
            ..base(Mode::VS, Mode::HS, exception::VIRTUAL_INSTRUCTION)
        };
        let set = TimerSet {
            time: 7,
            hart: 0,
            mode: Mode::HS,
            guest: GUEST,
            deadline: u64::MAX,
        };
        let raise = Raise {
            time: 7,
            hart: 63,
            irq: 6,
            guest: GUEST,
        };
        let post = VirtualStep {
            time: 8,
            hart: 1,
            mode: Mode::VS,
            by_device: false,
            domain: 5,
            kind: StepKind::Notified {
                vhart: 2,
                to: 3,
                kind: 1,
            },
            memory: 4,
        };
        let cases = [
            (
                Event::Virtual(post),
                "             8  1 virt   VS notified domain=5 vhart=2 to=3 kind=wake memory=4",
            ),
            (
                Event::Trap(call),
                "          1234  1 trap   VS>HS environment call from VS epc=0x80000000 sbi=TIME.0 a0=0x5 a1=0x0 vmid=3 vcpu=0x10",
            ),
            (
                Event::Trap(fault),
                "          1234  1 trap   VU>HS load guest-page fault epc=0x80000000 tval=0x1000 gpa=0x10000000 vmid=3 vcpu=0x10",
            ),
            (
                Event::Trap(csr),
                "          1234  1 trap   VS>HS virtual instruction epc=0x80000000 insn=0x14d51073 csr=stimecmp vmid=3 vcpu=0x10",
            ),
            (
                Event::Trap(base(Mode::HS, Mode::M, INTERRUPT | 7)),
                "          1234  1 trap   HS>M MTI epc=0x80000000",
            ),
            (
                Event::TimerSet(set),
                "             7  0 timer  HS deadline=never",
            ),
            (Event::Raise(raise), "             7 63 raise  VSTI"),
            (
                Event::Wait(Wait {
                    time: 9,
                    hart: 2,
                    mode: Mode::VS,
                    begin: false,
                }),
                "             9  2 wait   VS end",
            ),
        ];
        for (event, expected) in cases {
            assert_eq!(line(&event), expected);
        }
    }
}
