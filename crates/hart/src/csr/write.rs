//! Writing CSRs: writable fields, WARL fields, and effects of writes.

use trapless_isa::cause::exception;
use trapless_isa::csr::{self, envcfg, hstatus, stateen0, status};
use trapless_isa::port::CsrOp;
use trapless_ledger::event::{Event, TimerSet};

use super::fields::{merge, tvec};
use super::interrupts::{CUSTOM_BITS, H_BITS, S_BITS, VS_BITS};
use super::read::{SSTATUS, with_sd};
use super::timers::Comparator;
use super::user::hstatus_user;
use crate::hart::Hart;
use crate::memory::tlb::Scope;
use crate::platform::Platform;

/// Exceptions that M-mode can delegate (privileged specification, "Machine Trap Delegation (medeleg
/// and mideleg) Registers"): those that can occur in lower modes.
const MEDELEG: u64 = 0xB3FE;
/// In addition without C: misaligned fetches.
const MEDELEG_ALIGNED: u64 = 1;
/// In addition with H: `ecall` from VS and the guest faults.
const MEDELEG_H: u64 = 0xF0_0000 | 1 << exception::ECALL_VS;
/// Exceptions that HS-mode can delegate to VS-mode ("Hypervisor Trap Delegation (hedeleg and
/// hideleg) Registers", table of the bits that must be writable): software checks and hardware
/// errors as well, although there are none here.
const HEDELEG: u64 = 0xC_B1FF;

/// Fields of `vsstatus` that can be written, and with them those of `sstatus`.
pub(crate) const VSSTATUS: u64 =
    status::SIE | status::SPIE | status::SPP | status::FS | status::SUM | status::MXR;
const MSTATUS: u64 = VSSTATUS
    | status::MIE
    | status::MPIE
    | status::MPP
    | status::MPRV
    | status::TVM
    | status::TW
    | status::TSR;
const MSTATUS_H: u64 = status::GVA | status::MPV;
pub(crate) const HSTATUS: u64 = hstatus::GVA
    | hstatus::SPV
    | hstatus::SPVP
    | hstatus::HU
    | hstatus::VTVM
    | hstatus::VTW
    | hstatus::VTSR;

/// Fields of `mstatus` that affect address translation.
const TRANSLATION: u64 = status::SUM | status::MXR | status::MPRV | status::MPP | status::MPV;

/// Whether `satp`, `vsatp` and `hgatp` can hold the mode of `value`.
fn has_mode(value: u64) -> bool {
    matches!(value >> 60, 0 | 8 | 9 | 10)
}

/// `satp` and `vsatp`: writes of unsupported modes are ignored as a whole ("Supervisor Address
/// Translation and Protection (satp) Register"; for `vsatp` with V=0 that is one of two choices).
fn satp(old: u64, new: u64) -> u64 {
    if has_mode(new) { new } else { old }
}

/// `hgatp`: MODE, which keeps its value instead of taking an unsupported one, VMID[13:0], and PPN
/// with the two low bits zero (root table of 16 KiB). The other fields are taken in either case
/// ("Hypervisor Guest Address Translation and Protection (hgatp) Register").
fn hgatp(old: u64, new: u64) -> u64 {
    let mode = if has_mode(new) { new } else { old };
    mode & 0xF << 60 | new & (u64::MAX >> 6 & !3)
}

impl Hart {
    /// Writes a CSR after aliasing; the caller knows that it exists.
    #[allow(clippy::too_many_lines)] // One line per register, as in the specification's table.
    pub(super) fn csr_write(&mut self, addr: u16, value: u64, plat: &mut dyn Platform) {
        let index = usize::from(addr & 3);
        match addr {
            csr::FFLAGS => self.write_fcsr(self.state.float.frm, value as u8),
            csr::FRM => self.write_fcsr(value as u8, self.state.float.fflags),
            csr::FCSR => self.write_fcsr((value >> 5) as u8, value as u8),

            csr::SSTATUS => {
                let old = self.csr.mstatus;
                self.write_mstatus(merge(old, value, SSTATUS));
                self.state.csr.status_changed |= (old ^ self.csr.mstatus) as u32;
            }
            csr::SIE => {
                self.write_mie(value, self.s_view());
                self.write_sie_aia(value);
            }
            csr::STVEC => self.csr.hs.tvec = tvec(self.csr.hs.tvec, value),
            csr::SCOUNTEREN => self.csr.scounteren = value & 0xFFFF_FFFF,
            csr::SENVCFG => {
                self.csr.senvcfg = self.envcfg_bits(self.csr.senvcfg, value, 0);
            }
            csr::SSTATEEN0..=csr::SSTATEEN3 => {
                let i = usize::from(addr & 3);
                let mask = self.sstateen_mask(i);
                self.csr.sstateen[i] = merge(self.csr.sstateen[i], value, mask);
            }
            csr::SSCRATCH => self.csr.hs.scratch = value,
            csr::SEPC => self.csr.hs.epc = value & self.pc_mask(),
            csr::SCAUSE => self.csr.hs.cause = value,
            csr::STVAL => self.csr.hs.tval = value,
            csr::SIP => {
                let mask = self.s_view() & 2;
                self.csr.mip = merge(self.csr.mip, value, mask);
                self.write_sip_aia(value);
                self.attention();
            }
            csr::STIMECMP => self.write_timecmp(Comparator::Host, value, plat),
            csr::SATP => {
                self.csr.hs.atp = satp(self.csr.hs.atp, value);
                self.select_contexts();
            }

            csr::MSTATUS => self.write_mstatus(value),
            csr::MEDELEG => {
                let e = &self.config.extensions;
                let h = if e.h { MEDELEG_H } else { 0 };
                let aligned = if e.c { 0 } else { MEDELEG_ALIGNED };
                self.csr.medeleg = value & (MEDELEG | aligned | h);
            }
            csr::MIDELEG => {
                self.csr.mideleg = value & (S_BITS | CUSTOM_BITS);
                self.attention();
            }
            csr::MIE => self.write_mie(value, u64::MAX),
            csr::MTVEC => self.csr.mtvec = tvec(self.csr.mtvec, value),
            csr::MCOUNTEREN => self.csr.mcounteren = value & 0xFFFF_FFFF,
            csr::MENVCFG => {
                self.csr.menvcfg = self.envcfg_bits(self.csr.menvcfg, value, u64::MAX);
                self.select_contexts();
                self.set_timers();
                // STCE decides where STIP comes from.
                self.attention();
            }
            csr::MSTATEEN0..=csr::MSTATEEN3 => {
                self.csr.mstateen[index] = value & self.stateen_mask(index);
            }
            csr::MCOUNTINHIBIT => self.set_mcountinhibit(value),
            csr::MSCRATCH => self.csr.mscratch = value,
            csr::MEPC => self.csr.mepc = value & self.pc_mask(),
            csr::MCAUSE => self.csr.mcause = value,
            csr::MTVAL => self.csr.mtval = value,
            csr::MIP => self.write_mip(value),
            csr::PMPCFG0..=csr::PMPCFG15 => {
                let pair = usize::from(addr - csr::PMPCFG0) / 2;
                if pair < 2 {
                    self.csr.pmp.set_cfg(pair, value);
                    self.protection_changed(plat);
                }
            }
            csr::PMPADDR0..=csr::PMPADDR63 => {
                let i = usize::from(addr - csr::PMPADDR0);
                if i < 16 {
                    self.csr.pmp.set_addr(i, value);
                    self.protection_changed(plat);
                }
            }
            csr::MCYCLE => self.set_mcycle(value),
            csr::MINSTRET => self.set_minstret(value),
            0xB03..=0xB1F => self.set_hpm_counter(usize::from(addr & 31) - 3, value),
            0x323..=0x33F => self.set_hpm_event(usize::from(addr & 31) - 3, value),
            _ => self.hypervisor_write(addr, value, plat),
        }
    }

    fn protection_changed(&mut self, plat: &mut dyn Platform) {
        self.tlb.flush(Scope::All, None);
        plat.protection_changed(self.id, &self.csr.pmp);
    }

    fn hypervisor_write(&mut self, addr: u16, value: u64, plat: &mut dyn Platform) {
        match addr {
            csr::VSSTATUS => {
                let old = self.csr.vsstatus;
                self.csr.vsstatus = merge(old, value, VSSTATUS);
                if (old ^ self.csr.vsstatus) & TRANSLATION != 0 {
                    self.select_contexts();
                }
                self.recheck();
            }
            csr::VSIE => self.write_vsie(value << 1),
            csr::VSTVEC => self.csr.vs.tvec = tvec(self.csr.vs.tvec, value),
            csr::VSSCRATCH => self.csr.vs.scratch = value,
            csr::VSEPC => self.csr.vs.epc = value & self.pc_mask(),
            csr::VSCAUSE => self.csr.vs.cause = value,
            csr::VSTVAL => self.csr.vs.tval = value,
            csr::VSIP => self.write_vsip(CsrOp::Write(value), value, plat),
            csr::VSTIMECMP => self.write_timecmp(Comparator::Guest, value, plat),
            csr::VSATP => {
                self.csr.vs.atp = satp(self.csr.vs.atp, value);
                self.select_contexts();
            }
            csr::HSTATUS => {
                let aia = self.hstatus_aia();
                let user = hstatus_user(self.config.extensions.xuer);
                self.csr.hstatus = merge(self.csr.hstatus, value, HSTATUS | user | aia);
                if aia != 0 {
                    // The selected guest external interrupt may have changed.
                    self.attention();
                }
            }
            csr::HGEIE => {
                self.csr.hgeie = value & self.guest_interrupts();
                self.attention();
            }
            csr::HEDELEG => self.csr.hedeleg = value & HEDELEG,
            csr::HIDELEG => {
                self.csr.hideleg = value & VS_BITS;
                self.recheck();
            }
            csr::HIE => self.write_mie(value, H_BITS),
            csr::HTIMEDELTA => {
                self.csr.htimedelta = value;
                self.set_timers();
            }
            csr::HCOUNTEREN => self.csr.hcounteren = value & 0xFFFF_FFFF,
            csr::HENVCFG => {
                let mask = self.csr.menvcfg | !(envcfg::ADUE | envcfg::PBMTE | envcfg::STCE);
                self.csr.henvcfg = self.envcfg_bits(self.csr.henvcfg, value, mask);
                self.select_contexts();
                self.set_timers();
            }
            csr::HSTATEEN0..=csr::HSTATEEN3 => {
                let i = usize::from(addr & 3);
                let mask = self.stateen_mask(i) & self.csr.mstateen[i];
                self.csr.hstateen[i] = merge(self.csr.hstateen[i], value, mask);
            }
            csr::HTVAL => self.csr.htval = value,
            csr::HIP => self.write_hip(value),
            csr::HVIP => {
                self.write_hvip_aia(value);
                self.write_hvip(value, VS_BITS);
            }
            csr::HTINST => self.csr.htinst = value,
            csr::HGATP => {
                let old = self.csr.hgatp;
                self.csr.hgatp = hgatp(old, value);
                if self.csr.hgatp != old {
                    // Pages of the next guest may have been filled since they contained code of
                    // another one; KVM and VMMs rely on fetches seeing that without `fence.i`.
                    self.turn.compare_code();
                    self.attention();
                }
                self.select_contexts();
            }
            csr::MTINST => self.csr.mtinst = value,
            csr::MTVAL2 => self.csr.mtval2 = value,
            _ if self.user_write(addr, value) => {}
            _ => self.aia_write(addr, value),
        }
    }

    fn write_mstatus(&mut self, value: u64) {
        let mut mask = MSTATUS;
        if self.config.extensions.h {
            mask |= MSTATUS_H;
        }
        if !self.config.extensions.fd {
            mask &= !status::FS;
        }
        // MPP holds no reserved value.
        if value & status::MPP == 2 << 11 {
            mask &= !status::MPP;
        }
        let old = self.csr.mstatus;
        self.csr.mstatus = merge(old, value, mask);
        if (old ^ self.csr.mstatus) & TRANSLATION != 0 {
            self.select_contexts();
        }
        self.recheck();
    }

    /// Access of `sstatus` in HS- or VS-mode. Returns the value read.
    pub(super) fn change_sstatus(&mut self, op: CsrOp) -> u64 {
        let guest = self.mode.v();
        let old = if guest {
            self.csr.vsstatus
        } else {
            self.csr.mstatus
        };
        let shown = with_sd(old & SSTATUS);
        let Some(new) = op.written(shown) else {
            return shown;
        };
        let mut changed = (old ^ new) & VSSTATUS;
        if guest {
            self.csr.vsstatus ^= changed;
        } else {
            if !self.config.extensions.fd {
                changed &= !status::FS;
            }
            self.csr.mstatus ^= changed;
        }
        self.state.csr.status_changed |= changed as u32;
        if changed & TRANSLATION != 0 {
            self.select_contexts();
        }
        self.recheck();
        shown
    }

    fn write_fcsr(&mut self, frm: u8, fflags: u8) {
        self.state.float.frm = frm & 7;
        self.state.float.fflags = fflags & 0x1F;
        self.fp_dirty();
    }

    fn envcfg_bits(&self, old: u64, value: u64, top: u64) -> u64 {
        let e = &self.config.extensions;
        let mut mask = envcfg::FIOM;
        let when = |present: bool, bits: u64| if present { bits & top } else { 0 };
        mask |= when(e.svadu, envcfg::ADUE);
        mask |= when(e.svpbmt, envcfg::PBMTE);
        mask |= when(e.sstc, envcfg::STCE);
        if e.zicbo {
            mask |= envcfg::CBCFE | envcfg::CBZE;
            // CBIE = 2 is reserved.
            if value & envcfg::CBIE != 2 << 4 {
                mask |= envcfg::CBIE;
            }
        }
        merge(old, value, mask)
    }

    fn stateen_mask(&self, index: usize) -> u64 {
        if index == 0 {
            stateen0::SE0 | stateen0::ENVCFG | self.stateen_aia() | self.stateen_custom()
        } else {
            stateen0::SE0
        }
    }

    fn write_timecmp(&mut self, comparator: Comparator, value: u64, plat: &mut dyn Platform) {
        self.state.timer.compare[comparator as usize] = value;
        self.set_timers();
        let deadline = self.timers.next(comparator).unwrap_or(self.state.cycles);
        plat.record(&Event::TimerSet(TimerSet {
            time: self.state.cycles,
            hart: self.id,
            mode: self.mode,
            guest: self.guest(),
            deadline,
        }));
    }
}
