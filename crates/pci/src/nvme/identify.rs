//! Data structures of Identify (NVM Express Base 1.4, section 5.15).

use trapless_devices::virtio::block::{Disk, SECTOR};

use super::registers::VERSION;

/// Bytes of each.
pub(super) const LEN: usize = 4096;
/// Most bytes of a transfer as a power of two of pages (MDTS), and in bytes.
const MAX_TRANSFER_PAGES: u8 = 9;
pub(super) const MAX_TRANSFER: usize = 4096 << MAX_TRANSFER_PAGES;
/// Most requests for events that wait.
pub(super) const MAX_WAITING: usize = 4;
/// The only namespace.
pub(super) const NAMESPACE: u32 = 1;
/// Most sectors of a range that is deallocated, which more is left as it is.
pub(super) const MAX_DEALLOCATED: u64 = (16 << 20) / SECTOR;
/// Temperature in kelvins, of which nothing follows.
pub(super) const TEMPERATURE: u16 = 300;
/// Revision of the firmware.
pub(super) const FIRMWARE: &[u8; 8] = b"1.0     ";

/// A structure that is filled.
struct Structure(Vec<u8>);

impl Structure {
    fn new() -> Self {
        Self(vec![0; LEN])
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Text of `len` characters, with spaces at its end.
    fn text(&mut self, at: usize, len: usize, text: &str) {
        let padded = text.bytes().chain(std::iter::repeat(b' '));
        self.put(at, &padded.take(len).collect::<Vec<_>>());
    }
}

/// A UUID of the controller with this number in its machine (RFC 9562, version 8: made up).
fn uuid(number: u8) -> [u8; 16] {
    let mut uuid = *b"trapless\0\0\0\0\0\0\0\0";
    uuid[6] = 0x80;
    uuid[8] = 0x80;
    uuid[15] = number;
    uuid
}

/// Of the controller with this number in its machine, and these vendors.
pub(super) fn controller(number: u8, vendor: u16, subsystem_vendor: u16) -> Vec<u8> {
    let mut data = Structure::new();
    data.put(0, &vendor.to_le_bytes());
    data.put(2, &subsystem_vendor.to_le_bytes());
    data.text(4, 20, &format!("trapless{number}"));
    data.text(24, 40, "Trapless NVMe");
    data.put(64, FIRMWARE);
    data.put(77, &[MAX_TRANSFER_PAGES]);
    data.put(80, &VERSION.to_le_bytes());
    // An I/O controller.
    data.put(111, &[1]);
    // Aborts and waiting requests for events at a time, less 1.
    data.put(258, &[3, MAX_WAITING as u8 - 1]);
    // One slot for firmware, which is read-only; log pages have offsets.
    data.put(260, &[0b11, 0b100]);
    // Temperatures of warnings.
    data.put(266, &(TEMPERATURE + 40).to_le_bytes());
    data.put(268, &(TEMPERATURE + 60).to_le_bytes());
    // Entries have 64 and 16 bytes.
    data.put(512, &[0x66, 0x44]);
    data.put(516, &NAMESPACE.to_le_bytes());
    // Dataset Management, Write Zeroes; a volatile write cache.
    data.put(520, &[0b1100]);
    data.put(525, &[1]);
    let hex: String = uuid(number)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    let name = format!("nqn.2014-08.org.nvmexpress:uuid:{}", parts.join("-"));
    data.put(768, name.as_bytes());
    data.0
}

/// What the NVM command set has of its own (NVM Command Set 1.0, section 4.1.5.4).
pub(super) fn command_set() -> Vec<u8> {
    let mut data = Structure::new();
    // Write Zeroes clears as much as is transferred at most.
    data.put(1, &[MAX_TRANSFER_PAGES]);
    data.put(4, &(MAX_DEALLOCATED as u32).to_le_bytes());
    data.0
}

/// Of the namespace on `disk`.
pub(super) fn namespace(disk: &dyn Disk, number: u8) -> Vec<u8> {
    let mut data = Structure::new();
    for at in [0, 8, 16] {
        data.put(at, &disk.sectors().to_le_bytes());
    }
    // What is deallocated reads as zeroes.
    data.put(33, &[1]);
    data.put(99, &[disk.read_only().into()]);
    data.put(104, &uuid(number));
    // The only format: sectors without metadata.
    data.put(128, &(SECTOR.trailing_zeros() << 16).to_le_bytes());
    data.0
}

/// Identifiers of the namespace: its UUID.
pub(super) fn descriptors(number: u8) -> Vec<u8> {
    let mut data = Structure::new();
    data.put(0, &[3, 16]);
    data.put(4, &uuid(number));
    data.0
}

/// Namespaces with higher numbers than `after`.
pub(super) fn namespaces(after: u32) -> Vec<u8> {
    let mut data = Structure::new();
    if after < NAMESPACE {
        data.put(0, &NAMESPACE.to_le_bytes());
    }
    data.0
}
