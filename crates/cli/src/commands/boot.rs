//! `trapless boot`: a machine with its console on the terminal.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Result, anyhow, bail};
use trapless_machine::{Machine, MachineConfig, Outcome, Payload, Peripherals};

use crate::args::{BootArgs, OnPanic};
use crate::checkpoint::{Checkpoint, Pending, Run};
use crate::console::{ConsoleTap, SharedRecorder};
use crate::devices::Devices;
use crate::failure::Failed;
use crate::interactive::{self, Session};
use crate::machine::EngineName;
use crate::output::Screen;
use crate::outside::record::Record;
use crate::outside::{Outside, Source};
use crate::payload::payload;
use crate::script::{Script, ScriptTap, SharedScript};
use crate::terminal::{Key, RawMode, keyboard};
use crate::trapless::Trapless;
use crate::{files, interrupt, machine, observe};

/// Cycles in a second of virtual time.
const SECOND: u64 = 1_000_000_000;

/// Boots, and boots again after a reboot, until the guest powers off or the user leaves.
pub fn main(args: &BootArgs, trapless: &Trapless) -> Result<ExitCode> {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    start(args, words.collect(), None, trapless)
}

/// Goes on with a session that was saved, whose command line was `words`.
pub fn resume(
    args: &BootArgs,
    words: Vec<String>,
    saved: &Checkpoint,
    trapless: &Trapless,
) -> Result<ExitCode> {
    start(args, words, Some(saved), trapless)
}

fn start(
    args: &BootArgs,
    words: Vec<String>,
    saved: Option<&Checkpoint>,
    trapless: &Trapless,
) -> Result<ExitCode> {
    interrupt::catch()?;
    let replayed = args.replay.as_deref().map(Record::open).transpose()?;
    let date = replayed.as_ref().and_then(Record::date);
    let date = date.or(saved.and_then(Checkpoint::date));
    let config = args.config(&trapless.machines()?, date)?;
    observe::check_engine(&args.harts_options, &args.observe)?;
    observe::check(&args.observe, args.trace.as_deref())?;
    for path in args.ledger.iter().chain(&args.dump_dtb) {
        files::check_output(path)?;
    }
    check_checkpoints(args)?;
    let loaded = payload(args, &trapless.project())?;
    let payload = &loaded.payload;
    if let Some(path) = &args.dump_dtb {
        let machine = Machine::boot(config, payload, Peripherals::new(Box::new(std::io::sink())))?;
        files::write(path, machine.device_tree())?;
        return Ok(ExitCode::SUCCESS);
    }
    let script = script(args)?.map(SharedScript::new);
    let devices = Devices::new(args);
    if let (EngineName::Both, Some(option)) = (args.harts_options.engine, devices.alone()) {
        bail!("{option} does not go with --engine both, whose two machines would share it");
    }
    if args.harts_options.engine == EngineName::Both && args.replay.is_some() {
        bail!("--replay repeats a run of one machine; choose --engine jit or interp");
    }
    let described = match saved.is_some() || !args.checkpoint.is_empty() {
        true => devices.describe()?,
        false => Vec::new(),
    };
    let source = Source::open(args, replayed, &config, payload, || Ok(devices.describe()?))?;
    let mut power_on = PowerOn {
        args,
        config,
        payload,
        devices,
        keys: if script.is_some() || args.replay.is_some() {
            no_keys()
        } else {
            keyboard()
        },
        script,
        source,
        checkpoints: Pending::new(
            &args.checkpoint,
            None,
            Run {
                words,
                images: &described,
                command_line: payload.append.clone(),
            },
        ),
        saved,
        left: args.time_limit.map(|s| s.saturating_mul(SECOND)),
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
            Err(Failed(format!("the machine is off, but {missing} has not come")).into())
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

fn check_checkpoints(args: &BootArgs) -> Result<()> {
    if !args.checkpoint.is_empty() && args.harts_options.engine == EngineName::Both {
        bail!("--checkpoint saves one machine; choose --engine jit or interp");
    }
    for request in &args.checkpoint {
        request.check_time()?;
        files::check_output(&request.file)?;
    }
    Ok(())
}

/// What `--script` or `--until` says.
fn script(args: &BootArgs) -> Result<Option<Script>> {
    if let Some(path) = &args.script {
        let script = Script::parse(&files::text(path, "script")?);
        return Ok(Some(script.map_err(|reason| {
            anyhow!("cannot use the script {}: {reason}", path.display())
        })?));
    }
    let until = args.until.as_deref().map(Script::until).transpose();
    until.map_err(|reason| anyhow!("cannot use --until: {reason}"))
}

/// The keyboard of a session that a script types for.
fn no_keys() -> Receiver<Key> {
    channel().1
}

/// What stays the same from one reboot to the next.
struct PowerOn<'a> {
    args: &'a BootArgs,
    config: MachineConfig,
    payload: &'a Payload,
    devices: Devices,
    keys: Receiver<Key>,
    script: Option<SharedScript>,
    source: Source,
    checkpoints: Pending<'a>,
    /// Where the first session goes on.
    saved: Option<&'a Checkpoint>,
    /// Virtual time in cycles that is left of the user's limit.
    left: Option<u64>,
}

impl PowerOn<'_> {
    /// One run from reset; `true` if the guest rebooted.
    fn session(&mut self) -> Result<bool> {
        let args = self.args;
        let config = &self.config;
        let recorder = SharedRecorder::of(config, String::new());
        let mut observation = observe::Observation::new(&args.observe, args.trace.as_deref())?;
        if let Some(script) = &self.script {
            script.lock().restart();
        }
        let screen = Screen::default();
        let console = || -> Box<dyn Write + Send> {
            let screen: Box<dyn Write + Send> = Box::new(screen.clone());
            let copy = match &self.script {
                Some(script) => Box::new(ScriptTap {
                    script: script.clone(),
                    recorder: recorder.clone(),
                    copy: screen,
                }),
                None => screen,
            };
            Box::new(ConsoleTap::new(recorder.clone(), Some(copy)))
        };
        let devices = self.devices.clone();
        let mut outside = Outside::next(&mut self.source);
        let peripherals = devices.plug(console(), Some(console()), &mut outside)?;
        let mut machine = observation.boot(config.clone(), self.payload, peripherals)?;
        match self.saved.take() {
            Some(saved) => {
                saved.resume_session(&mut machine, &recorder, self.checkpoints.images())?;
                let seconds = machine.now() as f64 / 1e9;
                note!("Going on at {seconds:.6} s of virtual time; Ctrl-A h lists keys");
            }
            None => recorder.lock().name_threads(machine.ram()),
        }
        if self.checkpoints.any() {
            machine.check_savable()?;
        }
        machine.add_sink(Box::new(recorder.clone()));
        let payload = self.payload.clone();
        machine::accompany(&mut machine, &args.harts_options, config, move |config| {
            let mut twins = Outside::default();
            let nowhere = devices.plug(Box::new(std::io::sink()), None, &mut twins)?;
            Machine::boot(config, &payload, nowhere)
        })?;
        let outcome = {
            let _raw = RawMode::enter();
            let mut session = Session {
                keys: &self.keys,
                script: self.script.as_ref(),
                screen: &screen,
                recorder: &recorder,
                outside,
                checkpoints: &mut self.checkpoints,
                failed: None,
                debugged: args.observe.gdb.is_some(),
                paced: args.replay.is_none() && (args.real_time || std::io::stdin().is_terminal()),
                ends_on_panic: ends_on_panic(args),
                slice: args.harts_options.slice(interactive::SLICE),
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
        if let Some(path) = &args.ledger {
            let mut info = machine::run_info(config);
            info.workload = "boot".into();
            let mut recorder = recorder.lock();
            recorder.ledger.finish(now);
            files::write(path, recorder.ledger.to_file(info, None).to_json())?;
        }
        // A run that ended badly is the one that somebody wants to look at.
        let outcome = outcome?;
        screen.check()?;
        if recorder.lock().dead(now) {
            let panic = recorder.lock().transcript.panic.clone();
            return Err(Failed(panic.unwrap_or_default()).into());
        }
        match outcome {
            Some(Outcome::Rebooted) => {
                // The clock has gone on.
                self.config.epoch += now / SECOND;
                Ok(true)
            }
            Some(Outcome::PoweredOff) | None => Ok(false),
            Some(Outcome::Exit(code)) => bail!("the guest stopped the machine with code {code}"),
            Some(Outcome::Idle) => bail!(
                "all harts wait for interrupts that nothing can raise, and there is no more input"
            ),
            // Without a signal it was gdb's `kill`.
            Some(Outcome::Stopped) if !interrupt::requested() => Ok(false),
            Some(Outcome::Stopped) => Err(interrupt::Interrupted::Written.into()),
            Some(Outcome::Limit) => Err(Failed(format!(
                "the machine did not power off within {} s of virtual time (last line: {})",
                args.time_limit.unwrap_or_default(),
                recorder.lock().transcript.last_line
            ))
            .into()),
            Some(other) => bail!("the machine stopped unexpectedly: {other:?}"),
        }
    }
}

/// Whether a kernel panic ends the command.
fn ends_on_panic(args: &BootArgs) -> bool {
    match args.on_panic {
        Some(action) => action == OnPanic::Exit,
        None => !std::io::stdin().is_terminal(),
    }
}
