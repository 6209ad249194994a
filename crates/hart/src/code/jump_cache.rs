//! Caches blocks by virtual program counter, so that most lookups of the interpreter need no
//! physical address.

use trapless_isa::page::PAGE_MASK;
use trapless_jit::FetchEntry;

use super::block::Block;
use crate::memory::address::HostAddr;
use crate::memory::huge::{Zero, Zeroed};

const JUMPS: usize = 4096;
/// An impossible program counter, since these are even.
const NOWHERE: u64 = 1;

#[derive(Clone, Copy)]
struct Jump {
    pc: u64,
    /// Of the fetch TLB's entry, which must still be present: it alone decides when a fetch walks
    /// page tables.
    addend: u64,
    /// Epoch of the code cache.
    epoch: u32,
    block: Block,
}

// SAFETY: it consists of integers and a block, of which the same holds.
unsafe impl Zero for Jump {}

/// Direct-mapped cache from virtual program counter to block.
pub(crate) struct JumpCache(Zeroed<Jump>);

impl JumpCache {
    /// An empty one.
    pub fn new() -> Self {
        let mut jumps = Zeroed::<Jump>::new(JUMPS);
        // No other slot is for program counter 0.
        jumps[0].pc = NOWHERE;
        Self(jumps)
    }

    #[inline(always)]
    fn slot(pc: u64) -> usize {
        (pc >> 1) as usize & (JUMPS - 1)
    }

    /// The block at `pc`, if it was cached with the same TLB entry in the same epoch.
    #[inline(always)]
    pub fn get(&self, pc: u64, entry: &FetchEntry, epoch: u32) -> Option<Block> {
        let jump = &self.0[Self::slot(pc)];
        let known = jump.pc == pc
            && entry.exec == pc & PAGE_MASK
            && jump.addend == entry.addend
            && jump.epoch == epoch;
        known.then_some(jump.block)
    }

    /// Caches the block at `pc`.
    pub fn set(&mut self, pc: u64, entry: &FetchEntry, epoch: u32, block: Block) {
        self.0[Self::slot(pc)] = Jump {
            pc,
            addend: entry.addend,
            epoch,
            block,
        };
    }

    /// Forgets the blocks at these offsets of the page at a host address.
    pub fn forget(&mut self, offsets: &[u16], page: HostAddr) {
        for place in places(offsets, JUMPS) {
            let jump = &mut self.0[place];
            if HostAddr::of(jump.pc, jump.addend).page() == page {
                jump.pc = NOWHERE;
            }
        }
    }

    /// Forgets all blocks.
    pub fn forget_all(&mut self) {
        self.0.iter_mut().for_each(|jump| jump.pc = NOWHERE);
    }
}

/// Slots, in a cache of `size` entries by program counter / 2, of all program counters with these
/// page offsets: a page may be mapped anywhere.
fn places(offsets: &[u16], size: usize) -> impl Iterator<Item = usize> {
    const PARCELS: usize = 4096 / 2;
    let starts = offsets.iter().map(|&offset| usize::from(offset) / 2);
    starts.flat_map(move |start| (start..size).step_by(PARCELS))
}
