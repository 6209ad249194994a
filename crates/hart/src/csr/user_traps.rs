//! The registers of user-level traps (Xuer), and their changes by traps and returns.

use serde::{Deserialize, Serialize};
use trapless_isa::cause::INTERRUPT;
use trapless_isa::cause::exception::{
    LOAD_GUEST_PAGE, LOAD_MMIO_PAGE, STORE_GUEST_PAGE, STORE_MMIO_PAGE,
};
use trapless_isa::haiov::ustatus;
use trapless_isa::{Mode, Priv};

use crate::syndrome::Syndrome;

/// Number of the user interrupt for events of a user context: that of external interrupts in the N
/// extension.
const USER_EVENT: u64 = 8;

/// Registers of the extension.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct UserTraps {
    pub status: u64,
    pub tvec: u64,
    pub scratch: u64,
    pub epc: u64,
    pub cause: u64,
    pub tval: u64,
    pub tinst: u64,
    pub delegation: u64,
}

impl UserTraps {
    /// Records a trap and returns `utvec`.
    pub fn enter(&mut self, from: Mode, epc: u64, syndrome: &Syndrome) -> u64 {
        self.epc = epc;
        self.cause = syndrome.cause;
        // The handler needs no page-table walk: it receives the guest physical address.
        self.tval = match syndrome.cause {
            LOAD_GUEST_PAGE | STORE_GUEST_PAGE | LOAD_MMIO_PAGE | STORE_MMIO_PAGE => syndrome.gpa,
            _ => syndrome.tval,
        };
        self.tinst = syndrome.tinst;
        let enabled = self.status & ustatus::UIE;
        self.status = ustatus::UH | enabled << 4;
        if from.v() {
            self.status |= ustatus::UPV;
        }
        if from.privilege() == Priv::S {
            self.status |= ustatus::UPP;
        }
        self.tvec
    }

    /// Records that the handler of a user context interrupts `from`, with these bits of `PENDING`,
    /// and returns its entry address. The handler does not learn what it interrupts.
    pub fn enter_context(&mut self, from: Mode, pending: u64) -> u64 {
        let event = Syndrome {
            tval: pending,
            ..Syndrome::of(INTERRUPT | USER_EVENT)
        };
        let tvec = self.enter(from, 0, &event);
        self.status |= ustatus::UC;
        let vectored = tvec & 1 != 0;
        (tvec & !3) + if vectored { 4 * USER_EVENT } else { 0 }
    }

    /// Clears the last trap.
    pub fn forget_trap(&mut self) {
        (self.epc, self.cause, self.tval, self.tinst) = (0, 0, 0, 0);
    }

    /// Whether the running handler is in a user context.
    pub fn in_context(&self) -> bool {
        const RUNS: u64 = ustatus::UH | ustatus::UC;
        self.status & RUNS == RUNS
    }

    /// Whether HS-mode entered the running handler.
    pub fn began_in_hs(&self) -> bool {
        self.status & (ustatus::UPV | ustatus::UPP) == ustatus::UPP
    }

    /// The mode to which the handler returns.
    pub fn interrupted(&self) -> Mode {
        let guest = self.status & ustatus::UPV != 0;
        let privilege = if guest && self.status & ustatus::UPP != 0 {
            Priv::S
        } else {
            Priv::U
        };
        Mode::new(privilege, guest)
    }

    /// Ends a handler outside user contexts.
    pub fn leave(&mut self) {
        self.status = (self.status & ustatus::UPIE) >> 4 | ustatus::UPIE;
    }
}
