//! Options that say what to run, and what follows from them: names of result files, and the command
//! that repeats a run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use trapless_experiments::Value;
use trapless_machine::preset::Size;

use crate::kernels::KernelArgs;
use crate::machine::{self, HartArgs};
use crate::own;

/// VMM in the host unless the user says otherwise.
const DEFAULT_VMM: &str = "trapless";
/// Virtual time in seconds after which a run is given up unless the user says otherwise.
const DEFAULT_LIMIT: u64 = 600;
/// Longest name of a result file, without extension.
const MAX_NAME: usize = 200;

/// One run of a workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunId {
    /// Machine preset.
    pub machine: String,
    /// Seed of everything random in it.
    pub seed: u64,
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, seed {}", self.machine, self.seed)
    }
}

/// Options of `run` and `compare`.
#[derive(Args, Clone)]
pub struct WorkloadArgs {
    /// Workload; `trapless workloads` lists them. Or a file of your own, as in `./mine.toml`.
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
    #[arg(long, default_value_t = DEFAULT_LIMIT, value_name = "SECONDS")]
    pub time_limit: u64,
    /// Boot, even if a checkpoint is kept of where the measured part of this run begins, and keep
    /// none.
    #[arg(long)]
    pub no_checkpoint: bool,
    /// Most disk space for checkpoints that runs keep in the cache; 0 for none [default: 8G, or a
    /// quarter of what is free if that is less].
    #[arg(
        long,
        value_name = "SIZE",
        env = "TRAPLESS_CHECKPOINTS",
        hide_env_values = true
    )]
    pub checkpoint_cache: Option<Size>,
    #[command(flatten)]
    pub kernels: KernelArgs,
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
    /// it another run, so that no run replaces the results of a different one. `seeds` is the
    /// number of seeds, if it is not the usual one.
    pub fn result_name(&self, machines: &str, seeds: Option<u32>) -> PathBuf {
        let mut name = format!("{}-{machines}", own::short_name(&self.workload));
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
        words.extend(self.kernels.variant());
        words.extend(self.harts_options.variant());
        words.extend(seeds.map(|n| format!("seeds={n}")));
        for word in words {
            name.push('-');
            name.push_str(&word);
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "._=+,-".contains(c);
        let name = name.replace(|c| !plain(c), "_");
        Path::new("out").join(shortened(name))
    }

    /// The seed of the run, or of the first of several.
    pub fn seed(&self) -> u64 {
        self.harts_options.seed.unwrap_or_default()
    }

    /// The options with which `run` is made alone.
    pub fn for_run(&self, run: &RunId) -> Self {
        let mut alone = self.clone();
        let of_run =
            |(name, _): &(String, Value)| machine_of(name).is_none_or(|of| of == run.machine);
        alone.parameters.retain(of_run);
        alone.harts_options.seed = Some(run.seed);
        alone
    }

    /// The options as words of a command line, without those that only show something.
    pub fn words(&self) -> Vec<String> {
        let Self {
            workload,
            parameters,
            guest_harts,
            host_harts,
            vmm,
            console: _,
            time_limit,
            no_checkpoint: _,
            checkpoint_cache: _,
            kernels,
            harts_options,
        } = self;
        let mut options = vec![("--workload", workload.clone())];
        let set = |(name, value): &(String, Value)| ("--set", format!("{name}={value}"));
        options.extend(parameters.iter().map(set));
        options.extend(guest_harts.map(|n| ("--guest-harts", n.to_string())));
        options.extend(host_harts.map(|n| ("--host-harts", n.to_string())));
        if vmm != DEFAULT_VMM {
            options.push(("--vmm", vmm.clone()));
        }
        if *time_limit != DEFAULT_LIMIT {
            options.push(("--time-limit", time_limit.to_string()));
        }
        let words = options
            .into_iter()
            .flat_map(|(name, value)| [name.into(), value]);
        let words = words.chain(kernels.words());
        words.chain(harts_options.words()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        workload: WorkloadArgs,
    }

    fn parsed(options: &str) -> WorkloadArgs {
        let words = ["x", "--workload", "ipi"].into_iter();
        Options::parse_from(words.chain(options.split_whitespace())).workload
    }

    fn name(options: &str) -> String {
        parsed(options)
            .result_name("sstc", None)
            .display()
            .to_string()
    }

    /// Promise: the command that is told for a run that failed repeats this run, whatever options
    /// there were.
    #[test]
    fn words_of_a_run_are_its_options() {
        for options in [
            "",
            "--set rounds=5 --set wfi=native --guest-harts 4 --host-harts 2 --vmm qemu --time-limit 9",
            "--ram 3G --isa -svadu,+zicond --cost a/slow.toml --trap-misaligned --quantum 500",
            "--host-kernel a/Image --host-modules b --guest-kernel c.gz --guest-modules d",
            "--engine interp --hot 7 --code-cache 1M --seed 18446744073709551615",
        ] {
            let args = parsed(options);
            let words = args.words();
            let again = Options::parse_from(std::iter::once("x".into()).chain(words.clone()));
            assert_eq!(again.workload.words(), words);
            let usual = format!("--workload ipi {options}");
            let sorted = |text: &str| {
                let mut words: Vec<String> = text.split_whitespace().map(Into::into).collect();
                words.sort();
                words
            };
            let sizes = [("3G", "3221225472"), ("1M", "1048576")];
            let usual = sizes.iter().fold(usual, |text, (a, b)| text.replace(a, b));
            assert_eq!(sorted(&words.join(" ")), sorted(&usual));
        }
    }

    #[test]
    fn settings_of_other_machines_are_left_out_of_a_single_run() {
        let run = RunId {
            machine: "sstc".into(),
            seed: 3,
        };
        let alone = parsed("--set aia.guests=3 --set rounds=5").for_run(&run);
        assert_eq!(
            alone.words().join(" "),
            "--workload ipi --set rounds=5 --seed 3"
        );
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
        assert_eq!(
            name("--host-kernel 7.2/Image --guest-kernel b"),
            "out/ipi-sstc-host-kernel=7.2_Image-guest-kernel=b"
        );
        assert_eq!(name("--cost a/../slow.toml"), "out/ipi-sstc-cost=slow");
        let mut mine = parsed("");
        mine.workload = "a/mine.toml".into();
        assert_eq!(mine.result_name("sstc", None), Path::new("out/mine-sstc"));
        let long = |last: &str| name(&format!("--set a={} --set b={last}", "x".repeat(250)));
        assert!(long("y").len() < 220 && long("y") != long("z"));
    }
}
