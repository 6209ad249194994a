//! Tables in memory: directories and page tables, and what is remembered of them.

pub(crate) mod cache;
pub(crate) mod context;
pub(crate) mod walk;
