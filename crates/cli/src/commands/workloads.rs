//! `trapless workloads`: what workloads there are, and what one does.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use trapless_experiments::Experiment;

use crate::library::Trapless;
use crate::output::{print, print_json, table};

/// Lists the workloads, or explains the one called `name`.
pub fn main(name: Option<&str>, as_json: bool, trapless: &Trapless) -> Result<ExitCode> {
    let folder = trapless.project().experiments()?;
    match (name, as_json) {
        (None, as_json) => list(&Experiment::load_all(&folder)?, as_json)?,
        (Some(name), true) => print_json(&describe(&Experiment::find(&folder, name)?))?,
        (Some(name), false) => explain(&Experiment::find(&folder, name)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(all: &[Experiment], as_json: bool) -> Result<()> {
    if as_json {
        return print_json(&all.iter().map(describe).collect());
    }
    let rows = all.iter().map(|e| (e.name.as_str(), e.title.as_str()));
    print(&format!(
        "Workloads:\n{}\n`trapless workloads NAME` explains one and its parameters.\n",
        table(rows)
    ))
}

fn explain(e: &Experiment) -> Result<()> {
    let mut text = format!(
        "{}: {}\n\n{}\n\n{}\n\nGuest: {} vCPUs, {}\n",
        e.name,
        e.title,
        e.explanation.trim(),
        e.measures.trim(),
        e.guest.harts,
        e.guest.memory
    );
    // Writing to a string cannot fail.
    if !e.parameters.is_empty() {
        text.push_str("\nParameters (--set NAME=VALUE):\n");
        for (name, p) in &e.parameters {
            let (range, default) = (p.range(), &p.default);
            let about = &p.explanation;
            let _ = writeln!(text, "  {name:<12} {about} ({range}; default {default})");
        }
    }
    if !e.results.is_empty() {
        let rows = e.results.iter();
        let rows = rows.map(|(n, r)| (n.as_str(), r.explanation.as_str()));
        let _ = write!(text, "\nResults:\n{}", table(rows));
    }
    print(&text)
}

/// All about a workload, as JSON.
pub fn describe(e: &Experiment) -> serde_json::Value {
    let parameters: serde_json::Map<_, _> = e
        .parameters
        .iter()
        .map(|(name, p)| {
            let value = json!({ "default": p.default, "minimum": p.minimum,
                "maximum": p.maximum, "choices": p.choices, "explanation": p.explanation });
            (name.clone(), value)
        })
        .collect();
    json!({ "name": e.name, "title": e.title, "explanation": e.explanation.trim(),
        "measures": e.measures.trim(), "guest_harts": e.guest.harts,
        "guest_memory": e.guest.memory, "parameters": parameters })
}
