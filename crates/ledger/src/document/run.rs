//! What ran: filled in by the program that runs the machine.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What ran: passed in by the program that runs the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct RunInfo {
    /// Machine preset, for instance `sstc`.
    pub machine: String,
    /// Workload, for instance `timer`.
    pub workload: String,
    /// Work of the workload, by which counts are normalised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// Virtual clock.
    pub clock: Clock,
    /// Every setting of the run, by name.
    #[serde(default)]
    pub configuration: BTreeMap<String, String>,
    /// Prices of the cost model.
    #[serde(default)]
    pub cost_model: Vec<Cost>,
    /// Versions of the packages the images are made of, by package.
    #[serde(default)]
    pub packages: BTreeMap<String, String>,
    /// Revision of this program's source, with `-dirty` if it was changed.
    #[serde(default)]
    pub git_revision: String,
    /// Results that the workload printed.
    #[serde(default)]
    pub measurements: Vec<Measurement>,
    /// Counters of the machine that the ledger does not keep, for instance retired instructions.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
}

/// Amount of work a workload did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct Work {
    /// Unit in the plural, for instance `wake-ups`.
    pub unit: String,
    /// Amount.
    pub count: u64,
}

/// Virtual clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct Clock {
    /// Cycles of virtual time in a second.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub cycles_per_second: u64,
    /// Cycles in a tick of `time`.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub cycles_per_tick: u64,
}

impl Default for Clock {
    /// 1 GHz, `time` at 10 MHz.
    fn default() -> Self {
        Self {
            cycles_per_second: 1_000_000_000,
            cycles_per_tick: 100,
        }
    }
}

/// One price of the cost model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct Cost {
    /// Kind of work.
    pub name: String,
    /// Cycles.
    pub cycles: u64,
    /// Where the figure comes from.
    pub source: String,
}

/// A result the workload printed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct Measurement {
    /// Name.
    pub name: String,
    /// Value.
    pub value: f64,
    /// Unit.
    pub unit: String,
}
