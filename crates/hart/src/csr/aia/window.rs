//! `xireg`, `xtopei` and `xtopi`: registers that give access to others, or depend on interrupt
//! files.

use trapless_isa::csr::{self, stateen0};
use trapless_isa::port::{CsrFault, CsrOp, FileAccess, FileId, FileRegister};
use trapless_isa::{Mode, cause::interrupt::SEI};

use crate::hart::Hart;
use crate::platform::Platform;

impl Hart {
    /// Accesses one of these registers, after aliasing (`target`); `None` if it is none of them.
    pub(in crate::csr) fn aia_window(
        &mut self,
        target: u16,
        op: CsrOp,
        plat: &mut dyn Platform,
    ) -> Option<Result<u64, CsrFault>> {
        if !self.has_aia() {
            return None;
        }
        let h = self.config.extensions.h;
        Some(match target {
            csr::MTOPI => Ok(self.top_m(plat)),
            csr::STOPI => Ok(self.top_s(plat)),
            csr::VSTOPI if h => Ok(self.top_vs(plat)),
            csr::MIREG => self.indirect(0, op, plat),
            csr::SIREG => self.indirect(1, op, plat),
            csr::VSIREG if h => self.indirect(2, op, plat),
            csr::MTOPEI => self.file(0, FileRegister::Top, op, plat),
            csr::STOPEI => self.file(1, FileRegister::Top, op, plat),
            csr::VSTOPEI if h => self.file(2, FileRegister::Top, op, plat),
            _ => return None,
        })
    }

    /// The exception of an access to a register that does not exist.
    fn inaccessible(&self) -> CsrFault {
        if self.mode.v() {
            CsrFault::Virtual
        } else {
            CsrFault::Illegal
        }
    }

    /// Whether M-mode permits the current mode to access a part of the state.
    fn granted(&self, bit: u64) -> bool {
        self.mode == Mode::M || !self.config.extensions.smstateen || self.csr.mstateen[0] & bit != 0
    }

    /// `mireg`, `sireg`, `vsireg`: levels 0, 1, 2.
    fn indirect(
        &mut self,
        level: usize,
        op: CsrOp,
        plat: &mut dyn Platform,
    ) -> Result<u64, CsrFault> {
        let select = self.csr.aia.select[level];
        match select {
            0x30..=0x3F if level < 2 => {
                if level == 1 && !self.granted(stateen0::AIA) {
                    return Err(CsrFault::Illegal);
                }
                let number = select - 0x30;
                let old = self
                    .read_priorities(level, number)
                    .ok_or(CsrFault::Illegal)?;
                if let Some(value) = op.written(old) {
                    self.write_priorities(level, number, value);
                }
                Ok(old)
            }
            0x70..=0xFF => self.file(level, FileRegister::Indirect(select as u8), op, plat),
            _ => Err(self.inaccessible()),
        }
    }

    /// A register of the interrupt file of a level.
    fn file(
        &mut self,
        level: usize,
        register: FileRegister,
        op: CsrOp,
        plat: &mut dyn Platform,
    ) -> Result<u64, CsrFault> {
        if level > 0 && !self.granted(stateen0::IMSIC) {
            return Err(CsrFault::Illegal);
        }
        let file = match level {
            0 => FileId::Machine,
            1 if self.mode == Mode::HS && self.csr.aia.mvien >> SEI & 1 != 0 => {
                return Err(CsrFault::Illegal);
            }
            1 => FileId::Supervisor,
            _ => FileId::Guest(self.guest_file().ok_or(self.inaccessible())?),
        };
        let open = !self.config.extensions.smstateen || self.csr.hstateen[0] & stateen0::IMSIC != 0;
        if self.mode.v() && !open {
            return Err(CsrFault::Virtual);
        }
        let access = FileAccess {
            hart: self.id,
            mode: self.mode,
            now: self.state.cycles,
            file,
            register,
            op,
        };
        let value = plat
            .interrupt_file(&access)
            .map_err(|_| self.inaccessible())?;
        if op != CsrOp::Read {
            self.lines_changed();
        }
        Ok(value)
    }
}
