//! The compiler for x86-64 with BMI.

// The assembler's macro converts register numbers that are `u8` already.
#![allow(clippy::useless_conversion)]

mod atomic;
mod bases;
mod block;
mod compiler;
mod control;
mod copies;
mod csr;
pub(super) mod disassembly;
mod encode;
mod float;
mod group;
mod integer;
mod lifetimes;
mod long;
mod memory;
mod region;
mod regs;
mod scratch;
mod template;
pub(super) mod trampolines;

use std::arch::is_x86_feature_detected;
use std::num::NonZeroU64;

use dynasm::dynasm;
use dynasmrt::DynasmLabelApi;

use super::bases::Bases;
use super::region::Plan;
use super::target::Targets;
use super::{Emitted, Jit, SITES};
use crate::native::listing::Batch;
use crate::{Code, Head, Known, Region, Source};
use copies::Copies;
use encode::Assembler;
use regs::Registers;
use template::template_of;

/// Maximum size of code in bytes: every jump reaches all of it with a 32-bit displacement.
pub(super) const MOST_CODE: usize = 1 << 30;

/// Whether this host's processor has the extensions that code uses.
pub(super) fn supported() -> bool {
    is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

impl Jit {
    /// Emits the code of blocks, for the end of the buffer.
    pub(super) fn emit(&mut self, sources: &[Source<'_>], known: Known<'_>) -> Option<Emitted> {
        let base = self.buffer.next();
        let mut ops = Assembler::new(base);
        let targets = Targets::new(sources, || ops.new_dynamic_label(), known);
        let mut block = compiler::BlockCompiler {
            ops,
            base,
            source: sources.first()?,
            options: &self.options,
            trampolines: &self.trampolines,
            targets,
            slots: self.buffer.data(),
            sites: &mut self.sites,
            at: 0,
            cold: compiler::Cold::default(),
            registers: Registers::of_blocks(),
            lifetimes: None,
            before: None,
            copies: Copies::none(),
            bases: Bases::default(),
            recent: None,
            region: None,
        };
        let all: Vec<_> = sources.iter().collect();
        let parts = block.emit(&all, |block, index| block.hot(sources.get(index + 1)));
        let code = block.ops.finalize().ok()?;
        Some(Emitted { code, parts })
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
            let mut inside = source.insts.iter().filter(|inst| !inst.op.ends_block());
            inside.all(|inst| template_of(inst).is_some())
        };
        let block = |offset| compiled(offset).map(|(source, _)| source).filter(&fits);
        let plan = Plan::find(from, block, |source| weight(source.block))?;
        // Two edges and a check of each block, and what is left of copies.
        if self.sites as usize + 6 * plan.nodes.len() > SITES {
            return None;
        }
        let (first, base) = (self.sites, self.buffer.next());
        let mut ops = Assembler::new(base);
        let heads: Vec<(usize, Source<'_>)> = plan.heads().collect();
        let copies: Vec<Source<'_>> = heads.iter().map(|(_, source)| *source).collect();
        let known = |_, offset| compiled(offset).map(|(_, code)| code);
        let targets = Targets::new(&copies, || ops.new_dynamic_label(), &known);
        let mut block = compiler::BlockCompiler {
            ops,
            base,
            source: copies.first()?,
            options: &self.options,
            trampolines: &self.trampolines,
            targets,
            slots: self.buffer.data(),
            sites: &mut self.sites,
            at: 0,
            cold: compiler::Cold::default(),
            registers: Registers::of_blocks(),
            lifetimes: None,
            before: None,
            copies: Copies::none(),
            bases: Bases::default(),
            recent: None,
            region: None,
        };
        let (entered, mut parts) = block.region(&plan, weight);
        let all: Vec<_> = copies.iter().collect();
        parts.extend(block.emit(&all, |block, index| block.hot(copies.get(index + 1))));
        let code = block.ops.finalize().ok()?;
        self.buffer.append(&code)?;
        if let Some(listing) = &mut self.listing {
            let inside = plan.nodes.iter().map(|node| node.source);
            let sources: Vec<_> = inside.chain(copies.iter().copied()).collect();
            listing.region(
                &Batch {
                    sources: &sources,
                    parts: &parts,
                    code: &code,
                    start: base as u64,
                },
                &entered,
            );
        }
        self.unlink(first);
        let heads = copies.iter().zip(entered).map(|(source, at)| {
            let (_, old) = compiled(source.offset)?;
            let code = Code(NonZeroU64::new((base + at.start) as u64)?);
            self.divert(old, code).then_some(Head {
                block: source.block,
                offset: source.offset,
                code,
            })
        });
        Some(Region {
            heads: heads.flatten().collect(),
            blocks: plan.nodes.iter().map(|node| node.source.block).collect(),
        })
    }

    /// Lets the code of a block jump to other code of that block.
    fn divert(&mut self, from: Code, to: Code) -> bool {
        let mut ops = Assembler::new(from.address() as usize);
        let to = to.address() as usize;
        dynasm!(ops; .arch x64; jmp extern to);
        let jump = ops.finalize();
        jump.is_ok_and(|jump| self.buffer.overwrite(from.address() as usize, &jump))
    }
}
