//! A machine that another program drives step by step, with its ledger and console.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use trapless_ledger::LedgerFile;
use trapless_machine::{Limits, Machine, Outcome, Peripherals};

use crate::checkpoint::{Checkpoint, Run};
use crate::devices::Devices;
use crate::host::host_info;
use crate::observe::{Observation, ObserveOptions};
use crate::outside::record::{Record, Recorder};
use crate::outside::{Outside, Source, TICK};
use crate::payload::payload;
use crate::plan::{Plan, Ready, Start};
use crate::series::memory::at_a_time;
use crate::spec::{BootSpec, ExecSpec, RunId, Spec, WorkloadSpec};
use crate::trapless::{Console, Trapless};
use crate::{files, machine};
use trapless_recorder::{ConsoleTap, SharedRecorder};

/// Virtual time between two calls of the caller's `poll`, in cycles: some milliseconds of the
/// host's time.
pub const SLICE: u64 = 5_000_000;

/// How a call of [`Session::run`] ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The machine ended, or a limit was reached.
    Machine(Outcome),
    /// Its kernel has panicked, with this message, and does nothing more.
    Panicked(String),
    /// `poll` ended it.
    Caller,
}

/// What the machine runs.
enum Kind {
    Workload {
        plan: Arc<Plan>,
        run: RunId,
    },
    Other {
        name: String,
        /// Disks, folders and networks, as records and checkpoints describe them.
        devices: Vec<String>,
    },
}

/// A machine with its ledger, run in pieces.
pub struct Session {
    machine: Machine,
    recorder: SharedRecorder,
    observation: Observation,
    kind: Kind,
    outside: Outside,
    record: Option<Recorder>,
    /// The specification of the machine, for checkpoints.
    spec: Spec,
    ended: Option<Outcome>,
    started: SystemTime,
    /// Host time that it ran, and number of instructions when it began.
    spent: Duration,
    before: u64,
}

impl Plan {
    /// Builds the machine of a run of this workload, about to boot. A copy of its console goes to
    /// `console`.
    ///
    /// # Errors
    /// If there is no such machine, or a file cannot be written.
    pub fn session(
        self: &Arc<Self>,
        run: &RunId,
        observe: &ObserveOptions,
        console: Console,
    ) -> Result<Session> {
        let mut observation = Observation::new(observe)?;
        let ready = self.build(run, &mut observation, Some(console), Start::Boot)?;
        Ok(Session::of_workload(self.clone(), run, ready, observation))
    }

    /// How many of `runs` runs to make at a time: as requested, or one for each processor, but no
    /// more than there is memory for.
    pub fn at_a_time(&self, asked: Option<usize>, runs: usize) -> usize {
        at_a_time(asked, runs, &self.spec.options)
    }

    /// Name of the ledger of a run without its folder, as `trapless run` forms it: options that
    /// change the run are in it.
    pub fn ledger_name(&self, machine: &str) -> String {
        let name = self.spec.result_name(machine, None);
        let name = name.file_name().unwrap_or_default().to_string_lossy();
        format!("{name}.json")
    }
}

impl Trapless {
    /// Prepares a workload with its images.
    ///
    /// # Errors
    /// If an option or an image cannot be used.
    pub fn plan(&self, spec: &WorkloadSpec) -> Result<Arc<Plan>> {
        Ok(Arc::new(Plan::new(spec, self)?))
    }

    /// Builds the machine of `spec`, with a copy of its console for `console`.
    ///
    /// # Errors
    /// If an option or a file cannot be used.
    pub fn start(
        &self,
        spec: &Spec,
        observe: &ObserveOptions,
        console: Console,
    ) -> Result<Session> {
        match spec {
            Spec::Run(run) => self
                .plan(&run.workload)?
                .session(&run.id(), observe, console),
            Spec::Boot(spec) => Session::boot(spec, observe, None, self, console),
            Spec::Exec(spec) => Session::exec(spec, observe, self, console),
        }
    }

    /// Resumes a checkpoint that [`Session::save`] or `trapless run --checkpoint` has written.
    ///
    /// # Errors
    /// If it is damaged, or of another version of this program, of other images or files.
    pub fn resume(&self, path: &Path, console: Console) -> Result<Session> {
        let checkpoint = Checkpoint::open(path)?;
        checkpoint.check_program()?;
        let observe = ObserveOptions::default();
        match checkpoint.spec()? {
            Spec::Run(run) => {
                let plan = self.plan(&run.workload)?;
                Session::resume_workload(plan, &run.id(), &checkpoint, console)
            }
            Spec::Boot(spec) => Session::boot(&spec, &observe, Some(&checkpoint), self, console)?
                .resumed(&checkpoint),
            Spec::Exec(spec) => Session::exec(&spec, &observe, self, console)?.resumed(&checkpoint),
        }
    }
}

impl Session {
    fn new(
        machine: Machine,
        recorder: SharedRecorder,
        observation: Observation,
        kind: Kind,
        spec: Spec,
    ) -> Self {
        Self {
            before: machine.instret(),
            machine,
            recorder,
            observation,
            kind,
            outside: Outside::default(),
            record: None,
            spec,
            ended: None,
            started: SystemTime::now(),
            spent: Duration::ZERO,
        }
    }

    pub(crate) fn of_workload(
        plan: Arc<Plan>,
        run: &RunId,
        ready: Ready,
        observation: Observation,
    ) -> Self {
        let spec = Spec::Run(plan.spec.for_run(run));
        let run = run.clone();
        let kind = Kind::Workload { plan, run };
        Self::new(ready.machine, ready.recorder, observation, kind, spec)
    }

    fn resume_workload(
        plan: Arc<Plan>,
        run: &RunId,
        checkpoint: &Checkpoint,
        console: Console,
    ) -> Result<Self> {
        let mut observation = Observation::new(&ObserveOptions::default())?;
        let ready = plan.build(run, &mut observation, Some(console), Start::Restore)?;
        let ready = plan.take_over(run, ready, checkpoint)?;
        Ok(Self::of_workload(plan, run, ready, observation))
    }

    fn boot(
        spec: &BootSpec,
        observe: &ObserveOptions,
        saved: Option<&Checkpoint>,
        trapless: &Trapless,
        console: Console,
    ) -> Result<Self> {
        let replayed = spec.replay.as_deref().map(Record::open).transpose()?;
        let recorded = replayed.as_ref().and_then(Record::date);
        let date = saved.and_then(Checkpoint::date).or(recorded);
        let config = spec.config(&trapless.machines()?, date)?;
        let loaded = payload(spec, &trapless.project())?;
        let recorder = machine::recorder(&config, String::new());
        let tap = || ConsoleTap::new(recorder.clone(), None);
        let first = Box::new(ConsoleTap::new(recorder.clone(), Some(console)));
        let devices = Devices::new(spec);
        let described = devices.describe()?;
        let mut source = Source::open(spec, replayed, &config, &loaded.payload, || {
            Ok(described.clone())
        })?;
        let mut outside = Outside::next(&mut source);
        let peripherals = devices.plug(first, Some(Box::new(tap())), &mut outside)?;
        let mut observation = Observation::new(observe)?;
        let mut machine = observation.boot(config, &loaded.payload, peripherals)?;
        recorder.lock().name_threads(machine.ram());
        machine.add_sink(Box::new(recorder.clone()));
        outside.start(&mut machine);
        let kind = Kind::Other {
            name: "boot".into(),
            devices: described,
        };
        let spec = Spec::Boot(Box::new(spec.clone()));
        let mut session = Self::new(machine, recorder, observation, kind, spec);
        (session.outside, session.record) = (outside, source.recorder);
        Ok(session)
    }

    fn exec(
        spec: &ExecSpec,
        observe: &ObserveOptions,
        trapless: &Trapless,
        console: Console,
    ) -> Result<Self> {
        let config = spec.config(&trapless.machines()?)?;
        let elf = files::read(&spec.file, "program")?;
        let recorder = machine::recorder(&config, String::new());
        let mut observation = Observation::new(observe)?;
        let copy = Both(Arc::new(Mutex::new(console)));
        let tap = ConsoleTap::new(recorder.clone(), Some(Box::new(copy.clone())));
        let peripherals = Peripherals::new(Box::new(tap));
        let mut machine = observation.exec(config, &elf, peripherals, Box::new(copy))?;
        machine.add_sink(Box::new(recorder.clone()));
        let kind = Kind::Other {
            name: spec.file.display().to_string(),
            devices: Vec::new(),
        };
        let spec = Spec::Exec(spec.clone());
        Ok(Self::new(machine, recorder, observation, kind, spec))
    }

    /// Restores the state of `checkpoint` into a machine that was built for it.
    fn resumed(mut self, checkpoint: &Checkpoint) -> Result<Self> {
        let devices = match &self.kind {
            Kind::Workload { plan, .. } => &plan.images[..],
            Kind::Other { devices, .. } => devices,
        };
        checkpoint.resume_session(&mut self.machine, &self.recorder, devices)?;
        self.before = self.machine.instret();
        Ok(self)
    }

    /// Its ledger, and the state of its console.
    pub fn recorder(&self) -> SharedRecorder {
        self.recorder.clone()
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The machine, mutably.
    pub fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// Limit of virtual time of the run of a workload, in cycles.
    pub fn time_limit(&self) -> Option<u64> {
        match &self.kind {
            Kind::Workload { plan, .. } => Some(plan.time_limit()),
            Kind::Other { .. } => None,
        }
    }

    /// Whether the measured part of the workload has begun.
    pub fn measuring(&self) -> bool {
        self.recorder.lock().measuring()
    }

    /// Runs the machine until one of `limits` or something else ends it. `poll` is called between
    /// slices of some milliseconds and ends it by `false`. A run that replays a record stops where
    /// the recorded one was left.
    ///
    /// # Errors
    /// Those of `poll`; if a trace or a record cannot be written, or if this is not the recorded
    /// run.
    pub fn run(
        &mut self,
        limits: &Limits,
        poll: &mut dyn FnMut(&mut Machine) -> Result<bool>,
    ) -> Result<Ended> {
        let mut limits = *limits;
        if self.outside.left(&self.machine) {
            return Ok(Ended::Machine(Outcome::Stopped));
        }
        if self.machine.now() >= limits.until || self.machine.instret() >= limits.instret {
            return Ok(Ended::Machine(Outcome::Limit));
        }
        let slice = match self.outside.waits() {
            true => TICK,
            false => SLICE,
        };
        limits.until = limits.until.min(self.outside.leaving().unwrap_or(u64::MAX));
        let mut go_on = true;
        let outcome = self.drive(&|| limits, slice, &mut |machine| {
            go_on = poll(machine)?;
            let reached = machine.now() >= limits.until || machine.instret() >= limits.instret;
            Ok(go_on && !reached)
        })?;
        let off = matches!(
            outcome,
            Some(Outcome::PoweredOff | Outcome::Rebooted | Outcome::Exit(_))
        );
        if off || self.outside.left(&self.machine) {
            self.outside.check_end(&self.machine)?;
        } else {
            self.outside.check(&self.machine)?;
        }
        if outcome.is_none() && self.recorder.lock().dead(self.machine.now()) {
            self.finish(Outcome::Limit)?;
            let panic = self.recorder.lock().transcript.panic.clone();
            return Ok(Ended::Panicked(panic.unwrap_or_default()));
        }
        match outcome {
            None if !go_on => return Ok(Ended::Caller),
            Some(outcome @ (Outcome::PoweredOff | Outcome::Rebooted | Outcome::Exit(_))) => {
                self.finish(outcome)?;
            }
            _ if self.outside.left(&self.machine) => {
                return Ok(Ended::Machine(Outcome::Stopped));
            }
            _ => {}
        }
        Ok(Ended::Machine(outcome.unwrap_or(Outcome::Limit)))
    }

    /// Runs the machine in slices of `slice` cycles of virtual time, before each of which `limits`
    /// is called, until it ends, its kernel is dead, its record ends, or `poll` ends it. The
    /// outcome is `None` if the machine could continue.
    ///
    /// # Errors
    /// Those of `poll`, or if two engines differ.
    pub(crate) fn drive(
        &mut self,
        limits: &dyn Fn() -> Limits,
        slice: u64,
        poll: &mut dyn FnMut(&mut Machine) -> Result<bool>,
    ) -> Result<Option<Outcome>> {
        let mut failed = None;
        let clock = Instant::now();
        let (outside, recorder) = (&mut self.outside, &self.recorder);
        let look = &mut |machine: &mut Machine, idle: bool| {
            outside.record(machine);
            outside.exchange(machine);
            let go_on = poll(machine).unwrap_or_else(|error| {
                failed = Some(error);
                false
            });
            let idle = idle && !machine.expects_input();
            let left = outside.left(machine) || outside.check(machine).is_err();
            go_on && !idle && !left && !recorder.lock().dead(machine.now())
        };
        let outcome = self
            .observation
            .drive(&mut self.machine, limits, slice, look);
        self.outside.record(&mut self.machine);
        self.spent += clock.elapsed();
        failed.map_or(outcome, Err)
    }

    /// Completes the record.
    fn finish_record(&mut self) -> Result<()> {
        let Some(record) = self.record.take() else {
            return Ok(());
        };
        self.outside.record(&mut self.machine);
        self.outside.end(&self.machine, self.ended.is_none());
        record.finish()
    }

    /// Ends the run and completes its trace.
    pub(crate) fn finish(&mut self, outcome: Outcome) -> Result<()> {
        if self.ended.is_none() {
            self.observation.finish(self.machine.now())?;
        }
        self.ended = Some(outcome);
        self.finish_record()
    }

    /// The profile as text, if one was requested.
    pub fn profile(&self) -> Option<String> {
        self.observation.profile()
    }

    /// The ledger so far.
    ///
    /// # Errors
    /// If the workload has ended with a failure.
    pub fn ledger(&self) -> Result<LedgerFile> {
        let recorder = self.recorder.lock();
        let late = self.time_limit().is_some_and(|at| self.machine.now() >= at);
        let outcome = self.ended.or(late.then_some(Outcome::Limit));
        let config = self.machine.config();
        let info = match (&self.kind, outcome) {
            (Kind::Workload { plan, run }, Some(outcome)) => {
                plan.judge(outcome, config, &recorder.transcript)?;
                plan.info(run, &self.machine, &recorder.transcript)?
            }
            (kind, _) => {
                let mut info = machine::run_info(config);
                info.workload = match kind {
                    Kind::Workload { run: _, plan } => plan.experiment.name.clone(),
                    Kind::Other { name, .. } => name.clone(),
                };
                let instructions = self.machine.instret();
                info.counters.insert("instructions".into(), instructions);
                info
            }
        };
        let instructions = self.machine.instret() - self.before;
        let host = host_info(self.started, self.spent.as_secs_f64(), instructions);
        let ledger = recorder.ledger_at(self.machine.now());
        let mut ledger = ledger.context("the ledger cannot be copied")?;
        Ok(ledger.to_file(info, Some(host)))
    }

    /// Writes a checkpoint, from which [`Trapless::resume`] continues, and of a workload `trapless
    /// resume`, too.
    ///
    /// # Errors
    /// If the file cannot be written, or the machine cannot be saved.
    pub fn save(&self, path: &Path) -> Result<()> {
        if self.outside.is_open() {
            bail!(
                "a machine with a network of this computer, or one that is recorded or repeated, \
                 cannot be saved: what is outside would not be in the checkpoint"
            );
        }
        let (images, command_line) = match &self.kind {
            Kind::Workload { plan, run } => (&plan.images[..], plan.command_line(run.seed)),
            Kind::Other { devices, .. } => (&devices[..], String::new()),
        };
        let run = Run {
            spec: self.spec.clone(),
            images,
            command_line,
        };
        run.save(path, &self.machine, &self.recorder)
    }
}

impl Drop for Session {
    /// A record that is not ended here looks like that of a program that was killed. Errors were
    /// reported by earlier calls.
    fn drop(&mut self) {
        let _ = self.finish_record();
    }
}

/// A console shared by a UART and `tohost`.
#[derive(Clone)]
struct Both(Arc<Mutex<Console>>);

impl Write for Both {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut console = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        console.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends what it receives until that is a q, and powers off.
    const ECHO: [u32; 14] = [
        0x10000437, 0x00544303, 0x00137313, 0xfe030ce3, 0x00044303, 0x00640023, 0x07100393,
        0xfe7314e3, 0x001002b7, 0x00005337, 0x55530313, 0x0062a023, 0x10500073, 0x0000006f,
    ];

    /// A console that a test reads.
    #[derive(Clone, Default)]
    struct Printed(Arc<Mutex<Vec<u8>>>);

    impl Write for Printed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Promise: what a program types into a machine that it has recorded comes again at the same
    /// moments, and the run ends where the recorded one was left.
    #[test]
    fn a_recorded_session_is_repeated_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let [program, record] = ["echo.bin", "record"].map(|name| folder.path().join(name));
        std::fs::write(&program, ECHO.map(u32::to_le_bytes).concat()).unwrap();
        let start = |option: &str, console: &Printed| {
            let fields = serde_json::json!({
                "firmware": program, option: record, "harts": 1, "ram": "64M",
            });
            let spec = Spec::Boot(serde_json::from_value(fields).unwrap());
            Trapless::new()
                .start(&spec, &ObserveOptions::default(), Box::new(console.clone()))
                .unwrap()
        };
        let at = |until| Limits {
            until,
            ..Limits::default()
        };
        let typed = Printed::default();
        let mut session = start("record", &typed);
        session.machine_mut().input(2_000_000, b"ab");
        session.run(&at(9_000_000), &mut |_| Ok(true)).unwrap();
        let end = session.machine().now();
        assert!(session.save(&folder.path().join("none")).is_err());
        drop(session);
        let repeated = Printed::default();
        let mut session = start("replay", &repeated);
        let ended = session.run(&Limits::default(), &mut |_| Ok(true)).unwrap();
        assert_eq!(ended, Ended::Machine(Outcome::Stopped));
        assert_eq!(session.machine().now(), end);
        let [typed, repeated] = [typed, repeated].map(|printed| printed.0.lock().unwrap().clone());
        assert_eq!((typed.as_slice(), repeated), (&b"ab"[..], typed.clone()));
    }
}
