//! Compilation of blocks and of regions into the buffer, on any kind of host.

use std::num::NonZeroU64;
use std::ops::Range;

use dynasmrt::VecAssembler;
use dynasmrt::relocations::Relocation;
use trapless_isa::Inst;

use super::host;
use super::idioms;
use super::listing::{Batch, Parts};
use super::region::Plan;
use super::{Jit, SITES};
use crate::{Code, Head, Known, Region, Source};

/// An assembler for address `base` with room for so many blocks of usual length: growing bit by bit
/// takes a sixth of the time of compiling.
pub(super) fn assembler<R: Relocation>(base: usize, blocks: usize) -> VecAssembler<R> {
    const BYTES: usize = 512;
    const LABELS: usize = 16;
    const REFERENCES: usize = 32;
    let [bytes, labels, references] = [BYTES, LABELS, REFERENCES].map(|each| each * blocks);
    // Of local labels there are few at a time, of global ones none.
    VecAssembler::new_with_capacity(base, bytes, 8, 0, labels, 8, references)
}

/// Code that is not in the buffer yet.
pub(super) struct Emitted {
    pub code: Vec<u8>,
    /// Where the way to each head of the region is.
    pub entered: Vec<Range<usize>>,
    /// Where the code of each block is: those of the region, then the others.
    pub parts: Vec<Parts>,
    /// Sites, and where their jumps go until they are linked.
    pub stubs: Vec<(u32, usize)>,
}

impl Jit {
    /// Compiles blocks, and links those of the same page to each other and to `known` code. `None`:
    /// no room is left; [`reset`](Self::reset) frees all.
    pub fn compile(&mut self, sources: &[Source<'_>], known: Known<'_>) -> Option<Vec<Code>> {
        if self.sites as usize + 2 * sources.len() > SITES {
            return None;
        }
        let start = self.buffer.next();
        let rewritten: Vec<_> = sources.iter().map(rewrite).collect();
        let better: Vec<_> = sources.iter().zip(&rewritten).map(replaced).collect();
        let Emitted {
            code, parts, stubs, ..
        } = self.emit(None, &better, known)?;
        self.buffer.append(&code)?;
        if let Some(listing) = &mut self.listing {
            listing.batch(&Batch {
                sources,
                parts: &parts,
                code: &code,
                start: start as u64,
            });
        }
        self.set_stubs(start, &stubs);
        let code = |parts: Parts| code_at(start, &parts.hot);
        parts.into_iter().map(code).collect()
    }

    /// Compiles the loops through the block at offset `from` of a page, if there are any, as a
    /// region, to which the code of their heads is diverted. `compiled` returns a block of the page
    /// and its code, `weight` how often a block is executed, about, by its number. `None`: there is
    /// no loop that a region can contain, or no room.
    pub fn compile_region<'a>(
        &mut self,
        from: u32,
        compiled: &dyn Fn(u32) -> Option<(Source<'a>, Code)>,
        weight: &dyn Fn(u32) -> u64,
    ) -> Option<Region> {
        let fits = |source: &Source<'_>| {
            // Else it counts instructions that take no time by itself.
            let priced = source.cost as usize >= source.insts.len();
            let mut inside = source.insts.iter().filter(|inst| !inst.op.ends_block());
            priced && inside.all(host::has_template)
        };
        let block = |offset| compiled(offset).map(|(source, _)| source).filter(&fits);
        let plan = Plan::find(from, block, |source| weight(source.block))?;
        // Two edges and a check of each block, and the same of the copies of heads.
        if self.sites as usize + 6 * plan.nodes.len() > SITES {
            return None;
        }
        let (first, start) = (self.sites, self.buffer.next());
        let rewritten: Vec<_> = plan
            .nodes
            .iter()
            .map(|node| rewrite(&node.source))
            .collect();
        let mut better = plan.clone();
        for (node, rewritten) in better.nodes.iter_mut().zip(&rewritten) {
            node.source = replaced((&node.source, rewritten));
        }
        let heads: Vec<Source<'_>> = better.heads().map(|(_, source)| source).collect();
        let known = |_, offset| compiled(offset).map(|(_, code)| code);
        let emitted = self.emit(Some(&better), &heads, &known);
        let written = emitted.filter(|emitted| self.buffer.append(&emitted.code).is_some());
        let Some(emitted) = written else {
            self.sites = first;
            return None;
        };
        if let Some(listing) = &mut self.listing {
            let inside = plan.nodes.iter().map(|node| node.source);
            let copies = plan.heads().map(|(_, source)| source);
            let sources: Vec<_> = inside.chain(copies).collect();
            listing.region(
                &Batch {
                    sources: &sources,
                    parts: &emitted.parts,
                    code: &emitted.code,
                    start: start as u64,
                },
                &emitted.entered,
            );
        }
        self.set_stubs(start, &emitted.stubs);
        let diverted = heads.iter().zip(&emitted.entered).map(|(source, entered)| {
            let (_, old) = compiled(source.offset)?;
            let code = code_at(start, entered)?;
            self.divert(old, code).then_some(Head {
                block: source.block,
                offset: source.offset,
                code,
            })
        });
        Some(Region {
            heads: diverted.flatten().collect(),
            blocks: plan.nodes.iter().map(|node| node.source.block).collect(),
        })
    }

    /// Lets the code of a block jump to other code of that block.
    fn divert(&mut self, from: Code, to: Code) -> bool {
        let from = from.address() as usize;
        let jump = host::jump(from, to.address() as usize);
        jump.is_some_and(|jump| self.buffer.overwrite(from, &jump))
    }
}

/// The instructions of a block, rewritten if they contain [`idioms`].
fn rewrite(source: &Source<'_>) -> Option<Vec<Inst>> {
    idioms::rewrite(source.insts)
}

/// A block with rewritten instructions, if there are any.
fn replaced<'a>((source, rewritten): (&Source<'a>, &'a Option<Vec<Inst>>)) -> Source<'a> {
    Source {
        insts: rewritten.as_deref().unwrap_or(source.insts),
        ..*source
    }
}

/// The code that begins where `part` does, of what was emitted for address `start`.
fn code_at(start: usize, part: &Range<usize>) -> Option<Code> {
    NonZeroU64::new((start + part.start) as u64).map(Code)
}
