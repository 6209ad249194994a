//! Events read back from a stream.

use serde::Deserialize;
use serde_json::Value;

use crate::events::event::Event;
use crate::events::stream::STREAM_SCHEMA;

/// Reads one line of a stream that [`EventStream`](crate::EventStream) wrote. Returns `None` for
/// the head and for the note that the limit was reached.
///
/// # Errors
/// If the line is not JSON, of another version, or lacks a field of its kind.
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
    if value["event"] == "limit" {
        return Ok(None);
    }
    let event = Event::deserialize(value).map_err(|e| format!("not an event: {e}"))?;
    Ok(Some(event))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventStream;
    use crate::events::event::{
        DeviceAccess, EventOrigin, Guest, Raise, Return, Sink, StepKind, Switch, TimerSet, Trap,
        VirtualStep, Wait,
    };
    use trapless_isa::Mode;

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
            Event::Wait(Wait {
                time,
                hart,
                mode,
                begin: false,
            }),
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
                by_device: false,
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
            (r#"{"event":"wait","time":1,"hart":0,"mode":"S"}"#, "`S`"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
