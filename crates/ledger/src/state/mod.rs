//! State of a ledger between events.

pub(crate) mod chain;
pub(crate) mod handler;
pub(crate) mod hart;
pub(crate) mod live;
pub(crate) mod queued_events;
pub(crate) mod sorted;
pub(crate) mod sound;
pub(crate) mod thread;
pub(crate) mod totals;
pub(crate) mod vcpu;
pub(crate) mod vhart;
