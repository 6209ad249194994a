//! A record of a machine's input from outside, which replays the run.
//!
//! ```text
//! "trapless record\n"   format: u32   header (JSON)   event   event ...
//! header and events each: length: u32   CRC-32: u32   bytes (events: postcard)
//! ```

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use trapless_machine::{Arrival, Content, MachineConfig, Payload};

use crate::files;

const MAGIC: &[u8] = b"trapless record\n";
const FORMAT: u32 = 2;
/// Maximum length of a header or event in bytes.
const LONGEST: u32 = 64 << 20;
/// Bytes that are read from a file at a time.
const READ_AHEAD: usize = 1 << 20;
/// Prefix of a shared folder's line in a header.
pub const SHARE: &str = "share=";

/// Description of the recorded run, by which other runs are rejected.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
pub struct Header {
    revision: String,
    machine: serde_json::Value,
    command_line: String,
    /// CRC-32 of what was loaded into memory.
    payload: u32,
    /// Disks, folders and networks.
    devices: Vec<String>,
}

impl Header {
    /// The header of a run with these devices.
    ///
    /// # Errors
    /// If a file of the payload cannot be read.
    pub fn of(config: &MachineConfig, payload: &Payload, devices: Vec<String>) -> Result<Self> {
        Ok(Self {
            revision: env!("TRAPLESS_REVISION").into(),
            machine: serde_json::to_value(config)?,
            command_line: payload.append.clone(),
            payload: checksum(payload)?,
            devices,
        })
    }

    /// # Errors
    /// If the runs differ; the message says in what.
    fn check(&self, now: &Self, path: &Path) -> Result<()> {
        let of = |what: &str, was: &str, is: &str| {
            bail!(
                "{} is the record of a run with another {what}: {was}, not {is}; repeat it with \
                 the options of that run",
                path.display()
            )
        };
        if self.revision != now.revision {
            return of("revision of this program", &self.revision, &now.revision);
        }
        if self.command_line != now.command_line {
            return of("kernel command line", &self.command_line, &now.command_line);
        }
        if self.devices != now.devices {
            let list = |devices: &[String]| match devices {
                [] => "none".to_string(),
                some => some.join(" "),
            };
            return of("set of devices", &list(&self.devices), &list(&now.devices));
        }
        let (was, is) = (self.machine.as_object(), now.machine.as_object());
        for (name, value) in was.into_iter().flatten() {
            let other = is.and_then(|is| is.get(name));
            // Not the engine: results are the same with all engines.
            if name != "engine" && other != Some(value) {
                let is = other.map_or_else(String::new, ToString::to_string);
                return of(&format!("machine ({name})"), &value.to_string(), &is);
            }
        }
        if self.payload != now.payload {
            return of(
                "kernel, firmware or initial RAM disk",
                "by checksum",
                "these",
            );
        }
        Ok(())
    }
}

/// A checksum of what is loaded into memory.
fn checksum(payload: &Payload) -> Result<u32> {
    let mut sum = crc32fast::Hasher::new();
    for part in [&payload.kernel, &payload.initrd].into_iter().flatten() {
        match part {
            Content::Bytes(bytes) => sum.update(bytes),
            Content::File(path) | Content::Outline(path) => {
                sum.update(&files::read(path, "image")?);
            }
        }
    }
    for part in [&payload.firmware, &payload.dtb].into_iter().flatten() {
        sum.update(part);
    }
    Ok(sum.finalize())
}

/// Input from outside, or an event of the session.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub enum Event {
    /// Power-on or reboot.
    PowerOn,
    /// Input of a device.
    Input(Arrival),
    /// The next reply of a shared folder.
    Answer(Answer),
    /// The run has reached this virtual time in cycles: the end of the record if the command is
    /// killed.
    Reached(u64),
    /// The user or a script left the machine.
    Left(End),
    /// The machine ended by itself.
    End(End),
}

/// A reply of a shared folder.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub struct Answer {
    /// Index of the folder.
    pub share: usize,
    /// CRC-32 of the request.
    pub request: u32,
    /// The reply.
    pub bytes: Vec<u8>,
}

/// State of a run at its end.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Debug)]
pub struct End {
    /// Virtual time in cycles.
    pub at: u64,
    /// Instructions that all harts had retired. `None` if the machine was left in the middle of a
    /// round, where only a debugger stops it.
    pub instret: Option<u64>,
}

/// An event of a record. Replies stay in the file until they are needed: together they may be
/// larger than memory.
#[derive(Clone, Debug)]
pub enum Entry {
    /// Anything else.
    Event(Event),
    /// A reply of the shared folder with this index.
    Answer(usize, Stored),
}

/// A reply in the file.
#[derive(Clone, Debug)]
pub struct Stored {
    file: Arc<File>,
    /// Where its frame begins.
    at: u64,
    /// Length of its frame, in bytes.
    len: u32,
}

impl Stored {
    /// Reads the reply; `None` if the file has changed meanwhile.
    pub fn read(&self) -> Option<Answer> {
        let mut frame = vec![0; self.len as usize];
        self.file.read_exact_at(&mut frame, self.at).ok()?;
        let (sum, bytes) = frame.split_first_chunk::<8>()?;
        let sum = u32::from_le_bytes([sum[4], sum[5], sum[6], sum[7]]);
        match (crc32fast::hash(bytes) == sum).then(|| postcard::from_bytes(bytes)) {
            Some(Ok(Event::Answer(answer))) => Some(answer),
            _ => None,
        }
    }
}

/// A record that is being written.
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<Writer>>);

struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
    /// The first failure; nothing is written after it.
    error: Option<std::io::Error>,
}

impl Recorder {
    /// Begins a record.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path, header: &Header) -> Result<Self> {
        files::make_parent(path)?;
        let context = || format!("cannot write the record {}", path.display());
        let mut file = BufWriter::new(File::create(path).with_context(context)?);
        let header = serde_json::to_vec(header)?;
        let mut begin = MAGIC.to_vec();
        begin.extend(FORMAT.to_le_bytes());
        begin.extend(framed(&header));
        file.write_all(&begin).with_context(context)?;
        Ok(Self(Arc::new(Mutex::new(Writer {
            path: path.into(),
            file,
            error: None,
        }))))
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends events; they stay if the command is killed. If they cannot be written, the user is
    /// warned at once, and [`finish`](Self::finish) fails.
    pub fn add(&self, events: impl IntoIterator<Item = Event>) {
        let mut frames = Vec::new();
        for event in events {
            frames.extend(framed(&postcard::to_stdvec(&event).unwrap_or_default()));
        }
        let mut writer = self.lock();
        if writer.error.is_some() || frames.is_empty() {
            return;
        }
        let file = &mut writer.file;
        let written = file.write_all(&frames).and_then(|()| file.flush());
        if let Err(error) = written {
            let path = writer.path.display();
            note!(
                "\r\ntrapless: cannot write the record {path}: {error}; the run continues without it\r"
            );
            writer.error = Some(error);
        }
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If it could not be written.
    pub fn finish(&self) -> Result<()> {
        let mut writer = self.lock();
        let written = match writer.error.take() {
            Some(error) => Err(error),
            None => writer.file.flush(),
        };
        written.with_context(|| format!("cannot write the record {}", writer.path.display()))
    }
}

/// A record that is about to be replayed.
pub struct Record {
    path: PathBuf,
    file: Arc<File>,
    /// Bytes of the file before its events.
    events: u64,
    header: Header,
}

impl Record {
    /// Reads the header.
    ///
    /// # Errors
    /// If the file is not a record, or is damaged.
    pub fn open(path: &Path) -> Result<Self> {
        let (context, damaged) = (|| cannot_read(path), || damaged(path));
        let about = std::fs::metadata(path).with_context(context)?;
        if !about.is_file() {
            bail!("cannot read the record {}: give a file", path.display());
        }
        let file = Arc::new(File::open(path).with_context(context)?);
        let mut frames = Frames {
            file: BufReader::with_capacity(READ_AHEAD, &*file),
            at: 0,
        };
        let mut magic = [0; MAGIC.len()];
        if !frames.fill(&mut magic).with_context(context)? || magic != MAGIC {
            bail!(
                "{} is not a record of a run (boot --record)",
                path.display()
            );
        }
        let mut format = [0; 4];
        if !frames.fill(&mut format).with_context(context)? {
            bail!(damaged());
        }
        let format = u32::from_le_bytes(format);
        if format != FORMAT {
            bail!(
                "the record {} has format {format}, and this program reads format {FORMAT}; make it \
             again",
                path.display()
            );
        }
        let header = frames
            .next_frame()
            .with_context(context)?
            .with_context(damaged)?;
        let header: Header = serde_json::from_slice(&header.checked().with_context(damaged)?)
            .with_context(damaged)?;
        Ok(Self {
            path: path.into(),
            events: frames.at,
            file: Arc::clone(&file),
            header,
        })
    }

    /// The date at power-on of its machine, in seconds since 1970.
    pub fn date(&self) -> Option<u64> {
        self.header.machine.get("epoch")?.as_u64()
    }

    /// The recorded events. `now`: the run that replays them.
    ///
    /// # Errors
    /// If the record is of another run, or damaged.
    pub fn entries(&self, now: &Header) -> Result<Vec<Entry>> {
        let (context, damaged) = (|| cannot_read(&self.path), || damaged(&self.path));
        self.header.check(now, &self.path)?;
        let mut file = &*self.file;
        file.seek(SeekFrom::Start(self.events))
            .with_context(context)?;
        let mut frames = Frames {
            file: BufReader::with_capacity(READ_AHEAD, file),
            at: self.events,
        };
        let shares = now.devices.iter().filter(|d| d.starts_with(SHARE)).count();
        let mut entries = Vec::new();
        // An incomplete frame at the end: the command was killed while it wrote it.
        while let Some(frame) = frames.next_frame().with_context(context)? {
            let (at, len) = (frame.at, frame.len);
            let event = frame.checked();
            let event = event.and_then(|bytes| postcard::from_bytes(&bytes).ok());
            entries.push(match event.with_context(damaged)? {
                Event::Answer(answer) if answer.share >= shares => bail!(damaged()),
                Event::Answer(answer) => {
                    let file = Arc::clone(&self.file);
                    Entry::Answer(answer.share, Stored { file, at, len })
                }
                event => Entry::Event(event),
            });
        }
        Ok(entries)
    }
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read the record {}", path.display())
}

fn damaged(path: &Path) -> String {
    format!("the record {} is damaged; make it again", path.display())
}

/// Reader of the header and events of a file.
struct Frames<R> {
    file: R,
    /// Number of bytes that have been read.
    at: u64,
}

/// Bytes with their place and checksum.
struct Frame {
    at: u64,
    len: u32,
    sum: u32,
    bytes: Vec<u8>,
}

impl Frame {
    /// The bytes, if the checksum is right.
    fn checked(self) -> Option<Vec<u8>> {
        (self.len <= LONGEST && crc32fast::hash(&self.bytes) == self.sum).then_some(self.bytes)
    }
}

impl<R: Read> Frames<R> {
    /// Fills `bytes`; `false` if the file ends before.
    fn fill(&mut self, bytes: &mut [u8]) -> std::io::Result<bool> {
        match self.file.read_exact(bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
        self.at += bytes.len() as u64;
        Ok(true)
    }

    /// The next frame; `None` if the file ends before it does. A frame longer than the maximum is
    /// returned without bytes.
    fn next_frame(&mut self) -> std::io::Result<Option<Frame>> {
        let at = self.at;
        let (mut len, mut sum) = ([0; 4], [0; 4]);
        if !self.fill(&mut len)? || !self.fill(&mut sum)? {
            return Ok(None);
        }
        let (len, sum) = (u32::from_le_bytes(len), u32::from_le_bytes(sum));
        let mut bytes = Vec::new();
        if len <= LONGEST {
            bytes.resize(len as usize, 0);
            if !self.fill(&mut bytes)? {
                return Ok(None);
            }
        }
        let len = len.saturating_add(8);
        Ok(Some(Frame {
            at,
            len,
            sum,
            bytes,
        }))
    }
}

/// Length and checksum before `bytes`.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
    framed.extend(crc32fast::hash(bytes).to_le_bytes());
    framed.extend(bytes);
    framed
}

#[cfg(test)]
mod tests {
    use trapless_machine::Input;

    use super::*;

    fn header() -> Header {
        let config = MachineConfig::preset("sstc").expect("it is one");
        let payload = Payload::default();
        let devices = vec!["net=user".into(), format!("{SHARE}share")];
        Header::of(&config, &payload, devices).expect("there are no files")
    }

    fn input(came: u64, input: Input) -> Arrival {
        let at = came + 1;
        Arrival { came, at, input }
    }

    fn events() -> Vec<Event> {
        vec![
            Event::PowerOn,
            Event::Input(input(7, Input::Console(b"ls\r".into()))),
            Event::Input(input(9, Input::Tick)),
            Event::Input(input(9, Input::Frame(vec![1; 60]))),
            Event::Answer(Answer {
                share: 0,
                request: 5,
                bytes: vec![2; 16],
            }),
            Event::Reached(1 << 39),
            Event::Left(End {
                at: 1 << 40,
                instret: Some(9),
            }),
        ]
    }

    /// What the record of a run that is `now` repeated has.
    fn found(path: &Path, now: &Header) -> Result<Vec<Event>> {
        let event = |entry| match entry {
            Entry::Event(event) => event,
            Entry::Answer(_, stored) => Event::Answer(stored.read().expect("it was there")),
        };
        let entries = Record::open(path)?.entries(now)?;
        Ok(entries.into_iter().map(event).collect())
    }

    #[test]
    fn record_comes_back_and_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.record");
        let recorder = Recorder::create(&path, &header()).expect("it can be written");
        recorder.add(events());
        recorder.finish().expect("it is written");
        assert_eq!(found(&path, &header()).expect("it is whole"), events());
        let whole = std::fs::read(&path).expect("it is there");
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(&path, &bytes).expect("it can be written");
            let found = found(&path, &header());
            assert!(found.ok() != Some(events()), "byte {at} was changed");
        }
        for len in whole.len() - 30..whole.len() {
            std::fs::write(&path, &whole[..len]).expect("it can be written");
            let cut = found(&path, &header()).expect("the rest is whole");
            assert!(cut.len() < events().len() && events().starts_with(&cut));
        }
    }

    /// Promise: a record with an answer of a folder that the run has not is refused.
    #[test]
    fn answers_of_other_folders_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.record");
        for share in [1, 1 << 40, usize::MAX] {
            let recorder = Recorder::create(&path, &header()).expect("it can be written");
            recorder.add([Event::Answer(Answer {
                share,
                request: 0,
                bytes: Vec::new(),
            })]);
            recorder.finish().expect("it is written");
            let error = found(&path, &header()).expect_err("there is one folder");
            assert!(error.to_string().contains("damaged"), "{error}");
        }
    }

    #[test]
    fn record_of_another_run_says_what_differs() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.record");
        let finish = |recorder: Recorder| recorder.finish().expect("it is written");
        finish(Recorder::create(&path, &header()).expect("it can be written"));
        let mut other = header();
        other.devices = Vec::new();
        let error = found(&path, &other).expect_err("it differs").to_string();
        assert!(error.contains("net=user share=share, not none"), "{error}");
        let mut config = MachineConfig::preset("sstc").expect("it is one");
        config.seed = 9;
        let other = Header::of(&config, &Payload::default(), header().devices);
        let error = found(&path, &other.expect("no files")).expect_err("it differs");
        assert!(error.to_string().contains("machine (seed)"), "{error}");
    }
}
