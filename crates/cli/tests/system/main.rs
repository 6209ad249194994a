//! The real stack (OpenSBI, Debian's kernel as KVM host, a VMM, Debian's kernel as guest) run
//! through the built `trapless` command. Each test states a promise to the user that it guards.
//!
//! | module | promise |
//! |---|---|
//! | [`workloads`] | every workload ends well on every preset, and with another VMM |
//! | [`determinism`] | a repeated run writes the same ledger |
//! | [`kvm`] | the ledger agrees with KVM's statistics in the host |
//! | [`interrupts`] | the ledger agrees with `/proc/interrupts` of host and guest |
//! | [`timer`] | what the timer comparison claims |
//! | [`aia`] | what docs/aia.md claims |
//! | [`trapless`] | what Xtrapless claims, and that those who do not know it run as before |
//! | [`isolation`] | what guests and processes cannot reach |
//! | [`lifecycle`] | what harts of a KVM host go through loses no interrupt |
//! | [`restore`] | saved and restored guests lose no interrupt |
//! | [`broken`] | broken kernels and initrds do no harm |
//!
//! The runs are made once and shared ([`runs`], [`hosts`]); [`log`] and [`console`] read what they
//! wrote. `docs/ledger-agreement.md` explains which counter equals which figure, and why.

mod aia;
mod broken;
mod console;
mod determinism;
mod disk;
mod hosts;
mod interrupts;
mod isolation;
mod kvm;
mod lifecycle;
mod log;
mod restore;
mod runs;
mod terminal;
mod timer;
mod trapless;
mod workloads;
