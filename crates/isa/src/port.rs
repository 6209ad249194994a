//! What crosses the boundary of a hart: interrupt lines in, foreign CSR accesses out.
//!
//! The hart and the interrupt architectures both speak these types and otherwise know nothing of
//! each other.

use crate::Mode;

/// Interrupt inputs of one hart, as an interrupt architecture drives them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lines {
    /// Level inputs by `mip` bit position; ORed into what `mip` reads for as long as they are high.
    /// The VS-level bits 2, 6 and 10 are ORed into `hip`/`vsip` in the same way.
    pub level: u64,
    /// Bits of `mip` that an edge sets once; software clears them (ACLINT SSWI sets SSIP).
    pub pulse: u64,
    /// `hgeip`: guest external interrupts 1..=GEILEN (0 without AIA).
    pub hgeip: u64,
    /// Earliest virtual time in cycles at which these inputs change by time alone;
    /// `u64::MAX` if they do not.
    pub deadline: u64,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            level: 0,
            pulse: 0,
            hgeip: 0,
            deadline: u64::MAX,
        }
    }
}

/// Access to a CSR that the hart does not implement itself.
///
/// Privilege encoded in the address bits 9:8 and read-only encoding in bits 11:10 have been checked
/// by the hart; everything finer is the owner's business.
#[derive(Clone, Copy, Debug)]
pub struct CsrAccess {
    /// Hart that executes the access.
    pub hart: usize,
    /// CSR address, 0..=0xfff.
    pub csr: u16,
    /// Mode of the access.
    pub mode: Mode,
    /// `hgatp.VMID` of the hart at the time of the access.
    pub vmid: u16,
    /// The hart's local virtual time in cycles.
    pub now: u64,
    /// What the instruction does.
    pub op: CsrOp,
}

/// What a CSR instruction asks for; `csrrs`/`csrrc` with `x0` are plain reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CsrOp {
    /// Read only.
    Read,
    /// Write only (`csrrw` with `rd = x0`): must not have read side effects.
    Write(u64),
    /// Read the old value, then write this one.
    Swap(u64),
    /// Read the old value, then set these bits.
    Set(u64),
    /// Read the old value, then clear these bits.
    Clear(u64),
}

/// How a CSR access fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CsrFault {
    /// No such CSR, or not accessible: illegal-instruction exception.
    Illegal,
    /// Exists for HS-mode but not from V=1: virtual-instruction exception.
    Virtual,
}
