//! Page tables of both stages (Privileged Architecture, sections on Sv39 to Sv57 and their x4
//! variants).

use serde::{Deserialize, Serialize};

use crate::Iommu;
use crate::counters::Event;
use crate::fault::Cause;
use crate::registers::PPN;
use crate::request::Access;

/// Bits of a page table entry.
mod pte {
    pub const V: u64 = 1;
    pub const R: u64 = 1 << 1;
    pub const W: u64 = 1 << 2;
    pub const X: u64 = 1 << 3;
    pub const U: u64 = 1 << 4;
    pub const G: u64 = 1 << 5;
    pub const A: u64 = 1 << 6;
    pub const D: u64 = 1 << 7;
    /// Svpbmt, which is not there, and reserved ones.
    pub const RESERVED: u64 = 0x1ff << 54;
    /// Svnapot, which each IOMMU has (section 6.4): the leaf is one of several that are equal.
    pub const N: u64 = 1 << 63;
}

/// A scheme of a stage, by its number of levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scheme {
    levels: u8,
}

impl Scheme {
    /// That of a mode field; `None`: Bare.
    pub fn of(mode: u64) -> Option<Self> {
        let levels = match mode {
            8 => 3,
            9 => 4,
            10 => 5,
            _ => return None,
        };
        Some(Self { levels })
    }

    /// Bits of an address that are translated or page offset.
    fn bits(self) -> u32 {
        12 + 9 * u32::from(self.levels)
    }
}

/// A second stage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guest {
    pub scheme: Scheme,
    pub root: u64,
    /// GSCID.
    pub id: u16,
    /// A and D bits are updated.
    pub update: bool,
}

/// A first stage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct First {
    pub scheme: Scheme,
    /// Where the root table is; for a guest, its guest physical address.
    pub root: u64,
    pub update: bool,
    pub privileged: bool,
    /// Privileged accesses reach pages of users.
    pub sees_users: bool,
}

/// What tables are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// An access, which is a fault if it is not allowed.
    Access(Access),
    /// A translation request, which is told what is allowed.
    Answer {
        /// It asks for the right to write.
        write: bool,
        /// It asks for the right to execute.
        execute: bool,
    },
}

impl Purpose {
    /// Whether something is to be executed.
    fn executes(self) -> bool {
        match self {
            Self::Access(access) => access == Access::Execute,
            Self::Answer { execute, .. } => execute,
        }
    }

    /// Whether rights are as much as this needs or asks for.
    pub fn is_content_with(self, rights: Rights) -> bool {
        match self {
            Self::Access(Access::Read) => rights.read,
            Self::Access(Access::Write) => rights.write,
            Self::Access(Access::Execute) => rights.execute,
            Self::Answer { write, execute } => {
                rights.read && (rights.write || !write) && (rights.execute || !execute)
            }
        }
    }

    /// Whether a leaf with these bits is none for this.
    fn is_refused_by(self, entry: u64) -> bool {
        let needed = match self {
            Self::Access(Access::Read) => pte::R,
            Self::Access(Access::Write) => pte::W,
            Self::Access(Access::Execute) => pte::X,
            Self::Answer { .. } => return false,
        };
        entry & needed == 0
    }

    /// A and D bits that this needs and the entry has not.
    fn missing(self, entry: u64) -> u64 {
        let writes = match self {
            Self::Access(access) => access == Access::Write,
            Self::Answer { write, .. } => write && entry & pte::W != 0,
        };
        let needed = if writes { pte::A | pte::D } else { pte::A };
        needed & !entry
    }

    /// What the second stage is asked for when the first one has said this: of what that refuses,
    /// nothing is done, so that no page is called dirty which cannot be written.
    pub fn after(self, first: Rights) -> Self {
        match self {
            Self::Access(_) => self,
            Self::Answer { write, execute } => Self::Answer {
                write: write && first.write,
                execute,
            },
        }
    }
}

/// What may be done with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rights {
    pub read: bool,
    /// Only if D is set: the first store has to set it.
    pub write: bool,
    pub execute: bool,
}

impl Rights {
    pub const ALL: Self = Self {
        read: true,
        write: true,
        execute: true,
    };
    /// Those of an interrupt file (section "Process to translate addresses of MSIs").
    pub const MESSAGES: Self = Self {
        execute: false,
        ..Self::ALL
    };

    /// What both give.
    pub fn and(self, other: Self) -> Self {
        Self {
            read: self.read && other.read,
            write: self.write && other.write,
            execute: self.execute && other.execute,
        }
    }
}

/// What a leaf says of a page of 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// Address of the page.
    pub page: u64,
    /// Level of page tables that it is from, which tells its size.
    pub level: u8,
    pub rights: Rights,
    pub global: bool,
}

impl Leaf {
    /// What a stage that translates nothing says.
    pub fn same(page: u64) -> Self {
        Self {
            page,
            // The other stage limits it.
            level: HIGHEST,
            rights: Rights::ALL,
            global: false,
        }
    }
}

/// The highest level of page tables, that of the root of Sv57.
pub(crate) const HIGHEST: u8 = 4;

/// Steps of a walk that both stages have.
enum Step {
    /// Address of the next table.
    Table(u64),
    Leaf,
}

/// What an entry is; `None`: a page fault.
fn step(entry: u64, level: u8) -> Option<Step> {
    let rwx = entry & (pte::R | pte::W | pte::X);
    let valid = entry & pte::V != 0 && entry & pte::RESERVED == 0;
    if !valid || rwx & (pte::R | pte::W) == pte::W {
        return None;
    }
    if rwx == 0 {
        let plain = entry & (pte::A | pte::D | pte::U | pte::N) == 0 && level > 0;
        return plain.then_some(Step::Table((entry >> 10 & PPN) << 12));
    }
    if entry & pte::N != 0 {
        // 64 KiB are the only size there is (Privileged Architecture, section on Svnapot).
        let size = level == 0 && entry >> 10 & 0xf == 8;
        return size.then_some(Step::Leaf);
    }
    let aligned = (entry >> 10) & ((1 << (9 * u32::from(level))) - 1) == 0;
    aligned.then_some(Step::Leaf)
}

/// What a leaf entry says of the page of `address`.
fn leaf(entry: u64, level: u8, address: u64) -> Leaf {
    let (bits, frame) = match entry & pte::N {
        0 => (12 + 9 * u32::from(level), entry >> 10 & PPN),
        _ => (16, entry >> 10 & PPN & !0xf),
    };
    let inside = address & ((1 << bits) - 1) & !0xfff;
    let dirty = entry & pte::D != 0;
    Leaf {
        page: frame << 12 | inside,
        level,
        rights: Rights {
            read: entry & pte::R != 0,
            write: entry & pte::W != 0 && dirty,
            execute: entry & pte::X != 0,
        },
        global: entry & pte::G != 0,
    }
}

impl Iommu {
    /// Where a table entry at `address` of an address space is: for a guest through the second
    /// stage, as an implicit access.
    pub(crate) fn implicit(
        &mut self,
        guest: Option<&Guest>,
        address: u64,
        write: bool,
    ) -> Result<u64, Cause> {
        let Some(guest) = guest else {
            return Ok(address);
        };
        let kind = if write { Access::Write } else { Access::Read };
        let found = self.walk_second(guest, address, Purpose::Access(kind));
        let leaf = found.map_err(|cause| match cause {
            // Reported with the type of the access that needs the table.
            Cause::Guest { gpa, .. } => Cause::Guest {
                gpa: gpa | u64::from(write) << 1,
                implicit: true,
            },
            other => other,
        })?;
        Ok(leaf.page | address & 0xfff)
    }

    /// The second stage.
    pub(crate) fn walk_second(
        &mut self,
        guest: &Guest,
        gpa: u64,
        purpose: Purpose,
    ) -> Result<Leaf, Cause> {
        let fault = Cause::Guest {
            gpa,
            implicit: false,
        };
        let bits = guest.scheme.bits() + 2;
        if gpa >> bits != 0 {
            return Err(fault);
        }
        let mut table = guest.root;
        for level in (0..guest.scheme.levels).rev() {
            let shift = 12 + 9 * u32::from(level);
            // The root has four times as many entries.
            let root = level + 1 == guest.scheme.levels;
            let index = gpa >> shift & if root { 0x7ff } else { 0x1ff };
            let place = table + index * 8;
            self.count(Event::Second);
            let entry = self.load_u64(place).ok_or(Cause::Access)?;
            match step(entry, level).ok_or(fault)? {
                Step::Table(next) => table = next,
                Step::Leaf => {
                    if entry & pte::U == 0 || purpose.is_refused_by(entry) {
                        return Err(fault);
                    }
                    let bits = purpose.missing(entry);
                    if bits != 0 && !guest.update {
                        return Err(fault);
                    }
                    let entry = self.update(Event::Second, place, entry, bits)?;
                    return Ok(leaf(entry, level, gpa));
                }
            }
        }
        Err(fault)
    }

    /// The first stage.
    pub(crate) fn walk_first(
        &mut self,
        first: &First,
        guest: Option<&Guest>,
        address: u64,
        purpose: Purpose,
    ) -> Result<Leaf, Cause> {
        let unused = 64 - first.scheme.bits();
        if ((address << unused) as i64 >> unused) as u64 != address {
            return Err(Cause::Page);
        }
        let mut table = first.root;
        // An entry that is global makes all below it so.
        let mut global = 0;
        for level in (0..first.scheme.levels).rev() {
            let shift = 12 + 9 * u32::from(level);
            let at = table + (address >> shift & 0x1ff) * 8;
            let place = self.implicit(guest, at, false)?;
            self.count(Event::First);
            let entry = self.load_u64(place).ok_or(Cause::Access)?;
            match step(entry, level).ok_or(Cause::Page)? {
                Step::Table(next) => {
                    table = next;
                    global |= entry & pte::G;
                }
                Step::Leaf => {
                    let user = entry & pte::U != 0;
                    let reachable = match first.privileged {
                        true => !user || first.sees_users && !purpose.executes(),
                        false => user,
                    };
                    if !reachable || purpose.is_refused_by(entry) {
                        return Err(Cause::Page);
                    }
                    let bits = purpose.missing(entry);
                    let entry = match bits {
                        0 => entry,
                        _ if !first.update => return Err(Cause::Page),
                        _ => {
                            let place = self.implicit(guest, at, true)?;
                            self.update(Event::First, place, entry, bits)?
                        }
                    };
                    let mut found = leaf(entry | global, level, address);
                    // With supervisor privilege nobody executes pages of users.
                    found.rights.execute &= !(first.privileged && user);
                    return Ok(found);
                }
            }
        }
        Err(Cause::Page)
    }

    /// Sets bits of an entry. Nobody else writes memory meanwhile.
    fn update(&mut self, stage: Event, place: u64, entry: u64, bits: u64) -> Result<u64, Cause> {
        if bits != 0 {
            self.count(stage);
            let new = (entry | bits).to_le_bytes();
            self.store(place, &new).ok_or(Cause::Access)?;
        }
        Ok(entry | bits)
    }
}
