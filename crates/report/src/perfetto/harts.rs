//! Tracks of harts: modes, traps, interrupts, steps of the interrupt controller.

use std::io::Write;

use trapless_isa::cause::{INTERRUPT, exception, interrupt};
use trapless_isa::xtrapless::limits::NOTIFY_IRQ;
use trapless_isa::{Mode, sbi};
use trapless_ledger::event::{self, Guest, StepKind, Trap, VirtualStep};
use trapless_ledger::fields;
use trapless_ledger::reason::{cause_index, cause_name, short_cause};

use super::rank::{FIRST_HART, rank};
use super::writer::{Event, Kind, Track, Writer};

/// Interrupts with a flow from raised to taken: bit positions in `mip`.
const IRQS: usize = 32;

#[derive(Clone, Debug)]
struct Hart {
    track: Track,
    /// Name of the open slice.
    slice: Option<&'static str>,
    /// Flow of each interrupt that is raised and not taken; 0 for none.
    flows: [u64; IRQS],
    /// Flow from the step of the interrupt controller that signalled this hart; 0 for none.
    signal: u64,
}

/// All harts.
#[derive(Debug)]
pub struct Harts {
    parent: Track,
    list: Vec<Hart>,
    /// Number of flows so far.
    flows: u64,
}

impl Harts {
    /// Tracks below `parent`.
    pub fn new(parent: Track) -> Self {
        Self {
            parent,
            list: Vec::new(),
            flows: 0,
        }
    }

    /// Shows an event.
    pub fn record<W: Write>(&mut self, out: &mut Writer<W>, event: &event::Event) {
        match event {
            event::Event::Trap(t) => self.trap(out, t),
            event::Event::Return(r) => {
                self.begin(out, r.hart, r.time, r.from);
                self.enter(out, r.hart, r.time, r.to, r.guest);
            }
            event::Event::Raise(r) => self.raise(out, r.time, r.hart, r.irq),
            event::Event::TimerSet(t) => {
                let mut shown = Event::named("set timer", "timer");
                if t.deadline != u64::MAX {
                    shown = shown.annotated("deadline (cycles)", &t.deadline.to_string());
                }
                self.instant(out, t.hart, t.time, t.mode, shown);
            }
            event::Event::Virtual(s) => self.virtual_step(out, s),
            event::Event::DeviceAccess(d) => {
                let what = if d.write { "write" } else { "read" };
                let shown = Event::named(&format!("device {what}"), "device")
                    .annotated("address", &format!("{:#x}", d.addr));
                self.instant(out, d.hart, d.time, d.mode, shown);
            }
            event::Event::Wait(w) => {
                self.begin(out, w.hart, w.time, w.mode);
                let name = if w.begin { "idle" } else { w.mode.name() };
                self.slice(out, w.hart, w.time, name, None);
            }
            _ => {}
        }
    }

    /// Ends open slices.
    pub fn finish<W: Write>(&mut self, out: &mut Writer<W>, time: u64) {
        for hart in 0..self.list.len() {
            self.end_slice(out, hart, time);
        }
    }

    /// Makes tracks up to `hart`'s.
    fn grow<W: Write>(&mut self, out: &mut Writer<W>, hart: usize) {
        while self.list.len() <= hart {
            let number = self.list.len();
            let rank = rank(FIRST_HART, number as u64);
            let name = format!("hart {number}");
            self.list.push(Hart {
                track: out.track(Kind::Slices, &name, Some(self.parent), rank),
                slice: None,
                flows: [0; IRQS],
                signal: 0,
            });
        }
    }

    fn end_slice<W: Write>(&mut self, out: &mut Writer<W>, hart: usize, time: u64) {
        let hart = &mut self.list[hart];
        if hart.slice.take().is_some() {
            out.end(hart.track, time);
        }
    }

    /// Shows `name` from `time` on.
    fn slice<W: Write>(
        &mut self,
        out: &mut Writer<W>,
        hart: usize,
        time: u64,
        name: &'static str,
        guest: Option<Guest>,
    ) {
        if self.list[hart].slice == Some(name) {
            return;
        }
        self.end_slice(out, hart, time);
        let mut shown = Event::named(name, "mode");
        if let Some(guest) = guest {
            shown = shown
                .annotated("vmid", &guest.vmid.to_string())
                .annotated("vcpu", &format!("{:#x}", guest.context));
        }
        let hart = &mut self.list[hart];
        hart.slice = Some(name);
        out.begin(hart.track, time, shown);
    }

    /// The mode that `hart` was in when the trace began is known from its first event.
    fn begin<W: Write>(&mut self, out: &mut Writer<W>, hart: usize, time: u64, mode: Mode) {
        self.grow(out, hart);
        if self.list[hart].slice.is_none() {
            let since = time.min(out.last(self.list[hart].track));
            self.slice(out, hart, since, mode.name(), None);
        }
    }

    fn enter<W: Write>(
        &mut self,
        out: &mut Writer<W>,
        hart: usize,
        time: u64,
        mode: Mode,
        guest: Guest,
    ) {
        self.slice(out, hart, time, mode.name(), mode.v().then_some(guest));
    }

    /// Shows an instant event on a hart in `mode`.
    fn instant<W: Write>(
        &mut self,
        out: &mut Writer<W>,
        hart: usize,
        time: u64,
        mode: Mode,
        shown: Event,
    ) {
        self.begin(out, hart, time, mode);
        out.instant(self.list[hart].track, time, shown);
    }

    fn trap<W: Write>(&mut self, out: &mut Writer<W>, t: &Trap) {
        self.grow(out, t.hart);
        let index = cause_index(t.cause);
        let is_interrupt = t.is_interrupt();
        let name = match t.cause {
            exception::ECALL_S | exception::ECALL_VS => {
                let call = sbi::extension_name(t.args[3]).unwrap_or("unknown");
                format!("ecall {call}.{}", t.args[2])
            }
            _ if is_interrupt => short_cause(index),
            _ => cause_name(index),
        };
        let category = if is_interrupt { "interrupt" } else { "trap" };
        let mut shown = Event::named(&format!("{}>{} {name}", t.from, t.to), category);
        shown = shown.annotated("epc", &format!("{:#x}", t.epc));
        for (name, value) in [("tval", t.tval), ("gpa", t.gpa)] {
            if value != 0 {
                shown = shown.annotated(name, &format!("{value:#x}"));
            }
        }
        if is_interrupt {
            let code = match t.code() {
                // VS-mode sees its interrupts under supervisor numbers.
                s @ (interrupt::SSI | interrupt::STI | interrupt::SEI) if t.to.v() => s + 1,
                other => other,
            };
            let flow = self.list[t.hart].flows.get_mut(code as usize);
            shown = shown.ends_flow(flow.map_or(0, std::mem::take));
        }
        self.instant(out, t.hart, t.time, t.from, shown);
        self.enter(out, t.hart, t.time, t.to, t.guest);
    }

    fn raise<W: Write>(&mut self, out: &mut Writer<W>, time: u64, hart: usize, irq: u8) {
        self.grow(out, hart);
        let name = short_cause(cause_index(INTERRUPT | u64::from(irq)));
        let mut shown = Event::named(&format!("raise {name}"), "raise");
        let hart = &mut self.list[hart];
        if let Some(flow) = hart.flows.get_mut(usize::from(irq))
            && *flow == 0
        {
            self.flows += 1;
            *flow = self.flows;
            shown = shown.begins_flow(*flow);
        }
        if matches!(
            u64::from(irq),
            interrupt::VSSI | interrupt::VSEI | NOTIFY_IRQ
        ) {
            shown = shown.ends_flow(std::mem::take(&mut hart.signal));
        }
        out.instant(hart.track, time, shown);
    }

    fn virtual_step<W: Write>(&mut self, out: &mut Writer<W>, s: &VirtualStep) {
        let (step, fields) = fields::of_step(&s.kind);
        let mut shown = Event::named(&step.replace('_', " "), "virtual");
        shown = shown.annotated("domain", &s.domain.to_string());
        for (name, field) in fields {
            shown = shown.annotated(&name, &field.to_string());
        }
        shown = shown.annotated("memory words", &s.memory.to_string());
        if let StepKind::Hit { on: to, .. } | StepKind::Notified { to, .. } = s.kind {
            self.grow(out, to);
            // If the interrupt was pending already, there is no new flow.
            self.flows += 1;
            self.list[to].signal = self.flows;
            shown = shown.begins_flow(self.flows);
        }
        self.instant(out, s.hart, s.time, s.mode, shown);
    }
}
