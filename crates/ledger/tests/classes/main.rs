//! One test per rule of `docs/ledger.md`, section "Interrupt classes".

mod common;
mod device;
mod ipi;
#[path = "../script/mod.rs"]
mod script;
mod timer;
