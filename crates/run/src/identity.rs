//! Identities of runs: two runs with the same identity write the same ledger. Sweeps store results
//! by it.

use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};

use crate::machine;
use crate::plan::Plan;
use crate::spec::RunId;

/// Everything that determines the result of a run.
#[derive(Serialize)]
pub struct Identity {
    /// This program, with its version.
    program: String,
    /// Revision of its source, with `-dirty` if it was changed.
    revision: &'static str,
    /// The images it boots, by content.
    images: Vec<String>,
    /// The command line of its host's kernel, which has all parameters of the workload.
    command_line: String,
    /// The machine: its settings, and the prices of its cost model.
    machine: Value,
}

impl Identity {
    /// The identity of `run`, whose images exist.
    ///
    /// # Errors
    /// If there is no such machine.
    pub fn of(plan: &Plan, run: &RunId) -> Result<Self> {
        let config = plan.config(run)?;
        let info = machine::run_info(&config);
        let prices = info.cost_model.iter();
        let prices: serde_json::Map<String, Value> = prices
            .map(|cost| (cost.name.clone(), cost.cycles.into()))
            .collect();
        Ok(Self {
            program: format!("trapless {}", env!("CARGO_PKG_VERSION")),
            revision: env!("TRAPLESS_REVISION"),
            images: plan.images.clone(),
            command_line: plan.command_line(run.seed),
            machine: json!({
                "name": info.machine,
                "clock_hz": info.clock.cycles_per_second,
                "interrupts": config.interrupts,
                "configuration": info.configuration,
                "prices": prices,
            }),
        })
    }
}
