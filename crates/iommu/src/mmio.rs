//! Loads and stores of harts. Registers of eight bytes may be accessed as two halves; an access
//! that is no aligned word or pair of words reads as zero and stores nothing.

use crate::Iommu;
use crate::queue::csr;
use crate::registers::{CAPABILITIES, FCTL_WSI, at, ddtp, debug};
use crate::tables::context::Mode;

impl Iommu {
    /// A load.
    #[must_use]
    pub fn read(&self, offset: u64, len: usize) -> u64 {
        match (len, offset % 8) {
            (4, 0 | 4) => self.word(offset).into(),
            (8, 0) => u64::from(self.word(offset)) | u64::from(self.word(offset + 4)) << 32,
            _ => 0,
        }
    }

    fn word(&self, offset: u64) -> u32 {
        let state = &self.state;
        let half = |register: u64| (register >> (8 * (offset & 4))) as u32;
        match offset {
            at::FCTL => state.fctl,
            at::CQH => state.commands.head(),
            at::CQT => state.commands.tail(),
            at::FQH => state.faults.head(),
            at::FQT => state.faults.tail(),
            at::PQH => state.pages.head(),
            at::PQT => state.pages.tail(),
            at::CQCSR => state.commands.csr(),
            at::FQCSR => state.faults.csr(),
            at::PQCSR => state.pages.csr(),
            at::IPSR => state.interrupts.pending(),
            at::IOCOUNTOVF..at::TR_REQ_IOVA => state.counters.load(offset, self.clock.now_ns()),
            at::MSI_CFG_TBL..at::MSI_CFG_TBL_END => state.interrupts.load(offset - at::MSI_CFG_TBL),
            _ => match offset & !7 {
                at::CAPABILITIES => half(CAPABILITIES),
                at::DDTP => half(state.ddtp),
                at::CQB => half(state.commands.base()),
                at::FQB => half(state.faults.base()),
                at::PQB => half(state.pages.base()),
                at::TR_REQ_IOVA => half(state.request_address),
                at::TR_REQ_CTL => half(state.request_control),
                at::TR_RESPONSE => half(state.response),
                at::ICVEC => half(state.interrupts.vectors()),
                _ => 0,
            },
        }
    }

    /// A store.
    pub fn write(&mut self, offset: u64, len: usize, value: u64) {
        self.pass();
        match (len, offset % 8) {
            (4, 0 | 4) => self.store_word(offset, value as u32),
            // The upper half first: the lower one of some registers starts something.
            (8, 0) => {
                self.store_word(offset + 4, (value >> 32) as u32);
                self.store_word(offset, value as u32);
            }
            _ => {}
        }
    }

    fn store_word(&mut self, offset: u64, value: u32) {
        let state = &mut self.state;
        match offset {
            at::FCTL => {
                // Little-endian, and no Sv32.
                state.fctl = value & FCTL_WSI;
                self.drive();
            }
            at::CQT => {
                state.commands.set_tail(value);
                self.carry_out();
            }
            at::FQH => state.faults.set_head(value),
            at::PQH => state.pages.set_head(value),
            at::CQCSR => {
                if state.commands.set_csr(value, csr::COMMAND_ERRORS) {
                    state.commands.set_head(0);
                }
                self.clear_pending(0);
                self.carry_out();
            }
            at::FQCSR => {
                if state.faults.set_csr(value, csr::RECORD_ERRORS) {
                    state.faults.set_tail(0);
                }
                self.clear_pending(0);
            }
            at::PQCSR => {
                if state.pages.set_csr(value, csr::RECORD_ERRORS) {
                    state.pages.set_tail(0);
                }
                self.clear_pending(0);
            }
            at::IPSR => self.clear_pending(value),
            at::IOCOUNTOVF..at::TR_REQ_IOVA => state.counters.store(offset, value),
            at::MSI_CFG_TBL..at::MSI_CFG_TBL_END => {
                self.store_message_entry(offset - at::MSI_CFG_TBL, value);
            }
            _ => self.store_half(offset, value),
        }
    }

    /// A store to half of a register of eight bytes.
    fn store_half(&mut self, offset: u64, value: u32) {
        let state = &mut self.state;
        let with = |register: u64| match offset & 4 {
            0 => register & !0xffff_ffff | u64::from(value),
            _ => register & 0xffff_ffff | u64::from(value) << 32,
        };
        match offset & !7 {
            at::DDTP => {
                let new = with(state.ddtp) & ddtp::WRITABLE;
                // A mode that there is not leaves the old one.
                let mode = match new & ddtp::MODE {
                    mode if mode <= ddtp::LAST => mode,
                    _ => state.ddtp & ddtp::MODE,
                };
                state.ddtp = new & !ddtp::MODE | mode;
            }
            at::CQB => state.commands.set_base(with(state.commands.base())),
            at::FQB => state.faults.set_base(with(state.faults.base())),
            at::PQB => state.pages.set_base(with(state.pages.base())),
            at::TR_REQ_IOVA => state.request_address = with(state.request_address) & !0xfff,
            at::TR_REQ_CTL => {
                state.request_control = with(state.request_control) & debug::WRITABLE;
                if offset & 4 == 0 && value & debug::GO as u32 != 0 {
                    self.answer_debugger();
                }
            }
            at::ICVEC => {
                let vectors = with(state.interrupts.vectors());
                state.interrupts.set_vectors(vectors);
                self.drive();
            }
            _ => {}
        }
    }

    /// Whether devices see physical addresses.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        Mode::of(self.state.ddtp) == Mode::Bare
    }
}
