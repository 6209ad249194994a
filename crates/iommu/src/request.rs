//! Accesses of devices, as they arrive at the IOMMU.

use trapless_devices::DeviceId;

/// What a device does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// A fetch of instructions.
    Execute,
}

/// An access of a device: an untranslated request.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Whose.
    pub device: DeviceId,
    /// Process ID (PASID), if it comes with one.
    pub process: Option<u32>,
    /// It wants supervisor privilege; only with a process ID.
    pub privileged: bool,
    /// Address.
    pub address: u64,
    /// What it does.
    pub access: Access,
}
