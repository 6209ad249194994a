//! `trapless boot`: a machine with its console on the terminal.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use trapless_ledger::Ledger;
use trapless_machine::{Limits, Machine, MachineConfig, Outcome, Payload, Peripherals};

use crate::args::{BootArgs, OnPanic};
use crate::console::{ConsoleTap, Recorder, SharedRecorder};
use crate::devices::Devices;
use crate::failure::Failed;
use crate::library::Trapless;
use crate::output::Screen;
use crate::payload::payload;
use crate::script::{self, Script, ScriptTap, SharedScript};
use crate::terminal::{HELP, Key, RawMode, keyboard};
use crate::{files, interrupt, machine, observe};

/// Virtual time between two looks at the keyboard, in cycles.
const SLICE: u64 = 2_000_000;
/// After this long idle and silent, in cycles, virtual time of a machine that gets no more input is
/// throttled to wall-clock time.
const IDLE: u64 = 10_000_000_000;
/// How long to wait for a key while the machine is idle, before looking at Ctrl-C again.
const PATIENCE: Duration = Duration::from_millis(50);

/// Cycles in a second of virtual time.
const SECOND: u64 = 1_000_000_000;

/// Boots, and boots again after a reboot, until the guest powers off or the user leaves.
pub fn main(args: &BootArgs, trapless: &Trapless) -> Result<ExitCode> {
    interrupt::catch()?;
    let config = machine::config(
        &trapless.machines()?,
        &args.machine,
        args.harts,
        &args.harts_options,
        &args.settings,
    )?;
    observe::check_engine(&args.harts_options, &args.observe)?;
    observe::check(&args.observe, args.trace.as_deref())?;
    for path in args.ledger.iter().chain(&args.dump_dtb) {
        files::check_output(path)?;
    }
    let payload = payload(args, &trapless.project())?;
    if let Some(path) = &args.dump_dtb {
        let machine = Machine::boot(
            config,
            &payload,
            Peripherals::new(Box::new(std::io::sink())),
        )?;
        files::write(path, machine.device_tree())?;
        return Ok(ExitCode::SUCCESS);
    }
    let script = script(args)?.map(SharedScript::new);
    let mut power_on = PowerOn {
        args,
        config: &config,
        payload: &payload,
        devices: Devices::new(args),
        keys: if script.is_some() {
            no_keys()
        } else {
            keyboard()
        },
        script,
        left: args.time_limit.map(|s| s.saturating_mul(SECOND)),
    };
    while power_on.session()? {}
    // A script goes on after a reboot.
    match power_on.script.and_then(|script| script.lock().missing()) {
        Some(missing) => {
            Err(Failed(format!("the machine is off, but {missing} has not come")).into())
        }
        None => Ok(ExitCode::SUCCESS),
    }
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
    config: &'a MachineConfig,
    payload: &'a Payload,
    devices: Devices,
    keys: Receiver<Key>,
    script: Option<SharedScript>,
    /// Virtual time in cycles that is left of the user's limit.
    left: Option<u64>,
}

impl PowerOn<'_> {
    /// One run from reset; `true` if the guest rebooted.
    fn session(&mut self) -> Result<bool> {
        let (args, config) = (self.args, self.config);
        let ledger = Ledger::new(machine::ledger_config(config));
        let recorder = SharedRecorder::new(Recorder::new(ledger, String::new()));
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
        let peripherals = devices.plug(console(), Some(console()))?;
        let mut machine = observation.boot(config.clone(), self.payload, peripherals)?;
        recorder.lock().name_threads(machine.ram());
        machine.add_sink(Box::new(recorder.clone()));
        let payload = self.payload.clone();
        machine::accompany(&mut machine, &args.harts_options, config, move |config| {
            let nowhere = devices.plug(Box::new(std::io::sink()), None)?;
            Machine::boot(config, &payload, nowhere)
        })?;
        let outcome = {
            let _raw = RawMode::enter();
            let mut session = Session {
                keys: &self.keys,
                script: self.script.as_ref(),
                screen: &screen,
                recorder: &recorder,
                paced: args.real_time || std::io::stdin().is_terminal(),
                ends_on_panic: ends_on_panic(args),
                slice: args.harts_options.slice(SLICE),
                limit: self.left,
                input_ended: None,
                leave: None,
            };
            session.run(&mut machine, &mut observation)?
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
        screen.check()?;
        if recorder.lock().dead(now) {
            let panic = recorder.lock().transcript.panic.clone();
            return Err(Failed(panic.unwrap_or_default()).into());
        }
        match outcome {
            Some(Outcome::Rebooted) => Ok(true),
            Some(Outcome::PoweredOff) | None => Ok(false),
            Some(Outcome::Exit(code)) => bail!("the guest stopped the machine with code {code}"),
            Some(Outcome::Idle) => bail!(
                "all harts wait for interrupts that nothing can raise, and there is no more input"
            ),
            // Without a signal it was gdb's `kill`.
            Some(Outcome::Stopped) if !interrupt::requested() => Ok(false),
            Some(Outcome::Stopped) => Err(interrupt::Interrupted.into()),
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

/// Why a session ended that could have gone on.
#[derive(Clone, PartialEq, Eq)]
enum Leave {
    /// The user pressed the key.
    Key,
    /// A signal came.
    Signal,
    /// The kernel has panicked, or standard output is gone.
    Broken,
    /// The time that the user allows is over.
    Late,
    /// The script has ended, or waits in vain.
    Script(script::End),
}

/// A machine with the keyboard and the screen attached.
struct Session<'a> {
    keys: &'a Receiver<Key>,
    script: Option<&'a SharedScript>,
    screen: &'a Screen,
    recorder: &'a SharedRecorder,
    /// Somebody who types should not see idle hours fly by.
    paced: bool,
    ends_on_panic: bool,
    slice: u64,
    /// Virtual time in cycles at which the session ends.
    limit: Option<u64>,
    /// Set when standard input has ended.
    input_ended: Option<Ended>,
    leave: Option<Leave>,
}

/// What is watched after the end of standard input.
#[derive(Clone, Copy)]
struct Ended {
    /// The host's time when the machine last worked or printed.
    busy: Instant,
    /// Virtual time then, in cycles.
    at: u64,
    /// Virtual time and executed instructions at the last look.
    seen: (u64, u64),
}

impl Ended {
    fn new(machine: &Machine) -> Self {
        Self {
            busy: Instant::now(),
            at: machine.now(),
            seen: (machine.now(), machine.instret()),
        }
    }

    /// How long to wait. Only work keeps a machine busy that gets no input, and work runs at full
    /// speed; a machine that has been idle and silent for [`IDLE`] cycles is slowed down to the
    /// host's clock.
    fn wait(&mut self, machine: &Machine, printed: u64) -> Duration {
        let (now, executed) = (machine.now(), machine.instret());
        let worked = executed.saturating_sub(self.seen.1) > now.saturating_sub(self.seen.0) / 2;
        if worked || printed > self.at {
            *self = Self::new(machine);
            return Duration::ZERO;
        }
        self.seen = (now, executed);
        let idle = Duration::from_nanos(now.saturating_sub(self.at).saturating_sub(IDLE));
        idle.saturating_sub(self.busy.elapsed())
    }
}

impl Session<'_> {
    /// Runs the machine; `None` if the user left.
    fn run(
        &mut self,
        machine: &mut Machine,
        observation: &mut observe::Observation,
    ) -> Result<Option<Outcome>> {
        let paced = self.paced;
        let clock = Instant::now();
        let slice = self.slice;
        let outcome = observation.drive(machine, Limits::default(), slice, &mut |machine, idle| {
            show_output();
            let ahead = Duration::from_nanos(machine.now()).saturating_sub(clock.elapsed());
            let ahead = if paced { ahead } else { Duration::ZERO };
            self.poll(machine, idle, ahead)
        });
        show_output();
        let outcome = outcome?;
        Ok(match &self.leave {
            Some(Leave::Script(script::End::Late(reason))) => {
                let last = &self.recorder.lock().transcript.last_line;
                return Err(Failed(format!("{reason} (last line: {last})")).into());
            }
            Some(Leave::Key | Leave::Broken | Leave::Script(script::End::Done)) => None,
            Some(Leave::Signal) => Some(Outcome::Stopped),
            Some(Leave::Late) => Some(Outcome::Limit),
            None => outcome,
        })
    }

    fn end(&mut self, leave: Leave) -> bool {
        self.leave = Some(leave);
        false
    }

    /// Takes what came from the keyboard, and waits for it if the machine is idle or ahead of the
    /// clock. `false` ends the session.
    fn poll(&mut self, machine: &mut Machine, idle: bool, ahead: Duration) -> bool {
        loop {
            if interrupt::requested() {
                return self.end(Leave::Signal);
            }
            let panicked = self.ends_on_panic && self.recorder.lock().dead(machine.now());
            if panicked || self.screen.check().is_err() {
                return self.end(Leave::Broken);
            }
            if self.limit.is_some_and(|limit| machine.now() >= limit) {
                return self.end(Leave::Late);
            }
            if let Some(script) = self.script {
                let mut script = script.lock();
                for (at, bytes) in script.take_typed() {
                    machine.input(at, &bytes);
                }
                if let Some(end) = script.end(machine.now()) {
                    drop(script);
                    return self.end(Leave::Script(end));
                }
            }
            if let Some(ended) = &mut self.input_ended {
                let printed = self.recorder.lock().last_output();
                let wait = ended.wait(machine, printed).max(ahead);
                std::thread::sleep(wait.min(PATIENCE));
                return !idle;
            }
            let patience = if idle { PATIENCE } else { ahead.min(PATIENCE) };
            match self.keys.recv_timeout(patience) {
                Ok(Key::Input(bytes)) => machine.input(machine.now(), &bytes),
                Ok(Key::Quit) => {
                    note!("\r");
                    return self.end(Leave::Key);
                }
                Ok(Key::Help) => note!("{HELP}\r"),
                Ok(Key::Status) => status(machine),
                Err(RecvTimeoutError::Timeout) if idle => continue,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.input_ended = Some(Ended::new(machine));
                    continue;
                }
            }
            return true;
        }
    }
}

/// Shows what the guest has written after the last whole line. Errors are ignored: the terminal may
/// be gone.
fn show_output() {
    let _ = std::io::stdout().flush();
}

fn status(machine: &Machine) {
    note!("\r\n{:.6} s of virtual time\r", machine.now() as f64 / 1e9);
    for hart in machine.harts() {
        let state = if hart.waiting() { "waits" } else { "runs" };
        note!(
            "hart {}: {} {:#x}, {state}, {} instructions\r",
            hart.id(),
            hart.mode(),
            hart.pc(),
            hart.instret()
        );
    }
}
