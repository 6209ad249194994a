//! Specifications of runs as data: typed, checked, and in JSON for checkpoints and for other
//! programs.
//!
//! A [`RunSpec`] is one run of a workload, a [`BootSpec`] a machine of `trapless boot`, an
//! [`ExecSpec`] one of `trapless exec`. Options for output and observers are not part of them.

mod boot;
mod exec;
mod kernels;
mod machine;
mod pci;
mod text;
mod workload;

use anyhow::{Context, Result, anyhow};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use boot::{BootSpec, ConsoleDevice, Firmware, Kernel, OnPanic};
pub use exec::ExecSpec;
pub use kernels::{OwnKernels, Whose};
pub(crate) use machine::DEFAULT_RAM;
pub use machine::{Cost, EngineChoice, MachineOptions, RegionTime};
pub use pci::{Card, PciDevice};
pub use workload::{RunId, RunSpec, Vmm, WorkloadSpec};

/// A specification of any kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spec {
    /// A run of a workload.
    Run(RunSpec),
    /// A machine of `boot`.
    Boot(Box<BootSpec>),
    /// A machine of `exec`.
    Exec(ExecSpec),
}

impl Spec {
    /// As JSON; fields that are not set are left out.
    ///
    /// # Errors
    /// If the name of a file is not UTF-8.
    pub fn to_json(&self) -> Result<Value> {
        let json = serde_json::to_value(self);
        Ok(without_nulls(json.context("what is run cannot be saved")?))
    }

    /// From JSON.
    ///
    /// # Errors
    /// If it is not a specification.
    pub fn from_json(json: &Value) -> Result<Self> {
        Self::deserialize(json).context("it does not say what is run")
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| is_set(value));
            let fields = fields.map(|(name, value)| (name, without_nulls(value)));
            Value::Object(fields.collect())
        }
        value => value,
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(values) => !values.is_empty(),
        _ => true,
    }
}

/// A specification from its fields, as other programs give them.
///
/// # Errors
/// If a field is wrong; the message names it.
pub fn parse<S: DeserializeOwned + Serialize + Default>(fields: &Value) -> Result<S> {
    S::deserialize(fields).map_err(|error| {
        let alone = |(name, value): (&String, &Value)| wrong::<S>(name, value);
        let fields = fields.as_object();
        let found = fields.into_iter().flatten().find_map(alone);
        found.unwrap_or_else(|| anyhow!("{error}"))
    })
}

/// The error of a field, if it is wrong.
fn wrong<S: DeserializeOwned + Serialize + Default>(
    name: &str,
    value: &Value,
) -> Option<anyhow::Error> {
    let error = S::deserialize(json!({ name: value })).err()?;
    let unknown = error.to_string().starts_with("unknown field");
    Some(match unknown {
        true => anyhow!(
            "there is no option {name}; there are {}",
            names::<S>().join(", ")
        ),
        false => anyhow!("{name} is {value}: {error}"),
    })
}

/// The error of a field's value, if it is wrong.
pub fn check_value<S: DeserializeOwned>(name: &str, value: &Value) -> Option<String> {
    let error = S::deserialize(json!({ name: value })).err()?;
    Some(error.to_string())
}

/// Names of the fields of a specification, which are the options of other programs.
pub fn names<S: Serialize + Default>() -> Vec<String> {
    match serde_json::to_value(S::default()) {
        Ok(Value::Object(fields)) => fields.into_iter().map(|(name, _)| name).collect(),
        _ => Vec::new(),
    }
}
