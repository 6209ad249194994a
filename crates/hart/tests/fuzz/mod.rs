//! Random programs on two harts that differ in the engine only.
//!
//! ```text
//! seed ── program: prices, limits                           (program.rs)
//!          │   ├── code, instructions                       (code.rs, instruction.rs)
//!          │   ├── modes, page tables, registers            (space.rs, tables.rs, start.rs)
//!          │   └── trap handler, redirected faults          (handler.rs, user.rs)
//!          ├── world with an interpreter                    (world.rs)
//!          ├── world with a compiler
//!          ├── equal after every slice? else: smaller, text (check.rs, shrink.rs)
//!          └── the same with triggers?                      (triggers.rs)
//! ```

mod check;
mod code;
mod handler;
mod instruction;
mod program;
mod rng;
mod shrink;
mod space;
mod start;
mod tables;
mod triggers;
mod user;
mod world;

pub use check::check;
pub use program::Program;
pub use shrink::report;
pub use triggers::check_triggers;
