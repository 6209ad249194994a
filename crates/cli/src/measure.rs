//! One run of a workload on one machine, and the ledger that comes out of it.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail};
use trapless_ledger::document::{HostInfo, LedgerFile, RunInfo};
use trapless_machine::{Limits, Machine, Machines, Outcome};

use crate::checkpoint::{Checkpoint, Pending, Request};
use crate::console::{SharedRecorder, Transcript};
use crate::observe::{Observation, ObserveArgs};
use crate::plan::{Plan, Ready};
use crate::workload::{RunId, WorkloadArgs};
use crate::{interrupt, machine};

/// Virtual time between two looks at progress and Ctrl-C, in cycles.
const SLICE: u64 = 5_000_000;

/// Where a run begins, and which checkpoints it makes.
#[derive(Default)]
pub struct Checkpoints<'a> {
    /// Goes on from there.
    pub resume: Option<&'a Checkpoint>,
    /// Makes these.
    pub make: &'a [Request],
}

/// Is called between slices of a run.
pub type Poll<'a> = &'a mut dyn FnMut(&Machine, &SharedRecorder);

impl Plan {
    /// Runs the workload once: its ledger, and the profile as text if it is wanted.
    pub fn run(
        &self,
        run: &RunId,
        trace: Option<&Path>,
        observe: &ObserveArgs,
        checkpoints: &Checkpoints<'_>,
        poll: Poll<'_>,
    ) -> Result<(LedgerFile, Option<String>)> {
        let mut observation = Observation::new(observe, trace)?;
        let kept = checkpoints.resume.is_none()
            && checkpoints.make.is_empty()
            && trace.is_none()
            && observe.is_nothing()
            && !self.args.console;
        let place = if kept { self.place(run, None)? } else { None };
        let ready = match checkpoints.resume {
            None => self.start(run, &mut observation, place.as_ref())?,
            Some(checkpoint) => self.resumed(run, &mut observation, checkpoint)?,
        };
        let Ready {
            mut machine,
            recorder,
            config,
            resumed,
        } = ready;
        let place = place.as_ref().filter(|_| resumed.is_none());
        let mut pending = Pending::new(checkpoints.make, place, self.about(run));
        if resumed.is_some() {
            // The end of the round in which their time was may be where this run goes on.
            pending.make(&machine, &recorder)?;
        }
        let before = machine.instret();

        let started = SystemTime::now();
        let clock = Instant::now();
        let outcome = self.watch(
            &mut machine,
            &recorder,
            &mut observation,
            &mut pending,
            poll,
        );
        let seconds = clock.elapsed().as_secs_f64();
        let mut recorder = recorder.lock();
        let now = machine.now();
        recorder.ledger.finish(now);
        observation.finish(now)?;
        let outcome = outcome?;
        pending.finish();
        self.judge(outcome, &config, &recorder.transcript)?;
        let info = self.info(run, &machine, &recorder.transcript)?;
        let host = HostInfo {
            resumed_at: resumed,
            ..host_info(started, seconds, machine.instret() - before)
        };
        let ledger = recorder.ledger.to_file(info, Some(host));
        Ok((ledger, observation.profile()))
    }

    /// What the ledger of a run that has ended well says of it.
    pub fn info(&self, run: &RunId, machine: &Machine, transcript: &Transcript) -> Result<RunInfo> {
        let mut info = machine::run_info(machine.config());
        self.describe(run, &mut info, transcript)?;
        info.counters
            .insert("instructions".into(), machine.instret());
        info.counters.insert("hfence".into(), machine.hfences());
        info.counters
            .extend(tracepoints(transcript.dumped("host.tracepoints")));
        Ok(info)
    }

    /// Runs the machine in slices.
    fn watch(
        &self,
        machine: &mut Machine,
        recorder: &SharedRecorder,
        observation: &mut Observation,
        pending: &mut Pending<'_>,
        poll: Poll<'_>,
    ) -> Result<Outcome> {
        let limit = self.args.time_limit.saturating_mul(1_000_000_000);
        let slice = self.args.harts_options.slice(SLICE);
        let mut interrupted = false;
        let mut failed = None;
        // A slice that ends where a checkpoint is due makes it there, whatever slices there are.
        let next = Cell::new(pending.next());
        let limits = &|| Limits {
            until: next.get(),
            ..Limits::default()
        };
        let outcome = observation.drive(machine, limits, slice, &mut |machine, idle| {
            poll(machine, recorder);
            interrupted = interrupt::requested();
            let made = pending.make(machine, recorder);
            failed = made.err();
            next.set(pending.next());
            let dead = recorder.lock().dead(machine.now());
            !idle && !interrupted && failed.is_none() && !dead && machine.now() < limit
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if interrupted {
            return Err(interrupt::Interrupted::WithoutResult.into());
        }
        Ok(outcome.unwrap_or(Outcome::Limit))
    }
}

/// What a ledger says of the computer on which `instructions` took `seconds`.
pub fn host_info(started: SystemTime, seconds: f64, instructions: u64) -> HostInfo {
    HostInfo {
        wall_seconds: seconds,
        instructions_per_second: (seconds > 0.0).then(|| instructions as f64 / seconds),
        resumed_at: None,
        started: Some(timestamp(started)),
        processor: processor(),
    }
}

/// Counters out of the lines `NAME COUNT` that the host prints with `--set tracepoints=1`.
fn tracepoints(lines: Option<&[String]>) -> impl Iterator<Item = (String, u64)> {
    lines.into_iter().flatten().filter_map(|line| {
        let (name, count) = line.split_once(' ')?;
        Some((format!("tracepoint {name}"), count.parse().ok()?))
    })
}

/// Refuses what cannot work before it costs the time of images and runs.
pub fn check(args: &WorkloadArgs, machine: &str, machines: &Machines) -> Result<()> {
    let harts = args.host_harts.unwrap_or(1) as usize;
    let config = machine::config(
        machines,
        machine,
        harts,
        &args.harts_options,
        &args.settings_of(machine),
    )?;
    if !config.hart.extensions.h {
        bail!(
            "workloads run in a guest, for which the machine needs the hypervisor extension; leave out --isa -h"
        );
    }
    Ok(())
}

/// UTC in the form of RFC 3339, to the second.
fn timestamp(time: SystemTime) -> String {
    let seconds = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        .to_string()
}

/// Name of the computer's processor, where Linux tells it.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().into())
}
