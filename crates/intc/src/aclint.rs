//! The devices of the ACLINT: machine software interrupts, machine timer, supervisor software
//! interrupts (RISC-V ACLINT specification 1.0-rc4).
//!
//! Offsets are relative to the device, so that the same models serve a CLINT window (MSWI at +0,
//! MTIMER at +0x4000, see [`Clint`]) and separate ones. Sets of harts are bit masks: at most 64
//! harts.

mod inspect;

use serde::{Deserialize, Serialize};
use trapless_isa::cause::interrupt;
use trapless_isa::port::Lines;

use crate::effects::all_harts;
use crate::mmio::{NoRegister, check_access};

/// Length of the MSWI device in bytes.
pub const MSWI_LEN: u64 = 0x4000;
/// Length of the MTIMER device in bytes, `mtimecmp` registers first.
pub const MTIMER_LEN: u64 = 0x8000;
/// Length of the SSWI device in bytes.
pub const SSWI_LEN: u64 = 0x4000;
/// Offset of `mtime` in the MTIMER device, as in SiFive's CLINT.
pub const MTIME: u64 = 0x7ff8;

/// MSWI: one `msip` register of 4 bytes for each hart.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mswi {
    harts: usize,
    msip: u64,
}

impl Mswi {
    /// MSWI for `harts` (at most 64) harts, nothing pending.
    #[must_use]
    pub fn new(harts: usize) -> Self {
        Self { harts, msip: 0 }
    }

    /// Level of MSIP of `hart`.
    #[must_use]
    pub fn pending(&self, hart: usize) -> bool {
        bit(self.msip, hart)
    }

    /// Reads a register; reserved ones read as zero.
    ///
    /// # Errors
    /// [`NoRegister`] unless the access has four bytes and is aligned.
    pub fn load(&self, offset: u64, size: u8) -> Result<u64, NoRegister> {
        check_access(offset, size, 4)?;
        Ok(u64::from(self.pending((offset / 4) as usize)))
    }

    /// Writes a register; returns the set of harts whose MSIP may have changed.
    ///
    /// # Errors
    /// [`NoRegister`] unless the access has four bytes and is aligned.
    pub fn store(&mut self, offset: u64, size: u8, value: u64) -> Result<u64, NoRegister> {
        check_access(offset, size, 4)?;
        let hart = (offset / 4) as usize;
        if hart >= self.harts {
            return Ok(0);
        }
        self.msip = self.msip & !(1 << hart) | (value & 1) << hart;
        Ok(1 << hart)
    }
}

/// SSWI: one `setssip` register of 4 bytes for each hart, reading as zero; writing 1 is an edge on
/// SSIP.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sswi {
    harts: usize,
    edges: u64,
}

impl Sswi {
    /// SSWI for `harts` (at most 64) harts.
    #[must_use]
    pub fn new(harts: usize) -> Self {
        Self { harts, edges: 0 }
    }

    /// Whether an edge was sent to `hart` since the last call.
    pub fn take(&mut self, hart: usize) -> bool {
        let edge = bit(self.edges, hart);
        if edge {
            self.edges &= !(1 << hart);
        }
        edge
    }

    /// Whether `state` describes a device of the same shape, so that it may replace this one.
    #[must_use]
    pub fn fits(&self, state: &Self) -> bool {
        self.harts == state.harts
    }

    /// Reads zero.
    ///
    /// # Errors
    /// [`NoRegister`] unless the access has four bytes and is aligned.
    pub fn load(&self, offset: u64, size: u8) -> Result<u64, NoRegister> {
        check_access(offset, size, 4)?;
        Ok(0)
    }

    /// Writes a register; returns the set of harts that got an edge.
    ///
    /// # Errors
    /// [`NoRegister`] unless the access has four bytes and is aligned.
    pub fn store(&mut self, offset: u64, size: u8, value: u64) -> Result<u64, NoRegister> {
        check_access(offset, size, 4)?;
        let hart = (offset / 4) as usize;
        if hart >= self.harts || value & 1 == 0 {
            return Ok(0);
        }
        self.edges |= 1 << hart;
        Ok(1 << hart)
    }
}

/// MTIMER: `mtime` and one `mtimecmp` for each hart, 8 bytes each, also accessible in halves.
///
/// `mtime` advances by one every `cycles_per_tick` cycles of virtual time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mtimer {
    cycles_per_tick: u64,
    /// `mtime` minus elapsed ticks; changes when software writes `mtime`.
    offset: u64,
    mtimecmp: Vec<u64>,
}

impl Mtimer {
    /// MTIMER for `harts` harts, all comparators at their maximum, so that nothing is pending.
    ///
    /// # Panics
    /// If `cycles_per_tick` is 0.
    #[must_use]
    pub fn new(harts: usize, cycles_per_tick: u64) -> Self {
        assert!(cycles_per_tick > 0, "a tick has at least one cycle");
        Self {
            cycles_per_tick,
            offset: 0,
            mtimecmp: vec![u64::MAX; harts],
        }
    }

    /// `mtime` at virtual time `now` (cycles).
    #[must_use]
    pub fn mtime(&self, now: u64) -> u64 {
        (now / self.cycles_per_tick).wrapping_add(self.offset)
    }

    /// Level of MTIP of `hart` at `now`, and the time in cycles at which it rises (`u64::MAX` if it
    /// is high or cannot rise in representable time).
    #[must_use]
    pub fn pending(&self, hart: usize, now: u64) -> (bool, u64) {
        let Some(&compare) = self.mtimecmp.get(hart) else {
            return (false, u64::MAX);
        };
        let mtime = self.mtime(now);
        if mtime >= compare {
            return (true, u64::MAX);
        }
        let tick = (now / self.cycles_per_tick).saturating_add(compare - mtime);
        (false, tick.saturating_mul(self.cycles_per_tick))
    }

    /// Reads a register; reserved ones read as zero.
    ///
    /// # Errors
    /// [`NoRegister`] unless the access has four or eight bytes and is aligned.
    pub fn load(&self, offset: u64, size: u8, now: u64) -> Result<u64, NoRegister> {
        half_or_whole(offset, size)?;
        let register = match offset & !7 {
            MTIME => self.mtime(now),
            at => self.mtimecmp.get((at / 8) as usize).copied().unwrap_or(0),
        };
        Ok(match (size, offset & 4) {
            (8, _) => register,
            (_, 0) => register & 0xffff_ffff,
            _ => register >> 32,
        })
    }

    /// Writes a register; returns the set of harts whose MTIP may have changed.
    ///
    /// # Errors
    /// [`NoRegister`] unless the access has four or eight bytes and is aligned.
    pub fn store(
        &mut self,
        offset: u64,
        size: u8,
        value: u64,
        now: u64,
    ) -> Result<u64, NoRegister> {
        half_or_whole(offset, size)?;
        let at = offset & !7;
        let hart = (at / 8) as usize;
        let old = match at {
            MTIME => self.mtime(now),
            _ if hart < self.mtimecmp.len() => self.mtimecmp[hart],
            _ => return Ok(0),
        };
        let new = match (size, offset & 4) {
            (8, _) => value,
            (_, 0) => old & !0xffff_ffff | value & 0xffff_ffff,
            _ => old & 0xffff_ffff | value << 32,
        };
        if at == MTIME {
            self.offset = self.offset.wrapping_add(new.wrapping_sub(old));
            return Ok(all_harts(self.mtimecmp.len()));
        }
        self.mtimecmp[hart] = new;
        Ok(1 << hart)
    }

    /// Whether `state` describes a timer of the same shape, so that it may replace this one.
    #[must_use]
    pub fn fits(&self, state: &Self) -> bool {
        self.cycles_per_tick == state.cycles_per_tick && self.mtimecmp.len() == state.mtimecmp.len()
    }
}

/// MSWI and MTIMER in one window, laid out as in SiFive's CLINT.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Clint {
    mswi: Mswi,
    mtimer: Mtimer,
}

/// A register of a [`Clint`]: the device that has it, and the offset in that device.
enum Register {
    Mswi(u64),
    Mtimer(u64),
}

impl Register {
    fn at(offset: u64) -> Result<Self, NoRegister> {
        match offset.checked_sub(MSWI_LEN) {
            None => Ok(Self::Mswi(offset)),
            Some(offset) if offset < MTIMER_LEN => Ok(Self::Mtimer(offset)),
            Some(_) => Err(NoRegister),
        }
    }
}

impl Clint {
    /// Both devices after reset.
    ///
    /// # Panics
    /// If `cycles_per_tick` is 0.
    #[must_use]
    pub fn new(harts: usize, cycles_per_tick: u64) -> Self {
        Self {
            mswi: Mswi::new(harts),
            mtimer: Mtimer::new(harts, cycles_per_tick),
        }
    }

    /// Reads the register at byte `offset` of the window.
    ///
    /// # Errors
    /// [`NoRegister`] behind the MTIMER, and where the device refuses the access.
    pub fn load(&self, offset: u64, size: u8, now: u64) -> Result<u64, NoRegister> {
        match Register::at(offset)? {
            Register::Mswi(offset) => self.mswi.load(offset, size),
            Register::Mtimer(offset) => self.mtimer.load(offset, size, now),
        }
    }

    /// Writes the register at byte `offset` of the window; returns the set of harts whose MSIP or
    /// MTIP may have changed.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn store(
        &mut self,
        offset: u64,
        size: u8,
        value: u64,
        now: u64,
    ) -> Result<u64, NoRegister> {
        match Register::at(offset)? {
            Register::Mswi(offset) => self.mswi.store(offset, size, value),
            Register::Mtimer(offset) => self.mtimer.store(offset, size, value, now),
        }
    }

    /// MSIP and MTIP of `hart` at `now`, and when MTIP rises.
    #[must_use]
    pub fn lines(&self, hart: usize, now: u64) -> Lines {
        let (timer, deadline) = self.mtimer.pending(hart, now);
        Lines {
            level: u64::from(self.mswi.pending(hart)) << interrupt::MSI
                | u64::from(timer) << interrupt::MTI,
            deadline,
            ..Lines::default()
        }
    }

    /// Whether `state` describes devices of the same shape, so that it may replace this one.
    #[must_use]
    pub fn fits(&self, state: &Self) -> bool {
        self.mswi.harts == state.mswi.harts && self.mtimer.fits(&state.mtimer)
    }
}

fn bit(set: u64, hart: usize) -> bool {
    hart < 64 && set >> hart & 1 != 0
}

fn half_or_whole(offset: u64, size: u8) -> Result<(), NoRegister> {
    check_access(offset, size, if size == 8 { 8 } else { 4 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_rises_exactly_at_its_deadline() {
        let mut timer = Mtimer::new(2, 100);
        timer.store(8, 8, 50, 1234).unwrap();
        let (level, deadline) = timer.pending(1, 1234);
        assert!(!level);
        assert_eq!(deadline, 5000);
        assert!(!timer.pending(1, deadline - 1).0);
        assert!(timer.pending(1, deadline).0);
        assert!(
            !timer.pending(0, deadline).0,
            "the other hart has its own comparator"
        );
    }

    #[test]
    fn writing_mtime_moves_deadlines() {
        let mut timer = Mtimer::new(1, 100);
        timer.store(0, 8, 50, 0).unwrap();
        timer.store(MTIME, 8, 40, 1000).unwrap();
        assert_eq!(timer.mtime(1000), 40);
        assert_eq!(timer.pending(0, 1000), (false, 2000));
        timer.store(MTIME + 4, 4, 1, 1000).unwrap();
        assert_eq!(timer.load(MTIME, 8, 1000), Ok((1 << 32) + 40));
        assert!(timer.pending(0, 1000).0);
    }

    #[test]
    fn comparators_are_writable_in_halves() {
        let mut timer = Mtimer::new(1, 1);
        timer.store(0, 4, 0x1234_5678, 0).unwrap();
        timer.store(4, 4, 0x9abc_def0, 0).unwrap();
        assert_eq!(timer.load(0, 8, 0), Ok(0x9abc_def0_1234_5678));
        assert_eq!(timer.load(4, 4, 0), Ok(0x9abc_def0));
        assert_eq!(timer.load(2, 4, 0), Err(NoRegister));
        assert_eq!(timer.load(4, 8, 0), Err(NoRegister));
        assert_eq!(timer.load(0, 2, 0), Err(NoRegister));
    }

    #[test]
    fn far_comparators_do_not_overflow() {
        let mut timer = Mtimer::new(1, 100);
        timer.store(0, 8, u64::MAX - 1, 7).unwrap();
        assert_eq!(timer.pending(0, u64::MAX - 1), (false, u64::MAX));
    }

    #[test]
    fn software_interrupts_are_levels_for_m_and_edges_for_s() {
        let mut mswi = Mswi::new(3);
        assert_eq!(mswi.store(8, 4, 0xff), Ok(1 << 2));
        assert!(mswi.pending(2) && mswi.pending(2));
        assert_eq!(mswi.load(8, 4), Ok(1));
        assert_eq!(mswi.store(12, 4, 1), Ok(0), "hart 3 does not exist");
        let mut sswi = Sswi::new(3);
        assert_eq!(sswi.store(4, 4, 1), Ok(1 << 1));
        assert_eq!(sswi.load(4, 4), Ok(0));
        assert!(sswi.take(1) && !sswi.take(1));
    }
}
