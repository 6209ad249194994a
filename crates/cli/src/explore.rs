//! `trapless explore`: disturbs a workload at every instruction boundary of kernel functions.
//!
//! The machine is deterministic, so a boundary is a place one can come back to. At each one the
//! process forks; the child disturbs the hart there and runs the workload to its end, which must be
//! as good as without. What counts as a good end is the workload's own affair: `sequence` numbers
//! every interrupt.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::{ForkResult, fork};
use trapless_hart::{Hart, Observer};
use trapless_isa::inst::Inst;
use trapless_isa::{Mode, csr};
use trapless_machine::{Limits, Machine, Outcome};

use crate::args::{Disturbance, EngineName, ExploreArgs};
use crate::plan::{Failed, Plan, Ready};
use crate::{interrupt, observe};

/// Virtual time between two looks at the console and Ctrl-C, in cycles.
const SLICE: u64 = 1_000_000;
/// Registers that hold return address and stack pointer.
const RA: usize = 1;
const SP: usize = 2;

/// Kernel functions and the text they are part of, as the host's `/proc/kallsyms` tells.
struct Symbols {
    by_address: BTreeMap<u64, String>,
}

impl Symbols {
    /// Reads lines `ADDRESS TYPE NAME [MODULE]`.
    fn parse(lines: &[String]) -> Self {
        let text = |line: &String| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let kind = words.next()?;
            let name = words.next()?;
            // Mapping symbols of the psABI ($x...) and local labels (.L...) have addresses of functions, too.
            (matches!(kind, "t" | "T") && !name.starts_with(['$', '.']))
                .then(|| (address, name.to_string()))
        };
        Self {
            by_address: lines.iter().filter_map(text).collect(),
        }
    }

    fn find(&self, name: &str) -> Result<u64> {
        let found = self.by_address.iter().find(|(_, n)| *n == name);
        let (&address, _) = found.with_context(|| {
            // Names differ in their beginnings: the last words say what a function does.
            let end = name.rsplit('_').next().unwrap_or(name);
            let close: Vec<&str> = self
                .by_address
                .values()
                .filter(|n| n.ends_with(end))
                .take(8)
                .map(String::as_str)
                .collect();
            if close.is_empty() {
                format!("the host's KVM module has no function {name}")
            } else {
                let close = close.join(", ");
                format!("the host's KVM module has no function {name}; it has {close}")
            }
        })?;
        Ok(address)
    }

    /// Name and offset of an address.
    fn name(&self, address: u64) -> String {
        match self.by_address.range(..=address).next_back() {
            Some((start, name)) => format!("{name}+{:#x}", address - start),
            None => format!("{address:#x}"),
        }
    }

    /// Name of the function that an address is in.
    fn function(&self, address: u64) -> &str {
        let found = self.by_address.range(..=address).next_back();
        found.map_or("", |(_, name)| name)
    }

    /// First and last function of the module.
    fn range(&self) -> (u64, u64) {
        let first = self.by_address.keys().next();
        let last = self.by_address.keys().next_back();
        (first.copied().unwrap_or(0), last.copied().unwrap_or(0))
    }
}

/// A call under way whose instructions are explored.
struct Call {
    hart: usize,
    function: u64,
    ra: u64,
    sp: u64,
}

/// Stops before each instruction of a wanted call.
struct Walker {
    /// Calls still wanted by entry address.
    wanted: BTreeMap<u64, u32>,
    /// Text whose instructions count.
    text: (u64, u64),
    call: Option<Call>,
    /// Calls that have begun.
    calls: u32,
    /// The stop was handled: this hart goes on.
    passing: Option<usize>,
    finished: bool,
}

impl Observer for Walker {
    fn before(&mut self, hart: &Hart, pc: u64, _inst: &Inst) -> bool {
        if hart.mode() != Mode::HS {
            return true;
        }
        if self.passing == Some(hart.id()) {
            self.passing = None;
            return true;
        }
        match &self.call {
            None => match self.wanted.get_mut(&pc) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    self.calls += 1;
                    self.call = Some(Call {
                        hart: hart.id(),
                        function: pc,
                        ra: hart.x(RA),
                        sp: hart.x(SP),
                    });
                    false
                }
                _ => true,
            },
            Some(call) if call.hart == hart.id() => {
                if pc == call.ra && hart.x(SP) == call.sp {
                    self.call = None;
                    self.finished = self.wanted.values().all(|&left| left == 0);
                    return true;
                }
                !(self.text.0..=self.text.1).contains(&pc)
            }
            Some(_) => true,
        }
    }
}

/// Children under way and what became of them.
#[derive(Default)]
struct Children {
    running: BTreeMap<i32, String>,
    done: u64,
    failed: Vec<String>,
}

impl Children {
    /// Waits until fewer than `most` run.
    fn wait_below(&mut self, most: usize) -> Result<()> {
        while self.running.len() >= most.max(1) {
            let status = wait().context("cannot wait for a run")?;
            let Some(pid) = status.pid() else { continue };
            let Some(what) = self.running.remove(&pid.as_raw()) else {
                continue;
            };
            self.done += 1;
            if !matches!(status, WaitStatus::Exited(_, 0)) {
                self.failed.push(what);
            }
        }
        Ok(())
    }
}

/// `trapless explore`.
pub fn main(args: &ExploreArgs) -> Result<ExitCode> {
    interrupt::catch()?;
    if args.workload.harts_options.engine == EngineName::Both {
        bail!("explore watches each instruction of one machine; choose --engine jit or interp");
    }
    let mut plan = Plan::new(&args.workload)?;
    plan.append("trapless.symbols=1");
    let mut observation = observe::Observation::new(&Default::default(), None)?;
    let mut ready = plan.machine(&args.machine, &mut observation)?;
    eprintln!("Booting {} on {}", plan.experiment.name, args.machine);
    let symbols = reach_workload(&plan, &mut ready)?;
    let mut walker = Walker {
        wanted: args
            .functions
            .iter()
            .map(|name| Ok((symbols.find(name)?, args.calls)))
            .collect::<Result<_>>()?,
        text: symbols.range(),
        call: None,
        calls: 0,
        passing: None,
        finished: false,
    };
    skip(args.skip, &plan, &mut ready)?;

    let jobs = args
        .jobs
        .or_else(|| std::thread::available_parallelism().ok().map(Into::into))
        .unwrap_or(1);
    let bar = progress();
    let mut children = Children::default();
    let mut boundaries: BTreeMap<String, u64> = BTreeMap::new();
    let mut within: BTreeMap<String, u64> = BTreeMap::new();
    let mut visits: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    let mut seen = 0_u64;
    let mut taken = 0_u64;
    loop {
        let limits = Limits {
            until: ready.machine.now() + SLICE,
            ..Limits::default()
        };
        match ready.machine.run_observed(&limits, Some(&mut walker)) {
            Outcome::Observer(hart) => {
                walker.passing = Some(hart);
                let pc = ready.machine.harts()[hart].pc();
                let function = walker.call.as_ref().map_or(pc, |call| call.function);
                let count = boundaries.entry(symbols.name(function)).or_default();
                *count += 1;
                *within.entry(symbols.function(pc).into()).or_default() += 1;
                seen += 1;
                let visits = visits.entry((walker.calls, pc)).or_default();
                *visits += 1;
                if args.visits.is_some_and(|most| *visits > most) {
                    continue;
                }
                taken += 1;
                if (taken - 1) % args.stride != 0 {
                    continue;
                }
                for &disturbance in &args.disturb {
                    children.wait_below(jobs)?;
                    bar.set_message(format!(
                        "{seen} boundaries, {} runs, {} failed; {}",
                        children.done,
                        children.failed.len(),
                        symbols.name(pc)
                    ));
                    let what = format!("{disturbance} at {} on hart {hart}", symbols.name(pc));
                    // SAFETY: the child only touches this process's own data and ends by `exit`; the
                    // other threads, which wait for signals, hold no lock of it.
                    match unsafe { fork() }.context("cannot start a run")? {
                        ForkResult::Child => {
                            disturb(&mut ready.machine, hart, disturbance);
                            let verdict = finish(&plan, &mut ready);
                            if let Err(error) = &verdict {
                                eprintln!("{what}: {error:#}");
                            }
                            std::process::exit(i32::from(verdict.is_err()));
                        }
                        ForkResult::Parent { child } => {
                            children.running.insert(child.as_raw(), what);
                        }
                    }
                }
            }
            Outcome::Limit if walker.finished => break,
            Outcome::Limit if ready.machine.now() < limit(&plan) => {}
            _ => break,
        }
        if interrupt::requested() {
            children.wait_below(1)?;
            return Err(interrupt::Interrupted.into());
        }
    }
    children.wait_below(1)?;
    bar.finish_and_clear();
    if args.json {
        let disturbances: Vec<String> = args.disturb.iter().map(ToString::to_string).collect();
        let result = serde_json::json!({
            "workload": plan.experiment.name,
            "machine": args.machine,
            "calls": args.calls,
            "stride": args.stride,
            "visits": args.visits,
            "disturbances": disturbances,
            "boundaries": boundaries,
            "within": within,
            "runs": children.done,
            "failed": children.failed,
        });
        println!("{}", serde_json::to_string_pretty(&result)?);
    } else {
        for (function, count) in &boundaries {
            println!("{function:<48} {count:>6} instructions");
        }
        println!(
            "{} runs disturbed at {} of {seen} instruction boundaries ({}), {} failed",
            children.done,
            taken.div_ceil(args.stride),
            names(&args.disturb),
            children.failed.len()
        );
    }
    if children.done == 0 {
        return Err(Failed(
            "none of the functions was called; try --skip 0 or more --calls".into(),
        )
        .into());
    }
    if !children.failed.is_empty() {
        return Err(Failed(format!("failed: {}", children.failed.join("; "))).into());
    }
    Ok(ExitCode::SUCCESS)
}

/// A line that tells how far it is, on a terminal.
fn progress() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    // It does not tick by itself: a thread of its own would not survive in the children.
    let bar = ProgressBar::new_spinner();
    bar.set_style(
        ProgressStyle::with_template("{spinner} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    bar
}

fn names(list: &[Disturbance]) -> String {
    let names: Vec<String> = list.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// Virtual time in cycles at which a workload has failed.
fn limit(plan: &Plan<'_>) -> u64 {
    plan.args.time_limit.saturating_mul(1_000_000_000)
}

/// Runs until the workload's measured part begins; the host has listed its symbols by then.
fn reach_workload(plan: &Plan<'_>, ready: &mut Ready) -> Result<Symbols> {
    loop {
        let limits = Limits {
            until: ready.machine.now() + SLICE,
            ..Limits::default()
        };
        let outcome = ready.machine.run(&limits);
        let recorder = ready.recorder.lock();
        if outcome != Outcome::Limit || ready.machine.now() > limit(plan) {
            plan.judge(outcome, &ready.config, &recorder.transcript)?;
            bail!("the workload ended before its measured part began");
        }
        if interrupt::requested() {
            return Err(interrupt::Interrupted.into());
        }
        if recorder.measuring() {
            let lines = recorder.transcript.dumps.get("host.symbols");
            return Ok(Symbols::parse(lines.map_or(&[], Vec::as_slice)));
        }
    }
}

/// Lets `cycles` of virtual time pass.
fn skip(cycles: u64, plan: &Plan<'_>, ready: &mut Ready) -> Result<()> {
    let limits = Limits {
        until: ready.machine.now() + cycles,
        ..Limits::default()
    };
    match ready.machine.run(&limits) {
        Outcome::Limit => Ok(()),
        outcome => plan.judge(outcome, &ready.config, &ready.recorder.lock().transcript),
    }
}

/// Does one thing to a hart that stands before an instruction.
fn disturb(machine: &mut Machine, hart: usize, what: Disturbance) {
    match what {
        Disturbance::Turn => machine.postpone(hart),
        Disturbance::Tick => {
            let ticks = machine.harts()[hart].peek_csr_as_m(csr::STIMECMP);
            let cycles = machine.config().hart.cycles_per_tick;
            let at = ticks.unwrap_or(0).saturating_mul(cycles);
            // Without a comparator that is due soon there is nothing to wait for.
            if at < machine.now().saturating_add(1_000_000_000) {
                machine.hart_mut(hart).advance_to(at);
            }
        }
        Disturbance::Ipi => {
            let mip = machine.harts()[hart].peek_csr_as_m(csr::MIP).unwrap_or(0);
            machine.poke_csr(hart, csr::MIP, mip | 2);
        }
    }
}

/// Runs the measured part of the workload to its end and judges it. What the host does afterwards takes longer than a
/// short workload.
fn finish(plan: &Plan<'_>, ready: &mut Ready) -> Result<()> {
    loop {
        let limits = Limits {
            until: ready.machine.now() + SLICE,
            ..Limits::default()
        };
        let outcome = ready.machine.run(&limits);
        let recorder = ready.recorder.lock();
        match recorder.measured_status() {
            Some(0) => return Ok(()),
            None if outcome == Outcome::Limit
                && ready.machine.now() <= limit(plan)
                && !interrupt::requested() => {}
            _ => return plan.judge(outcome, &ready.config, &recorder.transcript),
        }
    }
}
