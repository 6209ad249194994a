//! Faults: causes, and records for the fault queue (section "Fault/Event-Queue").

use trapless_devices::DeviceId;
use trapless_devices::ats::{PageRequest, TranslationRequest};

use crate::interrupts::Source;
use crate::request::{Access, AddressType, Request};
use crate::{Iommu, Step};

/// Causes that no access type decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Page fault of the first stage.
    Page,
    /// Page fault of the second stage at a guest physical address; `implicit`: while a table was
    /// read.
    Guest {
        gpa: u64,
        implicit: bool,
    },
    /// Access fault.
    Access,
    AllDisallowed,
    DdtLoad,
    DdtInvalid,
    DdtMisconfigured,
    TypeDisallowed,
    MsiLoad,
    MsiInvalid,
    MsiMisconfigured,
    MrifAccess,
    PdtLoad,
    PdtInvalid,
    PdtMisconfigured,
}

impl Cause {
    /// Its code for an access.
    pub fn code(self, access: Access) -> u16 {
        let by_access = |read, write, execute| match access {
            Access::Read => read,
            Access::Write => write,
            Access::Execute => execute,
        };
        match self {
            Self::Page => by_access(13, 15, 12),
            Self::Guest { .. } => by_access(21, 23, 20),
            Self::Access => by_access(5, 7, 1),
            Self::AllDisallowed => 256,
            Self::DdtLoad => 257,
            Self::DdtInvalid => 258,
            Self::DdtMisconfigured => 259,
            Self::TypeDisallowed => 260,
            Self::MsiLoad => 261,
            Self::MsiInvalid => 262,
            Self::MsiMisconfigured => 263,
            Self::MrifAccess => 264,
            Self::PdtLoad => 265,
            Self::PdtInvalid => 266,
            Self::PdtMisconfigured => 267,
        }
    }

    /// Whether it is reported although `DC.tc.DTF` is set.
    fn despite_dtf(self) -> bool {
        matches!(
            self,
            Self::AllDisallowed | Self::DdtLoad | Self::DdtInvalid | Self::DdtMisconfigured
        )
    }
}

/// "IOMMU MSI write access fault".
const OWN_MESSAGE: u64 = 273;

/// Why an access is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub cause: Cause,
    /// `DC.tc.DTF` of the device, if its context was found.
    pub quiet: bool,
}

impl From<Cause> for Fault {
    fn from(cause: Cause) -> Self {
        Self {
            cause,
            quiet: false,
        }
    }
}

/// Transaction types (`TTYP`).
mod ttyp {
    pub const UNTRANSLATED: u64 = 0;
    pub const TRANSLATED: u64 = 4;
    /// Added to one of the above.
    pub const EXECUTE: u64 = 1;
    pub const READ: u64 = 2;
    pub const WRITE: u64 = 3;
    pub const TRANSLATION: u64 = 8;
    pub const MESSAGE: u64 = 9;
}

/// Message code of a Page Request.
const PAGE_REQUEST: u64 = 4;

/// What is reported of the transaction that was refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inbound {
    device: DeviceId,
    process: Option<u32>,
    privileged: bool,
    /// What decides causes that depend on it.
    access: Access,
    ttyp: u64,
    address: u64,
}

impl From<&Request> for Inbound {
    fn from(request: &Request) -> Self {
        let base = match request.address_type {
            AddressType::Untranslated => ttyp::UNTRANSLATED,
            AddressType::Translated => ttyp::TRANSLATED,
        };
        let kind = match request.access {
            Access::Execute => ttyp::EXECUTE,
            Access::Read => ttyp::READ,
            Access::Write => ttyp::WRITE,
        };
        Self {
            device: request.device,
            process: request.process,
            privileged: request.privileged,
            access: request.access,
            ttyp: base + kind,
            address: request.address,
        }
    }
}

impl From<&TranslationRequest> for Inbound {
    fn from(request: &TranslationRequest) -> Self {
        Self {
            device: request.device,
            process: request.process,
            privileged: request.privileged,
            access: match request.execute {
                true => Access::Execute,
                false => Access::Read,
            },
            ttyp: ttyp::TRANSLATION,
            address: request.address,
        }
    }
}

impl From<&PageRequest> for Inbound {
    fn from(request: &PageRequest) -> Self {
        Self {
            device: request.device,
            process: request.process,
            privileged: request.privileged,
            access: Access::Read,
            ttyp: ttyp::MESSAGE,
            address: request.address,
        }
    }
}

impl Iommu {
    /// Reports that a transaction was refused.
    pub(crate) fn report(&mut self, inbound: &Inbound, fault: Fault) {
        let code = fault.cause.code(inbound.access);
        (self.observe)(Step::Refused {
            device: inbound.device,
            cause: code,
            address: inbound.address,
        });
        if fault.quiet && !fault.cause.despite_dtf() {
            return;
        }
        let code = u64::from(code);
        let process = inbound.process.map_or(0, |process| {
            u64::from(process) << 12 | 1 << 32 | u64::from(inbound.privileged) << 33
        });
        let device = u64::from(inbound.device.0 & 0xff_ffff) << 40;
        let more = match fault.cause {
            // Bit 1 of the address of an implicit access: it was a write.
            Cause::Guest {
                gpa,
                implicit: true,
            } => gpa | 1,
            Cause::Guest { gpa, .. } => gpa & !3,
            _ => 0,
        };
        let first = code | process | inbound.ttyp << 34 | device;
        let value = match inbound.ttyp {
            ttyp::MESSAGE => PAGE_REQUEST,
            _ => inbound.address,
        };
        self.record([first, 0, value, more]);
    }

    /// Reports that nothing took a message of an interrupt of the IOMMU itself, written to
    /// `address`. No device has made that transaction.
    pub(crate) fn report_own(&mut self, address: u64) {
        self.record([OWN_MESSAGE, 0, address, 0]);
    }

    /// Appends a record to the fault queue, if that accepts one.
    fn record(&mut self, record: [u64; 4]) {
        if self.state.faults.accepts() {
            // What is lost is told by the queue itself.
            let _ = self.append(Source::Faults, &record);
        }
    }
}
