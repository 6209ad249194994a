//! What programs have to know of the machine that runs them.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// A platform. See `platforms/trapless.toml` for one with comments.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// Name in reports.
    pub name: String,
    /// Hart IDs. All harts begin at the entry of the program; the first one leads, and harts that
    /// are not listed wait for ever.
    pub harts: Vec<u64>,
    /// Where programs are linked: at least [`RAM_SIZE`](crate::layout::RAM_SIZE) bytes of main
    /// memory, aligned to 2 MiB.
    pub ram: u64,
    /// A device whose word ends the run, beside `tohost`.
    pub finisher: Option<Finisher>,
    /// An address aligned to 4 KiB at which there is neither memory nor a device.
    pub absent: Option<u64>,
    /// Passes of a loop in which everything that a rule promises "in finite time" has happened;
    /// what must not happen is looked for after as many.
    #[serde(default = "default_settle")]
    pub settle: u64,
    /// Parts of the specification and of others that the harts have.
    #[serde(default)]
    pub has: Has,
    /// Message windows and wired windows.
    pub windows: Option<Windows>,
    /// Wires that programs can drive, each a source of the PLIC.
    #[serde(default)]
    pub wires: Vec<Wire>,
}

const fn default_settle() -> u64 {
    2000
}

/// Parts that harts may lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Has {
    /// The hypervisor extension.
    pub hypervisor: bool,
    /// Sstc.
    pub sstc: bool,
    /// Smstateen.
    pub smstateen: bool,
    /// Zawrs.
    pub zawrs: bool,
    /// PMP confines the controller, not an IOPMP ([`MEM-5`](crate::rules)).
    pub pmp: bool,
    /// Programs begin right after reset, and nothing has run before.
    pub reset: bool,
    /// `a1` is the address of a device tree when a program begins.
    pub device_tree: bool,
}

impl Default for Has {
    fn default() -> Self {
        Self {
            hypervisor: true,
            sstc: true,
            smstateen: false,
            zawrs: false,
            pmp: true,
            reset: false,
            device_tree: false,
        }
    }
}

/// A register whose value ends the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finisher {
    /// Address of 4 bytes.
    pub address: u64,
    /// Value that means success.
    pub pass: u32,
    /// Value that means failure; the number of the check is added in bits 31:16.
    pub fail: u32,
}

/// Where windows are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Windows {
    /// Address of the registers.
    pub control: u64,
    /// Address of the page of window 0.
    pub pages: u64,
    /// The PLIC to which the wires lead.
    pub plic: Option<u64>,
}

/// A wire that a program can drive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// Source of the PLIC.
    pub number: u64,
    /// It is edge-triggered.
    #[serde(default)]
    pub edge: bool,
    /// Stores that make it high: address, bytes (1, 4 or 8), value.
    pub raise: Vec<(u64, u8, u64)>,
    /// Stores that make it low.
    pub lower: Vec<(u64, u8, u64)>,
}

/// Most harts that programs use.
pub const MOST_HARTS: usize = 16;

impl Platform {
    /// Reads a platform from its file.
    ///
    /// # Errors
    /// A sentence, if the file cannot be read or says something impossible.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("cannot read the platform {}: {e}", path.display()))?;
        Self::parse(&text).map_err(|e| format!("platform {}: {e}", path.display()))
    }

    /// Reads a platform from text.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(text: &str) -> Result<Self, String> {
        let platform: Self = toml::from_str(text).map_err(|e| e.to_string())?;
        platform.check()?;
        Ok(platform)
    }

    fn check(&self) -> Result<(), String> {
        if self.harts.is_empty() || self.harts.len() > MOST_HARTS {
            return Err(format!("harts has 1 to {MOST_HARTS} hart IDs"));
        }
        let mut sorted = self.harts.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() != self.harts.len() {
            return Err("harts names a hart twice".into());
        }
        if sorted.iter().any(|&id| id > 0xFFFF) {
            return Err("hart IDs are below 65536 (DISC-2)".into());
        }
        if self.ram % (2 << 20) != 0 {
            return Err("ram is aligned to 2 MiB (0x200000)".into());
        }
        if self.ram >> 56 != 0 {
            return Err("ram is a physical address, of 56 bits at most".into());
        }
        if self.absent.is_some_and(|at| at % 4096 != 0) {
            return Err("absent is aligned to 4 KiB".into());
        }
        if !(1..=100_000_000).contains(&self.settle) {
            return Err("settle is a number of passes from 1 to 100000000".into());
        }
        let stores = self
            .wires
            .iter()
            .flat_map(|w| w.raise.iter().chain(&w.lower));
        for (_, size, _) in stores {
            if ![1, 4, 8].contains(size) {
                return Err(format!("a store of a wire has 1, 4 or 8 bytes, not {size}"));
            }
        }
        if self.wires.iter().any(|w| !(1..1024).contains(&w.number)) {
            return Err("the number of a wire is a source of the PLIC, 1 to 1023".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "name = 'x'\nharts = [0]\nram = 0x80000000\n";

    /// What a platform file says wrongly is answered by a sentence that names it.
    #[test]
    fn mistakes_are_named() {
        assert!(Platform::parse(SMALL).is_ok());
        for (text, subject) in [
            ("name = 'x'\nharts = []\nram = 0", "harts has 1 to"),
            ("name = 'x'\nharts = [1, 1]\nram = 0", "twice"),
            ("name = 'x'\nharts = [65536]\nram = 0", "65536"),
            ("name = 'x'\nharts = [0]\nram = 4096", "2 MiB"),
            ("name = 'x'\nharts = [0]\nram = 0\nabsent = 8", "absent"),
            ("name = 'x'\nharts = [0]\nram = 0\nsettle = 0", "settle"),
            ("name = 'x'\nharts = [0]\nram = 0\nrom = 0", "rom"),
            (
                "name = 'x'\nharts = [0]\nram = 0\n[[wires]]\nnumber = 1\nraise = [[0, 2, 0]]\nlower = []",
                "1, 4 or 8",
            ),
        ] {
            let error = Platform::parse(text).unwrap_err();
            assert!(error.contains(subject), "{text}: {error}");
        }
    }
}
