//! Tables, HTML pages and traces from ledgers and events.
//!
//! ```text
//! LedgerFile ──> Comparison ──> report (terminal), page (HTML)
//! events ──> TrapLog (text), PerfettoTrace, Sequence (Mermaid, text)
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`compare`] | ledgers as columns |
//! | [`exits`], [`figures`] | what a report says: rows of figures |
//! | [`findings`] | the same in sentences |
//! | [`classes`] | the same for interrupts by class |
//! | [`text`] | the report for a terminal |
//! | [`html`] | the report as a page |
//! | [`log`] | traps as lines of text |
//! | [`perfetto`] | traces for the Perfetto viewer |
//! | [`sequence`], `actors`, `episodes`, `diagram` | sequence diagram of one interrupt |
//! | [`moves`] | what moving a vCPU costs |
//! | [`phases`] | tables of runs that make one class of interrupts after the other |
//! | [`number`] | numbers for people |

mod actors;
pub mod classes;
pub mod compare;
mod diagram;
mod episodes;
pub mod exits;
pub mod figures;
pub mod findings;
pub mod html;
pub mod log;
pub mod moves;
pub mod number;
pub mod perfetto;
pub mod phases;
mod protobuf;
pub mod sequence;
mod table;
pub mod text;

pub use html::page;
pub use log::TrapLog;
pub use perfetto::PerfettoTrace;
pub use table::Style;
pub use text::report;
