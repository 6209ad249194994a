//! Perfetto traces, read by a decoder that shares nothing with the writer.

#![allow(dead_code)]

use std::collections::BTreeMap;

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

/// The next field of a message.
fn field(data: &[u8], at: &mut usize) -> (u64, Value) {
    let tag = varint(data, at);
    let value = match tag & 7 {
        0 => Value::Number(varint(data, at)),
        1 => {
            *at += 8;
            Value::Number(u64::from_le_bytes(data[*at - 8..*at].try_into().unwrap()))
        }
        2 => {
            let len = varint(data, at) as usize;
            *at += len;
            Value::Bytes(data[*at - len..*at].to_vec())
        }
        wire => panic!("wire type {wire}"),
    };
    (tag >> 3, value)
}

fn decode(data: &[u8]) -> Fields {
    let mut fields = Fields::default();
    let mut at = 0;
    while at < data.len() {
        let (number, value) = field(data, &mut at);
        fields.0.entry(number).or_default().push(value);
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

/// A slice that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slice {
    pub name: String,
    pub category: String,
    /// Nanoseconds.
    pub begin: u64,
    pub end: u64,
    /// Slices around it.
    pub depth: usize,
}

/// A track with what is on it.
#[derive(Default, Debug)]
pub struct Track {
    /// Names from the root to the track itself, with `/` between them.
    pub path: String,
    rank: u64,
    is_counter: bool,
    is_parent: bool,
    last: u64,
    open: Vec<Slice>,
    /// In order of their ends.
    pub slices: Vec<Slice>,
    /// Names of instants.
    pub instants: Vec<String>,
    /// Values of a counter, with their times.
    pub values: Vec<(u64, u64)>,
}

impl Track {
    fn event(&mut self, time: u64, event: &Fields) {
        assert!(time >= self.last, "time runs backwards on {}", self.path);
        self.last = time;
        let kind = event.number(9).unwrap();
        assert_eq!(self.is_counter, kind == 4, "type {kind} on {}", self.path);
        let name = event.text(23);
        match kind {
            1 => self.open.push(Slice {
                name: name.unwrap(),
                category: event.text(22).unwrap(),
                begin: time,
                end: time,
                depth: self.open.len(),
            }),
            2 => {
                let slice = self.open.pop().expect("a slice ends that never began");
                self.slices.push(Slice { end: time, ..slice });
            }
            3 => self.instants.push(name.unwrap()),
            4 => self.values.push((time, event.number(30).unwrap())),
            kind => panic!("type {kind}"),
        }
    }

    /// Name of the track itself.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap()
    }

    /// Slices in order of their beginnings.
    pub fn by_begin(&self) -> Vec<Slice> {
        let mut slices = self.slices.clone();
        slices.sort_by_key(|s| (s.begin, s.depth));
        slices
    }
}

/// A decoded trace.
#[derive(Default, Debug)]
pub struct Trace {
    tracks: BTreeMap<u64, Track>,
    flows: BTreeMap<u64, String>,
    /// Flows that have ended, as `FROM -> TO`, with their numbers.
    pub joined: BTreeMap<String, u64>,
}

impl Trace {
    /// Decodes a trace.
    ///
    /// # Panics
    /// If a track is not described before it is used, time runs backwards on a track, slices do not
    /// nest or are left open, siblings share a name, or a flow ends that never began.
    pub fn read(bytes: &[u8]) -> Self {
        let mut trace = Self::default();
        let mut at = 0;
        while at < bytes.len() {
            let (1, Value::Bytes(packet)) = field(bytes, &mut at) else {
                panic!("not a packet")
            };
            let packet = decode(&packet);
            assert_eq!(packet.number(10), Some(1), "sequence id");
            match packet.bytes(60) {
                Some(descriptor) => trace.describe(&decode(&descriptor)),
                None => trace.event(&packet),
            }
        }
        for track in trace.tracks() {
            assert!(track.open.is_empty(), "slices left open on {}", track.path);
            let used = !(track.slices.is_empty() && track.instants.is_empty());
            assert!(!(used && track.is_parent), "events on group {}", track.path);
        }
        trace
    }

    fn describe(&mut self, descriptor: &Fields) {
        let mut path = descriptor.text(2).unwrap();
        if let Some(parent) = descriptor.number(5) {
            let parent = self.tracks.get_mut(&parent).expect("parents come first");
            parent.is_parent = true;
            path = format!("{}/{path}", parent.path);
        }
        let same = self.tracks().find(|t| t.path == path);
        assert!(same.is_none(), "two tracks {path}");
        let track = Track {
            path,
            rank: descriptor.number(12).unwrap(),
            is_counter: descriptor.bytes(8).is_some(),
            ..Track::default()
        };
        let before = self.tracks.insert(descriptor.number(1).unwrap(), track);
        assert!(before.is_none(), "one uuid for two tracks");
    }

    fn event(&mut self, packet: &Fields) {
        let event = decode(&packet.bytes(11).unwrap());
        let track = self.tracks.get_mut(&event.number(11).unwrap());
        let track = track.expect("event on a track without description");
        track.event(packet.number(8).unwrap(), &event);
        let name = event.text(23).unwrap_or_default();
        if let Some(flow) = event.number(48) {
            let from = self.flows.remove(&flow);
            let from = from.expect("a flow ends that never began");
            *self.joined.entry(format!("{from} -> {name}")).or_default() += 1;
        }
        if let Some(flow) = event.number(47) {
            self.flows.insert(flow, name);
        }
    }

    /// All tracks, in order of description.
    pub fn tracks(&self) -> impl Iterator<Item = &Track> {
        self.tracks.values()
    }

    /// Paths of the tracks as the viewer orders them, without the root.
    pub fn paths(&self) -> Vec<&str> {
        let mut tracks: Vec<&Track> = self.tracks().filter(|t| t.path.contains('/')).collect();
        // Each level by rank, then by order of description.
        let key = |track: &Track| -> Vec<u64> {
            let ends = track.path.match_indices('/').map(|(at, _)| at);
            let ends = ends.chain([track.path.len()]);
            let at = |end| self.tracks().find(|t| t.path == track.path[..end]).unwrap();
            ends.map(|end| at(end).rank).collect()
        };
        tracks.sort_by_key(|t| key(t));
        let paths = tracks.iter().map(|t| t.path.split_once('/').unwrap().1);
        paths.collect()
    }

    /// The track whose path, without the root, is `path`.
    pub fn track(&self, path: &str) -> &Track {
        let found = self
            .tracks()
            .find(|t| t.path.ends_with(&format!("/{path}")));
        found.unwrap_or_else(|| panic!("no track {path}"))
    }

    /// Tracks of vCPUs.
    pub fn vcpus(&self) -> impl Iterator<Item = &Track> {
        self.tracks().filter(|t| t.name().starts_with("vCPU "))
    }

    /// Counters of exits so far.
    pub fn counters(&self) -> impl Iterator<Item = &Track> {
        self.below("exits").filter(|t| t.is_counter)
    }

    /// Tracks below those called `group`.
    pub fn below(&self, group: &str) -> impl Iterator<Item = &Track> {
        let inside = format!("/{group}/");
        self.tracks().filter(move |t| t.path.contains(&inside))
    }

    /// Numbers of exits by name, as slices of vCPUs show them.
    pub fn exits(&self) -> BTreeMap<String, u64> {
        let mut exits = BTreeMap::new();
        let slices = self.vcpus().flat_map(|t| &t.slices);
        for slice in slices.filter(|s| s.category == "exit") {
            *exits.entry(slice.name.clone()).or_default() += 1;
        }
        exits
    }
}
