//! Ledgers as Arrow tables, behind the PyCapsule interface that polars, pyarrow and others read.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array,
};
use arrow_schema::ArrowError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use trapless_ledger::document::Exit;
use trapless_ledger::{LedgerFile, Section};

use crate::error::Error;
use crate::ledger::Ledger;

/// The phase that reports show.
const MEASURED: &str = "workload";
/// Name of the whole run among the phases.
const TOTAL: &str = "total";

/// A table in Arrow's memory format.
#[pyclass(frozen)]
pub struct Table(RecordBatch);

fn cannot(error: ArrowError) -> PyErr {
    Error::new_err(format!("cannot make the table: {error}"))
}

/// The requested sections of a ledger, with the names of their phases. A run without a measured
/// part is measured as a whole.
fn sections<'l>(file: &'l LedgerFile, phase: Option<&'l str>) -> Vec<(&'l str, &'l Section)> {
    match phase {
        Some(MEASURED) => vec![(MEASURED, file.workload())],
        Some(TOTAL) => vec![(TOTAL, &file.total)],
        _ => {
            let wanted = |name: &str| phase.is_none_or(|phase| phase == name);
            let phases = file.phases.iter().map(|p| (p.name.as_str(), &p.totals));
            let total = std::iter::once((TOTAL, &file.total));
            phases
                .chain(total)
                .filter(|(name, _)| wanted(name))
                .collect()
        }
    }
}

/// Columns that identify the run of a row.
#[derive(Default)]
struct Heads {
    files: Vec<String>,
    workloads: Vec<String>,
    machines: Vec<String>,
    seeds: Vec<Option<u64>>,
}

impl Heads {
    fn push(&mut self, source: &str, file: &LedgerFile) {
        self.files.push(source.into());
        self.workloads.push(file.run.workload.clone());
        self.machines.push(file.run.machine.clone());
        let seed = file.run.configuration.get("seed");
        self.seeds.push(seed.and_then(|seed| seed.parse().ok()));
    }

    fn columns(self) -> Vec<(String, ArrayRef)> {
        vec![
            ("file".into(), strings(self.files)),
            ("workload".into(), strings(self.workloads)),
            ("machine".into(), strings(self.machines)),
            ("seed".into(), Arc::new(UInt64Array::from(self.seeds))),
        ]
    }
}

fn strings<S: Into<Option<String>>>(values: impl IntoIterator<Item = S>) -> ArrayRef {
    let values: Vec<Option<String>> = values.into_iter().map(Into::into).collect();
    Arc::new(StringArray::from(values))
}

fn numbers<N: Into<Option<f64>>>(values: impl IntoIterator<Item = N>) -> ArrayRef {
    let values: Vec<Option<f64>> = values.into_iter().map(Into::into).collect();
    Arc::new(Float64Array::from(values))
}

type Columns = Vec<(String, ArrayRef)>;

/// A row for each counter of each ledger.
fn counter_rows(files: &[(String, &LedgerFile)], phase: Option<&str>) -> Columns {
    let mut heads = Heads::default();
    let (mut phases, mut names, mut units, mut values) = (vec![], vec![], vec![], vec![]);
    for (source, file) in files {
        for (phase, section) in sections(file, phase) {
            for figure in section.flatten() {
                heads.push(source, file);
                phases.push(phase.to_string());
                names.push(figure.name);
                units.push(figure.unit);
                values.push(figure.value);
            }
        }
    }
    let mut columns = heads.columns();
    columns.extend([
        ("phase".into(), strings(phases)),
        ("counter".into(), strings(names)),
        ("unit".into(), strings(units)),
        ("value".into(), numbers(values)),
    ]);
    columns
}

/// A row for each reason of exits of each ledger: its counters, and the cycles of all modes.
fn exit_rows(files: &[(String, &LedgerFile)], phase: Option<&str>) -> Columns {
    let mut heads = Heads::default();
    let (mut phases, mut reasons) = (vec![], vec![]);
    let mut counts: Vec<Vec<f64>> = vec![Vec::new(); Exit::COUNTERS.len()];
    let mut cycles = Vec::new();
    for (source, file) in files {
        for (phase, section) in sections(file, phase) {
            for (reason, exit) in &section.exits {
                heads.push(source, file);
                phases.push(phase.to_string());
                reasons.push(reason.as_str().to_string());
                for (column, counter) in counts.iter_mut().zip(Exit::COUNTERS) {
                    column.push((counter.get)(exit) as f64);
                }
                cycles.push(exit.cycles.values().sum::<u64>() as f64);
            }
        }
    }
    let mut columns = heads.columns();
    columns.push(("phase".into(), strings(phases)));
    columns.push(("reason".into(), strings(reasons)));
    let counts = Exit::COUNTERS.iter().zip(counts);
    columns.extend(counts.map(|(counter, values)| (counter.name.into(), numbers(values))));
    columns.push(("cycles".into(), numbers(cycles)));
    columns
}

/// A row for each ledger: the most used counters, measurements of the workload, and every setting.
fn run_rows(files: &[(String, &LedgerFile)]) -> Columns {
    let mut heads = Heads::default();
    files
        .iter()
        .for_each(|(source, file)| heads.push(source, file));
    let mut columns = heads.columns();
    let mut number = |name: &str, of: &dyn Fn(&LedgerFile) -> Option<f64>| {
        let values = files.iter().map(|(_, file)| of(file));
        columns.push((name.into(), numbers(values)));
    };
    number("seconds", &|f| {
        let section = f.workload();
        Some(section.cycles as f64 / f.run.clock.cycles_per_second as f64)
    });
    number("guest_exits", &|f| Some(f.workload().guest_exits as f64));
    number("guest_entries", &|f| {
        Some(f.workload().guest_entries as f64)
    });
    number("firmware_traps", &|f| {
        Some(f.workload().firmware.total as f64)
    });
    number("interrupts_taken", &|f| {
        Some(f.workload().guest_interrupts.taken.values().sum::<u64>() as f64)
    });
    number("work", &|f| {
        f.run.work.as_ref().map(|work| work.count as f64)
    });
    number("instructions", &|f| {
        f.run.counters.get("instructions").map(|n| *n as f64)
    });
    let runs = || files.iter().map(|(_, file)| &file.run);
    let measured: BTreeSet<&str> = runs()
        .flat_map(|run| run.measurements.iter().map(|m| m.name.as_str()))
        .collect();
    for name in measured {
        let value = |f: &LedgerFile| {
            let found = f.run.measurements.iter().find(|m| m.name == name);
            found.map(|m| m.value)
        };
        number(&format!("measurement.{name}"), &value);
    }
    let settings: BTreeSet<&String> = runs().flat_map(|run| run.configuration.keys()).collect();
    for name in settings.into_iter().filter(|name| *name != "seed") {
        let values = runs().map(|run| run.configuration.get(name).cloned());
        columns.push((name.clone(), strings(values)));
    }
    columns.push((
        "revision".into(),
        strings(runs().map(|run| run.git_revision.clone())),
    ));
    columns
}

#[pymethods]
impl Table {
    /// The table `kind` of ledgers: `counters`, `exits` or `runs`. `sources` names the file of
    /// each. `phase`: `workload` for the measured part, `total`, the name of another, or none for
    /// all.
    #[new]
    #[pyo3(signature = (ledgers, sources, kind, phase=None))]
    fn new(
        ledgers: Vec<PyRef<'_, Ledger>>,
        sources: Vec<String>,
        kind: &str,
        phase: Option<&str>,
    ) -> PyResult<Self> {
        let files = ledgers.iter().map(|ledger| ledger.file());
        let files: Vec<_> = sources.into_iter().zip(files).collect();
        let columns = match kind {
            "counters" => counter_rows(&files, phase),
            "exits" => exit_rows(&files, phase),
            "runs" => run_rows(&files),
            other => {
                return Err(Error::new_err(format!(
                    "there is no table {other}; use counters, exits or runs"
                )));
            }
        };
        let columns = columns
            .into_iter()
            .map(|(name, column)| (name, column, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns);
        batch.map(Self).map_err(cannot)
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        let schema = self.0.schema();
        schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// The type of a row (Arrow's PyCapsule interface).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema().as_ref()).map_err(cannot)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The rows (Arrow's PyCapsule interface). There is one type only: the request is ignored, as
    /// the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let schema = self.0.schema();
        let batches = std::iter::once(Ok(self.0.clone()));
        let reader = RecordBatchIterator::new(batches, schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
