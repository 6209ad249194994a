//! The compiler for x86-64 with BMI.

// The assembler's macro converts register numbers that are `u8` already.
#![allow(clippy::useless_conversion)]

mod atomic;
mod block;
mod buffer;
mod compiler;
mod control;
mod csr;
mod encode;
mod float;
mod group;
mod integer;
mod listing;
mod memory;
mod probe;
mod region;
mod regs;
mod scratch;
mod template;
mod trampolines;

use std::arch::is_x86_feature_detected;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

use dynasm::dynasm;
use dynasmrt::DynasmLabelApi;

use crate::region::Plan;
use crate::{
    Code, CodeListener, Context, Exit, Head, Helpers, Known, Options, Region, Site, Source,
};
use buffer::Buffer;
use encode::Assembler;
use listing::{Batch, Listing, Parts};
use regs::Registers;
use template::template_of;
use trampolines::Trampolines;

/// Maximum number of patchable jumps; when they are used up, all code is dropped.
const SITES: usize = 1 << 19;
/// Minimum size of code in bytes: the trampolines and some blocks.
const LEAST_CODE: usize = 16 << 10;
/// Maximum size of code in bytes: every jump reaches all of it with a 32-bit displacement.
const MOST_CODE: usize = 1 << 30;

/// Compiled code of a machine.
pub struct Jit {
    buffer: Buffer,
    trampolines: Trampolines,
    options: Options,
    /// Sites allocated.
    sites: u32,
    /// Bytes of trampolines at the front of the code.
    trampolines_size: usize,
    listing: Option<Listing>,
}

impl Jit {
    /// An empty compiler for up to `capacity` bytes of code, but at least some kilobytes. `None` if
    /// this host's processor lacks an extension, or the host refuses memory.
    #[must_use]
    pub fn new(options: Options, helpers: &Helpers, capacity: usize) -> Option<Self> {
        let known = is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        if !known {
            return None;
        }
        let mut buffer = Buffer::new(SITES * 8, capacity.clamp(LEAST_CODE, MOST_CODE)).ok()?;
        let trampolines = Trampolines::new(&mut buffer, helpers)?;
        let trampolines_size = buffer.used();
        Some(Self {
            buffer,
            trampolines,
            options,
            sites: 0,
            trampolines_size,
            listing: None,
        })
    }

    /// Compiles blocks, and links those of the same page to each other and to `known` code. `None`:
    /// no room is left; [`reset`](Self::reset) frees all.
    pub fn compile(&mut self, sources: &[Source<'_>], known: Known<'_>) -> Option<Vec<Code>> {
        if self.sites as usize + 2 * sources.len() > SITES {
            return None;
        }
        let (first, base) = (self.sites, self.buffer.next());
        let mut ops = Assembler::new(base);
        let entries = entries(&mut ops, sources);
        let mut block = compiler::BlockCompiler {
            ops,
            base,
            source: sources.first()?,
            options: &self.options,
            trampolines: &self.trampolines,
            targets: compiler::Targets {
                entries: &entries,
                known,
            },
            slots: self.buffer.data(),
            sites: &mut self.sites,
            at: 0,
            cold: compiler::Cold::default(),
            registers: Registers::of_blocks(),
            region: None,
        };
        let all: Vec<_> = sources.iter().collect();
        let parts = block.emit(&all, |block, index| block.hot(sources.get(index + 1)));
        let code = block.ops.finalize().ok()?;
        self.buffer.append(&code)?;
        if let Some(listing) = &mut self.listing {
            listing.batch(&Batch {
                sources,
                parts: &parts,
                code: &code,
                start: base as u64,
            });
        }
        self.unlink(first);
        let code = |parts: Parts| NonZeroU64::new((base + parts.hot.start) as u64).map(Code);
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
        let entries = entries(&mut ops, &copies);
        let known = |_, offset| compiled(offset).map(|(_, code)| code);
        let mut block = compiler::BlockCompiler {
            ops,
            base,
            source: copies.first()?,
            options: &self.options,
            trampolines: &self.trampolines,
            targets: compiler::Targets {
                entries: &entries,
                known: &known,
            },
            slots: self.buffer.data(),
            sites: &mut self.sites,
            at: 0,
            cold: compiler::Cold::default(),
            registers: Registers::of_blocks(),
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

    /// Lets jumps from `first` on return.
    fn unlink(&mut self, first: u32) {
        for site in first..self.sites {
            self.set(site, self.trampolines.unlinked);
        }
    }

    /// Passes the text of each block compiled from now on to `listener`: the guest's instructions,
    /// at addresses that count from `base` for page 0, and the host's code, without parts that
    /// differ between runs.
    pub fn list(&mut self, listener: CodeListener, base: u64) {
        let slots = self.buffer.data() as u64;
        let mut listing = Listing::new(listener, base, slots..slots + 8 * SITES as u64);
        for (address, name) in self.trampolines.names() {
            listing.name(address, name);
        }
        self.listing = Some(listing);
    }

    /// Links the jump `site` to `code`. The block it belongs to and the target must be in the same
    /// page.
    pub fn link(&mut self, site: Site, code: Code) {
        self.set(site.0, code.address());
    }

    /// Base address of [`offset`](Self::offset).
    #[must_use]
    pub fn base(&self) -> u64 {
        self.buffer.code() as u64
    }

    /// Offset of a block's code from [`base`](Self::base); never 0.
    #[must_use]
    pub fn offset(&self, code: Code) -> u32 {
        (code.address() - self.base()) as u32
    }

    /// The code at an offset that [`offset`](Self::offset) returned since the last reset.
    #[must_use]
    pub fn code(&self, offset: u32) -> Option<Code> {
        let address = NonZeroU64::new(self.base() + u64::from(offset))?;
        (offset != 0).then_some(Code(address))
    }

    /// Drops all code. Results of [`compile`](Self::compile) must not be used afterwards.
    pub fn reset(&mut self) {
        self.sites = 0;
        self.buffer.truncate(self.trampolines_size);
        let next = self.buffer.next() as u64;
        if let Some(listing) = &mut self.listing {
            listing.forget_from(next);
        }
    }

    /// Bytes of code.
    #[must_use]
    pub fn size(&self) -> usize {
        self.buffer.used()
    }

    /// Maximum size of code in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    fn set(&mut self, site: u32, target: u64) {
        let slot = (self.buffer.data() as *mut u64).wrapping_add(site as usize);
        // SAFETY: `site` is less than `SITES`, so the slot lies in the buffer's data, which is
        // always writable and read only by compiled code, which does not run now.
        unsafe { slot.write(target) };
    }

    /// Runs compiled code from `code` on until the limit is reached or the next block is not
    /// compiled.
    ///
    /// # Safety
    /// `context` must be valid for reads and writes, together with the structure of which it is the
    /// first field as far as [`CsrPlace::Host`](crate::CsrPlace::Host) refers to it. Its pointers
    /// must be those that its fields describe, valid for writes; TLB entries must lead to memory
    /// that may be read and written and to tables of code, and `code` and the tables' code must
    /// come from this compiler since its last reset.
    pub unsafe fn enter(&self, context: *mut Context, code: Code) -> Exit {
        // SAFETY: `enter` is a function of this type at the start of the buffer.
        let enter: unsafe extern "C" fn(*mut Context, u64) -> u64 =
            unsafe { std::mem::transmute(self.trampolines.enter as *const u8) };
        // SAFETY: the caller guarantees what compiled code requires.
        let site = unsafe { enter(context, code.address()) };
        match u32::try_from(site) {
            Ok(site) => Exit::Jump(Site(site)),
            Err(_) if site == trampolines::CROSSING as u64 => Exit::Crossing,
            Err(_) => Exit::Unknown,
        }
    }
}

/// Labels of blocks that jumps go to directly.
fn entries(
    ops: &mut Assembler,
    sources: &[Source<'_>],
) -> BTreeMap<(u32, u32), dynasmrt::DynamicLabel> {
    let linked = sources.iter().filter(|source| source.crossing.is_none());
    linked
        .map(|source| ((source.page, source.offset), ops.new_dynamic_label()))
        .collect()
}

#[cfg(test)]
mod tests {
    use trapless_isa::Inst;

    use super::*;
    use crate::{CsrAnswer, CsrRequest, Position};

    unsafe extern "C" fn no_csr(_: *mut Context, _: CsrRequest, _: u64) -> CsrAnswer {
        CsrAnswer { value: 0, done: 0 }
    }

    unsafe extern "C" fn nothing(_: *mut Context, _: u32, _: Position) -> bool {
        true
    }

    fn jit() -> Jit {
        jit_with(1 << 20)
    }

    fn jit_with(capacity: usize) -> Jit {
        let helpers = Helpers {
            finish: nothing,
            execute: nothing,
            csr: no_csr,
        };
        Jit::new(Options::default(), &helpers, capacity).expect("a processor with BMI2 and FMA")
    }

    fn block(words: &[u32]) -> Vec<Inst> {
        words.iter().map(|&w| trapless_isa::decode(w)).collect()
    }

    fn source(insts: &[Inst]) -> Source<'_> {
        Source {
            block: 0,
            insts,
            cost: 3,
            page: 0,
            offset: 0,
            crossing: None,
        }
    }

    #[test]
    fn a_block_computes_charges_and_leaves_at_an_unknown_jump() {
        let mut jit = jit();
        // addi a0, a0, 5; mul t0, a0, a0; j +8
        let insts = block(&[0x0055_0513, 0x02a5_02b3, 0x0080_006f]);
        let code = jit.compile(&[source(&insts)], &|_, _| None).unwrap()[0];
        let mut context = Context::default();
        context.x[10] = 2;
        (context.pc, context.limit) = (0x8000_0000, 1);
        // SAFETY: without loads, CSRs and jumps to other pages no pointer of the context is used.
        let site = unsafe { jit.enter(&raw mut context, code) };
        assert!(matches!(site, Exit::Jump(_)));
        assert_eq!((context.x[10], context.x[5]), (7, 49));
        assert_eq!(context.pc, 0x8000_0010);
        assert_eq!((context.cycles, context.instret), (3, 3));
        // Now the limit is reached: nothing is executed.
        // SAFETY: as above.
        let site = unsafe { jit.enter(&raw mut context, code) };
        assert_eq!((site, context.x[10]), (Exit::Unknown, 7));
    }

    #[test]
    fn a_full_buffer_is_recycled_and_never_grows() {
        let mut jit = jit_with(4 << 20);
        // ld a0, 0(a1), again and again: some kilobytes of code.
        let insts = block(&[0x0005_b503; 64]);
        let (mut compiled, mut resets) = (0, 0);
        while resets < 2 {
            if jit.compile(&[source(&insts)], &|_, _| None).is_some() {
                compiled += 1;
                assert!(jit.size() <= 4 << 20);
            } else {
                jit.reset();
                resets += 1;
            }
        }
        assert!(compiled > 2 * 100, "{compiled}");
        assert!(jit.compile(&[source(&insts)], &|_, _| None).is_some());
    }
}
