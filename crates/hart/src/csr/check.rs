//! Access rights of CSRs.

use trapless_isa::csr::{self, envcfg, hstatus, stateen0, status};
use trapless_isa::port::CsrFault;
use trapless_isa::{Mode, Priv};

use super::user::is_user;
use crate::hart::Hart;
use crate::platform::Platform;
use CsrFault::{Illegal, Virtual};

/// Lowest privilege an address encodes: 0 U, 1 S, 2 HS (hypervisor and VS CSRs), 3 M.
fn level(addr: u16) -> u16 {
    addr >> 8 & 3
}

/// Whether an address is that of a read-only CSR: its two highest bits are set (section "CSR
/// Address Mapping Conventions").
pub(super) fn is_read_only(addr: u16) -> bool {
    addr >> 10 == 3
}

/// Whether an address is designated for custom use below M-mode (section "CSR Address Mapping
/// Conventions").
fn is_custom(addr: u16) -> bool {
    match addr >> 8 {
        0x8 => true,
        0x5 | 0x6 | 0x9 | 0xA | 0xC | 0xD | 0xE => addr & 0xC0 == 0xC0,
        _ => false,
    }
}

impl Hart {
    /// Whether the current mode may access a CSR (privileged specification, "CSR Address Mapping
    /// Conventions" and "Trap Cause Codes").
    pub(super) fn csr_check(
        &self,
        addr: u16,
        write: bool,
        plat: &dyn Platform,
    ) -> Result<(), CsrFault> {
        if write && is_read_only(addr) {
            return Err(Illegal);
        }
        let v = self.mode.v();
        let privilege = self.mode.privilege();
        let allowed = match privilege {
            Priv::M => true,
            Priv::S => level(addr) <= if v { 1 } else { 2 },
            Priv::U => level(addr) == 0,
        };
        if !allowed {
            // V=1: virtual instruction if HS-mode could do the same with TVM=0.
            return if v
                && level(addr) != 3
                && self.supervisor_gate(addr).is_ok()
                && (self.exists(addr) || plat.has_csr(addr))
            {
                Err(Virtual)
            } else {
                Err(Illegal)
            };
        }
        match addr {
            csr::FFLAGS | csr::FRM | csr::FCSR if !self.fp_enabled() => return Err(Illegal),
            csr::CYCLE..=0xC1F => return self.counter_check(addr),
            csr::SATP => match self.mode {
                Mode::HS if self.csr.mstatus & status::TVM != 0 => return Err(Illegal),
                Mode::VS if self.csr.hstatus & hstatus::VTVM != 0 => return Err(Virtual),
                _ => {}
            },
            csr::HGATP if self.mode == Mode::HS && self.csr.mstatus & status::TVM != 0 => {
                return Err(Illegal);
            }
            _ => {}
        }
        if is_user(addr) && self.config.extensions.xuer {
            return self.user_gate();
        }
        if privilege != Priv::M {
            self.supervisor_gate(addr)?;
            // While a user-level handler runs, sstateen0 is the guest's.
            let process = self.mode == Mode::U && !self.handles(Mode::U);
            if process && !self.custom_gate(addr, self.csr.sstateen[0]) {
                return Err(Illegal);
            }
            if v {
                self.guest_gate(addr)?;
                if self.has_aia() && self.aia_guards(addr, write) {
                    return Err(Virtual);
                }
            }
        }
        Ok(())
    }

    /// Accesses that M-mode denies to lower modes.
    fn supervisor_gate(&self, addr: u16) -> Result<(), CsrFault> {
        let c = &self.csr;
        let open = match addr {
            csr::STIMECMP | csr::VSTIMECMP => {
                c.menvcfg & envcfg::STCE != 0 && c.mcounteren & 2 != 0
            }
            csr::SENVCFG | csr::HENVCFG if self.config.extensions.smstateen => {
                c.mstateen[0] & stateen0::ENVCFG != 0
            }
            csr::SSTATEEN0..=csr::SSTATEEN3 => c.mstateen[usize::from(addr & 3)] >> 63 != 0,
            csr::HSTATEEN0..=csr::HSTATEEN3 => c.mstateen[usize::from(addr & 3)] >> 63 != 0,
            _ => self.stateen_gate(addr, c.mstateen[0]) && self.custom_gate(addr, c.mstateen[0]),
        };
        if open { Ok(()) } else { Err(Illegal) }
    }

    /// Accesses that HS-mode denies to V=1.
    fn guest_gate(&self, addr: u16) -> Result<(), CsrFault> {
        let c = &self.csr;
        let open = match addr {
            csr::STIMECMP => c.henvcfg & envcfg::STCE != 0 && c.hcounteren & 2 != 0,
            csr::SENVCFG if self.config.extensions.smstateen => {
                c.hstateen[0] & stateen0::ENVCFG != 0
            }
            csr::SSTATEEN0..=csr::SSTATEEN3 => c.hstateen[usize::from(addr & 3)] >> 63 != 0,
            _ => self.stateen_gate(addr, c.hstateen[0]) && self.custom_gate(addr, c.hstateen[0]),
        };
        if open { Ok(()) } else { Err(Virtual) }
    }

    /// Bit C of the state-enable registers, if this hart has it.
    pub(crate) fn stateen_custom(&self) -> u64 {
        if self.config.has_custom_state() {
            stateen0::C
        } else {
            0
        }
    }

    /// Bits of an `sstateen` register that the current mode can read and write: those of the levels
    /// above that are set.
    pub(super) fn sstateen_mask(&self, index: usize) -> u64 {
        let custom = if index == 0 { self.stateen_custom() } else { 0 };
        let guest = if self.mode.v() {
            self.csr.hstateen[index]
        } else {
            u64::MAX
        };
        custom & self.csr.mstateen[index] & guest
    }

    /// Whether a state-enable register `enables` permits access to a custom CSR (chapter
    /// "Smstateen/Ssstateen").
    fn custom_gate(&self, addr: u16, enables: u64) -> bool {
        enables & self.stateen_custom() == self.stateen_custom() || !is_custom(addr)
    }

    /// Whether VS-mode may write `vstimecmp` by its alias.
    pub(crate) fn writes_vstimecmp(&self) -> bool {
        self.config.extensions.sstc
            && self.supervisor_gate(csr::STIMECMP).is_ok()
            && self.guest_gate(csr::STIMECMP).is_ok()
            && !(self.has_aia() && self.aia_guards(csr::STIMECMP, true))
    }

    /// Whether the current mode may read `time`.
    pub(crate) fn time_readable(&self) -> bool {
        self.counter_check(csr::TIME).is_ok()
    }

    fn counter_check(&self, addr: u16) -> Result<(), CsrFault> {
        let bit = 1u64 << (addr & 31);
        let c = &self.csr;
        if self.mode == Mode::M {
            return Ok(());
        }
        if c.mcounteren & bit == 0 {
            return Err(Illegal);
        }
        match self.mode {
            Mode::U if self.counters_of_user() & bit == 0 => Err(Illegal),
            Mode::VS if c.hcounteren & bit == 0 => Err(Virtual),
            Mode::VU if c.hcounteren & c.scounteren & bit == 0 => Err(Virtual),
            _ => Ok(()),
        }
    }

    /// Whether the hart implements a CSR at all.
    fn exists(&self, addr: u16) -> bool {
        self.csr_read(addr).is_some()
    }
}
