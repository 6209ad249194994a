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
//! | [`event`] | what the machine reports |
//! | [`config`] | device windows and clock, to name what is seen |
//! | [`reason`], [`reason_key`] | why a guest left V=1, and its name in ledgers |
//! | [`class`] | interrupt classes, states of vCPUs |
//! | `ledger` | [`Ledger`]: phases, virtual time, what is known of harts and vCPUs |
//! | `attribution` | rules: which trap is an exit, why, and what is charged to it |
//! | `delivery`, `controller`, `cost` | rules: interrupts by class, from sent to taken, and their cost |
//! | `interrupt_files` | the same for interrupt files (AIA) |
//! | `switch` | rules: which thread of the host a hart runs |
//! | `redirect`, `vei` | rules: accesses that user mode answers, events of guests (HA-IOV) |
//! | `hart`, `vcpu`, `vhart`, `chain`, `thread`, `handler`, `queued_events` | what the rules remember |
//! | `live` | what it tells of vCPUs while the run goes on |
//! | [`counters`], `totals`, [`histogram`] | how a counter is declared; the counters of a phase |
//! | [`document`], `export` | the JSON form |
//! | [`stream`], [`replay`] | all events, to a file and back |
//! | `sink` | sinks made of sinks |
//! | `sound` | whether a ledger out of a checkpoint can have been one |
//! | [`fields`], `hex` | fields of events by name, and their numbers as text |
//! | `names`, `per_mode` | enumerations that ledgers name; figures by mode |

mod attribution;
mod chain;
pub mod class;
pub mod config;
mod controller;
mod cost;
pub mod counters;
mod delivery;
pub mod document;
pub mod event;
mod export;
pub mod fields;
mod handler;
mod hart;
mod hex;
pub mod histogram;
mod interrupt_files;
mod ledger;
mod live;
mod names;
mod per_mode;
mod queued_events;
pub mod reason;
pub mod reason_key;
mod redirect;
pub mod replay;
mod sink;
mod sorted;
mod sound;
pub mod stream;
mod switch;
mod thread;
mod totals;
mod vcpu;
mod vei;
mod vhart;

pub use class::{Class, Left, State};
pub use config::{Config, DeviceMap, DeviceWindow};
pub use document::{HostInfo, InterruptClass, LedgerFile, RunInfo, Section};
pub use histogram::{Histogram, Latency};
pub use ledger::{Answered, GuestExit, Ledger};
pub use live::VcpuNow;
pub use per_mode::{PerMode, Slot};
pub use reason::Reason;
pub use reason_key::{ExitReason, ReasonKey};
pub use stream::EventStream;
pub use thread::ThreadName;
