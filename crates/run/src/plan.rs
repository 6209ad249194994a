//! A prepared workload: its images, its machine, and the judgement of its result.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use trapless_experiments::{Experiment, Value};
use trapless_images::{Images, Kept, Overlay, overlay};
use trapless_ledger::document::{Measurement, RunInfo, Work};
use trapless_machine::preset::{Interrupts, Size};
use trapless_machine::{Content, Machine, MachineConfig, Machines, Outcome, Payload};

use crate::checkpoint::{self, Checkpoint, Key, Place, Store, program};
use crate::failure::Failed;
use crate::kernels::Kernels;
use crate::machine;
use crate::observe::Observation;
use crate::spec::{EngineChoice, RunId, RunSpec, Spec, Vmm, WorkloadSpec};
use crate::trapless::Trapless;
use crate::{devices, files, interrupt, own, project};
use trapless_recorder::{ConsoleTap, Lines, SharedRecorder, Transcript};

/// Maximum command line of Linux on riscv64, less the words that a run and `explore` add.
const MAX_COMMAND_LINE: usize = 1023 - 64;
/// RAM in MiB that a guest needs besides the user's files.
const GUEST_ITSELF: u64 = 96;
/// Parameter of every workload: whether each vCPU has a dedicated hart.
const DEDICATED: &str = "dedicated";

/// Reason of a failure by the console: the kernel's panic message, or else the last line.
fn last_words(transcript: &Transcript) -> String {
    match &transcript.panic {
        Some(panic) => format!("a kernel panicked: {panic}"),
        None => format!("last line: {}", transcript.last_line),
    }
}

/// Concatenates archives, and one in memory if there is any, to one initial RAM file system. Linux
/// unpacks concatenated archives; each is padded to the alignment of the next.
pub fn concatenate(archives: &[PathBuf], added: &[u8]) -> Result<Content> {
    if let ([only], true) = (archives, added.is_empty()) {
        return files::content(only, "image");
    }
    let mut bytes = Vec::new();
    for archive in archives {
        bytes.extend(files::read(archive, "image")?);
    }
    bytes.extend_from_slice(added);
    Ok(Content::Bytes(bytes))
}

/// The name of an artefact in the cache: the name of its folder identifies its content.
fn by_content(path: &Path) -> String {
    let names = path.components().rev().take(2);
    let mut names: Vec<_> = names.map(|c| c.as_os_str().to_string_lossy()).collect();
    names.reverse();
    names.join("/")
}

/// Kernel parameters that keep the kernel of a host with so many harts on the first of them.
fn isolate(harts: u32) -> String {
    let last = harts - 1;
    format!(
        " isolcpus=nohz,domain,managed_irq,1-{last} nohz_full=1-{last} irqaffinity=0 \
         trapless.dedicated=1"
    )
}

fn word(text: &str) -> Value {
    Value::Word(text.into())
}

/// Rejects a guest without enough RAM for the user's files: its kernel holds the archive and the
/// unpacked files at once.
fn check_room(workload: &Experiment, harts: Option<u32>, overlay: &Overlay) -> Result<()> {
    let memory = workload.guest_memory(harts.unwrap_or(workload.guest.harts));
    let megabytes = overlay.in_guest as u64 >> 20;
    let needed = 2 * megabytes + GUEST_ITSELF;
    let room = memory.parse::<Size>().map_or(u64::MAX, |size| size.0 >> 20);
    if megabytes > 0 && needed > room {
        bail!(
            "a guest with {memory} of RAM has no room for {megabytes} MiB of files: \
             set memory = \"{needed}M\" or more below [guest]"
        );
    }
    Ok(())
}

/// Kernel command line and number of harts of a host that runs `workload` with the options of
/// `spec`.
fn host(spec: &WorkloadSpec, workload: &Experiment) -> Result<(String, u32)> {
    let parameters = spec.workload_parameters();
    let append = workload.host_command_line(&parameters, spec.guest_harts)?;
    let vmm = spec.vmm;
    let mut append = format!("console=ttyS0 quiet cryptomgr.notests {append} trapless.vmm={vmm}");
    let usual = || workload.host_harts().max(spec.guest_harts.unwrap_or(0));
    let mut harts = spec.host_harts.unwrap_or_else(usual);
    if workload.values(&parameters)?.get(DEDICATED) == Some(&word("on")) {
        let vcpus = spec.guest_harts.unwrap_or(workload.guest.harts);
        harts = spec.host_harts.unwrap_or(vcpus + 1);
        if harts <= vcpus {
            bail!(
                "dedicated=on needs a hart for each of the {vcpus} vCPUs and one for the host: \
                 leave out --host-harts, or give {} or more",
                vcpus + 1
            );
        }
        append.push_str(&isolate(harts));
    }
    if append.len() > MAX_COMMAND_LINE {
        bail!(
            "the host's kernel takes a command line of {MAX_COMMAND_LINE} bytes, and this workload \
             needs {}: give it fewer parameters, or mark those that only decide what is started \
             with outside = true",
            append.len()
        );
    }
    Ok((append, harts))
}

macro_rules! fail {
    ($($text:tt)*) => {
        return Err(Failed(format!($($text)*)).into())
    };
}

/// Everything a workload needs; shared by all machines that are compared.
pub struct Plan {
    /// The specification.
    pub spec: WorkloadSpec,
    /// Machines by name.
    machines: Machines,
    /// The workload.
    pub experiment: Experiment,
    kernel: Content,
    initrd: Content,
    firmware: Vec<u8>,
    append: String,
    harts: u32,
    packages: BTreeMap<String, String>,
    /// The images by content, for checkpoints.
    pub images: Vec<String>,
    /// Keeps images from being removed from the cache: each run reads them again.
    _kept: Kept,
    /// The cache's folder.
    cache: PathBuf,
    /// Checkpoints that runs keep.
    store: Option<Store>,
    /// Checksum of the workload, if it is a user's own.
    overlay: Option<String>,
    /// Descriptions in ledgers of the user's kernels, by name.
    own_kernels: Vec<(String, String)>,
    consoles: Consoles,
}

/// Whether the host's console is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Consoles {
    /// No.
    #[default]
    Hidden,
    /// On standard error.
    Shown,
    /// On standard error, with the name of the run before each line.
    Labelled,
}

/// How a machine starts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It boots its payload.
    Boot,
    /// Its state comes from a checkpoint.
    Restore,
}

/// A machine that is about to boot a workload.
pub struct Ready {
    /// The machine.
    pub machine: Machine,
    /// Its ledger and console.
    pub recorder: SharedRecorder,
    /// The machine's configuration.
    pub config: MachineConfig,
    /// Virtual time in cycles of the checkpoint from which it is resumed.
    pub resumed: Option<u64>,
}

impl Plan {
    /// Prepares the images.
    ///
    /// # Errors
    /// If an option, a file or an image cannot be used.
    pub fn new(spec: &WorkloadSpec, trapless: &Trapless) -> Result<Self> {
        spec.check()?;
        let (project, machines) = (&trapless.project(), trapless.machines()?);
        let experiment = own::workload(&spec.workload, project)?;
        let overlay = overlay(&experiment)?;
        if let Some(overlay) = &overlay {
            check_room(&experiment, spec.guest_harts, overlay)?;
        }
        let parameters = spec.workload_parameters();
        let values = experiment.values(&parameters)?;
        let (append, harts) = host(spec, &experiment)?;
        let host = match spec.vmm {
            Vmm::Qemu => "qemu-host",
            Vmm::Trapless => "host",
        };
        let kernels = Kernels::of(&values, &spec.kernels)?;
        let mut images = project::images(project)?;
        let mut own = spec.kernels.load(&images, host)?;
        let mut packages = BTreeMap::new();
        let mut contents = Vec::new();
        let mut take = |images: &mut Images, name: &str| -> Result<PathBuf> {
            let image = project::artefact(images, name)?;
            for p in image.packages {
                packages.insert(format!("{} ({})", p.name, p.arch), p.version);
            }
            contents.push(by_content(&image.path));
            Ok(image.path)
        };
        let kernel = match &spec.kernels.host_kernel {
            Some(path) => path.clone(),
            None => take(&mut images, &kernels.host)?,
        };
        let kernel = files::content(&kernel, "kernel")?;
        let firmware = files::read(&take(&mut images, "opensbi")?, "opensbi")?;
        let mut archives = vec![take(&mut images, host)?];
        // Those of a release replace what the kernel's archives say of its modules.
        let named = experiment.host.images.iter();
        let (last, first): (Vec<_>, Vec<_>) = named.partition(|name| name.contains('@'));
        for name in first.into_iter().chain(&kernels.archives).chain(last) {
            archives.push(take(&mut images, name)?);
        }
        for (name, kernel) in kernels.others {
            let kernel = project::artefact(&mut images, &kernel)?;
            own.about.push((name, Kernels::about(&kernel)));
        }
        let mut added = own.archives;
        added.extend(overlay.iter().flat_map(|overlay| &overlay.archive));
        let initrd = concatenate(&archives, &added)?;
        contents.extend(
            own.about
                .iter()
                .map(|(name, about)| format!("{name} {about}")),
        );
        if let Some(overlay) = &overlay {
            contents.push(format!("workload {}", overlay.sha256));
        }
        Ok(Self {
            spec: spec.clone(),
            machines,
            experiment,
            kernel,
            initrd,
            firmware,
            append,
            harts,
            packages,
            images: contents,
            cache: images.cache().root().into(),
            _kept: images.keep(),
            store: None,
            overlay: overlay.map(|overlay| overlay.sha256),
            own_kernels: own.about,
            consoles: Consoles::default(),
        })
    }

    /// The machines that it can run on.
    pub fn machines(&self) -> &Machines {
        &self.machines
    }

    /// Keeps a checkpoint of the start of each run's measured part, and resumes runs from kept
    /// ones; of all together at most `most` bytes, or the default.
    pub fn keep_checkpoints(&mut self, most: Option<u64>) {
        if self.spec.options.engine != EngineChoice::Both {
            self.store = Store::open(&self.cache, most);
        }
    }

    /// Whether and how consoles are shown.
    pub fn consoles(&self) -> Consoles {
        self.consoles
    }

    /// Sets whether and how consoles are shown.
    pub fn show_consoles(&mut self, consoles: Consoles) {
        self.consoles = consoles;
    }

    /// Description of `run` in a checkpoint.
    pub fn about(&self, run: &RunId) -> checkpoint::Run<'_> {
        let spec = if run.seed == self.spec.seed() {
            RunSpec {
                machine: run.machine.clone(),
                workload: self.spec.clone(),
            }
        } else {
            self.spec.for_run(run)
        };
        checkpoint::Run {
            spec: Spec::Run(spec),
            images: &self.images,
            command_line: self.command_line(run.seed),
        }
    }

    /// Adds words to the host's kernel command line.
    pub fn append(&mut self, words: &str) {
        self.append.push(' ');
        self.append.push_str(words);
    }

    /// Kernel command line of the host in a run with this seed.
    pub fn command_line(&self, seed: u64) -> String {
        format!("{} trapless.seed={seed}", self.append)
    }

    /// Builds the machine of `run` and restores the state of `checkpoint` into it.
    pub fn resumed(
        &self,
        run: &RunId,
        observation: &mut Observation,
        checkpoint: &Checkpoint,
    ) -> Result<Ready> {
        let ready = self.build(run, observation, self.screen(run), Start::Restore)?;
        self.take_over(run, ready, checkpoint)
    }

    /// Restores the state of `checkpoint` into a machine of `run`.
    pub fn take_over(
        &self,
        run: &RunId,
        mut ready: Ready,
        checkpoint: &Checkpoint,
    ) -> Result<Ready> {
        let saved = checkpoint.restore(&mut ready.machine)?;
        let path = checkpoint.path().display();
        if saved.images != self.images {
            bail!(
                "{path} was made with other images, or files of the workload ({}), than there are \
                 now ({}); make it again",
                saved.images.join(", "),
                self.images.join(", ")
            );
        }
        let now = self.command_line(run.seed);
        if saved.command_line != now {
            bail!(
                "{path} is of a run whose workload had other parameters: its kernel was started \
                 with {:?}, not {now:?}; make it again",
                saved.command_line
            );
        }
        let ram = ready.machine.ram();
        let restored = ready.recorder.lock().restore(saved.recorder, ram);
        restored.map_err(|what| checkpoint.damaged(&format!("its ledger {what}")))?;
        ready.resumed = Some(ready.machine.now());
        Ok(ready)
    }

    /// Configuration of the machine of `run`.
    pub fn config(&self, run: &RunId) -> Result<MachineConfig> {
        let mut config = machine::config(
            &self.machines,
            &run.machine,
            self.harts as usize,
            &self.spec.options,
            &self.spec.settings_of(&run.machine),
        )?;
        config.seed = run.seed;
        if self.experiment.host.passes_devices() {
            // What passes them to guests, whose messages need interrupt files or windows
            config.iommu = true;
            config.windows |= matches!(config.interrupts, Interrupts::Trapless);
        }
        Ok(config)
    }

    /// Place in the cache of a checkpoint of `run`, unless checkpoints are disabled: of the start
    /// of its measured part, or of another `instant` by name.
    pub fn place(&self, run: &RunId, instant: Option<&str>) -> Result<Option<Place<'_>>> {
        let Some(store) = &self.store else {
            return Ok(None);
        };
        let measured = self.experiment.measured();
        let key = Key {
            program: &program(),
            machine: &self.config(run)?,
            images: &self.images,
            command_line: &self.command_line(run.seed),
            instant: instant.unwrap_or(&measured),
        };
        Ok(key.names().map(|names| Place::new(store, names)))
    }

    /// The machine of `run`: restored from the checkpoint at `place` if there is one, else about to
    /// boot.
    pub fn start(
        &self,
        run: &RunId,
        observation: &mut Observation,
        place: Option<&Place<'_>>,
    ) -> Result<Ready> {
        if let Some(place) = place
            && let Some(checkpoint) = place.find()
        {
            match self.resumed(run, observation, &checkpoint) {
                Ok(ready) => return Ok(ready),
                Err(error) => place.discard(&error),
            }
        }
        self.build(run, observation, self.screen(run), Start::Boot)
    }

    /// Builds the machine of `run`, about to boot or to be restored from a checkpoint, with a copy
    /// of its console for `console`.
    pub fn build(
        &self,
        run: &RunId,
        observation: &mut Observation,
        console: Option<Box<dyn Write + Send>>,
        start: Start,
    ) -> Result<Ready> {
        let config = self.config(run)?;
        let recorder = machine::recorder(&config, self.experiment.measured());
        let tap = ConsoleTap::new(recorder.clone(), console);
        let part = |content: &Content| match start {
            Start::Restore => content.outline(),
            Start::Boot => content.clone(),
        };
        let payload = Payload {
            firmware: Some(self.firmware.clone()),
            kernel: Some(part(&self.kernel)),
            initrd: Some(part(&self.initrd)),
            append: self.command_line(run.seed),
            dtb: None,
        };
        let host = self.experiment.host.clone();
        let peripherals = devices::of_workload(Box::new(tap), &host)?;
        let mut machine = observation.boot(config.clone(), &payload, peripherals)?;
        observation.follow(&recorder);
        if start == Start::Boot {
            recorder.lock().name_threads(machine.ram());
        }
        machine.add_sink(Box::new(recorder.clone()));
        machine::accompany(&mut machine, &self.spec.options, &config, move |config| {
            let nowhere = devices::of_workload(Box::new(std::io::sink()), &host)?;
            Machine::boot(config, &payload, nowhere)
        })?;
        Ok(Ready {
            machine,
            recorder,
            config,
            resumed: None,
        })
    }

    /// Writer that shows the host's console, if it is shown: a line at a time, since runs may be
    /// parallel.
    fn screen(&self, run: &RunId) -> Option<Box<dyn Write + Send>> {
        let label = match self.consoles {
            Consoles::Hidden => return None,
            Consoles::Shown => String::new(),
            Consoles::Labelled => format!("{run}: "),
        };
        Some(Box::new(Lines::new(label, std::io::stderr())))
    }

    /// Whether the workload succeeded.
    pub fn judge(
        &self,
        outcome: Outcome,
        config: &MachineConfig,
        transcript: &Transcript,
    ) -> Result<()> {
        let title = format!("workload {} on {}", self.experiment.name, config.machine);
        let last = last_words(transcript);
        match outcome {
            Outcome::PoweredOff => {}
            Outcome::Stopped => return Err(interrupt::Interrupted::WithoutResult.into()),
            Outcome::Limit if transcript.panic.is_some() => fail!("{title} failed: {last}"),
            Outcome::Limit => fail!(
                "{title} did not end within {} s of virtual time ({last}); \
                 use --time-limit for more, or --console to watch",
                self.spec.time_limit
            ),
            other => {
                fail!("{title} ended unexpectedly ({other:?}; {last}); use --console to watch")
            }
        }
        let host = transcript
            .status
            .get(&format!("host {}", self.experiment.name));
        if let Some((side, status)) = transcript.status.iter().find(|(_, s)| **s != 0) {
            let output = transcript
                .dumps
                .iter()
                .find(|(k, _)| k.ends_with(".output"));
            let said = output.map_or(&transcript.complaint, |(_, lines)| lines);
            let values = self.experiment.values(&self.spec.workload_parameters())?;
            let tail = said.join("\n") + self.spec.kernels.hint(*status, &values);
            fail!(
                "{title} failed: {side} ended with status {status} ({last}); its last output:\n{tail}"
            );
        }
        if host.is_none() {
            fail!("{title} ended without reporting it ({last}); use --console to watch");
        }
        Ok(())
    }

    /// Description of the workload in the ledger.
    pub fn describe(&self, run: &RunId, info: &mut RunInfo, transcript: &Transcript) -> Result<()> {
        info.workload = self.experiment.name.clone();
        info.packages = self.packages.clone();
        let guest_harts = self.spec.guest_harts.unwrap_or(self.experiment.guest.harts);
        let parameters = self.spec.workload_parameters();
        let set = &mut info.configuration;
        set.insert("VMM".into(), self.spec.vmm.to_string());
        set.insert("guest vCPUs".into(), guest_harts.to_string());
        set.insert(
            "guest RAM".into(),
            self.experiment.guest_memory(guest_harts),
        );
        set.insert("kernel command line".into(), self.command_line(run.seed));
        for (name, about) in &self.own_kernels {
            set.insert(name.clone(), about.clone());
        }
        if let (Some(own), Some(content)) = (&self.experiment.own, &self.overlay) {
            let file = own.file.file_name().unwrap_or_default().to_string_lossy();
            set.insert("workload file".into(), file.into_owned());
            set.insert("workload content".into(), format!("sha256 {content}"));
            set.extend(own.base.clone().map(|base| ("workload base".into(), base)));
        }
        for (name, value) in self.experiment.values(&parameters)? {
            set.insert(format!("parameter {name}"), value.to_string());
        }
        for (key, about) in &self.experiment.results {
            let name = &self.experiment.name;
            let Some(value) = transcript.results.get(key) else {
                if about.optional {
                    continue;
                }
                fail!(
                    "workload {name} did not report {key} ({}); use --console to watch",
                    last_words(transcript)
                );
            };
            let Ok(number) = value.parse() else {
                fail!("workload {name} reported {key}={value}, which is not a number");
            };
            info.measurements.push(Measurement {
                name: key.clone(),
                value: number,
                unit: about.unit.clone(),
            });
        }
        if let Some(work) = &self.experiment.work {
            let count = info.measurements.iter().find(|m| m.name == work.result);
            info.work = count.map(|m| Work {
                unit: work.unit.clone(),
                count: m.value as u64,
            });
        }
        Ok(())
    }
}
