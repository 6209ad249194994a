//! Message windows and wired windows: what devices interrupt without a hart.
//!
//! | file | subject |
//! |---|---|
//! | `registers` | the registers; contents of a snapshot |
//! | `message` | messages |
//! | `wires` | wires that are given to a domain |
//! | `place` | where registers and pages are; device tree node |
//! | `inspect` | state as rows |

mod inspect;
mod message;
mod place;
mod registers;
mod wires;

pub(super) use place::{PHANDLE, Place, node};
pub(super) use registers::{Windows, WireStore};
pub(super) use wires::{Change, Given};
