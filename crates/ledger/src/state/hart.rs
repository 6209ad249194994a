//! State of each hart: its mode, the exit that the host handles, the vCPU on it.

use crate::class::{Class, Place};
use crate::events::event::{Guest, Trap};
use crate::state::chain::Steps;
use crate::state::handler::Handler;
use crate::state::thread;
use crate::state::totals::IRQS;
use crate::state::vcpu::{NEVER, Vcpu};
use crate::state::vhart::{Vhart, Vharts};
use serde::{Deserialize, Serialize};
use trapless_isa::Mode;

/// A system call that the host serves for U-mode on a hart.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Whether its number is one that signals a device interrupt.
    pub signals: bool,
    /// Whether it has been counted for a class.
    pub counted: bool,
    /// Traps taken within it.
    pub depth: u32,
}

/// What was charged to an exit whose class is not known yet.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Charged {
    pub firmware_traps: u64,
    pub host_traps: u64,
    pub syscalls: u64,
}

/// An exit that has not been followed by a guest entry yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OpenExit {
    pub reason: usize,
    /// When HS-mode began to handle it.
    pub since: u64,
    pub steps: Steps,
    /// Interrupt class by the reason alone.
    pub class: Option<Class>,
    /// What was charged to it, for exits whose class is known only at the next entry.
    pub charged: Charged,
}

/// M-mode traps taken straight from V=1 whose consequence is not known yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Direct {
    pub first: Trap,
    pub traps: u64,
    /// Those for timers.
    pub timer_traps: u64,
    pub cycles: u64,
    pub instructions: u64,
    pub steps: Steps,
    /// Where the guest was resumed; `None` while M-mode runs.
    pub resumed: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hart {
    pub mode: Mode,
    pub waiting: bool,
    pub since: u64,
    /// Instructions that the hart had retired at its last trap or return; 0 if not known.
    pub instret: u64,
    pub guest: Guest,
    pub vcpu: Option<usize>,
    /// Index of the host's thread that runs here; while a guest runs, of the one that entered it.
    pub thread: usize,
    pub exit: Option<OpenExit>,
    pub direct: Option<Direct>,
    /// Handler in user mode that interrupts the guest.
    pub handler: Option<Handler>,
    /// Times of interrupts raised here and neither taken nor passed to a vCPU; [`NEVER`] if none.
    pub raised: [u64; IRQS],
    /// vCPU that is running or paused here.
    pub loaded: Option<usize>,
    /// Vhart in the slot.
    pub slot: Option<usize>,
    /// System call that the host serves.
    pub call: Option<Call>,
    /// Time and class of the last post, to which the steps of its lookup belong.
    pub posted: Option<(u64, Class)>,
    /// Source that a guest completed last here, which the next resample notification refers to.
    pub completed: u16,
    /// Guest interrupt file that guests are entered with; `None`: no AIA.
    pub file: Option<u8>,
    /// Identity of the host's IPI that has not been claimed yet.
    pub host_ipi: Option<u16>,
}

impl Hart {
    pub fn new(since: u64) -> Self {
        Self {
            mode: Mode::M,
            waiting: false,
            since,
            instret: 0,
            guest: Guest::default(),
            vcpu: None,
            thread: thread::NONE,
            exit: None,
            direct: None,
            handler: None,
            raised: [NEVER; IRQS],
            loaded: None,
            slot: None,
            call: None,
            posted: None,
            completed: 0,
            file: None,
            host_ipi: None,
        }
    }
}

impl Hart {
    /// Whether the vCPU runs: in V=1, or in a handler without a call of the host.
    pub fn runs_guest(&self) -> bool {
        self.mode.v() || self.handler.is_some()
    }

    /// Index of the thread that time in the present mode belongs to.
    pub fn charged_thread(&self) -> usize {
        match &self.handler {
            // It interrupts an unrelated guest.
            Some(h) if self.mode == Mode::U && h.trap.is_interrupt() => thread::HANDLERS,
            _ => self.thread,
        }
    }
}

/// Place of a vCPU: by the slots if one of its harts has them, else by the events of harts.
pub(crate) fn place_of(harts: &[Hart], vharts: &Vharts, index: usize, vcpu: &Vcpu) -> Place {
    match vcpu.slot {
        Some(slot) => vhart_place(harts, vharts.get(slot)),
        None => {
            let hart = vcpu.hart.filter(|h| harts[*h].loaded == Some(index));
            place_on(harts, hart, Place::Off)
        }
    }
}

pub(crate) fn vhart_place(harts: &[Hart], vhart: &Vhart) -> Place {
    place_on(harts, vhart.hart, vhart.left)
}

fn place_on(harts: &[Hart], hart: Option<usize>, off: Place) -> Place {
    match hart.and_then(|h| harts.get(h)) {
        Some(hart) if hart.runs_guest() => Place::Running,
        Some(_) => Place::Paused,
        None => off,
    }
}
