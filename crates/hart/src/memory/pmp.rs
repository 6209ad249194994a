//! Physical memory protection (privileged specification, "Physical Memory Protection"): 16 entries,
//! granularity 4 bytes.

use std::cell::Cell;

use serde::{Deserialize, Serialize};
use trapless_isa::Priv;

use super::address::Access;

const ENTRIES: usize = 16;

const R: u8 = 1 << 0;
const W: u8 = 1 << 1;
const X: u8 = 1 << 2;
const A: u8 = 3 << 3;
const TOR: u8 = 1 << 3;
const NA4: u8 = 2 << 3;
const L: u8 = 1 << 7;

/// `pmpaddr` holds bits 55:2 of an address.
const ADDR_MASK: u64 = (1 << 54) - 1;

/// The PMP registers of one hart.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Pmp {
    cfg: [u8; ENTRIES],
    addr: [u64; ENTRIES],
    /// Byte range `[start, end)` of each entry that is on.
    ranges: [Option<(u64, u64)>; ENTRIES],
    /// Verdict of the last check below M-mode, and the range around it in which no entry begins or
    /// ends.
    #[serde(skip)]
    last: Cell<(u64, u64, [bool; 3])>,
}

/// Verdict for a range of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The same for every byte: read, write, execute.
    Uniform([bool; 3]),
    /// Entries cover the range only in part.
    Mixed,
}

impl Pmp {
    /// Value of `pmpcfg<2 * pair>`.
    pub(crate) fn cfg(&self, pair: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.cfg[pair * 8..pair * 8 + 8]);
        u64::from_le_bytes(bytes)
    }

    /// Value of `pmpaddr<index>`.
    pub(crate) fn addr(&self, index: usize) -> u64 {
        self.addr[index]
    }

    /// Writes `pmpcfg<2 * pair>`; locked entries keep their value, the reserved W without R is
    /// ignored.
    pub(crate) fn set_cfg(&mut self, pair: usize, value: u64) {
        for (i, byte) in value.to_le_bytes().into_iter().enumerate() {
            let cfg = &mut self.cfg[pair * 8 + i];
            if *cfg & L == 0 && byte & (R | W) != W {
                *cfg = byte & (R | W | X | A | L);
            }
        }
        self.update();
    }

    /// Writes `pmpaddr<index>` unless it is locked, directly or by a locked TOR entry above it.
    pub(crate) fn set_addr(&mut self, index: usize, value: u64) {
        let above = self.cfg.get(index + 1).copied().unwrap_or(0);
        if self.cfg[index] & L == 0 && above & (L | A) != L | TOR {
            self.addr[index] = value & ADDR_MASK;
            self.update();
        }
    }

    fn update(&mut self) {
        self.last = Cell::default();
        for i in 0..ENTRIES {
            let a = self.addr[i];
            self.ranges[i] = match self.cfg[i] & A {
                0 => None,
                TOR => {
                    let start = if i == 0 { 0 } else { self.addr[i - 1] << 2 };
                    Some((start, a << 2))
                }
                NA4 => Some((a << 2, (a << 2) + 4)),
                _ => {
                    let size = 8u64 << a.trailing_ones().min(53);
                    let start = (a << 2) & !(size - 1);
                    Some((start, start.saturating_add(size)))
                }
            };
        }
    }

    /// What an access with a privilege may do with `len` bytes at `addr`.
    pub(crate) fn check(&self, addr: u64, len: u64, privilege: Priv) -> Verdict {
        let end = addr.saturating_add(len);
        let (start, stop, rwx) = self.last.get();
        if privilege != Priv::M && start <= addr && end <= stop {
            return Verdict::Uniform(rwx);
        }
        let verdict = self.search(addr, end, privilege);
        if let (Verdict::Uniform(rwx), Priv::S | Priv::U) = (verdict, privilege) {
            let bounds = self.ranges.iter().flatten();
            let bounds = bounds.flat_map(|&(start, stop)| [start, stop]);
            let (mut low, mut high) = (0, u64::MAX);
            for bound in bounds {
                if bound <= addr {
                    low = low.max(bound);
                } else {
                    high = high.min(bound);
                }
            }
            self.last.set((low, high, rwx));
        }
        verdict
    }

    fn search(&self, addr: u64, end: u64, privilege: Priv) -> Verdict {
        for (cfg, range) in self.cfg.iter().zip(&self.ranges) {
            let Some((start, stop)) = *range else {
                continue;
            };
            if stop <= addr || end <= start || start >= stop {
                continue;
            }
            if addr < start || stop < end {
                return Verdict::Mixed;
            }
            if privilege == Priv::M && cfg & L == 0 {
                return Verdict::Uniform([true; 3]);
            }
            return Verdict::Uniform([cfg & R != 0, cfg & W != 0, cfg & X != 0]);
        }
        Verdict::Uniform([privilege == Priv::M; 3])
    }

    /// Whether one access is permitted; an access that an entry covers only in part is not.
    pub(crate) fn permits(&self, addr: u64, len: u64, privilege: Priv, access: Access) -> bool {
        match self.check(addr, len, privilege) {
            Verdict::Uniform(rwx) => rwx[access as usize],
            Verdict::Mixed => false,
        }
    }

    /// Whether S-mode may read all `len` bytes at `addr`.
    #[must_use]
    pub fn supervisor_may_read(&self, addr: u64, len: u64) -> bool {
        self.permits(addr, len, Priv::S, Access::Read)
    }

    /// Whether S-mode may write all `len` bytes at `addr`.
    #[must_use]
    pub fn supervisor_may_write(&self, addr: u64, len: u64) -> bool {
        self.permits(addr, len, Priv::S, Access::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_numbered_entry_decides_and_partial_match_fails() {
        let mut pmp = Pmp::default();
        assert!(pmp.permits(0x8000_0000, 8, Priv::M, Access::Write));
        assert!(!pmp.permits(0x8000_0000, 8, Priv::S, Access::Read));
        pmp.set_addr(0, (0x8000_0000 >> 2) | 0x1FF); // NAPOT 4 KiB, no access
        pmp.set_addr(1, ADDR_MASK); // NAPOT everything, RWX
        pmp.set_cfg(0, 0x1F_18);
        assert!(!pmp.permits(0x8000_0FF8, 8, Priv::S, Access::Read));
        assert!(pmp.permits(0x8000_1000, 8, Priv::S, Access::Read));
        assert!(!pmp.permits(0x8000_0FFC, 8, Priv::S, Access::Read));
        assert_eq!(pmp.check(0x8000_0000, 0x2000, Priv::S), Verdict::Mixed);
    }

    #[test]
    fn locked_entry_binds_machine_mode_and_keeps_its_registers() {
        let mut pmp = Pmp::default();
        pmp.set_addr(0, 0x1000);
        pmp.set_addr(1, 0x2000);
        pmp.set_cfg(0, u64::from(L | TOR | R) << 8);
        pmp.set_addr(0, 0);
        pmp.set_addr(1, 0);
        pmp.set_cfg(0, 0);
        assert_eq!(
            (pmp.addr(0), pmp.addr(1), pmp.cfg(0)),
            (0x1000, 0x2000, 0x8900)
        );
        assert!(pmp.permits(0x4000, 4, Priv::M, Access::Read));
        assert!(!pmp.permits(0x4000, 4, Priv::M, Access::Write));
    }
}
