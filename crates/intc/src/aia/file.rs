//! One interrupt file of an IMSIC: its state, its registers, and its output.

use serde::{Deserialize, Serialize};
use trapless_isa::port::{CsrOp, FileRegister, NoFile};

use crate::inspect::bits;

/// Highest interrupt identity of each file, as on QEMU's `virt`.
pub const IDENTITIES: u16 = 255;

const WORDS: usize = (IDENTITIES as usize + 1) / 64;
/// Identity 0 does not exist.
const FIRST_WORD: u64 = !1;
/// Bits of `eithreshold`: any identity that a file can have.
const THRESHOLD: u64 = 0x7FF;

// Values of `xiselect` (chapter "Incoming MSI Controller", section "CSRs for external interrupts").
const EIDELIVERY: u8 = 0x70;
const EITHRESHOLD: u8 = 0x72;
const EIP0: u8 = 0x80;
const EIE0: u8 = 0xC0;

/// Bits of state in a file, for comparing what hardware costs: pending and enabled for each
/// identity, delivery on or off, the threshold.
pub const FILE_STATE_BITS: u32 = 2 * IDENTITIES as u32 + 1 + THRESHOLD.count_ones();

/// An interrupt file after reset: nothing pending or enabled, delivery off.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct InterruptFile {
    delivery: bool,
    threshold: u16,
    pending: [u64; WORDS],
    enabled: [u64; WORDS],
}

impl InterruptFile {
    /// Makes `identity` pending, as a message does; one that does not exist is ignored. Returns
    /// whether it was pending already.
    pub fn post(&mut self, identity: u32) -> bool {
        if !(1..=u32::from(IDENTITIES)).contains(&identity) {
            return false;
        }
        let (word, bit) = (identity as usize / 64, 1 << (identity % 64));
        let merged = self.pending[word] & bit != 0;
        self.pending[word] |= bit;
        merged
    }

    /// The pending, enabled identity of highest priority (the lowest number) that the threshold
    /// permits; 0 if there is none.
    #[must_use]
    pub fn top(&self) -> u16 {
        let words = self.pending.iter().zip(&self.enabled).enumerate();
        let first = words
            .map(|(index, (pending, enabled))| (index as u16, pending & enabled))
            .find(|(_, both)| *both != 0)
            .map_or(0, |(index, both)| index * 64 + both.trailing_zeros() as u16);
        if self.threshold != 0 && first >= self.threshold {
            0
        } else {
            first
        }
    }

    /// Level of the external interrupt.
    #[must_use]
    pub fn raised(&self) -> bool {
        self.delivery && self.top() != 0
    }

    /// Whether it delivers interrupts at all: `eidelivery`.
    #[must_use]
    pub fn delivers(&self) -> bool {
        self.delivery
    }

    /// `eithreshold`; 0: none.
    #[must_use]
    pub fn threshold(&self) -> u16 {
        self.threshold
    }

    /// Identities that are pending.
    pub fn pending(&self) -> impl Iterator<Item = usize> {
        bits(self.pending, 64)
    }

    /// Identities that are enabled.
    pub fn enabled(&self) -> impl Iterator<Item = usize> {
        bits(self.enabled, 64)
    }

    /// Accesses a register from RV64 code; returns its old value.
    ///
    /// # Errors
    /// [`NoFile`] for the odd-numbered `eip` and `eie`, which RV64 does not have, and for numbers
    /// of no register of a file.
    pub fn access(&mut self, register: FileRegister, op: CsrOp) -> Result<u64, NoFile> {
        let FileRegister::Indirect(select) = register else {
            let top = self.top();
            if op != CsrOp::Read {
                self.pending[usize::from(top) / 64] &= !(1 << (top % 64));
            }
            return Ok(u64::from(top) << 16 | u64::from(top));
        };
        match select {
            EIDELIVERY => {
                let old = u64::from(self.delivery);
                if let Some(value) = op.written(old) {
                    self.delivery = value & 1 != 0;
                }
                Ok(old)
            }
            EITHRESHOLD => {
                let old = u64::from(self.threshold);
                if let Some(value) = op.written(old) {
                    self.threshold = (value & THRESHOLD) as u16;
                }
                Ok(old)
            }
            EIP0.. if select & 1 != 0 => Err(NoFile),
            EIP0..EIE0 => Ok(array(&mut self.pending, select - EIP0, op)),
            EIE0.. => Ok(array(&mut self.enabled, select - EIE0, op)),
            ..EIDELIVERY => Err(NoFile),
            // Reserved.
            _ => Ok(0),
        }
    }
}

/// Accesses register `number` of `eip` or `eie`; the bits of identities that do not exist are zero.
fn array(bits: &mut [u64; WORDS], number: u8, op: CsrOp) -> u64 {
    let index = usize::from(number / 2);
    let Some(word) = bits.get_mut(index) else {
        return 0;
    };
    let old = *word;
    if let Some(value) = op.written(old) {
        *word = if index == 0 {
            value & FIRST_WORD
        } else {
            value
        };
    }
    old
}
