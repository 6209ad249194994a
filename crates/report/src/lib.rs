//! Tables, HTML pages and traces from ledgers and events.
//!
//! ```text
//! LedgerFile ──> Comparison ──> report (terminal), page (HTML), summary (JSON)
//! events ──> TrapLog (text), PerfettoTrace, Sequence (Mermaid, text)
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `compare`, `titles` | ledgers as columns, one for all runs that differ only in the seed |
//! | `statistics` | medians and intervals of several runs |
//! | `cell`, [`number`] | figures and numbers as text |
//! | `rows` | rows of a report with a figure for each column: exits by reason, for each interrupt and by class of interrupts, latencies, threads of the host, moves of vCPUs ([`moves`]), [`phases`] |
//! | `findings`, `verdict` | the same as sentences, and a summary in one sentence |
//! | `text`, `table` | the report for a terminal |
//! | `html` | the report as a page |
//! | `summary`, `flat` | the report as JSON; all figures of a run by name |
//! | `log` | traps as lines of text |
//! | `perfetto` | traces for the Perfetto viewer |
//! | [`sequence`] | sequence diagram of one interrupt |

mod cell;
mod compare;
mod findings;
mod flat;
mod html;
mod log;
pub mod number;
mod perfetto;
mod rows;
pub mod sequence;
mod statistics;
mod summary;
mod table;
mod text;
mod titles;
mod verdict;

pub use flat::{Part, parts};
pub use html::page;
pub use log::TrapLog;
pub use perfetto::PerfettoTrace;
pub use rows::{moves, phases};
pub use statistics::Interval;
pub use summary::summary;
pub use table::Style;
pub use text::report;
