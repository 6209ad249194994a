//! `trapless machines`, `workloads`, `images` and `report`: what there is.

use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;
use trapless_experiments::Experiment;
use trapless_ledger::document::LedgerFile;
use trapless_machine::{MachineConfig, presets};

use crate::args::{ImagesArgs, ReportArgs};
use crate::{observe, setup};

/// Prints names with explanations in two columns.
fn table<'a>(rows: impl IntoIterator<Item = (&'a str, &'a str)>) {
    for (name, text) in rows {
        println!("  {name:<12} {text}");
    }
}

fn print_json(value: &serde_json::Value) {
    println!("{value:#}");
}

/// `trapless machines`.
pub fn machines(name: Option<&str>, as_json: bool) -> Result<ExitCode> {
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
    let info = setup::run_info(&config);
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

/// `trapless workloads`.
pub fn workloads(name: Option<&str>, as_json: bool) -> Result<ExitCode> {
    let folder = setup::project()?.join("experiments");
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

/// `trapless images`.
pub fn images(args: &ImagesArgs) -> Result<ExitCode> {
    let mut images = setup::images()?;
    if args.refresh {
        images.refresh()?;
    }
    let recipes = images.recipes()?;
    if args.names.is_empty() {
        if args.json {
            print_json(&json!(
                recipes
                    .iter()
                    .map(|r| json!({ "name": r.name, "explanation": r.explanation }))
                    .collect::<Vec<_>>()
            ));
        } else {
            println!("Images:");
            table(
                recipes
                    .iter()
                    .map(|r| (r.name.as_str(), r.explanation.trim())),
            );
            println!("  {:<12} the VMM for riscv64", "vmm");
            println!("\n`trapless images NAME...` makes them and prints where they are.");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let all = args.names.iter().any(|n| n == "all");
    let names: Vec<&str> = if all {
        recipes.iter().map(|r| r.name.as_str()).collect()
    } else {
        args.names.iter().map(String::as_str).collect()
    };
    let made = images.prepare_all(&names)?;
    if args.json {
        print_json(&json!(made));
    } else {
        for (name, image) in &made {
            println!(
                "{name:<12} {:>9} KiB  {}",
                image.size / 1024,
                image.path.display()
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `trapless report`.
pub fn report(args: &ReportArgs) -> Result<ExitCode> {
    let mut ledgers = Vec::new();
    for path in &args.ledgers {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the ledger {}", path.display()))?;
        // `compare` writes a list of ledgers, `run` a single one.
        let values: Vec<serde_json::Value> = match serde_json::from_str(&text)
            .with_context(|| format!("{} is not a ledger", path.display()))?
        {
            serde_json::Value::Array(list) => list,
            value => vec![value],
        };
        for value in values {
            let ledger = LedgerFile::from_json(&value.to_string())
                .with_context(|| format!("{} is not a ledger", path.display()))?;
            ledgers.push(ledger);
        }
    }
    if let Some(path) = &args.html {
        setup::write(path, trapless_report::html::page(&ledgers))?;
        eprintln!("Report: {}", path.display());
    }
    if args.phases {
        let text = trapless_report::phases::markdown(&ledgers)
            .or_else(|| trapless_report::moves::markdown(&ledgers))
            .context("none of these workloads has such tables; use ledgers of density or pairs of migrate")?;
        print!("{text}");
    } else {
        print!("{}", trapless_report::report(&ledgers, observe::style()));
    }
    Ok(ExitCode::SUCCESS)
}
