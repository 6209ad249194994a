//! The programs, in files by chapter of the specification.

mod access;
mod bits;
mod csrs;
mod delivery;
mod discovery;
mod external;
mod interaction;
mod memory;
mod notifications;
mod ordering;
mod slots;
mod windows;

use std::fmt;

use crate::platform::Platform;
use crate::script::{Built, Script};

/// A program.
pub struct Program {
    /// Its name, also of its file.
    pub name: &'static str,
    /// Rules of the specification that it tests.
    pub rules: &'static [&'static str],
    /// Number of harts that it uses.
    pub harts: usize,
    /// What the platform must have.
    pub needs: &'static [Need],
    write: fn(&mut Script<'_>),
}

/// Something that a platform may lack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// The hypervisor extension.
    Hypervisor,
    /// Harts without the hypervisor extension.
    NoHypervisor,
    /// Sstc.
    Sstc,
    /// Smstateen.
    Smstateen,
    /// Zawrs.
    Zawrs,
    /// An address without memory.
    Absent,
    /// PMP confines the controller.
    Pmp,
    /// Programs begin right after reset.
    Reset,
    /// `a1` is the address of a device tree.
    DeviceTree,
    /// Message windows.
    Windows,
    /// Wired windows, and a level-triggered wire.
    LevelWire,
    /// Wired windows, and an edge-triggered wire.
    EdgeWire,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hypervisor => "the hypervisor extension",
            Self::NoHypervisor => "harts without the hypervisor extension",
            Self::Sstc => "Sstc",
            Self::Smstateen => "Smstateen",
            Self::Zawrs => "Zawrs",
            Self::Absent => "an address without memory (absent)",
            Self::Pmp => "PMP that confines the controller",
            Self::Reset => "a start right after reset",
            Self::DeviceTree => "a device tree in a1",
            Self::Windows => "message windows",
            Self::LevelWire => "a level-triggered wire",
            Self::EdgeWire => "an edge-triggered wire",
        })
    }
}

impl Need {
    fn met_by(self, platform: &Platform) -> bool {
        let has = &platform.has;
        let wire = |edge| {
            let windows = platform.windows.is_some_and(|w| w.plic.is_some());
            windows && platform.wires.iter().any(|wire| wire.edge == edge)
        };
        match self {
            Self::Hypervisor => has.hypervisor,
            Self::NoHypervisor => !has.hypervisor,
            Self::Sstc => has.sstc,
            Self::Smstateen => has.smstateen,
            Self::Zawrs => has.zawrs,
            Self::Absent => platform.absent.is_some(),
            Self::Pmp => has.pmp,
            Self::Reset => has.reset,
            Self::DeviceTree => has.device_tree,
            Self::Windows => platform.windows.is_some(),
            Self::LevelWire => wire(false),
            Self::EdgeWire => wire(true),
        }
    }
}

impl Program {
    /// One that needs the hypervisor extension.
    const fn new(
        name: &'static str,
        rules: &'static [&'static str],
        write: fn(&mut Script<'_>),
    ) -> Self {
        Self {
            name,
            rules,
            harts: 1,
            needs: &[Need::Hypervisor],
            write,
        }
    }

    const fn harts(self, harts: usize) -> Self {
        Self { harts, ..self }
    }

    /// It needs this instead.
    const fn needs(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }

    /// Why it cannot be run on a platform; `None` if it can.
    pub fn missing(&self, platform: &Platform) -> Option<String> {
        if platform.harts.len() < self.harts {
            return Some(format!("needs {} harts", self.harts));
        }
        let need = self.needs.iter().find(|need| !need.met_by(platform))?;
        Some(format!("needs {need}"))
    }

    /// The program for a platform that has what it needs.
    pub fn build(&self, platform: &Platform) -> Built {
        Script::build(platform, self.harts, self.write)
    }
}

/// Programs by chapter of the specification.
pub const CHAPTERS: &[(&str, &[Program])] = &[
    ("discovery", discovery::PROGRAMS),
    ("csrs", csrs::PROGRAMS),
    ("access", access::PROGRAMS),
    ("bits", bits::PROGRAMS),
    ("memory", memory::PROGRAMS),
    ("slots", slots::PROGRAMS),
    ("external", external::PROGRAMS),
    ("delivery", delivery::PROGRAMS),
    ("notifications", notifications::PROGRAMS),
    ("ordering", ordering::PROGRAMS),
    ("messages", windows::MESSAGES),
    ("wires", windows::WIRES),
    ("interaction", interaction::PROGRAMS),
];

/// All programs.
pub fn all() -> impl Iterator<Item = &'static Program> {
    CHAPTERS.iter().flat_map(|(_, programs)| *programs)
}

/// The program of a name.
pub fn find(name: &str) -> Option<&'static Program> {
    all().find(|program| program.name == name)
}

/// What all chapters use.
mod prelude {
    pub(super) use trapless_isa::Mode;
    pub(super) use trapless_isa::csr::{self as std_csr, hstatus, status};
    pub(super) use trapless_isa::xtrapless::{
        csr, domain, file, hgrant, hifmap, hnotify, hnqbase, htlcfg, hvtablebase, kind, limits, op,
        sgenipi, state, vhart,
    };

    pub(super) use super::{Need, Program};
    pub(super) use crate::script::world::{
        EDGE, LEVEL, RESAMPLE, SOURCES, Source, TABLE_SIZE, VHARTS, bit, command, config, ctl,
        grant, notification, slot,
    };
    pub(super) use crate::script::{ALL, Amo, Level, Script};

    /// Bits of `hip` and the like.
    pub(super) const VSS: u64 = 1 << 2;
    pub(super) const VST: u64 = 1 << 6;
    pub(super) const VSE: u64 = 1 << 10;
    /// Bits of `vsip` and the like.
    pub(super) const SS: u64 = 1 << 1;
    pub(super) const ST: u64 = 1 << 5;
    pub(super) const SE: u64 = 1 << 9;
    /// Notification interrupt.
    pub(super) const NOTIFY: u64 = 1 << limits::NOTIFY_IRQ;
    /// Causes of exceptions.
    pub(super) const ILLEGAL: u64 = 2;
    pub(super) const VIRTUAL: u64 = 22;
    /// `htlcfg.VERSION` as it reads.
    pub(super) const VERSION: u64 = limits::VERSION << htlcfg::VERSION_SHIFT;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small platform is told what it lacks, and runs the rest.
    #[test]
    fn what_a_platform_lacks_is_named() {
        let platform = "name = 'x'\nharts = [0]\nram = 0x80000000";
        let platform = Platform::parse(platform).unwrap();
        for (name, lacks) in [
            ("lookup-hits", "needs 2 harts"),
            ("message", "needs message windows"),
            ("wire-edge", "needs message windows"),
            ("memory-fails", "needs an address without memory (absent)"),
        ] {
            let program = find(name).unwrap();
            assert_eq!(program.missing(&platform).as_deref(), Some(lacks));
        }
        let can = all().filter(|p| p.missing(&platform).is_none()).count();
        assert!(can > 50, "{can} programs need nothing but one hart");
    }
}
