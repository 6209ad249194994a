//! Xtrapless: ACLINT and PLIC, extended by interrupts that reach vCPUs without traps.
//!
//! ```text
//!  sgenipi, ugenvsei, hgenvsi --> post: OR into the vhart's file in memory
//!                                  |
//!                                lookup: which hart's slot (hifmap) holds the vhart?
//!                                  |
//!             hit: that hart reads the file of its slot's vhart again
//!            miss: notification for the host, if one is wanted and none is outstanding
//! ```
//!
//! Memory is the only truth for what is pending; a slot only caches which inputs of its hart the
//! file drives. Devices of the host stay on the PLIC, firmware on the ACLINT.
//!
//! | file | subject |
//! |---|---|
//! | `access` | who may access which CSR |
//! | `csr` | what an access does |
//! | `slot` | attach, detach, lookup |
//! | `post` | posts and notifications |
//! | `queue` | the notification queue of a hart |
//! | `file` | what is pending for a vhart; claim |
//! | `tables` | domains, vharts, sources, lines in memory |
//! | `words` | the way to memory |
//! | `hart`, `state` | registers, snapshots |
//! | `fdt` | device tree nodes |
//!
//! Registers, fields and structures are those of [`trapless_isa::xtrapless`]. Choices where the
//! specification leaves one (WARL fields and the like):
//!
//! * An invalid slot reads as zero. `hifmap.V` stays 0 while `htlcfg.EN` is 0. Clearing EN detaches
//!   as PREEMPTED; so does the state LOADED, which only the controller writes.
//! * Registers that only take writes read as zero; reserved operations of `hgenvsi` do nothing.
//! * A queue or table larger than allowed has the largest size; a queue's address is aligned to it.
//!   Closing a queue changes nothing but `hnqbase.EN`.
//! * What lies outside RAM or where PMP keeps HS-mode of the acting hart out does not exist: posts
//!   vanish, an attach leaves the slot invalid, a notification counts as overflow.
//! * Nothing is cached but the inputs a slot drives: each access reads the tables as they are.

mod access;
mod csr;
mod fdt;
mod file;
mod hart;
pub use hart::HART_STATE_BITS;
mod post;
mod queue;
mod slot;
mod state;
mod tables;
#[cfg(test)]
mod tests;
mod words;

use trapless_isa::Mode;
use trapless_isa::xtrapless::{ISA_NAME, htlcfg, limits};
use vm_fdt::FdtWriter;

use crate::aclint_plic::{self, AclintPlic};
use crate::{
    CsrAccess, CsrFault, InterruptArchitecture, Lines, Memory, NoRegister, StepKind, VirtualStep,
    Window,
};
use state::State;
use tables::Domain;
use words::Words;

// Bit positions in `mip`, `hip` (privileged specification, sections 3.1.9 and 8.2.3).
const SSI_HS: u32 = 1;
const SSI: u32 = 2;
const SEI: u32 = 10;

/// Configuration of [`Trapless`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// ACLINT and PLIC that the extension is added to.
    pub aclint: aclint_plic::Config,
    /// Whether the harts have the H extension; without it only `sgenipi` exists.
    pub h: bool,
}

/// See the [module](self).
pub struct Trapless {
    inner: AclintPlic,
    state: State,
    words: Words,
    /// Harts whose lines may have changed.
    changed: u64,
    /// Steps since they were last taken, if anybody wants them.
    steps: Option<Vec<VirtualStep>>,
}

/// Who does something, and when.
#[derive(Clone, Copy)]
struct Actor {
    hart: usize,
    mode: Mode,
    now: u64,
}

impl Actor {
    fn of(access: &CsrAccess) -> Self {
        Self {
            hart: access.hart,
            mode: access.mode,
            now: access.now,
        }
    }
}

impl Trapless {
    /// The architecture after reset.
    ///
    /// # Panics
    /// If `config` is out of its ranges.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            inner: AclintPlic::new(config.aclint),
            state: State::new(config.aclint.harts, config.h),
            words: Words::default(),
            changed: 0,
            steps: None,
        }
    }

    /// Domain `id` in the tables that `hart` uses.
    fn domain(&self, hart: usize, id: u16) -> Option<Domain> {
        Domain::find(&self.words, self.state.harts[hart].tables, id)
    }

    /// Records a step together with the memory accesses since the one before.
    fn step(&mut self, by: Actor, domain: u16, kind: StepKind) {
        let memory = self.words.take_touched();
        if let Some(steps) = &mut self.steps {
            steps.push(VirtualStep {
                time: by.now,
                hart: by.hart,
                mode: by.mode,
                domain,
                kind,
                memory,
            });
        }
    }
}

impl InterruptArchitecture for Trapless {
    fn name(&self) -> &'static str {
        "trapless"
    }

    fn windows(&self) -> Vec<Window> {
        self.inner.windows()
    }

    fn load(&mut self, hart: usize, now: u64, addr: u64, size: u8) -> Result<u64, NoRegister> {
        self.inner.load(hart, now, addr, size)
    }

    fn store(
        &mut self,
        hart: usize,
        now: u64,
        addr: u64,
        size: u8,
        value: u64,
    ) -> Result<(), NoRegister> {
        self.inner.store(hart, now, addr, size, value)
    }

    fn csr(&mut self, access: &CsrAccess) -> Result<u64, CsrFault> {
        self.words.act_for(access.hart);
        self.words.take_touched();
        let steps = self.steps.as_ref().map_or(0, Vec::len);
        let result = self.access_csr(access);
        if self.words.take_failed() {
            self.state.harts[access.hart].config |= htlcfg::FLT;
        }
        // What an access touches after its last step belongs to that step.
        let rest = self.words.take_touched();
        if let Some(last) = self.steps.as_mut().and_then(|all| all[steps..].last_mut()) {
            last.memory = last.memory.saturating_add(rest);
        }
        result
    }

    fn set_source(&mut self, now: u64, source: u32, level: bool) {
        self.inner.set_source(now, source, level);
    }

    fn lines(&mut self, hart: usize, now: u64) -> Lines {
        let mut lines = self.inner.lines(hart, now);
        self.state.harts[hart].drive(&mut lines);
        lines
    }

    fn take_changed(&mut self) -> u64 {
        self.inner.take_changed() | std::mem::take(&mut self.changed)
    }

    fn attach_memory(&mut self, memory: Box<dyn Memory>) {
        self.words.attach(memory);
    }

    fn supervisor_interrupts(&self) -> u64 {
        u64::from(self.state.h) << limits::NOTIFY_IRQ
    }

    fn custom_csrs(&self) -> bool {
        true
    }

    fn isa_extensions(&self) -> &'static [&'static str] {
        &[ISA_NAME]
    }

    fn take_switched(&mut self) -> u64 {
        std::mem::take(&mut self.state.switched)
    }

    fn record_steps(&mut self, on: bool) {
        self.steps = on.then(Vec::new);
    }

    fn take_steps(&mut self) -> Vec<VirtualStep> {
        self.steps.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> Result<(), vm_fdt::Error> {
        self.inner.fdt(fdt, cpu_intc)?;
        fdt::nodes(fdt, cpu_intc, self.state.h)
    }

    fn external_phandle(&self) -> u32 {
        self.inner.external_phandle()
    }

    fn save(&self) -> serde_json::Value {
        serde_json::json!({
            "aclint_plic": self.inner.save(),
            "xtrapless": self.state,
        })
    }

    fn restore(&mut self, saved: &serde_json::Value) -> Result<(), String> {
        let state = self.state.restored(&saved["xtrapless"])?;
        self.inner.restore(&saved["aclint_plic"])?;
        self.state = state;
        self.changed = u64::MAX >> (64 - self.state.harts.len());
        Ok(())
    }
}

/// A field of a register or table word.
fn field(word: u64, mask: u64, shift: u32) -> u64 {
    (word & mask) >> shift
}

/// Whether a set of inputs has none but those a file drives.
fn is_vs_level(lines: u64) -> bool {
    lines & !(1 << SSI | 1 << SEI) == 0
}
