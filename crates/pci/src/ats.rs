//! Functions that remember translations (PCI Express Base 5.0, chapter 10): the capabilities of ATS
//! and of the Page Request Interface, and the address translation cache.
//!
//! The cache lies in the way of all accesses of a function, which need not know of it. What must be
//! known is what a function does about a page that is not there: it may ask for it, and goes on
//! when it is answered.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use trapless_devices::ats::{
    GroupResponse, Invalidation, PageRequest, ResponseCode, Translation, TranslationAgent,
    TranslationRequest,
};
use trapless_devices::dma::{DmaAccess, DmaFault, Extent};
use trapless_devices::{DeviceId, Dma, StateError, StateReader, StateWriter};

use crate::config::{Config, Extended};

/// Bytes of the header of a capability.
const HEADER: usize = 4;
/// IDs of the capabilities.
const ATS: u16 = 0x0f;
const PRI: u16 = 0x13;
/// Page Aligned Request; 32 Invalidate Requests are taken at once.
const ATS_CAPABILITY: u16 = 1 << 5;
/// Offsets of registers.
const ATS_CONTROL: usize = 6;
const PRI_CONTROL: usize = 4;
const PRI_STATUS: usize = 6;
/// Smallest Translation Unit and Enable.
const ATS_WRITABLE: u16 = ENABLE_ATS | 0x1f;
const ENABLE_ATS: u16 = 1 << 15;
const ENABLE_PRI: u16 = 1 << 0;
/// Reset: nothing is waited for any more. It is carried out while requests are off.
const RESET_PRI: u16 = 1 << 1;
const PRI_CAPACITY: usize = 8;
const PRI_ALLOCATION: usize = 12;
/// Page requests that wait for an answer at once; software may allow as many, or none.
const CAPACITY: u32 = 1;

/// Bits of the status of page requests.
mod status {
    /// Response Failure.
    pub const FAILURE: u16 = 1 << 0;
    /// Unexpected Page Request Group Index.
    pub const UNEXPECTED: u16 = 1 << 1;
    /// Stopped.
    pub const STOPPED: u16 = 1 << 8;
    /// A 1 clears them.
    pub const CLEARED: u16 = FAILURE | UNEXPECTED;
}

/// Most translations that a function remembers.
const ENTRIES: usize = 32;
/// Page Request Group Indices have nine bits.
const GROUPS: u16 = 0x200;

/// Places of the capabilities of a function.
pub(crate) struct Capabilities {
    ats: usize,
    pri: usize,
}

impl Capabilities {
    /// Adds them.
    pub fn new(config: &mut Config) -> Self {
        let [low, high] = ATS_CAPABILITY.to_le_bytes();
        let [writable, enable] = ATS_WRITABLE.to_le_bytes();
        let ats = config.extend(&Extended {
            id: ATS,
            body: vec![low, high, 0, 0],
            writable: vec![0, 0, writable, enable],
        });
        // Behind the header.
        let (mut body, mut writable) = (vec![0; PRI_ALLOCATION], vec![0; PRI_ALLOCATION]);
        body[PRI_CAPACITY - HEADER..][..4].copy_from_slice(&CAPACITY.to_le_bytes());
        writable[PRI_CONTROL - HEADER] = (ENABLE_PRI | RESET_PRI) as u8;
        writable[PRI_STATUS - HEADER] = status::CLEARED as u8;
        writable[PRI_ALLOCATION - HEADER..].fill(0xff);
        let pri = config.extend(&Extended {
            id: PRI,
            body,
            writable,
        });
        Self { ats, pri }
    }

    /// Shows the status in the configuration space for a read.
    pub fn show(&self, config: &mut Config, cache: &Cache) {
        config.set_u16(self.pri + PRI_STATUS, cache.lock().status());
    }

    /// Takes over what software has written. Nothing of the status stays in the configuration
    /// space, so that what is there has been written just now. Answers whether a page request will
    /// not be answered any more.
    pub fn follow(&self, config: &mut Config, cache: &Cache) -> bool {
        let asked = cache.lock().asks;
        self.adopt(config, cache);
        let mut state = cache.lock();
        state.status &= !config.u16(self.pri + PRI_STATUS);
        config.set_u16(self.pri + PRI_STATUS, 0);
        if state.asks && !asked {
            state.status = 0;
        }
        let reset = config.u16(self.pri + PRI_CONTROL) & RESET_PRI != 0;
        config.clear(self.pri + PRI_CONTROL, RESET_PRI);
        reset && !state.asks && state.waits_for.take().is_some()
    }

    /// Takes over what stands in the configuration space, as that of a checkpoint, and does nothing
    /// for what has changed.
    pub fn adopt(&self, config: &Config, cache: &Cache) {
        let mut state = cache.lock();
        state.asks = config.u16(self.pri + PRI_CONTROL) & ENABLE_PRI != 0;
        state.allowed = config.u32(self.pri + PRI_ALLOCATION) >= CAPACITY;
        state.enabled = config.u16(self.ats + ATS_CONTROL) & ENABLE_ATS != 0;
        if !state.enabled {
            state.entries.clear();
        }
    }

    /// No status stands in the configuration space between accesses.
    pub fn hide(&self, config: &mut Config) {
        config.set_u16(self.pri + PRI_STATUS, 0);
    }
}

/// A translation that is remembered.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Address of the range before it is translated.
    from: u64,
    what: Translation,
}

/// What became of the wish for a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The function may not ask, or has nothing to ask for.
    No,
    /// It will be [answered](crate::Function::answered).
    Waits,
    /// It has been answered at once.
    Answered(ResponseCode),
}

#[derive(Default)]
struct State {
    enabled: bool,
    /// It may ask for pages, and for one at once.
    asks: bool,
    allowed: bool,
    /// Failures and unexpected answers.
    status: u16,
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// The page that the last access failed for.
    missing: Option<(u64, DmaAccess)>,
    /// Group of the page request that has not been answered, and of the next one.
    waits_for: Option<u16>,
    next_group: u16,
}

/// The address translation cache of a function.
#[derive(Default)]
pub(crate) struct Cache(Mutex<State>);

impl Cache {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where an access goes, by what is remembered or asked for now.
    pub fn locate(
        &self,
        upstream: &dyn Dma,
        device: DeviceId,
        address: u64,
        len: u64,
        access: DmaAccess,
    ) -> Result<Extent, DmaFault> {
        let untranslated = || upstream.locate(device, address, len, access);
        let Some(agent) = upstream.agent() else {
            return untranslated();
        };
        let mut state = self.lock();
        state.missing = None;
        if !state.enabled {
            return untranslated();
        }
        let entry = state.translation(agent, device, address, access)?;
        let inside = address - entry.from;
        match entry.what.untranslated_only {
            true => untranslated(),
            false => {
                let len = len.min(entry.what.len - inside);
                agent.locate_translated(device, entry.what.address + inside, len, access)
            }
        }
    }

    /// Forgets.
    pub fn invalidate(&self, what: &Invalidation) {
        // The function uses no process IDs.
        if what.process.is_some() {
            return;
        }
        self.lock().entries.retain(|entry| {
            let last = entry.from + (entry.what.len - 1);
            last < what.first || what.last < entry.from
        });
    }

    /// Asks for the page that was missing last.
    pub fn request_page(&self, upstream: &dyn Dma, device: DeviceId) -> Asked {
        let mut state = self.lock();
        let works = state.enabled && state.asks && state.status & status::FAILURE == 0;
        let may_ask = works && state.allowed && state.waits_for.is_none();
        let missing = state.missing.take().filter(|_| may_ask);
        let (Some((address, access)), Some(agent)) = (missing, upstream.agent()) else {
            return Asked::No;
        };
        let group = state.next_group;
        state.next_group = (group + 1) % GROUPS;
        let answer = agent.request_page(&PageRequest {
            device,
            process: None,
            privileged: false,
            execute: false,
            address,
            group,
            last: true,
            write: access == DmaAccess::Write,
            read: access == DmaAccess::Read,
        });
        state.waits_for = Some(group);
        match answer.and_then(|answer| state.answered(&answer)) {
            Some(code) => Asked::Answered(code),
            None => Asked::Waits,
        }
    }

    /// Takes an answer; tells what it says, if it is the one that is waited for.
    pub fn answered(&self, answer: &GroupResponse) -> Option<ResponseCode> {
        self.lock().answered(answer)
    }

    /// As after power-on.
    pub fn reset(&self) {
        *self.lock() = State::default();
    }

    pub fn save(&self, to: &mut StateWriter) {
        let state = self.lock();
        to.number(state.status);
        to.number(state.next_group);
        to.number(state.waits_for.map_or(GROUPS, |group| group));
        to.number(state.entries.len() as u64);
        for entry in &state.entries {
            let what = &entry.what;
            to.number(entry.from);
            to.number(what.address);
            to.number(what.len);
            for right in [what.read, what.write, what.untranslated_only] {
                to.number(right);
            }
        }
    }

    /// Takes over what [`save`](Self::save) wrote. What software has enabled stands in the
    /// configuration space.
    pub fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let mut state = State {
            status: from.number::<u16>()? & status::CLEARED,
            next_group: from.number::<u16>()? % GROUPS,
            waits_for: Some(from.number::<u16>()?).filter(|group| *group < GROUPS),
            ..State::default()
        };
        for _ in 0..from.number::<usize>()? {
            let (start, address) = (from.number::<u64>()?, from.number::<u64>()?);
            let len = from.number::<u64>()?;
            let entry = Entry {
                from: start,
                what: Translation {
                    address,
                    len,
                    read: from.flag()?,
                    write: from.flag()?,
                    execute: false,
                    privileged: false,
                    global: false,
                    untranslated_only: from.flag()?,
                },
            };
            let whole = len.is_power_of_two() && len >= 0x1000;
            let whole = whole && (start | address) & (len - 1) == 0;
            if !whole || state.entries.len() == ENTRIES {
                return Err(StateError("has an impossible translation cache"));
            }
            state.entries.push_back(entry);
        }
        *self.lock() = state;
        Ok(())
    }
}

impl State {
    fn status(&self) -> u16 {
        let stopped = !self.asks && self.waits_for.is_none();
        self.status | if stopped { status::STOPPED } else { 0 }
    }

    /// The translation of an address, if it allows an access.
    fn translation(
        &mut self,
        agent: &dyn TranslationAgent,
        device: DeviceId,
        address: u64,
        access: DmaAccess,
    ) -> Result<Entry, DmaFault> {
        let allows = |what: &Translation| match access {
            DmaAccess::Read => what.read,
            DmaAccess::Write => what.write,
        };
        let holds = |entry: &Entry| address & !(entry.what.len - 1) == entry.from;
        let mut known = self.entries.iter();
        if let Some(entry) = known.find(|entry| holds(entry) && allows(&entry.what)) {
            return Ok(*entry);
        }
        let told = agent.translation(&TranslationRequest {
            device,
            process: None,
            privileged: false,
            execute: false,
            no_write: access == DmaAccess::Read,
            address: address & !0xfff,
        });
        let what = told.map_err(|_| DmaFault)?;
        if !allows(&what) {
            self.missing = Some((address & !0xfff, access));
            return Err(DmaFault);
        }
        let entry = Entry {
            from: address & !(what.len - 1),
            what,
        };
        if self.entries.len() == ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
        Ok(entry)
    }

    fn answered(&mut self, answer: &GroupResponse) -> Option<ResponseCode> {
        // Failures disable the interface, after which answers are ignored.
        if self.status & status::FAILURE != 0 {
            return None;
        }
        if self.waits_for != Some(answer.group) || answer.process.is_some() {
            self.status |= status::UNEXPECTED;
            return None;
        }
        self.waits_for = None;
        if answer.code == ResponseCode::Failure {
            self.status |= status::FAILURE;
        }
        Some(answer.code)
    }
}
