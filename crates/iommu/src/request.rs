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

/// What the address of a request is (PCI Express, field AT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressType {
    /// One that the IOMMU translates.
    Untranslated,
    /// One that it has told the device, which remembers translations (ATS).
    Translated,
}

/// An access of a device.
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
    /// What the address is.
    pub address_type: AddressType,
    /// What it does.
    pub access: Access,
}
