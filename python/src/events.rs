//! Events of a machine: kept for an iterator, or told to callbacks as they come.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyAttributeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use trapless_ledger::event::{Event as Told, Guest, Sink};
use trapless_ledger::step::{self, Field};
use trapless_machine::Machine;

use crate::error::Error;

/// Kinds of events.
const KINDS: [&str; 8] = [
    "trap",
    "return",
    "raise",
    "timer_set",
    "device_access",
    "switch",
    "virtual",
    "wait",
];
/// Bit of `xcause` that tells interrupts from exceptions.
const INTERRUPT: u64 = 1 << 63;

fn kind(event: &Told) -> usize {
    match event {
        Told::Trap(_) => 0,
        Told::Return(_) => 1,
        Told::Raise(_) => 2,
        Told::TimerSet(_) => 3,
        Told::DeviceAccess(_) => 4,
        Told::Switch(_) => 5,
        Told::Virtual(_) => 6,
        Told::Wait { .. } => 7,
    }
}

/// One event; its fields depend on its kind.
#[pyclass(frozen)]
pub struct Event(Told);

fn guest(guest: Guest) -> [(&'static str, Field); 2] {
    let vmid = Field::Number(guest.vmid.into());
    [("vmid", vmid), ("context", Field::Number(guest.context))]
}

impl Event {
    /// Names and values of what is known of this kind only.
    fn fields(&self) -> Vec<(&'static str, Field)> {
        use Field::{Flag, Name, Number};
        match &self.0 {
            Told::Trap(t) => {
                let code = t.cause & !INTERRUPT;
                let mut fields = vec![
                    ("from_mode", Name(t.from.name())),
                    ("to_mode", Name(t.to.name())),
                    ("exit", Flag(t.from.v() && t.to.name() == "HS")),
                    ("interrupt", Flag(t.cause & INTERRUPT != 0)),
                    ("cause", Number(t.cause)),
                    ("code", Number(code)),
                    (
                        "name",
                        Name(trapless_isa::cause::name(t.cause).unwrap_or("")),
                    ),
                    ("epc", Number(t.epc)),
                    ("tval", Number(t.tval)),
                    ("gpa", Number(t.gpa)),
                    ("insn", Number(t.insn.into())),
                    ("a0", Number(t.args[0])),
                    ("a1", Number(t.args[1])),
                    ("a6", Number(t.args[2])),
                    ("a7", Number(t.args[3])),
                    ("instret", Number(t.instret)),
                ];
                fields.extend(guest(t.guest));
                fields
            }
            Told::Return(r) => {
                let mut fields = vec![
                    ("from_mode", Name(r.from.name())),
                    ("to_mode", Name(r.to.name())),
                    ("pc", Number(r.pc)),
                    ("masked", Flag(r.masked)),
                    ("instret", Number(r.instret)),
                ];
                fields.extend(guest(r.guest));
                fields
            }
            Told::Raise(r) => {
                let irq = [("irq", Number(r.irq.into()))];
                irq.into_iter().chain(guest(r.guest)).collect()
            }
            Told::TimerSet(t) => {
                let set = [
                    ("mode", Name(t.mode.name())),
                    ("deadline", Number(t.deadline)),
                ];
                set.into_iter().chain(guest(t.guest)).collect()
            }
            Told::DeviceAccess(d) => vec![
                ("mode", Name(d.mode.name())),
                ("addr", Number(d.addr)),
                ("write", Flag(d.write)),
            ],
            Told::Switch(s) => vec![
                ("from_thread", Number(s.from)),
                ("to_thread", Number(s.to)),
                ("satp", Number(s.satp)),
            ],
            Told::Virtual(s) => {
                let mut fields = vec![
                    ("mode", Name(s.mode.name())),
                    ("domain", Number(s.domain.into())),
                    ("step", Name(step::name(&s.kind))),
                    ("memory", Number(s.memory.into())),
                ];
                fields.extend(step::fields(&s.kind));
                fields
            }
            Told::Wait { mode, begin, .. } => {
                vec![("mode", Name(mode.name())), ("begin", Flag(*begin))]
            }
        }
    }
}

fn value<'py>(py: Python<'py>, field: Field) -> PyResult<Bound<'py, PyAny>> {
    Ok(match field {
        Field::Number(n) => n.into_pyobject(py)?.into_any(),
        Field::Flag(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Field::Name(name) => name.into_pyobject(py)?.into_any(),
    })
}

#[pymethods]
impl Event {
    /// What kind it is.
    #[getter]
    fn kind(&self) -> &'static str {
        KINDS[kind(&self.0)]
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

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let fields = self.fields();
        match fields.iter().find(|(known, _)| *known == name) {
            Some((_, field)) => value(py, *field),
            None => {
                let known: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
                Err(PyAttributeError::new_err(format!(
                    "an event of kind {} has no {name}; it has kind, time, hart, {}",
                    self.kind(),
                    known.join(", ")
                )))
            }
        }
    }

    /// All of it, for a row of a table.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("kind", self.kind())?;
        dict.set_item("time", self.time())?;
        dict.set_item("hart", self.hart())?;
        for (name, field) in self.fields() {
            dict.set_item(name, value(py, field)?)?;
        }
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        let fields = self.fields();
        let fields = fields.iter().map(|(name, field)| match field {
            Field::Number(n) if *n > 0xFFFF => format!(" {name}={n:#x}"),
            field => format!(" {name}={field}"),
        });
        let fields: String = fields.collect();
        format!(
            "<{} at {} on hart {}:{fields}>",
            self.kind(),
            self.time(),
            self.hart()
        )
    }
}

/// Which events are wanted.
pub struct Filter {
    kinds: [bool; KINDS.len()],
    /// Of traps; none means all.
    causes: Vec<u64>,
}

impl Filter {
    /// Events of these kinds (all if there are none), and of traps those with these causes.
    pub fn new(kinds: &[String], causes: Vec<u64>) -> PyResult<Self> {
        if let Some(kind) = kinds.iter().find(|kind| !KINDS.contains(&kind.as_str())) {
            return Err(Error::new_err(format!(
                "there are no events of kind {kind}; use {}",
                KINDS.join(", ")
            )));
        }
        let wanted = |name: &str| kinds.is_empty() || kinds.iter().any(|kind| kind == name);
        Ok(Self {
            kinds: KINDS.map(wanted),
            causes,
        })
    }

    fn wants(&self, event: &Told) -> bool {
        self.kinds[kind(event)]
            && match event {
                Told::Trap(trap) => self.causes.is_empty() || self.causes.contains(&trap.cause),
                _ => true,
            }
    }
}

/// A callback, and what it wants.
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

/// A receiver of events, which listens from when something is first wanted.
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

    /// Keeps what `filter` wants from now on.
    pub fn keep(&self, filter: Filter, machine: &mut Machine) {
        self.attach(machine);
        let mut state = self.lock();
        state.filter = Some(filter);
        state.kept.clear();
    }

    /// Keeps nothing more.
    pub fn drop_kept(&self) {
        let mut state = self.lock();
        state.filter = None;
        state.kept.clear();
    }

    /// What was kept.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock().kept)
            .into_iter()
            .map(Event)
            .collect()
    }

    /// Calls `callback` at what `filter` wants; returns its number.
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

    /// Calls the one with this number no more.
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

    /// Calls no callback any more.
    pub fn clear(&self) {
        let listeners = std::mem::take(&mut self.lock().listeners);
        drop(listeners);
    }

    /// What a callback has raised.
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
