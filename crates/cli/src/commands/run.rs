//! `trapless run`: a workload in a guest, and the ledger of its traps.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::args::RunArgs;
use crate::plan::Plan;
use crate::project::Project;
use crate::{files, interrupt, measure, observe, output};

/// Runs it and shows the report.
pub fn main(args: &RunArgs, project: &Project) -> Result<ExitCode> {
    interrupt::catch()?;
    let path = args.ledger.clone().unwrap_or_else(|| {
        let name = args.workload.result_name(&args.machine);
        PathBuf::from(format!("{}.json", name.display()))
    });
    args.workload.check_settings(&[&args.machine])?;
    measure::check(&args.workload, &args.machine)?;
    observe::check_engine(&args.workload.harts_options, &args.observe)?;
    files::check_output(&path)?;
    observe::check(&args.observe, args.trace.as_deref())?;
    let plan = Plan::new(&args.workload, project)?;
    let (ledger, profile) = plan.run(&args.machine, args.trace.as_deref(), &args.observe)?;
    files::write(&path, ledger.to_json())?;
    if args.json {
        output::print(&ledger.to_json())?;
    } else {
        output::print(&trapless_report::report(&[ledger], output::style()))?;
    }
    if let Some(profile) = profile {
        note!("{}", profile.trim_end());
    }
    note!("Ledger: {}", path.display());
    Ok(ExitCode::SUCCESS)
}
