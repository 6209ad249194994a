//! Reading CSRs.

use trapless_isa::csr::{self, envcfg, status};

use super::interrupts::{H_BITS, VS_BITS};
use super::timers::Comparator;
use crate::hart::Hart;

/// Fields of `mstatus` that `sstatus` shows.
pub(crate) const SSTATUS: u64 = status::SIE
    | status::SPIE
    | status::UBE
    | status::SPP
    | status::VS
    | status::FS
    | status::SUM
    | status::MXR
    | 3 << 32;

pub(super) fn with_sd(value: u64) -> u64 {
    if value & status::FS == status::FS {
        value | status::SD
    } else {
        value
    }
}

impl Hart {
    /// `misa`: RV64 with the letters of the configured extensions.
    pub(super) fn misa(&self) -> u64 {
        let e = &self.config.extensions;
        let mut value = 2 << 62;
        for (letter, present) in [
            (b'A', true),
            (b'I', true),
            (b'M', true),
            (b'S', true),
            (b'U', true),
            (b'C', e.c),
            (b'D', e.fd),
            (b'F', e.fd),
            (b'H', e.h),
        ] {
            value |= u64::from(present) << (letter - b'A');
        }
        value
    }

    /// `henvcfg` as read: HS-mode cannot grant what M-mode does not permit.
    pub(crate) fn henvcfg(&self) -> u64 {
        self.csr.henvcfg & (self.csr.menvcfg | !(envcfg::ADUE | envcfg::PBMTE | envcfg::STCE))
    }

    /// Value of a CSR after aliasing; `None` if the hart does not have it.
    #[allow(clippy::too_many_lines)] // One line per register, as in the specification's table.
    pub(crate) fn csr_read(&self, addr: u16) -> Option<u64> {
        let c = &self.csr;
        let e = &self.config.extensions;
        let value = match addr {
            csr::FFLAGS if e.fd => u64::from(self.state.float.fflags),
            csr::FRM if e.fd => u64::from(self.state.float.frm),
            csr::FCSR if e.fd => {
                u64::from(self.state.float.frm) << 5 | u64::from(self.state.float.fflags)
            }

            csr::SSTATUS => with_sd(c.mstatus & SSTATUS),
            csr::SIE => self.state.interrupts.mie & self.s_view() | self.sie_aia(),
            csr::STVEC => c.hs.tvec,
            csr::SCOUNTEREN => c.scounteren,
            csr::SENVCFG => c.senvcfg,
            csr::SSTATEEN0..=csr::SSTATEEN3 if e.smstateen => {
                let i = usize::from(addr & 3);
                c.sstateen[i] & self.sstateen_mask(i)
            }
            csr::SSCRATCH => c.hs.scratch,
            csr::SEPC => c.hs.epc,
            csr::SCAUSE => c.hs.cause,
            csr::STVAL => c.hs.tval,
            csr::SIP => self.mip_value() & self.s_view() | self.sip_aia(),
            csr::STIMECMP if e.sstc => self.state.timer.compare[Comparator::Host as usize],
            csr::SATP => c.hs.atp,

            csr::MSTATUS => with_sd(c.mstatus),
            csr::MISA => self.misa(),
            csr::MEDELEG => c.medeleg,
            csr::MIDELEG => self.mideleg(),
            csr::MIE => self.state.interrupts.mie,
            csr::MTVEC => c.mtvec,
            csr::MCOUNTEREN => c.mcounteren,
            csr::MENVCFG => c.menvcfg,
            csr::MSTATEEN0..=csr::MSTATEEN3 if e.smstateen => c.mstateen[usize::from(addr & 3)],
            csr::MCOUNTINHIBIT => c.mcountinhibit,
            csr::MSCRATCH => c.mscratch,
            csr::MEPC => c.mepc,
            csr::MCAUSE => c.mcause,
            csr::MTVAL => c.mtval,
            csr::MIP => self.mip_value(),
            csr::MVENDORID | csr::MARCHID | csr::MIMPID | csr::MCONFIGPTR => 0,
            csr::MHARTID => self.id as u64,
            csr::PMPCFG0..=csr::PMPCFG15 if addr % 2 == 0 => {
                match usize::from(addr - csr::PMPCFG0) / 2 {
                    pair @ 0..=1 => c.pmp.cfg(pair),
                    _ => 0,
                }
            }
            csr::PMPADDR0..=csr::PMPADDR63 => match usize::from(addr - csr::PMPADDR0) {
                i @ 0..=15 => c.pmp.addr(i),
                _ => 0,
            },

            csr::MCYCLE | csr::CYCLE => self.mcycle(),
            csr::MINSTRET | csr::INSTRET => self.minstret(),
            csr::TIME if self.mode.v() => self.time().wrapping_add(c.htimedelta),
            csr::TIME => self.time(),
            0xB03..=0xB1F | 0xC03..=0xC1F => self.hpm_counter(usize::from(addr & 31) - 3),
            0x323..=0x33F => c
                .hpm_event
                .get(usize::from(addr & 31) - 3)
                .copied()
                .unwrap_or(0),
            _ if e.h => {
                let hypervisor = self.hypervisor_read(addr);
                return hypervisor
                    .or_else(|| self.user_read(addr))
                    .or_else(|| self.aia_read(addr));
            }
            _ => return self.aia_read(addr),
        };
        Some(value)
    }

    fn hypervisor_read(&self, addr: u16) -> Option<u64> {
        let c = &self.csr;
        let e = &self.config.extensions;
        Some(match addr {
            csr::VSSTATUS => with_sd(c.vsstatus),
            csr::VSIE => self.vsie_value() >> 1 | self.vsie_aia(),
            csr::VSTVEC => c.vs.tvec,
            csr::VSSCRATCH => c.vs.scratch,
            csr::VSEPC => c.vs.epc,
            csr::VSCAUSE => c.vs.cause,
            csr::VSTVAL => c.vs.tval,
            csr::VSIP => (self.vsip_value() & self.vs_view()) >> 1 | self.vsip_aia(),
            csr::VSTIMECMP if e.sstc => self.state.timer.compare[Comparator::Guest as usize],
            csr::VSATP => c.vs.atp,
            csr::HSTATUS => c.hstatus,
            csr::HEDELEG => c.hedeleg,
            csr::HIDELEG => c.hideleg,
            csr::HIE => self.state.interrupts.mie & H_BITS,
            csr::HTIMEDELTA => c.htimedelta,
            csr::HCOUNTEREN => c.hcounteren,
            csr::HGEIE => c.hgeie,
            csr::HENVCFG => self.henvcfg(),
            csr::HSTATEEN0..=csr::HSTATEEN3 if e.smstateen => {
                let i = usize::from(addr & 3);
                c.hstateen[i] & c.mstateen[i]
            }
            csr::HTVAL => c.htval,
            csr::HIP => self.mip_value() & H_BITS,
            csr::HVIP => c.hvip & VS_BITS | self.hvip_aia(),
            csr::HTINST => c.htinst,
            csr::HGATP => c.hgatp,
            csr::HGEIP => self.inputs.lines().hgeip,
            csr::MTINST => c.mtinst,
            csr::MTVAL2 => c.mtval2,
            _ => return None,
        })
    }
}
