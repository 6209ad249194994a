//! The machines of the project.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use trapless_hart::{CodeLimits, HartConfig, Tiers};
use trapless_isa::Extensions;
use trapless_isa::page::PAGE_SIZE;
use trapless_pci::Windows;

use crate::bus::map;
use crate::config::cost::CostTable;
use crate::config::isa_string;
use crate::config::own::Architecture;
use crate::drive::virtual_time::VirtualTime;
use crate::error::Error;

/// Which interrupt architecture a machine has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interrupts {
    /// ACLINT and PLIC.
    AclintPlic,
    /// The same, extended by Xtrapless (`spec/`).
    Trapless,
    /// IMSICs and an APLIC.
    Aia {
        /// Guest interrupt files of each hart, 0..=63; `None`: no IMSICs, the APLIC interrupts the
        /// harts.
        guests: Option<u8>,
    },
}

/// A named machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Description of one line.
    pub summary: String,
    /// Interrupt architecture.
    pub interrupts: Interrupts,
    /// Extensions of its harts.
    #[serde(default)]
    pub extensions: Extensions,
}

/// All presets by name.
///
/// # Panics
/// Never: the embedded file is tested.
#[must_use]
pub fn presets() -> BTreeMap<String, Preset> {
    parse(include_str!("machines.toml")).expect("embedded file")
}

/// Parses presets in the text of a file like `machines.toml`.
///
/// # Errors
/// If the text is wrong; the message says where.
pub fn parse(text: &str) -> Result<BTreeMap<String, Preset>, String> {
    toml::from_str(text).map_err(|e| e.to_string())
}

/// Default GEILEN, guest interrupt files of a hart: the maximum of QEMU's `virt`.
const DEFAULT_GUESTS: u8 = 7;

/// Default date at power-on: 2025-01-01, in seconds since 1970. Constant, so that runs are
/// reproducible.
pub const EPOCH: u64 = 1_735_689_600;
/// Maximum number of harts.
pub const MAX_HARTS: usize = 64;
/// Maximum size of RAM in bytes.
pub const MAX_RAM: u64 = 64 << 30;
/// Minimum size of RAM in bytes.
pub const MIN_RAM: u64 = 1 << 20;

/// Configuration of a machine, without payload and devices in slots.
#[derive(Clone, Debug, Serialize)]
pub struct MachineConfig {
    /// Name of the preset it started from.
    pub machine: String,
    /// Interrupt architecture.
    pub interrupts: Interrupts,
    /// An architecture from outside the project that replaces it. Checkpoints and ledgers identify
    /// it by the machine's name.
    #[serde(skip)]
    pub architecture: Option<Architecture>,
    /// Number of harts, 1..=[`MAX_HARTS`].
    pub harts: usize,
    /// Bytes of RAM, a multiple of 4096 in [`MIN_RAM`]..=[`MAX_RAM`].
    pub ram: u64,
    /// Each hart. The prices come from `cost`.
    pub hart: HartConfig,
    /// Prices.
    pub cost: CostTable,
    /// Cycles each hart runs before the next hart takes its turn, 1..=1 000 000.
    pub quantum: u64,
    /// Whether supervisor software interrupts have an SSWI.
    pub sswi: bool,
    /// Whether there is an IOMMU before PCI devices.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub iommu: bool,
    /// Whether there are message windows and wired windows (Xtrapless).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub windows: bool,
    /// Seed of everything random the guest can see (`rng-seed`, virtio-rng).
    pub seed: u64,
    /// Wall-clock time at power-on in seconds since 1970, as the RTC shows it.
    pub epoch: u64,
    /// What executes instructions.
    #[serde(skip)]
    pub engine: Engine,
    /// How much translated code is kept. Results are the same as long as code that devices write is
    /// executed after `fence.i` only.
    #[serde(skip)]
    pub code: CodeLimits,
}

/// What executes instructions. Results are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// Compiles what runs often to machine code of the host, if it is one the compiler knows, at
    /// these times.
    Jit(Tiers),
    /// Interprets everything.
    Interp,
}

impl Default for Engine {
    fn default() -> Self {
        Self::Jit(Tiers::default())
    }
}

impl MachineConfig {
    /// The machine of `preset`, with one hart and 1 GiB.
    pub(crate) fn of(name: &str, preset: &Preset) -> Self {
        let cost = CostTable::inorder();
        let hart = HartConfig {
            extensions: preset.extensions,
            cost: cost.model(),
            ..HartConfig::default()
        };
        Self {
            machine: name.into(),
            interrupts: preset.interrupts,
            architecture: None,
            harts: 1,
            ram: 1 << 30,
            hart,
            cost,
            quantum: 1000,
            sswi: false,
            iommu: false,
            windows: false,
            seed: 0,
            epoch: EPOCH,
            engine: Engine::default(),
            code: CodeLimits::default(),
        }
    }

    /// Replaces the cost model.
    pub fn set_cost(&mut self, cost: CostTable) {
        self.hart.cost = cost.model();
        self.cost = cost;
    }

    /// Sets the extensions to those of an ISA string (`rv64gc_h_sstc`), or switches some of them
    /// (`"-svadu,+sstc"`; a name without sign is switched on).
    ///
    /// # Errors
    /// A sentence with the known names.
    pub fn set_isa(&mut self, toggles: &str) -> Result<(), Error> {
        if toggles.to_lowercase().starts_with("rv") {
            self.hart.extensions = isa_string::parse(toggles).map_err(Error::Invalid)?;
            return Ok(());
        }
        let mut extensions = self.hart.extensions;
        for toggle in toggles.split(',').map(str::trim).filter(|t| !t.is_empty()) {
            let (name, on) = match toggle.strip_prefix('-') {
                Some(name) => (name, false),
                None => (toggle.trim_start_matches('+'), true),
            };
            let name = name.to_lowercase();
            let Some(switch) = isa_string::switch(&mut extensions, &name) else {
                let mut known: Vec<_> = extensions.switches().map(|(name, _)| name).collect();
                known.sort_unstable();
                return Err(Error::Invalid(format!(
                    "there is no extension option {name}; use {} with + or -",
                    known.join(", ")
                )));
            };
            *switch = on;
        }
        self.hart.extensions = extensions;
        Ok(())
    }

    /// Changes a setting: `iommu` (`on` or `off`: an IOMMU before PCI devices), or what belongs to
    /// some presets only: `windows` (`on` or `off`: message windows and wired windows of
    /// Xtrapless), `aia.guests` (guest interrupt files of each hart, 0 to 63) and `aia.delivery`
    /// (`msi`, or `direct` for an APLIC without IMSICs).
    ///
    /// # Errors
    /// If there is no such setting or value; the message lists them.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let fail = |text: String| Err(Error::Invalid(text));
        // Settings are numbers as well as words, and these words are numbers.
        let switch = || match value {
            "on" | "1" => Ok(true),
            "off" | "0" => Ok(false),
            _ => Err(Error::Invalid(format!("{name} is on or off, not {value}"))),
        };
        match (name, self.interrupts) {
            ("iommu", _) => {
                self.iommu = switch()?;
                return Ok(());
            }
            ("windows", Interrupts::Trapless) => {
                self.windows = switch()?;
                return Ok(());
            }
            ("windows", _) => {
                return fail(format!(
                    "the machine {} has no message windows; windows belongs to machines with Xtrapless",
                    self.machine
                ));
            }
            _ => {}
        }
        let Interrupts::Aia { guests } = &mut self.interrupts else {
            return fail(format!(
                "the machine {} has no setting {name}: iommu is for all, windows for machines with Xtrapless, aia.guests and aia.delivery for the machine aia",
                self.machine
            ));
        };
        match (name, value, value.parse()) {
            ("aia.guests", _, Ok(number @ 0..=63)) => *guests = Some(number),
            ("aia.guests", ..) => {
                return fail(format!("aia.guests is a number from 0 to 63, not {value}"));
            }
            ("aia.delivery", "msi", _) => *guests = guests.or(Some(DEFAULT_GUESTS)),
            ("aia.delivery", "direct", _) => *guests = None,
            ("aia.delivery", ..) => {
                return fail(format!("aia.delivery is msi or direct, not {value}"));
            }
            _ => {
                return fail(format!(
                    "there is no setting {name}; use iommu, windows, aia.guests or aia.delivery"
                ));
            }
        }
        Ok(())
    }

    /// Checks ranges.
    ///
    /// # Errors
    /// If a value is out of range; the message says what to change.
    pub fn check(&self) -> Result<(), Error> {
        let fail = |text: String| Err(Error::Invalid(text));
        if !(1..=MAX_HARTS).contains(&self.harts) {
            return fail(format!(
                "a machine has 1 to {MAX_HARTS} harts, not {}",
                self.harts
            ));
        }
        if !(MIN_RAM..=MAX_RAM).contains(&self.ram) || self.ram % PAGE_SIZE != 0 {
            return fail(format!(
                "RAM must be a multiple of 4 KiB between 1M and 64G, not {} bytes",
                self.ram
            ));
        }
        if !(1..=1_000_000).contains(&self.quantum) {
            return fail("the quantum must be 1 to 1000000 cycles".into());
        }
        if self.architecture.is_some() && self.hart.extensions.xvei {
            return fail(format!(
                "the machine {} has an interrupt architecture of its own, to which Xvei cannot be \
                 added; leave xvei out",
                self.machine
            ));
        }
        if self.windows && !self.hart.extensions.h {
            return fail("message windows need harts with h; leave windows or -h out".into());
        }
        if self.hart.cycles_per_tick == 0 || VirtualTime::HZ % self.hart.cycles_per_tick != 0 {
            return fail("cycles per tick must divide 1000000000".into());
        }
        Ok(())
    }

    /// Where its PCI host is, if it has one.
    #[must_use]
    pub fn pci_windows(&self) -> Windows {
        Windows::virt(map::RAM + self.ram)
    }

    /// Frequency of `time` in Hz.
    #[must_use]
    pub fn timebase(&self) -> u32 {
        (self.cost.clock_hz / self.hart.cycles_per_tick.max(1)) as u32
    }
}

/// A size in bytes in the form of options: `512M`, `2G`, `65536`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "SizeGiven", into = "u64")]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let shift = match text[digits.len()..].trim_end_matches(['B', 'b', 'i']) {
            "" => 0,
            "k" | "K" => 10,
            "m" | "M" => 20,
            "g" | "G" => 30,
            _ => return Err(format!("{text} is not a size; write it like 512M or 2G")),
        };
        digits
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(1 << shift))
            .map(Self)
            .ok_or_else(|| format!("{text} is not a size; write it like 512M or 2G"))
    }
}

/// A size in a file: a number of bytes, or the form of options.
#[derive(Deserialize)]
#[serde(untagged)]
enum SizeGiven {
    Bytes(u64),
    Text(String),
}

impl TryFrom<SizeGiven> for Size {
    type Error = String;

    fn try_from(given: SizeGiven) -> Result<Self, String> {
        match given {
            SizeGiven::Bytes(bytes) => Ok(Self(bytes)),
            SizeGiven::Text(text) => text.parse(),
        }
    }
}

impl From<Size> for u64 {
    fn from(size: Size) -> Self {
        size.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_differ_where_they_say() {
        let sbi = MachineConfig::preset("sbi").unwrap();
        let sstc = MachineConfig::preset("sstc").unwrap();
        assert!(!sbi.hart.extensions.sstc && sstc.hart.extensions.sstc);
        assert!(sbi.hart.extensions.h && sbi.check().is_ok());
        assert_eq!(sbi.timebase(), 10_000_000);
        let error = MachineConfig::preset("stsc").unwrap_err().to_string();
        assert!(error.contains("sbi, sstc"), "{error}");
    }

    #[test]
    fn isa_toggles_switch_extensions() {
        let mut config = MachineConfig::preset("sstc").unwrap();
        config.set_isa("-sstc, +Svadu,zicond").unwrap();
        assert!(!config.hart.extensions.sstc && config.hart.extensions.svadu);
        config.set_isa("+xuer,+xtraplessvei").unwrap();
        assert!(config.hart.extensions.xuer && config.hart.extensions.xvei);
        assert!(
            config
                .set_isa("+v")
                .unwrap_err()
                .to_string()
                .contains("svinval")
        );
    }

    #[test]
    fn ranges_are_checked() {
        let mut config = MachineConfig::preset("sbi").unwrap();
        config.harts = 65;
        assert!(config.check().unwrap_err().to_string().contains("1 to 64"));
        config.harts = 64;
        config.ram = 65 << 30;
        assert!(config.check().is_err());
    }

    #[test]
    fn sizes_parse() {
        assert_eq!("2G".parse(), Ok(Size(2 << 30)));
        assert_eq!("512MiB".parse(), Ok(Size(512 << 20)));
        assert!("99999999999G".parse::<Size>().is_err());
        assert!("lots".parse::<Size>().is_err());
    }
}
