//! `trapless run`: a workload in a guest, and the ledger of its traps.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::args::RunArgs;
use crate::plan::Plan;
use crate::{files, interrupt, measure, observe, output};

/// Runs it and shows the report.
pub fn main(args: &RunArgs) -> Result<ExitCode> {
    interrupt::catch()?;
    let path = args.ledger.clone().unwrap_or_else(|| {
        PathBuf::from(format!(
            "out/{}-{}.json",
            args.workload.workload, args.machine
        ))
    });
    args.workload.check_settings(&[&args.machine])?;
    measure::check(&args.workload, &args.machine)?;
    observe::check_both(&args.workload.harts_options, &args.observe)?;
    files::check_output(&path)?;
    observe::check(&args.observe)?;
    let plan = Plan::new(&args.workload)?;
    let (ledger, profile) = plan.run(&args.machine, args.trace.as_deref(), &args.observe)?;
    files::write(&path, ledger.to_json())?;
    if args.json {
        print!("{}", ledger.to_json());
    } else {
        print!("{}", trapless_report::report(&[ledger], output::style()));
    }
    if let Some(profile) = profile {
        eprint!("{profile}");
    }
    eprintln!("Ledger: {}", path.display());
    Ok(ExitCode::SUCCESS)
}
