//! Tables, HTML pages and traces from ledgers.
//!
//! | module | subject |
//! |---|---|
//! | [`compare`] | what a report says: columns, rows, findings |
//! | [`text`] | the report for a terminal |

pub mod compare;
pub mod number;
mod table;
pub mod text;

pub use text::{Style, report};
