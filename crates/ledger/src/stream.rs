//! The full stream of events, one JSON object per line, written as it comes.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::event::{Event, Guest, Sink, VirtualStep};
use crate::step::{self, Field};

/// First line of a stream.
pub const STREAM_SCHEMA: &str = "trapless-events/2";

/// Writes each event as a line of JSON (JSON Lines). Memory is bounded by the writer's own buffer;
/// give it a [`io::BufWriter`] over a file.
///
/// After a failed write nothing more is written; [`finish`](Self::finish) reports the failure.
#[derive(Debug)]
pub struct EventStream<W: Write> {
    out: W,
    failed: Option<io::Error>,
    /// Events still to be written; the stream says where it stopped.
    left: u64,
}

impl<W: Write> EventStream<W> {
    /// A stream to `out` of at most `limit` events.
    pub fn new(out: W, limit: u64) -> Self {
        let mut stream = Self {
            out,
            failed: None,
            left: limit,
        };
        stream.line(&json!({ "schema": STREAM_SCHEMA }));
        stream
    }

    fn line(&mut self, value: &Value) {
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{value}").err();
        }
    }

    /// Flushes and gives the writer back.
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

fn guest(g: Guest) -> Value {
    json!({ "vmid": g.vmid, "context": hex(g.context) })
}

/// 64-bit values as text: JSON readers lose bits above 2^53.
fn hex(value: u64) -> String {
    format!("{value:#x}")
}

fn virtual_step(s: &VirtualStep) -> Value {
    let mut value = json!({
        "event": "virtual", "time": s.time, "hart": s.hart, "mode": s.mode.name(),
        "domain": s.domain, "step": step::name(&s.kind), "memory": s.memory,
    });
    for (name, field) in step::fields(&s.kind) {
        value[name] = match field {
            Field::Number(n) => n.into(),
            Field::Flag(flag) => flag.into(),
            Field::Name(name) => name.into(),
        };
    }
    value
}

fn describe(event: &Event) -> Value {
    match event {
        Event::Trap(t) => json!({
            "event": "trap", "time": t.time, "hart": t.hart,
            "from": t.from.name(), "to": t.to.name(), "guest": guest(t.guest),
            "cause": hex(t.cause), "epc": hex(t.epc), "tval": hex(t.tval), "gpa": hex(t.gpa),
            "insn": hex(t.insn.into()), "args": t.args.map(hex), "htimedelta": hex(t.htimedelta),
            "instret": hex(t.instret),
        }),
        Event::Return(r) => json!({
            "event": "return", "time": r.time, "hart": r.hart,
            "from": r.from.name(), "to": r.to.name(), "guest": guest(r.guest), "pc": hex(r.pc),
            "instret": hex(r.instret), "masked": r.masked,
        }),
        Event::Raise(r) => json!({
            "event": "raise", "time": r.time, "hart": r.hart, "irq": r.irq,
            "guest": guest(r.guest),
        }),
        Event::TimerSet(t) => json!({
            "event": "timer_set", "time": t.time, "hart": t.hart, "mode": t.mode.name(),
            "guest": guest(t.guest),
            "deadline": if t.deadline == u64::MAX { Value::Null } else { t.deadline.into() },
        }),
        Event::DeviceAccess(d) => json!({
            "event": "device", "time": d.time, "hart": d.hart, "mode": d.mode.name(),
            "addr": hex(d.addr), "write": d.write,
        }),
        Event::Switch(s) => json!({
            "event": "switch", "time": s.time, "hart": s.hart,
            "from": hex(s.from), "to": hex(s.to), "satp": hex(s.satp),
        }),
        Event::Virtual(s) => virtual_step(s),
        Event::Wait {
            time,
            hart,
            mode,
            begin,
        } => json!({
            "event": "wait", "time": time, "hart": hart, "mode": mode.name(), "begin": begin,
        }),
    }
}

impl<W: Write> Sink for EventStream<W> {
    fn record(&mut self, event: &Event) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        self.line(&describe(event));
        if self.left == 0 {
            self.line(&json!({ "event": "limit" }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_isa::Mode;

    fn wait(time: u64) -> Event {
        Event::Wait {
            time,
            hart: 0,
            mode: Mode::VS,
            begin: true,
        }
    }

    #[test]
    fn stream_is_json_lines_and_stops_at_its_limit() {
        let mut stream = EventStream::new(Vec::new(), 2);
        (0..5).for_each(|t| stream.record(&wait(t)));
        let text = String::from_utf8(stream.finish().unwrap()).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0]["schema"], STREAM_SCHEMA);
        assert_eq!(lines[2]["time"], 1);
        assert_eq!(lines[3]["event"], "limit");
    }

    #[test]
    fn a_full_disk_is_reported_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut stream = EventStream::new(Full, 10);
        stream.record(&wait(1));
        assert_eq!(
            stream.finish().err().unwrap().kind(),
            io::ErrorKind::StorageFull
        );
    }
}
