//! Exhaustive model check of the Xtrapless delivery protocol.
//!
//! Harts, vCPUs, accesses in flight and the host's blocking path are modelled step by step; the
//! checker visits every state that any interleaving of these steps can reach. `docs/protocol.md`
//! describes what is modelled, what is not, and the results.
//!
//! ```text
//! environment (model.rs)   post, trap, WFI, preempt, return to user space, unplug: whenever they can
//! host software (host.rs)  schedule, block, take notifications, wake
//! hardware (hardware.rs)   post -> lookup -> poke | check -> update CTL -> queue; attach; detach
//! ```
//!
//! Sources have models of their own: [`lines`] for moves and completions, [`resample`],
//! [`grants`], [`windows`] and [`wires`] for those that devices post; so have user contexts and
//! doorbells (HA-IOV): [`contexts`], [`doorbells`]; and KVM's boosts of vCPUs: [`boosts`].

pub mod boosts;
mod check;
mod config;
pub mod contexts;
pub mod doorbells;
pub mod grants;
mod hardware;
mod host;
pub mod lines;
mod liveness;
mod merge;
mod model;
mod mutations;
mod properties;
pub mod resample;
mod state;
mod symmetry;
mod trace;
pub mod windows;
pub mod wires;

pub use check::{Outcome, Verdict, check, check_some, find, visit};
pub use config::{Config, Features, Mutation, Mutations, OnRules};
pub use liveness::{Rest, comes_to_rest};
pub use model::{Action, Protocol};
pub use mutations::Case;
pub use properties::{
    BOUNDED, COMES_TO_REST, NO_DUPLICATE, NO_LOST_WAKEUP, NO_MISSED_DELIVERY, NO_WRONG_TARGET,
    NOTHING_STUCK, ONE_HART, RESTRAINT, TOLD_ONCE,
};
pub use state::{
    Access, Decision, Fault, Handler, Hart, Kind, MAX, Note, Pc, RunState, Scan, Stage, State,
    Thread, Vcpu,
};
pub use trace::trace;
