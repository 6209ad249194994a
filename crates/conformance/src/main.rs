//! `trapless-conformance`: programs that test an implementation of Xtrapless.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use serde_json::json;
use trapless_conformance::platform::Platform;
use trapless_conformance::programs::{self, CHAPTERS, Program};
use trapless_conformance::rules;
use trapless_conformance::run::{self, Verdict};

/// Bare-metal programs that test an implementation of Xtrapless, rule by rule.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:
  trapless-conformance list
  trapless-conformance list --rules
  trapless-conformance write out/conformance --platform my-board.toml
  trapless-conformance run --platform crates/conformance/platforms/trapless.toml \\
      --command 'trapless exec --machine trapless --harts {harts} --set windows=on {elf}'
  trapless-conformance run --platform my-board.toml --command './load-and-run {elf}' lit-3-post-detach

A program ends with `tohost` = 1 if all checks hold, else with 2 * n + 1 for check n. The exit
status of the command that `run` starts must be 0 or n. docs/hardware.md says what a platform file
has; crates/conformance/platforms/ has examples."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List programs, or rules.
    List {
        /// Rules of the specification, with the programs that test them or the reason why none
        /// does.
        #[arg(long)]
        rules: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write programs as ELF files, with their checks beside them.
    Write {
        /// Folder, which is made if it is not there.
        folder: PathBuf,
        #[command(flatten)]
        choice: Choice,
    },
    /// Run programs by a command, and say which checks fail. The exit status is 1 if any does.
    Run {
        #[command(flatten)]
        choice: Choice,
        /// Command that runs one program. `{elf}` is its file, `{harts}` the number of harts of the
        /// platform, `{name}` the name of the program.
        #[arg(long)]
        command: String,
        /// Seconds after which a program counts as hung.
        #[arg(long, default_value_t = 60)]
        timeout: u64,
        /// Print results as JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
struct Choice {
    /// The platform file.
    #[arg(long)]
    platform: PathBuf,
    /// Only these programs, or those that test these rules (default: all).
    programs: Vec<String>,
}

impl Choice {
    fn programs(&self) -> Result<Vec<&'static Program>, String> {
        if self.programs.is_empty() {
            return Ok(programs::all().collect());
        }
        let mut chosen: Vec<&Program> = Vec::new();
        for name in &self.programs {
            let before = chosen.len();
            let named = |p: &&Program| p.name == name || p.rules.contains(&name.as_str());
            chosen.extend(programs::all().filter(named));
            if chosen.len() == before {
                return Err(format!(
                    "there is no program {name}, and no rule of this name that one tests; \
                     `trapless-conformance list --rules` has all"
                ));
            }
        }
        Ok(chosen)
    }
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::List { rules, json } => {
            list(rules, json);
            Ok(true)
        }
        Command::Write { folder, choice } => write(&folder, &choice).map(|()| true),
        Command::Run {
            choice,
            command,
            timeout,
            json,
        } => run_all(&choice, &command, Duration::from_secs(timeout), json),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(text) => {
            eprintln!("trapless-conformance: {text}");
            ExitCode::from(2)
        }
    }
}

fn list(rules: bool, json: bool) {
    if rules {
        list_rules(json);
        return;
    }
    let mut values = Vec::new();
    for (chapter, programs) in CHAPTERS {
        for program in *programs {
            let needs: Vec<_> = program.needs.iter().map(ToString::to_string).collect();
            if json {
                values.push(json!({
                    "name": program.name, "chapter": chapter, "rules": program.rules,
                    "harts": program.harts, "needs": needs,
                }));
            } else {
                let rules = program.rules.join(" ");
                println!("{:<32} {:>2} harts  {rules}", program.name, program.harts);
            }
        }
    }
    if json {
        println!("{}", json!(values));
    }
}

fn list_rules(json: bool) {
    let mut values = Vec::new();
    for rule in rules::all() {
        let names: Vec<_> = rule.programs.iter().map(|p| p.name).collect();
        if json {
            values.push(json!({"rule": rule.name, "programs": names, "note": rule.note}));
            continue;
        }
        let programs = names.join(" ");
        match rule.note {
            None => println!("{:<8} {programs}", rule.name),
            Some(note) if names.is_empty() => println!("{:<8} - {note}", rule.name),
            Some(note) => println!("{:<8} {programs} (not: {note})", rule.name),
        }
    }
    if json {
        println!("{}", json!(values));
    }
}

fn write(folder: &Path, choice: &Choice) -> Result<(), String> {
    let platform = Platform::read(&choice.platform)?;
    let programs = choice.programs()?;
    std::fs::create_dir_all(folder)
        .map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let put = |name: String, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).map_err(|e| format!("cannot write {}: {e}", path.display()))
    };
    let mut written = 0;
    for program in programs {
        if let Some(why) = program.missing(&platform) {
            println!("{}: not for this platform: {why}", program.name);
            continue;
        }
        let built = program.build(&platform);
        put(format!("{}.elf", program.name), &built.elf)?;
        let checks = built.checks.iter().enumerate();
        let checks: String = checks
            .map(|(i, text)| format!("{} {text}\n", i + 1))
            .collect();
        put(format!("{}.checks", program.name), checks.as_bytes())?;
        written += 1;
    }
    println!("{written} programs in {}", folder.display());
    Ok(())
}

/// Whether all programs that the platform can run passed.
fn run_all(choice: &Choice, command: &str, limit: Duration, json: bool) -> Result<bool, String> {
    let platform = Platform::read(&choice.platform)?;
    let programs = choice.programs()?;
    let scratch = std::env::temp_dir().join(format!("trapless-conformance-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)
        .map_err(|e| format!("cannot make {}: {e}", scratch.display()))?;
    let mut results = Vec::new();
    let mut count = [0; 3];
    for program in programs {
        let verdict = run::run(program, &platform, command, &scratch, limit);
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(text) => {
                let _ = std::fs::remove_dir_all(&scratch);
                return Err(text);
            }
        };
        let kind = match &verdict {
            Verdict::Passed => 0,
            Verdict::Skipped { .. } => 2,
            _ => 1,
        };
        count[kind] += 1;
        if json {
            results.push(json!({
                "program": program.name, "rules": program.rules, "result": verdict,
            }));
        } else {
            println!("{:<32} {verdict}", program.name);
        }
    }
    let _ = std::fs::remove_dir_all(&scratch);
    let [passed, failed, skipped] = count;
    if json {
        println!(
            "{}",
            json!({
                "platform": platform.name, "passed": passed, "failed": failed,
                "skipped": skipped, "programs": results,
            })
        );
    } else {
        println!(
            "{}: {passed} passed, {failed} failed, {skipped} skipped",
            platform.name
        );
    }
    Ok(failed == 0)
}
