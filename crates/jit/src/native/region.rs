//! Regions: blocks of a page that form loops, to be compiled once more, together.
//!
//! Here is what does not depend on the host: which blocks, where time is checked and how it is
//! charged. A block by itself checks the limit and charges its price at its start. In a region only
//! *heads* do, the blocks where loops begin: a head checks that every block on the way to the next
//! head may begin, and charges the way that is taken most. Edges that leave this way correct the
//! charge. A check that fails leaves the region before the head; the blocks by themselves go on, up
//! to the limit. So each block begins under the same condition, and with the same charges, as
//! without the region.

use trapless_isa::inst::{CostClass, NO_REG, Op};

use super::target::LAST_PARCEL;
use crate::Source;

/// Maximum number of blocks of a region.
const MOST: usize = 48;

/// Maximum price of all blocks of a region in cycles: charges have 32 bits.
const MOST_CYCLES: u64 = 1 << 30;

/// What is added to the counters of a hart.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Charge {
    pub cycles: i32,
    pub instructions: i32,
}

impl Charge {
    /// The price of a block.
    pub fn of(source: &Source<'_>) -> Self {
        Self {
            cycles: source.cost as i32,
            instructions: source.insts.len() as i32,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            cycles: self.cycles + other.cycles,
            instructions: self.instructions + other.instructions,
        }
    }

    /// The difference.
    pub fn minus(self, other: Self) -> Self {
        Self {
            cycles: self.cycles - other.cycles,
            instructions: self.instructions - other.instructions,
        }
    }
}

/// A way from one block to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    /// Offset in the page of the next block; outside 0..4096, it is in another page.
    pub offset: i32,
    /// Index of the next block in the region; `None`: the region is left.
    pub to: Option<usize>,
    /// Correction of the charge.
    pub charge: Charge,
}

/// A block of a region.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    pub source: Source<'a>,
    /// How often it is executed, about; 1 or more.
    pub weight: u64,
    /// Where its branch or jump goes.
    pub taken: Option<Edge>,
    /// What follows it.
    pub next: Option<Edge>,
    /// Loops begin here: the most cycles that blocks before the last one on a way to the next head
    /// take. A head may begin if so many cycles later a block may.
    pub head: Option<i32>,
    /// What has been charged when the block begins, for it and for blocks after it.
    pub ahead: Charge,
}

impl Node<'_> {
    /// What has been charged for blocks after this one.
    pub fn beyond(&self) -> Charge {
        self.ahead.minus(Charge::of(&self.source))
    }
}

/// Blocks in order of addresses.
#[derive(Clone)]
pub(crate) struct Plan<'a> {
    pub nodes: Vec<Node<'a>>,
}

/// Offsets of the page where execution goes on after a block: where it jumps to, and what follows.
/// `None`: the block cannot be in a region.
fn successors(source: &Source<'_>) -> Option<[Option<i32>; 2]> {
    let (last, before) = source.insts.split_last()?;
    let length: u32 = before.iter().map(|inst| u32::from(inst.len)).sum();
    let at = (source.offset + length) as i32;
    let next = at + i32::from(last.len);
    let target = at.wrapping_add(last.imm);
    match last.op.class() {
        _ if !last.op.ends_block() => Some([None, Some(next)]),
        CostClass::Branch => Some([Some(target), Some(next)]),
        // Calls and returns are predicted by the host (control.rs of the kind of host).
        CostClass::Jump if last.op == Op::Jal && matches!(last.rd, 0 | NO_REG) => {
            Some([Some(target), None])
        }
        _ => None,
    }
}

/// A block under consideration, and where it leads to.
type Candidate<'a> = (Source<'a>, [Option<i32>; 2]);

/// Those of `candidates` from which the block at offset `from` is reached.
fn reaching(candidates: &[Candidate<'_>], from: u32) -> Vec<bool> {
    let mut reaches = vec![false; candidates.len()];
    loop {
        let mut changed = false;
        for at in 0..candidates.len() {
            let leads = |to: i32| {
                let known = |(other, reaches): (&Candidate<'_>, &bool)| {
                    *reaches && other.0.offset as i32 == to
                };
                to == from as i32 || candidates.iter().zip(&reaches).any(known)
            };
            if !reaches[at] && candidates[at].1.into_iter().flatten().any(leads) {
                reaches[at] = true;
                changed = true;
            }
        }
        if !changed {
            return reaches;
        }
    }
}

impl<'a> Plan<'a> {
    /// All loops through the block at offset `from` of a page, if there are any. `block` returns
    /// the block at an offset if it may be part of a region, `weight` how often one is executed,
    /// about.
    pub fn find(
        from: u32,
        block: impl Fn(u32) -> Option<Source<'a>>,
        weight: impl Fn(&Source<'a>) -> u64,
    ) -> Option<Self> {
        let mut candidates: Vec<Candidate<'a>> = Vec::new();
        let mut ahead = vec![from];
        while let Some(offset) = ahead.pop() {
            let seen = candidates.iter().any(|(block, _)| block.offset == offset);
            // The code of an instruction across pages checks memory first, and serves other pages.
            if seen || candidates.len() == MOST || offset >= LAST_PARCEL as u32 {
                continue;
            }
            let Some(source) = block(offset) else {
                continue;
            };
            if let Some(to) = successors(&source) {
                candidates.push((source, to));
                ahead.extend(to.into_iter().flatten().flat_map(u32::try_from));
            }
        }
        let reaches = reaching(&candidates, from);
        let in_loop = candidates.into_iter().zip(reaches);
        let mut blocks: Vec<_> = in_loop.filter(|(_, in_loop)| *in_loop).collect();
        if !blocks.iter().any(|((block, _), _)| block.offset == from) {
            return None;
        }
        let price: u64 = blocks
            .iter()
            .map(|((block, _), _)| u64::from(block.cost))
            .sum();
        if price > MOST_CYCLES {
            return None;
        }
        blocks.sort_by_key(|((block, _), _)| block.offset);
        let blocks: Vec<Candidate<'a>> = blocks.into_iter().map(|(block, _)| block).collect();
        let weights: Vec<u64> = blocks.iter().map(|(block, _)| weight(block)).collect();
        Some(Self::of(&blocks, &weights))
    }

    /// Indices and blocks of the heads.
    pub fn heads(&self) -> impl Iterator<Item = (usize, Source<'a>)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter_map(|(index, node)| node.head.map(|_| (index, node.source)))
    }

    /// Chooses heads and charges.
    fn of(blocks: &[Candidate<'a>], weights: &[u64]) -> Self {
        let index = |offset: i32| {
            let found = blocks.binary_search_by_key(&offset, |(block, _)| block.offset as i32);
            found.ok()
        };
        // Every loop has an edge backwards, so that heads are in all loops.
        let mut head = vec![false; blocks.len()];
        for (at, (_, to)) in blocks.iter().enumerate() {
            for to in to.iter().flatten().filter_map(|&to| index(to)) {
                head[to] |= to <= at;
            }
        }
        let mut before = vec![0; blocks.len()];
        let mut ahead = vec![Charge::default(); blocks.len()];
        // Between heads edges lead forwards.
        for (at, (source, to)) in blocks.iter().enumerate().rev() {
            let price = Charge::of(source);
            let inside = to.iter().flatten().filter_map(|&to| index(to));
            let between = inside.clone().filter(|&to| !head[to]);
            let most = between.map(|to| price.cycles + before[to]).max();
            before[at] = most.unwrap_or(0);
            let usual = inside.max_by_key(|&to| weights[to]);
            let after = usual.filter(|&to| !head[to]).map(|to| ahead[to]);
            ahead[at] = price.plus(after.unwrap_or_default());
        }
        let edge = |at: usize, offset: i32| {
            let to = index(offset);
            let needed = to.filter(|&to| !head[to]).map(|to| ahead[to]);
            let paid = ahead[at].minus(Charge::of(&blocks[at].0));
            Edge {
                offset,
                to,
                charge: needed.unwrap_or_default().minus(paid),
            }
        };
        let node = |(at, (source, [taken, next])): (usize, &Candidate<'a>)| Node {
            source: *source,
            weight: weights[at].max(1),
            taken: taken.map(|offset| edge(at, offset)),
            next: next.map(|offset| edge(at, offset)),
            head: head[at].then_some(before[at]),
            ahead: ahead[at],
        };
        Self {
            nodes: blocks.iter().enumerate().map(node).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use trapless_isa::{Inst, decode};

    use super::*;

    /// Blocks at their offsets, 1 cycle for each instruction.
    fn region(from: u32, blocks: &[(u32, &[u32])]) -> Option<Vec<(u32, Option<i32>, Charge)>> {
        let decoded: Vec<(u32, Vec<Inst>)> = blocks
            .iter()
            .map(|(offset, words)| (*offset, words.iter().map(|&word| decode(word)).collect()))
            .collect();
        let block = |offset| {
            let (offset, insts) = decoded.iter().find(|(at, _)| *at == offset)?;
            Some(Source {
                block: 0,
                insts,
                cost: insts.len() as u32,
                page: 0,
                offset: *offset,
                crossing: None,
            })
        };
        let plan = Plan::find(from, block, |_| 1)?;
        for node in &plan.nodes {
            // Whatever way is taken, at a head and outside everything is paid, and nothing more.
            for edge in [node.taken, node.next].into_iter().flatten() {
                let to = edge.to.map(|to| &plan.nodes[to]);
                let due = to.filter(|to| to.head.is_none()).map(|to| to.ahead);
                assert_eq!(
                    node.beyond().plus(edge.charge),
                    due.unwrap_or_default(),
                    "{edge:?}"
                );
            }
        }
        let seen = |node: &Node<'_>| (node.source.offset, node.head, node.ahead);
        Some(plan.nodes.iter().map(seen).collect())
    }

    const ADD: u32 = 0x0015_0513;

    /// `beq zero, zero` to a distance.
    fn branch(distance: i32) -> u32 {
        let bits = distance as u32;
        0x63 | (bits >> 11 & 1) << 7
            | (bits >> 1 & 15) << 8
            | (bits >> 5 & 63) << 25
            | (bits >> 12 & 1) << 31
    }

    fn charge(price: i32) -> Charge {
        Charge {
            cycles: price,
            instructions: price,
        }
    }

    #[test]
    fn a_loop_of_one_block_checks_as_the_block_does() {
        let found = region(8, &[(8, &[ADD, branch(-4)])]).unwrap();
        assert_eq!(found, [(8, Some(0), charge(2))]);
        let outside = region(0, &[(0, &[ADD, branch(16)]), (8, &[branch(0)])]);
        assert!(outside.is_none(), "only the second block is in a loop");
    }

    #[test]
    fn a_head_checks_for_the_longest_way_and_charges_one() {
        // 0: to 16, or 8; 8: on to 16; 16: back to 0.
        let blocks: [(u32, &[u32]); 3] = [
            (0, &[ADD, branch(12)]),
            (8, &[ADD, ADD]),
            (16, &[ADD, ADD, branch(-24)]),
        ];
        let found = region(16, &blocks).unwrap();
        assert_eq!(found[0].1, Some(4), "both blocks before the last");
        assert_eq!((found[1].1, found[2].1), (None, None));
        assert_eq!(found[2].2, charge(3));
    }
}
