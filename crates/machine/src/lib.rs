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
//! | `config` | what a machine is: [`preset`] and its options, [`machines`] by name, out of files as well, interrupt architectures from outside the project (`own`), the cost model ([`cost`]), ISA strings of users |
//! | [`fdt`] | the machine's own device tree |
//! | [`boot`] | loading kernels, firmware, ELF programs, device trees |
//! | `construct` | from a configuration to a [`Machine`] |
//! | `machine`, `inspect`, `statistics` | what is in a machine, looking at it from outside, what the engines did |
//! | `bus` | what a hart sees beyond RAM: the [`map`], what answers an address and raises wires, devices (`peripherals`, [`htif`]), the interrupt architecture and what it may access (`interrupts`, `protection`), interrupts between harts that arrive in time (`feed`) |
//! | `drive` | whose turn it is (`schedule`), when a run ends (`progress`), [`lockstep`] with an interpreted twin, the clock |
//! | `time` | a whole machine in a file ([`checkpoint`]), where it was and how it gets there again ([`history`]), one moment to which it goes back often, input with the times of its arrival, what nobody hears twice |
//! | `outside`, `shared` | what comes from outside; a sink that its owner reads while the machine feeds it |
//! | [`log`] | text logs of instructions, CSRs and the interrupt architecture |
//! | `error` | what a user did wrong, as one sentence |

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
