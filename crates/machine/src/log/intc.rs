//! `intc` lines: accesses to the interrupt architecture, its wires and its effects.

use trapless_intc::{
    CsrAccess, CsrFault, CsrOp, DoorbellAccess, DoorbellFault, FileAccess, FileRegister, Lines,
    MessageArrival, MmioAccess, NoFile, Window,
};
use trapless_isa::cause::interrupt;
use trapless_isa::csr;

use super::file::{LogFile, start};
use crate::bus::interrupts::Call;

/// Name of a bit of `mip`.
fn bit_name(bit: u64) -> String {
    match interrupt::abbreviation(bit) {
        Some(name) => format!("{name}P"),
        None => bit.to_string(),
    }
}

/// A hart's lines when they were last read.
#[derive(Clone, Copy, Default)]
struct Seen {
    level: u64,
    hgeip: u64,
}

/// Writes the lines.
pub(super) struct IntcLog {
    windows: Vec<Window>,
    file: LogFile,
    seen: Vec<Seen>,
}

fn operation(op: CsrOp) -> String {
    match op {
        CsrOp::Read => "read".to_string(),
        CsrOp::Write(v) => format!("write {v:#x}"),
        CsrOp::Swap(v) => format!("swap {v:#x}"),
        CsrOp::Set(v) => format!("set {v:#x}"),
        CsrOp::Clear(v) => format!("clear {v:#x}"),
    }
}

impl IntcLog {
    /// A log of an architecture with these windows.
    pub fn new(windows: Vec<Window>, file: LogFile) -> Self {
        Self {
            windows,
            file,
            seen: Vec::new(),
        }
    }

    /// Writes the line of a call.
    pub fn write(&mut self, call: &Call<'_>) {
        match call {
            Call::Load(access, result) => {
                let value = match result {
                    Ok(value) => format!("value={value:#x}"),
                    Err(_) => "fault".into(),
                };
                self.mmio(access, "load ", &value);
            }
            Call::Store(access, value, result) => {
                let fault = if result.is_err() { " fault" } else { "" };
                self.mmio(access, "store", &format!("value={value:#x}{fault}"));
            }
            Call::Csr(access, result) => self.csr(access, *result),
            Call::File(access, result) => self.interrupt_file(access, *result),
            Call::Doorbell(access, result) => self.doorbell(access, *result),
            Call::EnterContext(access, pending) => {
                let start = start(access.now, access.hart);
                let what = match pending {
                    Some(pending) => format!("enter pending={pending:#x}"),
                    None => "nothing pending".into(),
                };
                self.file.line(format_args!("{start} intc   ctx   {what}"));
            }
            Call::LeaveContext(access) => {
                let start = start(access.now, access.hart);
                self.file.line(format_args!("{start} intc   ctx   leave"));
            }
            Call::Source { now, source, level } => {
                let level = if *level { "high" } else { "low" };
                self.file
                    .line(format_args!("{now:>14}  - intc   wire  {source} {level}"));
            }
            Call::Message {
                now,
                message,
                arrival,
            } => {
                let (device, addr) = (message.device.0, message.addr);
                let to = match arrival {
                    Some(MessageArrival::File { hart, file, .. }) => {
                        format!("{file:?} of hart {hart}")
                    }
                    Some(MessageArrival::Window {
                        window,
                        domain,
                        source,
                        ..
                    }) => format!("window {window}: domain {domain} source {source}"),
                    Some(MessageArrival::Dropped { window }) => {
                        format!("window {window}, which drops it")
                    }
                    None => "nobody".into(),
                };
                self.file.line(format_args!(
                    "{now:>14}  - intc   msi   device={device:#06x} addr={addr:#x} value={:#x} \
                     to {to}",
                    message.data
                ));
            }
            Call::Lines { hart, now, lines } => self.lines(*hart, *now, lines),
        }
    }

    fn mmio(&self, access: &MmioAccess, verb: &str, value: &str) {
        let (addr, size) = (access.addr, access.size);
        let place = |window: &Window| Some((window.name, window.offset(addr)?));
        let (name, offset) = self.windows.iter().find_map(place).unwrap_or(("?", addr));
        let start = start(access.now, access.hart);
        self.file.line(format_args!(
            "{start} intc   {verb} {name}+{offset:#x} addr={addr:#x} size={size} {value}"
        ));
    }

    fn csr(&self, access: &CsrAccess, result: Result<u64, CsrFault>) {
        let value = match result {
            Ok(value) => format!("value={value:#x}"),
            Err(CsrFault::Illegal) => "illegal".into(),
            Err(CsrFault::Virtual) => "virtual".into(),
        };
        let start = start(access.now, access.hart);
        let (name, op) = (csr::name(access.csr), operation(access.op));
        self.file.line(format_args!(
            "{start} intc   csr   {} {name} {op} {value}",
            access.mode
        ));
    }

    fn interrupt_file(&self, access: &FileAccess, result: Result<u64, NoFile>) {
        let value = match result {
            Ok(value) => format!("value={value:#x}"),
            Err(NoFile) => "none".into(),
        };
        let register = match access.register {
            FileRegister::Top => "topei".to_string(),
            FileRegister::Indirect(select) => format!("{select:#x}"),
        };
        let start = start(access.now, access.hart);
        let op = operation(access.op);
        self.file.line(format_args!(
            "{start} intc   file  {:?} {register} {op} {value}",
            access.file
        ));
    }

    fn doorbell(&self, access: &DoorbellAccess, result: Result<u64, DoorbellFault>) {
        let (start, offset) = (start(access.now, access.hart), access.offset);
        let what = match (access.stored, result) {
            (Some(stored), Ok(_)) => format!("store value={stored:#x}"),
            (Some(stored), Err(_)) => format!("store value={stored:#x} no match"),
            (None, Ok(value)) => format!("load  value={value:#x}"),
            (None, Err(_)) => "load  no match".into(),
        };
        self.file.line(format_args!(
            "{start} intc   bell  page={:#x} offset={offset:#x} size={} {what}",
            access.page, access.size
        ));
    }

    /// Writes changes of the lines of `hart` since they were last read.
    fn lines(&mut self, hart: usize, now: u64, lines: &Lines) {
        if self.seen.len() <= hart {
            self.seen.resize(hart + 1, Seen::default());
        }
        let new = Seen {
            level: lines.level,
            hgeip: lines.hgeip,
        };
        let old = std::mem::replace(&mut self.seen[hart], new);
        let edges = old.level ^ new.level;
        if edges == 0 && lines.pulse == 0 && old.hgeip == new.hgeip {
            return;
        }
        let start = start(now, hart);
        for bit in 0..64 {
            let name = || bit_name(bit);
            let set = |mask: u64| mask >> bit & 1 != 0;
            if set(edges) {
                let level = if set(new.level) { "high" } else { "low" };
                self.file
                    .line(format_args!("{start} intc   line  {} {level}", name()));
            }
            if set(lines.pulse) {
                self.file
                    .line(format_args!("{start} intc   line  {} pulse", name()));
            }
        }
        if old.hgeip != new.hgeip {
            self.file.line(format_args!(
                "{start} intc   line  hgeip {:#x} -> {:#x}",
                old.hgeip, new.hgeip
            ));
        }
    }
}
