//! Execution: the run loop, traps, and two engines with the same results.

mod callbacks;
mod context;
mod exchange;
pub(crate) mod interp;
mod native;
pub(crate) mod noted_timer;
pub(crate) mod run;
mod trap;
pub(crate) mod trigger_state;
pub(crate) mod triggered;
pub(crate) mod turn;
