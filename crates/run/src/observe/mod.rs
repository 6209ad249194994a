//! Logs, traces and debuggers around a run.

mod diagram;
mod kept;
mod profile;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use trapless_gdb::{Ended, Position, Server};
use trapless_hart::Observer;
use trapless_machine::log::{Log, LogFile, LogOptions};
use trapless_machine::preset::Size;
use trapless_machine::{Limits, Machine, MachineConfig, Outcome, Payload, Peripherals};
use trapless_report::{PerfettoTrace, TrapLog};

use crate::failure::Failed;
use crate::files::{self, Output};
use crate::machine::ledger_config;
use crate::spec::{EngineChoice, MachineOptions};
use trapless_recorder::SharedRecorder;

pub use diagram::Request;

use diagram::Diagrams;
use kept::Kept;
use profile::{Profile, Sampler};

/// Observers of a run besides its ledger: options.
#[derive(Clone, Default)]
pub struct ObserveOptions {
    /// Logs as text: any of exec, trap, csr, intc, as in `exec,trap:FILE`.
    pub log: Option<String>,
    /// TCP port on which to wait for gdb, as in `:1234`.
    pub gdb: Option<String>,
    /// Maximum memory for the snapshots by which gdb executes backwards.
    pub gdb_history: Option<Size>,
    /// How far to run before gdb connects.
    pub at: Option<Position>,
    /// Interrupts whose delivery is drawn.
    pub diagram: Vec<Request>,
    /// File for a dump of compiled code.
    pub dump_code: Option<PathBuf>,
    /// Whether there is a profile, and a file for it.
    pub profile: Option<Option<PathBuf>>,
    /// File for a trace that Perfetto opens.
    pub trace: Option<PathBuf>,
}

impl ObserveOptions {
    /// Whether there is no observer.
    pub fn is_nothing(&self) -> bool {
        let Self {
            log,
            gdb,
            gdb_history: _,
            at: _,
            diagram,
            dump_code,
            profile,
            trace,
        } = self;
        log.is_none()
            && gdb.is_none()
            && diagram.is_empty()
            && dump_code.is_none()
            && profile.is_none()
            && trace.is_none()
    }
}

type Trace = PerfettoTrace<Output>;

/// Callbacks of gdb's session between slices.
struct GdbHost<'a> {
    poll: &'a mut dyn FnMut(&mut Machine, bool) -> bool,
    log: Option<&'a mut Log>,
    end: u64,
}

impl trapless_gdb::Host for GdbHost<'_> {
    fn poll(&mut self, machine: &mut Machine) -> bool {
        (self.poll)(machine, false)
    }

    fn end(&self) -> u64 {
        self.end
    }

    fn notice(&mut self, text: &str) {
        note!("{text}\r");
    }

    fn observer(&mut self) -> Option<&mut dyn Observer> {
        self.log.as_mut().and_then(|log| log.observer())
    }
}

/// Observers of a run besides its ledger.
pub struct Observation {
    options: Option<LogOptions>,
    log: Option<Log>,
    traps: Option<Kept<TrapLog<LogFile>>>,
    gdb: Option<Server>,
    trace: Option<(PathBuf, Option<Kept<Trace>>)>,
    dump_code: Option<PathBuf>,
    code: Option<LogFile>,
    wanted: Vec<Request>,
    diagrams: Diagrams,
    /// Whether to make a profile, and a file for it besides the terminal.
    profiled: Option<Option<PathBuf>>,
    profile: Option<Profile>,
}

/// Rejects what would fail later: malformed options, files that cannot be written, an address that
/// gdb cannot connect to.
pub fn check(options: &ObserveOptions) -> Result<()> {
    let log: Option<LogOptions> = options.log.as_deref().map(str::parse).transpose()?;
    let profile = options.profile.iter().flatten();
    let diagrams = options.diagram.iter().map(Request::file);
    let code = options.dump_code.as_deref();
    let mut outputs = profile
        .map(PathBuf::as_path)
        .chain(diagrams)
        .chain(options.trace.as_deref())
        .chain(code);
    outputs.try_for_each(files::check_output)?;
    if let Some(log) = log {
        files::check_output(&log.file)?;
    }
    if let Some(address) = &options.gdb {
        Server::bind(address)?;
    }
    Ok(())
}

/// Rejects single-run observers when several runs are made.
pub fn check_single(options: &ObserveOptions, seeds: u32) -> Result<()> {
    let requested = [
        ("--log", options.log.is_some()),
        ("--gdb", options.gdb.is_some()),
        ("--diagram", !options.diagram.is_empty()),
        ("--dump-code", options.dump_code.is_some()),
        ("--profile", options.profile.is_some()),
        ("--trace", options.trace.is_some()),
    ];
    if let Some((option, _)) = requested
        .iter()
        .find(|(_, requested)| *requested && seeds > 1)
    {
        bail!(
            "{option} observes one run, and --seeds {seeds} makes {seeds}; leave out --seeds, and \
             choose the run with --seed"
        );
    }
    Ok(())
}

/// Rejects observers of one machine while engines are compared on two, and dumps of code that is
/// not compiled.
pub fn check_engine(machine: &MachineOptions, observe: &ObserveOptions) -> Result<()> {
    let both = machine.engine == EngineChoice::Both;
    if both && (observe.log.is_some() || observe.gdb.is_some() || observe.profile.is_some()) {
        bail!(
            "--log, --gdb and --profile observe one machine; leave them out, or choose --engine jit or interp"
        );
    }
    if machine.engine == EngineChoice::Interp && observe.dump_code.is_some() {
        bail!(
            "--dump-code shows compiled code, and --engine interp compiles nothing; leave one of them out"
        );
    }
    Ok(())
}

impl Observation {
    /// Notes the files that the options name; they are created when the machine is built.
    pub fn new(options: &ObserveOptions) -> Result<Self> {
        let gdb = options.gdb.as_deref().map(Server::bind).transpose()?;
        let memory = options
            .gdb_history
            .map_or(trapless_gdb::HISTORY, |size| size.0);
        let gdb = gdb.map(|server| server.with_history(memory).with_start(options.at));
        let log = options.log.as_deref().map(str::parse).transpose()?;
        Ok(Self {
            options: log,
            log: None,
            traps: None,
            gdb,
            trace: options.trace.clone().map(|path| (path, None)),
            dump_code: options.dump_code.clone(),
            code: None,
            wanted: options.diagram.clone(),
            diagrams: Diagrams::default(),
            profiled: options.profile.clone(),
            profile: None,
        })
    }

    fn attach(&mut self, machine: &mut Machine) -> Result<()> {
        if let Some(options) = self.options.clone() {
            files::make_parent(&options.file)?;
            let log = options.open()?;
            log.attach(machine);
            if let Some(writer) = log.trap_writer() {
                let kept = Kept::new(TrapLog::new(writer));
                machine.add_sink(Box::new(kept.share()));
                self.traps = Some(kept);
            }
            self.log = Some(log);
        }
        if let Some((path, sink)) = &mut self.trace {
            let name = format!("trapless {}", machine.config().machine);
            let clock = machine.config().cost.clock_hz;
            let ledger = ledger_config(machine.config());
            let output = Output::create(path)?;
            let kept = Kept::new(PerfettoTrace::new(output, &name, clock, ledger));
            machine.add_sink(Box::new(kept.share()));
            *sink = Some(kept);
        }
        if let Some(path) = &self.dump_code {
            files::make_parent(path)?;
            let file = LogFile::create(path)?;
            let text = file.clone();
            if !machine.list_code(Box::new(move |block| text.line(format_args!("{block}")))) {
                bail!(
                    "--dump-code shows compiled code, and this host has no compiler; leave it out"
                );
            }
            self.code = Some(file);
        }
        self.diagrams.attach(&self.wanted, machine);
        Ok(())
    }

    /// Builds the machine with all observers attached.
    pub fn boot(
        &mut self,
        config: MachineConfig,
        payload: &Payload,
        peripherals: Peripherals,
    ) -> Result<Machine> {
        let mut machine = Machine::boot(config, payload, peripherals)?;
        self.attach(&mut machine)?;
        Ok(machine)
    }

    /// The same for a bare-metal program; `htif` receives what it prints through `tohost`.
    pub fn exec(
        &mut self,
        config: MachineConfig,
        elf: &[u8],
        peripherals: Peripherals,
        htif: Box<dyn Write + Send>,
    ) -> Result<Machine> {
        let mut machine = Machine::exec(config, elf, peripherals, htif)?;
        self.attach(&mut machine)?;
        Ok(machine)
    }

    /// Shows phases that `recorder` marks from now on in the trace.
    pub fn follow(&self, recorder: &SharedRecorder) {
        if let Some((_, Some(trace))) = &self.trace {
            let trace = trace.share();
            let follower = move |phase: &str, time| trace.with(|trace| trace.mark(phase, time));
            recorder.lock().follow(Box::new(follower));
        }
    }

    /// Runs the machine to its end, in slices of `slice` cycles of virtual time or under gdb's
    /// control; `limits`, which is called before each slice, ends it early.
    ///
    /// `poll` is called between slices, with `true` if the machine is idle and only input can wake
    /// it. If it answers `false` the run is over: with [`Outcome::Idle`] if it was, else with
    /// `None`.
    pub fn drive(
        &mut self,
        machine: &mut Machine,
        limits: &dyn Fn() -> Limits,
        slice: u64,
        poll: &mut dyn FnMut(&mut Machine, bool) -> bool,
    ) -> Result<Option<Outcome>> {
        let sampler = self.profiled.is_some().then(|| Sampler::start(machine));
        let outcome = self.drive_on(machine, limits, slice, poll);
        if let Some(sampler) = sampler {
            self.profile = Some(sampler.finish(machine)?);
        }
        outcome
    }

    fn drive_on(
        &mut self,
        machine: &mut Machine,
        limits: &dyn Fn() -> Limits,
        slice: u64,
        poll: &mut dyn FnMut(&mut Machine, bool) -> bool,
    ) -> Result<Option<Outcome>> {
        if let Some(server) = &self.gdb {
            if server.start().is_none() {
                note!("Waiting for gdb: target remote {}", server.address());
            }
            let log = self.log.as_mut();
            let end = limits().until;
            let ended = trapless_gdb::serve(machine, server, &mut GdbHost { poll, log, end })?;
            return Ok(match ended {
                Ended::Machine(outcome) => Some(outcome),
                Ended::Killed => Some(Outcome::Stopped),
                Ended::Host => None,
            });
        }
        loop {
            let (now, limits) = (machine.now(), limits());
            // A limit that has passed has ended its slice.
            let early = if limits.until > now {
                limits.until
            } else {
                u64::MAX
            };
            let until = now.saturating_add(slice).min(early);
            let limits = Limits { until, ..limits };
            let outcome = machine.run_observed(&limits, self.log.as_mut().and_then(Log::observer));
            if outcome == Outcome::Diverged {
                return Err(Failed(machine.divergence().trim_end().into()).into());
            }
            let idle = outcome == Outcome::Idle;
            if !idle && outcome != Outcome::Limit {
                return Ok(Some(outcome));
            }
            if !poll(machine, idle) {
                return Ok(idle.then_some(outcome));
            }
        }
    }

    /// Completes the files at virtual time `now`.
    pub fn finish(&mut self, now: u64) -> Result<()> {
        if let Some(traps) = self.traps.take().and_then(|kept| kept.take()) {
            traps.finish().context("cannot write the log")?;
        }
        if let Some(log) = self.log.take() {
            log.finish()?;
        }
        if let Some(code) = self.code.take() {
            code.finish()?;
        }
        if let Some((path, Some(kept))) = &self.trace {
            if let Some(trace) = kept.take() {
                let output = trace.finish(now);
                output
                    .with_context(|| format!("cannot write {}", path.display()))?
                    .commit()?;
            }
        }
        if let (Some(profile), Some(Some(path))) = (&self.profile, &self.profiled) {
            profile.write(path)?;
        }
        self.diagrams.finish()
    }

    /// The profile as text, if one was requested.
    pub fn profile(&self) -> Option<String> {
        self.profile.as_ref().map(Profile::text)
    }

    /// Prints the profile.
    pub fn show_profile(&self) {
        if let Some(text) = self.profile() {
            note!("{}", text.trim_end());
        }
    }
}
