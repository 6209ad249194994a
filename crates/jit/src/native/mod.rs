//! Compilers for hosts that have one: everything that does not depend on the kind of host.

mod bases;
mod buffer;
mod compile;
mod group;
mod idioms;
mod listing;
mod precision;
mod probe;
mod region;
mod region_code;
mod target;
mod uses;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x64;

#[cfg(target_arch = "aarch64")]
use aarch64 as host;
#[cfg(target_arch = "x86_64")]
use x64 as host;

use std::num::NonZeroU64;

use trapless_isa::port::CsrOp;

use crate::{Code, CodeListener, Context, CsrRequest, Exit, Helpers, Options, Position, Site};
use buffer::Buffer;
use host::trampolines::Trampolines;
use listing::Listing;

/// Rounding modes in instructions.
mod rm {
    pub const NEAREST: u8 = 0;
    pub const ZERO: u8 = 1;
    pub const DYNAMIC: u8 = 7;
}

/// Maximum number of patchable jumps; when they are used up, all code is dropped.
const SITES: usize = 1 << 19;
/// Minimum size of code in bytes: the trampolines and some blocks.
const LEAST_CODE: usize = 16 << 10;
/// What compiled code returns for [`Exit::Unknown`].
const UNKNOWN: i64 = -1;
/// What it returns for [`Exit::Crossing`].
const CROSSING: i64 = -2;
/// Bit that it returns with the address for [`Exit::Limit`]; without this bit it is a site.
const AT_LIMIT: u32 = 63;

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

impl Position {
    fn bits(self) -> u32 {
        self.0
    }
}

impl CsrRequest {
    fn new(number: u16, op: CsrOp) -> Self {
        let kind = match op {
            CsrOp::Read => 0,
            CsrOp::Write(_) => 1,
            CsrOp::Swap(_) => 2,
            CsrOp::Set(_) => 3,
            CsrOp::Clear(_) => 4,
        };
        Self(u32::from(number & 0xFFF) | kind << 12)
    }

    fn bits(self) -> u32 {
        self.0
    }
}

impl Jit {
    /// An empty compiler for up to `capacity` bytes of code, but at least some kilobytes. `None` if
    /// this host's processor lacks an extension, or the host refuses memory.
    #[must_use]
    pub fn new(options: Options, helpers: &Helpers, capacity: usize) -> Option<Self> {
        if !host::supported() {
            return None;
        }
        let capacity = capacity.clamp(LEAST_CODE, host::MOST_CODE);
        let mut buffer = Buffer::new(SITES * 8, capacity).ok()?;
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

    /// Lets the jumps of sites go to their stubs in the code at `start`, until they are linked.
    fn set_stubs(&mut self, start: usize, stubs: &[(u32, usize)]) {
        for &(site, stub) in stubs {
            self.set(site, (start + stub) as u64);
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

    /// Runs compiled code from `code` on until the limit is reached, or what is counted at once
    /// ([`Counters`](crate::Counters)), or the next block is not compiled.
    ///
    /// # Safety
    /// `context` must be valid for reads and writes, together with the structure of which it is the
    /// first field as far as [`CsrPlace::Host`](crate::CsrPlace::Host) refers to it. Its pointers
    /// must be those that its fields describe, valid for writes; TLB entries must lead to memory
    /// that may be read and written and to tables of code, and `code` and the tables' code must
    /// come from this compiler since its last reset.
    pub unsafe fn enter(&self, context: *mut Context, code: Code) -> Exit {
        // The code may have been written on another thread.
        dynasmrt::cache_control::prepare_for_execution(&[]);
        // SAFETY: `enter` is a function of this type at the start of the buffer.
        let enter: unsafe extern "C" fn(*mut Context, u64) -> u64 =
            unsafe { std::mem::transmute(self.trampolines.enter as *const u8) };
        // SAFETY: the caller guarantees what compiled code requires.
        let site = unsafe {
            (*context).begin_counting();
            let site = enter(context, code.address());
            (*context).end_counting();
            site
        };
        match u32::try_from(site) {
            Ok(site) => Exit::Jump(Site(site)),
            Err(_) if site == CROSSING as u64 => Exit::Crossing,
            Err(_) if site == UNKNOWN as u64 => Exit::Unknown,
            Err(_) => NonZeroU64::new(site & !(1 << AT_LIMIT))
                .map_or(Exit::Unknown, |at| Exit::Limit(Code(at))),
        }
    }
}

#[cfg(test)]
mod tests {
    use trapless_isa::Inst;

    use super::*;
    use crate::{CsrAnswer, Source};

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
        Jit::new(Options::default(), &helpers, capacity).expect("a host with a compiler")
    }

    fn block(words: &[u32]) -> Vec<Inst> {
        words.iter().map(|&w| trapless_isa::decode(w)).collect()
    }

    fn source(insts: &[Inst]) -> Source<'_> {
        Source {
            block: 0,
            insts,
            cost: insts.len() as u32,
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
        // Now the limit is reached: nothing is executed, and what is returned goes on there.
        // SAFETY: as above.
        let limit = unsafe { jit.enter(&raw mut context, code) };
        assert_eq!((limit, context.x[10]), (Exit::Limit(code), 7));
        context.limit = 5;
        // SAFETY: as above.
        let site = unsafe { jit.enter(&raw mut context, code) };
        assert!(matches!(site, Exit::Jump(_)));
        assert_eq!((context.x[10], context.pc), (12, 0x8000_0010));
    }

    /// Whatever a block's price is, its instructions count, and time passes.
    #[test]
    fn blocks_of_any_price_are_charged() {
        // addi a0, a0, 5; mul t0, a0, a0; j +8
        let insts = block(&[0x0055_0513, 0x02a5_02b3, 0x0080_006f]);
        for cost in [0, 1, 3, 8191, 8192, 1 << 20, i32::MAX as u32] {
            let source = Source {
                cost,
                ..source(&insts)
            };
            let mut jit = jit();
            let code = jit.compile(&[source], &|_, _| None).unwrap()[0];
            for (cycles, limit) in [(0, 1), (77, 78), (5, u64::MAX)] {
                let mut context = Context::default();
                (context.pc, context.limit) = (0x8000_0000, limit);
                (context.cycles, context.instret) = (cycles, 1 << 40);
                // SAFETY: as above.
                let left = unsafe { jit.enter(&raw mut context, code) };
                assert!(matches!(left, Exit::Jump(_)), "{left:?}");
                let (time, count) = (context.cycles, context.instret);
                assert_eq!((time, count), (cycles + u64::from(cost), (1 << 40) + 3));
            }
        }
    }

    /// However long a loop runs, and whatever its blocks take, all is counted.
    #[test]
    fn loops_are_counted_to_their_end() {
        // addi a0, a0, -1; beqz a0, 12; then nop; j -12
        let blocks = [
            block(&[0xfff5_0513, 0x0005_0663]),
            block(&[0x0000_0013, 0xff5f_f06f]),
        ];
        for (cost, rounds) in [(2, 300_000), (9000, 100), (200_000, 5), (1 << 29, 3)] {
            let source = |number: usize| Source {
                block: number as u32,
                offset: 8 * number as u32,
                cost,
                ..source(&blocks[number])
            };
            let sources = [source(0), source(1)];
            let mut jit = jit();
            let codes = jit.compile(&sources, &|_, _| None).unwrap();
            let compiled = |offset: u32| match offset {
                0 | 8 => Some((sources[offset as usize / 8], codes[offset as usize / 8])),
                _ => None,
            };
            for region in [false, true] {
                if region {
                    jit.compile_region(0, &compiled, &|_| 1).expect("a loop");
                }
                let mut context = Context::default();
                (context.pc, context.limit, context.x[10]) = (0x8000_0000, u64::MAX, rounds);
                let mut at = codes[0];
                // SAFETY: as above.
                while let Exit::Limit(next) = unsafe { jit.enter(&raw mut context, at) } {
                    at = next;
                }
                assert_eq!(
                    (context.x[10], context.pc),
                    (0, 0x8000_0010),
                    "{cost} {region}"
                );
                let all = 2 * rounds - 1;
                let counted = (context.cycles, context.instret);
                assert_eq!(counted, (all * u64::from(cost), 2 * all), "{cost} {region}");
            }
        }
    }

    /// Where a region ends at the limit, execution goes on with it.
    #[test]
    fn a_loop_is_a_region_again_after_the_limit() {
        let mut jit = jit();
        // addi a0, a0, 1; j -4
        let insts = block(&[0x0015_0513, 0xffdf_f06f]);
        let code = jit.compile(&[source(&insts)], &|_, _| None).unwrap()[0];
        let compiled = |offset: u32| (offset == 0).then(|| (source(&insts), code));
        let region = jit.compile_region(0, &compiled, &|_| 1).expect("a loop");
        let mut context = Context::default();
        (context.pc, context.limit) = (0x8000_0000, 30);
        // SAFETY: as above.
        let left = unsafe { jit.enter(&raw mut context, region.heads[0].code) };
        let Exit::Limit(next) = left else {
            panic!("{left:?}");
        };
        assert_eq!(
            (context.cycles, context.x[10], context.pc),
            (30, 15, 0x8000_0000)
        );
        // A jump to the code that is diverted to the region, not the copy that takes over from it.
        let jump = host::jump(next.address() as usize, code.address() as usize);
        let jump = jump.expect("it is near");
        // SAFETY: the buffer has all code, and is read only.
        let bytes = unsafe { std::slice::from_raw_parts(next.address() as *const u8, jump.len()) };
        assert_eq!(bytes, jump);
    }

    /// Jumps reach over all code of the largest batch, of the largest templates; one that does not
    /// makes a hart drop all its code.
    #[test]
    fn many_long_blocks_are_compiled_together() {
        // fmadd.s fa0,fa0,fa1,fa2, again and again; j -8, which has no code yet
        let mut insts = block(&[0x60b5_7543; 63]);
        insts.extend(block(&[0xff9f_f06f]));
        let sources: Vec<_> = (0..64)
            .map(|number| Source {
                block: number,
                page: number,
                ..source(&insts)
            })
            .collect();
        let mut jit = jit_with(16 << 20);
        assert!(jit.compile(&sources, &|_, _| None).is_some());
    }

    /// The largest region that there can be, of the largest templates.
    #[test]
    fn a_region_of_many_long_blocks_is_compiled() {
        // fmadd.s fa0,fa0,fa1,fa2, again and again; then bne a0,a1 to the next block of 48, which
        // begins one instruction later, or to the first.
        let to = |distance: u32| {
            let [high, low] = [distance >> 5 & 63, distance >> 1 & 15];
            0x00b5_1063
                | (distance >> 12 & 1) << 31
                | high << 25
                | low << 8
                | (distance >> 11 & 1) << 7
        };
        let insts = |number: u32| {
            let at = 4 * number + 4 * 63;
            let next = 4 * ((number + 1) % 48);
            let mut words = vec![0x60b5_7543; 63];
            words.push(to(next.wrapping_sub(at)));
            block(&words)
        };
        let all: Vec<Vec<Inst>> = (0..48).map(insts).collect();
        let sources: Vec<Source<'_>> = (0..)
            .zip(&all)
            .map(|(number, insts)| Source {
                block: number,
                offset: 4 * number,
                ..source(insts)
            })
            .collect();
        let mut jit = jit_with(16 << 20);
        let code = jit.compile(&sources, &|_, _| None).expect("there is room");
        let compiled = |offset: u32| {
            let at = sources.iter().position(|source| source.offset == offset)?;
            Some((sources[at], code[at]))
        };
        let region = jit.compile_region(0, &compiled, &|_| 1).expect("a loop");
        assert_eq!(region.blocks.len(), 48);
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
