//! Tables, HTML pages and traces from ledgers.
//!
//! | module | subject |
//! |---|---|
//! | [`compare`] | what a report says: columns, rows, findings |
//! | [`text`] | the report for a terminal |
//! | [`html`] | the report as a page |
//! | [`log`] | traps as lines of text |

pub mod compare;
pub mod html;
pub mod log;
pub mod number;
mod table;
pub mod text;

pub use html::page;
pub use log::TrapLog;
pub use text::{Style, report};
