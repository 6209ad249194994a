//! `trapless compare`: the same workload on several machines, side by side.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::args::CompareArgs;
use crate::observe::ObserveArgs;
use crate::plan::Plan;
use crate::{files, interrupt, measure, output};

/// Runs it on each and shows the comparison.
pub fn main(args: &CompareArgs) -> Result<ExitCode> {
    interrupt::catch()?;
    let machines: Vec<&str> = args.machines.iter().map(String::as_str).collect();
    args.workload.check_settings(&machines)?;
    for machine in &args.machines {
        measure::check(&args.workload, machine)?;
    }
    let plan = Plan::new(&args.workload)?;
    let ledgers = args
        .machines
        .iter()
        .map(|machine| Ok(plan.run(machine, None, &ObserveArgs::default())?.0))
        .collect::<Result<Vec<_>>>()?;
    let base = args.out.clone().unwrap_or_else(|| {
        PathBuf::from(format!(
            "out/{}-{}",
            args.workload.workload,
            args.machines.join("-")
        ))
    });
    let name = |extension: &str| PathBuf::from(format!("{}.{extension}", base.display()));
    let (json, html) = (name("json"), name("html"));
    let mut text = serde_json::to_string_pretty(&ledgers)?;
    text.push('\n');
    files::write(&json, &text)?;
    files::write(&html, trapless_report::html::page(&ledgers))?;
    if args.json {
        print!("{text}");
    } else {
        print!("{}", trapless_report::report(&ledgers, output::style()));
    }
    eprintln!("\nLedgers: {}\nReport:  {}", json.display(), html.display());
    Ok(ExitCode::SUCCESS)
}
