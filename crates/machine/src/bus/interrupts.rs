//! The interrupt architecture of a machine, and its effects on the harts.
//!
//! ```text
//!  accesses, wires --> architecture --> Effects --> feeds --> harts
//!                           |               \
//!                        watcher             steps, for the ledger
//! ```

use serde::{Deserialize, Serialize};
use trapless_intc::{
    ContextAccess, CsrAccess, CsrFault, DoorbellAccess, DoorbellFault, Effects, Exchanged,
    FileAccess, InterruptArchitecture, Lines, MessageArrival, MmioAccess, NoFile, NoRegister,
    VirtualStep, all_harts,
};
use trapless_isa::cause::interrupt::{VSEI, VSSI};

use crate::bus::dma::Message;
use crate::bus::feed::Feed;
use crate::bus::waits::Waits;

/// VS-level software and external interrupts in `mip`: inputs of the vCPU, not of the hart.
const VS_INPUTS: u64 = 1 << VSSI | 1 << VSEI;

/// A call of the architecture and its result.
pub(crate) enum Call<'a> {
    Load(&'a MmioAccess, Result<u64, NoRegister>),
    /// With the value that is stored.
    Store(&'a MmioAccess, u64, Result<(), NoRegister>),
    Csr(&'a CsrAccess, Result<u64, CsrFault>),
    File(&'a FileAccess, Result<u64, NoFile>),
    Doorbell(&'a DoorbellAccess, Result<u64, DoorbellFault>),
    /// Entry to the handler of a user context, with its pending events.
    EnterContext(&'a ContextAccess, Option<u64>),
    LeaveContext(&'a ContextAccess),
    /// A device drives its wire.
    Source {
        now: u64,
        source: u32,
        level: bool,
    },
    /// A device writes a message, which arrives there or nowhere.
    Message {
        now: u64,
        message: Message,
        arrival: Option<MessageArrival>,
    },
    /// The inputs of a hart, as the architecture drives them from `now` on.
    Lines {
        hart: usize,
        now: u64,
        lines: &'a Lines,
    },
}

/// Callback for each call of the architecture.
pub(crate) type Watcher = Box<dyn FnMut(&Call<'_>) + Send>;

/// State saved by [`Interrupts::save`].
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct SavedInterrupts {
    /// As JSON text: architectures return a JSON value, which `postcard` cannot decode because it
    /// does not describe itself.
    architecture: String,
    changed: u64,
    switched: u64,
    feeds: Vec<Feed>,
}

/// The interrupt architecture, and its effects on the harts.
pub(crate) struct Interrupts {
    architecture: Box<dyn InterruptArchitecture>,
    /// CSRs of HS-mode.
    csrs: Vec<u16>,
    effects: Effects,
    /// Delay of the last access.
    delay: u32,
    /// The inputs of each hart.
    pub feeds: Vec<Feed>,
    /// Until when harts wait, as far as their inputs have not changed since.
    pub waits: Waits,
    watcher: Option<Watcher>,
}

impl Interrupts {
    /// Connects `architecture` to `harts` harts after reset.
    pub fn new(architecture: Box<dyn InterruptArchitecture>, harts: usize) -> Self {
        let effects = Effects {
            changed: all_harts(harts),
            ..Effects::default()
        };
        Self {
            csrs: architecture.describe().csrs,
            architecture,
            effects,
            delay: 0,
            feeds: (0..harts).map(|_| Feed::default()).collect(),
            waits: Waits::new(harts),
            watcher: None,
        }
    }

    pub fn architecture(&self) -> &dyn InterruptArchitecture {
        self.architecture.as_ref()
    }

    /// All state except steps, which must have been taken before.
    pub fn save(&self) -> SavedInterrupts {
        SavedInterrupts {
            architecture: self.architecture.save().to_string(),
            changed: self.effects.changed,
            switched: self.effects.switched,
            feeds: self.feeds.clone(),
        }
    }

    /// Restores the state saved by [`save`](Self::save) for an architecture of the same kind.
    pub fn restore(&mut self, saved: SavedInterrupts) -> Result<(), String> {
        let state = serde_json::from_str(&saved.architecture).map_err(|e| e.to_string())?;
        if saved.feeds.len() != self.feeds.len() {
            return Err("the saved interrupts are for other harts".into());
        }
        self.architecture.restore(&state)?;
        self.effects.changed = saved.changed;
        self.effects.switched = saved.switched;
        self.feeds = saved.feeds;
        self.waits.forget_all();
        Ok(())
    }

    /// Calls `watcher` for each call of the architecture from now on.
    pub fn watch(&mut self, watcher: Watcher) {
        self.watcher = Some(watcher);
    }

    /// Records steps for [`steps`](Self::steps) from now on.
    pub fn record_steps(&mut self) {
        self.effects.steps.record();
    }

    /// Whether there are steps to be taken.
    pub fn has_steps(&self) -> bool {
        !self.effects.steps.is_empty()
    }

    /// Steps since the last call.
    pub fn steps(&mut self) -> impl Iterator<Item = VirtualStep> {
        self.effects.steps.drain()
    }

    fn tell(&mut self, call: &Call<'_>) {
        if let Some(watcher) = &mut self.watcher {
            watcher(call);
        }
    }

    /// Cycles that the last access took beyond its price, unless they have been taken.
    pub fn take_delay(&mut self) -> u32 {
        std::mem::take(&mut self.delay)
    }

    /// Makes an access that a hart waits for.
    fn waited<T>(
        &mut self,
        access: impl FnOnce(&mut dyn InterruptArchitecture, &mut Effects) -> T,
    ) -> T {
        self.effects.delay = 0;
        let result = access(self.architecture.as_mut(), &mut self.effects);
        self.delay = self.effects.delay;
        result
    }

    pub fn load(&mut self, access: &MmioAccess) -> Result<u64, NoRegister> {
        let result = self.waited(|a, effects| a.load(access, effects));
        self.tell(&Call::Load(access, result));
        result
    }

    pub fn store(&mut self, access: &MmioAccess, value: u64) -> Result<(), NoRegister> {
        let result = self.waited(|a, effects| a.store(access, value, effects));
        self.tell(&Call::Store(access, value, result));
        result
    }

    pub fn csr(&mut self, access: &CsrAccess) -> Result<u64, CsrFault> {
        let result = self.waited(|a, effects| a.csr(access, effects));
        self.tell(&Call::Csr(access, result));
        result
    }

    pub fn doorbell(&mut self, access: &DoorbellAccess) -> Result<u64, DoorbellFault> {
        let result = self.waited(|a, effects| a.doorbell(access, effects));
        self.tell(&Call::Doorbell(access, result));
        result
    }

    pub fn enter_context(
        &mut self,
        access: &ContextAccess,
        registers: &mut Exchanged,
    ) -> Option<u64> {
        let architecture = &mut self.architecture;
        let result = architecture.enter_context(access, registers, &mut self.effects);
        self.tell(&Call::EnterContext(access, result));
        result
    }

    pub fn leave_context(&mut self, access: &ContextAccess, registers: &mut Exchanged) -> bool {
        let architecture = &mut self.architecture;
        let left = architecture.leave_context(access, registers, &mut self.effects);
        self.tell(&Call::LeaveContext(access));
        left
    }

    /// Whether a CSR belongs to HS-mode.
    pub fn has_csr(&self, csr: u16) -> bool {
        self.csrs.contains(&csr)
    }

    pub fn interrupt_file(&mut self, access: &FileAccess) -> Result<u64, NoFile> {
        let result = match self.architecture.interrupt_files() {
            Some(files) => files.access(access, &mut self.effects),
            None => Err(NoFile),
        };
        self.tell(&Call::File(access, result));
        result
    }

    pub fn set_source(&mut self, now: u64, source: u32, level: bool) {
        self.tell(&Call::Source { now, source, level });
        self.architecture
            .set_source(now, source, level, &mut self.effects);
    }

    pub fn message(&mut self, now: u64, message: Message) -> Option<MessageArrival> {
        let Message { addr, data, .. } = message;
        let arrival = self
            .architecture
            .message(now, addr, data, &mut self.effects);
        self.tell(&Call::Message {
            now,
            message,
            arrival,
        });
        arrival
    }

    /// The inputs that `hart` may see at `now`.
    pub fn lines(&mut self, hart: usize, now: u64) -> Lines {
        let lines = self.architecture.lines(hart, now);
        self.tell(&Call::Lines {
            hart,
            now,
            lines: &lines,
        });
        self.feeds[hart].lines(lines, now)
    }

    /// Delivers the effects of the calls since the last delivery, made at `time`, to the harts
    /// other than `origin`, which reads its inputs by itself; returns whether there were any.
    pub fn deliver(&mut self, time: u64, origin: Option<usize>) -> bool {
        if self.effects.switched != 0 {
            for hart in harts_of(std::mem::take(&mut self.effects.switched)) {
                if let Some(feed) = self.feeds.get_mut(hart) {
                    feed.forget(VS_INPUTS);
                    self.waits.forget(hart);
                }
            }
        }
        let changed = std::mem::take(&mut self.effects.changed);
        let others = changed & !origin.map_or(0, |origin| 1 << origin);
        if others == 0 {
            return false;
        }
        for hart in harts_of(others) {
            self.change(hart, time);
        }
        true
    }

    /// The inputs of `hart` may have changed at `time`.
    fn change(&mut self, hart: usize, time: u64) {
        let Some(seen_at) = self.feeds.get(hart).map(Feed::seen_at) else {
            return;
        };
        let lines = self.architecture.lines(hart, seen_at);
        self.tell(&Call::Lines {
            hart,
            now: time.max(seen_at),
            lines: &lines,
        });
        self.feeds[hart].change(&lines, time);
        self.waits.forget(hart);
    }
}

/// The harts of a set, lowest first.
fn harts_of(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let hart = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (hart < 64).then_some(hart)
    })
}
