//! Access rights of CSRs: the `modes` of `spec/registers.toml`, and ACC-1, ACC-2.

use trapless_isa::Mode;
use trapless_isa::xtrapless::csr;

/// Effect of an access from one mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// Illegal-instruction exception.
    Illegal,
    /// Virtual-instruction exception.
    Virtual,
    /// Reads and writes.
    ReadWrite,
    /// Writes act, reads return zero.
    WriteOnly,
    /// Works while the slot is valid, else virtual-instruction exception.
    Slot,
    /// A write inside the grant works, else illegal-instruction exception; from U-mode also while
    /// `htlcfg.EN` is 0.
    Grant,
}

use Access::{Grant, Illegal, ReadWrite, Slot, Virtual, WriteOnly};

/// CSRs above user level; without the H extension there is only the first.
const CSRS: [u16; 11] = [
    csr::SGENIPI,
    csr::VSCLAIM,
    csr::VSENABLE,
    csr::VSTHRESHOLD,
    csr::HIFMAP,
    csr::HTLCFG,
    csr::HGENVSI,
    csr::HNOTIFY,
    csr::HGRANT,
    csr::HNQBASE,
    csr::HVTABLEBASE,
];

/// Addresses above user level. `h`: the hart has the H extension.
pub(super) fn of_the_host(h: bool) -> Vec<u16> {
    CSRS[..if h { CSRS.len() } else { 1 }].to_vec()
}

/// Rights of an address in M, HS, U, VS, VU; `None` if it is not a CSR of the extension.
fn rights(addr: u16) -> Option<[Access; 5]> {
    Some(match addr {
        csr::UGENVSEI => [Grant, Grant, Grant, Virtual, Virtual],
        csr::SGENIPI => [WriteOnly, WriteOnly, Illegal, Slot, Virtual],
        csr::VSCLAIM | csr::VSENABLE | csr::VSTHRESHOLD => {
            [Illegal, Illegal, Illegal, Slot, Virtual]
        }
        csr::HGENVSI => [WriteOnly, WriteOnly, Illegal, Virtual, Virtual],
        csr::HIFMAP
        | csr::HTLCFG
        | csr::HNOTIFY
        | csr::HGRANT
        | csr::HNQBASE
        | csr::HVTABLEBASE => [ReadWrite, ReadWrite, Illegal, Virtual, Virtual],
        _ => return None,
    })
}

/// Effect of an access to `addr` from `mode`; `None` if that is not a CSR of the extension. `h`:
/// the hart has the H extension; without it there is only `sgenipi`.
pub(super) fn access(addr: u16, mode: Mode, h: bool) -> Option<Access> {
    let rights = rights(addr)?;
    if !h && addr != csr::SGENIPI {
        return Some(Illegal);
    }
    Some(match mode {
        Mode::M => rights[0],
        Mode::HS => rights[1],
        Mode::U => rights[2],
        Mode::VS => rights[3],
        Mode::VU => rights[4],
    })
}
