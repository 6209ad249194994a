//! RISC-V as data: privilege modes, causes, CSR addresses and fields, instruction decode.
//!
//! Nothing here holds state. Everything else in the workspace stands on this crate.
//!
//! | module | subject |
//! |---|---|
//! | [`mode`] | privilege modes with the V bit folded in |
//! | [`cause`] | exception codes and interrupt numbers with their names |
//! | [`csr`] | CSR addresses, names and field masks |
//! | [`port`] | what crosses the boundary of a hart: interrupt lines, foreign CSRs |
//! | [`sbi`] | SBI extension and function ids, used to name what an `ecall` asked for |

pub mod cause;
pub mod csr;
pub mod mode;
pub mod port;
pub mod sbi;

pub use mode::{Mode, Priv};
