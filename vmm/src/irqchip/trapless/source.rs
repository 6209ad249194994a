//! Sources of Xtrapless in the formats of KVM's source table and `ugenvsei`.

use crate::irqchip::wire::Kind;
use std::ops::RangeInclusive;
use trapless_isa::xtrapless;

/// Sources of a guest: enough for all devices and 32 of the test device.
pub const SOURCES: u16 = 63;

/// Sources for messages of PCI functions, in guests that have a PCI host: all that KVM has besides.
pub const MESSAGES: RangeInclusive<u16> = SOURCES + 1..=xtrapless::limits::MAX_SOURCES as u16;

/// Priority of every source; guests can order them by `vsthreshold`.
const PRIORITY: u64 = 1;

/// Entry of the source table for KVM: priority, kind and vhart.
pub fn entry(kind: Kind, vhart: u16) -> u64 {
    use xtrapless::source as entry;
    let kind = match kind {
        Kind::Edge => 0,
        Kind::Level => entry::ENTRY_LEVEL,
        Kind::Resample => entry::ENTRY_LEVEL | entry::ENTRY_RESAMPLE,
    };
    kind | (PRIORITY << entry::ENTRY_PRIO_SHIFT) | (u64::from(vhart) << entry::ENTRY_VHART_SHIFT)
}

/// Operations on a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Make an edge source pending.
    Edge,
    /// Drive a level line high.
    Assert,
    /// Drive a level line low.
    Deassert,
}

impl Op {
    /// Operand of `ugenvsei`.
    pub fn operand(self, source: u16) -> u64 {
        let op = match self {
            Self::Edge => xtrapless::op::EDGE,
            Self::Assert => xtrapless::op::ASSERT,
            Self::Deassert => xtrapless::op::DEASSERT,
        };
        (op << xtrapless::ugenvsei::OP_SHIFT) | (u64::from(source) << xtrapless::ugenvsei::ID_SHIFT)
    }
}
