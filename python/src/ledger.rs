//! Ledgers and reports.

use std::path::PathBuf;

use pyo3::prelude::*;
use trapless_ledger::LedgerFile;
use trapless_report::Style;

use crate::error::{Error, answer, objects};

/// A ledger.
#[pyclass(frozen)]
pub struct Ledger(LedgerFile);

impl Ledger {
    /// A ledger from this file.
    pub fn new(file: LedgerFile) -> Self {
        Self(file)
    }

    /// The file.
    pub fn file(&self) -> &LedgerFile {
        &self.0
    }
}

#[pymethods]
impl Ledger {
    /// From its JSON text.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        let file = LedgerFile::from_json(text);
        file.map(Self)
            .map_err(|e| Error::new_err(format!("this is not a ledger: {e}")))
    }

    /// Its JSON text.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// The ledger as dictionaries and lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        objects(py, &self.0.to_json())
    }

    /// Machine it is of.
    #[getter]
    fn machine(&self) -> &str {
        &self.0.run.machine
    }

    /// Workload.
    #[getter]
    fn workload(&self) -> &str {
        &self.0.run.workload
    }

    /// Seed of the run.
    #[getter]
    fn seed(&self) -> Option<u64> {
        self.0.run.configuration.get("seed")?.parse().ok()
    }
}

fn files(ledgers: Vec<PyRef<'_, Ledger>>) -> PyResult<Vec<LedgerFile>> {
    if ledgers.is_empty() {
        return Err(Error::new_err("there are no ledgers to report on"));
    }
    Ok(ledgers.iter().map(|ledger| ledger.0.clone()).collect())
}

/// Reads the ledgers of a file.
#[pyfunction]
pub fn read_ledgers(path: PathBuf) -> PyResult<Vec<Ledger>> {
    let files = answer(trapless_run::read_ledgers(&path))?;
    Ok(files.into_iter().map(Ledger).collect())
}

/// The report as text.
#[pyfunction]
pub fn report(ledgers: Vec<PyRef<'_, Ledger>>, width: usize) -> PyResult<String> {
    let style = Style {
        colour: false,
        width,
    };
    Ok(trapless_report::report(&files(ledgers)?, style))
}

/// The report as an HTML page.
#[pyfunction]
pub fn page(ledgers: Vec<PyRef<'_, Ledger>>) -> PyResult<String> {
    Ok(trapless_report::page(&files(ledgers)?))
}

/// The figures of the report.
#[pyfunction]
pub fn summary<'py>(
    py: Python<'py>,
    ledgers: Vec<PyRef<'py, Ledger>>,
) -> PyResult<Bound<'py, PyAny>> {
    objects(py, &trapless_report::summary(&files(ledgers)?))
}
