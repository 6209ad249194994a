//! `trapless machines`: what machines there are, and what one is.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use trapless_machine::Machines;
use trapless_run::{BootSpec, ExecSpec, MachineOptions, Trapless, machine};

use crate::output::{print, print_json, table};

/// Lists the machines, or explains the one called `name`.
pub fn main(name: Option<&str>, as_json: bool, trapless: &Trapless) -> Result<ExitCode> {
    let all = &trapless.machines()?;
    match (name, as_json) {
        (None, true) => {
            print_json(&json!(all.iter().collect::<BTreeMap<_, _>>()))?;
        }
        (None, false) => list(all)?,
        (Some(name), as_json) => explain(name, as_json, all)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(all: &Machines) -> Result<()> {
    let rows = all.iter().map(|(n, p)| (n, p.summary.as_str()));
    print(&format!(
        "Machines:\n{}\n`trapless machines NAME` shows one with its cost model. Your own go into \
         trapless.toml, here or in\n~/.config/trapless (docs/own-machines.md).\n",
        table(rows)
    ))
}

/// Shows the machine as `boot` makes it.
fn explain(name: &str, as_json: bool, all: &Machines) -> Result<()> {
    let config = machine::config(
        all,
        name,
        BootSpec::HARTS,
        &MachineOptions::default(),
        &BTreeMap::new(),
    )?;
    if as_json {
        return print_json(&json!(config));
    }
    let info = machine::run_info(&config);
    let preset = all.iter().find(|(known, _)| *known == name);
    let summary = preset.map_or("", |(_, preset)| preset.summary.as_str());
    let rows = info.configuration.iter();
    let rows = rows.map(|(k, v)| (k.as_str(), v.as_str()));
    let mut text = format!("{name}: {summary}\n\n{}", table(rows));
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\nThese are the defaults of `boot`. `exec` has {exec} hart, `run` and `compare` as many as \
         the workload says.\n\nCost model `{}`, in cycles of 1 ns:\n",
        config.cost.name,
        exec = ExecSpec::HARTS,
    );
    for cost in &info.cost_model {
        let _ = writeln!(
            text,
            "  {:<12} {:>4}  {}",
            cost.name, cost.cycles, cost.source
        );
    }
    print(&text)
}
