//! `trapless workloads`: what workloads there are, and what one does.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use trapless_experiments::Experiment;

use crate::output::{print_json, table};
use crate::project;

/// Lists the workloads, or explains the one called `name`.
pub fn main(name: Option<&str>, as_json: bool) -> Result<ExitCode> {
    let folder = project::find()?.join("experiments");
    let Some(name) = name else {
        let all = Experiment::load_all(&folder)?;
        if as_json {
            print_json(&all.iter().map(describe).collect());
        } else {
            println!("Workloads:");
            table(all.iter().map(|e| (e.name.as_str(), e.title.as_str())));
            println!("\n`trapless workloads NAME` explains one and its parameters.");
        }
        return Ok(ExitCode::SUCCESS);
    };
    let e = Experiment::find(&folder, name)?;
    if as_json {
        print_json(&describe(&e));
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "{name}: {}\n\n{}\n\n{}",
        e.title,
        e.explanation.trim(),
        e.measures.trim()
    );
    println!("\nGuest: {} vCPUs, {}", e.guest.harts, e.guest.memory);
    if !e.parameters.is_empty() {
        println!("\nParameters (--set NAME=VALUE):");
        for (name, p) in &e.parameters {
            println!(
                "  {name:<12} {} ({}; default {})",
                p.explanation,
                p.range(),
                p.default
            );
        }
    }
    if !e.results.is_empty() {
        println!("\nResults:");
        table(
            e.results
                .iter()
                .map(|(n, r)| (n.as_str(), r.explanation.as_str())),
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(e: &Experiment) -> serde_json::Value {
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
