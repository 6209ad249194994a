//! Titles of columns: the machine, and the settings in which columns differ.

use std::collections::{BTreeMap, BTreeSet};

use trapless_ledger::LedgerFile;

/// The setting with the host's kernel command line, which repeats others, and the parameter in it
/// that repeats the seed.
const COMMAND_LINE: &str = "kernel command line";
const SEED: &str = "trapless.seed=";

/// Settings, prices and versions of a run by name, without the seed, by which runs are grouped.
pub fn settings(ledger: &LedgerFile) -> BTreeMap<String, String> {
    let run = &ledger.run;
    let mut all: BTreeMap<String, String> = run.configuration.clone();
    all.remove("seed");
    if let Some(line) = all.get_mut(COMMAND_LINE) {
        let words = line.split(' ').filter(|word| !word.starts_with(SEED));
        *line = words.collect::<Vec<_>>().join(" ");
    }
    all.insert("workload".into(), run.workload.clone());
    all.insert("machine".into(), run.machine.clone());
    all.insert("revision".into(), run.git_revision.clone());
    let clock = [run.clock.cycles_per_second, run.clock.cycles_per_tick];
    all.insert("clock".into(), format!("{clock:?}"));
    let unit = run.work.as_ref().map_or("", |work| &work.unit);
    all.insert("unit of work".into(), unit.into());
    for cost in &run.cost_model {
        all.insert(format!("price of {}", cost.name), cost.cycles.to_string());
    }
    for (package, version) in &run.packages {
        all.insert(package.clone(), version.clone());
    }
    all
}

/// The seed of a run; empty if it is not known.
pub fn seed(ledger: &LedgerFile) -> &str {
    let seed = ledger.run.configuration.get("seed");
    seed.map_or("", String::as_str)
}

/// Orders runs by their seeds.
pub fn by_seed(ledger: &LedgerFile) -> (Option<u64>, String) {
    (seed(ledger).parse().ok(), seed(ledger).to_string())
}

/// Seeds in short: `0..4` for successive numbers, else `0,2,7`.
pub fn seeds(runs: &[&LedgerFile]) -> String {
    let all: Vec<&str> = runs.iter().map(|run| seed(run)).collect();
    let numbers: Option<Vec<u64>> = all.iter().map(|seed| seed.parse().ok()).collect();
    match numbers.as_deref() {
        Some(list @ [first, .., last]) if list.windows(2).all(|w| w[1] == w[0] + 1) => {
            format!("{first}..{last}")
        }
        _ => all.join(","),
    }
}

/// Settings that follow from others and are redundant in titles.
const DERIVED: [&str; 2] = [COMMAND_LINE, "unit of work"];

/// Settings that follow from the machine: they are used in titles of columns with the same machine
/// only.
const OF_MACHINE: [&str; 3] = ["extensions", "extensions off", "guest interrupt files"];

/// A title for each column, different from all others: the machine, the workload where a machine
/// runs several, and each setting in which columns of that workload differ.
pub fn titles(columns: &[Vec<&LedgerFile>]) -> Vec<String> {
    let described: Vec<BTreeMap<String, String>> = columns
        .iter()
        .map(|runs| {
            let mut all = settings(runs[0]);
            all.insert("seed".into(), seeds(runs));
            all
        })
        .collect();
    let titles = described.iter().map(|mine| title(mine, &described));
    numbered(titles.collect())
}

fn title(mine: &BTreeMap<String, String>, all: &[BTreeMap<String, String>]) -> String {
    let same = |name: &str, other: &BTreeMap<String, String>| other.get(name) == mine.get(name);
    let mut title = mine["machine"].clone();
    let machine = || all.iter().filter(|other| same("machine", other));
    if machine().any(|other| !same("workload", other)) {
        title = format!("{title} {}", mine["workload"]);
    }
    let rivals: Vec<_> = all.iter().filter(|o| same("workload", o)).collect();
    let names: BTreeSet<&String> = rivals.iter().flat_map(|other| other.keys()).collect();
    for name in names {
        let of_machine = OF_MACHINE.contains(&name.as_str());
        let mut others = rivals.iter().filter(|o| !of_machine || same("machine", o));
        let implied = name == "machine" || DERIVED.contains(&name.as_str());
        if !implied && others.any(|other| !same(name, other)) {
            title = format!("{title} {}", named(name, mine.get(name)));
        }
    }
    title
}

/// `name=value`; a revision is abbreviated as git does.
fn named(name: &str, value: Option<&String>) -> String {
    let short = name.strip_prefix("parameter ").unwrap_or(name);
    match value.map(String::as_str) {
        Some(value) if short == "revision" => format!("{short}={value:.12}"),
        Some(value) => format!("{short}={value}"),
        None => format!("no {short}"),
    }
}

/// Numbers equal titles, of ledgers of the same run.
fn numbered(titles: Vec<String>) -> Vec<String> {
    let times = |title: &String, list: &[String]| list.iter().filter(|t| *t == title).count();
    let number = |(i, title): (usize, &String)| {
        if times(title, &titles) > 1 {
            format!("{title} #{}", times(title, &titles[..=i]))
        } else {
            title.clone()
        }
    };
    titles.iter().enumerate().map(number).collect()
}
