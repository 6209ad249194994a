//! The compiler for x86-64 with BMI.

// The assembler's macro converts register numbers that are `u8` already.
#![allow(clippy::useless_conversion)]

mod atomic;
mod bases;
mod block;
mod compiler;
mod control;
mod copies;
mod counters;
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
mod words;

use std::arch::is_x86_feature_detected;

use dynasm::dynasm;
use dynasmrt::DynasmLabelApi;
use trapless_isa::Inst;

use super::Jit;
use super::bases::Bases;
use super::compile::{Emitted, assembler};
use super::region::Plan;
use super::target::Targets;
use crate::{Known, Source};
use compiler::{BlockCompiler, Cold};
use copies::Copies;
use encode::Assembler;
use regs::Registers;
use template::template_of;
use words::Words;

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

/// Whether there is code for an instruction that does not end a block.
pub(super) fn has_template(inst: &Inst) -> bool {
    template_of(inst).is_some()
}

/// A jump, for address `from`.
pub(super) fn jump(from: usize, to: usize) -> Option<Vec<u8>> {
    let mut ops = Assembler::new(from);
    dynasm!(ops; .arch x64; jmp extern to);
    ops.finalize().ok()
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
        let base = self.buffer.next();
        let inside = region.map_or(0, |plan| plan.nodes.len());
        let mut ops: Assembler = assembler(base, inside + sources.len());
        let targets = Targets::new(sources, || ops.new_dynamic_label(), known);
        let mut block = BlockCompiler {
            ops,
            base,
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
            lifetimes: None,
            before: None,
            words: Words::default(),
            copies: Copies::none(),
            bases: Bases::default(),
            recent: None,
            region: None,
        };
        let (entered, mut parts) = region.map(|plan| block.region(plan)).unwrap_or_default();
        let all: Vec<_> = sources.iter().collect();
        parts.extend(block.emit(&all, |block, index| block.hot(sources.get(index + 1))));
        Some(Emitted {
            code: block.ops.finalize().ok()?,
            entered,
            parts,
            stubs: block.stubs,
        })
    }
}
