//! User-level traps (Xuer): exceptions of a guest that a handler in U-mode takes, in the address
//! space that `satp` names.

use trapless_isa::cause::exception::{
    LOAD_GUEST_PAGE, LOAD_MMIO_PAGE, STORE_GUEST_PAGE, STORE_MMIO_PAGE,
};
use trapless_isa::csr::{self, hstatus};
use trapless_isa::haiov::{huedeleg, ustatus};
use trapless_isa::port::CsrFault;
use trapless_isa::{Mode, Priv};

use super::fields::{merge, tvec};
use crate::hart::Hart;

/// Exceptions that HS-mode can delegate to U-mode.
const HUEDELEG: u64 = huedeleg::ECALL_VS
    | huedeleg::LOAD_GUEST
    | huedeleg::VIRTUAL
    | huedeleg::STORE_GUEST
    | huedeleg::LOAD_MMIO
    | huedeleg::STORE_MMIO;

/// Bits of `ustatus` that U-mode can write.
const USTATUS_U: u64 = ustatus::UIE | ustatus::UPIE;
/// Bits that HS- and M-mode can write.
const USTATUS: u64 = USTATUS_U | ustatus::UPP | ustatus::UPV | ustatus::UH;
/// Whether the address is that of a user-level register.
pub(super) fn is_user(addr: u16) -> bool {
    matches!(addr, csr::USTATUS | csr::UTVEC | csr::UTINST)
        || (csr::USCRATCH..=csr::UTVAL).contains(&addr)
}

impl Hart {
    /// Whether a user-level handler interrupts the guest of this hart while it is in `mode`. As far
    /// as interrupts are concerned, the guest runs.
    #[inline]
    pub(crate) fn handles(&self, mode: Mode) -> bool {
        // Without HUR it is a process of the host, whatever `ustatus` contains.
        mode == Mode::U
            && self.csr.user.status & ustatus::UH != 0
            && self.csr.hstatus & hstatus::HUR != 0
    }

    /// `scounteren` as it applies to U-mode: while a handler runs the register is the guest's, and
    /// `time` alone can be read (UER-11).
    pub(super) fn counters_of_user(&self) -> u64 {
        if self.handles(Mode::U) {
            1 << (csr::TIME & 31)
        } else {
            self.csr.scounteren
        }
    }

    /// `senvcfg` as it applies to the current mode: while a handler runs the register is the
    /// guest's, and acts as if it were 0 (UER-11).
    pub(crate) fn senvcfg(&self) -> u64 {
        if self.handles(self.mode) {
            0
        } else {
            self.csr.senvcfg
        }
    }

    /// Whether the current mode's exception `cause` goes to U-mode.
    pub(crate) fn redirects(&self, cause: u64) -> bool {
        // MMIO page faults are guest-page faults that are reported in another way.
        let reported = match cause {
            LOAD_MMIO_PAGE => LOAD_GUEST_PAGE,
            STORE_MMIO_PAGE => STORE_GUEST_PAGE,
            other => other,
        };
        let c = &self.csr;
        self.mode.v()
            && c.hstatus & hstatus::HUR != 0
            && c.user.delegation >> (cause & 63) & 1 != 0
            && c.medeleg >> (reported & 63) & 1 != 0
    }

    pub(super) fn user_read(&self, addr: u16) -> Option<u64> {
        let u = &self.csr.user;
        let value = match addr {
            _ if !self.config.extensions.xuer => return None,
            csr::USTATUS => u.status,
            csr::UTVEC => u.tvec,
            csr::USCRATCH => u.scratch,
            csr::UEPC => u.epc,
            csr::UCAUSE => u.cause,
            csr::UTVAL => u.tval,
            csr::UTINST => u.tinst,
            csr::HUEDELEG => u.delegation,
            _ => return None,
        };
        Some(value)
    }

    /// `true` if the register is one of these.
    pub(super) fn user_write(&mut self, addr: u16, value: u64) -> bool {
        if !self.config.extensions.xuer {
            return false;
        }
        let pc_mask = self.pc_mask();
        let writable = if self.mode.privilege() == Priv::U {
            USTATUS_U
        } else if self.config.extensions.xhcs {
            USTATUS | ustatus::UC
        } else {
            USTATUS
        };
        let u = &mut self.csr.user;
        match addr {
            csr::USTATUS => u.status = merge(u.status, value, writable),
            csr::UTVEC => u.tvec = tvec(u.tvec, value),
            csr::USCRATCH => u.scratch = value,
            csr::UEPC => u.epc = value & pc_mask,
            csr::UCAUSE => u.cause = value,
            csr::UTVAL => u.tval = value,
            csr::UTINST => u.tinst = value,
            csr::HUEDELEG => u.delegation = value & HUEDELEG,
            _ => return false,
        }
        true
    }

    /// Access to user-level registers: M-mode, HS-mode if M-mode permits it, and U-mode while
    /// `hstatus.HUR` is set.
    pub(super) fn user_gate(&self) -> Result<(), CsrFault> {
        let c = &self.csr;
        if c.mstateen[0] & self.stateen_custom() != self.stateen_custom() && self.mode != Mode::M {
            return Err(CsrFault::Illegal);
        }
        match self.mode {
            Mode::VS | Mode::VU => Err(CsrFault::Virtual),
            Mode::U if c.hstatus & hstatus::HUR == 0 => Err(CsrFault::Illegal),
            _ => Ok(()),
        }
    }
}

/// Fields of `hstatus` that the extension adds.
pub(super) const fn hstatus_user(xuer: bool) -> u64 {
    if xuer { hstatus::HUR } else { 0 }
}
