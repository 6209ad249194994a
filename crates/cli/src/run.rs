//! `trapless run` and `trapless compare`: a workload in a guest, and the ledger of its traps.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use trapless_images::{Experiment, Images};
use trapless_ledger::file::{HostInfo, LedgerFile, Measurement, Work};
use trapless_ledger::{Config, Ledger};
use trapless_machine::{Limits, Machine, MachineConfig, Outcome, Payload, Peripherals};

use crate::args::{CompareArgs, ObserveArgs, RunArgs, WorkloadArgs};
use crate::console::{ConsoleTap, Recorder, SharedRecorder, Transcript};
use crate::{interrupt, observe, setup};

/// A workload that did not do what it should.
#[derive(Debug)]
pub struct Failed(String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

macro_rules! fail {
    ($($text:tt)*) => {
        return Err(Failed(format!($($text)*)).into())
    };
}

/// Virtual time between two looks at progress and Ctrl-C, in cycles.
const SLICE: u64 = 5_000_000;

/// Everything a workload needs, the same for all machines that are compared.
struct Plan<'a> {
    args: &'a WorkloadArgs,
    experiment: Experiment,
    kernel: Vec<u8>,
    initrd: Vec<u8>,
    firmware: Vec<u8>,
    append: String,
    harts: u32,
    packages: BTreeMap<String, String>,
}

impl<'a> Plan<'a> {
    fn new(args: &'a WorkloadArgs) -> Result<Self> {
        let project = setup::project()?;
        let experiment = Experiment::find(&project.join("experiments"), &args.workload)?;
        let parameters: BTreeMap<_, _> = args.parameters.iter().cloned().collect();
        let mut append = experiment.host_command_line(&parameters, args.guest_harts)?;
        let host = if args.vmm == "qemu" {
            "qemu-host"
        } else {
            "host"
        };
        append = format!(
            "console=ttyS0 quiet cryptomgr.notests {append} trapless.vmm={}",
            args.vmm
        );
        let harts = args
            .host_harts
            .unwrap_or_else(|| experiment.host_harts().max(args.guest_harts.unwrap_or(0)));
        let mut images = setup::images()?;
        let mut packages = BTreeMap::new();
        let mut take = |images: &mut Images, name: &str| -> Result<Vec<u8>> {
            let image = images.prepare(name)?;
            for p in image.packages {
                packages.insert(format!("{} ({})", p.name, p.arch), p.version);
            }
            setup::read(&image.path, name)
        };
        let kernel = take(&mut images, "kernel")?;
        let firmware = take(&mut images, "opensbi")?;
        let initrd = take(&mut images, host)?;
        Ok(Self {
            args,
            experiment,
            kernel,
            initrd,
            firmware,
            append,
            harts,
            packages,
        })
    }

    /// Runs the workload on one machine.
    fn run(
        &self,
        machine: &str,
        trace: Option<&Path>,
        observe: &ObserveArgs,
    ) -> Result<LedgerFile> {
        let config = setup::config(machine, self.harts as usize, &self.args.harts_options)?;
        let ledger = Ledger::new(Config {
            cycles_per_tick: config.hart.cycles_per_tick,
            ..Config::new(config.harts)
        });
        let recorder = SharedRecorder::new(Recorder::new(ledger, self.experiment.measured()));
        let copy = self
            .args
            .console
            .then(|| Box::new(std::io::stderr()) as Box<dyn Write + Send>);
        let tap = ConsoleTap::new(recorder.clone(), copy);
        let payload = Payload {
            firmware: Some(self.firmware.clone()),
            kernel: Some(self.kernel.clone()),
            initrd: Some(self.initrd.clone()),
            append: self.append.clone(),
            dtb: None,
        };
        let mut observation = observe::Observation::new(observe, trace)?;
        let peripherals = Peripherals::new(Box::new(tap));
        let mut machine = observation.boot(config.clone(), &payload, peripherals)?;
        machine.add_sink(Box::new(recorder.clone()));

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
        let host = HostInfo {
            wall_seconds: seconds,
            instructions_per_second: Some(machine.instret() as f64 / seconds),
            started: Some(timestamp(started)),
            processor: processor(),
        };
        Ok(recorder.ledger.to_file(info, Some(host)))
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

    /// Whether the workload did what it should.
    fn judge(
        &self,
        outcome: Outcome,
        config: &MachineConfig,
        transcript: &Transcript,
    ) -> Result<()> {
        let title = format!("workload {} on {}", self.experiment.name, config.machine);
        let last = &transcript.last_line;
        match outcome {
            Outcome::PoweredOff => {}
            Outcome::Stopped => return Err(interrupt::Interrupted.into()),
            Outcome::Limit => fail!(
                "{title} did not end within {} s of virtual time (last line: {last}); \
                 use --time-limit for more, or --console to watch",
                self.args.time_limit
            ),
            other => fail!(
                "{title} ended unexpectedly ({other:?}; last line: {last}); use --console to watch"
            ),
        }
        let host = transcript
            .status
            .get(&format!("host {}", self.experiment.name));
        if let Some((side, status)) = transcript.status.iter().find(|(_, s)| **s != 0) {
            let output = transcript
                .dumps
                .iter()
                .find(|(k, _)| k.ends_with(".output"));
            let tail = output.map_or_else(|| last.clone(), |(_, lines)| lines.join("\n"));
            fail!("{title} failed: {side} ended with status {status}; its last output:\n{tail}");
        }
        if host.is_none() {
            fail!("{title} ended without saying so (last line: {last}); use --console to watch");
        }
        Ok(())
    }

    fn describe(
        &self,
        info: &mut trapless_ledger::file::RunInfo,
        transcript: &Transcript,
    ) -> Result<()> {
        info.workload = self.experiment.name.clone();
        info.packages = self.packages.clone();
        let guest_harts = self.args.guest_harts.unwrap_or(self.experiment.guest.harts);
        let parameters: BTreeMap<_, _> = self.args.parameters.iter().cloned().collect();
        let set = &mut info.configuration;
        set.insert("VMM".into(), self.args.vmm.clone());
        set.insert("guest vCPUs".into(), guest_harts.to_string());
        set.insert("guest RAM".into(), self.experiment.guest.memory.clone());
        set.insert("kernel command line".into(), self.append.clone());
        for (name, value) in self.experiment.values(&parameters)? {
            set.insert(format!("parameter {name}"), value.to_string());
        }
        for (key, about) in &self.experiment.results {
            let value = transcript.results.get(key).with_context(|| {
                format!("workload {} did not report {key}", self.experiment.name)
            })?;
            info.measurements.push(Measurement {
                name: key.clone(),
                value: value.parse().with_context(|| {
                    format!("workload {} reported {key}={value}", self.experiment.name)
                })?,
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

/// Refuses what cannot work before it costs the time of images and runs.
fn check(args: &WorkloadArgs, machine: &str) -> Result<()> {
    let harts = args.host_harts.unwrap_or(1) as usize;
    let config = setup::config(machine, harts, &args.harts_options)?;
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
    check(&args.workload, &args.machine)?;
    setup::check_output(&path)?;
    observe::check(&args.observe)?;
    let plan = Plan::new(&args.workload)?;
    let ledger = plan.run(&args.machine, args.trace.as_deref(), &args.observe)?;
    setup::write(&path, ledger.to_json())?;
    if args.json {
        print!("{}", ledger.to_json());
    } else {
        print!("{}", trapless_report::report(&[ledger], observe::style()));
    }
    eprintln!("Ledger: {}", path.display());
    Ok(ExitCode::SUCCESS)
}

/// `trapless compare`.
pub fn compare(args: &CompareArgs) -> Result<ExitCode> {
    interrupt::catch()?;
    for machine in &args.machines {
        check(&args.workload, machine)?;
    }
    let plan = Plan::new(&args.workload)?;
    let ledgers = args
        .machines
        .iter()
        .map(|machine| plan.run(machine, None, &ObserveArgs::default()))
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
