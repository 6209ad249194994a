//! Memory access that an instruction is about to make, for observers.

use trapless_isa::inst::{CostClass, Format, Inst, Op};
use trapless_isa::page::PAGE_MASK;

use crate::config::CACHE_BLOCK;
use crate::hart::Hart;

/// The explicit memory access of an instruction, by virtual address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryAccess {
    /// First byte, as the instruction names it. For hypervisor loads and stores this is an address
    /// of the guest.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// It loads. Atomic read-modify-writes load and store.
    pub load: bool,
    /// It stores; an `sc` that will fail counts too.
    pub store: bool,
    /// What a plain store will store; 0 for others.
    pub value: u64,
}

impl MemoryAccess {
    /// Whether it touches any of `len` bytes at `addr`; `false` if there are none.
    #[must_use]
    pub fn overlaps(&self, addr: u64, len: u64) -> bool {
        // Both differences wrap around like addresses do.
        let touched = self.addr.wrapping_sub(addr) < len || addr.wrapping_sub(self.addr) < self.len;
        touched && len != 0
    }
}

impl Hart {
    /// The memory access that `inst` makes if this hart executes it now; `None` if it makes none.
    /// Prefetches and cache-block management do not count, `cbo.zero` does.
    #[must_use]
    pub fn memory_access(&self, inst: &Inst) -> Option<MemoryAccess> {
        let class = inst.op.class();
        let (load, store) = match class {
            CostClass::Load => (true, false),
            CostClass::Store => (false, true),
            CostClass::Amo => match inst.op {
                Op::LrW | Op::LrD => (true, false),
                Op::ScW | Op::ScD => (false, true),
                _ => (true, true),
            },
            CostClass::Cbo if inst.op == Op::CboZero => (false, true),
            _ => return None,
        };
        let base = self.x(usize::from(inst.rs1 & 31));
        if inst.op == Op::CboZero {
            return Some(MemoryAccess {
                addr: base & !(CACHE_BLOCK - 1),
                len: CACHE_BLOCK,
                load,
                store,
                value: 0,
            });
        }
        let value = match inst.op.format() {
            Format::Store | Format::HStore => self.x(usize::from(inst.rs2 & 31)),
            Format::FStore => self.f(usize::from(inst.rs2)),
            _ => 0,
        };
        let len = access_len(inst);
        Some(MemoryAccess {
            addr: base.wrapping_add_signed(inst.imm.into()),
            len,
            load,
            store,
            value: value & (u64::MAX >> (64 - 8 * len)),
        })
    }
}

impl Hart {
    /// Whether the store that `inst` makes if this hart executes it now changes any of `len` bytes
    /// at `addr`. `true` if that is unknown: for all but plain stores to mapped RAM.
    #[must_use]
    pub fn store_changes(&self, inst: &Inst, addr: u64, len: u64) -> bool {
        let plain = matches!(inst.op.format(), Format::Store | Format::FStore);
        let Some(access) = self.memory_access(inst).filter(|_| plain) else {
            return true;
        };
        let bytes = (0..access.len).map(|i| (access.addr.wrapping_add(i), access.value >> (8 * i)));
        let mut bytes = bytes.filter(|(at, _)| at.wrapping_sub(addr) < len);
        // The page that was translated last, and where it is.
        let mut last: Option<(u64, Option<u64>)> = None;
        bytes.any(|(at, new)| {
            let page = at & PAGE_MASK;
            if last.is_none_or(|(last, _)| last != page) {
                last = Some((page, self.debug_translate(page)));
            }
            let start = last.and_then(|(_, start)| start);
            let old = start.and_then(|start| self.ram.load(start + (at - page), 1));
            old.is_none_or(|old| old as u8 != new as u8)
        })
    }
}

/// Width in bytes, by the operation: compressed encodings do not have it in funct3.
fn access_len(inst: &Inst) -> u64 {
    match inst.op {
        Op::Lb | Op::Lbu | Op::Sb | Op::HlvB | Op::HlvBu | Op::HsvB => 1,
        Op::Lh | Op::Lhu | Op::Sh | Op::HlvH | Op::HlvHu | Op::HlvxHu | Op::HsvH => 2,
        Op::Lw | Op::Lwu | Op::Sw | Op::Flw | Op::Fsw => 4,
        Op::HlvW | Op::HlvWu | Op::HlvxWu | Op::HsvW => 4,
        Op::Ld | Op::Sd | Op::Fld | Op::Fsd | Op::HlvD | Op::HsvD => 8,
        // Atomics have their width in funct3.
        _ if inst.raw >> 12 & 7 == 2 => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_overlaps_what_it_has_a_byte_of() {
        let access = |addr| MemoryAccess {
            addr,
            len: 8,
            load: false,
            store: true,
            value: 0,
        };
        let at = access(0x1000);
        assert!(at.overlaps(0x1007, 1) && at.overlaps(0xFFF, 2) && at.overlaps(0xFFF, 100));
        assert!(!at.overlaps(0x1008, 1) && !at.overlaps(0xFFF, 1));
        assert!(access(u64::MAX).overlaps(0, 1), "addresses wrap around");
        for addr in [0xFFF, 0x1000, 0x1004, 0x1008] {
            assert!(!at.overlaps(addr, 0), "{addr:#x} without bytes");
        }
    }
}
