//! What a machine of `boot` gets from outside: typed lines, answers of shared folders, frames of
//! the network. All of it passes here, to be recorded, or comes out of a record instead.

pub mod record;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use trapless_backends::net::{Forward, Gateway};
use trapless_backends::share::Server;
use trapless_devices::virtio::fs::FileServer;
use trapless_machine::{Arrival, Input, Machine, Uplink};

use self::record::{Event, Recorder};

/// Virtual time in cycles between two looks at the network.
pub const TICK: u64 = 1_000_000;

/// Longest frame of the guest in bytes, and most that wait for the gateway.
const LONGEST: usize = 1514;
const MOST: usize = 1024;

/// Where input comes from.
#[derive(Clone, Default)]
pub struct Source {
    /// Where it is recorded.
    pub recorder: Option<Recorder>,
    /// What is brought again instead; what has been brought is gone.
    pub replayed: Option<VecDeque<Event>>,
}

/// Frames of the guest that the gateway has not seen.
type Sent = Arc<Mutex<Vec<Vec<u8>>>>;

/// The outside of a machine from one reset to the next.
#[derive(Default)]
pub struct Outside {
    recorder: Option<Recorder>,
    /// Input of the record, until the machine is there.
    inputs: Vec<Arrival>,
    /// Answers of the record, for each shared folder.
    answers: Vec<VecDeque<Vec<u8>>>,
    replays: bool,
    /// When the machine was left.
    left: Option<u64>,
    network: Option<(Gateway, Sent)>,
    pace: Pace,
}

impl Outside {
    /// That of the next session of `source`.
    pub fn next(source: &mut Source) -> Self {
        let mut outside = Self {
            recorder: source.recorder.clone(),
            replays: source.replayed.is_some(),
            ..Self::default()
        };
        if let Some(recorder) = &outside.recorder {
            recorder.add([Event::PowerOn]);
        }
        let Some(events) = &mut source.replayed else {
            return outside;
        };
        // The first one switches the machine on.
        events.pop_front();
        let (mut last, mut ended) = (0, false);
        while let Some(event) = events.pop_front() {
            match event {
                Event::PowerOn => {
                    events.push_front(event);
                    ended = true;
                    break;
                }
                Event::Input(arrival) => {
                    last = last.max(arrival.at);
                    outside.inputs.push(arrival);
                }
                Event::Answer(share, answer) => {
                    let needed = outside.answers.len().max(share + 1);
                    outside.answers.resize_with(needed, VecDeque::new);
                    outside.answers[share].push_back(answer);
                }
                Event::Left(at) => outside.left = Some(at),
                Event::End => ended = true,
            }
        }
        if !ended && outside.left.is_none() {
            // Its command was killed.
            outside.left = Some(last);
        }
        outside
    }

    /// Whether everything comes out of a record.
    pub fn replays(&self) -> bool {
        self.replays
    }

    /// Whether virtual time waits for the network.
    pub fn waits(&self) -> bool {
        self.network.is_some()
    }

    /// Opens the network. The result takes the guest's frames.
    ///
    /// # Errors
    /// A sentence, if a port cannot be had.
    pub fn connect(&mut self, forwards: &[Forward]) -> Result<Uplink, String> {
        if self.replays {
            return Ok(Box::new(|_| {}));
        }
        let sent = Sent::default();
        self.network = Some((Gateway::new(forwards)?, Arc::clone(&sent)));
        Ok(Box::new(move |frame| {
            let mut frames = sent.lock().unwrap_or_else(PoisonError::into_inner);
            // A card may send faster than anybody takes; a switch drops what is too much.
            if frame.len() <= LONGEST && frames.len() < MOST {
                frames.push(frame.to_vec());
            }
        }))
    }

    /// What stands in for shared folder `index` if everything comes out of a record.
    pub fn replayed_share(&mut self, index: usize) -> Option<Box<dyn FileServer>> {
        let answers = self.answers.get_mut(index).map(std::mem::take);
        self.replays
            .then(|| Box::new(Replayed(answers.unwrap_or_default())) as _)
    }

    /// Puts a record, if there is one, before the server of shared folder `index`, which is not
    /// there yet.
    pub fn recorded_share(
        &self,
        index: usize,
    ) -> impl FnOnce(Server) -> Box<dyn FileServer> + 'static {
        let recorder = self.recorder.clone();
        move |server| match recorder {
            Some(recorder) => Box::new(Recorded {
                index,
                server,
                recorder,
            }),
            None => Box::new(server),
        }
    }

    /// The machine is there: brings it what the record has.
    pub fn start(&mut self, machine: &mut Machine) {
        self.record(machine);
        machine.replay_input(std::mem::take(&mut self.inputs));
        self.pace = Pace::at(machine.now());
    }

    /// Virtual time in cycles at which the recorded session was left, if it was.
    pub fn leaving(&self) -> Option<u64> {
        self.left
    }

    /// Whether the recorded session was left by now.
    pub fn left(&self, machine: &Machine) -> bool {
        self.left.is_some_and(|at| machine.now() >= at)
    }

    /// Records what has come into the machine since the last call, and when.
    pub fn record(&self, machine: &mut Machine) {
        if let Some(recorder) = &self.recorder {
            let arrivals = machine.take_record().into_iter();
            recorder.add(arrivals.map(Event::Input));
        }
    }

    /// Exchanges frames with the network, and lets time pass if the machine is ahead of it.
    pub fn exchange(&mut self, machine: &mut Machine) {
        if self.network.is_none() {
            return;
        }
        self.move_frames(machine);
        let ahead = self.pace.ahead(machine.now());
        if !ahead.is_zero() {
            std::thread::sleep(ahead);
            self.move_frames(machine);
        }
        machine.bring(machine.now() + TICK, Input::Tick);
    }

    fn move_frames(&mut self, machine: &mut Machine) {
        let Some((gateway, sent)) = &mut self.network else {
            return;
        };
        let frames = std::mem::take(&mut *sent.lock().unwrap_or_else(PoisonError::into_inner));
        for frame in &frames {
            gateway.receive(frame);
        }
        gateway.pump(machine.now());
        let frames: Vec<_> = std::iter::from_fn(|| gateway.take()).collect();
        for frame in frames {
            machine.bring(machine.now(), Input::Frame(frame));
        }
    }

    /// The session is over at virtual time `now`; `left`: the machine could have gone on.
    pub fn end(&self, now: u64, left: bool) {
        if let Some(recorder) = &self.recorder {
            recorder.add([match left {
                true => Event::Left(now),
                false => Event::End,
            }]);
        }
    }
}

/// Keeps virtual time from running faster than the host's while the guest waits. What the host
/// needed longer is not made up for: an idle guest would miss all answers meanwhile.
struct Pace {
    host: Instant,
    /// Virtual time in cycles then.
    at: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self::at(0)
    }
}

impl Pace {
    fn at(now: u64) -> Self {
        Self {
            host: Instant::now(),
            at: now,
        }
    }

    /// How far virtual time is ahead.
    fn ahead(&mut self, now: u64) -> Duration {
        let passed = Duration::from_nanos(now.saturating_sub(self.at));
        let ahead = passed.saturating_sub(self.host.elapsed());
        if ahead.is_zero() {
            *self = Self::at(now);
        }
        ahead
    }
}

/// A shared folder whose answers are recorded.
struct Recorded {
    index: usize,
    server: Server,
    recorder: Recorder,
}

impl FileServer for Recorded {
    fn answer(&mut self, request: &[u8], room: usize, answer: &mut Vec<u8>) {
        self.server.answer(request, room, answer);
        self.recorder
            .add([Event::Answer(self.index, answer.clone())]);
    }

    fn reset(&mut self) {
        self.server.reset();
    }
}

/// The answers of a recorded folder. A run that asks for more is another one; it gets none.
struct Replayed(VecDeque<Vec<u8>>);

impl FileServer for Replayed {
    fn answer(&mut self, _: &[u8], _: usize, answer: &mut Vec<u8>) {
        if let Some(next) = self.0.pop_front() {
            *answer = next;
        }
    }

    fn reset(&mut self) {}
}
