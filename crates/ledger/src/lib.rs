//! Counts, attributes and times every trap of a run.
//!
//! The machine records [`event::Event`]s; nothing here has an effect on execution.
//!
//! ```text
//! events ──> Ledger ──> LedgerFile ──> JSON (docs/ledger.schema.json)
//!        └─> EventStream ──> JSON Lines
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `events` | events of the machine ([`event`]), their fields by name, combinations of sinks; streams of events in files ([`stream`], [`replay`]) |
//! | [`config`] | device windows and clock, for names |
//! | `ledger` | [`Ledger`]: phases, virtual time, states of harts and vCPUs |
//! | `rules` | how events are counted: exits, their reasons and what is charged to them (`attribution`); interrupts by class, from sent to taken, and their cost (`delivery`, `controller`, `cost`, `interrupt_files`); threads of the host (`switch`); accesses handled in user mode, events of guests (`redirect`, `vei`) |
//! | `state` | state of the rules, queries during a run (`live`), and validation of states from checkpoints (`sound`) |
//! | [`reason`], [`reason_key`] | why a guest left V=1, and its name in ledgers |
//! | [`class`] | interrupt classes, states of vCPUs |
//! | [`counters`], [`histogram`] | declaration of counters; latencies |
//! | [`document`], `export` | the JSON form |
//! | `names`, `per_mode` | enumerations with names; figures by mode |

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
