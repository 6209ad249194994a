//! Options of every machine.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trapless_machine::cost::{CostTable, Price};
use trapless_machine::preset::Size;

use crate::files;

/// Default size of RAM.
pub const DEFAULT_RAM: u64 = 2 << 30;
/// Maximum virtual time between two checks of Ctrl-C while everything is interpreted, in cycles.
const SLOW_SLICE: u64 = 2_000_000;

/// Options of every machine, whichever program it runs.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineOptions {
    /// Size of RAM.
    pub ram: Option<Size>,
    /// ISA string, or extensions to switch.
    pub isa: Option<String>,
    /// Cost model to use instead of the built-in one.
    pub cost: Option<Cost>,
    /// Prices in place of those of the cost model, by name.
    pub prices: BTreeMap<String, Price>,
    /// Raise exceptions for misaligned loads and stores instead of executing them.
    pub trap_misaligned: bool,
    /// Cycles that a hart runs before the next hart takes its turn.
    pub quantum: Option<u64>,
    /// Seed of everything random that the guest can see, and of when a workload starts its guests.
    pub seed: Option<u64>,
    /// What executes instructions; results are the same.
    pub engine: EngineChoice,
    /// Executions of a block that are interpreted before it is compiled.
    pub hot: Option<u32>,
    /// When loops of compiled blocks are compiled together.
    pub region: Option<RegionTime>,
    /// Maximum memory for compiled code.
    pub code_cache: Option<Size>,
}

/// When loops of compiled blocks are compiled together, as regions.
/// In requests: the number, or `"never"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum RegionTime {
    /// After harts have run so many cycles that were seen in the loop; 0: at once.
    After(u64),
    /// Not at all.
    Never,
}

impl FromStr for RegionTime {
    type Err = String;

    /// From a number of cycles, or `never`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "never" => Ok(Self::Never),
            _ => text
                .parse()
                .map(Self::After)
                .map_err(|_| format!("{text} is neither a number of cycles nor never")),
        }
    }
}

impl TryFrom<Value> for RegionTime {
    type Error = String;

    fn try_from(given: Value) -> Result<Self, String> {
        match given {
            Value::String(text) => text.parse(),
            number => number.to_string().parse(),
        }
    }
}

impl From<RegionTime> for Value {
    fn from(time: RegionTime) -> Self {
        match time {
            RegionTime::After(cycles) => cycles.into(),
            RegionTime::Never => "never".into(),
        }
    }
}

impl fmt::Display for RegionTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(cycles) => cycles.fmt(f),
            Self::Never => f.write_str("never"),
        }
    }
}

/// A cost model of the user's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged, try_from = "serde_json::Value")]
pub enum Cost {
    /// This file.
    File(PathBuf),
    /// The built-in one with other prices, in cycles by name.
    Prices(BTreeMap<String, u64>),
}

/// What executes instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineChoice {
    /// Compiles what runs often to machine code (x86-64 and aarch64 hosts; others interpret).
    #[default]
    Jit,
    /// Interprets everything.
    Interp,
    /// Runs two machines side by side, one by each engine, and stops at the first difference.
    Both,
}

impl TryFrom<Value> for Cost {
    type Error = String;

    fn try_from(given: Value) -> Result<Self, String> {
        let prices = match given {
            Value::String(file) => return Ok(Self::File(file.into())),
            Value::Object(prices) => prices,
            other => return Err(format!("{other} is neither a file nor prices by name")),
        };
        let price = |(name, price): (String, Value)| match price.as_u64() {
            Some(cycles) => Ok((name, cycles)),
            None => Err(format!("{name} is {price}; give whole cycles, 0 or more")),
        };
        let prices = prices.into_iter().map(price).collect::<Result<_, _>>()?;
        Ok(Self::Prices(prices))
    }
}

impl Cost {
    /// The prices.
    ///
    /// # Errors
    /// If the file cannot be read, or is invalid.
    pub fn table(&self) -> Result<CostTable> {
        match self {
            Self::File(path) => {
                CostTable::from_text(&files::text(path, "cost model")?).map_err(|reason| {
                    anyhow!("cannot use the cost model {}: {reason}", path.display())
                })
            }
            Self::Prices(prices) => CostTable::with_prices(prices)
                .map_err(|reason| anyhow!("cannot use {}: {reason}", self.name())),
        }
    }

    /// Its name in file names, and in messages about prices.
    fn name(&self) -> String {
        match self {
            Self::File(path) => {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                format!("cost={stem}")
            }
            Self::Prices(prices) => {
                let prices = prices.iter().map(|(name, price)| format!("{name}:{price}"));
                format!("cost={}", prices.collect::<Vec<_>>().join(","))
            }
        }
    }

    /// The file, if it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Prices(_) => None,
        }
    }
}

impl MachineOptions {
    /// Virtual time between two checks of Ctrl-C in cycles: `usual`, or less where machines run
    /// much slower, because two are compared or everything is interpreted.
    pub fn slice(&self, usual: u64) -> u64 {
        match self.engine {
            EngineChoice::Jit => usual,
            EngineChoice::Interp => usual.min(SLOW_SLICE),
            EngineChoice::Both => usual.min(SLOW_SLICE / 4),
        }
    }

    /// Memory in bytes that RAM of the machines of a run may take.
    pub fn memory(&self) -> u64 {
        let ram = self.ram.map_or(DEFAULT_RAM, |size| size.0);
        match self.engine {
            EngineChoice::Both => ram.saturating_mul(2),
            EngineChoice::Jit | EngineChoice::Interp => ram,
        }
    }

    /// Options that change what a run counts, as `NAME=VALUE`, for file names.
    pub fn variant(&self) -> Vec<String> {
        let size = |size: &Size| format!("ram={}M", size.0 >> 20);
        let prices = self.prices.iter();
        let prices = prices.map(|(name, price)| format!("price.{name}={price}"));
        let others = [
            self.ram.as_ref().map(size),
            self.isa.as_ref().map(|isa| format!("isa={isa}")),
            self.cost.as_ref().map(Cost::name),
            self.trap_misaligned.then(|| "trap-misaligned".into()),
            self.quantum.map(|quantum| format!("quantum={quantum}")),
            self.seed.map(|seed| format!("seed={seed}")),
        ];
        others.into_iter().flatten().chain(prices).collect()
    }
}
