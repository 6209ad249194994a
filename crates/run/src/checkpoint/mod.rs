//! Checkpoints of runs: the machine, its ledger and the state of its console, in one file.

mod kept;
mod key;
mod store;

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use trapless_machine::checkpoint::{About, Base, Header};
use trapless_machine::{Machine, VirtualTime};

use crate::files;
use crate::spec::Spec;
use trapless_recorder::{RecorderState, SharedRecorder};

pub use kept::Place;
pub use key::Key;
pub use store::Store;

/// Maximum virtual time of a request, in seconds: a century.
const LONGEST: f64 = 3e9;

/// When a checkpoint is made.
#[derive(Clone, Copy, PartialEq, Debug)]
enum When {
    /// At this virtual time in cycles, or soon after it.
    At(u64),
    /// Soon after the measured part has begun.
    Workload,
}

/// `WHEN=FILE` on the command line.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    when: When,
    /// File to write.
    pub file: PathBuf,
}

impl FromStr for Request {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text} is not SECONDS=FILE, as in 1.5=half.checkpoint, or workload=FILE; say when \
                 and where to"
            )
        };
        let (when, file) = text.split_once('=').ok_or_else(wrong)?;
        let when = match when {
            "workload" => When::Workload,
            seconds => {
                let seconds: f64 = seconds.parse().map_err(|_| wrong())?;
                let possible = (0.0..LONGEST).contains(&seconds);
                When::At(
                    possible
                        .then_some((seconds * VirtualTime::HZ as f64) as u64)
                        .ok_or_else(wrong)?,
                )
            }
        };
        if file.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            when,
            file: file.into(),
        })
    }
}

impl Request {
    /// Rejects `workload`, which only runs of workloads have.
    ///
    /// # Errors
    /// If the request is for the start of the measured part.
    pub fn check_time(&self) -> Result<()> {
        match self.when {
            When::At(_) => Ok(()),
            When::Workload => bail!(
                "boot runs no workload; say when in seconds of virtual time, as in --checkpoint \
                 20={}",
                self.file.display()
            ),
        }
    }

    /// Whether the checkpoint is due.
    fn due(&self, machine: &Machine, recorder: &SharedRecorder) -> bool {
        match self.when {
            When::At(time) => machine.now() >= time,
            When::Workload => recorder.lock().measuring(),
        }
    }
}

/// State of a run besides its machine.
#[derive(Serialize, Deserialize)]
pub struct Saved {
    /// Its ledger, and the state of its console.
    pub recorder: RecorderState,
    /// The images it booted, by content.
    pub images: Vec<String>,
    /// The command line of its host's kernel, which has all parameters of the workload.
    pub command_line: String,
}

/// Description of the run of a checkpoint.
pub struct Run<'a> {
    /// Its specification.
    pub spec: Spec,
    /// The images it booted, by content.
    pub images: &'a [String],
    /// The command line of its host's kernel.
    pub command_line: String,
}

impl Run<'_> {
    /// Writes a checkpoint of the run, without the pages that `base` has.
    fn write(
        &self,
        machine: &Machine,
        recorder: &SharedRecorder,
        base: Option<&Base>,
        to: &mut dyn Write,
    ) -> Result<()> {
        let saved = Saved {
            recorder: recorder.lock().save(),
            images: self.images.to_vec(),
            command_line: self.command_line.clone(),
        };
        let about = About {
            program: program(),
            run: self.spec.to_json()?,
        };
        let more = postcard::to_stdvec(&saved).context("cannot save the ledger")?;
        Ok(machine.save_beside(to, about, &more, base)?)
    }

    /// Writes a checkpoint of the run to a file of the user's.
    ///
    /// # Errors
    /// If the file cannot be written or the machine cannot be saved.
    pub fn save(&self, path: &Path, machine: &Machine, recorder: &SharedRecorder) -> Result<()> {
        files::make_parent(path)?;
        let mut output = BufWriter::new(files::Output::create(path)?);
        self.write(machine, recorder, None, &mut output)?;
        output
            .into_inner()
            .map_err(|e| cannot_write(e.into_error()))?
            .commit()
    }
}

/// Checkpoints that a run is still to make.
pub struct Pending<'a> {
    requests: Vec<Request>,
    /// Place in the cache of the one that it keeps for later runs.
    place: Option<&'a Place<'a>>,
    run: Run<'a>,
}

/// This program with its revision: the format may change with each revision.
pub fn program() -> String {
    let (version, revision) = (env!("CARGO_PKG_VERSION"), env!("TRAPLESS_REVISION"));
    format!("trapless {version} ({revision})")
}

impl<'a> Pending<'a> {
    /// The requested checkpoints of `run`, and the one that it keeps in the cache.
    pub fn new(requests: &[Request], place: Option<&'a Place<'a>>, run: Run<'a>) -> Self {
        Self {
            requests: requests.to_vec(),
            place,
            run,
        }
    }

    /// The images that the run booted, by content.
    pub fn images(&self) -> &[String] {
        self.run.images
    }

    /// Whether one is still to be made.
    pub fn any(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Makes a checkpoint now, in the current folder, under an unused name; returns the name.
    pub fn make_now(&self, machine: &Machine, recorder: &SharedRecorder) -> Result<PathBuf> {
        let stem = format!("boot-{:.3}s", VirtualTime::seconds(machine.now()));
        let names = (2..).map(|number| format!("{stem}-{number}.checkpoint"));
        let mut names = std::iter::once(format!("{stem}.checkpoint")).chain(names);
        let name = names.find(|name| !Path::new(name).exists());
        let path = PathBuf::from(name.unwrap_or(stem));
        self.run.save(&path, machine, recorder)?;
        Ok(path)
    }

    /// The next time at which one is due, in cycles; `u64::MAX` if no time is.
    pub fn next(&self) -> u64 {
        let times = self.requests.iter().map(|request| match request.when {
            When::At(time) => time,
            When::Workload => u64::MAX,
        });
        times.min().unwrap_or(u64::MAX)
    }

    /// Makes those that are due.
    pub fn make(&mut self, machine: &Machine, recorder: &SharedRecorder) -> Result<()> {
        if recorder.lock().measuring()
            && let Some(place) = self.place.take()
        {
            place.keep(&self.run, machine, recorder);
        }
        let is_due = |request: &mut Request| request.due(machine, recorder);
        for request in self.requests.extract_if(.., is_due) {
            self.run.save(&request.file, machine, recorder)?;
            note!(
                "Checkpoint at {:.6} s of virtual time: {}",
                VirtualTime::seconds(machine.now()),
                request.file.display()
            );
        }
        Ok(())
    }

    /// Reports which were not made when the run is over.
    pub fn finish(&self) {
        for request in &self.requests {
            note!(
                "The run ended before the checkpoint {} was due: it was not made",
                request.file.display()
            );
        }
    }
}

fn cannot_write(error: std::io::Error) -> trapless_machine::Error {
    trapless_machine::Error::Invalid(format!("cannot write the checkpoint: {error}"))
}

/// A checkpoint that is about to be resumed.
pub struct Checkpoint {
    path: PathBuf,
    file: File,
    /// The file that it shares pages with.
    base: Option<Base>,
    /// The description of its run.
    pub header: Header,
}

impl Checkpoint {
    /// Reads its header.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| {
            format!(
                "cannot read the checkpoint {}; make one with --checkpoint of trapless run or boot",
                path.display()
            )
        })?;
        Self::of(path, file)
    }

    /// The same for an open file, which was found at `path`.
    fn of(path: &Path, file: File) -> Result<Self> {
        let header = Header::read(&mut BufReader::new(&file)).map_err(|e| named(path, &e))?;
        Ok(Self {
            path: path.into(),
            file,
            base: None,
            header,
        })
    }

    /// Rejects a checkpoint of another revision of this program.
    pub fn check_program(&self) -> Result<()> {
        let (made, here) = (&self.header.about.program, program());
        if *made != here {
            let path = self.path.display();
            bail!("{path} was made by {made}, and this is {here}; make it again");
        }
        Ok(())
    }

    /// The specification of its run.
    ///
    /// # Errors
    /// If the checkpoint has no valid one.
    pub fn spec(&self) -> Result<Spec> {
        Spec::from_json(&self.header.about.run).map_err(|e| self.damaged(&format!("{e:#}")))
    }

    /// The date at power-on of its machine, in seconds since 1970.
    pub fn date(&self) -> Option<u64> {
        self.header.machine.get("epoch")?.as_u64()
    }

    /// Restores its state into a machine that was built for it; returns the state besides the
    /// machine.
    pub fn restore(&self, machine: &mut Machine) -> Result<Saved> {
        let fail = |e| named(&self.path, &e);
        let more = machine.restore_from(&self.file, self.base.as_ref());
        let more = more.map_err(fail)?;
        postcard::from_bytes(&more).map_err(|_| self.damaged("its ledger cannot be decoded"))
    }

    /// Restores the state of a machine of `boot` or `exec` into one that was built for it, with its
    /// ledger; `devices` describes its present disks, folders and networks.
    pub fn resume_session(
        &self,
        machine: &mut Machine,
        recorder: &SharedRecorder,
        devices: &[String],
    ) -> Result<()> {
        let saved = self.restore(machine)?;
        if saved.images != devices {
            bail!(
                "{} was made with other disks or networks ({}) than there are now ({}); put the \
                 files back, or make it again",
                self.path.display(),
                saved.images.join(" "),
                devices.join(" ")
            );
        }
        let restored = recorder.lock().restore(saved.recorder, machine.ram());
        restored.map_err(|what| self.damaged(&format!("its ledger {what}")))?;
        Ok(())
    }

    /// An error that says how the checkpoint is damaged.
    pub fn damaged(&self, what: &str) -> anyhow::Error {
        let path = self.path.display();
        anyhow!("{path}: the checkpoint is damaged: {what}; make it again")
    }

    /// For messages.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn named(path: &Path, error: &trapless_machine::Error) -> anyhow::Error {
    anyhow!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_say_when_and_where_to() {
        let half: Request = "1.5=a=b.checkpoint".parse().unwrap();
        assert_eq!(half.when, When::At(1_500_000_000));
        assert_eq!(half.file, Path::new("a=b.checkpoint"));
        let workload: Request = "workload=w".parse().unwrap();
        assert_eq!(workload.when, When::Workload);
        for wrong in ["", "1.5", "soon=x", "-1=x", "1e99=x", "nan=x", "2="] {
            let error = wrong.parse::<Request>().unwrap_err();
            assert!(error.contains("SECONDS=FILE"), "{error}");
        }
    }
}
