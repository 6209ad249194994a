//! Checks the delivery protocol from the command line:
//! `cargo run --release -p trapless-protocol -- --help`.

use std::process::ExitCode;

use trapless_protocol::{
    BOUNDED, COMES_TO_REST, Case, Config, Features, OnRules, Outcome, check, comes_to_rest, find,
    trace,
};

const HELP: &str = "\
Visit every state of the Xtrapless delivery protocol.

  --harts N        1..=3 (2)
  --vcpus N        1..=3 (2)
  --in-flight N    posts in flight at a time, 1..=3 (as many as harts)
  --sends N        posts in all, 0: no bound (2)
  --queue N        entries of a queue, 1..=3 (as many as vCPUs)
  --rules R        strict | draft | strict-handler (strict)
  --with F,F       external, enables, threshold, priority, words, vsie, user, hotplug, sleep,
                   directory, any
  --full           every step on its own (default: invisible steps merged)
  --no-symmetry    do not identify states that differ in numbering only
  --threads N      (1)
  --rest           check instead that host and hardware come to rest
  --bound          look for notifications that pile up under the rules `draft`
  --mutation NAME  break a rule and print a shortest counterexample (all: of every rule)
  --mutations      list them
";

struct Options {
    config: Config,
    threads: usize,
    rest: bool,
    mutations: &'static [Case],
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => run(&options),
        Ok(None) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}; see --help");
            ExitCode::from(2)
        }
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut config = Config {
        sends: Some(2),
        ..Config::new(2, 2)
    };
    let (mut in_flight, mut queue) = (None, None);
    let mut options = Options {
        config,
        threads: 1,
        rest: false,
        mutations: &[],
    };
    while let Some(option) = args.next() {
        let mut value = || args.next().ok_or(format!("{option} needs a value"));
        match option.as_str() {
            "--harts" => config.harts = size(&option, &value()?)?,
            "--vcpus" => config.vcpus = size(&option, &value()?)?,
            "--in-flight" => in_flight = Some(size(&option, &value()?)?),
            "--queue" => queue = Some(size(&option, &value()?)?),
            "--sends" => {
                let sends = value()?
                    .parse()
                    .map_err(|_| "--sends takes 0..=255".to_owned())?;
                config.sends = Some(sends).filter(|&sends| sends > 0);
            }
            "--rules" => {
                config.rules = match value()?.as_str() {
                    "draft" => OnRules::Draft,
                    "strict" => OnRules::Strict,
                    "strict-handler" => OnRules::StrictHandler,
                    other => return Err(format!("there are no rules \"{other}\"")),
                }
            }
            "--with" => {
                for name in value()?.split(',') {
                    feature(&mut config.features, name)?;
                }
            }
            "--full" => config.merge = false,
            "--no-symmetry" => config.symmetry = false,
            "--threads" => {
                options.threads = usize::from(size(&option, &value()?)?);
            }
            "--rest" => options.rest = true,
            "--bound" => config.check_bound = true,
            "--mutation" => {
                let name = value()?;
                options.mutations = match Case::named(&name) {
                    Some(case) => std::slice::from_ref(case),
                    None if name == "all" => Case::ALL,
                    None => return Err(format!("no mutation \"{name}\": try --mutations")),
                };
            }
            "--mutations" => {
                for case in Case::ALL {
                    let expect = |all: &[&str]| {
                        if all.is_empty() {
                            "harmless".to_owned()
                        } else {
                            all.join(", ")
                        }
                    };
                    let (draft, strict) = (expect(case.draft), expect(case.strict));
                    println!("{:26} draft: {draft}; strict: {strict}", case.name);
                }
                return Ok(None);
            }
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(None);
            }
            other => return Err(format!("there is no option {other}")),
        }
    }
    config.in_flight = in_flight.unwrap_or(config.harts);
    config.queue = queue.unwrap_or(config.vcpus);
    options.config = config;
    Ok(Some(options))
}

fn size(option: &str, value: &str) -> Result<u8, String> {
    let size = value.parse().ok().filter(|size| (1..=3).contains(size));
    size.ok_or(format!("{option} takes 1, 2 or 3"))
}

fn feature(features: &mut Features, name: &str) -> Result<(), String> {
    let flag = match name {
        "external" => &mut features.external,
        "enables" => &mut features.enables,
        "threshold" => &mut features.threshold,
        "priority" => &mut features.priority,
        "words" => &mut features.words,
        "vsie" => &mut features.vsie,
        "user" => &mut features.user,
        "hotplug" => &mut features.hotplug,
        "sleep" => &mut features.sleep,
        "directory" => &mut features.directory,
        "any" => &mut features.any,
        other => return Err(format!("there is no feature \"{other}\"")),
    };
    *flag = true;
    Ok(())
}

fn run(options: &Options) -> ExitCode {
    let config = options.config;
    if !options.mutations.is_empty() {
        let failed = |case| run_mutation(case, config.rules) != ExitCode::SUCCESS;
        let failures = options.mutations.iter().filter(|case| failed(case)).count();
        return ExitCode::from(u8::from(failures > 0));
    }
    if options.rest {
        return rest(config);
    }
    if config.check_bound {
        let outcome = find(
            Config {
                merge: false,
                ..config
            },
            BOUNDED,
        );
        return report(config, &outcome);
    }
    report(config, &check(config, options.threads))
}

/// Prints a section of `docs/protocol-counterexamples.md`.
fn run_mutation(case: &Case, rules: OnRules) -> ExitCode {
    let config = case.config(rules);
    let mut code = ExitCode::SUCCESS;
    let expected = case.violates(rules);
    println!("## {}\n", case.name);
    if expected.is_empty() {
        println!("Nothing fails: other rules make up for this one.\n");
        return report(
            config,
            &check(
                Config {
                    merge: true,
                    ..config
                },
                1,
            ),
        );
    }
    for &property in expected {
        if property == COMES_TO_REST {
            rest(Config {
                symmetry: false,
                ..config
            });
            continue;
        }
        let outcome = find(config, property);
        match outcome
            .violations
            .iter()
            .find(|(name, _)| *name == property)
        {
            Some((_, path)) => {
                println!("\"{property}\" fails after {} steps:\n", path.len() - 1);
                println!("```text\n{}```\n", trace(&config, path));
            }
            None => {
                println!(
                    "\"{property}\" HOLDS ({} states), but must fail.",
                    outcome.states
                );
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

fn rest(config: Config) -> ExitCode {
    let rest = comes_to_rest(config);
    let seconds = rest.time.as_secs_f64();
    println!(
        "{} states, {} transitions without environment, {seconds:.1} s",
        rest.states, rest.transitions
    );
    match rest.example {
        None => {
            println!("comes to rest: holds");
            ExitCode::SUCCESS
        }
        Some((stem, around)) => {
            println!(
                "\"{COMES_TO_REST}\" fails from {} states, first after\n",
                rest.endless
            );
            println!(
                "```text\n{}```\n\nand then for ever\n",
                trace(&config, &stem)
            );
            println!("```text\n{}```\n", trace(&config, &around));
            ExitCode::FAILURE
        }
    }
}

fn report(config: Config, outcome: &Outcome) -> ExitCode {
    println!(
        "{} states, {} transitions, depth {}, {:.1} s",
        outcome.states,
        outcome.transitions,
        outcome.depth,
        outcome.time.as_secs_f64()
    );
    for name in &outcome.unreachable {
        println!("never: {name}");
    }
    for (name, path) in &outcome.violations {
        println!(
            "VIOLATED: {name}, after {} steps:\n{}",
            path.len() - 1,
            trace(&config, path)
        );
    }
    if outcome.violations.is_empty() {
        println!("no violation");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
