//! The second engine: blocks that run often are compiled to machine code of the host.
//!
//! ```text
//! run_compiled ── attend, lookup                      as the interpreter does
//!  ├── cold block: interpreted, and counted
//!  └── hot block: compiled, entered                   crates/jit
//!        ├── jumps inside a page: chained             link
//!        ├── others: tables of pages                  CodeTables
//!        └── everything without a template: helpers   the interpreter, for one instruction
//! ```
//!
//! Compiled code charges a block at its start and looks at the limit there, as the interpreter does, and
//! looks up its TLBs at the same places. So nothing that a guest or a ledger can see depends on which
//! engine runs, or on when a block gets hot.

use std::mem::offset_of;
use std::ptr::{null, null_mut};

use trapless_isa::Mode;
use trapless_isa::csr::{envcfg, status};
use trapless_isa::port::CsrOp;
use trapless_jit::{
    CSR_DONE, CSR_MOVED, CSR_REFUSED, Code, Context, CsrAnswer, CsrKind, CsrRequest, Exit,
    FLOAT_DIRTY, FLOAT_NEAREST, Helpers, Jit, Options, Position, Site,
};

use crate::code::CodeCache;
use crate::config::HartConfig;
use crate::csr::plain::plain_csrs;
use crate::csr::read::SSTATUS;
use crate::csr::write::VSSTATUS;
use crate::engine::interp::Flow;
use crate::engine::run::{NoObserver, Stop};
use crate::fpu::flag;
use crate::hart::Hart;
use crate::memory::address::{HostAddr, PageIndex};
use crate::observe::activity::Activity;
use crate::platform::Platform;
use crate::syndrome::Fault;

const _: () = assert!(offset_of!(Hart, state) == 0, "both have the same address");

/// What code for harts like `config` depends on.
pub(crate) fn options(config: &HartConfig) -> Options {
    Options {
        misaligned: config.misaligned,
        cycles_per_tick: config.cycles_per_tick,
        status_shown: SSTATUS,
        status_written: VSSTATUS as u32,
        float_switchable: config.extensions.fd,
        plain_csrs: plain_csrs(config),
    }
}

/// Callbacks for everything that compiled code does not inline.
pub(crate) const HELPERS: Helpers = Helpers {
    finish,
    execute,
    csr,
};

impl CodeCache {
    /// Lets blocks be compiled to machine code after they ran `hot` times (0: at first sight), for harts
    /// that are like `config`.
    /// Returns whether this host can do it; results are the same either way.
    pub fn compile(&mut self, hot: u32, config: &HartConfig) -> bool {
        self.set_compiler(hot, |capacity| {
            Jit::new(options(config), &HELPERS, capacity)
        })
    }
}

/// A jump that can be connected.
#[derive(Clone, Copy)]
struct Unlinked {
    site: Site,
    /// Version of the tables when it was met: if they are of another one, all code may have been dropped.
    version: u32,
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
            self.watch.meter.set(Activity::Dispatch);
            if self.state.cycles >= self.state.limit {
                site = None;
                if let Some(stop) = self.attend(code, plat, until) {
                    return stop;
                }
            }
            if let Some(target) = self.known(code) {
                self.link(code, site, target);
                site = self.enter_compiled(code, target, plat);
                continue;
            }
            self.watch.counts.lookups += 1;
            let index = match self.lookup(code) {
                Ok(Some(index)) => index,
                Ok(None) => {
                    site = None;
                    self.crossing(code, plat);
                    continue;
                }
                Err(Fault) => {
                    site = None;
                    self.take_exception(self.state.pc, plat);
                    continue;
                }
            };
            let target = code.compiled_block(index, self.state.pc as u32 & 0xFFF);
            self.renew_tables(code);
            let Some(target) = target else {
                site = None;
                self.interpret(code, index, plat);
                continue;
            };
            self.link(code, site, target);
            site = self.enter_compiled(code, target, plat);
        }
    }

    /// Connects the jump at which compiled code came back, unless it is gone.
    fn link(&self, code: &mut CodeCache, jump: Option<Unlinked>, target: Code) {
        if let Some(jump) = jump.filter(|jump| jump.version == self.code.tables_version()) {
            code.link(jump.site, target);
        }
    }

    /// Executes an instruction that no block holds, and remembers its code for the next time if it is one
    /// across pages.
    fn crossing(&mut self, code: &mut CodeCache, plat: &mut dyn Platform) {
        let (pc, page) = (self.state.pc, self.fetched_page());
        let Some(raw) = self.single::<false>(code, plat, &mut NoObserver).0 else {
            return;
        };
        let (0xFFE, 3, Some(page)) = (pc & 0xFFF, raw & 3, page) else {
            return;
        };
        if let (Some(target), Some(compiled)) = (code.compiled_crossing(raw), code.compiled()) {
            compiled.note(Some(page), 0xFFE, target);
        }
        self.renew_tables(code);
    }

    /// Page of RAM that the program counter is in, if the fetch TLB has it.
    #[inline]
    fn fetched_page(&self) -> Option<PageIndex> {
        let entry = self.tlb.fetch(self.state.pc);
        let host = HostAddr::of(self.state.pc, entry.addend);
        (entry.exec == self.state.pc & !0xFFF).then(|| self.ram.page_of(host))
    }

    /// Code for the program counter, if compiled code would find it by itself, or should.
    #[inline]
    fn known(&mut self, code: &CodeCache) -> Option<Code> {
        let compiled = code.compiled()?;
        let page = self.fetched_page()?;
        let offset = compiled.tables.get(page, self.state.pc as u32 & 0xFFF)?;
        self.tlb
            .set_table(self.state.pc, compiled.tables.address(page));
        compiled.jit.code(offset)
    }

    /// Interprets block `index`, which is at the program counter.
    fn interpret(&mut self, code: &CodeCache, index: u32, plat: &mut dyn Platform) {
        self.watch.meter.set(Activity::Interpreted);
        self.watch.counts.interpreted_blocks += 1;
        let block = code.block(index);
        self.state.cycles += u64::from(block.cost);
        self.state.instret += u64::from(block.len);
        self.exec::<false>(code.insts(&block), code.cost(), plat, &mut NoObserver);
    }

    /// Runs compiled code. Returns the jump at which it came back, if that can be linked.
    fn enter_compiled(
        &mut self,
        code: &mut CodeCache,
        target: Code,
        plat: &mut dyn Platform,
    ) -> Option<Unlinked> {
        match self.run_code(code, target, plat) {
            Exit::Jump(site) => Some(Unlinked {
                site,
                version: self.code.tables_version(),
            }),
            Exit::Unknown => None,
            Exit::Crossing => {
                // Something else may be there now, which a block can hold.
                if let (Some(page), Some(compiled)) = (self.fetched_page(), code.compiled()) {
                    compiled.tables.clear(page, self.state.pc as u32 & 0xFFF);
                }
                None
            }
        }
    }

    fn run_code(&mut self, code: &CodeCache, target: Code, plat: &mut dyn Platform) -> Exit {
        let Some(compiled) = code.compiled() else {
            return Exit::Unknown;
        };
        let session = Session { code, plat };
        self.state.session = (&raw const session).cast();
        self.watch.counts.entries += 1;
        self.prepare();
        // SAFETY: the layout is that of `Hart`; the arrays are those of the TLB, which have the lengths that the
        // compiler assumes; TLB entries lead to RAM and to tables that `fast` holds, which live as long as the
        // hart, and have code of this compiler since its last reset only, as has `target`. Helpers get the
        // hart from this pointer, and `session` outlives the call.
        let site = unsafe { compiled.jit.enter((&raw mut *self).cast(), target) };
        self.state.session = null();
        self.take_changes();
        self.state.float.used = 0;
        // SAFETY: compiled code, which used it by the session, has come back.
        self.record_noted_timer(unsafe { &mut *session.plat });
        site
    }

    /// Tells compiled code what it needs to know and only others change.
    #[inline]
    fn prepare(&mut self) {
        self.watch.meter.set(Activity::Compiled);
        let arrays = self.tlb.arrays();
        self.state.data_tlb = arrays.data;
        self.state.twin_tlb = arrays.twin;
        self.state.fetch_tlb = arrays.fetch;
        let (bank, status) = match self.mode {
            Mode::HS => (&raw mut self.csr.s[0], &raw mut self.csr.mstatus),
            Mode::VS => (&raw mut self.csr.s[1], &raw mut self.csr.vsstatus),
            _ => (null_mut(), null_mut()),
        };
        if self.mode == Mode::HS {
            let register = self.vsie_register();
            self.state.csr.vsie_from = register.map_or(null(), std::ptr::from_ref);
            self.state.csr.vsie_shown = self.vs_view();
        }
        self.state.csr.bank = bank.cast();
        self.state.csr.status = status;
        self.state.csr.hs = u8::from(self.mode == Mode::HS && self.plain_csrs_open());
        self.state.csr.time_readable = u8::from(self.time_readable());
        self.state.csr.zero_block = u8::from(self.cache_block_fault(envcfg::CBZE).is_none());
        self.state.csr.time_delta = if self.mode.v() {
            self.csr.htimedelta
        } else {
            0
        };
        self.prepare_timer();
        let dirty = |status: u64| status & status::FS == status::FS;
        let machine = dirty(self.csr.mstatus);
        self.state.float.ready = match (machine || !self.mode.v(), self.state.float.frm) {
            (true, 0) => FLOAT_DIRTY | FLOAT_NEAREST,
            (true, _) => FLOAT_DIRTY,
            (false, _) => 0,
        };
        let on = machine && (!self.mode.v() || dirty(self.csr.vsstatus));
        self.state.float.state = if on { self.state.float.ready } else { 0 };
    }

    /// Takes over what compiled code has changed: SUM, and exception flags.
    #[inline]
    fn take_changes(&mut self) {
        if self.state.sum_changes != 0 {
            self.tlb.sum_changed(self.state.sum_changes);
            self.state.sum_changes = 0;
        }
        if self.state.float.used != 0 {
            let raised = self.state.float.host_flags;
            let bit = |from: u32, to: u8| if raised >> from & 1 != 0 { to } else { 0 };
            self.state.float.fflags |= bit(0, flag::NV)
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
unsafe fn session<'a>(
    context: *mut Context,
) -> (&'a mut Hart, &'a CodeCache, &'a mut dyn Platform) {
    // SAFETY: compiled code passes the pointer it got from `enter_compiled`, which uses the hart for
    // nothing else meanwhile.
    let hart = unsafe { &mut *context.cast::<Hart>() };
    // SAFETY: `enter_compiled` put the address of a live session there.
    let session = unsafe { &*hart.state.session.cast::<Session<'_>>() };
    // SAFETY: both outlive the session, and only helpers use the platform while compiled code runs.
    let (code, plat) = unsafe { (&*session.code, &mut *session.plat) };
    hart.take_changes();
    hart.record_noted_timer(plat);
    (hart, code, plat)
}

/// Executes the instruction at `at` of a block, which is the last one of it or not. `false`: it trapped.
///
/// # Safety
/// To be called by compiled code only.
unsafe fn step(context: *mut Context, block: u32, at: Position, last: bool) -> bool {
    // SAFETY: promised by the caller.
    let (hart, code, plat) = unsafe { session(context) };
    hart.watch.meter.set(Activity::Helper);
    hart.watch.counts.helpers += 1;
    let block = code.block(block);
    let rest = &code.any_insts(&block)[at.index()..];
    let pc = hart.state.pc.wrapping_add(at.offset());
    let next = match hart.exec_one(&rest[0], pc, plat) {
        Ok(Flow::Next) => Some(pc.wrapping_add(u64::from(rest[0].len))),
        Ok(Flow::Jump(target)) => Some(target),
        Err(Fault) => {
            hart.abort(rest, pc, code.cost(), plat);
            None
        }
    };
    hart.prepare();
    if let (Some(next), true) = (next, last) {
        hart.state.pc = next;
    }
    next.is_some()
}

/// See [`Helpers::finish`].
///
/// # Safety
/// To be called by compiled code only.
unsafe extern "C" fn finish(context: *mut Context, block: u32, at: Position) -> bool {
    // SAFETY: promised by the caller.
    unsafe { step(context, block, at, true) }
}

/// See [`Helpers::execute`].
///
/// # Safety
/// To be called by compiled code only.
unsafe extern "C" fn execute(context: *mut Context, block: u32, at: Position) -> bool {
    // SAFETY: promised by the caller.
    unsafe { step(context, block, at, false) }
}

/// See [`Helpers::csr`].
///
/// # Safety
/// To be called by compiled code only.
unsafe extern "C" fn csr(context: *mut Context, request: CsrRequest, operand: u64) -> CsrAnswer {
    // SAFETY: promised by the caller.
    let (hart, _, plat) = unsafe { session(context) };
    hart.watch.meter.set(Activity::Csr);
    hart.watch.counts.csr_helpers += 1;
    let op = match request.kind() {
        CsrKind::Read => CsrOp::Read,
        CsrKind::Write => CsrOp::Write(operand),
        CsrKind::Swap => CsrOp::Swap(operand),
        CsrKind::Set => CsrOp::Set(operand),
        CsrKind::Clear => CsrOp::Clear(operand),
    };
    let value = hart.own_csr(request.number(), op, plat);
    hart.watch.meter.set(Activity::Compiled);
    let code = hart.state.fetch_tlb;
    if op != CsrOp::Read {
        hart.prepare();
    }
    CsrAnswer {
        value: value.unwrap_or(0),
        done: match value {
            None => CSR_REFUSED,
            Some(_) if hart.state.fetch_tlb == code => CSR_DONE,
            Some(_) => CSR_MOVED,
        },
    }
}
