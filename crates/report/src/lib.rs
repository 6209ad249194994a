//! Tables, HTML pages and traces from ledgers and events.
//!
//! ```text
//! LedgerFile ──> Comparison ──> report (terminal), page (HTML), summary (JSON)
//! events ──> TrapLog (text), PerfettoTrace, Sequence (Mermaid, text)
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `compare`, `titles` | ledgers as columns, one for all runs that differ in the seed only |
//! | `statistics`, `latency` | what may be said of several runs, and of few values |
//! | `cell` | a figure as text |
//! | `overview`, `verdict` | exits per interrupt, and the one sentence about them |
//! | `exits`, `figures` | what a report says: rows of figures |
//! | `findings` | the same in sentences |
//! | `threads` | the same for threads of the host |
//! | `classes` | the same for interrupts by class |
//! | `text` | the report for a terminal |
//! | `html` | the report as a page |
//! | `summary`, `flat` | the report as JSON; all figures of a run by name |
//! | `log` | traps as lines of text |
//! | `perfetto` | traces for the Perfetto viewer |
//! | [`sequence`], `actors`, `episodes`, `diagram` | sequence diagram of one interrupt |
//! | [`moves`] | what moving a vCPU costs |
//! | [`phases`] | tables of runs that make one class of interrupts after the other |
//! | [`number`] | numbers for people |

mod actors;
mod cell;
mod classes;
mod compare;
mod diagram;
mod episodes;
mod events;
mod exits;
mod figures;
mod findings;
mod flat;
mod html;
mod latency;
mod log;
pub mod moves;
pub mod number;
mod overview;
mod perfetto;
pub mod phases;
mod protobuf;
mod redirected;
pub mod sequence;
mod statistics;
mod summary;
mod table;
mod text;
mod threads;
mod titles;
mod verdict;

pub use flat::{Part, parts};
pub use html::page;
pub use log::TrapLog;
pub use perfetto::PerfettoTrace;
pub use statistics::intervals_json;
pub use summary::summary;
pub use table::Style;
pub use text::report;
