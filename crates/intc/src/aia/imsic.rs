//! The IMSICs of all harts: their files, the pages for messages, and the interrupt inputs they
//! drive.
//!
//! ```text
//!  0x2400_0000  M M M ...                        one page for each hart
//!  0x2800_0000  S G1 .. Gn -  S G1 .. Gn - ...   a power of two of pages for each hart
//! ```

mod inspect;

use serde::{Deserialize, Serialize};
use trapless_isa::port::{FileAccess, FileId, NoFile};

use super::file::InterruptFile;
use crate::mmio::{NoRegister, Window, check_access};

/// Pages of the machine-level files.
pub const MACHINE_BASE: u64 = 0x2400_0000;
/// Pages of the supervisor-level and guest files.
pub const SUPERVISOR_BASE: u64 = 0x2800_0000;
/// Length of the page of a file (AIA specification, section "Memory region for an interrupt file").
pub const PAGE: u64 = 0x1000;
/// Maximum number of guest files of a hart.
pub const MAX_GUESTS: u8 = 63;

/// `seteipnum_be` in a page; `seteipnum_le` is at 0.
const SETEIPNUM_BE: u64 = 4;

/// The files of one hart and their outputs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Hart {
    machine: InterruptFile,
    /// The supervisor-level file, then the guest files.
    supervisor: Vec<InterruptFile>,
    /// Levels, derived from the files whenever one changes: bit 0 supervisor, others `hgeip`.
    raised: u64,
    machine_raised: bool,
}

/// All IMSICs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Imsics {
    guests: u8,
    harts: Vec<Hart>,
}

/// Destination of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// Hart.
    pub hart: usize,
    /// Which of its files.
    pub file: FileId,
}

impl Imsics {
    /// `harts` IMSICs with `guests` guest files each.
    ///
    /// # Panics
    /// If there are more than [`MAX_GUESTS`].
    #[must_use]
    pub fn new(harts: usize, guests: u8) -> Self {
        assert!(guests <= MAX_GUESTS, "a hart has at most 63 guest files");
        let hart = Hart {
            machine: InterruptFile::default(),
            supervisor: vec![InterruptFile::default(); usize::from(guests) + 1],
            raised: 0,
            machine_raised: false,
        };
        Self {
            guests,
            harts: vec![hart; harts],
        }
    }

    /// Guest files of each hart.
    #[must_use]
    pub fn guests(&self) -> u8 {
        self.guests
    }

    /// Number of harts.
    #[must_use]
    pub fn harts(&self) -> usize {
        self.harts.len()
    }

    /// Bits of a page number that select a file of a hart: `riscv,guest-index-bits`.
    #[must_use]
    pub fn guest_index_bits(&self) -> u32 {
        (u32::from(self.guests) + 1).next_power_of_two().ilog2()
    }

    /// Distance of the supervisor-level files.
    fn stride(&self) -> u64 {
        PAGE << self.guest_index_bits()
    }

    /// All machine-level pages.
    #[must_use]
    pub fn machine_window(&self) -> Window {
        Window::new("imsic-m", MACHINE_BASE, PAGE * self.harts.len() as u64)
    }

    /// All supervisor-level and guest pages.
    #[must_use]
    pub fn supervisor_window(&self) -> Window {
        let len = self.stride() * self.harts.len() as u64;
        Window::new("imsic-s", SUPERVISOR_BASE, len)
    }

    /// Whether the file of a page exists, and its offset in the page. `None` outside all pages.
    #[must_use]
    pub fn find(&self, addr: u64) -> Option<(Option<Destination>, u64)> {
        if let Some(at) = self.machine_window().offset(addr) {
            let destination = Destination {
                hart: (at / PAGE) as usize,
                file: FileId::Machine,
            };
            return Some((Some(destination), at % PAGE));
        }
        let at = self.supervisor_window().offset(addr)?;
        let file = match (at % self.stride() / PAGE) as u8 {
            0 => Some(FileId::Supervisor),
            guest if guest <= self.guests => Some(FileId::Guest(guest)),
            _ => None,
        };
        let hart = (at / self.stride()) as usize;
        let destination = file.map(|file| Destination { hart, file });
        Some((destination, at % PAGE))
    }

    /// Decodes a store to a page: destination and identity. `None` if it has no effect.
    ///
    /// # Errors
    /// [`NoRegister`] unless the access has four bytes and is aligned.
    pub fn message(
        &self,
        addr: u64,
        size: u8,
        value: u32,
    ) -> Result<Option<(Destination, u32)>, NoRegister> {
        check_access(addr, size, 4)?;
        let (destination, offset) = self.find(addr).ok_or(NoRegister)?;
        let identity = match offset {
            0 => value,
            SETEIPNUM_BE => value.swap_bytes(),
            _ => return Ok(None),
        };
        Ok(destination.map(|destination| (destination, identity)))
    }

    /// Loads from a page, which reads as zero.
    ///
    /// # Errors
    /// [`NoRegister`] unless the access has four bytes and is aligned.
    pub fn load(addr: u64, size: u8) -> Result<u64, NoRegister> {
        check_access(addr, size, 4).map(|()| 0)
    }

    /// Delivers a message; returns whether it was pending already.
    pub fn post(&mut self, to: Destination, identity: u32) -> bool {
        let merged = self
            .file(to.hart, to.file)
            .is_some_and(|file| file.post(identity));
        self.update(to.hart, to.file);
        merged
    }

    /// Accesses a register of a file; returns its old value.
    ///
    /// # Errors
    /// [`NoFile`] if there is no such file or register.
    pub fn access(&mut self, access: &FileAccess) -> Result<u64, NoFile> {
        let file = self.file(access.hart, access.file).ok_or(NoFile)?;
        let old = file.access(access.register, access.op)?;
        self.update(access.hart, access.file);
        Ok(old)
    }

    /// Level of the machine-level external interrupt of `hart`.
    #[must_use]
    pub fn machine(&self, hart: usize) -> bool {
        self.harts[hart].machine_raised
    }

    /// Level of the supervisor-level external interrupt of `hart`.
    #[must_use]
    pub fn supervisor(&self, hart: usize) -> bool {
        self.harts[hart].raised & 1 != 0
    }

    /// `hgeip` of `hart`.
    #[must_use]
    pub fn hgeip(&self, hart: usize) -> u64 {
        self.harts[hart].raised & !1
    }

    fn file(&mut self, hart: usize, file: FileId) -> Option<&mut InterruptFile> {
        let hart = self.harts.get_mut(hart)?;
        match file {
            FileId::Machine => Some(&mut hart.machine),
            FileId::Supervisor => hart.supervisor.first_mut(),
            FileId::Guest(0) => None,
            FileId::Guest(guest) => hart.supervisor.get_mut(usize::from(guest)),
        }
    }

    /// Updates the level that a changed file drives.
    fn update(&mut self, hart: usize, file: FileId) {
        let Some(hart) = self.harts.get_mut(hart) else {
            return;
        };
        let index = match file {
            FileId::Machine => {
                hart.machine_raised = hart.machine.raised();
                return;
            }
            FileId::Supervisor => 0,
            FileId::Guest(guest) => usize::from(guest),
        };
        if let Some(file) = hart.supervisor.get(index) {
            hart.raised = hart.raised & !(1 << index) | u64::from(file.raised()) << index;
        }
    }

    /// Whether a saved state could be one of `self`.
    pub(super) fn fits(&self, saved: &Self) -> bool {
        let files = |imsics: &Self| imsics.harts.iter().map(|hart| hart.supervisor.len()).sum();
        let expected: usize = files(self);
        saved.guests == self.guests
            && saved.harts.len() == self.harts.len()
            && files(saved) == expected
            && saved
                .harts
                .iter()
                .all(|hart| hart.supervisor.len() == usize::from(self.guests) + 1)
    }
}
