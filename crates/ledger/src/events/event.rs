//! Events that the machine reports to the ledger. Times are virtual time in cycles.
//!
//! The declarations are the event stream's format, too (`docs/ledger.md`, section "Event stream"):
//! names and fields of events in streams, logs, traces and Python are those that serde writes.

use serde::{Deserialize, Serialize};
use trapless_isa::Mode;
use trapless_isa::cause::INTERRUPT;
use trapless_isa::port::hart_number;
pub use trapless_isa::port::{EventOrigin, StepKind, VirtualStep};

use crate::events::hex;

/// Identity of the guest context a hart runs, as hardware sees it.
///
/// KVM keeps the vCPU's address in HS-mode's `sscratch` while V=1, which distinguishes the vCPUs of
/// one VMID without help from the host.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize,
)]
pub struct Guest {
    /// `hgatp.VMID`.
    pub vmid: u16,
    /// HS-mode's `sscratch`.
    #[serde(with = "hex")]
    pub context: u64,
}

/// A trap: synchronous exception or interrupt taken by a hart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Trap {
    /// Time of the trap, before its own cost is charged.
    pub time: u64,
    /// Hart that traps.
    #[serde(deserialize_with = "hart_number")]
    pub hart: usize,
    /// Mode it leaves.
    pub from: Mode,
    /// Mode that handles it.
    pub to: Mode,
    /// Guest context, meaningful if `from` or `to` has V=1.
    pub guest: Guest,
    /// `xcause` value with the interrupt bit.
    #[serde(with = "hex")]
    pub cause: u64,
    /// Program counter of the trapped instruction.
    #[serde(with = "hex")]
    pub epc: u64,
    /// Value written to `xtval`.
    #[serde(with = "hex")]
    pub tval: u64,
    /// Guest physical address (already shifted) of a guest-page fault, else 0.
    #[serde(with = "hex")]
    pub gpa: u64,
    /// Bits of the trapped instruction for illegal and virtual-instruction exceptions, else 0.
    #[serde(with = "hex")]
    pub insn: u32,
    /// `a0`, `a1`, `a6`, `a7`: the SBI call, if the cause is an `ecall`.
    #[serde(with = "hex::list")]
    pub args: [u64; 4],
    /// Guest-visible time minus host-visible time, in ticks of `time` (`htimedelta`).
    #[serde(with = "hex")]
    pub htimedelta: u64,
    /// Instructions that the hart has retired; 0 if not known.
    #[serde(with = "hex", default)]
    pub instret: u64,
}

/// A return from a trap: `mret` or `sret`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Return {
    /// Time after its cost.
    pub time: u64,
    /// Hart that returns.
    #[serde(deserialize_with = "hart_number")]
    pub hart: usize,
    /// Mode it leaves.
    pub from: Mode,
    /// Mode it enters.
    pub to: Mode,
    /// Guest context, meaningful if `from` or `to` has V=1.
    pub guest: Guest,
    /// Address where execution continues.
    #[serde(with = "hex")]
    pub pc: u64,
    /// Instructions that the hart has retired, without this return; 0 if not known.
    #[serde(with = "hex", default)]
    pub instret: u64,
    /// From HS-mode to V=1: HS-mode has not enabled its interrupts since it left V=1.
    #[serde(default)]
    pub masked: bool,
}

/// An interrupt became pending for a hart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Raise {
    /// Time at which it was raised.
    pub time: u64,
    /// Hart it is raised for.
    #[serde(deserialize_with = "hart_number")]
    pub hart: usize,
    /// Bit position in `mip` (VS-level ones included).
    pub irq: u8,
    /// Guest context of the hart at that time.
    pub guest: Guest,
}

/// A guest or host wrote a supervisor-level timer comparator directly (Sstc).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TimerSet {
    /// Time of the write.
    pub time: u64,
    /// Hart that wrote.
    #[serde(deserialize_with = "hart_number")]
    pub hart: usize,
    /// Mode of the write: VS means the guest wrote `vstimecmp` through its alias without a trap.
    pub mode: Mode,
    /// Guest context, meaningful for VS.
    pub guest: Guest,
    /// Virtual time in cycles at which it will fire; `u64::MAX` for never.
    #[serde(with = "never")]
    pub deadline: u64,
}

/// Several writes by a guest with no other event of the hart in between; none of their deadlines
/// passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerSets {
    /// The last one.
    pub last: TimerSet,
    /// Time of the first one in cycles.
    pub first: u64,
    /// How many there were, at least 1.
    pub writes: u64,
    /// How many of them had a deadline.
    pub armed: u64,
}

/// An access to a device window by a hart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeviceAccess {
    /// Time of the access.
    pub time: u64,
    /// Hart.
    #[serde(deserialize_with = "hart_number")]
    pub hart: usize,
    /// Mode of the access.
    pub mode: Mode,
    /// Physical address.
    #[serde(with = "hex")]
    pub addr: u64,
    /// Store (`true`) or load.
    pub write: bool,
}

/// A hart switches to another thread of the host's kernel.
///
/// A thread is identified by the address of its `task_struct`, which Linux keeps in `tp` in HS-mode
/// and in `sscratch` while a program runs. There are no events for threads of guests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Switch {
    /// Time of the switch.
    pub time: u64,
    /// Hart.
    #[serde(deserialize_with = "hart_number")]
    pub hart: usize,
    /// Virtual address of the thread that ran until now; 0 for the first that is seen.
    #[serde(with = "hex")]
    pub from: u64,
    /// Virtual address of the thread that runs from now on.
    #[serde(with = "hex")]
    pub to: u64,
    /// `satp` of HS-mode, which translates both.
    #[serde(with = "hex")]
    pub satp: u64,
}

/// A hart begins or ends waiting in WFI.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Wait {
    /// Time.
    pub time: u64,
    /// Hart.
    #[serde(deserialize_with = "hart_number")]
    pub hart: usize,
    /// Mode that executed WFI.
    pub mode: Mode,
    /// Begin (`true`) or end.
    pub begin: bool,
}

/// A PCI device interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PciInterrupt {
    /// Time.
    pub time: u64,
    /// Hart that a message reaches; 0 for others.
    #[serde(deserialize_with = "hart_number")]
    pub hart: usize,
    /// How.
    #[serde(flatten)]
    pub way: PciWay,
}

/// How a PCI device interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "way", rename_all = "snake_case")]
pub enum PciWay {
    /// By a message to an interrupt file.
    Message {
        /// Routing ID of the function; above 0xffff: the IOMMU.
        device: u32,
        /// Guest interrupt file; 0 for one of the host.
        file: u8,
        /// Interrupt identity.
        identity: u32,
        /// It was pending already.
        merged: bool,
    },
    /// By a message through a message window (Xtrapless).
    Window {
        /// Routing ID of the function.
        device: u32,
        /// Number of the window.
        window: u16,
        /// Interrupt domain.
        domain: u16,
        /// Source of the domain.
        source: u16,
        /// It was pending already.
        merged: bool,
    },
    /// By a message to a message window that permits none such.
    Dropped {
        /// Routing ID of the function.
        device: u32,
        /// Number of the window.
        window: u16,
        /// Data of the message.
        data: u32,
    },
    /// By a message that nothing takes.
    Lost {
        /// Routing ID of the function; above 0xffff: the IOMMU.
        device: u32,
        /// Physical address of the message.
        #[serde(with = "hex")]
        addr: u64,
    },
    /// By a wire, which goes high.
    Intx {
        /// Number of the interrupt.
        source: u32,
    },
}

/// The IOMMU carries out a command, stores a message in memory, or refuses an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IommuStep {
    /// Time.
    pub time: u64,
    /// Hart that gave the command; 0 for what no hart asked for, and if a function was waited for.
    #[serde(deserialize_with = "hart_number")]
    pub hart: usize,
    /// What.
    #[serde(flatten)]
    pub act: IommuAct,
}

/// What the IOMMU does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case")]
pub enum IommuAct {
    /// Forgets entries of page tables and MSI tables (`IOTINVAL`).
    InvalidatedTables,
    /// Forgets contexts of devices or processes (`IODIR`).
    InvalidatedDirectory,
    /// Completes a fence (`IOFENCE.C`).
    Fenced,
    /// Stores a message in an interrupt file in memory (MRIF), and sends its notice.
    Stored {
        /// Routing ID of the function.
        device: u32,
        /// Physical address of the file.
        #[serde(with = "hex")]
        file: u64,
        /// Interrupt identity.
        identity: u16,
    },
    /// Refuses an access of a device.
    Refused {
        /// Routing ID of the function.
        device: u32,
        /// Cause (RISC-V IOMMU, section "Fault/Event-Queue").
        cause: u16,
        /// Address that the function gave.
        #[serde(with = "hex")]
        addr: u64,
    },
}

impl Trap {
    /// Whether it is a guest exit: HS-mode handles what happened at V=1.
    pub fn is_exit(&self) -> bool {
        self.from.v() && self.to == Mode::HS
    }

    /// Whether it is an interrupt, not an exception.
    pub fn is_interrupt(&self) -> bool {
        self.cause & INTERRUPT != 0
    }

    /// Code in `xcause`, without the interrupt bit.
    pub fn code(&self) -> u64 {
        self.cause & !INTERRUPT
    }

    /// Address of the CSR, if the trapped instruction is known and accesses one (opcode SYSTEM,
    /// funct3 other than 0 and 4).
    pub fn csr(&self) -> Option<u16> {
        let system = self.insn & 0x7f == 0x73;
        (system && !matches!((self.insn >> 12) & 7, 0 | 4)).then_some((self.insn >> 20) as u16)
    }
}

/// Declares the kinds of events: [`Event`], and methods for properties that all of them have. Each
/// is a struct with the fields `time` and `hart`.
macro_rules! events {
    ($($(#[doc = $doc:literal])* $variant:ident($struct:ident) = $name:literal,)*) => {
        /// An event of a run.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[serde(tag = "event")]
        pub enum Event {
            $($(#[doc = $doc])* #[serde(rename = $name)] $variant($struct),)*
        }

        impl Event {
            /// Names of all kinds, as in event streams.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// Name of its kind.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                }
            }

            /// When it happened.
            pub fn time(&self) -> u64 {
                match self {
                    $(Self::$variant(event) => event.time,)*
                }
            }

            /// Hart on which, or for which, it happened.
            pub fn hart(&self) -> usize {
                match self {
                    $(Self::$variant(event) => event.hart,)*
                }
            }
        }
    };
}

events! {
    /// See [`Trap`].
    Trap(Trap) = "trap",
    /// See [`Return`].
    Return(Return) = "return",
    /// See [`Raise`].
    Raise(Raise) = "raise",
    /// See [`TimerSet`].
    TimerSet(TimerSet) = "timer_set",
    /// See [`DeviceAccess`].
    DeviceAccess(DeviceAccess) = "device",
    /// See [`Switch`].
    Switch(Switch) = "switch",
    /// A step of an architecture that delivers virtual interrupts by itself.
    Virtual(VirtualStep) = "virtual",
    /// See [`Wait`].
    Wait(Wait) = "wait",
    /// See [`PciInterrupt`].
    PciInterrupt(PciInterrupt) = "pci",
    /// See [`IommuStep`].
    Iommu(IommuStep) = "iommu",
}

/// A deadline: `u64::MAX` is none.
mod never {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
    pub fn serialize<S: Serializer>(deadline: &u64, to: S) -> Result<S::Ok, S::Error> {
        Some(*deadline).filter(|at| *at != u64::MAX).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(u64::MAX))
    }
}

/// Receives events. The default does nothing, so that a run without a ledger costs nothing.
pub trait Sink {
    /// Called once for each event, in execution order.
    fn record(&mut self, _event: &Event) {}

    /// Whether [`timer_sets`](Self::timer_sets) may replace single [`TimerSet`]s.
    fn sums_timer_sets(&self) -> bool {
        false
    }

    /// Counts as if each of the writes had been recorded. Called only if
    /// [`sums_timer_sets`](Self::sums_timer_sets).
    fn timer_sets(&mut self, _sets: &TimerSets) {}
}

/// Drops everything.
#[derive(Default, Debug)]
pub struct Discard;
impl Sink for Discard {
    fn sums_timer_sets(&self) -> bool {
        true
    }
}
