//! `mip`, `mie` and their views for HS and VS (sections 3.1.9, 12.1.3, 18.2.3 and 18.2.9).

use trapless_isa::cause::interrupt::{SEI, SGEI, SSI, STI, VSEI, VSSI, VSTI};
use trapless_isa::csr::envcfg;

use crate::Hart;

const fn bit(irq: u64) -> u64 {
    1 << irq
}

/// VS-level interrupts at their `hip` positions.
pub(crate) const VS_BITS: u64 = bit(VSSI) | bit(VSTI) | bit(VSEI);
/// Interrupts at HS level that `sip` and `sie` show.
pub(super) const S_BITS: u64 = bit(SSI) | bit(STI) | bit(SEI);
/// What `hip` and `hie` show.
pub(super) const H_BITS: u64 = VS_BITS | bit(SGEI);
/// Implemented bits of `mie` without H.
pub(super) const M_BITS: u64 = S_BITS | bit(3) | bit(7) | bit(11);
/// Interrupt numbers from 16 up belong to the interrupt architecture.
pub(super) const CUSTOM_BITS: u64 = !0xFFFF;

impl Hart {
    /// Bits of `mip` that are high only because hardware drives them.
    pub(super) fn lines_only(&self) -> u64 {
        self.lines.level & !self.csr.mip & bit(SEI)
    }

    /// Value of `mip` at the hart's present time.
    pub(crate) fn mip_value(&self) -> u64 {
        let c = &self.csr;
        let mut mip = c.mip | self.lines.level;
        if self.sstc(c.menvcfg) {
            mip &= !bit(STI);
            if self.cycles >= self.timer_at[0] {
                mip |= bit(STI);
            }
        }
        if self.config.extensions.h {
            mip |= c.hvip;
            if self.cycles >= self.timer_at[1] {
                mip |= bit(VSTI);
            }
            let vgein = c.hstatus >> 12 & 0x3F;
            if vgein != 0 && self.lines.hgeip >> vgein & 1 != 0 {
                mip |= bit(VSEI);
            }
            if self.lines.hgeip & c.hgeie != 0 {
                mip |= bit(SGEI);
            }
        }
        mip
    }

    fn sstc(&self, env: u64) -> bool {
        self.config.extensions.sstc && env & envcfg::STCE != 0
    }

    /// Next virtual time in cycles at which a supervisor timer comparator changes `mip`.
    pub(crate) fn timer_deadline(&self) -> u64 {
        let next = |at: u64| if at > self.cycles { at } else { u64::MAX };
        next(self.timer_at[0]).min(next(self.timer_at[1]))
    }

    /// Works out when the comparators fire, after anything that decides it was written.
    pub(super) fn set_timers(&mut self) {
        let c = &self.csr;
        let at = |ticks: u64| ticks.saturating_mul(self.config.cycles_per_tick);
        let host = if self.sstc(c.menvcfg) {
            at(c.s[0].timecmp)
        } else {
            u64::MAX
        };
        let guest = if self.config.extensions.h && self.sstc(c.menvcfg & c.henvcfg) {
            // The guest's clock is offset by `htimedelta`, modulo 2^64.
            let now = self.time();
            let left = c.s[1]
                .timecmp
                .saturating_sub(now.wrapping_add(c.htimedelta));
            if left == 0 {
                0
            } else {
                at(now.saturating_add(left))
            }
        } else {
            u64::MAX
        };
        self.timer_at = [host, guest];
        self.attention();
    }

    /// `mideleg` as read: VS-level and guest external interrupts are always delegated.
    pub(crate) fn mideleg(&self) -> u64 {
        self.csr.mideleg | if self.config.extensions.h { H_BITS } else { 0 }
    }

    /// Bits of `mie` and `mip` that exist.
    pub(super) fn irq_mask(&self) -> u64 {
        M_BITS | CUSTOM_BITS | if self.config.extensions.h { H_BITS } else { 0 }
    }

    /// Bits that `sie` and `sip` show.
    pub(super) fn s_view(&self) -> u64 {
        self.csr.mideleg & (S_BITS | CUSTOM_BITS)
    }

    /// VS-level bits that `vsie` and `vsip` show, at their `hip` positions.
    pub(super) fn vs_view(&self) -> u64 {
        self.csr.hideleg & VS_BITS
    }

    pub(super) fn write_mip(&mut self, value: u64) {
        let mut mask = bit(SSI) | bit(SEI);
        if !self.sstc(self.csr.menvcfg) {
            mask |= bit(STI);
        }
        self.csr.mip = self.csr.mip & !mask | value & mask;
        self.write_hvip(value, bit(VSSI));
        self.attention();
    }

    pub(super) fn write_hvip(&mut self, value: u64, mask: u64) {
        if self.config.extensions.h {
            let mask = mask & VS_BITS;
            self.csr.hvip = self.csr.hvip & !mask | value & mask;
        }
        self.attention();
    }

    pub(super) fn write_mie(&mut self, value: u64, mask: u64) {
        let mask = mask & self.irq_mask();
        self.csr.mie = self.csr.mie & !mask | value & mask;
        self.recheck();
    }
}
