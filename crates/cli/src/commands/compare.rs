//! `trapless compare`: the same workload on several machines, with several seeds, side by side.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

use crate::args::{COMPARE_SEEDS, CompareArgs};
use crate::plan::Plan;
use crate::series::{self, Results, Series};
use crate::trapless::Trapless;
use crate::{files, interrupt, measure, output};

/// Runs it on each and shows the comparison.
pub fn main(args: &CompareArgs, trapless: &Trapless) -> Result<ExitCode> {
    interrupt::catch()?;
    let machines: Vec<&str> = args.machines.iter().map(String::as_str).collect();
    args.workload.check_settings(&machines)?;
    for machine in &args.machines {
        measure::check(&args.workload, machine, &trapless.machines()?)?;
    }
    let seeds = series::seeds(&args.workload, args.seeds)?;
    let unusual = Some(args.seeds).filter(|seeds| *seeds != COMPARE_SEEDS);
    let base = args.out.clone();
    let usual = || args.workload.result_name(&args.machines.join("-"), unusual);
    let base = base.unwrap_or_else(usual);
    let name = |extension: &str| PathBuf::from(format!("{}.{extension}", base.display()));
    let (json, html) = (name("json"), name("html"));
    files::check_output(&json)?;
    files::check_output(&html)?;
    let mut plan = Plan::new(&args.workload, trapless)?;
    plan.label_consoles();
    let results = Series::new(&plan, &args.machines, &seeds, args.jobs).run(&|_, _| Ok(()));
    if interrupt::requested() {
        return interrupted(&results, &name("unfinished.json"));
    }
    if results.ledgers.is_empty() {
        return results.verdict();
    }
    files::write(&json, output::ledgers(&results.ledgers)?)?;
    files::write(&html, trapless_report::page(&results.ledgers))?;
    output::show(&results.ledgers, args.json)?;
    note!("\nLedgers: {}\nReport:  {}", json.display(), html.display());
    results.verdict()
}

/// Keeps the ledgers of runs that had ended, apart from what an earlier comparison left.
fn interrupted(results: &Results, path: &Path) -> Result<ExitCode> {
    if results.ledgers.is_empty() {
        return Err(interrupt::Interrupted::WithoutResult.into());
    }
    files::write(path, output::ledgers(&results.ledgers)?)?;
    let status = results.interrupted(path);
    note!("To see them: trapless report {}", path.display());
    Ok(status)
}
