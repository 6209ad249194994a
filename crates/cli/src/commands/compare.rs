//! `trapless compare`: the same workload on several machines, side by side.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::args::CompareArgs;
use crate::observe::ObserveArgs;
use crate::plan::Plan;
use crate::project::Project;
use crate::{files, interrupt, measure, output};

/// Runs it on each and shows the comparison.
pub fn main(args: &CompareArgs, project: &Project) -> Result<ExitCode> {
    interrupt::catch()?;
    let machines: Vec<&str> = args.machines.iter().map(String::as_str).collect();
    args.workload.check_settings(&machines)?;
    for machine in &args.machines {
        measure::check(&args.workload, machine)?;
    }
    let base = args.out.clone();
    let base = base.unwrap_or_else(|| args.workload.result_name(&args.machines.join("-")));
    let name = |extension: &str| PathBuf::from(format!("{}.{extension}", base.display()));
    let (json, html) = (name("json"), name("html"));
    files::check_output(&json)?;
    files::check_output(&html)?;
    let plan = Plan::new(&args.workload, project)?;
    let ledgers = args
        .machines
        .iter()
        .map(|machine| Ok(plan.run(machine, None, &ObserveArgs::default())?.0))
        .collect::<Result<Vec<_>>>()?;
    let mut text = serde_json::to_string_pretty(&ledgers)?;
    text.push('\n');
    files::write(&json, &text)?;
    files::write(&html, trapless_report::html::page(&ledgers))?;
    if args.json {
        output::print(&text)?;
    } else {
        output::print(&trapless_report::report(&ledgers, output::style()))?;
    }
    note!("\nLedgers: {}\nReport:  {}", json.display(), html.display());
    Ok(ExitCode::SUCCESS)
}
