//! Xtrapless: ACLINT and PLIC, extended by interrupts that reach vCPUs without traps.
//!
//! ```text
//!  sgenipi, ugenvsei, hgenvsi --> post: OR into the vhart's file in memory
//!                                  |
//!                                lookup: which hart's slot (hifmap) holds the vhart?
//!                                  |
//!             hit: that hart rereads the file of its slot's vhart
//!            miss: notification for the host, if one is wanted and none is outstanding
//! ```
//!
//! Pending interrupts are kept in memory only; a slot caches only which inputs of its hart the file
//! drives. The host's devices stay on the PLIC, firmware on the ACLINT.
//!
//! | file | subject |
//! |---|---|
//! | `operation` | a CSR access in progress, which the next four execute |
//! | `csr` | CSRs of the host, and dispatch of accesses |
//! | `guest` | CSRs of a guest: claim, complete, enable, IPIs |
//! | `attach` | attach, detach, lookup |
//! | `post` | posts and notifications |
//! | `access` | access rights of CSRs |
//! | `operand` | operands of CSRs that only take writes |
//! | `state`, `hart`, `slot` | registers; contents of a snapshot |
//! | `queue` | the notification queue of a hart |
//! | `search` | search for the source that a vhart's file delivers |
//! | `tables` | domains, vharts, sources, lines in memory |
//! | `file` | the file of a vhart in memory |
//! | `layout` | fields of registers and words |
//! | `windows` | message windows and wired windows |
//! | `inspect` | state as rows |
//! | `fdt` | device tree nodes |
//!
//! Registers, fields and structures are those of [`trapless_isa::xtrapless`]. Implementation
//! choices (WARL fields and the like):
//!
//! * An invalid slot reads as zero. `hifmap.V` stays 0 while `htlcfg.EN` is 0. Clearing EN detaches
//!   as PREEMPTED; so does the state LOADED, which only the controller writes.
//! * Registers that only take writes read as zero; reserved operations of `hgenvsi` do nothing.
//! * A queue or table larger than allowed has the maximum size; a queue's address is aligned to it.
//!   Closing a queue changes nothing but `hnqbase.EN`.
//! * Structures outside RAM, or that PMP denies to HS-mode of the acting hart, do not exist: posts
//!   are lost, an attach leaves the slot invalid, a notification counts as overflow.
//! * A store to a message window that is no message is dropped and counted (MSG-4). Entries of the
//!   window table are read for each message.
//! * Only the inputs that a slot drives are cached: each access reads the tables.

mod access;
mod attach;
mod csr;
mod fdt;
mod file;
mod guest;
mod hart;
mod inspect;
mod layout;
mod operand;
mod operation;
mod post;
mod queue;
mod search;
mod slot;
mod state;
mod tables;
#[cfg(test)]
mod tests;
mod windows;

use std::sync::Arc;

use trapless_isa::port::{CsrAccess, CsrFault, Lines, MessageArrival, MmioAccess};
use trapless_isa::xtrapless::{isa, limits};
use vm_fdt::FdtWriter;

use crate::aclint_plic::{self, AclintPlic};
use crate::architecture::{Description, InterruptArchitecture, Memory, Snapshot};
use crate::effects::Effects;
use crate::inspect::Row;
use crate::mmio::{NoRegister, check_access};
use crate::words::Words;
pub use hart::HART_STATE_BITS;
use operation::{Cause, Operation};
use state::State;
use windows::{Change, Given, Place, Windows, WireStore};

/// Configuration of [`Trapless`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// ACLINT and PLIC to which the extension is added.
    pub aclint: aclint_plic::Config,
    /// Whether the harts have the H extension; without it only `sgenipi` exists.
    pub h: bool,
}

/// See the [module](self).
pub struct Trapless {
    inner: AclintPlic,
    state: State,
    words: Words,
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
        }
    }

    /// With 2^`size` message windows, and wired windows for all sources of the PLIC; without the H
    /// extension there are none.
    ///
    /// # Panics
    /// If these are more than 65536.
    #[must_use]
    pub fn with_windows(mut self, size: u8) -> Self {
        self.state.windows = self.state.h.then(|| Windows::new(size));
        self
    }

    /// What windows have at an address, and the windows.
    fn place(&self, addr: u64) -> Option<(Place, &Windows)> {
        let windows = self.state.windows.as_ref()?;
        Some((Place::of(addr, windows.size())?, windows))
    }

    /// Operations of windows, in memory that their owner may access (MSG-6).
    fn operate<T>(
        &mut self,
        by: Cause,
        effects: &mut Effects,
        act: impl FnOnce(&mut Operation<'_>) -> T,
    ) -> T {
        let owner = self.state.windows.as_ref().map_or(0, Windows::hart);
        self.words.act_for(owner);
        self.words.take_touched();
        let kept = effects.steps.kept().len();
        let mut operation = Operation {
            state: &mut self.state,
            words: &self.words,
            effects,
            by,
        };
        let result = act(&mut operation);
        operation.close(kept);
        let failed = self.words.take_failed();
        if let Some(windows) = &mut self.state.windows {
            windows.failed |= failed;
        }
        result
    }

    /// Gives a wire to a domain, or takes it back (WIRE-3, WIRE-4).
    fn set_wire(&mut self, by: Cause, store: WireStore, effects: &mut Effects) {
        let WireStore { wire, to } = store;
        let Some(windows) = &mut self.state.windows else {
            return;
        };
        let old = windows.wires.remove(&wire);
        if let Some(old) = old {
            self.operate(by, effects, |o| o.drive_wire(old, Change::TakenBack));
        }
        let high = old.map_or_else(|| self.inner.plic().level(wire), |old| old.high);
        match to {
            Some((domain, source)) => {
                self.inner.detach_source(wire, effects);
                let given = Given {
                    domain,
                    source,
                    high,
                    edge: self.inner.is_edge_triggered(wire),
                };
                if let Some(windows) = &mut self.state.windows {
                    windows.wires.insert(wire, given);
                }
                self.operate(by, effects, |o| o.drive_wire(given, Change::Given));
            }
            None if old.is_some() => self.inner.attach_source(wire, high, effects),
            None => {}
        }
    }
}

impl InterruptArchitecture for Trapless {
    fn describe(&self) -> Description {
        let mut inner = self.inner.describe();
        let size = self.state.windows.as_ref().map(Windows::size);
        inner
            .windows
            .extend(size.into_iter().flat_map(Place::windows));
        Description {
            msi_parent: size.map(|_| windows::PHANDLE),
            csrs: access::of_the_host(self.state.h),
            custom_csrs: true,
            supervisor_interrupts: u64::from(self.state.h) << limits::NOTIFY_IRQ,
            isa_extensions: &[isa::XTRAPLESSVI],
            ..inner
        }
    }

    fn load(&mut self, access: &MmioAccess, effects: &mut Effects) -> Result<u64, NoRegister> {
        match self.place(access.addr) {
            Some((Place::Register(offset), windows)) => windows.load(offset, access.size),
            Some((Place::Page(_, offset), _)) => {
                check_access(offset, access.size, access.size).map(|()| 0)
            }
            None => self.inner.load(access, effects),
        }
    }

    fn store(
        &mut self,
        access: &MmioAccess,
        value: u64,
        effects: &mut Effects,
    ) -> Result<(), NoRegister> {
        let Some((place, _)) = self.place(access.addr) else {
            return self.inner.store(access, value, effects);
        };
        let by = Cause::store(access);
        match place {
            Place::Register(offset) => {
                let Some(windows) = &mut self.state.windows else {
                    return Err(NoRegister);
                };
                let wire = windows.store(access.hart, offset, access.size, value)?;
                if let Some(wire) = wire {
                    self.set_wire(by, wire, effects);
                }
            }
            Place::Page(window, offset) => {
                let data = (offset == 0 && access.size == 4).then_some(value as u32);
                self.operate(by, effects, |o| o.message(window, data));
            }
        }
        Ok(())
    }

    fn csr(&mut self, access: &CsrAccess, effects: &mut Effects) -> Result<u64, CsrFault> {
        self.words.act_for(access.hart);
        let operation = Operation {
            state: &mut self.state,
            words: &self.words,
            effects,
            by: Cause::csr(access),
        };
        operation.run(access.csr, access.op)
    }

    fn set_source(&mut self, now: u64, source: u32, level: bool, effects: &mut Effects) {
        if let Some(windows) = &mut self.state.windows {
            if let Some(wire) = windows.wires.get_mut(&source) {
                wire.high = level;
                let (wire, by) = (*wire, Cause::device(now, windows.hart()));
                self.operate(by, effects, |o| o.drive_wire(wire, Change::Driven(level)));
                return;
            }
        }
        self.inner.set_source(now, source, level, effects);
    }

    fn message(
        &mut self,
        now: u64,
        addr: u64,
        data: u32,
        effects: &mut Effects,
    ) -> Option<MessageArrival> {
        match self.place(addr) {
            Some((Place::Page(window, offset), windows)) => {
                let by = Cause::device(now, windows.hart());
                let data = (offset == 0).then_some(data);
                self.operate(by, effects, |o| o.message(window, data))
            }
            // Registers take stores of harts only.
            Some((Place::Register(_), _)) => None,
            None => self.inner.message(now, addr, data, effects),
        }
    }

    fn lines(&mut self, hart: usize, now: u64) -> Lines {
        let mut lines = self.inner.lines(hart, now);
        self.state.harts[hart].drive(&mut lines);
        lines
    }

    fn attach_memory(&mut self, memory: Arc<dyn Memory>) {
        self.words.attach(memory);
    }

    fn inspect(&self, now: u64) -> Vec<Row> {
        let mut rows = self.inner.inspect(now);
        self.rows(&mut rows);
        rows
    }

    fn fdt(&self, fdt: &mut FdtWriter, cpu_intc: &[u32]) -> Result<(), vm_fdt::Error> {
        self.inner.fdt(fdt, cpu_intc)?;
        fdt::nodes(fdt, cpu_intc, self.state.h)?;
        match &self.state.windows {
            Some(windows) => windows::node(fdt, windows.size()),
            None => Ok(()),
        }
    }
}

impl Snapshot for Trapless {
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
        Ok(())
    }
}
