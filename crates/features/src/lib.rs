//! Nothing but its manifest: with these features, a crate that several builds share is compiled
//! once.
//!
//! Cargo gives a crate the features that all who want it in *this* build ask for. So `cargo build
//! -p trapless-cli`, `cargo test` and the wheel would each compile `serde`, and all that stands on
//! it, for themselves.
