//! RISC-V as data: privilege modes, causes, CSR addresses and fields, instruction decode.
//!
//! Nothing here holds state, and this crate depends on no other of the workspace. "The privileged
//! specification" and "the unprivileged specification" are the editions 20250508, here and
//! everywhere else.
//!
//! | module | subject |
//! |---|---|
//! | [`mode`] | privilege modes with the V bit folded in |
//! | [`cause`] | exception codes and interrupt numbers with their names |
//! | [`csr`] | CSR addresses, names and field masks |
//! | [`mod@decode`] | instruction words to [`Inst`]; types in [`inst`], text in [`mod@disasm`] |
//! | `compressed` | expansion of 16-bit instructions |
//! | `op_table`, `op_class` | the table of operations, and their classes |
//! | [`extension`] | the table of extensions: switches, names, support elsewhere |
//! | [`page`] | size and numbers of pages |
//! | [`port`] | interface of a hart: interrupt lines, foreign CSRs |
//! | [`semantics`](mod@semantics) | results of integer operations |
//! | [`sbi`] | SBI extension and function ids, for names of calls |
//! | [`xtrapless`] | CSRs, fields and memory structures of Xtrapless; generated |

pub mod cause;
mod compressed;
pub mod csr;
pub mod decode;
pub mod disasm;
pub mod extension;
pub mod haiov;
pub mod inst;
pub mod mode;
mod op_class;
mod op_table;
pub mod page;
pub mod port;
pub mod sbi;
pub mod semantics;
pub mod xtrapless;

pub use decode::decode;
pub use disasm::disasm;
pub use extension::Extensions;
pub use inst::{CostClass, Ext, Format, Inst, Op};
pub use mode::{Mode, Priv};
