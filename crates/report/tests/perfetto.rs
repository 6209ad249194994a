//! The trace, read back by a decoder that shares nothing with the writer.

mod synthetic;

use std::collections::BTreeMap;

use trapless_isa::Mode;
use trapless_ledger::event::{Event, Guest, Raise, Sink, StepKind, VirtualStep};
use trapless_report::PerfettoTrace;

/// A decoded message: values by field number. Nested messages stay bytes.
#[derive(Default, Debug)]
struct Fields(BTreeMap<u64, Vec<Value>>);

#[derive(Debug, Clone)]
enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

fn varint(data: &[u8], at: &mut usize) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = data[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("varint without end");
}

fn decode(data: &[u8]) -> Fields {
    let mut fields = Fields::default();
    let mut at = 0;
    while at < data.len() {
        let tag = varint(data, &mut at);
        let value = match tag & 7 {
            0 => Value::Number(varint(data, &mut at)),
            1 => {
                at += 8;
                Value::Number(u64::from_le_bytes(data[at - 8..at].try_into().unwrap()))
            }
            2 => {
                let len = varint(data, &mut at) as usize;
                at += len;
                Value::Bytes(data[at - len..at].to_vec())
            }
            wire => panic!("wire type {wire}"),
        };
        fields.0.entry(tag >> 3).or_default().push(value);
    }
    fields
}

impl Fields {
    fn number(&self, field: u64) -> Option<u64> {
        match self.0.get(&field)?.first()? {
            Value::Number(n) => Some(*n),
            Value::Bytes(_) => panic!("field {field} is not a number"),
        }
    }

    fn text(&self, field: u64) -> Option<String> {
        self.bytes(field).map(|b| String::from_utf8(b).unwrap())
    }

    fn bytes(&self, field: u64) -> Option<Vec<u8>> {
        match self.0.get(&field)?.first()? {
            Value::Bytes(b) => Some(b.clone()),
            Value::Number(_) => panic!("field {field} is a number"),
        }
    }
}

fn trace() -> Vec<u8> {
    let mut player = synthetic::Player::new(PerfettoTrace::new(Vec::new(), "sbi", 1_000_000_000));
    player.boot();
    (0..50).for_each(|_| player.wake_up(false));
    let time = player.time;
    let guest = Guest::default();
    // A lookup on hart 0 tells hart 1.
    player.sink.record(&Event::Virtual(VirtualStep {
        time,
        hart: 0,
        mode: Mode::VS,
        domain: 1,
        kind: StepKind::Hit { vhart: 1, on: 1 },
        memory: 0,
    }));
    player.sink.record(&Event::Raise(Raise {
        time,
        hart: 1,
        irq: 2,
        guest,
    }));
    player.sink.finish(time).unwrap()
}

#[test]
fn slices_nest_times_rise_and_flows_meet() {
    let bytes = trace();
    let mut tracks = BTreeMap::new();
    let mut open: BTreeMap<u64, i32> = BTreeMap::new();
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let mut flows: BTreeMap<u64, String> = BTreeMap::new();
    let mut joined = BTreeMap::new();
    let mut names: BTreeMap<String, u64> = BTreeMap::new();
    let packets = decode(&bytes).0.remove(&1).unwrap();
    for packet in packets {
        let Value::Bytes(packet) = packet else {
            panic!("packet is not a message")
        };
        let packet = decode(&packet);
        assert_eq!(packet.number(10), Some(1), "sequence id");
        if let Some(descriptor) = packet.bytes(60) {
            let d = decode(&descriptor);
            tracks.insert(d.number(1).unwrap(), d.text(2));
            continue;
        }
        let time = packet.number(8).unwrap();
        let event = decode(&packet.bytes(11).unwrap());
        let track = event.number(11).unwrap();
        assert!(
            tracks.contains_key(&track),
            "event on a track that nobody described"
        );
        let before = last.insert(track, time).unwrap_or(0);
        assert!(time >= before, "time runs backwards on track {track}");
        let depth = open.entry(track).or_default();
        match event.number(9).unwrap() {
            1 => *depth += 1,
            2 => *depth -= 1,
            3 => {}
            kind => panic!("type {kind}"),
        }
        assert!(
            (0..=1).contains(depth),
            "slices of track {track} do not follow each other"
        );
        let name = event.text(23);
        if let Some(flow) = event.number(47) {
            flows.insert(flow, name.clone().unwrap());
        }
        if let Some(flow) = event.number(48) {
            let from = flows.remove(&flow).expect("a flow ends that never began");
            *joined
                .entry(format!("{from} -> {}", name.clone().unwrap()))
                .or_insert(0) += 1;
        }
        *names.entry(name.unwrap_or_default()).or_default() += 1;
    }
    assert!(open.values().all(|depth| *depth == 0), "slices left open");
    let track_names: Vec<_> = tracks.values().flatten().collect();
    assert_eq!(track_names, ["hart 0", "hart 1"]);
    assert_eq!(joined["raise MTI -> HS>M MTI"], 50);
    assert_eq!(joined["raise VSTI -> VS>VS STI"], 50);
    assert_eq!(joined["hit -> raise VSSI"], 1);
    assert_eq!(names["VS>HS ecall TIME.0"], 50);
    assert_eq!(names["idle"], 50);
}

#[test]
#[ignore = "writes a file to look at in the viewer"]
fn write_a_trace_to_look_at() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("trace.pftrace");
    std::fs::write(&path, trace()).unwrap();
    eprintln!("{}", path.display());
}
