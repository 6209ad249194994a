//! Message windows and wired windows.

mod messages;
mod wires;

pub(super) use messages::PROGRAMS as MESSAGES;
pub(super) use wires::PROGRAMS as WIRES;
