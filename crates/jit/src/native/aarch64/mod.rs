//! The compiler for aarch64.

mod atomic;
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
mod regs;
mod template;
pub(super) mod trampolines;

use super::target::Targets;
use super::{Emitted, Jit};
use crate::{Code, Known, Region, Source};
use encode::Assembler;

/// Maximum size of code in bytes: every jump reaches all of it.
pub(super) const MOST_CODE: usize = 64 << 20;

/// Code uses nothing but what each processor of this kind has.
pub(super) fn supported() -> bool {
    true
}

impl Jit {
    /// Emits the code of blocks, for the end of the buffer.
    pub(super) fn emit(&mut self, sources: &[Source<'_>], known: Known<'_>) -> Option<Emitted> {
        let mut ops = Assembler::new(self.buffer.next());
        let targets = Targets::new(sources, || ops.new_dynamic_label(), known);
        let mut block = compiler::BlockCompiler {
            ops,
            source: sources.first()?,
            options: &self.options,
            trampolines: &self.trampolines,
            targets,
            slots: self.buffer.data(),
            sites: &mut self.sites,
            at: 0,
            cold: compiler::Cold::default(),
        };
        let parts = block.emit(sources);
        let code = block.ops.finalize()?;
        Some(Emitted { code, parts })
    }

    /// Regions are not compiled for this host.
    pub fn compile_region<'a>(
        &mut self,
        _: u32,
        _: &dyn Fn(u32) -> Option<(Source<'a>, Code)>,
        _: &dyn Fn(u32) -> u64,
    ) -> Option<Region> {
        None
    }
}
