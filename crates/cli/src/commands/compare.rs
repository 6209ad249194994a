//! `trapless compare`: the same workload on several machines, with several seeds, side by side.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use trapless_run::plan::Consoles;
use trapless_run::series::{Results, Series, seeds};
use trapless_run::{Trapless, files, interrupt, measure, note};

use crate::args::{COMPARE_SEEDS, CompareArgs};
use crate::{output, series};

/// Runs it on each and shows the comparison.
pub fn main(args: &CompareArgs, trapless: &Trapless) -> Result<ExitCode> {
    interrupt::catch()?;
    let machines: Vec<&str> = args.machines.iter().map(String::as_str).collect();
    let workload = args.workload.spec();
    measure::check(&workload, &machines, &trapless.machines()?)?;
    let seeds = seeds(&workload, args.seeds)?;
    let unusual = Some(args.seeds).filter(|seeds| *seeds != COMPARE_SEEDS);
    let base = args.out.clone();
    let usual = || workload.result_name(&args.machines.join("-"), unusual);
    let base = base.unwrap_or_else(usual);
    let name = |extension: &str| PathBuf::from(format!("{}.{extension}", base.display()));
    let (json, html) = (name("json"), name("html"));
    files::check_output(&json)?;
    files::check_output(&html)?;
    let plan = Arc::new(args.workload.plan(trapless, Consoles::Labelled)?);
    let series = Series::new(plan.clone(), &args.machines, &seeds, args.jobs);
    let results = series::run(&plan, &series, &|_, _| Ok(()));
    if interrupt::requested() {
        return interrupted(&results, &name("unfinished.json"));
    }
    if results.ledgers.is_empty() {
        return series::verdict(&plan, results);
    }
    files::write(&json, output::ledgers(&results.ledgers)?)?;
    files::write(&html, trapless_report::page(&results.ledgers))?;
    output::show(&results.ledgers, args.json)?;
    note!("\nLedgers: {}\nReport:  {}", json.display(), html.display());
    series::verdict(&plan, results)
}

/// Keeps the ledgers of runs that had ended, in a file of its own.
fn interrupted(results: &Results, path: &Path) -> Result<ExitCode> {
    if results.ledgers.is_empty() {
        return Err(interrupt::Interrupted::WithoutResult.into());
    }
    files::write(path, output::ledgers(&results.ledgers)?)?;
    let status = series::interrupted(results, path);
    note!("To see them: trapless report {}", path.display());
    Ok(status)
}
