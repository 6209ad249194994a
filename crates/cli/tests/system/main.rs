//! The real stack (OpenSBI, Debian's kernel as KVM host, a VMM, Debian's kernel as guest) run
//! through the built `trapless` command. Each test states a promise to the user that it guards.
//!
//! | module | promise |
//! |---|---|
//! | [`workloads`] | every workload ends well on every preset, and with another VMM |
//! | [`determinism`] | a repeated run writes the same ledger |
//! | [`seeds`] | a seed changes when things happen, and nothing else changes a run |
//! | [`kvm`] | the ledger agrees with KVM's statistics in the host |
//! | [`threads`] | the ledger agrees with the host's scheduler |
//! | [`interrupts`] | the ledger agrees with `/proc/interrupts` of host and guest |
//! | [`trace`] | the trace shows what the ledger counts |
//! | [`micro`] | what a guest without Linux does is exactly what the ledger counts |
//! | [`timer`] | what the timer comparison claims |
//! | [`aia`] | what docs/aia.md claims |
//! | [`trapless`] | what Xtrapless claims, and that those who do not know it run as before |
//! | [`uer`] | what user-level exception redirection claims |
//! | [`doorbells`] | what doorbells and shadows claim |
//! | [`contexts`] | what user contexts claim |
//! | [`isolation`] | what guests and processes cannot reach |
//! | [`dedicated`] | a guest on harts of its own does not exit, and the host still works |
//! | [`host_kernel`] | kernels of host and guest can be built with this project's patches |
//! | [`lifecycle`] | what harts of a KVM host go through loses no interrupt |
//! | [`restore`] | saved and restored guests lose no interrupt |
//! | [`checkpoint`] | a run continues out of a file as if it had never stopped |
//! | [`data`] | files come into guests and out of them |
//! | [`passed`] | interrupts of devices that guests have come once, whatever happens meanwhile |
//! | [`pci`] | stock drivers use PCI devices |
//! | [`own`] | a user's workload runs, with files of its own |
//! | [`disk`] | Debian's kernel starts the system on a user's disk |
//! | [`gdb`] | functions of kernels have names in gdb |
//! | [`terminal`] | a shell over pipes shows what is asked, and loses no line |
//! | [`broken`] | broken kernels and initrds do no harm |
//!
//! The runs are made once and shared ([`runs`], [`hosts`]); [`log`] and [`console`] read what they
//! wrote. `docs/ledger-agreement.md` explains which counter equals which figure, and why.

mod aia;
mod broken;
mod checkpoint;
mod console;
mod contexts;
mod data;
mod dedicated;
mod determinism;
mod disk;
mod doorbells;
mod gdb;
mod host_kernel;
mod hosts;
mod interrupts;
mod isolation;
mod kvm;
mod lifecycle;
mod log;
mod micro;
mod own;
mod passed;
mod pci;
mod restore;
mod runs;
mod seeds;
mod terminal;
mod threads;
mod timer;
mod trace;
mod trapless;
mod uer;
mod workloads;
