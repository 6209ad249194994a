//! Device and process contexts, and how they are found (sections "Device-Directory-Table" and
//! "Process-Directory-Table").

use serde::{Deserialize, Serialize};

use crate::Iommu;
use crate::counters::Event;
use crate::fault::Cause;
use crate::registers::{PPN, address_of, ddtp};
use crate::tables::walk::{Guest, Scheme};

/// Mode of the IOMMU (`ddtp.iommu_mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Devices access nothing.
    Off,
    /// They see physical addresses.
    Bare,
    /// A directory of 1 to 3 levels.
    Directory(u32),
}

impl Mode {
    pub fn of(register: u64) -> Self {
        match register & ddtp::MODE {
            ddtp::OFF => Self::Off,
            ddtp::BARE => Self::Bare,
            mode => Self::Directory(mode as u32 - 1),
        }
    }

    /// Whether a device's ID has more bits than the directory has room for.
    pub fn is_too_wide(self, device: u32) -> bool {
        match self {
            Self::Directory(levels) => {
                let bits = [0, 6, 15, 24][levels.min(3) as usize];
                device >> bits != 0
            }
            Self::Off | Self::Bare => false,
        }
    }
}

/// Fields of `DC.tc`.
mod tc {
    pub const VALID: u64 = 1;
    pub const EN_ATS: u64 = 1 << 1;
    pub const EN_PRI: u64 = 1 << 2;
    pub const T2GPA: u64 = 1 << 3;
    pub const DTF: u64 = 1 << 4;
    pub const PDTV: u64 = 1 << 5;
    pub const PRPR: u64 = 1 << 6;
    pub const GADE: u64 = 1 << 7;
    pub const SADE: u64 = 1 << 8;
    pub const DPE: u64 = 1 << 9;
    /// What there is; bits 31:24 are for custom use.
    pub const KNOWN: u64 = VALID | ATS | DTF | PDTV | GADE | SADE | DPE | 0xff << 24;
    const ATS: u64 = EN_ATS | EN_PRI | T2GPA | PRPR;
}

/// A device context in extended format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeviceContext {
    tc: u64,
    iohgatp: u64,
    ta: u64,
    fsc: u64,
    msiptp: u64,
    msi_mask: u64,
    msi_pattern: u64,
}

/// Reserved bits of `iosatp`, `pdtp` and `msiptp`.
const POINTER_RESERVED: u64 = 0xffff << 44;
/// Bits of `ta` that hold a PSCID.
const PSCID: u64 = 0xf_ffff << 12;
/// Bits of an MSI address mask or pattern: guest physical addresses have 59 bits.
const MSI_BITS: u64 = (1 << 47) - 1;

/// The mode of `iosatp`, `iohgatp`, `pdtp` or `msiptp`.
fn mode(pointer: u64) -> u64 {
    pointer >> 60
}

/// The table that one of them points to.
fn table(pointer: u64) -> u64 {
    (pointer & PPN) << 12
}

fn is_scheme(pointer: u64) -> bool {
    matches!(mode(pointer), 0 | 8..=10)
}

impl DeviceContext {
    /// One out of a directory.
    fn new(words: [u64; 8]) -> Result<Self, Cause> {
        let [
            tc,
            iohgatp,
            ta,
            fsc,
            msiptp,
            msi_mask,
            msi_pattern,
            reserved,
        ] = words;
        if tc & tc::VALID == 0 {
            return Err(Cause::DdtInvalid);
        }
        let context = Self {
            tc,
            iohgatp,
            ta,
            fsc,
            msiptp,
            msi_mask,
            msi_pattern,
        };
        match reserved == 0 && context.is_configured() {
            true => Ok(context),
            false => Err(Cause::DdtMisconfigured),
        }
    }

    /// The checks of section "Device-context configuration checks".
    pub fn is_configured(&self) -> bool {
        let directory = self.tc & tc::PDTV != 0;
        let first = match directory {
            true => mode(self.fsc) <= 3,
            false => is_scheme(self.fsc) && self.tc & tc::DPE == 0,
        };
        let bare = mode(self.iohgatp) == 0;
        let set = |bits: u64| self.tc & bits != 0;
        let ats = (set(tc::EN_ATS) || !set(tc::EN_PRI | tc::T2GPA))
            && (set(tc::EN_PRI) || !set(tc::PRPR))
            && !(bare && set(tc::T2GPA));
        let aligned = bare || self.iohgatp & 3 == 0;
        let messages = mode(self.msiptp) == 0 || mode(self.msiptp) == 1 && !bare;
        self.tc & !tc::KNOWN == 0
            && ats
            && first
            && is_scheme(self.iohgatp)
            && aligned
            && messages
            && self.ta & !PSCID == 0
            && (self.fsc | self.msiptp) & POINTER_RESERVED == 0
            && (self.msi_mask | self.msi_pattern) & !MSI_BITS == 0
    }

    /// `DTF`: faults of its device are not reported.
    pub fn is_quiet(&self) -> bool {
        self.tc & tc::DTF != 0
    }

    /// `EN_ATS`: its device may ask for translations, and use them.
    pub fn allows_ats(&self) -> bool {
        self.tc & tc::EN_ATS != 0
    }

    /// `T2GPA`: what its device is told are guest physical addresses.
    pub fn answers_guest_addresses(&self) -> bool {
        self.tc & tc::T2GPA != 0
    }

    /// `EN_PRI`: its device may ask for pages.
    pub fn allows_page_requests(&self) -> bool {
        self.tc & tc::EN_PRI != 0
    }

    /// `PRPR`: its device wants process IDs in answers to page requests.
    pub fn answers_processes(&self) -> bool {
        self.tc & tc::PRPR != 0
    }

    /// The second stage, if there is one.
    pub fn guest(&self) -> Option<Guest> {
        let scheme = Scheme::of(mode(self.iohgatp))?;
        Some(Guest {
            scheme,
            root: table(self.iohgatp),
            id: (self.iohgatp >> 44) as u16,
            update: self.tc & tc::GADE != 0,
        })
    }

    /// Whether its device may make a transaction with a process ID, if it has one: there is a
    /// directory, and that is large enough.
    pub fn accepts(&self, process: Option<u32>) -> bool {
        let Some(process) = process else {
            return true;
        };
        let bits = match (self.tc & tc::PDTV, mode(self.fsc)) {
            (0, _) => return false,
            (_, 0) => return true,
            (_, levels) => [8, 17, 20][(levels as usize - 1).min(2)],
        };
        process >> bits == 0
    }

    /// Whether hardware updates A and D bits of the first stage.
    pub fn updates_first(&self) -> bool {
        self.tc & tc::SADE != 0
    }

    /// Where the MSI table entry of the interrupt file at `gpa` is, if that is one.
    pub fn message_entry(&self, gpa: u64) -> Option<u64> {
        let there = self.has_files_within(gpa, 0);
        there.then(|| table(self.msiptp) | extract(gpa >> 12, self.msi_mask) << 4)
    }

    /// Whether some page of the leaf of `level` around `gpa` is an interrupt file.
    pub fn has_files_within(&self, gpa: u64, level: u8) -> bool {
        let other = !self.msi_mask & (gpa >> 12 ^ self.msi_pattern);
        mode(self.msiptp) == 1 && other >> (9 * u32::from(level)) == 0
    }
}

/// The bits of `value` that `mask` has, side by side.
fn extract(value: u64, mut mask: u64) -> u64 {
    let (mut result, mut count) = (0, 0);
    while mask != 0 {
        result |= (value >> mask.trailing_zeros() & 1) << count;
        count += 1;
        mask &= mask - 1;
    }
    result
}

/// The first stage of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessContext {
    ta: u64,
    fsc: u64,
}

impl ProcessContext {
    const VALID: u64 = 1;
    const ENS: u64 = 1 << 1;
    const SUM: u64 = 1 << 2;

    fn new([ta, fsc]: [u64; 2]) -> Result<Self, Cause> {
        if ta & Self::VALID == 0 {
            return Err(Cause::PdtInvalid);
        }
        let reserved = ta & !(Self::VALID | Self::ENS | Self::SUM | PSCID);
        match reserved | fsc & POINTER_RESERVED {
            0 if is_scheme(fsc) => Ok(Self { ta, fsc }),
            _ => Err(Cause::PdtMisconfigured),
        }
    }

    /// A process of which nothing is translated by a first stage.
    pub const BARE: Self = Self {
        ta: Self::VALID | Self::ENS,
        fsc: 0,
    };

    /// The scheme and the root of the first stage, if there is one.
    pub fn first(&self) -> Option<(Scheme, u64)> {
        Some((Scheme::of(mode(self.fsc))?, table(self.fsc)))
    }

    /// PSCID.
    pub fn id(&self) -> u32 {
        (self.ta >> 12) as u32 & 0xf_ffff
    }

    /// Whether accesses may have supervisor privilege.
    pub fn allows_privilege(&self) -> bool {
        self.ta & Self::ENS != 0
    }

    /// Whether those reach pages of users.
    pub fn sees_users(&self) -> bool {
        self.ta & Self::SUM != 0
    }
}

impl Iommu {
    /// The context of a device (section "Process to locate the Device-context").
    pub(crate) fn device_context(&mut self, device: u32) -> Result<DeviceContext, Cause> {
        let mode = Mode::of(self.state.ddtp);
        let Mode::Directory(levels) = mode else {
            return Err(Cause::AllDisallowed);
        };
        if mode.is_too_wide(device) {
            return Err(Cause::TypeDisallowed);
        }
        if let Some(known) = self.state.cache.device(device) {
            return Ok(known);
        }
        let index = [device & 0x3f, device >> 6 & 0x1ff, device >> 15 & 0x1ff].map(u64::from);
        let mut place = address_of(self.state.ddtp);
        for level in (1..levels as usize).rev() {
            self.count(Event::Device);
            let entry = self.load_u64(place + index[level] * 8);
            let entry = entry.ok_or(Cause::DdtLoad)?;
            place = next_directory(entry, Cause::DdtInvalid, Cause::DdtMisconfigured)?;
        }
        self.count(Event::Device);
        let words = self.load_words(place + index[0] * 64);
        let context = DeviceContext::new(words.ok_or(Cause::DdtLoad)?)?;
        self.state.cache.keep_device(device, context);
        Ok(context)
    }

    /// The first stage of a transaction of `device`, whose process ID its context
    /// [accepts](DeviceContext::accepts).
    pub(crate) fn process_context(
        &mut self,
        device: u32,
        context: &DeviceContext,
        process: Option<u32>,
    ) -> Result<ProcessContext, Cause> {
        if context.tc & tc::PDTV == 0 {
            return Ok(ProcessContext {
                ta: context.ta | ProcessContext::VALID | ProcessContext::ENS,
                fsc: context.fsc,
            });
        }
        let default = (context.tc & tc::DPE != 0).then_some(0);
        let levels = mode(context.fsc);
        let process = process.or(default);
        self.state.counters.current.process = process;
        let Some(process) = process.filter(|_| levels != 0) else {
            return Ok(ProcessContext::BARE);
        };
        if let Some(known) = self.state.cache.process(device, process) {
            return Ok(known);
        }
        let index = [process & 0xff, process >> 8 & 0x1ff, process >> 17].map(u64::from);
        let mut place = table(context.fsc);
        for level in (1..levels as usize).rev() {
            let at = self.in_guest(context, place + index[level] * 8)?;
            self.count(Event::Process);
            let entry = self.load_u64(at).ok_or(Cause::PdtLoad)?;
            place = next_directory(entry, Cause::PdtInvalid, Cause::PdtMisconfigured)?;
        }
        let at = self.in_guest(context, place + index[0] * 16)?;
        self.count(Event::Process);
        let found = ProcessContext::new(self.load_words(at).ok_or(Cause::PdtLoad)?)?;
        self.state.cache.keep_process(device, process, found);
        Ok(found)
    }

    /// Where an entry of a process directory is.
    fn in_guest(&mut self, context: &DeviceContext, address: u64) -> Result<u64, Cause> {
        let found = self.implicit(context.guest().as_ref(), address, false);
        found.map_err(|cause| match cause {
            Cause::Access => Cause::PdtLoad,
            other => other,
        })
    }
}

/// The directory that an entry which is no leaf points to.
fn next_directory(entry: u64, invalid: Cause, misconfigured: Cause) -> Result<u64, Cause> {
    match (entry & 1, entry & !(PPN << 10 | 1)) {
        (0, _) => Err(invalid),
        (_, 0) => Ok(address_of(entry)),
        _ => Err(misconfigured),
    }
}
