//! Bare-metal programs that test an implementation of Xtrapless, rule by rule.
//!
//! ```text
//! platform file --+
//!                 v
//! program (a Rust function) --> Script --> ELF --> any machine --> tohost: 1, or 2 * check + 1
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`platform`] | what programs have to know of a machine |
//! | [`script`] | building a program: steps, blocks on other harts and in other modes, checks |
//! | [`programs`] | the programs, in files by chapter of the specification |
//! | [`rules`] | rules that programs do not reach, or not fully, and why |
//! | [`layout`] | memory of a program |
//! | [`run`] | running programs by a command |
//! | `machine` | running a program on a machine in this process (feature `machine`) |

pub mod layout;
#[cfg(feature = "machine")]
pub mod machine;
pub mod platform;
pub mod programs;
pub mod rules;
pub mod run;
pub mod script;
