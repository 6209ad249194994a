//! The compiler for aarch64.

mod atomic;
mod bases;
mod block;
mod compiler;
mod control;
mod csr;
pub(super) mod disassembly;
mod encode;
mod float;
mod group;
mod integer;
mod memory;
mod region;
mod regs;
mod template;
pub(super) mod trampolines;

use trapless_isa::Inst;

use super::Jit;
use super::bases::Bases;
use super::compile::Emitted;
use super::region::Plan;
use super::target::Targets;
use crate::{Known, Source};
use compiler::{BlockCompiler, Cold};
use encode::Assembler;
use regs::Registers;
use template::template_of;

/// Maximum size of code in bytes: every jump reaches all of it.
pub(super) const MOST_CODE: usize = 64 << 20;

/// Code uses nothing but what each processor of this kind has.
pub(super) fn supported() -> bool {
    true
}

/// Whether there is code for an instruction that does not end a block.
pub(super) fn has_template(inst: &Inst) -> bool {
    template_of(inst).is_some()
}

/// A jump, for address `from`.
pub(super) fn jump(from: usize, to: usize) -> Option<Vec<u8>> {
    let mut ops = Assembler::new(from);
    ops.jump(to);
    ops.finalize()
}

impl Jit {
    /// Emits the code of a region and of blocks, one or more, for the end of the buffer. `None`: a
    /// jump does not reach its target.
    pub(super) fn emit<'a>(
        &mut self,
        region: Option<&'a Plan<'a>>,
        sources: &'a [Source<'a>],
        known: Known<'a>,
    ) -> Option<Emitted> {
        let inside = region.map_or(0, |plan| plan.nodes.len());
        let mut ops = Assembler::for_blocks(self.buffer.next(), inside + sources.len());
        let targets = Targets::new(sources, || ops.new_dynamic_label(), known);
        let mut block = BlockCompiler {
            ops,
            source: sources.first()?,
            options: &self.options,
            trampolines: &self.trampolines,
            targets,
            slots: self.buffer.data(),
            sites: &mut self.sites,
            stubs: Vec::new(),
            at: 0,
            cold: Cold::default(),
            registers: Registers::of_blocks(),
            bases: Bases::default(),
            region: None,
        };
        let (entered, mut parts) = region.map(|plan| block.region(plan)).unwrap_or_default();
        let all: Vec<_> = sources.iter().collect();
        parts.extend(block.emit(&all, |block, index| block.hot(sources.get(index + 1))));
        Some(Emitted {
            code: block.ops.finalize()?,
            entered,
            parts,
            stubs: block.stubs,
        })
    }
}
