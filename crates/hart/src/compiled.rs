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
use trapless_isa::csr::{self, status};
use trapless_jit::{
    Code, CsrPlace, FLOAT_DIRTY, FLOAT_NEAREST, Helpers, JUMPS, Jit, Jump, Layout, PlainCsr,
    Position, Site, Source,
};

use crate::block::CodeCache;
use crate::csr::read::SSTATUS;
use crate::csr::write::HSTATUS;
use crate::fpu::flag;
use crate::interp::Flow;
use crate::platform::Platform;
use crate::run::{NoObserver, Stop};
use crate::state::Bank;
use crate::{Fault, Hart};

/// Runs of a block after which compiling it pays.
pub const HOT: u32 = 32;

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
}

#[derive(Clone, Copy)]
enum State {
    /// Interpreted so often.
    Cold(u32),
    Hot(Code),
}

impl Compiled {
    /// `None` if there is no compiler for this host.
    pub fn new(hot: u32, aia: bool) -> Option<Self> {
        let layout = Layout {
            x: offset_of!(Hart, x),
            pc: offset_of!(Hart, pc),
            cycles: offset_of!(Hart, cycles),
            instret: offset_of!(Hart, instret),
            limit: offset_of!(Hart, limit),
            data_tlb: offset_of!(Hart, fast.data_tlb),
            fetch_tlb: offset_of!(Hart, fast.fetch_tlb),
            jumps: offset_of!(Hart, fast.jump_array),
            epoch: offset_of!(Hart, fast.epoch),
            f: offset_of!(Hart, f),
            float_state: offset_of!(Hart, fast.float_state),
            float_used: offset_of!(Hart, fast.float_used),
            float_clean: offset_of!(Hart, fast.float_clean),
            float_flags: offset_of!(Hart, fast.float_flags),
            bank: offset_of!(Hart, fast.bank),
            hs: offset_of!(Hart, fast.hs),
            status: offset_of!(Hart, fast.status),
            status_shown: SSTATUS,
            mip: offset_of!(Hart, mip),
            mie: offset_of!(Hart, csr.mie),
            vsip: offset_of!(Hart, vsip),
            vsie: offset_of!(Hart, csr.vsie),
            plain_csr: if aia { plain_csr_aia } else { plain_csr },
        };
        let helpers = Helpers { finish, execute };
        Some(Self {
            jit: Jit::new(&layout, &helpers)?,
            blocks: Vec::new(),
            version: 0,
            hot,
        })
    }

    /// See [`CodeCache::compiled_block`].
    pub fn block(&mut self, source: &Source<'_>) -> Option<Code> {
        let index = source.block as usize;
        if index >= self.blocks.len() {
            self.blocks.resize(index + 1024, State::Cold(0));
        }
        match &mut self.blocks[index] {
            State::Hot(code) => Some(*code),
            State::Cold(runs) if *runs < self.hot => {
                *runs += 1;
                None
            }
            State::Cold(_) => {
                let code = match self.jit.compile(source) {
                    Some(code) => code,
                    None => {
                        self.reset();
                        self.blocks.resize(index + 1024, State::Cold(self.hot));
                        self.jit.compile(source)?
                    }
                };
                self.blocks[index] = State::Hot(code);
                Some(code)
            }
        }
    }

    pub fn link(&mut self, site: Site, target: Code) {
        self.jit.link(site, target);
    }

    pub fn unlink_all(&mut self) {
        self.jit.unlink_all();
    }

    /// Drops all code.
    pub fn reset(&mut self) {
        self.jit.reset();
        self.blocks.clear();
        self.version = self.version.wrapping_add(1);
    }
}

/// CSRs that compiled code accesses itself: what `csr/read.rs` and `csr/write.rs` do with them has no
/// effects, and `csr/check.rs` has no condition but the mode.
fn plain_csr(number: u16) -> Option<PlainCsr> {
    /// All bits are written.
    const ALL: Option<(i32, i32)> = Some((0, -1));
    /// A program counter.
    const PC: Option<(i32, i32)> = Some((0, -2));
    const HSTATUS_WRITE: Option<(i32, i32)> = Some((!(HSTATUS as i32), HSTATUS as i32));
    /// The guest's bank.
    const GUEST: usize = offset_of!(Hart, csr.s) + size_of::<Bank>();
    const _: () = assert!(HSTATUS >> 31 == 0, "fits an immediate operand");
    let (place, write) = match number {
        csr::SSCRATCH => (CsrPlace::Bank(offset_of!(Bank, scratch)), ALL),
        csr::SEPC => (CsrPlace::Bank(offset_of!(Bank, epc)), PC),
        csr::SCAUSE => (CsrPlace::Bank(offset_of!(Bank, cause)), ALL),
        csr::STVAL => (CsrPlace::Bank(offset_of!(Bank, tval)), ALL),
        csr::STVEC => (CsrPlace::Bank(offset_of!(Bank, tvec)), None),
        csr::HSTATUS => (CsrPlace::Host(offset_of!(Hart, csr.hstatus)), HSTATUS_WRITE),
        csr::HTVAL => (CsrPlace::Host(offset_of!(Hart, csr.htval)), ALL),
        csr::HTINST => (CsrPlace::Host(offset_of!(Hart, csr.htinst)), ALL),
        csr::VSSCRATCH => (CsrPlace::Host(GUEST + offset_of!(Bank, scratch)), ALL),
        csr::VSEPC => (CsrPlace::Host(GUEST + offset_of!(Bank, epc)), PC),
        csr::VSCAUSE => (CsrPlace::Host(GUEST + offset_of!(Bank, cause)), ALL),
        csr::VSTVAL => (CsrPlace::Host(GUEST + offset_of!(Bank, tval)), ALL),
        csr::VSTVEC => (CsrPlace::Host(GUEST + offset_of!(Bank, tvec)), None),
        _ => return None,
    };
    Some(PlainCsr { place, write })
}

/// The same of a hart with guest interrupt files: writing `hstatus` selects one.
fn plain_csr_aia(number: u16) -> Option<PlainCsr> {
    let plain = plain_csr(number)?;
    Some(match number {
        csr::HSTATUS => PlainCsr {
            write: None,
            ..plain
        },
        _ => plain,
    })
}

/// What compiled code needs of a hart besides its registers.
pub(crate) struct Fast {
    /// Arrays of the selected TLB contexts.
    data_tlb: usize,
    fetch_tlb: usize,
    jump_array: usize,
    /// Epoch of the code cache.
    epoch: u64,
    /// See [`Layout::float_state`] and what follows it.
    float_state: u8,
    float_used: u8,
    float_clean: u32,
    float_flags: u32,
    /// See [`Layout::bank`] and what follows it.
    bank: usize,
    status: usize,
    hs: u8,
    /// [`Session`] while compiled code runs.
    session: usize,
    jumps: Vec<Jump>,
    /// [`Compiled::version`] that `jumps` belongs to.
    version: u32,
}

impl Fast {
    pub fn new() -> Self {
        Self {
            data_tlb: 0,
            fetch_tlb: 0,
            jump_array: 0,
            epoch: 0,
            float_state: 0,
            float_used: 0,
            float_clean: MXCSR_DEFAULT,
            float_flags: 0,
            bank: 0,
            status: 0,
            hs: 0,
            session: 0,
            jumps: Vec::new(),
            version: 0,
        }
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
            let index = match self.lookup(code) {
                Ok(Some(index)) => index,
                Ok(None) => {
                    site = None;
                    self.single::<false>(code, plat, &mut NoObserver);
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
            if let Some(compiled) = code.compiled() {
                if compiled.version != self.fast.version || self.fast.jumps.is_empty() {
                    self.fast.version = compiled.version;
                    self.fast.jumps = vec![Jump::EMPTY; JUMPS];
                    self.fast.jump_array = self.fast.jumps.as_ptr() as usize;
                    site = None;
                }
            }
            if let Some(site) = site.take() {
                code.link(site, target);
            }
            self.fast.jumps[(self.pc >> 1) as usize % JUMPS] = Jump {
                pc: self.pc,
                addend: self.tlb.fetch(self.pc).addend,
                epoch: u64::from(code.epoch()),
                code: target.address(),
            };
            site = self.enter_compiled(code, target, plat);
        }
    }

    /// Code for the program counter, if the jump cache has it: what compiled code would find by itself.
    #[inline]
    fn known(&self, code: &CodeCache) -> Option<Code> {
        if self.fast.version != code.compiled()?.version {
            return None;
        }
        let jump = self.fast.jumps.get((self.pc >> 1) as usize % JUMPS)?;
        let entry = self.tlb.fetch(self.pc);
        let valid = jump.pc == self.pc
            && entry.exec == self.pc & !0xFFF
            && jump.addend == entry.addend
            && jump.epoch == u64::from(code.epoch());
        valid.then(|| Code::at(jump))
    }

    /// Interprets block `index`, which is at the program counter.
    fn interpret(&mut self, code: &CodeCache, index: u32, plat: &mut dyn Platform) {
        let block = code.block(index);
        self.cycles += u64::from(block.cost);
        self.instret += u64::from(block.len);
        self.exec::<false>(code.insts(&block), code.cost(), plat, &mut NoObserver);
    }

    fn enter_compiled(
        &mut self,
        code: &CodeCache,
        target: Code,
        plat: &mut dyn Platform,
    ) -> Option<Site> {
        let compiled = code.compiled()?;
        let session = Session { code, plat };
        self.fast.session = &raw const session as usize;
        self.fast.epoch = u64::from(code.epoch());
        self.prepare();
        // SAFETY: the layout is that of `Hart`; the arrays are those of the TLB and of `fast.jumps`, which
        // have the lengths that the compiler assumes; TLB entries lead to RAM, which lives as long as the
        // hart; `target` was compiled since the last reset. Helpers get the hart from this pointer, and
        // `session` outlives the call.
        let site = unsafe { compiled.jit.enter((&raw mut *self).cast(), target) };
        self.fast.session = 0;
        self.take_float_flags();
        self.fast.float_used = 0;
        site
    }

    /// Tells compiled code what it needs to know and only others change.
    #[inline]
    fn prepare(&mut self) {
        (self.fast.data_tlb, self.fast.fetch_tlb) = self.tlb.arrays();
        let dirty = self.csr.mstatus & status::FS == status::FS
            && (!self.mode.v() || self.csr.vsstatus & status::FS == status::FS);
        let (bank, status) = match self.mode {
            Mode::HS => (&raw mut self.csr.s[0], &raw mut self.csr.mstatus),
            Mode::VS => (&raw mut self.csr.s[1], &raw mut self.csr.vsstatus),
            _ => (null_mut(), null_mut()),
        };
        self.fast.bank = bank as usize;
        self.fast.status = status as usize;
        self.fast.hs = u8::from(self.mode == Mode::HS && self.config.extensions.h);
        self.fast.float_state = match (dirty, self.csr.frm) {
            (true, 0) => FLOAT_DIRTY | FLOAT_NEAREST,
            (true, _) => FLOAT_DIRTY,
            (false, _) => 0,
        };
    }

    /// Takes over the exception flags that compiled code has raised.
    #[inline]
    fn take_float_flags(&mut self) {
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

/// Executes the instruction at `at` of a block. `None`: it trapped.
///
/// # Safety
/// To be called by compiled code only.
unsafe fn step(context: *mut u8, block: u32, at: Position) -> Option<(&'static mut Hart, u64)> {
    // SAFETY: compiled code passes the pointer it got from `enter_compiled`, which uses the hart for
    // nothing else meanwhile.
    let hart = unsafe { &mut *context.cast::<Hart>() };
    // SAFETY: `enter_compiled` put the address of a live session there.
    let session = unsafe { &*(hart.fast.session as *const Session<'_>) };
    // SAFETY: both outlive the session, and only helpers use the platform while compiled code runs.
    let (code, plat) = unsafe { (&*session.code, &mut *session.plat) };
    hart.take_float_flags();
    let block = code.block(block);
    let rest = &code.insts(&block)[at.index()..];
    let pc = hart.pc.wrapping_add(at.distance());
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
