//! The full stream of events, one JSON object per line, written as it comes.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::json;

use crate::events::event::{Event, Sink};

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
    /// Remaining number of events; the stream notes where it stopped.
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

    fn line(&mut self, value: &impl Serialize) {
        if self.failed.is_none() {
            let written = serde_json::to_writer(&mut self.out, value).map_err(io::Error::from);
            self.failed = written.and_then(|()| writeln!(self.out)).err();
        }
    }

    /// Flushes and returns the writer.
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

impl<W: Write> Sink for EventStream<W> {
    fn record(&mut self, event: &Event) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        self.line(event);
        if self.left == 0 {
            self.line(&json!({ "event": "limit" }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::event::Wait;
    use serde_json::Value;
    use trapless_isa::Mode;

    fn wait(time: u64) -> Event {
        Event::Wait(Wait {
            time,
            hart: 0,
            mode: Mode::VS,
            begin: true,
        })
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
