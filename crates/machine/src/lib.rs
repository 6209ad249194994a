//! A whole machine: harts, bus, interrupt architecture, devices and clock.
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
//! | `config` | configurations: [`preset`] and its options, [`machines`] by name, also from files, interrupt architectures from outside the project (`own`), the cost model ([`cost`]), ISA strings |
//! | [`fdt`] | the machine's own device tree |
//! | [`boot`] | loading kernels, firmware, ELF programs, device trees |
//! | `construct` | builds a [`Machine`] from a configuration |
//! | `machine`, `inspect`, `statistics` | the machine, access to its state from outside, counters of the engines |
//! | `bus` | everything a hart accesses besides RAM: the memory [`map`], address decoding and interrupt wires, devices (`peripherals`, [`htif`]), the interrupt architecture and the memory it may access (`interrupts`, `protection`), timing of interrupts between harts (`feed`) |
//! | `drive` | scheduling of harts (`schedule`), limits and outcomes of runs (`progress`), [`lockstep`] with an interpreted twin, the clock |
//! | `time` | files of a machine's state ([`checkpoint`]), snapshots for running backwards ([`history`]), one point that is restored often (`moment`), input with its times, suppression of events and output during re-execution (`past`) |
//! | `outside`, `shared` | input from outside; an event sink shared with its owner |
//! | [`log`] | text logs of instructions, CSRs and the interrupt architecture |
//! | `error` | errors of users, as one sentence |

pub mod boot;
mod bus;
mod config;
mod construct;
mod drive;
mod error;
pub mod fdt;
mod inspect;
pub mod log;
mod machine;
mod outside;
mod shared;
mod statistics;
mod time;

pub use boot::{Content, Payload};
pub use bus::peripherals::{Peripherals, Transport};
pub use bus::places::{CardEnd, PlatformPort, SharedCard};
pub use bus::{htif, map};
pub use config::machines::Machines;
pub use config::own::{Architecture, OwnMachine};
pub use config::preset::{Engine, MachineConfig, presets};
pub use config::{cost, machines, preset};
pub use drive::lockstep;
pub use drive::progress::{Limits, Outcome};
pub use drive::virtual_time::VirtualTime;
pub use error::Error;
pub use machine::Machine;
pub use outside::{Input, Uplink};
pub use shared::Shared;
pub use statistics::EngineStatistics;
pub use time::history::{History, Place};
pub use time::input::Arrival;
pub use time::moment::{Change, Moment};
pub use time::{checkpoint, history};
pub use trapless_intc::Row as InterruptRow;
pub use trapless_pci::MAX_VIRTUAL_FUNCTIONS;
