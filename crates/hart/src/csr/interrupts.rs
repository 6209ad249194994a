//! `mip`, `mie` and their views for HS and VS (privileged specification, "Machine Interrupt (mip
//! and mie) Registers", "Supervisor Interrupt (sip and sie) Registers", "Hypervisor Interrupt
//! (hvip, hip, and hie) Registers", "Virtual Supervisor Interrupt (vsip and vsie) Registers").

use trapless_isa::cause::interrupt::{SEI, SGEI, SSI, STI, VSEI, VSSI, VSTI};
use trapless_isa::csr::envcfg;

use trapless_isa::csr;
use trapless_isa::port::{CsrAccess, CsrOp};

use super::fields::vgein;
use super::timers::{Comparator, NEVER, PAST};
use crate::hart::Hart;
use crate::platform::Platform;

const fn bit(irq: u64) -> u64 {
    1 << irq
}

/// VS-level interrupts at their `hip` positions.
pub(crate) const VS_BITS: u64 = bit(VSSI) | bit(VSTI) | bit(VSEI);
/// Interrupts at HS level that `sip` and `sie` show.
pub(super) const S_BITS: u64 = bit(SSI) | bit(STI) | bit(SEI);
/// Bits that `hip` and `hie` show.
pub(super) const H_BITS: u64 = VS_BITS | bit(SGEI);
/// Implemented bits of `mie` without H.
pub(super) const M_BITS: u64 = S_BITS | bit(3) | bit(7) | bit(11);
/// Interrupt numbers from 16 up belong to the interrupt architecture.
pub(super) const CUSTOM_BITS: u64 = !0xFFFF;

impl Hart {
    /// Bits of `mip` that are high only because hardware drives them.
    pub(super) fn lines_only(&self) -> u64 {
        self.inputs.lines().level & !self.csr.mip & bit(SEI)
    }

    /// Value of `mip` at the hart's present time.
    pub(crate) fn mip_value(&self) -> u64 {
        let c = &self.csr;
        let split = self.inputs.lines().split;
        let mut mip = c.mip | self.inputs.lines().level;
        if split {
            mip = mip & !VS_BITS | c.host_pending;
        }
        if self.sstc(c.menvcfg) {
            mip &= !bit(STI);
            if self.timers.fired(Comparator::Host, self.state.cycles) {
                mip |= bit(STI);
            }
        }
        if self.config.extensions.h {
            if self.timers.fired(Comparator::Guest, self.state.cycles) {
                mip |= bit(VSTI);
            }
            if !split {
                mip |= self.guest_only();
            }
            if self.inputs.lines().hgeip & c.hgeie != 0 {
                mip |= bit(SGEI);
            }
        }
        if self.has_aia() {
            mip = self.aia_mip(mip);
        }
        mip
    }

    /// VS-level interrupts that only the guest sees: those injected through `hvip`, and the
    /// selected guest external interrupt.
    fn guest_only(&self) -> u64 {
        let c = &self.csr;
        let vgein = vgein(c.hstatus);
        let external = vgein != 0 && self.inputs.lines().hgeip >> vgein & 1 != 0;
        c.hvip | u64::from(external) << VSEI
    }

    /// `vsip` at `hip` positions, before `hideleg` (Xtrapless, "Separation of pending bits": the
    /// guest's bits do not depend on V; the host's are latches).
    pub(crate) fn vsip_value(&self) -> u64 {
        if !self.inputs.lines().split {
            return self.mip_value() & VS_BITS;
        }
        let timer = u64::from(self.timers.fired(Comparator::Guest, self.state.cycles)) << VSTI;
        self.inputs.lines().level & (bit(VSSI) | bit(VSEI)) | self.guest_only() | timer
    }

    fn sstc(&self, env: u64) -> bool {
        self.config.extensions.sstc && env & envcfg::STCE != 0
    }

    /// Virtual time in cycles at which `vstimecmp` fires: [`PAST`] if it has at `now` (ticks), or
    /// [`NEVER`].
    pub(crate) fn guest_timer_at(&self, now: u64) -> u64 {
        let c = &self.csr;
        if !self.config.extensions.h || !self.sstc(c.menvcfg & c.henvcfg) {
            return NEVER;
        }
        // The guest's clock is offset by `htimedelta`, modulo 2^64.
        let left = self.state.timer.compare[Comparator::Guest as usize]
            .saturating_sub(now.wrapping_add(c.htimedelta));
        if left == 0 {
            return PAST;
        }
        now.saturating_add(left)
            .saturating_mul(self.config.cycles_per_tick)
    }

    /// Computes when the comparators fire, after a write to anything that decides it.
    pub(super) fn set_timers(&mut self) {
        let c = &self.csr;
        let at = |ticks: u64| ticks.saturating_mul(self.config.cycles_per_tick);
        let host = if self.sstc(c.menvcfg) {
            at(self.state.timer.compare[Comparator::Host as usize])
        } else {
            NEVER
        };
        let guest = self.guest_timer_at(self.time());
        // Attention is needed only if an interrupt comes or goes; otherwise the limit moves.
        if self.timers.set([host, guest], self.state.cycles) {
            self.attention();
        } else if self.state.limit != 0 {
            self.set_limit();
        }
    }

    /// Makes the run loop attend at the end of the turn, or when interrupts change by time alone.
    #[inline]
    pub(crate) fn set_limit(&mut self) {
        let timers = self.timers.deadline(self.state.cycles);
        self.turn.inputs_change = timers.min(self.inputs.lines().deadline);
        self.state.limit = self.turn.end.min(self.turn.inputs_change);
    }

    /// `mideleg` as read: VS-level and guest external interrupts are always delegated.
    pub(crate) fn mideleg(&self) -> u64 {
        let h = if self.config.extensions.h { H_BITS } else { 0 };
        self.csr.mideleg | self.config.supervisor_interrupts | h
    }

    /// Bits of `mie` and `mip` that exist.
    pub(super) fn irq_mask(&self) -> u64 {
        M_BITS | CUSTOM_BITS | if self.config.extensions.h { H_BITS } else { 0 }
    }

    /// Bits that `sie` and `sip` show.
    pub(super) fn s_view(&self) -> u64 {
        self.mideleg() & (S_BITS | CUSTOM_BITS)
    }

    /// VS-level bits that `vsie` and `vsip` show, at their `hip` positions.
    pub(crate) fn vs_view(&self) -> u64 {
        self.csr.hideleg & VS_BITS
    }

    /// Bits of `mip` that M-mode can write.
    pub(super) fn writable_mip(&self) -> u64 {
        let mut mask = bit(SSI) | bit(SEI);
        if !self.sstc(self.csr.menvcfg) {
            mask |= bit(STI);
        }
        mask & !(self.csr.aia.mvien & bit(SEI))
    }

    pub(super) fn write_mip(&mut self, value: u64) {
        let mask = self.writable_mip();
        self.csr.mip = self.csr.mip & !mask | value & mask;
        self.write_hip(value);
        self.attention();
    }

    /// `hip`: VSSIP is an alias of `hvip`'s. If pending bits are separate, arrivals can be cleared.
    pub(super) fn write_hip(&mut self, value: u64) {
        if self.inputs.lines().split {
            self.csr.host_pending &= value;
            self.attention();
        } else {
            self.write_hvip(value, bit(VSSI));
        }
    }

    /// Access to `vsip` whose result is written back as `value`: only SSIP is writable, and setting
    /// or clearing other bits leaves it alone. If pending bits are separate, it is in the interrupt
    /// architecture, which changes it in one step (Xtrapless, `BIT-4`): the value that this hart
    /// has read may be out of date.
    pub(super) fn write_vsip(&mut self, op: CsrOp, value: u64, plat: &mut dyn Platform) {
        self.write_vsip_aia(value);
        let writable = self.vs_view() >> 1 & bit(SSI);
        let op = match op {
            CsrOp::Read => return,
            CsrOp::Set(bits) => CsrOp::Set(bits & writable),
            CsrOp::Clear(bits) => CsrOp::Clear(bits & writable),
            CsrOp::Write(value) | CsrOp::Swap(value) => CsrOp::Write(value & writable),
        };
        let named = match op {
            CsrOp::Set(bits) | CsrOp::Clear(bits) => bits,
            _ => writable,
        };
        self.write_hvip(value << 1, named << 1);
        if self.inputs.lines().split && named != 0 {
            let access = CsrAccess {
                hart: self.id,
                csr: csr::VSIP,
                mode: self.mode,
                vmid: self.vmid(),
                now: self.state.cycles,
                op,
            };
            // Rejected if no vCPU of the architecture is on this hart: then `hvip` has all the
            // state.
            let _ = plat.csr(&access);
            self.state.cycles += u64::from(plat.take_delay());
            self.lines_changed();
        }
    }

    /// `vsie` (at `hip` positions): an alias of `hie`, unless enable bits are separate.
    pub(super) fn write_vsie(&mut self, value: u64) {
        let mask = self.vs_view();
        self.write_vsie_aia(value >> 1);
        if self.inputs.lines().split {
            self.state.interrupts.vsie = self.state.interrupts.vsie & !mask | value & mask;
            self.recheck();
        } else {
            self.write_mie(value, mask);
        }
    }

    /// `vsie` at `hip` positions.
    pub(super) fn vsie_value(&self) -> u64 {
        self.vsie_source() & self.vs_view()
    }

    /// The register whose VS-level bits `vsie` shows.
    fn vsie_source(&self) -> &u64 {
        if self.inputs.lines().split {
            &self.state.interrupts.vsie
        } else {
            &self.state.interrupts.mie
        }
    }

    /// As [`vsie_source`](Self::vsie_source); `None` if `vsie` has further bits.
    pub(crate) fn vsie_register(&self) -> Option<&u64> {
        (!self.has_aia()).then(|| self.vsie_source())
    }

    pub(super) fn write_hvip(&mut self, value: u64, mask: u64) {
        if self.config.extensions.h {
            let mask = mask & VS_BITS;
            let hvip = self.csr.hvip & !mask | value & mask;
            // KVM writes the same value at nearly every entry.
            if hvip == self.csr.hvip {
                return;
            }
            self.csr.hvip = hvip;
        }
        self.attention();
    }

    pub(super) fn write_mie(&mut self, value: u64, mask: u64) {
        let mask = mask & self.irq_mask();
        self.state.interrupts.mie = self.state.interrupts.mie & !mask | value & mask;
        self.recheck();
    }
}
