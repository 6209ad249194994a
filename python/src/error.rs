//! Errors of Rust as exceptions of Python, with the same sentence.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt};
use pyo3::prelude::*;
use trapless_run::{Failure, sentence};

create_exception!(
    trapless,
    Error,
    PyException,
    "An option, a file or a combination cannot be used; the text says what to do."
);
create_exception!(
    trapless,
    WorkloadError,
    Error,
    "A workload failed, or a kernel panicked."
);

/// The exception for an error of the command's library.
pub fn raised(error: &anyhow::Error) -> PyErr {
    let text = sentence(error);
    match Failure::of(error) {
        Failure::Interrupted => PyKeyboardInterrupt::new_err(()),
        Failure::Workload => WorkloadError::new_err(text),
        Failure::Usage | Failure::System => Error::new_err(text),
    }
}

/// A value, or the exception for an error.
pub fn answer<T>(result: anyhow::Result<T>) -> PyResult<T> {
    result.map_err(|error| raised(&error))
}

/// JSON as objects of Python.
pub fn objects<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (json,))
}
