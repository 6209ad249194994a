//! `trapless call`: the interface for other programs. One request comes from standard input as
//! JSON, and its answer goes to standard output.

mod sweeps;

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trapless_machine::preset::Size;
use trapless_run::measure::Checkpoints;
use trapless_run::series::{Series, seeds};
use trapless_run::spec::parse;
use trapless_run::{
    ObserveOptions, Plan, RunSpec, Trapless, WorkloadSpec, files, interrupt, measure,
};

use crate::{output, series};

/// A request. Specifications are checked when they are used: errors are more precise there.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    /// A run, whose ledger goes to a file.
    Run(Run),
    /// Runs of a workload on several machines, whose ledgers go to a file together.
    Compare(Compare),
    /// The options of runs, and which of these values are wrong.
    Options(sweeps::Options),
    /// What determines the results of runs.
    Identify(sweeps::Identify),
    /// The user's files that runs read.
    Sources(sweeps::Sources),
    /// Confidence intervals of medians of so many runs.
    Intervals(sweeps::Intervals),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    /// A [`RunSpec`].
    spec: Value,
    ledger: PathBuf,
    /// File for a trace that Perfetto opens.
    trace: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Compare {
    /// A [`WorkloadSpec`] with the first seed.
    spec: Value,
    machines: Vec<String>,
    seeds: u32,
    /// Runs at a time.
    jobs: Option<usize>,
    ledgers: PathBuf,
}

/// Executes the request.
///
/// # Errors
/// If the request is malformed or fails.
pub fn main(trapless: &Trapless) -> Result<ExitCode> {
    interrupt::catch()?;
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.context("cannot read the request")?;
    match serde_json::from_str(&text).context("the request is wrong")? {
        Request::Run(request) => run(&request, trapless),
        Request::Compare(request) => compare(&request, trapless),
        Request::Options(request) => answer(&request.answer()),
        Request::Identify(request) => answer(&request.answer(trapless)?),
        Request::Sources(request) => answer(&request.answer()?),
        Request::Intervals(request) => answer(&request.answer()),
    }
}

/// Prints an answer, for programs only.
fn answer(answer: &impl Serialize) -> Result<ExitCode> {
    output::print_json_text(&serde_json::to_string(answer)?)?;
    Ok(ExitCode::SUCCESS)
}

/// A prepared workload, whose runs keep checkpoints as those of the command line do.
fn plan(spec: &WorkloadSpec, machines: &[&str], trapless: &Trapless) -> Result<Arc<Plan>> {
    measure::check(spec, machines, &trapless.machines()?)?;
    let mut plan = Plan::new(spec, trapless)?;
    let most = std::env::var("TRAPLESS_CHECKPOINTS").ok();
    let most = most.and_then(|text| text.parse().ok());
    plan.keep_checkpoints(most.map(|size: Size| size.0));
    Ok(Arc::new(plan))
}

fn run(request: &Run, trapless: &Trapless) -> Result<ExitCode> {
    let spec: RunSpec = parse(&request.spec)?;
    files::check_output(&request.ledger)?;
    let plan = plan(&spec.workload, &[&spec.machine], trapless)?;
    let observe = ObserveOptions {
        trace: request.trace.clone(),
        ..ObserveOptions::default()
    };
    let checkpoints = Checkpoints::default();
    let (ledger, _) = plan.run(&spec.id(), &observe, &checkpoints, &mut |_, _| {})?;
    files::write(&request.ledger, ledger.to_json())?;
    Ok(ExitCode::SUCCESS)
}

fn compare(request: &Compare, trapless: &Trapless) -> Result<ExitCode> {
    let spec: WorkloadSpec = parse(&request.spec)?;
    files::check_output(&request.ledgers)?;
    let machines: Vec<&str> = request.machines.iter().map(String::as_str).collect();
    let plan = plan(&spec, &machines, trapless)?;
    let seeds = seeds(&spec, request.seeds.max(1))?;
    let runs = Series::new(plan.clone(), &request.machines, &seeds, request.jobs);
    let results = series::run(&plan, &runs, &|_, _| Ok(()));
    if interrupt::requested() {
        return Err(interrupt::Interrupted::WithoutResult.into());
    }
    files::write(&request.ledgers, output::ledgers(&results.ledgers)?)?;
    series::verdict(&plan, results)
}
