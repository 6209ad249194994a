//! `trapless machines`: what machines there are, and what one is.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use trapless_machine::{MachineConfig, presets};

use crate::machine;
use crate::output::{print_json, table};

/// Lists the machines, or explains the one called `name`.
pub fn main(name: Option<&str>, as_json: bool) -> Result<ExitCode> {
    let all = presets();
    let Some(name) = name else {
        if as_json {
            print_json(&json!(all));
        } else {
            println!("Machines:");
            table(all.iter().map(|(n, p)| (n.as_str(), p.summary.as_str())));
            println!("\n`trapless machines NAME` shows one with its cost model.");
        }
        return Ok(ExitCode::SUCCESS);
    };
    let config = MachineConfig::preset(name)?;
    if as_json {
        print_json(&json!(config));
        return Ok(ExitCode::SUCCESS);
    }
    let info = machine::run_info(&config);
    println!("{name}: {}\n", all[name].summary);
    table(
        info.configuration
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str())),
    );
    println!("\nCost model `{}`, in cycles of 1 ns:", config.cost.name);
    for cost in &info.cost_model {
        println!("  {:<12} {:>4}  {}", cost.name, cost.cycles, cost.source);
    }
    Ok(ExitCode::SUCCESS)
}
