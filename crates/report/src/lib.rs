//! Tables, HTML pages and traces from ledgers.
//!
//! | module | subject |
//! |---|---|
//! | [`compare`] | what a report says: columns, rows, findings |
//! | [`text`] | the report for a terminal |
//! | [`html`] | the report as a page |

pub mod compare;
pub mod html;
pub mod number;
mod table;
pub mod text;

pub use html::page;
pub use text::{Style, report};
