//! `trapless boot`: a machine with its console on the terminal.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Result, anyhow, bail};
use trapless_machine::{Machine, MachineConfig, Outcome, Payload, VirtualTime};
use trapless_recorder::{ConsoleTap, SharedRecorder};
use trapless_run::checkpoint::{Checkpoint, Pending, Run};
use trapless_run::devices::Devices;
use trapless_run::outside::record::Record;
use trapless_run::outside::{Outside, Source};
use trapless_run::payload::payload;
use trapless_run::script::{Script, ScriptTap, SharedScript};
use trapless_run::spec::{BootSpec, EngineChoice, OnPanic, Spec};
use trapless_run::{Failed, Trapless, files, interrupt, machine, note, observe};

use crate::args::BootArgs;
pub use crate::args::Driving;
use crate::interactive::{self, Interactive};
use crate::output::Screen;
use crate::terminal::{Key, RawMode, keyboard};

/// Boots, and boots again after a reboot, until the guest powers off or the user leaves.
pub fn main(args: &BootArgs, trapless: &Trapless) -> Result<ExitCode> {
    start(&args.spec(), &args.driving(), None, trapless)
}

/// The same, or resumes a session that was `saved`.
///
/// # Errors
/// If an option or a file cannot be used, or the session does not end as it should.
pub fn start(
    spec: &BootSpec,
    driving: &Driving,
    saved: Option<&Checkpoint>,
    trapless: &Trapless,
) -> Result<ExitCode> {
    interrupt::catch()?;
    let replayed = spec.replay.as_deref().map(Record::open).transpose()?;
    let date = replayed.as_ref().and_then(Record::date);
    let date = date.or(saved.and_then(Checkpoint::date));
    let config = spec.config(&trapless.machines()?, date)?;
    observe::check_engine(&spec.options, &driving.observe)?;
    observe::check(&driving.observe)?;
    for path in driving.ledger.iter().chain(&driving.dump_dtb) {
        files::check_output(path)?;
    }
    check_checkpoints(spec, driving)?;
    let loaded = payload(spec, &trapless.project())?;
    let payload = &loaded.payload;
    let devices = Devices::new(spec);
    if let Some(path) = &driving.dump_dtb {
        let mut nowhere = Outside::default();
        let devices = devices.plug(Box::new(std::io::sink()), None, &mut nowhere)?;
        let machine = Machine::boot(config, payload, devices)?;
        files::write(path, machine.device_tree())?;
        return Ok(ExitCode::SUCCESS);
    }
    let script = script(driving)?.map(SharedScript::new);
    if let (EngineChoice::Both, Some(option)) = (spec.options.engine, devices.alone()) {
        bail!("{option} does not go with --engine both, whose two machines would share it");
    }
    if spec.options.engine == EngineChoice::Both && spec.replay.is_some() {
        bail!("--replay repeats a run of one machine; choose --engine jit or interp");
    }
    let described = match saved.is_some() || !driving.checkpoint.is_empty() {
        true => devices.describe()?,
        false => Vec::new(),
    };
    let source = Source::open(spec, replayed, &config, payload, || Ok(devices.describe()?))?;
    let mut power_on = PowerOn {
        spec,
        driving,
        config,
        payload,
        devices,
        keys: if script.is_some() || spec.replay.is_some() {
            no_keys()
        } else {
            keyboard()
        },
        script,
        source,
        checkpoints: Pending::new(
            &driving.checkpoint,
            None,
            Run {
                spec: Spec::Boot(Box::new(spec.clone())),
                images: &described,
                command_line: payload.append.clone(),
            },
        ),
        saved,
        left: driving.time_limit.map(VirtualTime::cycles),
    };
    let ended = loop {
        match power_on.session() {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    power_on.checkpoints.finish();
    // However the run ended, it can be repeated.
    if let Some(recorder) = &power_on.source.recorder {
        recorder.finish()?;
    }
    ended?;
    // A script goes on after a reboot.
    match power_on.script.and_then(|script| script.lock().missing()) {
        Some(missing) => {
            Err(Failed(format!("the machine is off, but {missing} did not appear")).into())
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

fn check_checkpoints(spec: &BootSpec, driving: &Driving) -> Result<()> {
    if !driving.checkpoint.is_empty() && spec.options.engine == EngineChoice::Both {
        bail!("--checkpoint saves one machine; choose --engine jit or interp");
    }
    for request in &driving.checkpoint {
        request.check_time()?;
        files::check_output(&request.file)?;
    }
    Ok(())
}

/// What `--script` or `--until` says.
fn script(driving: &Driving) -> Result<Option<Script>> {
    if let Some(path) = &driving.script {
        let script = Script::parse(&files::text(path, "script")?);
        return Ok(Some(script.map_err(|reason| {
            anyhow!("cannot use the script {}: {reason}", path.display())
        })?));
    }
    let until = driving.until.as_deref().map(Script::until).transpose();
    until.map_err(|reason| anyhow!("cannot use --until: {reason}"))
}

/// The keyboard of a session whose input comes from a script.
fn no_keys() -> Receiver<Key> {
    channel().1
}

/// What stays the same from one reboot to the next.
struct PowerOn<'a> {
    spec: &'a BootSpec,
    driving: &'a Driving,
    config: MachineConfig,
    payload: &'a Payload,
    devices: Devices,
    keys: Receiver<Key>,
    script: Option<SharedScript>,
    source: Source,
    checkpoints: Pending<'a>,
    /// Checkpoint from which the first session is resumed.
    saved: Option<&'a Checkpoint>,
    /// Virtual time in cycles that remains of the user's limit.
    left: Option<u64>,
}

impl PowerOn<'_> {
    /// One run from reset; `true` if the guest rebooted.
    fn session(&mut self) -> Result<bool> {
        let (spec, driving) = (self.spec, self.driving);
        let recorder = machine::recorder(&self.config, String::new());
        let mut observation = observe::Observation::new(&driving.observe)?;
        if let Some(script) = &self.script {
            script.lock().restart();
        }
        let screen = Screen::default();
        let script = self.script.clone();
        let console = || -> Box<dyn Write + Send> {
            let screen: Box<dyn Write + Send> = Box::new(screen.clone());
            let copy = match &script {
                Some(script) => Box::new(ScriptTap {
                    script: script.clone(),
                    recorder: recorder.clone(),
                    copy: screen,
                }),
                None => screen,
            };
            Box::new(ConsoleTap::new(recorder.clone(), Some(copy)))
        };
        let (mut machine, outside) = self.machine(&console, &recorder, &mut observation)?;
        let outcome = {
            let _raw = RawMode::enter();
            let mut session = Interactive {
                keys: &self.keys,
                script: self.script.as_ref(),
                screen: &screen,
                recorder: &recorder,
                outside,
                checkpoints: &mut self.checkpoints,
                failed: None,
                debugged: driving.observe.gdb.is_some(),
                paced: spec.replay.is_none() && (spec.real_time || std::io::stdin().is_terminal()),
                ends_on_panic: ends_on_panic(spec),
                slice: spec.options.slice(interactive::SLICE),
                limit: self.left,
                input_ended: None,
                leave: None,
            };
            let outcome = session.run(&mut machine, &mut observation);
            match session.failed {
                Some(error) => Err(error),
                None => outcome,
            }
        };
        let now = machine.now();
        self.left = self.left.map(|left| left.saturating_sub(now));
        observation.finish(now)?;
        observation.show_profile();
        if let Some(path) = &driving.ledger {
            write_ledger(path, &self.config, &recorder, now)?;
        }
        // Written for failed runs too: those are the ones to investigate.
        let outcome = outcome?;
        screen.check()?;
        self.starts_again(outcome, now, &recorder)
    }

    /// The machine with its devices, at its start or where the saved session was.
    fn machine(
        &mut self,
        console: &dyn Fn() -> Box<dyn Write + Send>,
        recorder: &SharedRecorder,
        observation: &mut observe::Observation,
    ) -> Result<(Machine, Outside)> {
        let config = &self.config;
        let devices = self.devices.clone();
        let mut outside = Outside::next(&mut self.source);
        let peripherals = devices.plug(console(), Some(console()), &mut outside)?;
        let mut machine = observation.boot(config.clone(), self.payload, peripherals)?;
        match self.saved.take() {
            Some(saved) => {
                saved.resume_session(&mut machine, recorder, self.checkpoints.images())?;
                let seconds = VirtualTime::seconds(machine.now());
                note!("Going on at {seconds:.6} s of virtual time; Ctrl-A h lists keys");
            }
            None => recorder.lock().name_threads(machine.ram()),
        }
        if self.checkpoints.any() {
            machine.check_savable()?;
        }
        machine.add_sink(Box::new(recorder.clone()));
        let payload = self.payload.clone();
        machine::accompany(&mut machine, &self.spec.options, config, move |config| {
            let mut twins = Outside::default();
            let nowhere = devices.plug(Box::new(std::io::sink()), None, &mut twins)?;
            Machine::boot(config, &payload, nowhere)
        })?;
        Ok((machine, outside))
    }

    /// Whether the guest asked for a reboot.
    ///
    /// # Errors
    /// If the session did not end as it should.
    fn starts_again(
        &mut self,
        outcome: Option<Outcome>,
        now: u64,
        recorder: &SharedRecorder,
    ) -> Result<bool> {
        if recorder.lock().dead(now) {
            let panic = recorder.lock().transcript.panic.clone();
            return Err(Failed(panic.unwrap_or_default()).into());
        }
        match outcome {
            Some(Outcome::Rebooted) => {
                // The clock has gone on.
                self.config.epoch += now / VirtualTime::HZ;
                Ok(true)
            }
            Some(Outcome::PoweredOff) | None => Ok(false),
            Some(Outcome::Exit(code)) => bail!("the guest stopped the machine with code {code}"),
            Some(Outcome::Idle) => bail!(
                "all harts wait for interrupts that nothing can raise, and there is no more input"
            ),
            // Without a signal, gdb's `kill` ended it.
            Some(Outcome::Stopped) if !interrupt::requested() => Ok(false),
            Some(Outcome::Stopped) => Err(interrupt::Interrupted::Written.into()),
            Some(Outcome::Limit) => Err(Failed(format!(
                "the machine did not power off within {} s of virtual time (last line: {})",
                self.driving.time_limit.unwrap_or_default(),
                recorder.lock().transcript.last_line
            ))
            .into()),
            Some(other) => bail!("the machine stopped unexpectedly: {other:?}"),
        }
    }
}

/// Writes what the machine did until `now`, in cycles.
fn write_ledger(
    path: &Path,
    config: &MachineConfig,
    recorder: &SharedRecorder,
    now: u64,
) -> Result<()> {
    let mut info = machine::run_info(config);
    info.workload = "boot".into();
    let mut recorder = recorder.lock();
    recorder.ledger.finish(now);
    files::write(path, recorder.ledger.to_file(info, None).to_json())
}

/// Whether a kernel panic ends the command.
fn ends_on_panic(spec: &BootSpec) -> bool {
    match spec.on_panic {
        Some(action) => action == OnPanic::Exit,
        None => !std::io::stdin().is_terminal(),
    }
}
