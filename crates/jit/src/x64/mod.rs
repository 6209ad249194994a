//! The compiler for x86-64 with BMI.

// The assembler's macro converts register numbers that are `u8` already.
#![allow(clippy::useless_conversion)]

mod atomic;
mod bits;
mod block;
mod buffer;
mod control;
mod csr;
mod encode;
mod float;
mod glue;
mod group;
mod integer;
mod memory;
mod regs;

use std::arch::is_x86_feature_detected;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

use dynasmrt::x64::X64Relocation;
use dynasmrt::{DynasmApi, VecAssembler};

use crate::{Code, Exit, Helpers, Known, Layout, PlainCsr, Site, Source};
use buffer::Buffer;
use glue::Glue;

/// Most chained jumps before everything is compiled anew.
const SITES: usize = 1 << 19;
/// Bytes of code that compiled code is not made without: what leads in and out, and some blocks.
const LEAST_CODE: usize = 16 << 10;
/// Most of it: all of it can be jumped to from all of it.
const MOST_CODE: usize = 1 << 30;

type Assembler = VecAssembler<X64Relocation>;

/// Compiled code of a machine.
pub struct Jit {
    buffer: Buffer,
    glue: Glue,
    offsets: Offsets,
    plain_csrs: Vec<(u16, PlainCsr)>,
    /// Sites given out.
    sites: u32,
    /// Bytes of glue at the front of the code.
    glue_size: usize,
}

/// Offset in the integer registers of what `rbx` points to: three words before them and all but the last registers have
/// short displacements.
const X: usize = 128 - 3 * 8;

/// Displacements from `rbx`.
#[derive(Clone, Copy)]
struct Offsets {
    bias: usize,
    pc: i32,
    cycles: i32,
    instret: i32,
    limit: i32,
    data_tlb: i32,
    fetch_tlb: i32,
    twin_tlb: i32,
    sum_changes: i32,
    base: i32,
    f: i32,
    float_state: i32,
    float_ready: i32,
    frm: i32,
    fflags: i32,
    float_used: i32,
    float_clean: i32,
    float_flags: i32,
    bank: i32,
    hs: i32,
    status: i32,
    status_shown: i64,
    float_switchable: bool,
    vsie_from: i32,
    vsie_shown: i32,
    mip: i32,
    mie: i32,
    vsip: i32,
    vsie: i32,
    misaligned: bool,
    zero_block: i32,
    reservation: i32,
    status_written: i32,
    timer: Timer,
    time_readable: i32,
    time_delta: i32,
    cycles_per_tick: i64,
}

/// Displacements of [`TimerLayout`](crate::TimerLayout).
#[derive(Clone, Copy)]
struct Timer {
    value: i32,
    floor: i32,
    ceiling: i32,
    writes: i32,
    armed: i32,
    first: i32,
    last: i32,
}

impl Offsets {
    fn new(layout: &Layout) -> Self {
        let bias = layout.x + X;
        let at = |offset: usize| offset as i32 - bias as i32;
        Self {
            bias,
            pc: at(layout.pc),
            cycles: at(layout.cycles),
            instret: at(layout.instret),
            limit: at(layout.limit),
            data_tlb: at(layout.data_tlb),
            fetch_tlb: at(layout.fetch_tlb),
            twin_tlb: at(layout.twin_tlb),
            sum_changes: at(layout.sum_changes),
            base: at(layout.base),
            f: at(layout.f),
            float_state: at(layout.float_state),
            float_ready: at(layout.float_ready),
            frm: at(layout.frm),
            fflags: at(layout.fflags),
            float_used: at(layout.float_used),
            float_clean: at(layout.float_clean),
            float_flags: at(layout.float_flags),
            bank: at(layout.bank),
            hs: at(layout.hs),
            status: at(layout.status),
            status_shown: layout.status_shown as i64,
            float_switchable: layout.float_switchable,
            vsie_from: at(layout.vsie_from),
            vsie_shown: at(layout.vsie_shown),
            mip: at(layout.mip),
            mie: at(layout.mie),
            vsip: at(layout.vsip),
            vsie: at(layout.vsie),
            misaligned: layout.misaligned,
            zero_block: at(layout.zero_block),
            reservation: at(layout.reservation),
            status_written: layout.status_written,
            timer: Timer {
                value: at(layout.timer.value),
                floor: at(layout.timer.floor),
                ceiling: at(layout.timer.ceiling),
                writes: at(layout.timer.writes),
                armed: at(layout.timer.armed),
                first: at(layout.timer.first),
                last: at(layout.timer.last),
            },
            time_readable: at(layout.time_readable),
            time_delta: at(layout.time_delta),
            cycles_per_tick: layout.cycles_per_tick as i64,
        }
    }

    /// Displacement of an offset in the context.
    fn at(&self, offset: usize) -> i32 {
        offset as i32 - self.bias as i32
    }

    /// Slot of integer register `x`.
    fn x(x: u8) -> i32 {
        8 * i32::from(x) - X as i32
    }
}

impl Jit {
    /// A compiler without code, which will hold up to `capacity` bytes of it, or some kilobytes if that is
    /// less; `None` if this host's processor lacks something or gives no memory.
    #[must_use]
    pub fn new(layout: &Layout, helpers: &Helpers, capacity: usize) -> Option<Self> {
        let known = is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        if !known {
            return None;
        }
        let offsets = Offsets::new(layout);
        let mut buffer = Buffer::new(SITES * 8, capacity.clamp(LEAST_CODE, MOST_CODE)).ok()?;
        let glue = Glue::new(&mut buffer, &offsets, helpers)?;
        let glue_size = buffer.used();
        Some(Self {
            buffer,
            glue,
            offsets,
            plain_csrs: layout.plain_csrs.clone(),
            sites: 0,
            glue_size,
        })
    }

    /// Compiles blocks, and links those of the same page to each other and to what is `known`. `None`: there
    /// is no room, and [`reset`](Self::reset) makes some.
    pub fn compile(&mut self, sources: &[Source<'_>], known: Known<'_>) -> Option<Vec<Code>> {
        if self.sites as usize + 2 * sources.len() > SITES {
            return None;
        }
        let (first, base) = (self.sites, self.buffer.next());
        let mut ops = Assembler::new(base);
        let linked = sources.iter().filter(|source| source.crossing.is_none());
        let entries: BTreeMap<_, _> = linked
            .map(|source| ((source.page, source.offset), ops.new_dynamic_label()))
            .collect();
        let targets = block::Targets {
            entries: &entries,
            known,
        };
        let mut block = block::BlockCompiler {
            ops,
            base,
            source: sources.first()?,
            offsets: &self.offsets,
            glue: &self.glue,
            plain_csrs: &self.plain_csrs,
            targets,
            slots: self.buffer.data(),
            sites: &mut self.sites,
            at: 0,
            cold: block::Cold::default(),
        };
        // What runs seldom comes behind all that runs often.
        let mut starts = Vec::with_capacity(sources.len());
        let mut cold = Vec::with_capacity(sources.len());
        for (index, source) in sources.iter().enumerate() {
            starts.push(base + block.ops.offset().0);
            block.source = source;
            block.hot(sources.get(index + 1));
            cold.push(std::mem::take(&mut block.cold));
        }
        for (source, cold) in sources.iter().zip(cold) {
            block.source = source;
            block.cold(cold);
        }
        let code = block.ops.finalize().ok()?;
        self.buffer.append(&code)?;
        for site in first..self.sites {
            self.set(site, self.glue.miss_link);
        }
        let code = |start: usize| NonZeroU64::new(start as u64).map(Code);
        starts.into_iter().map(code).collect()
    }

    /// Lets the jump `site` go to `code` from now on. The block it belongs to and the target must be
    /// in the same page.
    pub fn link(&mut self, site: Site, code: Code) {
        self.set(site.0, code.address());
    }

    /// What [`offset`](Self::offset) counts from.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.buffer.code() as u64
    }

    /// Number of a block's code: not 0.
    #[must_use]
    pub fn offset(&self, code: Code) -> u32 {
        (code.address() - self.base()) as u32
    }

    /// The code with a number, which [`offset`](Self::offset) made since the last reset.
    #[must_use]
    pub fn code(&self, offset: u32) -> Option<Code> {
        let address = NonZeroU64::new(self.base() + u64::from(offset))?;
        (offset != 0).then_some(Code(address))
    }

    /// Forgets all code. Nothing that [`compile`](Self::compile) gave out may be used afterwards.
    pub fn reset(&mut self) {
        self.sites = 0;
        self.buffer.truncate(self.glue_size);
    }

    /// Bytes of code.
    #[must_use]
    pub fn size(&self) -> usize {
        self.buffer.used()
    }

    /// Most bytes of code.
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

    /// Runs compiled code from `code` on until it has nowhere to go: the limit is reached, or what
    /// comes next is not known to it.
    ///
    /// # Safety
    /// `context` must be laid out as the [`Layout`] says, its arrays must be as long as this crate
    /// says, TLB entries must lead to memory that may be read and written, and `code` must come from
    /// this compiler since its last reset.
    pub unsafe fn enter(&self, context: *mut u8, code: Code) -> Exit {
        // SAFETY: `enter` is a function of this type at the start of the buffer.
        let enter: unsafe extern "C" fn(*mut u8, u64) -> u64 =
            unsafe { std::mem::transmute(self.glue.enter as *const u8) };
        // SAFETY: the caller's promises are those of compiled code.
        let site = unsafe { enter(context.wrapping_add(self.offsets.bias), code.address()) };
        match u32::try_from(site) {
            Ok(site) => Exit::Jump(Site(site)),
            Err(_) if site == glue::CROSSING as u64 => Exit::Crossing,
            Err(_) => Exit::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use trapless_isa::Inst;

    use super::*;
    use crate::{CsrAnswer, CsrRequest, Position, TimerLayout};

    /// A context: registers first, the rest behind them.
    static LAYOUT: Layout = Layout {
        x: 0,
        pc: 512,
        cycles: 520,
        instret: 528,
        limit: 536,
        data_tlb: 544,
        fetch_tlb: 552,
        twin_tlb: 568,
        sum_changes: 1000,
        base: 560,
        f: 576,
        float_state: 832,
        float_ready: 834,
        frm: 844,
        fflags: 845,
        float_used: 833,
        float_clean: 836,
        float_flags: 840,
        bank: 848,
        hs: 856,
        status: 864,
        status_shown: 0,
        float_switchable: true,
        vsie_from: 1008,
        vsie_shown: 1016,
        mip: 872,
        mie: 880,
        vsip: 888,
        vsie: 896,
        misaligned: true,
        zero_block: 961,
        reservation: 976,
        status_written: 0,
        timer: TimerLayout {
            value: 904,
            floor: 912,
            ceiling: 920,
            writes: 928,
            armed: 936,
            first: 944,
            last: 952,
        },
        time_readable: 960,
        time_delta: 968,
        cycles_per_tick: 100,
        plain_csrs: Vec::new(),
    };

    unsafe extern "C" fn no_csr(_: *mut u8, _: CsrRequest, _: u64) -> CsrAnswer {
        CsrAnswer { value: 0, done: 0 }
    }

    unsafe extern "C" fn nothing(_: *mut u8, _: u32, _: Position) -> bool {
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
        Jit::new(&LAYOUT, &helpers, capacity).expect("a processor with BMI2 and FMA")
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
        let mut context = [0u64; 128];
        context[10] = 2;
        context[LAYOUT.pc / 8] = 0x8000_0000;
        context[LAYOUT.limit / 8] = 1;
        // SAFETY: the context is laid out as said; without loads and jumps to other pages no array is used.
        let site = unsafe { jit.enter(context.as_mut_ptr().cast(), code) };
        assert!(matches!(site, Exit::Jump(_)));
        assert_eq!((context[10], context[5]), (7, 49));
        let at = |offset: usize| context[offset / 8];
        assert_eq!(at(LAYOUT.pc), 0x8000_0010);
        assert_eq!((at(LAYOUT.cycles), at(LAYOUT.instret)), (3, 3));
        // Now the limit is reached: nothing is executed.
        // SAFETY: as above.
        let site = unsafe { jit.enter(context.as_mut_ptr().cast(), code) };
        assert_eq!((site, context[10]), (Exit::Unknown, 7));
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
