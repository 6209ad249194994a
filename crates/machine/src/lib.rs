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
//! | [`cost`] | the cost model as data |
//! | [`map`] | physical memory map |
//! | [`boot`] | loading kernels, firmware, ELF programs, device trees |
//! | [`fdt`] | the machine's own device tree |
//! | `bus` | who answers an address; wires; ledger |
//! | `feed` | interrupts between harts arrive in time |
//! | `schedule` | whose turn it is |
//! | [`lockstep`] | a machine and its interpreted twin |
//! | [`log`] | text logs of instructions, CSRs and the interrupt architecture |
//! | [`htif`] | Spike's `tohost`/`fromhost` |

pub mod boot;
mod bus;
pub mod cost;
mod error;
pub mod fdt;
mod feed;
pub mod htif;
mod isa_string;
pub mod lockstep;
pub mod log;
mod machine;
pub mod map;
mod peripherals;
pub mod preset;
mod protection;
mod schedule;
mod shared;
mod statistics;

pub use boot::{Content, Payload};
pub use error::Error;
pub use machine::Machine;
pub use peripherals::Peripherals;
pub use preset::{Engine, MachineConfig, presets};
pub use schedule::{Limits, Outcome};
pub use shared::Shared;
pub use statistics::EngineStatistics;
