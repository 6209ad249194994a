//! `trapless-difftest`: generated programs on our machine and on independent models.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use trapless_difftest::campaign::{Campaign, Progress, Summary};
use trapless_difftest::families::{self, FAMILIES, Family};
use trapless_difftest::model::{Engine, Model, Qemu, Spike, Trapless};
use trapless_difftest::verdict::Models;

/// Runs generated bare-metal RISC-V programs on several models and compares the results.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:
  trapless-difftest run --seeds 0..300                    our machine against QEMU
  trapless-difftest run --against interp,both             its engines against each other
  trapless-difftest run --families two-stage,csr --against qemu,qemu:/opt/qemu/bin/qemu-system-riscv64
  trapless-difftest run --subject qemu --against qemu:/opt/qemu10/usr/bin/qemu-system-riscv64
  trapless-difftest run --forever --seeds 100000.. --json out/difftest/summary.json
  trapless-difftest gen 17 --families integer -o /tmp/17.elf

A failing program is reduced and written to out/difftest/ with a report. Models are `trapless`,
`qemu` and `spike`, each with an optional path: `qemu:PATH`; and our machine with another engine:
`interp`, and `both`, which runs the program by both engines in lock-step."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Generate, run, compare.
    Run(Run),
    /// List the families of programs.
    List,
    /// Write one program as an ELF file.
    Gen {
        /// Seed of the program.
        seed: u64,
        /// File to write.
        #[arg(short, long)]
        output: PathBuf,
        /// Families to draw from, comma-separated, or `all`.
        #[arg(long, default_value = "all")]
        families: String,
    },
}

#[derive(Args)]
struct Run {
    /// Seeds: `A..B`, `A..` (with --forever) or one.
    #[arg(long, default_value = "0..300")]
    seeds: String,
    /// Families to draw from, comma-separated, or `all`.
    #[arg(long, default_value = "all")]
    families: String,
    /// Model under test.
    #[arg(long, default_value = "trapless")]
    subject: String,
    /// Models to compare with, comma-separated.
    #[arg(long, default_value = "qemu")]
    against: String,
    /// Programs at the same time (default: number of processors).
    #[arg(long)]
    jobs: Option<usize>,
    /// Continue with new seeds until interrupted.
    #[arg(long)]
    forever: bool,
    /// Do not reduce failing programs.
    #[arg(long)]
    no_shrink: bool,
    /// Stop after this many failures (0: never).
    #[arg(long, default_value_t = 20)]
    max_failures: u64,
    /// Folder for failing programs and their reports.
    #[arg(long, default_value = "out/difftest")]
    out: PathBuf,
    /// Write totals and coverage to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn families(names: &str) -> Result<Vec<&'static Family>, String> {
    if names == "all" {
        return Ok(FAMILIES.iter().collect());
    }
    names
        .split(',')
        .map(|n| {
            families::by_name(n).ok_or_else(|| {
                format!("there is no family `{n}`; `trapless-difftest list` shows them")
            })
        })
        .collect()
}

fn seeds(text: &str, forever: bool) -> Result<std::ops::Range<u64>, String> {
    let bad = || format!("`{text}` is not a range of seeds; write 0..300");
    let (from, to) = text.split_once("..").unwrap_or((text, ""));
    let from: u64 = from.parse().map_err(|_| bad())?;
    let to = match to {
        _ if forever => u64::MAX,
        "" => from + 1,
        to => to.parse().map_err(|_| bad())?,
    };
    Ok(from..to)
}

fn model(spec: &str) -> Result<Box<dyn Model>, String> {
    let (kind, path) = spec
        .split_once(':')
        .map_or((spec, None), |(k, p)| (k, Some(p)));
    match kind {
        "qemu" => {
            let path = Path::new(path.unwrap_or("qemu-system-riscv64"));
            Ok(Box::new(Qemu::new(path)?))
        }
        "spike" => Ok(Box::new(Spike::new(Path::new(path.unwrap_or("spike"))))),
        "trapless" | "interp" | "both" => {
            let engine = match kind {
                "interp" => Engine::Interp,
                "both" => Engine::Both,
                _ => Engine::Usual,
            };
            // Built next to us, if not on the path.
            let beside = std::env::current_exe()
                .ok()
                .and_then(|p| Some(p.parent()?.join("trapless")))
                .filter(|p| p.exists());
            let path = path
                .map(PathBuf::from)
                .or(beside)
                .unwrap_or_else(|| "trapless".into());
            Ok(Box::new(Trapless::new(&path, engine)))
        }
        _ => Err(format!(
            "there is no model `{kind}`; use trapless, interp, both, qemu or spike"
        )),
    }
}

fn run(args: &Run) -> Result<Summary, String> {
    let campaign = Campaign {
        seeds: seeds(&args.seeds, args.forever)?,
        families: families(&args.families)?,
        models: Models {
            subject: model(&args.subject)?,
            references: args
                .against
                .split(',')
                .map(model)
                .collect::<Result<_, _>>()?,
        },
        jobs: args
            .jobs
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
            .max(1),
        shrink: !args.no_shrink,
        out: args.out.clone(),
        max_failures: args.max_failures,
    };
    let names: Vec<String> = campaign
        .models
        .references
        .iter()
        .map(|r| r.name())
        .collect();
    println!(
        "{} against {}",
        campaign.models.subject.name(),
        names.join(", ")
    );
    let live = std::io::stderr().is_terminal();
    let summary = campaign.run(&|p| match p {
        Progress::Failure(text) => println!("{text}"),
        Progress::Done(s) => {
            let done = s.passed + s.failed + s.skipped;
            if live {
                eprint!("\r{done} programs, {} failed ", s.failed);
                let _ = std::io::stderr().flush();
            } else if args.forever && done % 500 == 0 {
                println!("{done} programs, {} failed", s.failed);
            }
        }
    })?;
    if live {
        eprintln!();
    }
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&summary).map_err(|e| e.to_string())?;
        if let Some(dir) = path.parent() {
            let _ = std::fs::create_dir_all(dir);
        }
        std::fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    for (family, n) in &summary.coverage.programs {
        println!("{n:6} programs of family {family}");
    }
    for (trap, n) in &summary.coverage.traps {
        println!("{n:6} traps to {trap}");
    }
    for (family, seed, line) in &summary.failures {
        println!("failed: {family} seed {seed}: {line}");
    }
    Ok(summary)
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::List => {
            for f in FAMILIES {
                println!("{:12} {:2}  {}", f.name, f.weight, f.about);
            }
            return ExitCode::SUCCESS;
        }
        Command::Gen {
            seed,
            output,
            families: names,
        } => families(&names).and_then(|among| {
            let program = families::generate(seed, &among);
            std::fs::write(&output, program.elf())
                .map_err(|e| format!("cannot write {}: {e}", output.display()))?;
            println!(
                "{}: {}, {} steps",
                output.display(),
                program.family,
                program.steps.len()
            );
            Ok(None)
        }),
        Command::Run(args) => run(&args).map(Some),
    };
    match result {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(s)) => {
            // Skipped programs are reported; if none was compared, that is a failure.
            let skipped = if s.skipped > 0 {
                format!(", {} skipped", s.skipped)
            } else {
                String::new()
            };
            println!("{} passed, {} failed{skipped}", s.passed, s.failed);
            if s.failed == 0 && s.passed > 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(e) => {
            eprintln!("trapless-difftest: {e}");
            ExitCode::from(2)
        }
    }
}
