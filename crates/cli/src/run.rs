//! `trapless run` and `trapless compare`: a workload in a guest, and the ledger of its traps.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use trapless_ledger::document::{HostInfo, LedgerFile};
use trapless_machine::{Limits, Machine, Outcome};

use crate::args::{CompareArgs, ObserveArgs, RunArgs, WorkloadArgs};
use crate::console::SharedRecorder;
use crate::plan::{Plan, Ready};
use crate::{interrupt, observe, setup};

/// Virtual time between two looks at progress and Ctrl-C, in cycles.
const SLICE: u64 = 5_000_000;

impl Plan<'_> {
    /// Runs the workload on one machine: its ledger, and the profile as text if it is wanted.
    fn run(
        &self,
        machine: &str,
        trace: Option<&Path>,
        observe: &ObserveArgs,
    ) -> Result<(LedgerFile, Option<String>)> {
        let mut observation = observe::Observation::new(observe, trace)?;
        let Ready {
            mut machine,
            recorder,
            config,
        } = self.machine(machine, &mut observation)?;

        let started = SystemTime::now();
        let clock = Instant::now();
        let title = format!("{} on {}", self.experiment.name, config.machine);
        let outcome = self.watch(&title, &mut machine, &recorder, &mut observation);
        let seconds = clock.elapsed().as_secs_f64();
        let mut recorder = recorder.lock();
        let now = machine.now();
        recorder.ledger.finish(now);
        observation.finish(now)?;
        let outcome = outcome?;
        self.judge(outcome, &config, &recorder.transcript)?;

        let mut info = setup::run_info(&config);
        self.describe(&mut info, &recorder.transcript)?;
        info.counters
            .insert("instructions".into(), machine.instret());
        info.counters.insert("hfence".into(), machine.hfences());
        let host = HostInfo {
            wall_seconds: seconds,
            instructions_per_second: Some(machine.instret() as f64 / seconds),
            started: Some(timestamp(started)),
            processor: processor(),
        };
        let ledger = recorder.ledger.to_file(info, Some(host));
        Ok((ledger, observation.profile()))
    }

    /// Runs the machine in slices, showing progress.
    fn watch(
        &self,
        title: &str,
        machine: &mut Machine,
        recorder: &SharedRecorder,
        observation: &mut observe::Observation,
    ) -> Result<Outcome> {
        let limit = self.args.time_limit.saturating_mul(1_000_000_000);
        let bar = if self.args.console || !std::io::stderr().is_terminal() {
            eprintln!("Running {title}");
            ProgressBar::hidden()
        } else {
            ProgressBar::new_spinner()
        };
        bar.set_style(
            ProgressStyle::with_template("{spinner} {prefix} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        bar.enable_steady_tick(Duration::from_millis(120));
        let clock = Instant::now();
        let mut interrupted = false;
        let outcome =
            observation.drive(machine, Limits::default(), SLICE, &mut |machine, idle| {
                let rate = machine.instret() as f64 / clock.elapsed().as_secs_f64() / 1e6;
                bar.set_prefix(format!(
                    "{title}: {:.2} s of virtual time, {rate:.0} M instructions/s",
                    machine.now() as f64 / 1e9
                ));
                bar.set_message(recorder.lock().transcript.last_line.clone());
                interrupted = interrupt::requested();
                !idle && !interrupted && machine.now() < limit
            })?;
        bar.finish_and_clear();
        if interrupted {
            return Err(interrupt::Interrupted.into());
        }
        Ok(outcome.unwrap_or(Outcome::Limit))
    }
}

/// Refuses what cannot work before it costs the time of images and runs.
fn check(args: &WorkloadArgs, machine: &str) -> Result<()> {
    let harts = args.host_harts.unwrap_or(1) as usize;
    let config = setup::config(
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

/// `trapless run`.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    interrupt::catch()?;
    let path = args.ledger.clone().unwrap_or_else(|| {
        PathBuf::from(format!(
            "out/{}-{}.json",
            args.workload.workload, args.machine
        ))
    });
    args.workload.check_settings(&[&args.machine])?;
    check(&args.workload, &args.machine)?;
    setup::both(&args.workload.harts_options, &args.observe)?;
    setup::check_output(&path)?;
    observe::check(&args.observe)?;
    let plan = Plan::new(&args.workload)?;
    let (ledger, profile) = plan.run(&args.machine, args.trace.as_deref(), &args.observe)?;
    setup::write(&path, ledger.to_json())?;
    if args.json {
        print!("{}", ledger.to_json());
    } else {
        print!("{}", trapless_report::report(&[ledger], observe::style()));
    }
    if let Some(profile) = profile {
        eprint!("{profile}");
    }
    eprintln!("Ledger: {}", path.display());
    Ok(ExitCode::SUCCESS)
}

/// `trapless compare`.
pub fn compare(args: &CompareArgs) -> Result<ExitCode> {
    interrupt::catch()?;
    let machines: Vec<&str> = args.machines.iter().map(String::as_str).collect();
    args.workload.check_settings(&machines)?;
    for machine in &args.machines {
        check(&args.workload, machine)?;
    }
    let plan = Plan::new(&args.workload)?;
    let ledgers = args
        .machines
        .iter()
        .map(|machine| Ok(plan.run(machine, None, &ObserveArgs::default())?.0))
        .collect::<Result<Vec<_>>>()?;
    let base = args.out.clone().unwrap_or_else(|| {
        PathBuf::from(format!(
            "out/{}-{}",
            args.workload.workload,
            args.machines.join("-")
        ))
    });
    let name = |extension: &str| PathBuf::from(format!("{}.{extension}", base.display()));
    let (json, html) = (name("json"), name("html"));
    let mut text = serde_json::to_string_pretty(&ledgers)?;
    text.push('\n');
    setup::write(&json, &text)?;
    setup::write(&html, trapless_report::html::page(&ledgers))?;
    if args.json {
        print!("{text}");
    } else {
        print!("{}", trapless_report::report(&ledgers, observe::style()));
    }
    eprintln!("\nLedgers: {}\nReport:  {}", json.display(), html.display());
    Ok(ExitCode::SUCCESS)
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
