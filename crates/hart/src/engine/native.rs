//! The second engine: blocks that run often are compiled to machine code of the host.
//!
//! ```text
//! run_compiled ── attend, lookup                      as the interpreter does, unless the last turn
//!  │                                                  ended in compiled code, and nothing happened
//!  ├── cold block: interpreted, and counted
//!  └── hot block: compiled, entered                   crates/jit
//!        ├── jumps inside a page: chained             link
//!        ├── others: tables of pages                  CodeTables
//!        └── everything without a template: helpers   the interpreter, for one instruction
//! ```
//!
//! Loops in which harts are seen for long are compiled once more, as regions
//! (crates/jit/src/native/region.rs).
//!
//! Compiled code checks the limit and charges a block as the interpreter does at its start, and
//! probes the TLBs at the same places. So nothing that a guest or a ledger can see depends on which
//! engine runs, or on when a block gets hot.

use std::ptr::null;

use trapless_isa::page::{PAGE_MASK, page_offset};
use trapless_jit::{Code, Exit, Jit, Site};

use super::callbacks::{HELPERS, Session};
use super::exchange::options;
use super::run::{NoObserver, Stop};
use crate::code::{CodeCache, Tiers};
use crate::config::HartConfig;
use crate::hart::Hart;
use crate::memory::address::{HostAddr, PageIndex};
use crate::observe::activity::Activity;
use crate::platform::Platform;
use crate::syndrome::Fault;

impl CodeCache {
    /// Enables compilation at the times that `tiers` says, for harts like `config`. Returns whether
    /// this host has a compiler; results are the same either way.
    pub fn compile(&mut self, tiers: Tiers, config: &HartConfig) -> bool {
        self.set_compiler(tiers, |capacity| {
            Jit::new(options(config), &HELPERS, capacity)
        })
    }
}

/// Cycles after which it is noted where a hart is: a few turns of one of many harts, for which that
/// would be a large part of the work.
const SEEN_EVERY: u64 = 10_000;

/// Where compiled code returned.
#[derive(Clone, Copy)]
enum Left {
    /// At a jump that can be linked.
    Jump {
        site: Site,
        /// Version of the tables when the jump was taken; once it has changed, the jump's code may
        /// have been dropped.
        version: u32,
    },
    /// At the limit, before this code.
    Limit(Code),
    Elsewhere,
}

impl Hart {
    /// [`Hart::run_unobserved`](Hart::run_unobserved) with compiled code.
    pub(crate) fn run_compiled(
        &mut self,
        code: &mut CodeCache,
        plat: &mut dyn Platform,
        until: u64,
    ) -> Option<Stop> {
        let mut since = self.state.cycles;
        let address = (&raw const *self).addr();
        let mut left = match self.code.take_kept(address) {
            // Nothing that the rest of the context depends on has changed since compiled code
            // returned there.
            Some(target) => {
                self.prepare_turn();
                self.enter_prepared(code, target, plat)
            }
            None => Left::Elsewhere,
        };
        loop {
            self.watch.meter.set(Activity::Dispatch);
            if self.state.cycles >= self.state.limit {
                if self.triggers.paused() {
                    return None;
                }
                self.watch.unseen += self.state.cycles - since;
                if self.watch.unseen >= SEEN_EVERY {
                    self.be_seen(code);
                }
                let stop = self.attend(code, plat, until);
                if stop.is_some() {
                    // Nothing was attended to that may have changed code or the program counter.
                    let quiet = self.state.limit == self.turn.end;
                    if let (Left::Limit(target), true) = (left, quiet) {
                        self.code.keep(target, address);
                    }
                    return stop;
                }
                left = Left::Elsewhere;
                since = self.state.cycles;
            }
            if let Left::Limit(target) = left {
                // Not the limit yet, but the most that compiled code counts at once.
                left = self.enter_compiled(code, target, plat);
                continue;
            }
            if self.exclude_fetched(code) {
                left = Left::Elsewhere;
            }
            if let Some(target) = self.known(code) {
                self.link(code, left, target);
                left = self.enter_compiled(code, target, plat);
                continue;
            }
            if self.trigger_ahead(code) {
                return None;
            }
            self.watch.counts.lookups += 1;
            let index = match self.lookup(code) {
                Ok(Some(index)) => index,
                Ok(None) => {
                    left = Left::Elsewhere;
                    self.crossing(code, plat);
                    continue;
                }
                Err(Fault) => {
                    left = Left::Elsewhere;
                    self.take_exception(self.state.pc, plat);
                    continue;
                }
            };
            let target = code.compiled_block(index, page_offset(self.state.pc) as u32);
            self.renew_tables(code);
            let Some(target) = target else {
                left = Left::Elsewhere;
                self.interpret(code, index, plat);
                continue;
            };
            self.link(code, left, target);
            left = self.enter_compiled(code, target, plat);
        }
    }

    /// Notes where the hart is, for regions.
    fn be_seen(&mut self, code: &mut CodeCache) {
        if let Some(page) = self.fetched_page() {
            let offset = page_offset(self.state.pc) as u32;
            code.see(page, offset, self.watch.unseen);
        }
        self.watch.unseen = 0;
    }

    /// Links the jump at which compiled code returned, unless its code was dropped.
    fn link(&self, code: &mut CodeCache, left: Left, target: Code) {
        if let Left::Jump { site, version } = left {
            if version == self.code.tables_version() {
                code.link(site, target);
            }
        }
    }

    /// Executes an instruction outside blocks. If it is a crossing, its code is entered in the
    /// tables.
    fn crossing(&mut self, code: &mut CodeCache, plat: &mut dyn Platform) {
        let (pc, page) = (self.state.pc, self.fetched_page());
        let Some(raw) = self.single::<false>(code, plat, &mut NoObserver).0 else {
            return;
        };
        let (0xFFE, 3, Some(page)) = (page_offset(pc), raw & 3, page) else {
            return;
        };
        if self.exclude_fetched(code) | code.excludes(page, 0xFFE, 1) {
            return;
        }
        if let (Some(target), Some(compiled)) = (code.compiled_crossing(raw), code.compiled()) {
            compiled.note(Some(page), 0xFFE, target);
        }
        self.renew_tables(code);
    }

    /// Page of RAM of the program counter, if the fetch TLB has it.
    #[inline]
    fn fetched_page(&self) -> Option<PageIndex> {
        let entry = self.tlb.fetch(self.state.pc);
        let host = HostAddr::of(self.state.pc, entry.addend);
        (entry.exec == self.state.pc & PAGE_MASK).then(|| self.ram.page_of(host))
    }

    /// Code for the program counter, if the tables have it. The fetch TLB's entry points to its
    /// table from now on.
    #[inline]
    fn known(&mut self, code: &CodeCache) -> Option<Code> {
        let compiled = code.compiled()?;
        let page = self.fetched_page()?;
        let offset = compiled
            .tables
            .get(page, page_offset(self.state.pc) as u32)?;
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
        let _ = self.exec::<false>(code.insts(&block), code.cost(), plat, &mut NoObserver);
    }

    /// Runs compiled code.
    fn enter_compiled(
        &mut self,
        code: &mut CodeCache,
        target: Code,
        plat: &mut dyn Platform,
    ) -> Left {
        self.prepare();
        self.enter_prepared(code, target, plat)
    }

    /// Runs compiled code once the context is prepared.
    fn enter_prepared(
        &mut self,
        code: &mut CodeCache,
        target: Code,
        plat: &mut dyn Platform,
    ) -> Left {
        match self.run_code(code, target, plat) {
            Exit::Jump(site) => Left::Jump {
                site,
                version: self.code.tables_version(),
            },
            Exit::Limit(target) => Left::Limit(target),
            Exit::Unknown => Left::Elsewhere,
            Exit::Crossing => {
                // Memory may have changed to an instruction that a block can contain.
                if let (Some(page), Some(compiled)) = (self.fetched_page(), code.compiled()) {
                    compiled
                        .tables
                        .clear(page, page_offset(self.state.pc) as u32);
                }
                Left::Elsewhere
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
        // SAFETY: the pointer is one to all of the hart, whose first field is the context.
        // `prepare_turn` has set the pointers to arrays of the TLB, which have the lengths that the
        // compiler assumes, and `prepare`, since the hart was moved, those to registers, which are
        // fields of this hart. TLB entries lead to RAM and to tables that `self.code` holds, which
        // live as long as the hart and have code of this compiler since its last reset only, as has
        // `target`. Helpers get the hart from this pointer while it is not used otherwise, and
        // `session` outlives the call.
        let site = unsafe { compiled.jit.enter((&raw mut *self).cast(), target) };
        self.state.session = null();
        self.take_changes();
        self.state.float.used = 0;
        // SAFETY: compiled code, which used it by the session, has returned.
        self.record_noted_timer(unsafe { &mut *session.plat });
        site
    }
}
