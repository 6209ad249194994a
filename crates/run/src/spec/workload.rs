//! A workload with its options, and names of result files derived from them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use trapless_experiments::Value;
use trapless_images::sha256_parts;

use super::{MachineOptions, OwnKernels, text};
use crate::own;

/// Maximum length of the name of a result file, without extension.
const MAX_NAME: usize = 200;
/// Maximum number of vCPUs.
const MOST_VCPUS: u32 = 512;

/// One of the runs of a workload.
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

/// A workload on one machine.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSpec {
    /// Machine preset.
    pub machine: String,
    /// The workload.
    #[serde(flatten)]
    pub workload: WorkloadSpec,
}

/// A workload with its options, for any machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkloadSpec {
    /// Name of the workload, or a file of the user's.
    pub workload: String,
    /// Parameters of the workload, and settings of machines, as in `aia.guests`.
    #[serde(deserialize_with = "text::settings")]
    pub settings: BTreeMap<String, Value>,
    /// Number of vCPUs; by default what the workload says.
    pub guest_harts: Option<u32>,
    /// Number of harts of the machine; by default what the workload says.
    #[serde(alias = "harts")]
    pub host_harts: Option<u32>,
    /// VMM in the host.
    pub vmm: Vmm,
    /// Limit of virtual time in seconds.
    pub time_limit: u64,
    /// Kernels of the user's own.
    #[serde(flatten)]
    pub kernels: OwnKernels,
    /// Options of every machine.
    #[serde(flatten)]
    pub options: MachineOptions,
}

/// A VMM in the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vmm {
    /// This project's.
    #[default]
    Trapless,
    /// QEMU.
    Qemu,
}

impl fmt::Display for Vmm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trapless => "trapless",
            Self::Qemu => "qemu",
        })
    }
}

impl RunSpec {
    /// Machine and seed of the run.
    pub fn id(&self) -> RunId {
        RunId {
            machine: self.machine.clone(),
            seed: self.workload.seed(),
        }
    }
}

impl WorkloadSpec {
    /// Default limit of virtual time in seconds.
    pub const TIME_LIMIT: u64 = 600;

    /// This workload with the defaults of all options.
    pub fn new(workload: &str) -> Self {
        Self {
            workload: workload.into(),
            ..Self::default()
        }
    }

    /// Rejects values that no run can have.
    ///
    /// # Errors
    /// If there is one; the message names the field.
    pub fn check(&self) -> Result<()> {
        let vcpus = self.guest_harts.unwrap_or(1);
        if !(1..=MOST_VCPUS).contains(&vcpus) {
            bail!("guest_harts is {vcpus}; give 1 to {MOST_VCPUS}");
        }
        let kernels = &self.kernels;
        for side in kernels.sides() {
            let whose = side.whose.name();
            if side.modules.is_some() && side.kernel.is_none() {
                bail!("{whose}_modules are of a kernel of your own; give {whose}_kernel, too");
            }
        }
        Ok(())
    }

    /// Parameters of the workload.
    pub fn workload_parameters(&self) -> BTreeMap<String, Value> {
        self.chosen(|name| machine_of(name).is_none())
    }

    /// Settings of one machine: names with a dot. Settings of other machines are left out.
    pub fn settings_of(&self, machine: &str) -> BTreeMap<String, Value> {
        self.chosen(|name| machine_of(name) == Some(machine))
    }

    fn chosen(&self, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, Value> {
        let chosen = self.settings.iter().filter(|(name, _)| wanted(name));
        chosen.map(|(n, v)| (n.clone(), v.clone())).collect()
    }

    /// Name of result files without extension: `out/WORKLOAD-MACHINES`, and every option that makes
    /// it another run, so that no run replaces the results of a different one. `seeds` is the
    /// number of seeds, if it is not the usual one.
    pub fn result_name(&self, machines: &str, seeds: Option<u32>) -> PathBuf {
        let mut name = format!("{}-{machines}", own::short_name(&self.workload));
        let settings = self.settings.iter();
        let mut words: Vec<String> = settings.map(|(n, v)| format!("{n}={v}")).collect();
        words.sort();
        words.extend(self.guest_harts.map(|n| format!("guest-harts={n}")));
        words.extend(self.host_harts.map(|n| format!("host-harts={n}")));
        if self.vmm != Vmm::default() {
            words.push(format!("vmm={}", self.vmm));
        }
        words.extend(self.kernels.variant());
        words.extend(self.options.variant());
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
        self.options.seed.unwrap_or_default()
    }

    /// `run` alone.
    pub fn for_run(&self, run: &RunId) -> RunSpec {
        let mut alone = self.clone();
        let of_run = |name: &str| machine_of(name).is_none_or(|of| of == run.machine);
        alone.settings = self.chosen(of_run);
        alone.options.seed = Some(run.seed);
        RunSpec {
            machine: run.machine.clone(),
            workload: alone,
        }
    }

    /// Rejects settings of machines that are not used.
    ///
    /// # Errors
    /// If there is one; the message names the first.
    pub fn check_settings(&self, machines: &[&str]) -> Result<()> {
        for name in self.settings.keys() {
            if let Some(machine) = machine_of(name).filter(|of| !machines.contains(of)) {
                bail!("{name} belongs to the machine {machine}, which does not run; leave it out");
            }
        }
        Ok(())
    }
}

impl Default for WorkloadSpec {
    fn default() -> Self {
        Self {
            workload: String::new(),
            settings: BTreeMap::new(),
            guest_harts: None,
            host_harts: None,
            vmm: Vmm::default(),
            time_limit: Self::TIME_LIMIT,
            kernels: OwnKernels::default(),
            options: MachineOptions::default(),
        }
    }
}

/// A file name that is short enough for any file system. A checksum distinguishes names that are
/// cut off.
fn shortened(name: String) -> String {
    const DIGITS: usize = 16;
    if name.len() <= MAX_NAME {
        return name;
    }
    let sum = sha256_parts([name.as_bytes()]);
    format!("{}-{}", &name[..MAX_NAME - DIGITS - 1], &sum[..DIGITS])
}

/// The machine that a setting belongs to; `None` for a parameter of a workload.
fn machine_of(name: &str) -> Option<&str> {
    name.split_once('.').map(|(machine, _)| machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Cost, Spec};

    fn spec(fields: serde_json::Value) -> WorkloadSpec {
        serde_json::from_value(fields).expect("it is a specification")
    }

    fn name(spec: &WorkloadSpec) -> String {
        spec.result_name("sstc", None).display().to_string()
    }

    #[test]
    fn settings_of_other_machines_are_left_out_of_a_single_run() {
        let run = RunId {
            machine: "sstc".into(),
            seed: 3,
        };
        let both = spec(serde_json::json!({
            "workload": "ipi", "settings": { "aia.guests": 3, "rounds": "5" },
        }));
        let alone = serde_json::json!({
            "machine": "sstc", "workload": "ipi", "settings": { "rounds": 5 }, "seed": 3,
        });
        let alone: RunSpec = serde_json::from_value(alone).expect("it is a specification");
        assert_eq!(both.for_run(&run), alone);
    }

    /// Promise: what is saved of a run makes the same run again, and a mistake in it is found.
    #[test]
    fn specifications_survive_json() {
        let fields = serde_json::json!({
            "machine": "aia", "workload": "ipi", "settings": { "aia.guests": 3, "wfi": "native" },
            "ram": "3G", "cost": { "trap": 7 }, "engine": "interp", "harts": 4, "vmm": "qemu",
            "host_kernel": "a/Image", "seed": u64::MAX,
        });
        let run: RunSpec = serde_json::from_value(fields).expect("it is a specification");
        assert_eq!(run.workload.host_harts, Some(4));
        assert!(matches!(run.workload.options.cost, Some(Cost::Prices(_))));
        let saved = Spec::Run(run).to_json().expect("names are UTF-8");
        let again = Spec::from_json(&saved).expect("it is what was saved");
        assert_eq!(again.to_json().expect("the same"), saved);
        let wrong = serde_json::json!({ "machine": "aia", "workload": "ipi", "guest_hart": 1 });
        let wrong = serde_json::from_value::<RunSpec>(wrong).expect_err("there is no such field");
        assert!(wrong.to_string().contains("guest_hart"), "{wrong}");
    }

    /// Promise: a run never replaces the ledger of a run with other options.
    #[test]
    fn options_that_change_a_run_are_in_the_name_of_its_ledger() {
        let with = |fields: serde_json::Value| {
            let mut all = serde_json::json!({ "workload": "ipi" });
            let fields = fields.as_object().expect("fields").clone();
            all.as_object_mut().expect("fields").extend(fields);
            name(&spec(all))
        };
        let usual = with(serde_json::json!({}));
        assert_eq!(usual, "out/ipi-sstc");
        assert_eq!(
            with(serde_json::json!({ "engine": "interp", "time_limit": 9 })),
            usual
        );
        assert_eq!(
            with(serde_json::json!({ "seed": 3 })),
            "out/ipi-sstc-seed=3"
        );
        assert_eq!(
            with(serde_json::json!({
                "settings": { "rounds": 5, "aia.guests": 3 }, "guest_harts": 4, "vmm": "qemu",
            })),
            "out/ipi-sstc-aia.guests=3-rounds=5-guest-harts=4-vmm=qemu"
        );
        assert_eq!(
            with(serde_json::json!({ "isa": "-svadu,+zicond" })),
            "out/ipi-sstc-isa=-svadu,+zicond"
        );
        assert_eq!(
            with(serde_json::json!({ "host_kernel": "7.2/Image", "guest_kernel": "b" })),
            "out/ipi-sstc-host-kernel=7.2_Image-guest-kernel=b"
        );
        assert_eq!(
            with(serde_json::json!({ "cost": "a/../slow.toml" })),
            "out/ipi-sstc-cost=slow"
        );
        assert_eq!(
            with(serde_json::json!({ "workload": "a/mine.toml" })),
            "out/mine-sstc"
        );
        let long = |last: &str| {
            with(serde_json::json!({ "settings": { "a": "x".repeat(250), "b": last } }))
        };
        assert!(long("y").len() < 220 && long("y") != long("z"));
    }
}
