//! Input of a machine of `boot` from outside: typed lines, replies of shared folders, frames of the
//! network. All of it passes here, to be recorded, or comes from a record instead.

pub mod disk;
pub mod record;
mod share;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use trapless_backends::net::{Forward, Gateway};
use trapless_backends::share::Server;
use trapless_devices::virtio::fs::FileServer;
use trapless_machine::{
    Arrival, Input, Machine, MachineConfig, Payload, Place, Uplink, VirtualTime,
};

use self::record::{End, Entry, Event, Header, Record, Recorder, Stored};
use self::share::{Progress, Recorded, Replayed};
use crate::failure::Failed;
use crate::spec::BootSpec;

/// Virtual time in cycles between two polls of the network.
pub const TICK: u64 = 1_000_000;

/// Host time between two events of a record that note the progress of the run.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Maximum length of a frame of the guest in bytes, and maximum number of queued frames.
const LONGEST: usize = 1514;
const MOST: usize = 1024;

/// Where input comes from.
#[derive(Clone, Default)]
pub struct Source {
    /// Where it is recorded.
    pub recorder: Option<Recorder>,
    /// What is replayed instead; replayed events are removed.
    pub replayed: Option<VecDeque<Entry>>,
}

impl Source {
    /// The source that the options name: nothing recorded, a new record, or `replayed`, which has
    /// been opened already because it has the machine's date. `describe` describes the machine's
    /// devices; it reads their images.
    ///
    /// # Errors
    /// If a record cannot be written, or is of another machine.
    pub fn open(
        spec: &BootSpec,
        replayed: Option<Record>,
        config: &MachineConfig,
        payload: &Payload,
        describe: impl FnOnce() -> Result<Vec<String>>,
    ) -> Result<Self> {
        if spec.record.is_none() && replayed.is_none() {
            return Ok(Self::default());
        }
        let header = Header::of(config, payload, describe()?)?;
        let create = |path: &PathBuf| Recorder::create(path, &header);
        let read = |record: Record| record.entries(&header);
        Ok(Self {
            recorder: spec.record.as_ref().map(create).transpose()?,
            replayed: replayed.map(read).transpose()?.map(Into::into),
        })
    }
}

/// How the recorded session ended.
#[derive(Clone, Copy)]
enum Recalled {
    /// The user or a script left the machine.
    Left(End),
    /// The machine ended by itself.
    End(End),
    /// Its command was killed, after this virtual time in cycles.
    Cut(u64),
}

/// Frames of the guest that the gateway has not handled.
type Sent = Arc<Mutex<Vec<Vec<u8>>>>;

/// The environment of a machine from one reset to the next.
#[derive(Default)]
pub struct Outside {
    recorder: Option<Recorder>,
    /// When progress was last recorded.
    noted: Option<Instant>,
    /// Input of the record, until the machine is started.
    inputs: Vec<Arrival>,
    /// Replies of the record, for each shared folder.
    answers: Vec<Vec<Stored>>,
    progress: Arc<Progress>,
    replays: bool,
    /// The end of the recorded session.
    end: Option<Recalled>,
    network: Option<(Gateway, Sent)>,
    pace: Pace,
}

impl Outside {
    /// The environment of the next session of `source`.
    pub fn next(source: &mut Source) -> Self {
        let mut outside = Self {
            recorder: source.recorder.clone(),
            replays: source.replayed.is_some(),
            ..Self::default()
        };
        if let Some(recorder) = &outside.recorder {
            recorder.add([Event::PowerOn]);
        }
        let Some(entries) = &mut source.replayed else {
            return outside;
        };
        // The first one switches the machine on.
        entries.pop_front();
        let mut last = 0;
        while let Some(entry) = entries.pop_front() {
            match entry {
                Entry::Event(Event::PowerOn) => {
                    entries.push_front(entry);
                    break;
                }
                Entry::Event(Event::Input(arrival)) => {
                    last = last.max(arrival.at);
                    outside.inputs.push(arrival);
                }
                Entry::Event(Event::Reached(at)) => last = last.max(at),
                Entry::Event(Event::Left(end)) => outside.end = Some(Recalled::Left(end)),
                Entry::Event(Event::End(end)) => outside.end = Some(Recalled::End(end)),
                Entry::Answer(share, stored) => {
                    let needed = outside.answers.len().max(share + 1);
                    outside.answers.resize_with(needed, Vec::new);
                    outside.answers[share].push(stored);
                }
                // Replies have entries of their own.
                Entry::Event(Event::Answer(_)) => {}
            }
        }
        outside.end.get_or_insert(Recalled::Cut(last));
        outside
    }

    /// Whether all input comes from a record.
    pub fn replays(&self) -> bool {
        self.replays
    }

    /// Whether virtual time waits for the network.
    pub fn waits(&self) -> bool {
        self.network.is_some()
    }

    /// Opens the network. The result takes the guest's frames; `None` if all input comes from a
    /// record.
    ///
    /// # Errors
    /// If a port cannot be opened.
    pub fn connect(&mut self, forwards: &[Forward]) -> Result<Option<Uplink>, String> {
        if self.replays {
            return Ok(None);
        }
        let sent = Sent::default();
        self.network = Some((Gateway::new(forwards)?, Arc::clone(&sent)));
        Ok(Some(Box::new(move |frame| {
            let mut frames = sent.lock().unwrap_or_else(PoisonError::into_inner);
            // Frames beyond the queue are dropped, as a switch does.
            if frame.len() <= LONGEST && frames.len() < MOST {
                frames.push(frame.to_vec());
            }
        })))
    }

    /// The replacement of shared folder `index` if all input comes from a record.
    pub fn replayed_share(&mut self, index: usize) -> Option<Box<dyn FileServer>> {
        let answers = self.answers.get_mut(index).map(std::mem::take);
        let whole = !matches!(self.end, Some(Recalled::Cut(_)));
        self.replays.then(|| {
            let answers = answers.unwrap_or_default();
            Box::new(Replayed::new(answers, &self.progress, whole)) as _
        })
    }

    /// Wraps the server of shared folder `index`, which does not exist yet, to record its replies
    /// if there is a record.
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

    /// Gives the machine, which has been built, the recorded input.
    pub fn start(&mut self, machine: &mut Machine) {
        self.record(machine);
        machine.replay_input(std::mem::take(&mut self.inputs));
        self.pace = Pace::at(machine.now());
    }

    /// Virtual time in cycles at which the recorded session was left, if it was.
    pub fn leaving(&self) -> Option<u64> {
        match self.end {
            Some(Recalled::Left(end)) => Some(end.at),
            // Replies of folders may be later.
            Some(Recalled::Cut(last)) if self.progress.left() == 0 => Some(last),
            _ => None,
        }
    }

    /// Whether the recorded session has been left, or its record has ended.
    pub fn left(&self, machine: &Machine) -> bool {
        match self.end {
            Some(Recalled::Left(end)) => machine.now() >= end.at,
            Some(Recalled::Cut(last)) => machine.now() >= last && self.progress.left() == 0,
            // The recorded one has ended by itself.
            Some(Recalled::End(end)) => machine.now() > end.at,
            None => false,
        }
    }

    /// # Errors
    /// If this is not the recorded run: its guest sent another request to a shared folder.
    pub fn check(&self, machine: &Machine) -> Result<()> {
        match self.progress.differs() {
            true => Err(other_run(machine, "its guest requests other files")),
            false => Ok(()),
        }
    }

    /// Checks that a session ended where the recorded one did.
    ///
    /// # Errors
    /// If it did not.
    pub fn check_end(&self, machine: &Machine) -> Result<()> {
        self.check(machine)?;
        let now = end_of(machine);
        match self.end {
            Some(Recalled::Cut(_)) => {
                let seconds = VirtualTime::seconds(machine.now());
                note!(
                    "\r\ntrapless: the record has no end, because its command was killed; \
                     repeated to {seconds:.6} s\r"
                );
                Ok(())
            }
            Some(Recalled::Left(end) | Recalled::End(end)) if end.at != now.at => {
                let was = VirtualTime::seconds(end.at);
                let reason = format!("the recorded one ended at {was:.6} s of virtual time");
                Err(other_run(machine, &reason))
            }
            Some(Recalled::Left(End { instret, .. }) | Recalled::End(End { instret, .. })) => {
                match (instret, now.instret) {
                    (Some(was), Some(is)) if was != is => {
                        let reason = format!("it has executed {is} instructions, that one {was}");
                        Err(other_run(machine, &reason))
                    }
                    _ => Ok(()),
                }
            }
            None => Ok(()),
        }
    }

    /// Records the input of the machine since the last call with its time; now and then also the
    /// progress.
    pub fn record(&mut self, machine: &mut Machine) {
        if let Some(recorder) = &self.recorder {
            let arrivals = machine.take_record().into_iter();
            recorder.add(arrivals.map(Event::Input));
            if self
                .noted
                .is_none_or(|noted| noted.elapsed() >= PROGRESS_INTERVAL)
            {
                recorder.add([Event::Reached(machine.now())]);
                self.noted = Some(Instant::now());
            }
        }
    }

    /// Exchanges frames with the network, and sleeps if the machine is ahead of real time.
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

    /// Whether input is recorded, replayed, or comes from a network.
    pub fn is_open(&self) -> bool {
        self.recorder.is_some() || self.replays || self.waits()
    }

    /// Ends the session; `left`: the machine could have continued.
    pub fn end(&self, machine: &Machine, left: bool) {
        if let Some(recorder) = &self.recorder {
            let end = end_of(machine);
            recorder.add([match left {
                true => Event::Left(end),
                false => Event::End(end),
            }]);
        }
    }
}

fn end_of(machine: &Machine) -> End {
    End {
        at: machine.now(),
        instret: matches!(machine.place(), Place::Round(_)).then(|| machine.instret()),
    }
}

fn other_run(machine: &Machine, reason: &str) -> anyhow::Error {
    let seconds = VirtualTime::seconds(machine.now());
    Failed(format!(
        "at {seconds:.6} s of virtual time this is not the recorded run: {reason}; give disks and \
         options as they were when it was recorded"
    ))
    .into()
}

/// Keeps virtual time from running faster than the host's while the guest waits. Delays of the host
/// are not caught up: an idle guest would miss all replies meanwhile.
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

    /// How far virtual time is ahead of the host's.
    fn ahead(&mut self, now: u64) -> Duration {
        let passed = Duration::from_nanos(now.saturating_sub(self.at));
        let ahead = passed.saturating_sub(self.host.elapsed());
        if ahead.is_zero() {
            *self = Self::at(now);
        }
        ahead
    }
}
