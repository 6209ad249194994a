//! Shared folders whose replies are recorded or replayed.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use trapless_backends::share::Server;
use trapless_devices::virtio::fs::FileServer;
use trapless_devices::{StateError, StateReader, StateWriter};

use super::record::{Answer, Event, Recorder, Stored};

/// A shared folder whose replies are recorded.
pub struct Recorded {
    /// Index of the folder.
    pub index: usize,
    /// The server of the folder.
    pub server: Server,
    /// Recorder of the replies.
    pub recorder: Recorder,
}

impl FileServer for Recorded {
    fn answer(&mut self, request: &[u8], room: usize, answer: &mut Vec<u8>) {
        self.server.answer(request, room, answer);
        self.recorder.add([Event::Answer(Answer {
            share: self.index,
            request: crc32fast::hash(request),
            bytes: answer.clone(),
        })]);
    }

    fn reset(&mut self) {
        self.server.reset();
    }
}

/// Progress through the replies of a record, in all folders.
#[derive(Default)]
pub struct Progress {
    /// Replies that the guest has not requested yet.
    left: AtomicUsize,
    /// Whether the guest sent a request that differs from the record.
    differs: AtomicBool,
}

impl Progress {
    /// Replies that the guest has not requested yet.
    pub fn left(&self) -> usize {
        self.left.load(Relaxed)
    }

    /// Whether the guest sent a request that differs from the record.
    pub fn differs(&self) -> bool {
        self.differs.load(Relaxed)
    }

    fn differ(&self) {
        self.differs.store(true, Relaxed);
    }
}

/// A folder with the replies of a record.
pub struct Replayed {
    answers: Vec<Stored>,
    used: usize,
    progress: Arc<Progress>,
    /// Whether the record has an end, after which no request may come.
    whole: bool,
}

impl Replayed {
    /// A folder with these replies.
    pub fn new(answers: Vec<Stored>, progress: &Arc<Progress>, whole: bool) -> Self {
        progress.left.fetch_add(answers.len(), Relaxed);
        Self {
            answers,
            used: 0,
            progress: Arc::clone(progress),
            whole,
        }
    }
}

impl FileServer for Replayed {
    fn answer(&mut self, request: &[u8], _: usize, answer: &mut Vec<u8>) {
        let Some(stored) = self.answers.get(self.used) else {
            if self.whole {
                self.progress.differ();
            }
            return;
        };
        self.used += 1;
        self.progress.left.fetch_sub(1, Relaxed);
        match stored.read() {
            Some(recorded) if recorded.request == crc32fast::hash(request) => {
                *answer = recorded.bytes;
            }
            _ => self.progress.differ(),
        }
    }

    fn reset(&mut self) {}

    fn obstacle(&self) -> Option<&'static str> {
        None
    }

    fn save(&self, to: &mut StateWriter) {
        to.number(self.used as u64);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let used = from.number()?;
        if used > self.answers.len() {
            return Err(StateError("has other shared folders"));
        }
        self.progress.left.fetch_add(self.used, Relaxed);
        self.progress.left.fetch_sub(used, Relaxed);
        self.used = used;
        Ok(())
    }
}
