//! Smaia and Ssaia: the CSRs that the Advanced Interrupt Architecture adds to a hart. Chapters are
//! those of its specification, version 1.0.
//!
//! | file | subject |
//! |---|---|
//! | `registers` | state |
//! | this | plain registers, views of `sip`, `sie`, `vsip`, `vsie` |
//! | `window` | `xireg`, `xtopei`, `xtopi`: registers that access the interrupt architecture |
//! | `top` | the highest-priority interrupt |
//!
//! Implementation choices: all bits of `mvien` that may be writable are, and those of `hvien`;
//! `hideleg` has VS-level bits only; `xiselect` holds 9 bits; all priority numbers have 8 bits.

pub(crate) mod registers;
mod top;
mod window;

use trapless_isa::cause::interrupt::{LCOFI, MEI, SEI, SSI};
use trapless_isa::csr::{self, hstatus, hvictl, stateen0};

use trapless_ledger::event::{Event, StepKind, VirtualStep};

use crate::csr::fields::vgein;
use crate::csr::interrupts::{H_BITS, S_BITS};
use crate::hart::Hart;
use crate::platform::Platform;

const fn bit(irq: u64) -> u64 {
    1 << irq
}

/// Local and custom interrupts: those that can be virtual at VS level.
pub(in crate::csr) const LOCAL: u64 = !(bit(LCOFI) - 1);
/// Implemented bits of `mvien`.
const MVIEN: u64 = bit(SSI) | bit(SEI) | LOCAL;
/// Implemented bits of `hvictl`.
const HVICTL: u64 = hvictl::VTI | hvictl::IID | hvictl::DPR | hvictl::IPRIOM | hvictl::IPRIO;
/// Priority numbers of `hviprio1` that exist: SSI, STI, 13, 14, 15.
const HVIPRIO1: u64 = 0xFFFF_FF00_FF00_FF00;
/// Values that `xiselect` can hold.
const ISELECT: u64 = 0x1FF;

impl Hart {
    pub(crate) fn has_aia(&self) -> bool {
        self.config.aia.is_some()
    }

    /// Bits of `hgeie` and `hgeip` that exist.
    pub(in crate::csr) fn guest_interrupts(&self) -> u64 {
        self.config
            .aia
            .map_or(0, |aia| (u64::MAX >> (63 - aia.guests.min(63))) & !1)
    }

    /// The guest interrupt file of the vCPU, if `hstatus.VGEIN` is the number of one.
    pub(in crate::csr) fn guest_file(&self) -> Option<u8> {
        let vgein = vgein(self.csr.hstatus);
        (self.guest_interrupts() >> vgein & 1 != 0).then_some(vgein as u8)
    }

    /// Fields of `hstatus` that exist only with guest interrupt files.
    pub(in crate::csr) fn hstatus_aia(&self) -> u64 {
        if self.guest_interrupts() != 0 {
            hstatus::VGEIN
        } else {
            0
        }
    }

    /// Interrupts that `sip` shows from `mvip`, and `sie` from bits of its own.
    fn filtered(&self) -> u64 {
        self.csr.aia.mvien & !self.mideleg()
    }

    /// `mip` without the bits that `mvien` removes from it.
    pub(in crate::csr) fn aia_mip(&self, mip: u64) -> u64 {
        let taken = self.csr.aia.mvien & bit(SEI) & !self.inputs.lines().level;
        mip & !taken
    }

    /// Bits of `sip` that come from `mvip`.
    pub(in crate::csr) fn sip_aia(&self) -> u64 {
        if self.has_aia() {
            self.mvip_value() & self.filtered()
        } else {
            0
        }
    }

    /// Bits of `sie` that are its own.
    pub(in crate::csr) fn sie_aia(&self) -> u64 {
        if self.has_aia() {
            self.csr.aia.sie & self.filtered()
        } else {
            0
        }
    }

    pub(in crate::csr) fn write_sip_aia(&mut self, value: u64) {
        if self.has_aia() {
            // SEIP is read-only in `sip`.
            let mask = self.filtered() & !bit(SEI);
            self.write_mvip(value, mask);
        }
    }

    pub(in crate::csr) fn write_sie_aia(&mut self, value: u64) {
        if self.has_aia() {
            let mask = self.filtered();
            self.csr.aia.sie = self.csr.aia.sie & !mask | value & mask;
            self.attention();
        }
    }

    /// `mvip`: bits 1 (while `mvien` does not separate them), 5 and 9 are those of `mip`.
    fn mvip_value(&self) -> u64 {
        let alias = self.mvip_alias();
        self.csr.mip & alias | self.csr.aia.mvip & !alias
    }

    fn mvip_alias(&self) -> u64 {
        self.writable_mip() & S_BITS & !(self.csr.aia.mvien & bit(SSI)) | bit(SEI)
    }

    fn write_mvip(&mut self, value: u64, mask: u64) {
        let alias = self.mvip_alias();
        let both = mask & alias;
        self.csr.mip = self.csr.mip & !both | value & both;
        let own = mask & MVIEN & !alias;
        self.csr.aia.mvip = self.csr.aia.mvip & !own | value & own;
        self.attention();
    }

    /// Bits of `vsip` for interrupts 13 and up.
    pub(in crate::csr) fn vsip_aia(&self) -> u64 {
        self.csr.aia.hvip & self.csr.aia.hvien
    }

    /// Bits of `vsie` for interrupts 13 and up.
    pub(in crate::csr) fn vsie_aia(&self) -> u64 {
        self.csr.aia.vsie & self.csr.aia.hvien
    }

    pub(in crate::csr) fn write_vsip_aia(&mut self, value: u64) {
        let mask = self.csr.aia.hvien;
        if mask != 0 {
            self.csr.aia.hvip = self.csr.aia.hvip & !mask | value & mask;
            self.attention();
        }
    }

    pub(in crate::csr) fn write_vsie_aia(&mut self, value: u64) {
        let mask = self.csr.aia.hvien;
        if mask != 0 {
            self.csr.aia.vsie = self.csr.aia.vsie & !mask | value & mask;
            self.attention();
        }
    }

    /// Bits of `hvip` for interrupts 13 and up.
    pub(in crate::csr) fn hvip_aia(&self) -> u64 {
        self.csr.aia.hvip
    }

    pub(in crate::csr) fn write_hvip_aia(&mut self, value: u64) {
        if self.has_aia() {
            self.csr.aia.hvip = value & LOCAL;
            self.attention();
        }
    }

    /// Records that a guest is about to be entered, if it or its interrupt file differs from the
    /// last one.
    pub(crate) fn note_file(&mut self, plat: &mut dyn Platform) {
        let file = self.guest_file().unwrap_or(0);
        let entered = Some((self.guest(), file));
        if self.csr.aia.entered != entered {
            self.csr.aia.entered = entered;
            plat.record(&Event::Virtual(VirtualStep {
                time: self.state.cycles,
                hart: self.id,
                mode: self.mode,
                by_device: false,
                domain: self.vmid(),
                kind: StepKind::FileSelected { file },
                memory: 0,
            }));
        }
    }

    /// Interrupts that are pending and enabled besides those in `mip` and `mie`, for
    /// [`Interrupts::vsip`](trapless_jit::Interrupts::vsip). Bit 0 stands for `hvictl`.
    pub(crate) fn aia_extra(&self) -> u64 {
        if !self.has_aia() {
            return 0;
        }
        self.sip_aia() & self.sie_aia()
            | self.vsip_aia() & self.vsie_aia()
            | u64::from(self.injected().is_some())
    }

    /// The interrupt that `hvictl` injects in place of those in `vsip`.
    pub(in crate::csr) fn injected(&self) -> Option<u64> {
        let control = self.csr.aia.hvictl;
        let identity = (control & hvictl::IID) >> 16;
        (control & hvictl::VTI != 0 && identity != SEI).then_some(identity)
    }

    /// Whether a state-enable register `enables` permits access to a CSR (section "Access control
    /// by the state-enable CSRs").
    pub(in crate::csr) fn stateen_gate(&self, addr: u16, enables: u64) -> bool {
        if !self.has_aia() || !self.config.extensions.smstateen {
            return true;
        }
        let group = match addr {
            csr::SISELECT | csr::SIREG | csr::VSISELECT | csr::VSIREG => stateen0::CSRIND,
            csr::STOPEI | csr::VSTOPEI => stateen0::IMSIC,
            csr::STOPI | csr::VSTOPI => stateen0::AIA,
            csr::HVIEN | csr::HVICTL | csr::HVIPRIO1 | csr::HVIPRIO2 => stateen0::AIA,
            _ => return true,
        };
        enables & group != 0
    }

    /// Whether `hvictl.VTI` denies VS-mode access to a CSR.
    pub(in crate::csr) fn aia_guards(&self, addr: u16, write: bool) -> bool {
        self.csr.aia.hvictl & hvictl::VTI != 0
            && match addr {
                csr::SIP | csr::SIE => true,
                csr::STIMECMP => write,
                _ => false,
            }
    }

    /// Bits of `mstateen0` that exist only with AIA.
    pub(in crate::csr) fn stateen_aia(&self) -> u64 {
        if self.has_aia() {
            stateen0::CSRIND | stateen0::AIA | stateen0::IMSIC
        } else {
            0
        }
    }

    /// Interrupts whose number in an `iprio` array (0 machine, 1 supervisor level) can be set.
    fn prioritisable(&self, level: usize) -> u64 {
        if level == 0 {
            self.irq_mask() & !(bit(MEI) | H_BITS)
        } else {
            let h = if self.config.extensions.h { H_BITS } else { 0 };
            (S_BITS | LOCAL | h) & !bit(SEI)
        }
    }

    /// Register `0x30 + select` of an `iprio` array; `None` if it does not exist on RV64.
    pub(in crate::csr) fn read_priorities(&self, level: usize, select: u64) -> Option<u64> {
        let first = 4 * select as usize;
        let numbers = self.csr.aia.priorities[level].get(first..first + 8)?;
        let bytes = numbers.try_into().unwrap_or_default();
        (select % 2 == 0).then_some(u64::from_le_bytes(bytes))
    }

    pub(in crate::csr) fn write_priorities(&mut self, level: usize, select: u64, value: u64) {
        let first = 4 * select as usize;
        let possible = self.prioritisable(level);
        let numbers = &mut self.csr.aia.priorities[level];
        for (i, byte) in value.to_le_bytes().into_iter().enumerate() {
            if possible >> (first + i) & 1 != 0 {
                numbers[first + i] = byte;
            }
        }
        self.csr.aia.prioritised[level] = numbers.iter().any(|number| *number != 0);
        self.attention();
    }

    /// Sets the priority number of interrupt `irq` in the `iprio` array of machine (0) or
    /// supervisor level (1), if it can be set. For debuggers, which cannot use `mireg`.
    pub fn set_priority(&mut self, level: usize, irq: u64, number: u8) {
        let register = irq / 8 * 2;
        let shift = 8 * (irq % 8);
        if let Some(old) = self.read_priorities(level & 1, register) {
            let value = old & !(0xFF << shift) | u64::from(number) << shift;
            self.write_priorities(level & 1, register, value);
        }
    }

    /// Plain registers of Smaia and Ssaia; `None` if the hart does not have this one.
    pub(in crate::csr) fn aia_read(&self, addr: u16) -> Option<u64> {
        if !self.has_aia() {
            return None;
        }
        let c = &self.csr.aia;
        let h = self.config.extensions.h;
        Some(match addr {
            csr::MISELECT => c.select[0],
            csr::SISELECT => c.select[1],
            csr::MVIEN => c.mvien,
            csr::MVIP => self.mvip_value(),
            csr::VSISELECT if h => c.select[2],
            csr::HVIEN if h => c.hvien,
            csr::HVICTL if h => c.hvictl,
            csr::HVIPRIO1 if h => c.hviprio[0],
            csr::HVIPRIO2 if h => c.hviprio[1],
            _ => return None,
        })
    }

    /// Writes a register that [`aia_read`](Self::aia_read) knows.
    pub(in crate::csr) fn aia_write(&mut self, addr: u16, value: u64) {
        let c = &mut self.csr.aia;
        match addr {
            csr::MISELECT => c.select[0] = value & ISELECT,
            csr::SISELECT => c.select[1] = value & ISELECT,
            csr::VSISELECT => c.select[2] = value & ISELECT,
            csr::MVIEN => c.mvien = value & MVIEN,
            csr::MVIP => return self.write_mvip(value, u64::MAX),
            csr::HVIEN => c.hvien = value & LOCAL,
            csr::HVICTL => c.hvictl = value & HVICTL,
            csr::HVIPRIO1 => c.hviprio[0] = value & HVIPRIO1,
            csr::HVIPRIO2 => c.hviprio[1] = value,
            _ => return,
        }
        self.attention();
    }
}
