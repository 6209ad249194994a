//! `exec` lines, and the observer and sink that `exec` and `csr` share.

use std::fmt::Write;

use trapless_hart::{Hart, MemoryAccess, Observer};
use trapless_isa::Mode;
use trapless_isa::cause::INTERRUPT;
use trapless_isa::disasm::{disasm, f_name, x_name};
use trapless_isa::inst::{CostClass, Format, Inst};
use trapless_ledger::event::{Event, Sink};

use super::csr::{CsrAccess, Shadow};
use super::file::{LogFile, start};
use crate::shared::Shared;

/// An instruction between `before` and `after`.
struct Pending {
    mode: Mode,
    pc: u64,
    inst: Inst,
    memory: Option<MemoryAccess>,
    csr: Option<CsrAccess>,
}

/// A trap or return whose effect on the CSRs has not been written.
#[derive(Clone, Copy)]
struct Change {
    time: u64,
    mode: Mode,
    verb: &'static str,
}

#[derive(Default)]
struct State {
    pending: Option<Pending>,
    change: Option<Change>,
    shadow: Option<Shadow>,
}

/// State of each hart.
pub(super) struct HartLog {
    exec: bool,
    csr: bool,
    file: LogFile,
    harts: Vec<State>,
    /// The line being written; kept to reuse its allocation.
    line: String,
}

impl HartLog {
    pub fn new(exec: bool, csr: bool, file: LogFile) -> Self {
        Self {
            exec,
            csr,
            file,
            harts: Vec::new(),
            line: String::new(),
        }
    }

    fn state(&mut self, hart: usize) -> &mut State {
        if self.harts.len() <= hart {
            self.harts.resize_with(hart + 1, State::default);
        }
        &mut self.harts[hart]
    }

    /// Writes the CSR changes of the last trap or return.
    fn changes(&mut self, hart: &Hart) {
        let file = self.file.clone();
        let state = self.state(hart.id());
        match (&mut state.shadow, state.change.take()) {
            (None, _) => state.shadow = Some(Shadow::of(hart)),
            (Some(shadow), Some(change)) => {
                shadow.update(hart, |name, old, new| {
                    file.line(format_args!(
                        "{} csr    {} {} {name} {old:#x} -> {new:#x}",
                        start(change.time, hart.id()),
                        change.mode,
                        change.verb
                    ));
                });
            }
            _ => {}
        }
    }

    fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) {
        let mut inst = *inst;
        // The interpreter's register number for discarded results.
        inst.rd &= 31;
        let mut pending = Pending {
            mode: hart.mode(),
            pc,
            inst,
            memory: None,
            csr: None,
        };
        if self.exec {
            pending.memory = hart.memory_access(&inst);
        }
        if self.csr {
            self.changes(hart);
            if inst.op.class() == CostClass::Csr {
                pending.csr = Some(CsrAccess::new(hart, &inst));
            }
        }
        self.state(hart.id()).pending = Some(pending);
    }

    fn after(&mut self, hart: &Hart) {
        let Some(pending) = self.state(hart.id()).pending.take() else {
            return;
        };
        let time = hart.instruction_time();
        if self.exec {
            exec(&mut self.line, time, hart.id(), &pending, Some(hart));
            self.file.line(format_args!("{}", self.line));
        }
        if let Some(access) = &pending.csr {
            let start = start(time, hart.id());
            let (mode, pc) = (pending.mode, pending.pc);
            let text = access.text(hart, &pending.inst);
            self.file
                .line(format_args!("{start} csr    {mode} {text} pc={pc:#x}"));
            if access.writes {
                self.state(hart.id()).shadow = Some(Shadow::of(hart));
            }
        }
        if self.csr {
            self.changes(hart);
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Trap(trap) => {
                let pending = self.state(trap.hart).pending.take();
                if let Some(pending) = pending.filter(|_| trap.cause & INTERRUPT == 0 && self.exec)
                {
                    exec(&mut self.line, trap.time, trap.hart, &pending, None);
                    self.file.line(format_args!("{}", self.line));
                }
                self.state(trap.hart).change = Some(Change {
                    time: trap.time,
                    mode: trap.to,
                    verb: "trap ",
                });
            }
            Event::Return(ret) => {
                self.state(ret.hart).change = Some(Change {
                    time: ret.time,
                    mode: ret.from,
                    verb: "ret  ",
                });
            }
            _ => {}
        }
    }
}

/// Writes the line of an instruction to `line`; without `hart` it trapped.
fn exec(line: &mut String, time: u64, id: usize, pending: &Pending, hart: Option<&Hart>) {
    let Pending { mode, pc, inst, .. } = pending;
    let width = usize::from(inst.len) * 2 + 2;
    line.clear();
    // Writing to a string cannot fail.
    let _ = write!(
        line,
        "{time:>14} {id:>2} exec   {mode} pc={pc:#x} insn={:#0width$x} {} ;",
        inst.raw,
        disasm(*inst, *pc)
    );
    let Some(hart) = hart else {
        line.push_str(" trap");
        return;
    };
    let _ = match destination(inst) {
        Some(Destination::X(rd)) => {
            write!(line, " {}={:#x}", x_name(rd), hart.x(rd.into()))
        }
        Some(Destination::F(rd)) => {
            write!(line, " {}={:#x}", f_name(rd), hart.f(rd.into()))
        }
        None => Ok(()),
    };
    if let Some(access) = pending.memory {
        let kind = match (access.load, access.store) {
            (true, true) => "amo",
            (true, false) => "load",
            _ => "store",
        };
        let _ = write!(line, " {kind}={:#x}", access.addr);
        if matches!(
            inst.op.format(),
            Format::Store | Format::HStore | Format::FStore
        ) {
            let _ = write!(line, " value={:#x}", access.value);
        }
    }
}

enum Destination {
    X(u8),
    F(u8),
}

/// Register that `inst` writes; `None` for `x0`.
fn destination(inst: &Inst) -> Option<Destination> {
    match inst.op.format() {
        Format::None
        | Format::Store
        | Format::Branch
        | Format::Fence
        | Format::HStore
        | Format::Vma
        | Format::Cbo
        | Format::Prefetch
        | Format::FStore => None,
        Format::FLoad
        | Format::F
        | Format::FRm
        | Format::F4Rm
        | Format::FUnaryRm
        | Format::XToF
        | Format::XToFRm => Some(Destination::F(inst.rd)),
        _ => (inst.rd != 0).then_some(Destination::X(inst.rd)),
    }
}

/// The observer.
pub(super) struct Watcher(pub Shared<HartLog>);

impl Observer for Watcher {
    fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
        self.0.lock().before(hart, pc, inst);
        true
    }

    fn after(&mut self, hart: &Hart, _: u64, _: &Inst) {
        self.0.lock().after(hart);
    }
}

/// The sink: traps cut instructions short and change CSRs.
pub(super) struct HartSink(pub Shared<HartLog>);

impl Sink for HartSink {
    fn record(&mut self, event: &Event) {
        self.0.lock().event(event);
    }
}
