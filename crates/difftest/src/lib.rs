//! Generated bare-metal RV64GC + H programs, run on independent models and compared.
//!
//! ```text
//! seed --families--> Program --elf--> models (QEMU, Spike, trapless) --signature--> compare
//!                       ^                                                              |
//!                       +------------------------ shrink <-----------------------------+
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`rng`] | seeded randomness |
//! | [`asm`], [`elf`] | the assembler, ELF files |
//! | [`layout`] | memory map, step records, log entries |
//! | [`harness`] | reset code, trap handlers, step loop |
//! | [`program`] | a program and its steps |
//! | [`families`] | contents of the steps |
//! | [`model`] | the models, and running them |
//! | [`outcome`], [`compare`] | the result of a run, and comparison of two |
//! | [`verdict`] | one program on the subject and the references |
//! | [`campaign`], [`shrink`], [`report`], [`coverage`] | many programs |

pub mod campaign;
pub mod compare;
pub mod coverage;
pub mod families;
pub mod harness;
pub mod layout;
pub mod model;
pub mod outcome;
pub mod program;
pub mod report;
pub mod rng;
pub mod shrink;
pub mod verdict;

pub use trapless_asm as asm;
pub use trapless_asm::elf;
