//! Events read back from a stream.

use serde_json::Value;
use trapless_isa::Mode;

use crate::class::{Left, NotificationKind};
use crate::event::{
    DeviceAccess, Event, EventOrigin, Guest, Raise, Return, StepKind, Switch, TimerSet, Trap,
    VirtualStep,
};
use crate::step::origin_name;
use crate::stream::STREAM_SCHEMA;

/// Reads one line of a stream that [`EventStream`](crate::EventStream) wrote. The head and the note
/// that the limit was reached are no events.
///
/// # Errors
/// A sentence: the line is not JSON, of another version, or lacks a field of its kind.
pub fn parse(line: &str) -> Result<Option<Event>, String> {
    let value: Value = serde_json::from_str(line).map_err(|e| format!("not an event: {e}"))?;
    if let Some(schema) = value.get("schema") {
        return match schema.as_str() {
            Some(STREAM_SCHEMA) => Ok(None),
            _ => Err(format!(
                "the stream's schema is {schema}, this program reads {STREAM_SCHEMA:?}"
            )),
        };
    }
    let kind = value["event"].as_str().unwrap_or_default();
    if kind == "limit" {
        return Ok(None);
    }
    let event = event(kind, &Fields(&value));
    event
        .map(Some)
        .map_err(|name| format!("event {kind:?} has no usable field {name:?}"))
}

/// Fields of an object; the error of each is its name.
struct Fields<'a>(&'a Value);

type Found<T> = Result<T, &'static str>;

impl Fields<'_> {
    /// A number, in decimal or as a string in hexadecimal.
    fn number(&self, name: &'static str) -> Found<u64> {
        number(&self.0[name]).ok_or(name)
    }

    fn small<T: TryFrom<u64>>(&self, name: &'static str) -> Found<T> {
        T::try_from(self.number(name)?).map_err(|_| name)
    }

    /// Harts are few; whoever makes tables of them can rely on that.
    fn hart(&self, name: &'static str) -> Found<usize> {
        let hart = self.small(name)?;
        if hart < 4096 { Ok(hart) } else { Err(name) }
    }

    fn flag(&self, name: &'static str) -> Found<bool> {
        self.0[name].as_bool().ok_or(name)
    }

    fn text(&self, name: &'static str) -> Found<&str> {
        self.0[name].as_str().ok_or(name)
    }

    fn mode(&self, name: &'static str) -> Found<Mode> {
        let text = self.text(name)?;
        Mode::ALL.into_iter().find(|m| m.name() == text).ok_or(name)
    }

    fn guest(&self) -> Found<Guest> {
        let guest = Fields(&self.0["guest"]);
        Ok(Guest {
            vmid: guest.small("vmid")?,
            context: guest.number("context")?,
        })
    }

    fn kind(&self) -> Found<u8> {
        let text = self.text("kind")?;
        let found = NotificationKind::from_name(text);
        found.map(|kind| kind as u8).ok_or("kind")
    }
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
        value => value.as_u64(),
    }
}

fn event(kind: &str, f: &Fields) -> Found<Event> {
    let time = f.number("time")?;
    let hart = f.hart("hart")?;
    Ok(match kind {
        "trap" => {
            let list = f.0["args"].as_array().ok_or("args")?;
            let mut args = [0; 4];
            for (arg, value) in args.iter_mut().zip(list) {
                *arg = number(value).ok_or("args")?;
            }
            Event::Trap(Trap {
                time,
                hart,
                from: f.mode("from")?,
                to: f.mode("to")?,
                guest: f.guest()?,
                cause: f.number("cause")?,
                epc: f.number("epc")?,
                tval: f.number("tval")?,
                gpa: f.number("gpa")?,
                insn: f.small("insn")?,
                args,
                htimedelta: f.number("htimedelta")?,
                instret: f.number("instret").unwrap_or(0),
            })
        }
        "return" => Event::Return(Return {
            time,
            hart,
            from: f.mode("from")?,
            to: f.mode("to")?,
            guest: f.guest()?,
            pc: f.number("pc")?,
            instret: f.number("instret").unwrap_or(0),
            masked: f.0.get("masked").is_some_and(|m| *m == true),
        }),
        "raise" => Event::Raise(Raise {
            time,
            hart,
            irq: f.small("irq")?,
            guest: f.guest()?,
        }),
        "timer_set" => Event::TimerSet(TimerSet {
            time,
            hart,
            mode: f.mode("mode")?,
            guest: f.guest()?,
            deadline: match &f.0["deadline"] {
                Value::Null => u64::MAX,
                value => number(value).ok_or("deadline")?,
            },
        }),
        "device" => Event::DeviceAccess(DeviceAccess {
            time,
            hart,
            mode: f.mode("mode")?,
            addr: f.number("addr")?,
            write: f.flag("write")?,
        }),
        "switch" => Event::Switch(Switch {
            time,
            hart,
            from: f.number("from")?,
            to: f.number("to")?,
            satp: f.number("satp")?,
        }),
        "wait" => Event::Wait {
            time,
            hart,
            mode: f.mode("mode")?,
            begin: f.flag("begin")?,
        },
        "virtual" => Event::Virtual(VirtualStep {
            time,
            hart,
            mode: f.mode("mode")?,
            domain: f.small("domain")?,
            kind: step(f)?,
            memory: f.small("memory")?,
        }),
        _ => return Err("event"),
    })
}

/// What posts an event, by its name.
fn origin(name: &str) -> Option<EventOrigin> {
    use EventOrigin::{Doorbell, Guest, Host};
    [Guest, Doorbell, Host]
        .into_iter()
        .find(|origin| origin_name(*origin) == name)
}

fn step(f: &Fields) -> Found<StepKind> {
    let vhart = || f.small("vhart");
    let source = || f.small("source");
    Ok(match f.text("step")? {
        "post_soft" => StepKind::PostSoft {
            vhart: vhart()?,
            merged: f.flag("merged")?,
        },
        "post_source" => StepKind::PostSource {
            vhart: vhart()?,
            source: source()?,
            merged: f.flag("merged")?,
        },
        "hit" => StepKind::Hit {
            vhart: vhart()?,
            on: f.hart("on")?,
        },
        "notified" => StepKind::Notified {
            vhart: vhart()?,
            to: f.hart("to")?,
            kind: f.kind()?,
        },
        "silent" => StepKind::Silent { vhart: vhart()? },
        "lowered" => StepKind::Lowered { source: source()? },
        "claimed" => StepKind::Claimed {
            vhart: vhart()?,
            source: source()?,
        },
        "completed" => StepKind::Completed {
            vhart: vhart()?,
            source: source()?,
            again: f.flag("again")?,
        },
        "attached" => StepKind::Attached { vhart: vhart()? },
        "detached" => StepKind::Detached {
            vhart: vhart()?,
            state: Left::from_name(f.text("state")?).map_or(3, Left::state),
        },
        "hart_ipi" => StepKind::HartIpi { to: f.hart("to")? },
        "fetched" => StepKind::Fetched {
            id: f.small("id")?,
            kind: f.kind()?,
        },
        "overflow" => StepKind::Overflow { on: f.hart("on")? },
        "message" => StepKind::Message {
            on: f.hart("on")?,
            file: f.small("file")?,
            identity: f.small("identity")?,
            merged: f.flag("merged")?,
        },
        "file_claimed" => StepKind::FileClaimed {
            file: f.small("file")?,
            identity: f.small("identity")?,
        },
        "file_selected" => StepKind::FileSelected {
            file: f.small("file")?,
        },
        "event_posted" => StepKind::EventPosted {
            request: f.small("request")?,
            by: origin(f.text("by")?).ok_or("by")?,
            merged: f.flag("merged")?,
        },
        "event_queued" => StepKind::EventQueued {
            to: f.hart("to")?,
            id: f.small("id")?,
        },
        "event_taken" => StepKind::EventTaken { id: f.small("id")? },
        "context_entered" => StepKind::ContextEntered { id: f.small("id")? },
        "context_left" => StepKind::ContextLeft { id: f.small("id")? },
        _ => return Err("step"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventStream;
    use crate::event::Sink;

    /// Every kind of event, with values that need all their bits.
    fn samples() -> Vec<Event> {
        let guest = Guest {
            vmid: 3,
            context: u64::MAX - 1,
        };
        let big = u64::MAX - 7;
        let (time, hart, mode, vhart, source) = (1 << 40, 2, Mode::VS, 9, 1023);
        let mut events = vec![
            Event::Trap(Trap {
                time,
                hart,
                from: Mode::VU,
                to: Mode::HS,
                guest,
                cause: big,
                epc: big,
                tval: 1,
                gpa: 0,
                insn: u32::MAX,
                args: [big, 1, 2, 3],
                htimedelta: big,
                instret: big,
            }),
            Event::Return(Return {
                time,
                hart,
                from: Mode::M,
                to: Mode::U,
                guest,
                pc: big,
                instret: big,
                masked: true,
            }),
            Event::Raise(Raise {
                time,
                hart,
                irq: 24,
                guest,
            }),
            Event::DeviceAccess(DeviceAccess {
                time,
                hart,
                mode,
                addr: big,
                write: true,
            }),
            Event::Switch(Switch {
                time,
                hart,
                from: 0,
                to: big,
                satp: big - 1,
            }),
            Event::Wait {
                time,
                hart,
                mode,
                begin: false,
            },
        ];
        for deadline in [17, u64::MAX] {
            events.push(Event::TimerSet(TimerSet {
                time,
                hart,
                mode,
                guest,
                deadline,
            }));
        }
        let merged = true;
        let (to, on, kind) = (1, 3, 2);
        for kind in [
            StepKind::PostSoft { vhart, merged },
            StepKind::PostSource {
                vhart,
                source,
                merged,
            },
            StepKind::Hit { vhart, on },
            StepKind::Notified { vhart, to, kind },
            StepKind::Silent { vhart },
            StepKind::Lowered { source },
            StepKind::Claimed { vhart, source },
            StepKind::Completed {
                vhart,
                source,
                again: true,
            },
            StepKind::Attached { vhart },
            StepKind::Detached { vhart, state: 2 },
            StepKind::HartIpi { to },
            StepKind::Fetched { id: 7, kind: 3 },
            StepKind::Overflow { on },
            StepKind::Message {
                on,
                file: 7,
                identity: 255,
                merged,
            },
            StepKind::FileClaimed {
                file: 0,
                identity: 9,
            },
            StepKind::FileSelected { file: 63 },
            StepKind::EventPosted {
                request: 0xffff,
                by: EventOrigin::Doorbell,
                merged,
            },
            StepKind::EventQueued { to, id: u32::MAX },
            StepKind::EventTaken { id: u32::MAX },
            StepKind::ContextEntered { id: 7 },
            StepKind::ContextLeft { id: 7 },
        ] {
            events.push(Event::Virtual(VirtualStep {
                time,
                hart,
                mode,
                domain: 5,
                kind,
                memory: 4,
            }));
        }
        events
    }

    #[test]
    fn what_is_written_is_read_back() {
        let events = samples();
        let mut stream = EventStream::new(Vec::new(), events.len() as u64);
        events.iter().for_each(|e| stream.record(e));
        let text = String::from_utf8(stream.finish().unwrap()).unwrap();
        let read: Vec<Event> = text.lines().filter_map(|l| parse(l).unwrap()).collect();
        assert_eq!(format!("{read:?}"), format!("{events:?}"));
        // Names and fields, not Rust's debug form.
        assert!(text.contains(r#""step":"post_source""#) && text.contains(r#""source":1023"#));
        assert!(text.contains(r#""kind":"yield""#) && text.contains(r#""state":"halted""#));
    }

    #[test]
    fn lines_of_another_kind_are_refused_with_a_sentence() {
        for (line, part) in [
            ("{", "not an event"),
            (r#"{"schema":"trapless-events/1"}"#, "trapless-events/2"),
            (r#"{"event":"wait","time":1,"hart":99999}"#, "hart"),
            (r#"{"event":"tea","time":1,"hart":0}"#, "tea"),
            (r#"{"event":"wait","time":1,"hart":0,"mode":"S"}"#, "mode"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
