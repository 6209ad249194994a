//! Machines by name: those of the project, and users' own in files.
//!
//! A file has a table for each machine, with its differences from `base`, another machine:
//!
//! ```toml
//! [machines.slow-traps]
//! base = "sstc"
//! summary = "sstc with the prices of another core"
//! cost = "slow.toml"        # a cost model, beside this file
//! quantum = 500             # cycles
//! [machines.slow-traps.extensions]
//! svadu = true
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::config::cost::CostTable;
use crate::config::own::{Architecture, OwnMachine};
use crate::config::preset::{Interrupts, MachineConfig, Preset, presets};
use crate::error::Error;

/// Maximum length of a machine's name, which is part of file names.
const NAME: usize = 40;

/// A file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    machines: BTreeMap<String, Own>,
    /// Read by `trapless-experiments`.
    #[serde(default, rename = "workloads")]
    _workloads: IgnoredAny,
}

/// A machine in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    base: String,
    summary: Option<String>,
    interrupts: Option<Interrupts>,
    quantum: Option<u64>,
    cost: Option<PathBuf>,
    #[serde(default)]
    extensions: BTreeMap<String, bool>,
}

/// Calls `visit` for each name of a file in the table of a machine.
pub fn visit_files(machine: &mut toml::Table, visit: &mut dyn FnMut(&mut String)) {
    if let Some(toml::Value::String(name)) = machine.get_mut("cost") {
        visit(name);
    }
}

/// A machine by name.
#[derive(Clone, Debug)]
struct Known {
    preset: Preset,
    quantum: Option<u64>,
    cost: Option<CostTable>,
    architecture: Option<Architecture>,
}

/// All known machines.
#[derive(Clone, Debug)]
pub struct Machines(BTreeMap<String, Known>);

impl Default for Machines {
    /// The machines of the project.
    fn default() -> Self {
        let known = |preset| Known {
            preset,
            quantum: None,
            cost: None,
            architecture: None,
        };
        let all = presets().into_iter();
        Self(all.map(|(name, preset)| (name, known(preset))).collect())
    }
}

impl Machines {
    /// Adds the machines of the file at `path`, whose text is `text`.
    ///
    /// # Errors
    /// If the file is wrong; the message says where.
    pub fn add(&mut self, path: &Path, text: &str) -> Result<(), Error> {
        let fail = |what: String| Error::Invalid(format!("{}: {what}", path.display()));
        let file: File = toml::from_str(text).map_err(|e| fail(e.to_string()))?;
        let mut left = file.machines;
        while !left.is_empty() {
            // A machine may precede its base.
            let ready = left.iter().find(|(_, own)| self.0.contains_key(&own.base));
            let Some(name) = ready.map(|(name, _)| name.clone()) else {
                let wrong = left.iter().map(|(name, o)| format!("{name} on {}", o.base));
                let wrong = wrong.collect::<Vec<_>>().join(", ");
                return Err(fail(format!(
                    "base is unknown, or itself based on this machine: {wrong}"
                )));
            };
            let own = left.remove(&name).expect("it was found");
            let known = self.derive(path, &name, own).map_err(fail)?;
            self.0.insert(name, known);
        }
        Ok(())
    }

    /// Adds a machine with an interrupt architecture from outside the project.
    ///
    /// # Errors
    /// If its name is not allowed or its base is unknown.
    pub fn add_own(&mut self, own: &OwnMachine) -> Result<(), Error> {
        let name = &own.name;
        self.check_name(name).map_err(Error::Invalid)?;
        let Some(base) = self.0.get(&own.base) else {
            return Err(Error::Invalid(format!(
                "the machine {name} is based on {}, which does not exist; use one of: {}",
                own.base,
                self.names()
            )));
        };
        let mut known = base.clone();
        known.preset.summary.clone_from(&own.summary);
        known.architecture = Some(own.architecture.clone());
        self.0.insert(name.clone(), known);
        Ok(())
    }

    fn names(&self) -> String {
        let all: Vec<_> = self.0.keys().map(String::as_str).collect();
        all.join(", ")
    }

    /// Rejects a name that another machine cannot have.
    fn check_name(&self, name: &str) -> Result<(), String> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > NAME || !name.chars().all(plain) {
            return Err(format!(
                "{name:?} cannot be the name of a machine: use up to {NAME} lower-case letters, \
                 digits and -"
            ));
        }
        if self.0.contains_key(name) {
            return Err(format!(
                "there is a machine called {name} already; give this one a name of its own"
            ));
        }
        Ok(())
    }

    fn derive(&self, path: &Path, name: &str, own: Own) -> Result<Known, String> {
        self.check_name(name)?;
        let mut known = self.0[&own.base].clone();
        known.preset.summary = own.summary.unwrap_or_else(|| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            format!("{} as {file} changes it", own.base)
        });
        if let Some(interrupts) = own.interrupts {
            known.preset.interrupts = interrupts;
            known.architecture = None;
        }
        known.quantum = own.quantum.or(known.quantum);
        let toggles = own.extensions.iter();
        let toggles = toggles.map(|(name, on)| format!("{}{name}", if *on { '+' } else { '-' }));
        let toggles = toggles.collect::<Vec<_>>().join(",");
        let mut config = MachineConfig::of(name, &known.preset);
        config.set_isa(&toggles).map_err(|e| e.to_string())?;
        known.preset.extensions = config.hart.extensions;
        if let Some(cost) = own.cost {
            let cost = path.parent().unwrap_or(Path::new("")).join(cost);
            let text = std::fs::read_to_string(&cost)
                .map_err(|e| format!("cannot read the cost model {}: {e}", cost.display()))?;
            let table = CostTable::from_text(&text)
                .map_err(|e| format!("cannot use the cost model {}: {e}", cost.display()))?;
            known.cost = Some(table);
        }
        Ok(known)
    }

    /// Names with their presets.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Preset)> {
        self.0
            .iter()
            .map(|(name, known)| (name.as_str(), &known.preset))
    }

    /// The machine called `name` with one hart and 1 GiB.
    ///
    /// # Errors
    /// If there is none; the message lists the known names.
    pub fn config(&self, name: &str) -> Result<MachineConfig, Error> {
        let Some(known) = self.0.get(name) else {
            return Err(Error::Invalid(format!(
                "there is no machine called {name}; use one of: {}",
                self.names()
            )));
        };
        let mut config = MachineConfig::of(name, &known.preset);
        config.quantum = known.quantum.unwrap_or(config.quantum);
        config.architecture.clone_from(&known.architecture);
        if let Some(cost) = &known.cost {
            config.set_cost(cost.clone());
        }
        Ok(config)
    }
}

impl MachineConfig {
    /// The project's machine called `name`, with one hart and 1 GiB.
    ///
    /// # Errors
    /// If there is none; the message lists the known names.
    pub fn preset(name: &str) -> Result<Self, Error> {
        Machines::default().config(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<Machines, String> {
        let mut machines = Machines::default();
        let added = machines.add(Path::new("lab/trapless.toml"), text);
        added.map(|()| machines).map_err(|e| e.to_string())
    }

    /// Promise: a machine of a file is its base but for what the file says, whatever the order.
    #[test]
    fn own_machines_say_what_differs() {
        let machines = with(
            "[machines.b]\nbase = \"a\"\nsummary = \"two\"\n\
             [machines.a]\nbase = \"sstc\"\nquantum = 500\nextensions = { svadu = true, sstc = false }",
        )
        .unwrap();
        let (a, b) = (machines.config("a").unwrap(), machines.config("b").unwrap());
        let base = machines.config("sstc").unwrap();
        assert_eq!((a.quantum, b.quantum, base.quantum), (500, 500, 1000));
        assert!(b.hart.extensions.svadu && !b.hart.extensions.sstc && base.hart.extensions.sstc);
        assert_eq!(a.interrupts, base.interrupts);
        let summaries: Vec<_> = machines.iter().map(|(_, p)| p.summary.as_str()).collect();
        assert!(summaries.contains(&"sstc as trapless.toml changes it"));
        assert!(summaries.contains(&"two"));
    }

    /// Promise: what is wrong with a file is told, with the file and the place.
    #[test]
    fn wrong_files_are_refused_with_a_sentence() {
        for (text, what) in [
            ("[machines.a]\nbase = \"a\"", "a on a"),
            ("[machines.a]\nbase = \"none\"", "base is unknown"),
            (
                "[machines.sstc]\nbase = \"sbi\"",
                "a machine called sstc already",
            ),
            ("[machines.\"A b\"]\nbase = \"sbi\"", "cannot be the name"),
            (
                "[machines.a]\nbase = \"sbi\"\nextensions = { v = true }",
                "no extension option v",
            ),
            (
                "[machines.a]\nbase = \"sbi\"\nquanta = 5",
                "unknown field `quanta`",
            ),
            (
                "[machines.a]\nbase = \"sbi\"\ncost = \"gone.toml\"",
                "lab/gone.toml",
            ),
        ] {
            let error = with(text).unwrap_err();
            assert!(error.starts_with("lab/trapless.toml: "), "{error}");
            assert!(error.contains(what), "{error}");
        }
        let error = with("[machines.a]\nbase = \"sbi\"\nquanta = 5").unwrap_err();
        assert!(error.contains("line 3"), "{error}");
        let error = Machines::default().config("stsc").unwrap_err().to_string();
        assert!(error.contains("sbi, sstc"), "{error}");
    }

    /// Promise: a machine with an interrupt architecture from outside is its base but for that, and
    /// files can build on it.
    #[test]
    fn machines_have_architectures_from_outside() {
        let own = |name: &str, base: &str| OwnMachine {
            name: name.into(),
            base: base.into(),
            summary: "with mine".into(),
            architecture: Architecture::new(|_| unreachable!("nothing is built")),
        };
        let mut machines = Machines::default();
        machines.add_own(&own("mine", "sstc")).unwrap();
        let text = "[machines.dear]\nbase = \"mine\"\nquantum = 500\n\
                    [machines.plain]\nbase = \"mine\"\ninterrupts = \"aclint-plic\"";
        machines.add(Path::new("trapless.toml"), text).unwrap();
        let has = |name: &str| machines.config(name).unwrap().architecture.is_some();
        assert_eq!(
            ["mine", "dear", "plain", "sstc"].map(has),
            [true, true, false, false]
        );
        let mut config = machines.config("mine").unwrap();
        assert!(config.hart.extensions.sstc && config.check().is_ok());
        config.hart.extensions.xvei = true;
        assert!(
            config
                .check()
                .unwrap_err()
                .to_string()
                .contains("leave xvei out")
        );

        let error = |own| machines.clone().add_own(&own).unwrap_err().to_string();
        assert!(error(own("sstc", "sbi")).contains("a machine called sstc already"));
        assert!(error(own("Mine", "sbi")).contains("lower-case letters"));
        assert!(
            error(own("other", "stsc")).contains("based on stsc, which does not exist; use one of")
        );
    }
}
