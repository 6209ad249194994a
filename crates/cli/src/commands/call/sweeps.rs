//! Requests of sweeps before they make runs.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use trapless_machine::Machines;
use trapless_machine::cost::CostTable;
use trapless_report::Interval;
use trapless_run::series::memory;
use trapless_run::sources::{Source, sources};
use trapless_run::spec::{OwnKernels, check_value, names, parse};
use trapless_run::{
    Identity, Plan, RunSpec, Trapless, WorkloadSpec, machine, measure, own, sentence,
};

use crate::words;

/// Lists the options of runs, and checks values of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Single fields of a [`RunSpec`] with values.
    values: Vec<Map<String, Value>>,
}

/// The answer.
#[derive(Serialize)]
pub struct Known {
    names: Vec<String>,
    /// Names of prices.
    prices: Vec<String>,
    /// The error of each value that is wrong.
    wrong: Vec<Option<String>>,
}

impl Options {
    /// The answer.
    pub fn answer(&self) -> Known {
        // Kernels and their modules do not travel to the computers that make runs.
        let kernels = names::<OwnKernels>();
        let wrong = |value: &Map<String, Value>| {
            let mut fields = value.iter();
            fields.find_map(|(name, value)| check_value::<RunSpec>(name, value))
        };
        Known {
            names: names::<RunSpec>()
                .into_iter()
                .filter(|name| !kernels.contains(name))
                .collect(),
            prices: CostTable::inorder().figures.into_keys().collect(),
            wrong: self.values.iter().map(wrong).collect(),
        }
    }
}

/// Confidence intervals of medians, for given numbers of runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intervals {
    runs: Vec<u32>,
}

impl Intervals {
    /// For each, how many of the smallest and of the largest values the interval leaves out, and
    /// the probability with which it contains the median.
    pub fn answer(&self) -> Vec<(usize, f64)> {
        let of = |&runs: &u32| {
            let Interval { outside, coverage } = Interval::of(runs as usize);
            (outside, coverage)
        };
        self.runs.iter().map(of).collect()
    }
}

/// What determines the results of these runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identify {
    /// Each a [`RunSpec`].
    specs: Vec<Value>,
}

/// The answer.
#[derive(Serialize, Default)]
pub struct Identities {
    /// Identities of runs without seeds and prices, which many runs share.
    identities: Vec<Value>,
    runs: Vec<About>,
}

/// What is reported of a run.
#[derive(Serialize)]
struct About {
    /// The command that makes it.
    command: String,
    #[serde(flatten)]
    found: Found,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Found {
    Run {
        /// Index of its identity.
        identity: usize,
        /// Prices by name, in cycles.
        prices: BTreeMap<String, u32>,
        /// Memory that it may need, in bytes.
        memory: u64,
    },
    Wrong {
        error: String,
    },
}

impl Identify {
    /// The answer.
    ///
    /// # Errors
    /// If a file with machines of the user cannot be used, or a specification is invalid.
    pub fn answer(&self, trapless: &Trapless) -> Result<Identities> {
        let mut finder = Finder {
            trapless,
            machines: trapless.machines()?,
            plans: HashMap::new(),
            known: HashMap::new(),
            identities: Vec::new(),
        };
        let about = |spec: &Value| {
            let run: RunSpec = parse(spec)?;
            let found = finder.find(&run).unwrap_or_else(|error| Found::Wrong {
                error: sentence(&error),
            });
            let command = words::command(&run);
            Ok(About { command, found })
        };
        let runs = self.specs.iter().map(about).collect::<Result<_>>()?;
        Ok(Identities {
            identities: finder.identities,
            runs,
        })
    }
}

/// Determines identities of runs, once for runs that differ only in seeds and prices.
struct Finder<'a> {
    trapless: &'a Trapless,
    machines: Machines,
    /// By their workload as JSON.
    plans: HashMap<String, Plan>,
    /// Indices of identities, by the run as JSON.
    known: HashMap<String, usize>,
    identities: Vec<Value>,
}

impl Finder<'_> {
    fn find(&mut self, run: &RunSpec) -> Result<Found> {
        let (name, workload) = (&run.machine, &run.workload);
        measure::check(workload, &[name], &self.machines)?;
        let settings = workload.settings_of(name);
        let config = machine::config(&self.machines, name, 1, &workload.options, &settings)?;
        let figures = config.cost.figures.into_iter();
        Ok(Found::Run {
            identity: self.identity(run)?,
            prices: figures.map(|(name, f)| (name, f.cycles)).collect(),
            memory: memory::of_run(&workload.options),
        })
    }

    fn identity(&mut self, run: &RunSpec) -> Result<usize> {
        let mut plain = run.clone();
        let options = &mut plain.workload.options;
        (options.seed, options.cost) = (None, None);
        options.prices.clear();
        let key = serde_json::to_string(&plain)?;
        if let Some(index) = self.known.get(&key) {
            return Ok(*index);
        }
        let plan = self.plan(&plain.workload)?;
        let mut identity = serde_json::to_value(Identity::of(plan, &plain.id())?)?;
        let machine = identity["machine"].as_object_mut();
        let machine = machine.context("an identity has a machine")?;
        machine.remove("prices");
        if let Some(Value::Object(configuration)) = machine.get_mut("configuration") {
            configuration.remove("seed");
            configuration.remove("cost model");
        }
        self.identities.push(identity);
        self.known.insert(key, self.identities.len() - 1);
        Ok(self.identities.len() - 1)
    }

    fn plan(&mut self, workload: &WorkloadSpec) -> Result<&Plan> {
        let key = serde_json::to_string(workload)?;
        if !self.plans.contains_key(&key) {
            let plan = Plan::new(workload, self.trapless)?;
            self.plans.insert(key.clone(), plan);
        }
        Ok(&self.plans[&key])
    }
}

/// The user's files that runs read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sources {
    /// Folder to which relative paths of workloads refer.
    folder: PathBuf,
    /// Names of workloads.
    workloads: Vec<String>,
}

/// The answer.
#[derive(Serialize)]
pub struct Files {
    /// Folder of configurations.
    config: Option<PathBuf>,
    sources: Vec<Source>,
    /// The file of each workload that is one.
    workloads: Vec<Option<PathBuf>>,
}

impl Sources {
    /// The answer.
    ///
    /// # Errors
    /// If a file with machines and workloads cannot be read.
    pub fn answer(&self) -> Result<Files> {
        let workloads = self.workloads.iter();
        let workloads = workloads.map(|name| own::file(name).map(|file| self.folder.join(file)));
        let workloads: Vec<_> = workloads.collect();
        let files: Vec<_> = workloads.iter().flatten().cloned().collect();
        Ok(Files {
            config: own::config_folder(),
            sources: sources(&files)?,
            workloads,
        })
    }
}
