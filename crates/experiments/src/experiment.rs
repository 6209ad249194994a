//! One experiment: its file, its parameters, and the kernel parameters by which the host image runs
//! it.

use crate::error::{Error, Result, io};
use crate::parameter::{Parameter, Value};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// One workload.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name for the command line: the file name without `.toml`.
    #[serde(skip)]
    pub name: String,
    /// A few words for tables.
    pub title: String,
    /// What runs and how it uses interrupts.
    pub explanation: String,
    /// Relevant figures of the ledger.
    pub measures: String,
    /// The virtual machine.
    pub guest: Guest,
    /// The host's side, if it does more than start it and wait for its end.
    #[serde(default)]
    pub host: Host,
    /// Parameters, including those common to all experiments.
    #[serde(default)]
    pub parameters: BTreeMap<String, Parameter>,
    /// Other defaults for common parameters; empty when the experiment is loaded.
    #[serde(default)]
    pub(crate) defaults: BTreeMap<String, Value>,
    /// Keys of the `@trapless result KEY=VALUE` lines that a run prints.
    #[serde(default)]
    pub results: BTreeMap<String, Outcome>,
    /// The unit by which counts are normalised.
    #[serde(default)]
    pub work: Option<Work>,
    /// Whose `@trapless begin` and `@trapless end` lines enclose the measured part, for instance
    /// `host ping`; by default those of the guest's side.
    #[serde(default)]
    pub measured: Option<String>,
    /// Its origin, if it is a user's own.
    #[serde(skip)]
    pub own: Option<Own>,
}

/// The unit of work of an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Name in the plural, e.g. `wake-ups`.
    pub unit: String,
    /// Key of the result with their number.
    pub result: String,
}

/// The guest's side.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// Default number of vCPUs.
    pub harts: u32,
    /// Guest RAM as VMMs take it, e.g. `256M`.
    pub memory: String,
    /// Shell script; parameters are variables, `result KEY VALUE` reports.
    pub script: String,
    /// Path in the guest = file or folder of this computer. Only for workloads of users: those of
    /// the project have recipes of images.
    #[serde(skip)]
    pub files: BTreeMap<String, PathBuf>,
}

/// The host's side.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Default number of harts of the machine; if it is not given, as many as the guest.
    pub harts: Option<u32>,
    /// Images whose files are added to the host's, for this workload only.
    #[serde(default)]
    pub images: Vec<String>,
    /// Virtual functions of the machine's network card, which is a PCI device if it has any: they
    /// are there to be passed to guests, behind an IOMMU.
    #[serde(default)]
    pub virtual_functions: usize,
    /// Whether that card has a platform port, too: a virtio-mmio device with a wire, behind the
    /// same IOMMU.
    #[serde(default)]
    pub platform_port: bool,
    /// MiB of a disk of zeroes on a controller of NVM Express, a PCI device behind an IOMMU; 0:
    /// there is none.
    #[serde(default)]
    pub nvme_mib: u32,
    /// Shell script that starts the guest (`vmm_start`, `vmm_wait`); by default it does only that.
    pub script: Option<String>,
    /// As those of the guest.
    #[serde(skip)]
    pub files: BTreeMap<String, PathBuf>,
}

/// One result line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Unit, empty for a count.
    #[serde(default)]
    pub unit: String,
    /// Description.
    pub explanation: String,
    /// Whether a successful run may leave it out, because its machine lacks the feature.
    #[serde(default)]
    pub optional: bool,
}

/// Origin of a user's workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// The file that describes it.
    pub file: PathBuf,
    /// The workload that it differs from.
    pub base: Option<String>,
    /// Its normalised description, without comments and the folders of its files; including that of
    /// its base if that is a user's, too.
    pub definition: String,
}

impl Host {
    /// Whether the machine has PCI devices for guests, and what passes them.
    pub fn passes_devices(&self) -> bool {
        self.virtual_functions != 0 || self.platform_port || self.nvme_mib != 0
    }
}

impl Experiment {
    /// Reads one experiment.
    ///
    /// # Errors
    /// [`Error::Data`] with file, line and key if it is not a valid experiment.
    pub fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(io("read", path))?;
        let bad = |message: String| Error::Data {
            path: path.to_owned(),
            message,
        };
        let mut experiment: Self = toml::from_str(&text).map_err(|e| bad(e.to_string()))?;
        experiment.name = name_of(path);
        if !is_word(&experiment.name) {
            return Err(bad(
                "the file name is the experiment's name: use lower-case letters, digits and `-`"
                    .into(),
            ));
        }
        experiment.check().map_err(|(_, message)| bad(message))?;
        experiment.take_common(path)?;
        Ok(experiment)
    }

    /// Contradictions in a description: the keys of the value, and a message.
    pub(crate) fn check(&self) -> std::result::Result<(), (Vec<String>, String)> {
        let keys = |keys: &[&str]| keys.iter().map(ToString::to_string).collect();
        if self.guest.harts == 0 {
            return Err((
                keys(&["guest", "harts"]),
                "guest.harts: at least 1".to_owned(),
            ));
        }
        if let Some(work) = &self.work
            && !self.results.contains_key(&work.result)
        {
            let message = format!("work.result: `{}` is not among the results", work.result);
            return Err((keys(&["work"]), message));
        }
        for (name, parameter) in &self.parameters {
            let wrong = |message| (keys(&["parameters", name]), message);
            parameter.check(name).map_err(wrong)?;
        }
        Ok(())
    }

    /// Adds the parameters that all experiments of its folder have.
    fn take_common(&mut self, path: &Path) -> Result<()> {
        let common = common_parameters(path.parent().unwrap_or(Path::new("")))?;
        let bad = |message: String| Error::Data {
            path: path.to_owned(),
            message,
        };
        for (name, mut parameter) in common {
            if let Some(value) = self.defaults.remove(&name) {
                parameter.default = value;
                parameter
                    .check(&name)
                    .map_err(|_| bad(format!("defaults.{name}: choose {}", parameter.range())))?;
            }
            if self.parameters.insert(name.clone(), parameter).is_some() {
                return Err(bad(format!(
                    "parameters.{name}: every experiment has it, set another default under [defaults]"
                )));
            }
        }
        self.defaults.keys().next().map_or(Ok(()), |name| {
            Err(bad(format!("defaults.{name}: no such common parameter")))
        })
    }

    /// Reads all experiments of a folder, sorted by name.
    ///
    /// # Errors
    /// If the folder or one of the experiments cannot be read.
    pub fn load_all(folder: &Path) -> Result<Vec<Self>> {
        toml_files(folder)?
            .iter()
            .map(|path| Self::load(path))
            .collect()
    }

    /// All parameters with the user's values in place of the defaults.
    ///
    /// # Errors
    /// If a parameter is not known or out of its range.
    pub fn values(&self, given: &BTreeMap<String, Value>) -> Result<BTreeMap<String, Value>> {
        let mut values: BTreeMap<_, _> = self
            .parameters
            .iter()
            .map(|(n, p)| (n.clone(), p.default.clone()))
            .collect();
        for (name, value) in given {
            let Some(parameter) = self.parameters.get(name) else {
                let known = self
                    .parameters
                    .keys()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join(", ");
                return Err(Error::Unknown {
                    kind: "parameter",
                    name: name.clone(),
                    known,
                });
            };
            if !parameter.allows(value) {
                let range = parameter.range();
                let message = format!("{name}={value} is out of range: choose {range}");
                return Err(Error::Data {
                    path: format!("experiment {}", self.name).into(),
                    message,
                });
            }
            values.insert(name.clone(), value.clone());
        }
        Ok(values)
    }

    /// The parameters on the host kernel's command line by which the host image runs this
    /// experiment.
    ///
    /// # Errors
    /// As [`Experiment::values`].
    pub fn host_command_line(
        &self,
        given: &BTreeMap<String, Value>,
        guest_harts: Option<u32>,
    ) -> Result<String> {
        use std::fmt::Write;
        let harts = guest_harts.unwrap_or(self.guest.harts);
        let mut line = format!(
            "trapless.run={} trapless.cpus={harts} trapless.memory={}",
            self.name,
            self.guest_memory(harts)
        );
        let values = self.values(given)?;
        let for_host = |name: &String| !self.parameters.get(name).is_some_and(|p| p.outside);
        for (name, value) in values.iter().filter(|(name, _)| for_host(name)) {
            let _ = write!(line, " set.{name}={value}");
        }
        Ok(line)
    }

    /// RAM of a guest with `harts` vCPUs, as VMMs take it: that of the experiment, or more if so
    /// many vCPUs need more. With 64 MiB and 4 MiB for each vCPU a guest of 64 has room for its
    /// image, and for what Linux sets aside for each CPU.
    #[must_use]
    pub fn guest_memory(&self, harts: u32) -> String {
        let needed = 64 + 4 * u64::from(harts);
        match mebibytes(&self.guest.memory) {
            Some(stated) if stated < needed => format!("{needed}M"),
            _ => self.guest.memory.clone(),
        }
    }

    /// Side and name in the markers around the measured part.
    #[must_use]
    pub fn measured(&self) -> String {
        self.measured
            .clone()
            .unwrap_or_else(|| format!("guest {}", self.name))
    }

    /// Default number of harts of the host.
    #[must_use]
    pub fn host_harts(&self) -> u32 {
        self.host.harts.unwrap_or(self.guest.harts)
    }
}

/// Parameters that all experiments of a folder have (`common/parameters.toml`).
pub(crate) fn common_parameters(folder: &Path) -> Result<BTreeMap<String, Parameter>> {
    let path = folder.join("common").join("parameters.toml");
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let text = fs::read_to_string(&path).map_err(io("read", &path))?;
    let bad = |message: String| Error::Data {
        path: path.clone(),
        message,
    };
    let all: BTreeMap<String, Parameter> = toml::from_str(&text).map_err(|e| bad(e.to_string()))?;
    for (name, parameter) in &all {
        parameter.check(name).map_err(bad)?;
    }
    Ok(all)
}

/// The name of the experiment in a file.
pub(crate) fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// The `.toml` files of a folder, sorted. Image recipes are found in the same way.
///
/// # Errors
/// If the folder cannot be listed.
pub fn toml_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(io("list", folder))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    Ok(files)
}

/// `256M` or `1G` in MiB.
fn mebibytes(memory: &str) -> Option<u64> {
    let digits = memory.trim_end_matches(['M', 'G']);
    let factor = match &memory[digits.len()..] {
        "M" => 1,
        "G" => 1024,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

pub(crate) fn is_word(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMER: &str = "title = \"t\"\nexplanation = \"e\"\nmeasures = \"m\"\n\
        [guest]\nharts = 1\nmemory = \"256M\"\nscript = \"cyclictest -l $wakeups\"\n\
        [parameters.wakeups]\ndefault = 1000\nminimum = 1\nmaximum = 5000\nexplanation = \"n\"\n";

    fn load(text: &str) -> Result<Experiment> {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("timer.toml");
        fs::write(&path, text).unwrap();
        Experiment::load(&path)
    }

    #[test]
    fn command_line_carries_changed_and_default_values() {
        let timer = load(TIMER).unwrap();
        let line = timer.host_command_line(&BTreeMap::new(), None).unwrap();
        assert_eq!(
            line,
            "trapless.run=timer trapless.cpus=1 trapless.memory=256M set.wakeups=1000"
        );
        let line = timer
            .host_command_line(
                &BTreeMap::from([("wakeups".into(), Value::Number(7))]),
                Some(3),
            )
            .unwrap();
        assert!(
            line.contains("trapless.cpus=3") && line.ends_with("wakeups=7"),
            "{line}"
        );
    }

    /// Promise: more vCPUs get the memory they need; the usual number leaves it as the experiment
    /// says.
    #[test]
    fn memory_grows_with_vcpus() {
        let timer = load(TIMER).unwrap();
        assert_eq!(timer.guest_memory(1), "256M");
        assert_eq!(timer.guest_memory(48), "256M");
        assert_eq!(timer.guest_memory(64), "320M");
        let large = load(&TIMER.replace("256M", "1G")).unwrap();
        assert_eq!(large.guest_memory(64), "1G");
    }

    /// Promise: what only decides what is started costs no room on the host's command line.
    #[test]
    fn the_host_is_not_told_of_parameters_for_outside() {
        let more = "[parameters.kernel]\ndefault = \"stock\"\nchoices = [\"stock\", \"own\"]\n\
            outside = true\nexplanation = \"e\"\n";
        let timer = load(&format!("{TIMER}{more}")).unwrap();
        let given = BTreeMap::from([("kernel".into(), Value::Word("own".into()))]);
        let line = timer.host_command_line(&given, None).unwrap();
        assert!(line.ends_with("set.wakeups=1000"), "{line}");
        assert_eq!(timer.values(&given).unwrap()["kernel"], given["kernel"]);
    }

    #[test]
    fn wrong_parameters_are_explained() {
        let timer = load(TIMER).unwrap();
        let error = timer
            .values(&BTreeMap::from([("wakeups".into(), Value::Number(9999))]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("1 to 5000"), "{error}");
        let error = timer
            .values(&BTreeMap::from([("wakeup".into(), Value::Number(1))]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("known: wakeups"), "{error}");
    }

    #[test]
    fn wrong_files_are_explained_with_file_and_key() {
        let error = load(&TIMER.replace("maximum = 5000", "maximum = 10"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("timer.toml") && error.contains("parameters.wakeups.default"),
            "{error}"
        );
        let error = load(&TIMER.replace("harts = 1", "hart = 1"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("hart"), "{error}");
    }

    #[test]
    fn common_parameters_take_the_experiments_defaults() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("common")).unwrap();
        let common =
            "[wfi]\ndefault = \"trap\"\nchoices = [\"trap\", \"native\"]\nexplanation = \"e\"\n";
        fs::write(temp.path().join("common/parameters.toml"), common).unwrap();
        let path = temp.path().join("timer.toml");
        let line = |more: &str| {
            fs::write(&path, format!("{TIMER}{more}")).unwrap();
            Experiment::load(&path)?.host_command_line(&BTreeMap::new(), None)
        };
        assert!(line("").unwrap().ends_with(" set.wfi=trap"));
        let native = line("[defaults]\nwfi = \"native\"\n").unwrap();
        assert!(native.ends_with(" set.wfi=native"), "{native}");
        for (wrong, named) in [
            ("[defaults]\nwfi = \"x\"\n", "choose trap, native"),
            ("[defaults]\nwif = \"trap\"\n", "defaults.wif"),
            (
                "[parameters.wfi]\ndefault = 1\nmaximum = 1\nexplanation = \"e\"\n",
                "parameters.wfi",
            ),
        ] {
            let error = line(wrong).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn experiments_of_the_project_are_valid() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let all = Experiment::load_all(&folder).unwrap();
        for experiment in &all {
            let line = experiment
                .host_command_line(&BTreeMap::new(), None)
                .unwrap();
            // riscv64 Linux takes 1024 bytes without a word about the rest; room for larger values
            // and other words.
            assert!(line.len() < 850, "{}: {line}", experiment.name);
        }
        let names: Vec<_> = all.into_iter().map(|e| e.name).collect();
        for name in [
            "boot",
            "ipi",
            "mixed",
            "net",
            "overcommit",
            "sequence",
            "timer",
        ] {
            assert!(names.contains(&name.to_owned()), "{name} is missing");
        }
    }

    #[test]
    fn scripts_of_the_project_are_valid_for_the_shell() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut scripts: Vec<(String, String)> = Vec::new();
        for experiment in Experiment::load_all(&project.join("experiments")).unwrap() {
            scripts.push((
                format!("{}, guest", experiment.name),
                experiment.guest.script,
            ));
            let host = experiment.host.script.unwrap_or_default();
            scripts.push((format!("{}, host", experiment.name), host));
        }
        for entry in fs::read_dir(project.join("images/init")).unwrap() {
            let path = entry.unwrap().path();
            scripts.push((
                path.display().to_string(),
                fs::read_to_string(&path).unwrap(),
            ));
        }
        for (name, text) in scripts {
            // Reads without running.
            let check = std::process::Command::new("sh")
                .args(["-n", "-c", &text])
                .output()
                .unwrap();
            let errors = String::from_utf8_lossy(&check.stderr);
            assert!(check.status.success(), "{name}: {errors}");
        }
    }
}
