//! Harts, bus, controllers, devices and clock put together.
//!
//! ```no_run
//! use trapless_machine::{Content, Limits, Machine, MachineConfig, Payload, Peripherals};
//!
//! # fn main() -> Result<(), trapless_machine::Error> {
//! let mut config = MachineConfig::preset("sstc")?;
//! config.harts = 2;
//! let payload = Payload {
//!     firmware: Some(std::fs::read("fw_dynamic.bin").unwrap()),
//!     kernel: Some(Content::of_file("Image".as_ref()).unwrap()),
//!     append: "console=ttyS0".into(),
//!     ..Payload::default()
//! };
//! let peripherals = Peripherals::new(Box::new(std::io::stdout()));
//! let mut machine = Machine::boot(config, &payload, peripherals)?;
//! println!("{:?}", machine.run(&Limits::default()));
//! # Ok(())
//! # }
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`preset`] | the machines and their options |
//! | [`machines`] | machines by name, out of files as well |
//! | `own` | interrupt architectures from outside the project |
//! | [`cost`] | the cost model as data |
//! | [`map`] | physical memory map |
//! | `isa_string` | ISA strings of users, such as `rv64gc_h_sstc` |
//! | [`boot`] | loading kernels, firmware, ELF programs, device trees |
//! | [`fdt`] | the machine's own device tree |
//! | `outside` | what comes from outside: typed lines, frames |
//! | `peripherals` | what is plugged into a machine |
//! | `construct` | from a configuration to a [`Machine`] |
//! | `machine`, `inspect` | what is in a machine, and looking at it from outside |
//! | `bus` | what a hart sees beyond RAM |
//! | `address_map`, `wires` | what answers an address; interrupt wires and virtual time of devices |
//! | `interrupts` | the interrupt architecture, and what it does to the harts |
//! | `feed` | interrupts between harts arrive in time |
//! | `protection` | what the interrupt architecture may access in memory |
//! | `schedule`, `progress` | whose turn it is, and when a run ends |
//! | [`checkpoint`] | a whole machine in a file |
//! | [`history`] | where a machine was, and how it gets there again |
//! | `moment` | one moment to which it goes back often |
//! | `input`, `past` | input with the times of its arrival; what nobody hears twice |
//! | `statistics` | what the engines did |
//! | [`lockstep`] | a machine and its interpreted twin |
//! | [`log`] | text logs of instructions, CSRs and the interrupt architecture |
//! | `shared` | a sink that its owner reads while the machine feeds it |
//! | `error` | what a user did wrong, as one sentence |
//! | [`htif`] | Spike's `tohost`/`fromhost` |

mod address_map;
pub mod boot;
mod bus;
pub mod checkpoint;
mod construct;
pub mod cost;
mod error;
pub mod fdt;
mod feed;
pub mod history;
pub mod htif;
mod input;
mod inspect;
mod interrupts;
mod isa_string;
pub mod lockstep;
pub mod log;
mod machine;
pub mod machines;
pub mod map;
mod moment;
mod outside;
mod own;
mod past;
mod peripherals;
pub mod preset;
mod progress;
mod protection;
mod schedule;
mod shared;
mod statistics;
mod virtual_time;
mod wires;

pub use boot::{Content, Payload};
pub use error::Error;
pub use history::{History, Place};
pub use input::Arrival;
pub use machine::Machine;
pub use machines::Machines;
pub use moment::{Change, Moment};
pub use outside::{Input, Uplink};
pub use own::{Architecture, OwnMachine};
pub use peripherals::Peripherals;
pub use preset::{Engine, MachineConfig, presets};
pub use progress::{Limits, Outcome};
pub use shared::Shared;
pub use statistics::EngineStatistics;
pub use trapless_intc::Row as InterruptRow;
pub use virtual_time::VirtualTime;
