//! The command's parts: machines, workloads, and workloads made ready.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use trapless_cli::{RunId, Trapless};

use crate::error::{answer, objects, raised};
use crate::machine::{Machine, Output};

/// The program with its project folder.
#[pyclass(frozen)]
pub struct Program(Trapless);

#[pymethods]
impl Program {
    /// With the project folder `project`, or that which the package was built from.
    #[new]
    #[pyo3(signature = (project=None))]
    fn new(project: Option<PathBuf>) -> Self {
        let trapless = Trapless::new();
        Self(match project {
            Some(folder) => trapless.with_project(&folder),
            None => trapless,
        })
    }

    /// Names of machines, and a line about each.
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
        objects(py, &answer(self.0.workloads())?.to_string())
    }

    /// Makes a workload ready: options of `trapless run` without the machine.
    fn plan(&self, py: Python<'_>, words: Vec<String>) -> PyResult<Plan> {
        let plan = py.detach(|| self.0.plan(&words));
        // Programs that make images end on Ctrl-C, too.
        py.check_signals()?;
        answer(plan).map(Plan)
    }

    /// Builds a machine: the words of `trapless boot` or `trapless exec`.
    fn start(&self, py: Python<'_>, words: Vec<String>) -> PyResult<Machine> {
        let output = Output::default();
        let session = py.detach(|| self.0.start(&words, Box::new(output.clone())));
        py.check_signals()?;
        Ok(Machine::new(answer(session)?, output))
    }

    /// Goes on with a checkpoint.
    fn resume(&self, py: Python<'_>, path: PathBuf) -> PyResult<Machine> {
        let output = Output::default();
        let session = py.detach(|| self.0.resume(&path, Box::new(output.clone())));
        py.check_signals()?;
        Ok(Machine::new(answer(session)?, output))
    }
}

/// A workload with its images.
#[pyclass(frozen)]
pub struct Plan(Arc<trapless_cli::Plan>);

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
        let run = RunId { machine, seed };
        let output = Output::default();
        let console = Box::new(output.clone());
        let session = py.detach(|| self.0.session(&run, trace.as_deref(), console));
        Ok(Machine::new(answer(session)?, output))
    }

    /// Refuses what cannot run on these machines.
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
