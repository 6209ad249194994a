//! One run of a workload on one machine, and its ledger.

use std::cell::Cell;
use std::sync::Arc;

use anyhow::{Result, bail};
use trapless_ledger::document::{LedgerFile, RunInfo};
use trapless_machine::{Limits, Machine, Machines, Outcome, VirtualTime};

use crate::checkpoint::{Checkpoint, Pending, Request};
use crate::observe::{Observation, ObserveOptions};
use crate::plan::{Consoles, Plan};
use crate::session::{SLICE, Session};
use crate::spec::{RunId, WorkloadSpec};
use crate::{interrupt, machine};
use trapless_recorder::{SharedRecorder, Transcript};

/// Where a run begins, and which checkpoints it makes.
#[derive(Default)]
pub struct Checkpoints<'a> {
    /// The checkpoint to resume.
    pub resume: Option<&'a Checkpoint>,
    /// Checkpoints to make.
    pub make: &'a [Request],
}

/// Callback between slices of a run.
pub type Poll<'a> = &'a mut dyn FnMut(&Machine, &SharedRecorder);

impl Plan {
    /// Runs the workload once; returns its ledger, and the profile as text if it was requested.
    ///
    /// # Errors
    /// If the machine cannot be made, a file cannot be written, or the workload fails.
    pub fn run(
        self: &Arc<Self>,
        run: &RunId,
        observe: &ObserveOptions,
        checkpoints: &Checkpoints<'_>,
        poll: Poll<'_>,
    ) -> Result<(LedgerFile, Option<String>)> {
        let mut observation = Observation::new(observe)?;
        let kept = checkpoints.resume.is_none()
            && checkpoints.make.is_empty()
            && observe.is_nothing()
            && self.consoles() == Consoles::Hidden;
        let place = if kept { self.place(run, None)? } else { None };
        let ready = match checkpoints.resume {
            None => self.start(run, &mut observation, place.as_ref())?,
            Some(checkpoint) => self.resumed(run, &mut observation, checkpoint)?,
        };
        let resumed = ready.resumed;
        let place = place.as_ref().filter(|_| resumed.is_none());
        let mut pending = Pending::new(checkpoints.make, place, self.about(run));
        if resumed.is_some() {
            // A checkpoint's time may lie before the end of its round, where this run resumes.
            pending.make(&ready.machine, &ready.recorder)?;
        }
        let mut session = Session::of_workload(self.clone(), run, ready, observation);
        let outcome = watch(&mut session, self, &mut pending, poll);
        session.finish(*outcome.as_ref().unwrap_or(&Outcome::Stopped))?;
        outcome?;
        pending.finish();
        let mut ledger = session.ledger()?;
        if let Some(host) = &mut ledger.host {
            host.resumed_at = resumed;
        }
        Ok((ledger, session.profile()))
    }

    /// Description in the ledger of a run that has succeeded.
    ///
    /// # Errors
    /// If the workload has not reported a result that it has to report.
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

    /// Rejects settings of machines that are not used, and machines that cannot run guests.
    ///
    /// # Errors
    /// If one of these is the case; the message says what to change.
    pub fn check(&self, machines: &[&str]) -> Result<()> {
        check(&self.spec, machines, self.machines())
    }

    /// Limit of virtual time of a run, in cycles.
    pub fn time_limit(&self) -> u64 {
        VirtualTime::cycles(self.spec.time_limit)
    }
}

/// Runs a workload to its end, and makes the checkpoints that are due.
fn watch(
    session: &mut Session,
    plan: &Plan,
    pending: &mut Pending<'_>,
    poll: Poll<'_>,
) -> Result<Outcome> {
    let limit = plan.time_limit();
    let slice = plan.spec.options.slice(SLICE);
    let recorder = session.recorder();
    let mut interrupted = false;
    // A slice ends where a checkpoint is due, so that its time does not depend on slices.
    let next = Cell::new(pending.next());
    let limits = &|| Limits {
        until: next.get(),
        ..Limits::default()
    };
    let outcome = session.drive(limits, slice, &mut |machine| {
        poll(machine, &recorder);
        interrupted = interrupt::requested();
        pending.make(machine, &recorder)?;
        next.set(pending.next());
        Ok(!interrupted && machine.now() < limit)
    })?;
    if interrupted {
        return Err(interrupt::Interrupted::WithoutResult.into());
    }
    Ok(outcome.unwrap_or(Outcome::Limit))
}

/// Counters from the lines `NAME COUNT` that the host prints with `--set tracepoints=1`.
fn tracepoints(lines: Option<&[String]>) -> impl Iterator<Item = (String, u64)> {
    lines.into_iter().flatten().filter_map(|line| {
        let (name, count) = line.split_once(' ')?;
        Some((format!("tracepoint {name}"), count.parse().ok()?))
    })
}

/// Rejects specifications that cannot work on `machines`, before time is spent on images and runs.
///
/// # Errors
/// If one of these is the case; the message says what to change.
pub fn check(spec: &WorkloadSpec, machines: &[&str], known: &Machines) -> Result<()> {
    spec.check()?;
    spec.check_settings(machines)?;
    for machine in machines {
        let harts = spec.host_harts.unwrap_or(1) as usize;
        let settings = spec.settings_of(machine);
        let config = machine::config(known, machine, harts, &spec.options, &settings)?;
        if !config.hart.extensions.h {
            bail!(
                "workloads run in a guest, for which the machine needs the hypervisor extension; \
                 leave out --isa -h"
            );
        }
    }
    Ok(())
}
