//! Packets of a trace: tracks and their events.

use std::io::{self, Write};

use super::field::{self, event_type};
use crate::perfetto::protobuf::Message;

/// A track of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Track(usize);

impl Track {
    /// 0 is taken by Perfetto.
    fn uuid(self) -> u64 {
        self.0 as u64 + 1
    }
}

/// Kind of a track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Tracks below it, in order of their ranks.
    Group,
    /// Tracks below it, in order of their names.
    Sorted,
    /// Slices and instants.
    Slices,
    /// A counter.
    Counter,
}

/// An event, without its time and its track.
#[derive(Debug)]
pub struct Event(Message);

impl Event {
    /// An event with a name; the viewer can filter by category.
    pub fn named(name: &str, category: &str) -> Self {
        let message = Message::new()
            .text(field::CATEGORY, category)
            .text(field::NAME, name);
        Self(message)
    }

    /// Adds an argument.
    pub fn annotated(self, name: &str, value: &str) -> Self {
        let annotation = Message::new()
            .text(field::ANNOTATION_NAME, name)
            .text(field::ANNOTATION_TEXT, value);
        Self(self.0.message(field::ANNOTATION, &annotation))
    }

    /// A flow begins here; 0: none does.
    pub fn begins_flow(self, flow: u64) -> Self {
        self.flow(field::FLOW, flow)
    }

    /// A flow ends here; 0: none does.
    pub fn ends_flow(self, flow: u64) -> Self {
        self.flow(field::FLOW_END, flow)
    }

    fn flow(self, field: u32, flow: u64) -> Self {
        match flow {
            0 => self,
            flow => Self(self.0.fixed64(field, flow)),
        }
    }
}

/// Writes packets as they come. After a failed write nothing more is written.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    failed: Option<io::Error>,
    cycles_per_second: u64,
    /// Time of the last event on each track, in cycles.
    tracks: Vec<u64>,
}

impl<W: Write> Writer<W> {
    /// A trace without tracks.
    pub fn new(out: W, cycles_per_second: u64) -> Self {
        Self {
            out,
            failed: None,
            cycles_per_second: cycles_per_second.max(1),
            tracks: Vec::new(),
        }
    }

    /// Flushes, and returns the writer.
    ///
    /// # Errors
    /// The first write that failed.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(error) = self.failed {
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

    /// Makes a track, below `parent` in order of `rank`.
    pub fn track(&mut self, kind: Kind, name: &str, parent: Option<Track>, rank: u32) -> Track {
        let track = Track(self.tracks.len());
        self.tracks.push(0);
        let mut descriptor = Message::new()
            .uint(field::UUID, track.uuid())
            .text(field::TRACK_NAME, name)
            .uint(field::RANK, u64::from(rank))
            .uint(field::MERGE_BEHAVIOR, field::NEVER_MERGED);
        if let Some(parent) = parent {
            descriptor = descriptor.uint(field::PARENT, parent.uuid());
        }
        descriptor = match kind {
            Kind::Group => descriptor.uint(field::CHILD_ORDERING, field::ORDERED_BY_RANK),
            Kind::Sorted => descriptor.uint(field::CHILD_ORDERING, field::ORDERED_BY_NAME),
            Kind::Slices => descriptor,
            Kind::Counter => {
                let counter = Message::new().uint(field::UNIT, field::UNIT_COUNT);
                descriptor.message(field::COUNTER_DESCRIPTOR, &counter)
            }
        };
        self.packet(Message::new().message(field::TRACK_DESCRIPTOR, &descriptor));
        track
    }

    /// Time of the last event on `track`, in cycles.
    pub fn last(&self, track: Track) -> u64 {
        self.tracks[track.0]
    }

    /// Begins a slice at `time` (cycles), inside the one that is open, if any.
    pub fn begin(&mut self, track: Track, time: u64, event: Event) {
        self.event(track, time, event_type::SLICE_BEGIN, event.0);
    }

    /// Ends the innermost slice.
    pub fn end(&mut self, track: Track, time: u64) {
        self.event(track, time, event_type::SLICE_END, Message::new());
    }

    /// An instant event.
    pub fn instant(&mut self, track: Track, time: u64, event: Event) {
        self.event(track, time, event_type::INSTANT, event.0);
    }

    /// The counter has `value` from `time` on.
    pub fn count(&mut self, track: Track, time: u64, value: u64) {
        let message = Message::new().uint(field::COUNTER_VALUE, value);
        self.event(track, time, event_type::COUNTER, message);
    }

    /// Harts run ahead of each other by up to a quantum: time on a track never runs backwards.
    fn event(&mut self, track: Track, time: u64, kind: u64, rest: Message) {
        let last = &mut self.tracks[track.0];
        *last = time.max(*last);
        let ns = u128::from(*last) * 1_000_000_000 / u128::from(self.cycles_per_second);
        let event = rest
            .uint(field::TYPE, kind)
            .uint(field::TRACK, track.uuid());
        let packet = Message::new()
            .uint(field::TIMESTAMP, ns as u64)
            .message(field::TRACK_EVENT, &event);
        self.packet(packet);
    }
}
