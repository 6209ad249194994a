//! Interface of a hart: interrupt lines as inputs, accesses to foreign CSRs as outputs.
//!
//! The hart and the interrupt architectures share these types and are otherwise independent of each
//! other.

use crate::Mode;
use crate::inst::{Inst, NO_REG, Op};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Interrupt inputs of one hart, driven by an interrupt architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lines {
    /// Level inputs by `mip` bit position; ORed into the value of `mip` while they are high. The
    /// VS-level bits 2, 6 and 10 are ORed into `hip`/`vsip` in the same way.
    pub level: u64,
    /// Bits of `mip` that an edge sets once; software clears them (ACLINT SSWI sets SSIP).
    pub pulse: u64,
    /// VS-level bits (2, 10) for which an interrupt has arrived since the last report; reported
    /// once. Meaningful with [`split`](Self::split) only: at V=0 the hart makes them pending in
    /// `hip`.
    pub arrived: u64,
    /// Xtrapless `htlcfg.EN`: pending and enable bits of VS-level interrupts are separate for guest
    /// (`vsip`, `vsie`) and host (`hip`, `hie`), and the host takes its own at V=0 even if
    /// delegated.
    pub split: bool,
    /// The handler of a user context can interrupt the guest that runs here, where interrupt 25
    /// would (HA-IOV, Xhcs).
    pub context: bool,
    /// Bits of `level` that interrupt neither a guest nor a handler of one, although they are
    /// pending (HA-IOV, Xhcs).
    pub withheld: u64,
    /// `hgeip`: guest external interrupts 1..=GEILEN (0 without AIA).
    pub hgeip: u64,
    /// Earliest virtual time in cycles at which these inputs change by time alone;
    /// `u64::MAX` if they do not.
    pub deadline: u64,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            level: 0,
            pulse: 0,
            arrived: 0,
            split: false,
            context: false,
            withheld: 0,
            hgeip: 0,
            deadline: u64::MAX,
        }
    }
}

/// Load or store of a hart outside RAM.
#[derive(Clone, Copy, Debug)]
pub struct MmioAccess {
    /// Hart that executes the access.
    pub hart: usize,
    /// Mode of the access.
    pub mode: Mode,
    /// The hart's local virtual time in cycles.
    pub now: u64,
    /// Physical address.
    pub addr: u64,
    /// Number of bytes: 1, 2, 4 or 8.
    pub size: u8,
}

/// Access to a CSR that the hart does not implement itself.
///
/// Privilege encoded in the address bits 9:8 and read-only encoding in bits 11:10 have been checked
/// by the hart; further checks are up to the owner.
#[derive(Clone, Copy, Debug)]
pub struct CsrAccess {
    /// Hart that executes the access.
    pub hart: usize,
    /// CSR address, 0..=0xfff.
    pub csr: u16,
    /// Mode of the access.
    pub mode: Mode,
    /// `hgatp.VMID` of the hart at the time of the access.
    pub vmid: u16,
    /// The hart's local virtual time in cycles.
    pub now: u64,
    /// Operation of the instruction.
    pub op: CsrOp,
}

/// Load or store of a guest to a page whose G-stage leaf names a doorbell page (HA-IOV, Xvei).
#[derive(Clone, Copy, Debug)]
pub struct DoorbellAccess {
    /// Hart that executes the access.
    pub hart: usize,
    /// Mode of the access: VS or VU.
    pub mode: Mode,
    /// The hart's local virtual time in cycles.
    pub now: u64,
    /// Physical address of the doorbell page.
    pub page: u64,
    /// Offset in the guest's page, 0..=0xfff.
    pub offset: u16,
    /// Number of bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// What is stored; `None` for a load.
    pub stored: Option<u64>,
}

/// The doorbell page does not handle the access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DoorbellFault {
    /// It acts as one through an MMIO leaf, which a handler in U-mode may get (Xuer).
    pub mmio: bool,
}

/// The handler of a user context begins or ends (HA-IOV, Xhcs).
#[derive(Clone, Copy, Debug)]
pub struct ContextAccess {
    /// Hart on which it does.
    pub hart: usize,
    /// Mode that it interrupts, or U.
    pub mode: Mode,
    /// The hart's local virtual time in cycles.
    pub now: u64,
}

/// Registers that a hart exchanges when the handler of a user context interrupts a guest, and when
/// it ends (HA-IOV, Xhcs).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchanged {
    /// Program counter.
    pub pc: u64,
    /// Integer registers; `x[0]` is 0.
    pub x: [u64; 32],
    /// `ustatus`.
    pub ustatus: u64,
    /// `utvec`.
    pub utvec: u64,
    /// `uscratch`.
    pub uscratch: u64,
    /// `satp`.
    pub satp: u64,
    /// `sscratch`.
    pub sscratch: u64,
}

/// Operation of a CSR instruction; `csrrs`/`csrrc` with `x0` are plain reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CsrOp {
    /// Read only.
    Read,
    /// Write only (`csrrw` with `rd = x0`): must not have read side effects.
    Write(u64),
    /// Read the old value, then write this one.
    Swap(u64),
    /// Read the old value, then set these bits.
    Set(u64),
    /// Read the old value, then clear these bits.
    Clear(u64),
}

/// An interrupt file of an IMSIC (Advanced Interrupt Architecture, chapter "Incoming MSI
/// Controller").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileId {
    /// Machine level.
    Machine,
    /// Supervisor level.
    Supervisor,
    /// Guest external interrupt 1..=GEILEN.
    Guest(u8),
}

/// A register of an interrupt file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileRegister {
    /// `xireg` with this value of `xiselect`, 0x70..=0xFF.
    Indirect(u8),
    /// `xtopei`: a write claims the interrupt that it reads.
    Top,
}

/// Access of a hart to one of its own interrupt files. The hart has checked rights.
#[derive(Clone, Copy, Debug)]
pub struct FileAccess {
    /// Hart that executes the access.
    pub hart: usize,
    /// Mode of the access.
    pub mode: Mode,
    /// The hart's local virtual time in cycles.
    pub now: u64,
    /// Which of its files.
    pub file: FileId,
    /// Which register.
    pub register: FileRegister,
    /// Operation of the instruction.
    pub op: CsrOp,
}

/// Where a device's message has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageArrival {
    /// In an interrupt file.
    File {
        /// Hart of the file.
        hart: usize,
        /// Which of its files.
        file: FileId,
        /// It was pending already.
        merged: bool,
    },
    /// Through a message window (Xtrapless) at a source of a domain.
    Window {
        /// Number of the window.
        window: u16,
        /// Interrupt domain.
        domain: u16,
        /// Source.
        source: u16,
        /// It was pending already.
        merged: bool,
    },
    /// At a message window, which has posted nothing.
    Dropped {
        /// Number of the window.
        window: u16,
    },
}

/// The hart has no such interrupt file, or the file no such register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoFile;

impl CsrOp {
    /// The operation of a CSR instruction with this second operand. Its destination is [`NO_REG`]
    /// if it was `x0`.
    #[must_use]
    pub fn of(inst: &Inst, operand: u64) -> Self {
        match inst.op {
            Op::Csrrw | Op::Csrrwi if inst.rd == NO_REG => Self::Write(operand),
            Op::Csrrw | Op::Csrrwi => Self::Swap(operand),
            _ if inst.rs1 == 0 => Self::Read,
            Op::Csrrs | Op::Csrrsi => Self::Set(operand),
            _ => Self::Clear(operand),
        }
    }

    /// The value that the access writes to a register that read as `old`, if it writes.
    #[must_use]
    pub fn written(self, old: u64) -> Option<u64> {
        match self {
            Self::Read => None,
            Self::Write(value) | Self::Swap(value) => Some(value),
            Self::Set(bits) => Some(old | bits),
            Self::Clear(bits) => Some(old & !bits),
        }
    }
}

/// How a CSR access fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CsrFault {
    /// No such CSR, or not accessible: illegal-instruction exception.
    Illegal,
    /// Exists for HS-mode but not from V=1: virtual-instruction exception.
    Virtual,
}

/// One step of an interrupt architecture that delivers virtual interrupts by itself, for the
/// ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VirtualStep {
    /// Virtual time in cycles at the hart that caused it, or at which a device did.
    pub time: u64,
    /// Hart whose access caused it; without meaning if a device did.
    #[serde(deserialize_with = "hart_number")]
    pub hart: usize,
    /// Mode of that access, likewise.
    pub mode: Mode,
    /// A message or a wire of a device caused it, not a hart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_device: bool,
    /// Interrupt domain.
    pub domain: u16,
    /// What happened.
    #[serde(flatten)]
    pub kind: StepKind,
    /// Words of memory the step read and wrote.
    pub memory: u16,
}

/// Kinds of [`VirtualStep`]; `vhart` and `source` are numbers of the step's domain.
///
/// Streams of events, logs, traces and Python use the serialised form of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum StepKind {
    /// A software interrupt was made pending for a vhart.
    PostSoft {
        /// Target.
        vhart: u16,
        /// It was pending already.
        merged: bool,
    },
    /// A source was made pending for a vhart.
    PostSource {
        /// Target.
        vhart: u16,
        /// Source.
        source: u16,
        /// It was pending already.
        merged: bool,
    },
    /// A source of a domain of the host was made pending (message windows).
    PostHost {
        /// Source.
        source: u16,
        /// It was pending already.
        merged: bool,
    },
    /// The lookup found the vhart on a hart, which is signalled.
    Hit {
        /// Target.
        vhart: u16,
        /// Hart it is loaded on.
        #[serde(deserialize_with = "hart_number")]
        on: usize,
    },
    /// The lookup found no hart, and a notification was queued.
    Notified {
        /// Target; the source, if it is one of the host.
        vhart: u16,
        /// Hart of the queue.
        #[serde(deserialize_with = "hart_number")]
        to: usize,
        /// `KIND` of the notification.
        #[serde(with = "notification")]
        kind: u8,
    },
    /// The lookup found no hart, and there is no notification: one is outstanding, or the state
    /// wants none.
    Silent {
        /// Target.
        vhart: u16,
    },
    /// A source's line went low.
    Lowered {
        /// Source.
        source: u16,
    },
    /// The vhart claimed a source (0: none was pending).
    Claimed {
        /// Claiming vhart.
        vhart: u16,
        /// Source.
        source: u16,
    },
    /// The vhart completed a source.
    Completed {
        /// Completing vhart.
        vhart: u16,
        /// Source.
        source: u16,
        /// Its line was still high: pending again.
        again: bool,
    },
    /// A hart's slot became valid.
    Attached {
        /// Vhart now on the hart.
        vhart: u16,
    },
    /// A hart's slot became invalid.
    Detached {
        /// Vhart that was on the hart.
        vhart: u16,
        /// State it was left in (`hifmap.STATE`).
        #[serde(with = "left")]
        state: u8,
    },
    /// A software interrupt was sent to a hart by HS- or M-mode, without firmware.
    HartIpi {
        /// Target hart.
        #[serde(deserialize_with = "hart_number")]
        to: usize,
    },
    /// The host took a notification from its queue.
    Fetched {
        /// Vhart or source.
        id: u16,
        /// `KIND` of the notification.
        #[serde(with = "notification")]
        kind: u8,
    },
    /// A notification was dropped because its queue was full.
    Overflow {
        /// Hart whose queue was full.
        #[serde(deserialize_with = "hart_number")]
        on: usize,
    },
    /// A store of a hart sent a message to an interrupt file (AIA).
    Message {
        /// Hart of the file.
        #[serde(deserialize_with = "hart_number")]
        on: usize,
        /// Guest interrupt file; 0 for the supervisor-level one.
        file: u8,
        /// Interrupt identity.
        identity: u16,
        /// It was pending already.
        merged: bool,
    },
    /// A write of `stopei` claimed an identity (AIA).
    FileClaimed {
        /// As in [`Message`](Self::Message).
        file: u8,
        /// Identity; 0 if none was pending.
        identity: u16,
    },
    /// An event was posted (Xvei).
    EventPosted {
        /// Number in the table of the virtual machine; 0 if the host posted it by address.
        request: u16,
        /// By what.
        by: EventOrigin,
        /// It was posted already, and there is no further notification.
        merged: bool,
    },
    /// An event was put into the queue of a hart (Xvei).
    EventQueued {
        /// That hart.
        #[serde(deserialize_with = "hart_number")]
        to: usize,
        /// Value that its HS-mode will read.
        id: u32,
    },
    /// HS-mode took an event from its queue (Xvei).
    EventTaken {
        /// Value that it read.
        id: u32,
    },
    /// The handler of a user context interrupts the guest of this hart (Xhcs).
    ContextEntered {
        /// `ID` of the context.
        id: u32,
    },
    /// That handler has returned.
    ContextLeft {
        /// `ID` of the context.
        id: u32,
    },
    /// The hart is about to enter a guest, with another vCPU or another interrupt file than before
    /// (AIA).
    FileSelected {
        /// `hstatus.VGEIN`; 0 for none.
        file: u8,
    },
}

/// What posts an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventOrigin {
    /// A guest, by its CSR.
    Guest,
    /// A store of a guest to a doorbell.
    Doorbell,
    /// HS-mode.
    Host,
}

/// Names of the kinds of notifications (`hnotify.KIND`), by value; the first stands for all others.
pub const NOTIFICATIONS: [&str; 4] = ["source", "wake", "yield", "resample"];

/// Names of the states that a vhart is left in (`hifmap.STATE`), by value; the last stands for all
/// others.
pub const LEFT: [&str; 4] = ["stopped", "preempted", "halted", "other"];

/// Maximum number of harts, which bounds tables of them.
const MOST_HARTS: usize = 4096;

/// Number of a hart, for `#[serde(deserialize_with = ...)]`.
///
/// # Errors
/// If no machine has a hart of that number.
pub fn hart_number<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    let hart = usize::deserialize(from)?;
    if hart < MOST_HARTS {
        Ok(hart)
    } else {
        let text = format!("there is no hart {hart}: the last is {}", MOST_HARTS - 1);
        Err(serde::de::Error::custom(text))
    }
}

fn value_of<'de, D: Deserializer<'de>>(from: D, names: &[&str]) -> Result<u8, D::Error> {
    let name = std::borrow::Cow::<str>::deserialize(from)?;
    let found = names.iter().position(|known| *known == name);
    found.map(|value| value as u8).ok_or_else(|| {
        let known = names.join(", ");
        serde::de::Error::custom(format!("{name:?} is none of {known}"))
    })
}

/// A kind of notifications by its name.
mod notification {
    use super::{Deserializer, NOTIFICATIONS, Serializer, value_of};

    #[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
    pub fn serialize<S: Serializer>(kind: &u8, to: S) -> Result<S::Ok, S::Error> {
        let name = NOTIFICATIONS.get(usize::from(*kind));
        to.serialize_str(name.unwrap_or(&NOTIFICATIONS[0]))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
        value_of(from, &NOTIFICATIONS)
    }
}

/// A state that a vhart is left in by its name.
mod left {
    use super::{Deserializer, LEFT, Serializer, value_of};

    #[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
    pub fn serialize<S: Serializer>(state: &u8, to: S) -> Result<S::Ok, S::Error> {
        let name = LEFT.get(usize::from(*state));
        to.serialize_str(name.unwrap_or(&LEFT[LEFT.len() - 1]))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
        value_of(from, &LEFT)
    }
}
