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
//! | [`reason`] | why a guest left V=1 |
//! | [`book`] | [`Ledger`]: rules of attribution |
//! | [`class`] | interrupt classes, notifications, slots: what is counted |
//! | `delivery`, `controller`, `cost` | rules by which interrupts are counted per class |
//! | [`files`] | interrupt files (AIA) |
//! | [`chain`] | reason chains |
//! | [`vcpu`] | identity, deadlines and IPIs of vCPUs |
//! | [`vhart`] | vharts of interrupt domains: where they are, what is pending |
//! | [`totals`], [`histogram`] | the counters |
//! | [`mod@file`], [`export`] | the JSON form |
//! | [`stream`], [`replay`] | all events, to a file and back |
//! | [`step`] | names of the steps of virtual interrupts |

pub mod book;
pub mod chain;
pub mod class;
pub mod config;
mod controller;
mod cost;
mod delivery;
pub mod event;
pub mod export;
pub mod file;
pub mod files;
pub mod histogram;
pub mod reason;
pub mod replay;
mod sink;
pub mod step;
pub mod stream;
pub mod totals;
pub mod vcpu;
pub mod vhart;

pub use book::Ledger;
pub use class::{Class, InterruptClass, State};
pub use config::{Config, DeviceMap, DeviceWindow};
pub use delivery::Answered;
pub use file::{HostInfo, LedgerFile, RunInfo, Section};
pub use histogram::{Histogram, Latency};
pub use reason::Reason;
pub use stream::EventStream;
