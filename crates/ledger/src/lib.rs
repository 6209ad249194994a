//! Counts, attributes and times every trap of a run.
//!
//! The machine feeds [`event::Event`]s; nothing here can change what is executed.
//!
//! ```text
//! events ──> Ledger ──> LedgerFile ──> JSON (docs/ledger.schema.json)
//!        └─> EventStream ──> JSON Lines
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `events` | what the machine reports ([`event`]), its fields by name, sinks made of sinks; all events to a file ([`stream`]) and back ([`replay`]) |
//! | [`config`] | device windows and clock, to name what is seen |
//! | `ledger` | [`Ledger`]: phases, virtual time, what is known of harts and vCPUs |
//! | `rules` | what an event changes: which trap is an exit, why, and what is charged to it (`attribution`); interrupts by class, from sent to taken, and their cost (`delivery`, `controller`, `cost`, `interrupt_files`); threads of the host (`switch`); accesses that user mode answers, events of guests (`redirect`, `vei`) |
//! | `state` | what the rules remember, what is told of it while the run goes on (`live`), and whether one out of a checkpoint can have been (`sound`) |
//! | [`reason`], [`reason_key`] | why a guest left V=1, and its name in ledgers |
//! | [`class`] | interrupt classes, states of vCPUs |
//! | [`counters`], [`histogram`] | how a counter is declared; latencies |
//! | [`document`], `export` | the JSON form |
//! | `names`, `per_mode` | enumerations that ledgers name; figures by mode |

pub mod class;
pub mod config;
pub mod counters;
pub mod document;
mod events;
mod export;
pub mod histogram;
mod ledger;
mod names;
mod per_mode;
pub mod reason;
pub mod reason_key;
mod rules;
mod state;

pub use class::{Class, Left, State};
pub use config::{Config, DeviceMap, DeviceWindow};
pub use document::{HostInfo, InterruptClass, LedgerFile, RunInfo, Section};
pub use events::stream::EventStream;
pub use events::{event, fields, replay, stream};
pub use histogram::{Histogram, Latency};
pub use ledger::{Answered, GuestExit, Ledger};
pub use per_mode::{PerMode, Slot};
pub use reason::Reason;
pub use reason_key::{ExitReason, ReasonKey};
pub use state::live::VcpuNow;
pub use state::thread::ThreadName;
