//! `trapless._native`: machines, runs and ledgers for the Python package `trapless`, which has the
//! public interface (`trapless/*.py`).
//!
//! | module | subject |
//! |---|---|
//! | `program` | the command's parts: machines, workloads, plans |
//! | `machine` | a running machine |
//! | `registers` | registers and CSRs by name |
//! | `events` | events of a machine, queued or passed to a callback |
//! | `ledger` | ledgers and reports |
//! | `table` | ledgers as Arrow tables |
//! | `error` | errors as exceptions |

use pyo3::prelude::*;

mod error;
mod events;
mod ledger;
mod machine;
mod program;
mod registers;
mod table;

/// Contents of the module.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::error::{Error, WorkloadError};
    #[pymodule_export]
    use crate::events::Event;
    #[pymodule_export]
    use crate::ledger::{Ledger, page, read_ledgers, report, summary};
    #[pymodule_export]
    use crate::machine::Machine;
    #[pymodule_export]
    use crate::program::{Plan, Program, option_names};
    #[pymodule_export]
    use crate::table::Table;
}
