//! A record of what came into a machine from outside: whoever brings it again repeats the run.
//!
//! ```text
//! "trapless record\n"   format: u32   header (JSON)   event   event ...
//! header and events each: length: u32   CRC-32: u32   bytes (events: postcard)
//! ```

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use trapless_machine::{Arrival, Content, MachineConfig, Payload};

use crate::files;

const MAGIC: &[u8] = b"trapless record\n";
const FORMAT: u32 = 1;

/// What the run was, so that no other is taken for it.
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
    /// That of a run with these devices.
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
    /// A sentence that says what differs.
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
            // Engines do the same.
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

/// Something that came from outside.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
pub enum Event {
    /// The machine was switched on, again after each reboot.
    PowerOn,
    /// Input that came.
    Input(Arrival),
    /// The next answer of a shared folder, by its index among them.
    Answer(usize, Vec<u8>),
    /// The user or a script left the machine at this virtual time.
    Left(u64),
    /// The command has ended by itself.
    End,
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
        let told = || format!("cannot write the record {}", path.display());
        let mut file = BufWriter::new(File::create(path).with_context(told)?);
        let header = serde_json::to_vec(header)?;
        let mut begin = MAGIC.to_vec();
        begin.extend(FORMAT.to_le_bytes());
        begin.extend(framed(&header));
        file.write_all(&begin).with_context(told)?;
        Ok(Self(Arc::new(Mutex::new(Writer {
            path: path.into(),
            file,
            error: None,
        }))))
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends events; they stay if the command is killed. [`finish`](Self::finish) tells of
    /// failures.
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
        writer.error = written.err();
    }

    /// Everything is in the file.
    ///
    /// # Errors
    /// If it is not.
    pub fn finish(&self) -> Result<()> {
        let mut writer = self.lock();
        let written = match writer.error.take() {
            Some(error) => Err(error),
            None => writer.file.flush(),
        };
        written.with_context(|| format!("cannot write the record {}", writer.path.display()))
    }
}

/// Reads a record of a run that is `now` repeated.
///
/// # Errors
/// A sentence, if it is none, of another run, or damaged.
pub fn read(path: &Path, now: &Header) -> Result<Vec<Event>> {
    let bytes = files::read(path, "record")?;
    let damaged = || format!("the record {} is damaged; make it again", path.display());
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        bail!("{} is no record of a run (boot --record)", path.display());
    };
    let mut rest = rest;
    let format = number(&mut rest).with_context(damaged)?;
    if format != FORMAT {
        bail!(
            "the record {} has format {format}, and this program reads format {FORMAT}; make it \
             again",
            path.display()
        );
    }
    let header = unframed(&mut rest).with_context(damaged)?;
    let header: Header = serde_json::from_slice(header).with_context(damaged)?;
    header.check(now, path)?;
    let mut events = Vec::new();
    while !rest.is_empty() {
        if !is_whole(rest) {
            // The command was killed while it wrote this.
            break;
        }
        let event = unframed(&mut rest).and_then(|bytes| postcard::from_bytes(bytes).ok());
        events.push(event.with_context(damaged)?);
    }
    Ok(events)
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (bytes, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(bytes)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let bytes = take(rest, 4)?.try_into().ok()?;
    Some(u32::from_le_bytes(bytes))
}

/// Length and checksum before `bytes`.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
    framed.extend(crc32fast::hash(bytes).to_le_bytes());
    framed.extend(bytes);
    framed
}

/// Whether the frame that begins here does not end behind the file.
fn is_whole(mut rest: &[u8]) -> bool {
    match (number(&mut rest), number(&mut rest)) {
        (Some(len), Some(_)) => rest.len() >= len as usize,
        _ => false,
    }
}

/// The next bytes behind a length and a checksum that are right.
fn unframed<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, sum) = (number(rest)?, number(rest)?);
    let bytes = take(rest, len as usize)?;
    (crc32fast::hash(bytes) == sum).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use trapless_machine::Input;

    use super::*;

    fn header() -> Header {
        let config = MachineConfig::preset("sstc").expect("it is one");
        let payload = Payload::default();
        Header::of(&config, &payload, vec!["net=user".into()]).expect("there are no files")
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
            Event::Answer(0, vec![2; 16]),
            Event::Left(1 << 40),
        ]
    }

    #[test]
    fn record_comes_back_and_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.record");
        let recorder = Recorder::create(&path, &header()).expect("it can be written");
        recorder.add(events());
        recorder.finish().expect("it is written");
        assert_eq!(read(&path, &header()).expect("it is whole"), events());
        let whole = std::fs::read(&path).expect("it is there");
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(&path, &bytes).expect("it can be written");
            let found = read(&path, &header());
            assert!(found.ok() != Some(events()), "byte {at} was changed");
        }
        for len in whole.len() - 30..whole.len() {
            std::fs::write(&path, &whole[..len]).expect("it can be written");
            let cut = read(&path, &header()).expect("the rest is whole");
            assert!(cut.len() < events().len() && events().starts_with(&cut));
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
        let error = read(&path, &other).expect_err("it differs").to_string();
        assert!(error.contains("net=user, not none"), "{error}");
        let mut config = MachineConfig::preset("sstc").expect("it is one");
        config.seed = 9;
        let other = Header::of(&config, &Payload::default(), vec!["net=user".into()]);
        let error = read(&path, &other.expect("no files")).expect_err("it differs");
        assert!(error.to_string().contains("machine (seed)"), "{error}");
    }
}
