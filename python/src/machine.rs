//! A running machine.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use regex::bytes::Regex;
use trapless_isa::page::{PAGE_SIZE, page_offset};
use trapless_machine::{InterruptRow, Limits, Outcome};
use trapless_run::{Ended, Interrupted, Session};

use crate::error::{Error, answer};
use crate::events::{Event, Filter, Tap};
use crate::ledger::Ledger;
use crate::registers;

/// Maximum number of bytes of one read.
const MOST: u64 = 1 << 32;
/// Maximum number of bytes of console output that are kept.
const KEPT: usize = 64 << 20;

/// Output of a console.
#[derive(Default)]
struct Printed {
    kept: Vec<u8>,
    /// Bytes before those kept.
    dropped: usize,
    /// Position from which to search for expected output.
    expected: usize,
}

impl Printed {
    /// The kept text from position `since` on.
    fn since(&self, since: usize) -> &[u8] {
        let from = since.saturating_sub(self.dropped).min(self.kept.len());
        &self.kept[from..]
    }

    /// Whether the expected output appeared; if so, the next search begins after it.
    fn expect(&mut self, regex: &Regex) -> bool {
        let end = regex
            .find(self.since(self.expected))
            .map(|found| found.end());
        if let Some(end) = end {
            self.expected = self.expected.max(self.dropped) + end;
        }
        end.is_some()
    }
}

/// The console of a machine.
#[derive(Clone, Default)]
pub struct Output(Arc<Mutex<Printed>>);

impl Output {
    fn lock(&self) -> MutexGuard<'_, Printed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut printed = self.lock();
        if printed.kept.len() > KEPT {
            printed.kept.drain(..KEPT / 2);
            printed.dropped += KEPT / 2;
        }
        printed.kept.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Hart, part, name, value and whether it is in use: the fields of `InterruptState` in Python.
type InterruptTuple = (Option<usize>, String, String, String, bool);

/// A machine with its ledger and console.
#[pyclass(frozen)]
pub struct Machine {
    session: Mutex<Session>,
    output: Output,
    stop: Arc<AtomicBool>,
    tap: Tap,
}

impl Machine {
    /// Of a session that prints to `output`.
    pub fn new(session: Session, output: Output) -> Self {
        let stop = session.machine().stop_handle();
        Self {
            output,
            tap: Tap::new(stop.clone()),
            stop,
            session: Mutex::new(session),
        }
    }

    /// The session, unless it runs: a thread that holds the interpreter lock must not wait for it.
    fn session(&self) -> PyResult<MutexGuard<'_, Session>> {
        match self.session.try_lock() {
            Ok(session) => Ok(session),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Error::new_err(
                "the machine is running: a callback or another thread can look at it when run() has \
                 returned; stop() ends it",
            )),
        }
    }

    fn check_hart(session: &Session, hart: usize) -> PyResult<()> {
        let harts = session.machine().harts().len();
        if hart < harts {
            return Ok(());
        }
        Err(Error::new_err(format!(
            "there is no hart {hart}: the machine has harts 0 to {}",
            harts - 1
        )))
    }

    /// Physical pieces of `len` bytes from `addr`, which is virtual if a hart is named.
    fn pieces(
        session: &Session,
        addr: u64,
        len: u64,
        hart: Option<usize>,
    ) -> PyResult<Vec<(u64, usize)>> {
        let Some(hart) = hart else {
            return Ok(vec![(addr, len as usize)]);
        };
        Self::check_hart(session, hart)?;
        let hart = &session.machine().harts()[hart];
        let (mut pieces, mut done) = (Vec::new(), 0);
        while done < len {
            let va = addr.wrapping_add(done);
            let part = (PAGE_SIZE - page_offset(va)).min(len - done);
            let Some(pa) = hart.debug_translate(va) else {
                return Err(Error::new_err(format!(
                    "hart {} has nothing at virtual address {va:#x}",
                    hart.id()
                )));
            };
            pieces.push((pa, part as usize));
            done += part;
        }
        Ok(pieces)
    }
}

fn nothing_at(session: &Session, addr: u64) -> PyErr {
    let ram = session.machine().ram();
    let (base, end) = (ram.base(), ram.base() + ram.size());
    Error::new_err(format!(
        "there is no memory at physical address {addr:#x}: RAM is from {base:#x} to {end:#x}"
    ))
}

/// Name of an outcome, and the exit status of the guest if it has one.
fn outcome(ended: Ended) -> (&'static str, Option<u64>) {
    match ended {
        Ended::Panicked(_) => ("panic", None),
        Ended::Caller => ("expected", None),
        Ended::Machine(outcome) => match outcome {
            Outcome::PoweredOff => ("off", None),
            Outcome::Rebooted => ("reboot", None),
            Outcome::Exit(code) => ("exit", Some(code)),
            Outcome::Idle => ("idle", None),
            Outcome::Stopped | Outcome::Observer(_) | Outcome::Diverged => ("stopped", None),
            Outcome::Limit => ("limit", None),
        },
    }
}

#[pymethods]
impl Machine {
    /// Runs it. `until`: cycles of virtual time; `instructions`: of all harts since reset;
    /// `expect`: regular expression that the console is to print.
    #[pyo3(signature = (until=None, instructions=None, expect=None))]
    fn run(
        &self,
        py: Python<'_>,
        until: Option<u64>,
        instructions: Option<u64>,
        expect: Option<&str>,
    ) -> PyResult<(&'static str, Option<u64>)> {
        let expected = expect.map(Regex::new).transpose();
        let expected = expected.map_err(|e| Error::new_err(format!("cannot use expect: {e}")))?;
        let mut session = self.session()?;
        let limit = session.time_limit().unwrap_or(u64::MAX);
        let limits = Limits {
            until: until.unwrap_or(limit),
            instret: instructions.unwrap_or(u64::MAX),
        };
        let found = || {
            let expected = expected.as_ref();
            expected.is_some_and(|regex| self.output.lock().expect(regex))
        };
        if found() {
            return Ok(outcome(Ended::Caller));
        }
        let mut raised = None;
        let running = &mut *session;
        let ended = py.detach(|| {
            running.run(&limits, &mut |_| {
                let signals = Python::attach(|py| py.check_signals());
                raised = signals.err().or_else(|| self.tap.raised());
                if raised.is_some() {
                    return Err(Interrupted::WithoutResult.into());
                }
                Ok(!found())
            })
        });
        if let Some(raised) = raised.or_else(|| self.tap.raised()) {
            return Err(raised);
        }
        let ended = answer(ended)?;
        // The last output of a guest that powers off may match.
        Ok(outcome(if found() { Ended::Caller } else { ended }))
    }

    /// Ends a run from a callback or another thread.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.tap.traverse(&visit)
    }

    fn __clear__(&self) {
        self.tap.clear();
    }

    /// Name of the machine.
    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(self.session()?.machine().config().machine.clone())
    }

    /// Virtual time in cycles.
    #[getter]
    fn now(&self) -> PyResult<u64> {
        Ok(self.session()?.machine().now())
    }

    /// Instructions retired by all harts.
    #[getter]
    fn instructions(&self) -> PyResult<u64> {
        Ok(self.session()?.machine().instret())
    }

    /// Number of harts.
    #[getter]
    fn harts(&self) -> PyResult<usize> {
        Ok(self.session()?.machine().harts().len())
    }

    /// Whether the measured part of the workload has begun.
    #[getter]
    fn measuring(&self) -> PyResult<bool> {
        Ok(self.session()?.measuring())
    }

    /// Base and size of RAM in bytes.
    #[getter]
    fn ram(&self) -> PyResult<(u64, u64)> {
        let session = self.session()?;
        let ram = session.machine().ram();
        Ok((ram.base(), ram.size()))
    }

    /// The device tree the guest gets.
    #[getter]
    fn device_tree<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, self.session()?.machine().device_tree()))
    }

    /// Reads memory: physical, or at a virtual address of a hart.
    #[pyo3(signature = (addr, len, hart=None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        addr: u64,
        len: u64,
        hart: Option<usize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut session = self.session()?;
        if len > MOST {
            return Err(Error::new_err(format!(
                "cannot read {len} bytes at once: read at most {MOST}"
            )));
        }
        let pieces = Self::pieces(&session, addr, len, hart)?;
        let mut bytes = vec![0; len as usize];
        let mut at = 0;
        for (pa, part) in pieces {
            let read = session
                .machine_mut()
                .read_physical(pa, &mut bytes[at..at + part]);
            if read < part {
                return Err(nothing_at(&session, pa + read as u64));
            }
            at += part;
        }
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes RAM: physical, or at a virtual address of a hart. All or nothing.
    #[pyo3(signature = (addr, data, hart=None))]
    fn write(&self, addr: u64, data: &[u8], hart: Option<usize>) -> PyResult<()> {
        let mut session = self.session()?;
        let pieces = Self::pieces(&session, addr, data.len() as u64, hart)?;
        for &(pa, part) in &pieces {
            if !session.machine().ram().contains(pa, part as u64) {
                return Err(nothing_at(&session, pa));
            }
        }
        let mut rest = data;
        for (pa, part) in pieces {
            let (piece, tail) = rest.split_at(part);
            session.machine_mut().write_physical(pa, piece);
            rest = tail;
        }
        Ok(())
    }

    /// A register or CSR of a hart by name.
    fn get(&self, hart: usize, name: &str) -> PyResult<u64> {
        let session = self.session()?;
        Self::check_hart(&session, hart)?;
        registers::get(&session.machine().harts()[hart], name)
    }

    /// Sets a register or CSR of a hart.
    fn set(&self, hart: usize, name: &str, value: u64) -> PyResult<()> {
        let mut session = self.session()?;
        Self::check_hart(&session, hart)?;
        registers::set(session.machine_mut(), hart, name, value)
    }

    /// Mode of a hart, its virtual time in cycles, instructions it has retired, and whether it
    /// waits.
    fn state(&self, hart: usize) -> PyResult<(&'static str, u64, u64, bool)> {
        let session = self.session()?;
        Self::check_hart(&session, hart)?;
        let hart = &session.machine().harts()[hart];
        Ok((
            hart.mode().name(),
            hart.now(),
            hart.instret(),
            hart.waiting(),
        ))
    }

    /// State of the interrupt architecture: of each row its hart (`None`: of no single one), part,
    /// name, value, and whether it is pending, enabled or in use.
    fn interrupts(&self) -> PyResult<Vec<InterruptTuple>> {
        let rows = self.session()?.machine().interrupt_state();
        let plain = |row: InterruptRow| (row.hart, row.part, row.name, row.value, row.active);
        Ok(rows.into_iter().map(plain).collect())
    }

    /// Types on the console, at virtual time `at` in cycles or now.
    #[pyo3(signature = (data, at=None))]
    fn input(&self, data: &[u8], at: Option<u64>) -> PyResult<()> {
        self.session()?.machine_mut().input(at.unwrap_or(0), data);
        Ok(())
    }

    /// Console output from position `since` on, and the position where it ends.
    fn output<'py>(&self, py: Python<'py>, since: usize) -> (Bound<'py, PyBytes>, usize) {
        let printed = self.output.lock();
        let end = printed.dropped + printed.kept.len();
        (PyBytes::new(py, printed.since(since)), end)
    }

    /// The ledger so far.
    fn ledger(&self) -> PyResult<Ledger> {
        let session = self.session()?;
        answer(session.ledger()).map(Ledger::new)
    }

    /// Writes a checkpoint.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let mut session = self.session()?;
        let saved = &mut *session;
        answer(py.detach(move || saved.save(&path)))
    }

    /// Queues events of these kinds from now on, and of exceptions and interrupts only those with
    /// these causes, if there are any; for `take_events`.
    fn keep_events(&self, kinds: Vec<String>, causes: Vec<u64>) -> PyResult<()> {
        let filter = Filter::new(&kinds, causes)?;
        self.tap.keep(filter, self.session()?.machine_mut());
        Ok(())
    }

    /// Stops to queue events.
    fn drop_events(&self) {
        self.tap.drop_kept();
    }

    /// Takes the events queued since the last call.
    fn take_events(&self) -> Vec<Event> {
        self.tap.take()
    }

    /// Calls `callback` at each such event; `True` stops the run.
    fn on_event(&self, callback: Py<PyAny>, kinds: Vec<String>, causes: Vec<u64>) -> PyResult<u64> {
        let filter = Filter::new(&kinds, causes)?;
        Ok(self
            .tap
            .call(callback, filter, self.session()?.machine_mut()))
    }

    /// Removes a callback.
    fn off_event(&self, id: u64) {
        self.tap.forget(id);
    }
}
