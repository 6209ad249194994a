//! The second engine: blocks that run often are compiled to machine code of the host.
//!
//! ```text
//! run_compiled ── attend, lookup                      as the interpreter does
//!  ├── cold block: interpreted, and counted
//!  └── hot block: compiled, entered                   crates/jit
//!        ├── jumps inside a page: chained             link
//!        ├── others: jump cache                       Fast::jumps
//!        └── everything without a template: helpers   the interpreter, for one instruction
//! ```
//!
//! Compiled code charges a block at its start and looks at the limit there, as the interpreter does, and
//! looks up its TLBs at the same places. So nothing that a guest or a ledger can see depends on which
//! engine runs, or on when a block gets hot.

use std::mem::offset_of;
use std::ptr::null_mut;

use trapless_isa::Mode;
use trapless_isa::csr::{envcfg, status};
use trapless_isa::port::CsrOp;
use trapless_jit::{
    CSR_DONE, CSR_MOVED, CSR_REFUSED, Code, CsrAnswer, CsrKind, CsrRequest, Exit, FLOAT_DIRTY,
    FLOAT_NEAREST, Helpers, JUMPS, Jit, Jump, Layout, Position, Site, Source, TimerLayout,
};

use crate::activity::{Activity, Meter};
use crate::block::{CodeCache, Decoded};
use crate::csr::plain::plain_csrs;
use crate::csr::read::SSTATUS;
use crate::csr::write::VSSTATUS;
use crate::fpu::flag;
use crate::huge;
use crate::interp::{Flow, places};
use crate::noted_timer::NotedTimer;
use crate::platform::Platform;
use crate::run::{NoObserver, Stop};
use crate::state::Bank;
use crate::statistics::CodeStatistics;
use crate::{Fault, Hart, HartConfig};

/// Runs of a block after which compiling it pays.
pub const HOT: u32 = 16;

/// Blocks that are compiled together.
const BATCH: usize = 16;

/// `mxcsr`: all exceptions masked, to nearest, no flags.
const MXCSR_DEFAULT: u32 = 0x1F80;

/// Compiled blocks of a machine.
pub(crate) struct Compiled {
    jit: Jit,
    /// By number of the block.
    blocks: Vec<State>,
    /// Changes when all code is dropped.
    version: u32,
    /// Runs of a block that are interpreted before it is compiled.
    hot: u32,
    /// Blocks that have run so often.
    waiting: Vec<Waiting>,
    /// Blocks compiled, bytes of code of those that have been dropped, and how often they were.
    compiled: u64,
    dropped: u64,
    resets: u64,
}

/// A block that is to be compiled.
struct Waiting {
    index: u32,
    page: u32,
    offset: u32,
}

#[derive(Clone, Copy)]
enum State {
    /// Interpreted so often.
    Cold(u32),
    Hot(Code),
}

impl Compiled {
    /// For `capacity` bytes of code and, in one piece of memory, `room` blocks; `None` if there is no compiler for
    /// this host.
    pub fn new(hot: u32, capacity: usize, room: usize, config: &HartConfig) -> Option<Self> {
        let layout = Layout {
            x: offset_of!(Hart, x),
            pc: offset_of!(Hart, pc),
            cycles: offset_of!(Hart, cycles),
            instret: offset_of!(Hart, instret),
            limit: offset_of!(Hart, limit),
            data_tlb: offset_of!(Hart, fast.data_tlb),
            fetch_tlb: offset_of!(Hart, fast.fetch_tlb),
            twin_tlb: offset_of!(Hart, fast.twin_tlb),
            sum_changes: offset_of!(Hart, fast.sum_changes),
            jumps: offset_of!(Hart, fast.jump_array),
            f: offset_of!(Hart, f),
            float_state: offset_of!(Hart, fast.float_state),
            float_ready: offset_of!(Hart, fast.float_ready),
            frm: offset_of!(Hart, csr.frm),
            fflags: offset_of!(Hart, csr.fflags),
            float_used: offset_of!(Hart, fast.float_used),
            float_clean: offset_of!(Hart, fast.float_clean),
            float_flags: offset_of!(Hart, fast.float_flags),
            bank: offset_of!(Hart, fast.bank),
            hs: offset_of!(Hart, fast.hs),
            status: offset_of!(Hart, fast.status),
            status_shown: SSTATUS,
            float_switchable: config.extensions.fd,
            vsie_from: offset_of!(Hart, fast.vsie_from),
            vsie_shown: offset_of!(Hart, fast.vsie_shown),
            mip: offset_of!(Hart, mip),
            mie: offset_of!(Hart, csr.mie),
            vsip: offset_of!(Hart, vsip),
            vsie: offset_of!(Hart, csr.vsie),
            misaligned: config.misaligned,
            zero_block: offset_of!(Hart, fast.zero_block),
            reservation: offset_of!(Hart, reservation),
            status_written: VSSTATUS as i32,
            timer: TimerLayout {
                value: offset_of!(Hart, csr.s) + size_of::<Bank>() + offset_of!(Bank, timecmp),
                floor: offset_of!(Hart, fast.timer.floor),
                ceiling: offset_of!(Hart, fast.timer.ceiling),
                writes: offset_of!(Hart, fast.timer.writes),
                armed: offset_of!(Hart, fast.timer.armed),
                first: offset_of!(Hart, fast.timer.first),
                last: offset_of!(Hart, fast.timer.last),
            },
            time_readable: offset_of!(Hart, fast.time_readable),
            time_delta: offset_of!(Hart, fast.time_delta),
            cycles_per_tick: config.cycles_per_tick,
            plain_csrs: plain_csrs(config),
        };
        let helpers = Helpers {
            finish,
            execute,
            csr,
        };
        Some(Self {
            jit: Jit::new(&layout, &helpers, capacity)?,
            blocks: huge::reserve(room),
            version: 0,
            hot,
            waiting: Vec::new(),
            compiled: 0,
            dropped: 0,
            resets: 0,
        })
    }

    /// Code of block `index`, which is at `offset` of its page, if it is compiled. Counts a run of it if it
    /// is not; what has run often enough is compiled when there is a batch of it, or when it has waited for
    /// as many runs again: changing the protection of memory takes longer than compiling a block.
    pub fn block(
        &mut self,
        decoded: &Decoded<'_>,
        index: u32,
        offset: u32,
        meter: &Meter,
    ) -> Option<Code> {
        let at = index as usize;
        if at >= self.blocks.len() {
            self.blocks.resize(at + 1024, State::Cold(0));
        }
        let runs = match &mut self.blocks[at] {
            State::Hot(code) => return Some(*code),
            State::Cold(runs) => {
                *runs += 1;
                *runs - 1
            }
        };
        if runs == self.hot {
            self.wait(decoded, index, offset);
        }
        if runs < self.hot || (runs < 2 * self.hot && self.waiting.len() < BATCH) {
            return None;
        }
        let before = meter.enter(Activity::Compile);
        if !self.compile_waiting(decoded) {
            self.reset();
            self.blocks.resize(at + 1024, State::Cold(0));
            self.wait(decoded, index, offset);
            self.compile_waiting(decoded);
        }
        meter.leave(before);
        match self.blocks[at] {
            State::Hot(code) => Some(code),
            State::Cold(_) => None,
        }
    }

    fn wait(&mut self, decoded: &Decoded<'_>, index: u32, offset: u32) {
        let page = decoded.source(index, offset).page;
        self.waiting.push(Waiting {
            index,
            page,
            offset,
        });
    }

    /// Compiles what waits for it; `false` if there is no room.
    fn compile_waiting(&mut self, decoded: &Decoded<'_>) -> bool {
        let source = |waiting: &Waiting| decoded.source(waiting.index, waiting.offset);
        let mut sources: Vec<Source<'_>> = self.waiting.iter().map(source).collect();
        sources.sort_by_key(|source| (source.page, source.offset));
        let known = |page, offset| match self.blocks.get(decoded.at(page, offset)? as usize)? {
            State::Hot(code) => Some(*code),
            State::Cold(_) => None,
        };
        let Some(codes) = self.jit.compile(&sources, &known) else {
            return false;
        };
        self.compiled += sources.len() as u64;
        for (source, code) in sources.iter().zip(codes) {
            self.blocks[source.block as usize] = State::Hot(code);
        }
        self.waiting.clear();
        true
    }

    pub fn link(&mut self, site: Site, target: Code) {
        self.jit.link(site, target);
    }

    /// Forgets the code of `blocks`, which are all of their page. What has run often will soon be compiled
    /// again.
    pub fn drop_page(&mut self, page: u32, blocks: impl Iterator<Item = u32>) {
        for index in blocks {
            if let Some(state) = self.blocks.get_mut(index as usize) {
                *state = State::Cold(0);
            }
        }
        self.waiting.retain(|waiting| waiting.page != page);
    }

    /// Adds what it did.
    pub fn count(&self, statistics: &mut CodeStatistics) {
        let held = self.jit.size() as u64;
        statistics.blocks_compiled = self.compiled;
        statistics.code_bytes = self.dropped + held;
        statistics.code_held = held;
        statistics.code_capacity = self.jit.capacity() as u64;
        statistics.code_resets = self.resets;
    }

    /// Drops all code.
    pub fn reset(&mut self) {
        self.resets += 1;
        self.dropped += self.jit.size() as u64;
        self.jit.reset();
        self.blocks.clear();
        self.waiting.clear();
        self.version = self.version.wrapping_add(1);
    }
}

/// What compiled code needs of a hart besides its registers.
pub(crate) struct Fast {
    /// Arrays of the selected TLB contexts.
    data_tlb: usize,
    fetch_tlb: usize,
    jump_array: usize,
    /// See [`Layout::twin_tlb`] and what follows it.
    twin_tlb: usize,
    sum_changes: u64,
    /// Epoch of the code cache that `jumps` belongs to.
    epoch: u32,
    /// See [`Layout::float_state`] and what follows it.
    float_state: u8,
    float_ready: u8,
    float_used: u8,
    float_clean: u32,
    float_flags: u32,
    /// See [`Layout::bank`] and what follows it.
    bank: usize,
    status: usize,
    vsie_from: usize,
    vsie_shown: u64,
    hs: u8,
    time_readable: u8,
    zero_block: u8,
    time_delta: u64,
    pub(crate) timer: NotedTimer,
    /// [`Session`] while compiled code runs.
    session: usize,
    /// Jump caches of V=0 and V=1: a host and its guest often run the same kernel at the same addresses.
    jumps: [Vec<Jump>; 2],
    /// [`Compiled::version`] that `jumps` belongs to.
    version: u32,
}

impl Fast {
    pub fn new() -> Self {
        Self {
            data_tlb: 0,
            fetch_tlb: 0,
            jump_array: 0,
            twin_tlb: 0,
            sum_changes: 0,
            epoch: 0,
            float_state: 0,
            float_ready: 0,
            float_used: 0,
            float_clean: MXCSR_DEFAULT,
            float_flags: 0,
            bank: 0,
            status: 0,
            vsie_from: 0,
            vsie_shown: 0,
            hs: 0,
            time_readable: 0,
            zero_block: 0,
            time_delta: 0,
            timer: NotedTimer::new(),
            session: 0,
            jumps: [Vec::new(), Vec::new()],
            version: 0,
        }
    }
}

impl Fast {
    /// Forgets the code of blocks at these offsets of the page at a host address.
    pub fn forget_jumps(&mut self, offsets: &[u16], page: usize) {
        for jumps in self.jumps.iter_mut().filter(|jumps| !jumps.is_empty()) {
            for place in places(offsets, JUMPS) {
                for jump in &mut jumps[place..=place + 1] {
                    if jump.is_in(page) {
                        *jump = Jump::EMPTY;
                    }
                }
            }
        }
    }

    /// Forgets all code if what is remembered belongs to another epoch.
    #[inline]
    pub fn renew_epoch(&mut self, epoch: u32) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.forget_all_jumps();
        }
    }

    /// Forgets all code.
    pub fn forget_all_jumps(&mut self) {
        self.jumps
            .iter_mut()
            .flatten()
            .for_each(|jump| *jump = Jump::EMPTY);
    }
}

/// What helpers find beside the hart.
struct Session<'a> {
    code: *const CodeCache,
    plat: *mut (dyn Platform + 'a),
}

impl Hart {
    /// [`Hart::run`] without observer, with compiled code.
    pub(crate) fn run_compiled(
        &mut self,
        code: &mut CodeCache,
        plat: &mut dyn Platform,
        until: u64,
    ) -> Stop {
        let mut site = None;
        loop {
            self.meter.set(Activity::Dispatch);
            if self.cycles >= self.limit {
                site = None;
                if let Some(stop) = self.attend(code, plat, until) {
                    return stop;
                }
            }
            if let Some(target) = self.known(code) {
                if let Some(site) = site.take() {
                    code.link(site, target);
                }
                site = self.enter_compiled(code, target, plat);
                continue;
            }
            self.counts.jump_misses += 1;
            let index = match self.lookup(code) {
                Ok(Some(index)) => index,
                Ok(None) => {
                    site = None;
                    self.crossing(code, plat);
                    continue;
                }
                Err(Fault) => {
                    site = None;
                    self.take_exception(self.pc, plat);
                    continue;
                }
            };
            let Some(target) = code.compiled_block(index, self.pc as u32 & 0xFFF) else {
                site = None;
                self.interpret(code, index, plat);
                continue;
            };
            if self.renew_jumps(code) {
                site = None;
            }
            if let Some(site) = site.take() {
                code.link(site, target);
            }
            self.remember_jump(code, self.pc, self.tlb.fetch(self.pc).addend, target);
            site = self.enter_compiled(code, target, plat);
        }
    }

    /// Executes an instruction that no block holds, and remembers its code for the next time if it is one
    /// across pages.
    fn crossing(&mut self, code: &mut CodeCache, plat: &mut dyn Platform) {
        let (pc, entry) = (self.pc, *self.tlb.fetch(self.pc));
        let Some(raw) = self.single::<false>(code, plat, &mut NoObserver).0 else {
            return;
        };
        if pc & 0xFFF != 0xFFE || raw & 3 != 3 || entry.exec != pc & !0xFFF {
            return;
        }
        if let Some(target) = code.compiled_crossing(raw) {
            self.renew_jumps(code);
            self.remember_jump(code, pc, entry.addend, target);
        }
    }

    /// Empties the jump cache if all code has been dropped. Returns whether it has.
    fn renew_jumps(&mut self, code: &CodeCache) -> bool {
        let Some(compiled) = code.compiled() else {
            return false;
        };
        let renew = compiled.version != self.fast.version || self.fast.jumps[0].is_empty();
        if renew {
            self.fast.version = compiled.version;
            let empty = || vec![Jump::EMPTY; JUMPS + 1];
            self.fast.jumps = [empty(), empty()];
        }
        renew
    }

    /// Remembers the code for a program counter whose page the fetch TLB has with this addend.
    fn remember_jump(&mut self, code: &CodeCache, pc: u64, addend: u64, target: Code) {
        let Some(compiled) = code.compiled() else {
            return;
        };
        let [first, second] = self.jump_places(pc);
        // What was there moves on, unless it is older than this.
        if !first.is_empty() && !first.is_at(pc) {
            *second = *first;
        }
        *first = compiled.jit.jump(pc, addend, target);
    }

    /// The two places of a program counter in the jump cache, which is not empty.
    fn jump_places(&mut self, pc: u64) -> &mut [Jump; 2] {
        let place = (pc >> 1) as usize % JUMPS;
        let jumps = &mut self.fast.jumps[usize::from(self.mode.v())];
        let places = jumps.get_mut(place..place + 2);
        places
            .and_then(|places| places.try_into().ok())
            .expect("two entries")
    }

    /// Code for the program counter, if the jump cache has it: what compiled code would find by itself.
    #[inline]
    fn known(&self, code: &CodeCache) -> Option<Code> {
        let compiled = code.compiled()?;
        if self.fast.version != compiled.version {
            return None;
        }
        let jumps = &self.fast.jumps[usize::from(self.mode.v())];
        let place = (self.pc >> 1) as usize % JUMPS;
        let entry = self.tlb.fetch(self.pc);
        if entry.exec != self.pc & !0xFFF {
            return None;
        }
        let mut places = jumps.get(place..place + 2)?.iter();
        let jump = places.find(|jump| jump.is_for(self.pc, entry.addend))?;
        compiled.jit.code(jump)
    }

    /// Interprets block `index`, which is at the program counter.
    fn interpret(&mut self, code: &CodeCache, index: u32, plat: &mut dyn Platform) {
        self.meter.set(Activity::Interpreted);
        self.counts.interpreted_blocks += 1;
        let block = code.block(index);
        self.cycles += u64::from(block.cost);
        self.instret += u64::from(block.len);
        self.exec::<false>(code.insts(&block), code.cost(), plat, &mut NoObserver);
    }

    /// Runs compiled code. Returns the jump at which it came back, if that can be linked.
    fn enter_compiled(
        &mut self,
        code: &mut CodeCache,
        target: Code,
        plat: &mut dyn Platform,
    ) -> Option<Site> {
        match self.run_code(code, target, plat) {
            Exit::Jump(site) => Some(site),
            Exit::Unknown => None,
            Exit::Crossing => {
                // Something else may be there now, which a block can hold.
                let pc = self.pc;
                let places = self.jump_places(pc).iter_mut();
                places
                    .filter(|jump| jump.is_at(pc))
                    .for_each(|jump| *jump = Jump::EMPTY);
                None
            }
        }
    }

    fn run_code(&mut self, code: &CodeCache, target: Code, plat: &mut dyn Platform) -> Exit {
        let Some(compiled) = code.compiled() else {
            return Exit::Unknown;
        };
        let session = Session { code, plat };
        self.fast.session = &raw const session as usize;
        self.counts.entries += 1;
        self.prepare();
        // SAFETY: the layout is that of `Hart`; the arrays are those of the TLB and of `fast.jumps`, which
        // have the lengths that the compiler assumes; TLB entries lead to RAM, which lives as long as the
        // hart; `target` was compiled since the last reset. Helpers get the hart from this pointer, and
        // `session` outlives the call.
        let site = unsafe { compiled.jit.enter((&raw mut *self).cast(), target) };
        self.fast.session = 0;
        self.take_changes();
        self.fast.float_used = 0;
        // SAFETY: compiled code, which used it by the session, has come back.
        self.record_noted_timer(unsafe { &mut *session.plat });
        site
    }

    /// Tells compiled code what it needs to know and only others change.
    #[inline]
    fn prepare(&mut self) {
        self.meter.set(Activity::Compiled);
        (self.fast.data_tlb, self.fast.fetch_tlb) = self.tlb.arrays();
        self.fast.twin_tlb = self.tlb.twin_array();
        self.fast.jump_array = self.fast.jumps[usize::from(self.mode.v())].as_ptr() as usize;
        let (bank, status) = match self.mode {
            Mode::HS => (&raw mut self.csr.s[0], &raw mut self.csr.mstatus),
            Mode::VS => (&raw mut self.csr.s[1], &raw mut self.csr.vsstatus),
            _ => (null_mut(), null_mut()),
        };
        if self.mode == Mode::HS {
            let register = self
                .vsie_register()
                .map_or(std::ptr::null(), std::ptr::from_ref);
            self.fast.vsie_from = register as usize;
            self.fast.vsie_shown = self.vs_view();
        }
        self.fast.bank = bank as usize;
        self.fast.status = status as usize;
        self.fast.hs = u8::from(self.mode == Mode::HS && self.plain_csrs_open());
        self.fast.time_readable = u8::from(self.time_readable());
        self.fast.zero_block = u8::from(self.cache_block_fault(envcfg::CBZE).is_none());
        self.fast.time_delta = if self.mode.v() {
            self.csr.htimedelta
        } else {
            0
        };
        self.prepare_timer();
        let dirty = |status: u64| status & status::FS == status::FS;
        let machine = dirty(self.csr.mstatus);
        self.fast.float_ready = match (machine || !self.mode.v(), self.csr.frm) {
            (true, 0) => FLOAT_DIRTY | FLOAT_NEAREST,
            (true, _) => FLOAT_DIRTY,
            (false, _) => 0,
        };
        let on = machine && (!self.mode.v() || dirty(self.csr.vsstatus));
        self.fast.float_state = if on { self.fast.float_ready } else { 0 };
    }

    /// Takes over what compiled code has changed: SUM, and exception flags.
    #[inline]
    fn take_changes(&mut self) {
        if self.fast.sum_changes != 0 {
            self.tlb.sum_changed(self.fast.sum_changes);
            self.fast.sum_changes = 0;
        }
        if self.fast.float_used != 0 {
            let raised = self.fast.float_flags;
            let bit = |from: u32, to: u8| if raised >> from & 1 != 0 { to } else { 0 };
            self.csr.fflags |= bit(0, flag::NV)
                | bit(2, flag::DZ)
                | bit(3, flag::OF)
                | bit(4, flag::UF)
                | bit(5, flag::NX);
        }
    }
}

/// The hart, the code cache and the platform of the session that `context` is in.
///
/// # Safety
/// To be called by helpers only, which compiled code calls.
unsafe fn session<'a>(context: *mut u8) -> (&'a mut Hart, &'a CodeCache, &'a mut dyn Platform) {
    // SAFETY: compiled code passes the pointer it got from `enter_compiled`, which uses the hart for
    // nothing else meanwhile.
    let hart = unsafe { &mut *context.cast::<Hart>() };
    // SAFETY: `enter_compiled` put the address of a live session there.
    let session = unsafe { &*(hart.fast.session as *const Session<'_>) };
    // SAFETY: both outlive the session, and only helpers use the platform while compiled code runs.
    let (code, plat) = unsafe { (&*session.code, &mut *session.plat) };
    hart.take_changes();
    hart.record_noted_timer(plat);
    (hart, code, plat)
}

/// Executes the instruction at `at` of a block. `None`: it trapped.
///
/// # Safety
/// To be called by compiled code only.
unsafe fn step(context: *mut u8, block: u32, at: Position) -> Option<(&'static mut Hart, u64)> {
    // SAFETY: promised by the caller.
    let (hart, code, plat) = unsafe { session(context) };
    hart.meter.set(Activity::Helper);
    hart.counts.helpers += 1;
    let block = code.block(block);
    let rest = &code.any_insts(&block)[at.index()..];
    let pc = hart.pc.wrapping_add(at.offset());
    let next = match hart.exec_one(&rest[0], pc, plat) {
        Ok(Flow::Next) => Some(pc.wrapping_add(u64::from(rest[0].len))),
        Ok(Flow::Jump(target)) => Some(target),
        Err(Fault) => {
            hart.abort(rest, pc, code.cost(), plat);
            None
        }
    };
    hart.prepare();
    next.map(|next| (hart, next))
}

/// See [`Helpers::finish`].
///
/// # Safety
/// To be called by compiled code only.
unsafe extern "C" fn finish(context: *mut u8, block: u32, at: Position) -> bool {
    // SAFETY: promised by the caller.
    match unsafe { step(context, block, at) } {
        Some((hart, next)) => {
            hart.pc = next;
            true
        }
        None => false,
    }
}

/// See [`Helpers::execute`].
///
/// # Safety
/// To be called by compiled code only.
unsafe extern "C" fn execute(context: *mut u8, block: u32, at: Position) -> bool {
    // SAFETY: promised by the caller.
    unsafe { step(context, block, at) }.is_some()
}

/// See [`Helpers::csr`].
///
/// # Safety
/// To be called by compiled code only.
unsafe extern "C" fn csr(context: *mut u8, request: CsrRequest, operand: u64) -> CsrAnswer {
    // SAFETY: promised by the caller.
    let (hart, _, plat) = unsafe { session(context) };
    hart.meter.set(Activity::Csr);
    hart.counts.csr_helpers += 1;
    let op = match request.kind() {
        CsrKind::Read => CsrOp::Read,
        CsrKind::Write => CsrOp::Write(operand),
        CsrKind::Swap => CsrOp::Swap(operand),
        CsrKind::Set => CsrOp::Set(operand),
        CsrKind::Clear => CsrOp::Clear(operand),
    };
    let value = hart.own_csr(request.number(), op, plat);
    hart.meter.set(Activity::Compiled);
    let code = hart.fast.fetch_tlb;
    if op != CsrOp::Read {
        hart.prepare();
    }
    CsrAnswer {
        value: value.unwrap_or(0),
        done: match value {
            None => CSR_REFUSED,
            Some(_) if hart.fast.fetch_tlb == code => CSR_DONE,
            Some(_) => CSR_MOVED,
        },
    }
}
