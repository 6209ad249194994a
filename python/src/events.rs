//! Events of a machine: queued for an iterator, or passed to callbacks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyAttributeError, PyKeyError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use trapless_ledger::event::{Event as Told, Sink};
use trapless_ledger::fields::{self, Field, Fields};
use trapless_machine::Machine;

use crate::error::Error;

/// One event. Its fields have the names of the event stream.
#[pyclass(frozen)]
pub struct Event(Told);

impl Event {
    /// All fields; of traps also derived ones.
    fn fields(&self) -> Fields {
        let mut fields = fields::all(&self.0);
        if let Told::Trap(trap) = &self.0 {
            let name = trapless_isa::cause::name(trap.cause).unwrap_or("");
            let more = [
                ("exit", Field::Flag(trap.is_exit())),
                ("interrupt", Field::Flag(trap.is_interrupt())),
                ("code", Field::Number(trap.code())),
                ("name", Field::Name(name.into())),
            ];
            fields.extend(more.map(|(name, field)| (name.into(), field)));
        }
        fields
    }

    fn field<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut fields = self.fields().into_iter();
        let found = fields.find(|(known, _)| known == name);
        found.map(|(_, field)| value(py, field)).transpose()
    }

    fn lacks(&self, name: &str) -> String {
        let fields = self.fields();
        let known: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        let kind = self.0.name();
        format!("a {kind} event has no {name}; it has {}", known.join(", "))
    }
}

fn value(py: Python<'_>, field: Field) -> PyResult<Bound<'_, PyAny>> {
    Ok(match field {
        Field::Number(n) => n.into_pyobject(py)?.into_any(),
        Field::Flag(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Field::Name(name) => name.into_pyobject(py)?.into_any(),
        Field::Nothing => py.None().into_bound(py),
        Field::List(list) => {
            let list = list.into_iter().map(|field| value(py, field));
            PyList::new(py, list.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Field::Group(fields) => group(py, fields)?.into_any(),
    })
}

fn group(py: Python<'_>, fields: Fields) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, field) in fields {
        dict.set_item(name, value(py, field)?)?;
    }
    Ok(dict)
}

/// Text of a value: addresses in hexadecimal.
fn shown(field: &Field) -> String {
    match field {
        Field::Number(n) if *n > 0xFFFF => format!("{n:#x}"),
        field => field.to_string(),
    }
}

#[pymethods]
impl Event {
    /// What kind it is.
    #[getter]
    fn event(&self) -> &'static str {
        self.0.name()
    }

    /// Virtual time in cycles.
    #[getter]
    fn time(&self) -> u64 {
        self.0.time()
    }

    /// Hart on which, or for which, it happened.
    #[getter]
    fn hart(&self) -> usize {
        self.0.hart()
    }

    /// A name that is a keyword of Python ends with `_`: `from_`.
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let field = self.field(py, name.strip_suffix('_').unwrap_or(name))?;
        field.ok_or_else(|| PyAttributeError::new_err(self.lacks(name)))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let field = self.field(py, name)?;
        field.ok_or_else(|| PyKeyError::new_err(self.lacks(name)))
    }

    /// All fields, for a row of a table.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        group(py, self.fields())
    }

    fn __repr__(&self) -> String {
        let (kind, time, hart) = (self.0.name(), self.0.time(), self.0.hart());
        let fields = fields::of(&self.0);
        let fields = fields
            .iter()
            .map(|(name, f)| format!(" {name}={}", shown(f)));
        let fields: String = fields.collect();
        format!("<{kind} at {time} on hart {hart}:{fields}>")
    }
}

/// Filter of events.
pub struct Filter {
    /// Names of kinds; none means all.
    kinds: Vec<String>,
    /// Of traps; none means all.
    causes: Vec<u64>,
}

impl Filter {
    /// Events of these kinds (all if there are none), and of traps those with these causes.
    pub fn new(kinds: &[String], causes: Vec<u64>) -> PyResult<Self> {
        let known = Told::NAMES;
        if let Some(kind) = kinds.iter().find(|kind| !known.contains(&kind.as_str())) {
            return Err(Error::new_err(format!(
                "there are no events of kind {kind}; use {}",
                known.join(", ")
            )));
        }
        let kinds = kinds.to_vec();
        Ok(Self { kinds, causes })
    }

    fn wants(&self, event: &Told) -> bool {
        let name = event.name();
        (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == name))
            && match event {
                Told::Trap(trap) => self.causes.is_empty() || self.causes.contains(&trap.cause),
                _ => true,
            }
    }
}

/// A callback, and its filter.
struct Listener {
    id: u64,
    filter: Filter,
    callback: Py<PyAny>,
}

#[derive(Default)]
struct State {
    attached: bool,
    filter: Option<Filter>,
    kept: VecDeque<Told>,
    listeners: Vec<Arc<Listener>>,
    ids: u64,
    raised: Option<PyErr>,
}

/// A receiver of events, which is attached when it is first used.
#[derive(Clone)]
pub struct Tap {
    state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
}

impl Tap {
    /// `stop` ends the machine's run.
    pub fn new(stop: Arc<AtomicBool>) -> Self {
        let state = Arc::default();
        Self { state, stop }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attach(&self, machine: &mut Machine) {
        if !std::mem::replace(&mut self.lock().attached, true) {
            machine.add_sink(Box::new(self.clone()));
        }
    }

    /// Queues events of `filter` from now on.
    pub fn keep(&self, filter: Filter, machine: &mut Machine) {
        self.attach(machine);
        let mut state = self.lock();
        state.filter = Some(filter);
        state.kept.clear();
    }

    /// Stops to queue events.
    pub fn drop_kept(&self) {
        let mut state = self.lock();
        state.filter = None;
        state.kept.clear();
    }

    /// Takes the queued events.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock().kept)
            .into_iter()
            .map(Event)
            .collect()
    }

    /// Calls `callback` for events of `filter`; returns its number.
    pub fn call(&self, callback: Py<PyAny>, filter: Filter, machine: &mut Machine) -> u64 {
        self.attach(machine);
        let mut state = self.lock();
        state.ids += 1;
        let id = state.ids;
        let listener = Listener {
            id,
            filter,
            callback,
        };
        state.listeners.push(Arc::new(listener));
        id
    }

    /// Removes the callback with this number.
    pub fn forget(&self, id: u64) {
        self.lock().listeners.retain(|listener| listener.id != id);
    }

    /// Shows the callbacks to Python's garbage collector: one often refers to its machine.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(state) = self.state.try_lock() else {
            return Ok(());
        };
        let mut callbacks = state.listeners.iter().map(|listener| &listener.callback);
        callbacks.try_for_each(|callback| visit.call(callback))
    }

    /// Removes all callbacks.
    pub fn clear(&self) {
        let listeners = std::mem::take(&mut self.lock().listeners);
        drop(listeners);
    }

    /// The exception that a callback has raised.
    pub fn raised(&self) -> Option<PyErr> {
        self.lock().raised.take()
    }
}

impl Sink for Tap {
    fn record(&mut self, event: &Told) {
        // Callbacks may add and remove others: the state must not be locked while they run.
        let called: Vec<Arc<Listener>> = {
            let mut state = self.lock();
            if state
                .filter
                .as_ref()
                .is_some_and(|filter| filter.wants(event))
            {
                state.kept.push_back(*event);
            }
            if state.raised.is_some() {
                return;
            }
            let listeners = state.listeners.iter();
            listeners
                .filter(|l| l.filter.wants(event))
                .cloned()
                .collect()
        };
        for listener in called {
            let answer = Python::attach(|py| {
                let answer = listener.callback.call1(py, (Event(*event),))?;
                Ok(answer.bind(py).is(pyo3::types::PyBool::new(py, true)))
            });
            match answer {
                Ok(false) => {}
                Ok(true) => self.stop.store(true, Ordering::Relaxed),
                Err(error) => {
                    self.lock().raised = Some(error);
                    self.stop.store(true, Ordering::Relaxed);
                    return;
                }
            }
        }
    }
}
