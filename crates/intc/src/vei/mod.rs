//! Xvei: events of a guest reach the host's interrupt handlers without an exit.
//!
//! ```text
//!  sgenvei, hgenvei --------------> post: P of the entry in the VM's table := 1
//!  store to a doorbell page --------^          | it was 0
//!  load from one <-- shadow                  queue of the hart that the entry names
//!                                              |
//!                                            interrupt 25; HS-mode reads hveiclaim
//! ```
//!
//! With Xhcs, the event may be for a user context: its address is put into the queue, and if the
//! hart runs a guest then, its handler interrupts that instead of HS-mode.
//!
//! All other accesses go to the architecture to which this one is added.
//!
//! | file | subject |
//! |---|---|
//! | `csr` | CSRs |
//! | `post` | posting an event |
//! | `doorbell` | accesses to doorbell pages |
//! | `context` | user contexts: notification, entry and end of handlers |
//! | `share` | limit of a hart's time for user contexts |
//! | `operation` | an access in progress |
//! | `hart` | registers |
//! | `inspect` | state as rows |
//!
//! Registers, fields and structures are those of [`trapless_isa::haiov`]. Implementation choices:
//! write-only registers read as zero, sizes above the maximum become the maximum, and nothing of a
//! table or a doorbell page is cached.

mod context;
mod csr;
mod doorbell;
mod hart;
mod inspect;
mod operation;
mod post;
mod share;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use trapless_isa::haiov::limits;
use trapless_isa::port::{
    ContextAccess, CsrAccess, CsrFault, CsrOp, DoorbellAccess, DoorbellFault, Exchanged, Lines,
    MessageArrival, MmioAccess,
};
use trapless_isa::{Mode, xtrapless};
use vm_fdt::FdtWriter;

use crate::architecture::{Description, InterruptArchitecture, InterruptFiles, Memory, Snapshot};
use crate::effects::Effects;
use crate::inspect::Row;
use crate::mmio::NoRegister;
use crate::words::Words;
use hart::Hart;
use operation::{Cause, Operation};

/// An architecture with Xvei added; see the [module](self).
pub struct Vei<A> {
    inner: A,
    harts: Vec<Hart>,
    words: Words,
    /// With Xhcs.
    contexts: bool,
}

impl<A: InterruptArchitecture> Vei<A> {
    /// Adds the extension to `inner`, an architecture of `harts` harts after reset; with user
    /// contexts (Xhcs) or without.
    #[must_use]
    pub fn new(inner: A, harts: usize, contexts: bool) -> Self {
        Self {
            inner,
            harts: vec![Hart::default(); harts],
            words: Words::default(),
            contexts,
        }
    }

    fn has_csr(&self, csr: u16) -> bool {
        csr::CSRS.contains(&csr) || self.contexts && csr::CONTEXT_CSRS.contains(&csr)
    }

    /// Accesses `hgrant` of Xtrapless, if the hart has it; `None` if not.
    fn grant(&mut self, by: Cause, op: CsrOp, effects: &mut Effects) -> Option<u64> {
        let access = CsrAccess {
            hart: by.hart,
            csr: xtrapless::csr::HGRANT,
            mode: Mode::HS,
            vmid: 0,
            now: by.now,
            op,
        };
        self.inner.csr(&access, effects).ok()
    }

    /// Executes an access caused by `by`.
    fn operate<T>(
        &mut self,
        by: Cause,
        effects: &mut Effects,
        act: impl FnOnce(&mut Operation<'_>) -> T,
    ) -> T {
        self.words.act_for(by.hart);
        let kept = effects.steps.kept().len();
        let result = act(&mut Operation {
            harts: &mut self.harts,
            words: &self.words,
            effects,
            by,
            contexts: self.contexts,
        });
        if self.words.take_failed() {
            self.harts[by.hart].fault = true;
        }
        // Memory accesses after the last step belong to that step.
        let touched = self.words.take_touched();
        if let Some(last) = effects.steps.kept()[kept..].last_mut() {
            last.memory = last.memory.saturating_add(touched);
        }
        result
    }
}

impl<A: InterruptArchitecture> InterruptArchitecture for Vei<A> {
    fn describe(&self) -> Description {
        let mut description = self.inner.describe();
        description.csrs.extend(csr::CSRS);
        if self.contexts {
            description.csrs.extend(csr::CONTEXT_CSRS);
        }
        description.custom_csrs = true;
        description.supervisor_interrupts |= 1 << limits::VEI_IRQ;
        description
    }

    fn load(&mut self, access: &MmioAccess, effects: &mut Effects) -> Result<u64, NoRegister> {
        self.inner.load(access, effects)
    }

    fn store(
        &mut self,
        access: &MmioAccess,
        value: u64,
        effects: &mut Effects,
    ) -> Result<(), NoRegister> {
        self.inner.store(access, value, effects)
    }

    fn csr(&mut self, access: &CsrAccess, effects: &mut Effects) -> Result<u64, CsrFault> {
        if !self.has_csr(access.csr) || access.hart >= self.harts.len() {
            return self.inner.csr(access, effects);
        }
        let by = Cause {
            hart: access.hart,
            mode: access.mode,
            now: access.now,
        };
        self.operate(by, effects, |operation| {
            operation.access(access.csr, access.op)
        })
    }

    fn doorbell(
        &mut self,
        access: &DoorbellAccess,
        effects: &mut Effects,
    ) -> Result<u64, DoorbellFault> {
        if access.hart >= self.harts.len() {
            return Err(DoorbellFault { mmio: false });
        }
        let by = Cause {
            hart: access.hart,
            mode: access.mode,
            now: access.now,
        };
        self.operate(by, effects, |operation| operation.doorbell(access))
    }

    fn set_source(&mut self, now: u64, source: u32, level: bool, effects: &mut Effects) {
        self.inner.set_source(now, source, level, effects);
    }

    fn message(
        &mut self,
        now: u64,
        addr: u64,
        data: u32,
        effects: &mut Effects,
    ) -> Option<MessageArrival> {
        self.inner.message(now, addr, data, effects)
    }

    fn lines(&mut self, hart: usize, now: u64) -> Lines {
        let mut lines = self.inner.lines(hart, now);
        let Some(own) = self.harts.get(hart) else {
            return lines;
        };
        let irq = 1 << limits::VEI_IRQ;
        if own.queue.raised() {
            lines.level |= irq;
        }
        if own.context == 0 {
            lines.context = own.next_context(now).is_some();
            lines.withheld |= u64::from(lines.context) * irq;
        } else if now >= own.budget_ends {
            lines.level |= irq;
        } else {
            lines.withheld |= irq;
            lines.deadline = lines.deadline.min(own.budget_ends);
        }
        lines
    }

    fn enter_context(
        &mut self,
        access: &ContextAccess,
        registers: &mut Exchanged,
        effects: &mut Effects,
    ) -> Option<u64> {
        let by = Cause::of(access);
        if by.hart >= self.harts.len() {
            return None;
        }
        let grant = self.grant(by, CsrOp::Read, effects);
        let entered = self.operate(by, effects, |operation| {
            operation.enter(registers, grant.unwrap_or(0))
        })?;
        self.grant(by, CsrOp::Write(entered.grant), effects);
        Some(entered.pending)
    }

    fn leave_context(
        &mut self,
        access: &ContextAccess,
        registers: &mut Exchanged,
        effects: &mut Effects,
    ) -> bool {
        let by = Cause::of(access);
        if by.hart >= self.harts.len() {
            return false;
        }
        let grant = self.operate(by, effects, |operation| operation.leave(registers));
        if let Some(grant) = grant {
            self.grant(by, CsrOp::Write(grant), effects);
        }
        grant.is_some()
    }

    fn interrupt_files(&mut self) -> Option<&mut dyn InterruptFiles> {
        self.inner.interrupt_files()
    }

    fn attach_memory(&mut self, memory: Arc<dyn Memory>) {
        self.words.attach(memory.clone());
        self.inner.attach_memory(memory);
    }

    fn inspect(&self, now: u64) -> Vec<Row> {
        let mut rows = self.inner.inspect(now);
        for (number, hart) in self.harts.iter().enumerate() {
            let memory = self.words.spectator(number);
            inspect::rows(number, hart, self.contexts, now, &memory, &mut rows);
        }
        rows
    }

    fn inspect_doorbells(&self, hart: usize, gpa: u64, page: u64) -> Vec<Row> {
        let Some(own) = self.harts.get(hart) else {
            return Vec::new();
        };
        let memory = self.words.spectator(hart);
        inspect::doorbells((hart, own), self.contexts, (gpa, page), &memory)
    }

    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> Result<(), vm_fdt::Error> {
        self.inner.fdt(fdt, cpu_intc)
    }
}

impl<A: Snapshot> Snapshot for Vei<A> {
    fn save(&self) -> serde_json::Value {
        serde_json::json!({ "inner": self.inner.save(), "xvei": self.harts })
    }

    fn restore(&mut self, saved: &serde_json::Value) -> Result<(), String> {
        let harts: Vec<Hart> = serde_json::from_value(saved["xvei"].clone())
            .map_err(|e| format!("the state of Xvei cannot be read: {e}"))?;
        if harts.len() != self.harts.len() || !harts.iter().all(Hart::is_sound) {
            return Err("the state of Xvei is not that of such a machine".into());
        }
        self.inner.restore(&saved["inner"])?;
        self.harts = harts;
        Ok(())
    }
}
