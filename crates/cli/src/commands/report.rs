//! `trapless report`: reports from ledgers written earlier.

use std::process::ExitCode;

use anyhow::{Context, Result};
use trapless_run::{files, note, read_ledgers};

use crate::args::ReportArgs;
use crate::output;

/// Reads the ledgers and shows the report.
pub fn main(args: &ReportArgs) -> Result<ExitCode> {
    let mut ledgers = Vec::new();
    for path in &args.ledgers {
        ledgers.extend(read_ledgers(path)?);
    }
    if let Some(path) = &args.html {
        files::write(path, trapless_report::page(&ledgers))?;
        note!("Report: {}", path.display());
    }
    if args.json {
        output::print_json_text(&trapless_report::summary(&ledgers))?;
    } else if args.counters {
        let parts: Vec<_> = ledgers.iter().map(trapless_report::parts).collect();
        output::print_json_text(&serde_json::to_string(&parts)?)?;
    } else if args.phases {
        let text = trapless_report::phases::markdown(&ledgers)
            .or_else(|| trapless_report::moves::markdown(&ledgers))
            .context("none of these workloads has such tables; use ledgers of density or pairs of migrate")?;
        output::print(&text)?;
    } else {
        output::print_report(&ledgers)?;
    }
    Ok(ExitCode::SUCCESS)
}
