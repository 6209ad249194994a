//! What is remembered of tables in memory (section "Caching in-memory data structures"): until a
//! command names it, or its room is needed for something else, the oldest first. Entries that are
//! not valid are never kept.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::tables::context::{DeviceContext, ProcessContext};
use crate::tables::walk::{HIGHEST, Rights};

/// Most entries of each kind.
const DEVICES: usize = 64;
const PROCESSES: usize = 64;
const PAGES: usize = 512;
const MESSAGES: usize = 64;

/// Which entries a command is about.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scope {
    pub address: Option<u64>,
    /// PSCID.
    pub process: Option<u32>,
    /// GSCID; `None`: the host's.
    pub guest: Option<u16>,
}

/// The address space of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Space {
    /// GSCID, if there is a second stage.
    pub guest: Option<u16>,
    /// PSCID, if there is a first stage.
    pub process: Option<u32>,
}

/// The translation of a page of 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Page {
    pub space: Space,
    /// Address of the page for the device.
    pub from: u64,
    /// Guest physical address of the page.
    pub gpa: u64,
    /// Physical address of the page.
    pub to: u64,
    /// Sizes of the leaves that it is from, as levels of page tables.
    pub first_level: u8,
    pub second_level: u8,
    pub rights: Rights,
    /// For accesses without supervisor privilege; else for those with it.
    pub user: bool,
    pub global: bool,
}

/// An entry of an MSI table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MsiEntry {
    pub guest: u16,
    /// Guest physical address of the page.
    pub gpa: u64,
    pub words: [u64; 2],
}

/// All that is remembered.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Cache {
    devices: VecDeque<(u32, DeviceContext)>,
    processes: VecDeque<(u32, u32, ProcessContext)>,
    pages: VecDeque<Page>,
    messages: VecDeque<MsiEntry>,
}

fn keep<T>(entries: &mut VecDeque<T>, most: usize, entry: T) {
    if entries.len() == most {
        entries.pop_front();
    }
    entries.push_back(entry);
}

/// Whether two addresses are in the same leaf of a level.
fn same_leaf(a: u64, b: u64, level: u8) -> bool {
    (a ^ b) >> (12 + 9 * u32::from(level)) == 0
}

impl Cache {
    /// Whether it holds nothing but what it can.
    pub fn is_sound(&self) -> bool {
        self.devices.len() <= DEVICES
            && self
                .devices
                .iter()
                .all(|(_, context)| context.is_configured())
            && self.processes.len() <= PROCESSES
            && self.pages.len() <= PAGES
            && self
                .pages
                .iter()
                .all(|page| page.first_level.max(page.second_level) <= HIGHEST)
            && self.messages.len() <= MESSAGES
    }

    pub fn device(&self, device: u32) -> Option<DeviceContext> {
        let found = self.devices.iter().find(|(of, _)| *of == device);
        found.map(|(_, context)| *context)
    }

    pub fn keep_device(&mut self, device: u32, context: DeviceContext) {
        keep(&mut self.devices, DEVICES, (device, context));
    }

    pub fn process(&self, device: u32, process: u32) -> Option<ProcessContext> {
        let mut entries = self.processes.iter();
        let found = entries.find(|(of, number, _)| (*of, *number) == (device, process));
        found.map(|(.., context)| *context)
    }

    pub fn keep_process(&mut self, device: u32, process: u32, context: ProcessContext) {
        keep(&mut self.processes, PROCESSES, (device, process, context));
    }

    /// The translation of the page at `from`, if that allows accesses of this kind.
    pub fn page(&self, space: Space, from: u64, allows: impl Fn(&Page) -> bool) -> Option<Page> {
        // Global mappings are those of all processes; a Bare first stage has none.
        let of = |page: &&Page| {
            page.space == space
                || page.global && space.process.is_some() && page.space.guest == space.guest
        };
        let mut pages = self.pages.iter().filter(of);
        pages
            .find(|page| page.from == from && allows(page))
            .copied()
    }

    /// Keeps the translation of a page, instead of one that allowed less.
    pub fn keep_page(&mut self, page: Page) {
        let same = |other: &Page| {
            (other.space, other.from, other.user) == (page.space, page.from, page.user)
        };
        self.pages.retain(|other| !same(other));
        keep(&mut self.pages, PAGES, page);
    }

    pub fn message(&self, guest: u16, gpa: u64) -> Option<[u64; 2]> {
        let mut entries = self.messages.iter();
        let found = entries.find(|entry| (entry.guest, entry.gpa) == (guest, gpa));
        found.map(|entry| entry.words)
    }

    pub fn keep_message(&mut self, entry: MsiEntry) {
        keep(&mut self.messages, MESSAGES, entry);
    }

    /// `IODIR.INVAL_DDT`; `None`: all devices.
    pub fn forget_device(&mut self, device: Option<u32>) {
        let named = |of: u32| device.is_none_or(|device| device == of);
        self.devices.retain(|(of, _)| !named(*of));
        self.processes.retain(|(of, ..)| !named(*of));
    }

    /// `IODIR.INVAL_PDT`.
    pub fn forget_process(&mut self, device: u32, process: u32) {
        self.processes
            .retain(|(of, number, _)| (*of, *number) != (device, process));
    }

    /// `IOTINVAL.VMA`.
    pub fn forget_first(&mut self, scope: &Scope) {
        self.pages.retain(|page| {
            let Some(process) = page.space.process else {
                return true;
            };
            let space = page.space.guest == scope.guest;
            let address = scope
                .address
                .is_none_or(|address| same_leaf(address, page.from, page.first_level));
            let named = scope
                .process
                .is_none_or(|named| named == process && !page.global);
            !(space && address && named)
        });
    }

    /// `IOTINVAL.GVMA`.
    pub fn forget_second(&mut self, scope: &Scope) {
        // Without a GSCID the address says nothing.
        let address = scope.address.filter(|_| scope.guest.is_some());
        let space = |guest: u16| scope.guest.is_none_or(|named| named == guest);
        self.pages.retain(|page| {
            let Some(guest) = page.space.guest else {
                return true;
            };
            let named = address.is_none_or(|at| same_leaf(at, page.gpa, page.second_level));
            !(space(guest) && named)
        });
        self.messages.retain(|entry| {
            let named = address.is_none_or(|at| same_leaf(at, entry.gpa, 0));
            !(space(entry.guest) && named)
        });
    }
}
