//! The command's parts: machines, workloads, and prepared workloads.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use trapless_run::spec::{self, Spec};
use trapless_run::{
    BootSpec, ExecSpec, Identity, ObserveOptions, RunId, RunSpec, Trapless, WorkloadSpec, own,
};

use crate::error::{Error, answer, objects, raised};
use crate::machine::{Machine, Output};

/// The program with its project folder.
#[pyclass(frozen)]
pub struct Program(Trapless);

#[pymethods]
impl Program {
    /// The program with the project folder `project`, or the one from which the package was built.
    #[new]
    #[pyo3(signature = (project=None))]
    fn new(project: Option<PathBuf>) -> Self {
        let trapless = Trapless::new();
        Self(match project {
            Some(folder) => trapless.with_project(&folder),
            None => trapless,
        })
    }

    /// Names and descriptions of machines.
    fn machines(&self) -> PyResult<Vec<(String, String)>> {
        let machines = answer(self.0.machines())?;
        let rows = machines.iter();
        let rows = rows.map(|(name, preset)| (name.to_string(), preset.summary.clone()));
        Ok(rows.collect())
    }

    /// Everything about a machine with so many harts.
    fn machine<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        harts: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let config = answer(self.0.machine(name, harts))?;
        let json = serde_json::to_string(&config).map_err(|e| raised(&e.into()))?;
        objects(py, &json)
    }

    /// Everything about the workloads.
    fn workloads<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let all = answer(self.0.workloads())?;
        let all: serde_json::Value = all.iter().map(own::describe).collect();
        objects(py, &all.to_string())
    }

    /// Prepares a workload: the fields of a `WorkloadSpec`, as JSON.
    fn plan(&self, py: Python<'_>, fields: &str) -> PyResult<Plan> {
        let spec: WorkloadSpec = parse(fields)?;
        let plan = py.detach(|| self.0.plan(&spec));
        // Programs that make images end on Ctrl-C, too.
        py.check_signals()?;
        answer(plan).map(Plan)
    }

    /// Builds a machine of `boot`: the fields of a `BootSpec`, as JSON.
    #[pyo3(signature = (fields, trace=None))]
    fn boot(&self, py: Python<'_>, fields: &str, trace: Option<PathBuf>) -> PyResult<Machine> {
        let spec: BootSpec = parse(fields)?;
        self.start(py, &Spec::Boot(Box::new(spec)), trace)
    }

    /// Builds a machine of `exec`: the fields of an `ExecSpec`, as JSON.
    fn exec(&self, py: Python<'_>, fields: &str) -> PyResult<Machine> {
        let spec: ExecSpec = parse(fields)?;
        self.start(py, &Spec::Exec(spec), None)
    }

    /// What determines the result of a run: the fields of a `RunSpec`, as JSON.
    fn identity<'py>(&self, py: Python<'py>, fields: &str) -> PyResult<Bound<'py, PyAny>> {
        let spec: RunSpec = parse(fields)?;
        let identity = py.detach(|| {
            let plan = self.0.plan(&spec.workload)?;
            Ok(serde_json::to_string(&Identity::of(&plan, &spec.id())?)?)
        });
        py.check_signals()?;
        objects(py, &answer(identity)?)
    }

    /// Resumes a checkpoint.
    fn resume(&self, py: Python<'_>, path: PathBuf) -> PyResult<Machine> {
        let output = Output::default();
        let session = py.detach(|| self.0.resume(&path, Box::new(output.clone())));
        py.check_signals()?;
        Ok(Machine::new(answer(session)?, output))
    }
}

impl Program {
    fn start(&self, py: Python<'_>, spec: &Spec, trace: Option<PathBuf>) -> PyResult<Machine> {
        let output = Output::default();
        let (console, observe) = (Box::new(output.clone()), traced(trace));
        let session = py.detach(|| self.0.start(spec, &observe, console));
        py.check_signals()?;
        Ok(Machine::new(answer(session)?, output))
    }
}

/// A specification from the JSON text of its fields.
fn parse<S: DeserializeOwned + Serialize + Default>(fields: &str) -> PyResult<S> {
    let fields = serde_json::from_str(fields).map_err(|e| raised(&e.into()))?;
    answer(spec::parse(&fields))
}

/// Observers of a machine with such a trace.
fn traced(trace: Option<PathBuf>) -> ObserveOptions {
    ObserveOptions {
        trace,
        ..ObserveOptions::default()
    }
}

/// Names of the options of `run`, `boot` or `exec`.
#[pyfunction]
pub fn option_names(of: &str) -> PyResult<Vec<String>> {
    match of {
        // `harts` is of the machine that runs it; the other two have a field for it.
        "run" => Ok([spec::names::<WorkloadSpec>(), vec!["harts".into()]].concat()),
        "boot" => Ok(spec::names::<BootSpec>()),
        "exec" => Ok(spec::names::<ExecSpec>()),
        _ => Err(Error::new_err(format!("nothing is made by {of}"))),
    }
}

/// A workload with its images.
#[pyclass(frozen)]
pub struct Plan(Arc<trapless_run::Plan>);

#[pymethods]
impl Plan {
    /// Builds the machine of a run, about to boot.
    #[pyo3(signature = (machine, seed, trace=None))]
    fn start(
        &self,
        py: Python<'_>,
        machine: String,
        seed: u64,
        trace: Option<PathBuf>,
    ) -> PyResult<Machine> {
        let (run, observe) = (RunId { machine, seed }, traced(trace));
        let output = Output::default();
        let console = Box::new(output.clone());
        let session = py.detach(|| self.0.session(&run, &observe, console));
        Ok(Machine::new(answer(session)?, output))
    }

    /// Rejects specifications that cannot run on these machines.
    fn check(&self, machines: Vec<String>) -> PyResult<()> {
        let machines: Vec<&str> = machines.iter().map(String::as_str).collect();
        answer(self.0.check(&machines))
    }

    /// How many of `runs` runs to make at a time.
    #[pyo3(signature = (asked, runs))]
    fn at_a_time(&self, asked: Option<usize>, runs: usize) -> usize {
        self.0.at_a_time(asked, runs)
    }

    /// Name of the ledger file of a run on `machine`.
    fn ledger_name(&self, machine: &str) -> String {
        self.0.ledger_name(machine)
    }
}
