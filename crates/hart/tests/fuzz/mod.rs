//! Random programs on two harts that differ in the engine only.
//!
//! ```text
//! seed ── program: code, page tables, registers, prices     (program.rs, instruction.rs, tables.rs)
//!          ├── world with an interpreter                     (world.rs)
//!          ├── world with a compiler
//!          └── equal after every slice? else: smaller, text  (check.rs, shrink.rs)
//! ```

mod check;
mod instruction;
mod program;
mod rng;
mod shrink;
mod tables;
mod world;

pub use check::check;
pub use program::Program;
pub use shrink::report;
