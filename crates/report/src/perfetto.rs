//! Traces for the Perfetto viewer (ui.perfetto.dev opens them as a file).
//!
//! A trace is a sequence of `TracePacket`s, so it is written as the run goes; memory does not
//! grow with it. What is shown: `docs/tracing.md`. Field numbers are those of Perfetto's
//! `trace_packet.proto`, `track_event.proto` and `track_descriptor.proto`.

use std::io::{self, Write};

use trapless_isa::cause::{INTERRUPT, exception, interrupt};
use trapless_isa::xtrapless::limits::NOTIFY_IRQ;
use trapless_isa::{Mode, sbi};
use trapless_ledger::event::{Event, Guest, Sink, StepKind, Trap, VirtualStep};
use trapless_ledger::reason::{cause_index, cause_name, short_cause};
use trapless_ledger::step;

use crate::protobuf::Message;

/// Field numbers.
mod field {
    /// `Trace.packet`.
    pub const PACKET: u32 = 1;
    /// `TracePacket.timestamp`, nanoseconds.
    pub const TIMESTAMP: u32 = 8;
    /// `TracePacket.trusted_packet_sequence_id`.
    pub const SEQUENCE: u32 = 10;
    /// `TracePacket.track_event`.
    pub const TRACK_EVENT: u32 = 11;
    /// `TracePacket.track_descriptor`.
    pub const TRACK_DESCRIPTOR: u32 = 60;
    /// `TrackDescriptor.uuid`.
    pub const UUID: u32 = 1;
    /// `TrackDescriptor.name`.
    pub const TRACK_NAME: u32 = 2;
    /// `TrackDescriptor.process`.
    pub const PROCESS: u32 = 3;
    /// `TrackDescriptor.parent_uuid`.
    pub const PARENT: u32 = 5;
    /// `ProcessDescriptor.pid`.
    pub const PID: u32 = 1;
    /// `ProcessDescriptor.process_name`.
    pub const PROCESS_NAME: u32 = 6;
    /// `TrackEvent.debug_annotations`.
    pub const ANNOTATION: u32 = 4;
    /// `TrackEvent.type`.
    pub const TYPE: u32 = 9;
    /// `TrackEvent.track_uuid`.
    pub const TRACK: u32 = 11;
    /// `TrackEvent.categories`.
    pub const CATEGORY: u32 = 22;
    /// `TrackEvent.name`.
    pub const NAME: u32 = 23;
    /// `TrackEvent.flow_ids`.
    pub const FLOW: u32 = 47;
    /// `TrackEvent.terminating_flow_ids`.
    pub const FLOW_END: u32 = 48;
    /// `DebugAnnotation.name`.
    pub const ANNOTATION_NAME: u32 = 10;
    /// `DebugAnnotation.string_value`.
    pub const ANNOTATION_TEXT: u32 = 6;
}

/// `TrackEvent.Type`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;

/// Track of the machine; hart `n` has `MACHINE + 1 + n`.
const MACHINE: u64 = 1;

/// Interrupts with a flow from raised to taken: bit positions in `mip`.
const IRQS: usize = 32;

#[derive(Clone, Debug)]
struct Hart {
    /// Name of the open slice.
    slice: Option<&'static str>,
    mode: Mode,
    last: u64,
    /// Flow of each interrupt that is raised and not taken; 0 for none.
    flows: [u64; IRQS],
    /// Flow from the step of the interrupt controller that told this hart something; 0 for none.
    told: u64,
}

/// Writes a trace to `out`; give it a [`io::BufWriter`] over a file (`.pftrace`).
///
/// After a failed write nothing more is written; [`finish`](Self::finish) reports the failure.
#[derive(Debug)]
pub struct PerfettoTrace<W: Write> {
    out: W,
    failed: Option<io::Error>,
    cycles_per_second: u64,
    harts: Vec<Hart>,
    flows: u64,
}

impl<W: Write> PerfettoTrace<W> {
    /// A trace of a machine called `name` whose virtual time has `cycles_per_second`.
    pub fn new(out: W, name: &str, cycles_per_second: u64) -> Self {
        let mut trace = Self {
            out,
            failed: None,
            cycles_per_second: cycles_per_second.max(1),
            harts: Vec::new(),
            flows: 0,
        };
        let process = Message::new()
            .uint(field::PID, MACHINE)
            .text(field::PROCESS_NAME, &format!("machine {name}"));
        let track = Message::new()
            .uint(field::UUID, MACHINE)
            .message(field::PROCESS, &process);
        trace.packet(Message::new().message(field::TRACK_DESCRIPTOR, &track));
        trace
    }

    /// Closes what is open at `time`, flushes, and gives the writer back.
    ///
    /// # Errors
    /// The first write that failed.
    pub fn finish(mut self, time: u64) -> io::Result<W> {
        for hart in 0..self.harts.len() {
            self.end_slice(hart, time);
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.out.flush()?;
        Ok(self.out)
    }

    fn packet(&mut self, packet: Message) {
        if self.failed.is_none() {
            let packet = packet.uint(field::SEQUENCE, 1);
            let framed = Message::new().message(field::PACKET, &packet);
            self.failed = self.out.write_all(framed.encoded()).err();
        }
    }

    /// Writes an event of `hart`; time on a track never runs backwards.
    fn event(&mut self, hart: usize, time: u64, kind: u64, rest: Message) {
        let state = &mut self.harts[hart];
        state.last = state.last.max(time);
        let ns = u128::from(state.last) * 1_000_000_000 / u128::from(self.cycles_per_second);
        let event = rest
            .uint(field::TYPE, kind)
            .uint(field::TRACK, MACHINE + 1 + hart as u64);
        let packet = Message::new()
            .uint(field::TIMESTAMP, ns as u64)
            .message(field::TRACK_EVENT, &event);
        self.packet(packet);
    }

    /// Makes tracks up to `hart`'s.
    fn grow(&mut self, hart: usize, mode: Mode) {
        while self.harts.len() <= hart {
            let uuid = MACHINE + 1 + self.harts.len() as u64;
            let track = Message::new()
                .uint(field::UUID, uuid)
                .uint(field::PARENT, MACHINE)
                .text(field::TRACK_NAME, &format!("hart {}", self.harts.len()));
            self.packet(Message::new().message(field::TRACK_DESCRIPTOR, &track));
            self.harts.push(Hart {
                slice: None,
                mode,
                last: 0,
                flows: [0; IRQS],
                told: 0,
            });
        }
    }

    fn end_slice(&mut self, hart: usize, time: u64) {
        if self.harts[hart].slice.take().is_some() {
            self.event(hart, time, SLICE_END, Message::new());
        }
    }

    /// Shows `name` from `time` on.
    fn slice(&mut self, hart: usize, time: u64, name: &'static str, guest: Option<Guest>) {
        if self.harts[hart].slice == Some(name) {
            return;
        }
        self.end_slice(hart, time);
        self.harts[hart].slice = Some(name);
        let mut rest = named(name, "mode");
        if let Some(guest) = guest {
            rest = annotated(rest, "vmid", &guest.vmid.to_string());
            rest = annotated(rest, "vcpu", &format!("{:#x}", guest.context));
        }
        self.event(hart, time, SLICE_BEGIN, rest);
    }

    /// The mode that `hart` was in when the trace began is known from its first event.
    fn begin(&mut self, hart: usize, time: u64, mode: Mode) {
        if hart >= self.harts.len() {
            self.grow(hart, mode);
        }
        if self.harts[hart].slice.is_none() {
            self.slice(hart, time.min(self.harts[hart].last), mode.name(), None);
        }
    }

    fn enter(&mut self, hart: usize, time: u64, mode: Mode, guest: Guest) {
        self.harts[hart].mode = mode;
        self.slice(hart, time, mode.name(), mode.v().then_some(guest));
    }

    fn trap(&mut self, t: &Trap) {
        self.begin(t.hart, t.time, t.from);
        let index = cause_index(t.cause);
        let is_interrupt = t.cause & INTERRUPT != 0;
        let name = match t.cause {
            exception::ECALL_S | exception::ECALL_VS => {
                let call = sbi::extension_name(t.args[3]).unwrap_or("unknown");
                format!("ecall {call}.{}", t.args[2])
            }
            _ if is_interrupt => short_cause(index),
            _ => cause_name(index),
        };
        let category = if is_interrupt { "interrupt" } else { "trap" };
        let mut rest = named(&format!("{}>{} {name}", t.from, t.to), category);
        rest = annotated(rest, "epc", &format!("{:#x}", t.epc));
        if t.tval != 0 {
            rest = annotated(rest, "tval", &format!("{:#x}", t.tval));
        }
        if t.gpa != 0 {
            rest = annotated(rest, "gpa", &format!("{:#x}", t.gpa));
        }
        if is_interrupt {
            let code = match t.cause & !INTERRUPT {
                // VS-mode sees its interrupts under supervisor numbers.
                s @ (interrupt::SSI | interrupt::STI | interrupt::SEI) if t.to.v() => s + 1,
                other => other,
            };
            let flow = self.harts[t.hart]
                .flows
                .get_mut(code as usize)
                .map_or(0, std::mem::take);
            if flow != 0 {
                rest = rest.fixed64(field::FLOW_END, flow);
            }
        }
        self.event(t.hart, t.time, INSTANT, rest);
        self.enter(t.hart, t.time, t.to, t.guest);
    }

    fn raise(&mut self, time: u64, hart: usize, irq: u8) {
        if hart >= self.harts.len() {
            self.grow(hart, Mode::M);
        }
        let name = short_cause(cause_index(INTERRUPT | u64::from(irq)));
        let mut rest = named(&format!("raise {name}"), "raise");
        if let Some(flow) = self.harts[hart].flows.get_mut(usize::from(irq))
            && *flow == 0
        {
            self.flows += 1;
            *flow = self.flows;
            rest = rest.fixed64(field::FLOW, *flow);
        }
        if matches!(
            u64::from(irq),
            interrupt::VSSI | interrupt::VSEI | NOTIFY_IRQ
        ) {
            let told = std::mem::take(&mut self.harts[hart].told);
            if told != 0 {
                rest = rest.fixed64(field::FLOW_END, told);
            }
        }
        self.event(hart, time, INSTANT, rest);
    }

    fn virtual_step(&mut self, s: &VirtualStep) {
        self.begin(s.hart, s.time, s.mode);
        let mut rest = named(&step::name(&s.kind).replace('_', " "), "virtual");
        rest = annotated(rest, "domain", &s.domain.to_string());
        for (name, field) in step::fields(&s.kind) {
            rest = annotated(rest, name, &field.to_string());
        }
        rest = annotated(rest, "memory words", &s.memory.to_string());
        if let StepKind::Hit { on: to, .. } | StepKind::Notified { to, .. } = s.kind {
            if to >= self.harts.len() {
                self.grow(to, Mode::M);
            }
            // One that finds the interrupt pending already leads to no new one.
            self.flows += 1;
            self.harts[to].told = self.flows;
            rest = rest.fixed64(field::FLOW, self.flows);
        }
        self.event(s.hart, s.time, INSTANT, rest);
    }
}

fn named(name: &str, category: &str) -> Message {
    Message::new()
        .text(field::CATEGORY, category)
        .text(field::NAME, name)
}

fn annotated(event: Message, name: &str, value: &str) -> Message {
    let annotation = Message::new()
        .text(field::ANNOTATION_NAME, name)
        .text(field::ANNOTATION_TEXT, value);
    event.message(field::ANNOTATION, &annotation)
}

impl<W: Write> Sink for PerfettoTrace<W> {
    fn record(&mut self, event: &Event) {
        match event {
            Event::Trap(t) => self.trap(t),
            Event::Return(r) => {
                self.begin(r.hart, r.time, r.from);
                self.enter(r.hart, r.time, r.to, r.guest);
            }
            Event::Raise(r) => self.raise(r.time, r.hart, r.irq),
            Event::TimerSet(t) => {
                self.begin(t.hart, t.time, t.mode);
                let mut rest = named("set timer", "timer");
                if t.deadline != u64::MAX {
                    rest = annotated(rest, "deadline (cycles)", &t.deadline.to_string());
                }
                self.event(t.hart, t.time, INSTANT, rest);
            }
            Event::Virtual(s) => self.virtual_step(s),
            Event::DeviceAccess(d) => {
                self.begin(d.hart, d.time, d.mode);
                let what = if d.write { "write" } else { "read" };
                let rest = named(&format!("device {what}"), "device");
                let rest = annotated(rest, "address", &format!("{:#x}", d.addr));
                self.event(d.hart, d.time, INSTANT, rest);
            }
            Event::Wait {
                time,
                hart,
                mode,
                begin,
            } => {
                self.begin(*hart, *time, *mode);
                let name = if *begin { "idle" } else { mode.name() };
                self.slice(*hart, *time, name, None);
            }
        }
    }
}
