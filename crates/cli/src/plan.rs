//! A workload made ready: its images, its machine, and whether it did what it should.

use std::collections::BTreeMap;
use std::io::{LineWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use trapless_experiments::{Experiment, Value};
use trapless_images::Images;
use trapless_ledger::Ledger;
use trapless_ledger::document::{Measurement, RunInfo, Work};
use trapless_machine::{Content, Machine, MachineConfig, Outcome, Payload, Peripherals};

use crate::console::{ConsoleTap, Recorder, SharedRecorder, Transcript};
use crate::failure::Failed;
use crate::machine::{self, HartArgs};
use crate::observe::Observation;
use crate::project::Project;
use crate::{files, interrupt};

/// What the console says of a failure: the kernel's own reason, or else the last line.
fn last_words(transcript: &Transcript) -> String {
    match &transcript.panic {
        Some(panic) => format!("a kernel panicked: {panic}"),
        None => format!("last line: {}", transcript.last_line),
    }
}

/// VMM in the host unless the user says otherwise.
const DEFAULT_VMM: &str = "trapless";
/// Longest name of a result file, without extension.
const MAX_NAME: usize = 200;

macro_rules! fail {
    ($($text:tt)*) => {
        return Err(Failed(format!($($text)*)).into())
    };
}

/// Options of `run` and `compare`.
#[derive(Args, Clone)]
pub struct WorkloadArgs {
    /// Workload; `trapless workloads` lists them.
    #[arg(long, short, value_name = "NAME")]
    pub workload: String,
    /// Set a parameter of the workload, or of the machine `aia` (`aia.guests=3`). Repeat for more.
    #[arg(long = "set", short = 's', value_name = "NAME=VALUE", value_parser = machine::setting)]
    pub parameters: Vec<(String, Value)>,
    /// Number of vCPUs [default: what the workload says].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    pub guest_harts: Option<u32>,
    /// Number of harts of the machine [default: what the workload says].
    #[arg(long, value_name = "N")]
    pub host_harts: Option<u32>,
    /// VMM in the host.
    #[arg(long, default_value = DEFAULT_VMM, value_parser = [DEFAULT_VMM, "qemu"])]
    pub vmm: String,
    /// Show the host's console.
    #[arg(long)]
    pub console: bool,
    /// Give up after this much virtual time.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    pub time_limit: u64,
    #[command(flatten)]
    pub harts_options: HartArgs,
}

impl WorkloadArgs {
    /// Parameters of the workload.
    pub fn workload_parameters(&self) -> BTreeMap<String, Value> {
        let of_workload = |(name, _): &&(String, Value)| !name.contains('.');
        self.parameters
            .iter()
            .filter(of_workload)
            .cloned()
            .collect()
    }

    /// Settings of a machine: names with a dot. Those of others are for them, if there are several.
    pub fn settings_of(&self, machine: &str) -> Vec<(String, Value)> {
        let of_machine =
            |(name, _): &&(String, Value)| machine_of(name).is_some_and(|of| of == machine);
        self.parameters.iter().filter(of_machine).cloned().collect()
    }

    /// Name of result files without extension: `out/WORKLOAD-MACHINES`, and every option that makes
    /// it another run, so that no run replaces the results of a different one.
    pub fn result_name(&self, machines: &str) -> PathBuf {
        let mut name = format!("{}-{machines}", self.workload);
        let mut words: Vec<String> = self
            .parameters
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        words.sort();
        words.extend(self.guest_harts.map(|n| format!("guest-harts={n}")));
        words.extend(self.host_harts.map(|n| format!("host-harts={n}")));
        if self.vmm != DEFAULT_VMM {
            words.push(format!("vmm={}", self.vmm));
        }
        words.extend(self.harts_options.variant());
        for word in words {
            name.push('-');
            name.push_str(&word);
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "._=+,-".contains(c);
        let name = name.replace(|c| !plain(c), "_");
        Path::new("out").join(shortened(name))
    }

    /// Refuses settings of machines that do not run.
    pub fn check_settings(&self, machines: &[&str]) -> anyhow::Result<()> {
        for (name, _) in &self.parameters {
            if let Some(machine) = machine_of(name).filter(|of| !machines.contains(of)) {
                anyhow::bail!(
                    "{name} belongs to the machine {machine}, which does not run; leave it out"
                );
            }
        }
        Ok(())
    }
}

/// A file name that is not too long for any file system. What is cut off still counts.
fn shortened(name: String) -> String {
    if name.len() <= MAX_NAME {
        return name;
    }
    // FNV-1a
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{}-{hash:016x}", &name[..MAX_NAME - 17])
}

/// The machine that a setting belongs to; `None` for a parameter of a workload.
fn machine_of(name: &str) -> Option<&str> {
    name.split_once('.').map(|(machine, _)| machine)
}

/// Everything a workload needs, the same for all machines that are compared.
pub struct Plan<'a> {
    /// Its options.
    pub args: &'a WorkloadArgs,
    /// The workload.
    pub experiment: Experiment,
    kernel: Content,
    initrd: Content,
    firmware: Vec<u8>,
    append: String,
    harts: u32,
    packages: BTreeMap<String, String>,
}

/// A machine that is about to boot a workload.
pub struct Ready {
    /// The machine.
    pub machine: Machine,
    /// Its ledger and console.
    pub recorder: SharedRecorder,
    /// What the machine is.
    pub config: MachineConfig,
}

impl<'a> Plan<'a> {
    /// Prepares the images.
    pub fn new(args: &'a WorkloadArgs, project: &Project) -> Result<Self> {
        let experiment = Experiment::find(&project.experiments()?, &args.workload)?;
        let parameters = args.workload_parameters();
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
        let mut images = project.images()?;
        let mut packages = BTreeMap::new();
        let mut take = |images: &mut Images, name: &str| -> Result<PathBuf> {
            let image = images.prepare(name)?;
            for p in image.packages {
                packages.insert(format!("{} ({})", p.name, p.arch), p.version);
            }
            Ok(image.path)
        };
        let kernel = files::content(&take(&mut images, "kernel")?, "kernel")?;
        let firmware = files::read(&take(&mut images, "opensbi")?, "opensbi")?;
        let initrd = files::content(&take(&mut images, host)?, host)?;
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

    /// Adds words to the host's kernel command line.
    pub fn append(&mut self, words: &str) {
        self.append.push(' ');
        self.append.push_str(words);
    }

    /// Builds the machine called `name`, about to boot.
    pub fn machine(&self, name: &str, observation: &mut Observation) -> Result<Ready> {
        let config = machine::config(
            name,
            self.harts as usize,
            &self.args.harts_options,
            &self.args.settings_of(name),
        )?;
        let ledger = Ledger::new(machine::ledger_config(&config));
        let recorder = SharedRecorder::new(Recorder::new(ledger, self.experiment.measured()));
        let copy = self
            .args
            .console
            .then(|| Box::new(LineWriter::new(std::io::stderr())) as Box<dyn Write + Send>);
        let tap = ConsoleTap::new(recorder.clone(), copy);
        let payload = Payload {
            firmware: Some(self.firmware.clone()),
            kernel: Some(self.kernel.clone()),
            initrd: Some(self.initrd.clone()),
            append: self.append.clone(),
            dtb: None,
        };
        let peripherals = Peripherals::new(Box::new(tap));
        let mut machine = observation.boot(config.clone(), &payload, peripherals)?;
        machine.add_sink(Box::new(recorder.clone()));
        machine::accompany(
            &mut machine,
            &self.args.harts_options,
            &config,
            move |config| {
                let nowhere = Peripherals::new(Box::new(std::io::sink()));
                Machine::boot(config, &payload, nowhere)
            },
        )?;
        Ok(Ready {
            machine,
            recorder,
            config,
        })
    }

    /// Whether the workload did what it should.
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
            Outcome::Stopped => return Err(interrupt::Interrupted.into()),
            Outcome::Limit if transcript.panic.is_some() => fail!("{title} failed: {last}"),
            Outcome::Limit => fail!(
                "{title} did not end within {} s of virtual time ({last}); \
                 use --time-limit for more, or --console to watch",
                self.args.time_limit
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
            let tail = output.map_or_else(String::new, |(_, lines)| lines.join("\n"));
            fail!(
                "{title} failed: {side} ended with status {status} ({last}); its last output:\n{tail}"
            );
        }
        if host.is_none() {
            fail!("{title} ended without saying so ({last}); use --console to watch");
        }
        Ok(())
    }

    /// What the ledger says of the workload.
    pub fn describe(&self, info: &mut RunInfo, transcript: &Transcript) -> Result<()> {
        info.workload = self.experiment.name.clone();
        info.packages = self.packages.clone();
        let guest_harts = self.args.guest_harts.unwrap_or(self.experiment.guest.harts);
        let parameters = self.args.workload_parameters();
        let set = &mut info.configuration;
        set.insert("VMM".into(), self.args.vmm.clone());
        set.insert("guest vCPUs".into(), guest_harts.to_string());
        set.insert(
            "guest RAM".into(),
            self.experiment.guest_memory(guest_harts),
        );
        set.insert("kernel command line".into(), self.append.clone());
        for (name, value) in self.experiment.values(&parameters)? {
            set.insert(format!("parameter {name}"), value.to_string());
        }
        for (key, about) in &self.experiment.results {
            let name = &self.experiment.name;
            let Some(value) = transcript.results.get(key) else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        workload: WorkloadArgs,
    }

    fn name(options: &str) -> String {
        let words = ["x", "--workload", "ipi"].into_iter();
        let options = Options::parse_from(words.chain(options.split_whitespace()));
        options.workload.result_name("sstc").display().to_string()
    }

    /// Promise: a run never replaces the ledger of a run with other options.
    #[test]
    fn options_that_change_a_run_are_in_the_name_of_its_ledger() {
        assert_eq!(name(""), "out/ipi-sstc");
        assert_eq!(name("--console --engine interp --time-limit 9"), name(""));
        assert_eq!(name("--seed 3"), "out/ipi-sstc-seed=3");
        assert_eq!(
            name("--set rounds=5 --set aia.guests=3 --guest-harts 4 --vmm qemu"),
            "out/ipi-sstc-aia.guests=3-rounds=5-guest-harts=4-vmm=qemu"
        );
        assert_eq!(
            name("--isa -svadu,+zicond"),
            "out/ipi-sstc-isa=-svadu,+zicond"
        );
        assert_eq!(name("--cost a/../slow.toml"), "out/ipi-sstc-cost=slow");
        let long = |last: &str| name(&format!("--set a={} --set b={last}", "x".repeat(250)));
        assert!(long("y").len() < 220 && long("y") != long("z"));
    }
}
