//! `trapless workloads`: what workloads there are, and what one does.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use trapless_experiments::{Experiment, Workloads};
use trapless_images::overlay;
use trapless_run::Trapless;
use trapless_run::own::{self, describe};

use crate::output::{print, print_json, style, table};

/// Lists the workloads, or explains the one called `name`.
pub fn main(name: Option<&str>, as_json: bool, trapless: &Trapless) -> Result<ExitCode> {
    let project = &trapless.project();
    match (name, as_json) {
        (None, as_json) => list(&own::workloads(project)?, as_json)?,
        (Some(name), true) => print_json(&describe(&own::workload(name, project)?))?,
        (Some(name), false) => {
            let all = own::workloads(project)?;
            explain(&own::workload(name, project)?, &|name| all.is_common(name))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(all: &Workloads, as_json: bool) -> Result<()> {
    if as_json {
        return print_json(&all.iter().map(describe).collect::<Vec<_>>());
    }
    let rows = all.iter().map(|e| (e.name.as_str(), e.title.as_str()));
    print(&format!(
        "Workloads:\n{}\n`trapless workloads NAME` explains one and its parameters.\n",
        table(rows)
    ))
}

/// Parameters for which `is_common` is true are those of every workload.
fn explain(e: &Experiment, is_common: &dyn Fn(&str) -> bool) -> Result<()> {
    let (about, measures) = (e.explanation.trim(), e.measures.trim());
    let mut text = format!("{}: {}\n", e.name, e.title);
    // Writing to a string cannot fail.
    for paragraph in [about, measures].iter().filter(|p| !p.is_empty()) {
        let _ = writeln!(text, "\n{paragraph}");
    }
    let (harts, memory) = (e.guest.harts, &e.guest.memory);
    let plural = if harts == 1 { "" } else { "s" };
    let _ = writeln!(text, "\nGuest: {harts} vCPU{plural}, {memory}");
    if let (Some(own), Some(added)) = (&e.own, overlay(e)?) {
        let _ = write!(text, "\nFrom {}", own.file.display());
        if let Some(base) = &own.base {
            let _ = write!(text, ", based on {base}");
        }
        let _ = writeln!(text, " (sha256 {})", added.sha256);
        for (side, files) in [("guest", &e.guest.files), ("host", &e.host.files)] {
            for (place, file) in files {
                let _ = writeln!(text, "  {place} of the {side}: {}", file.display());
            }
        }
    }
    let (common, own): (Vec<_>, Vec<_>) =
        e.parameters.iter().partition(|(name, _)| is_common(name));
    for (title, parameters) in [
        ("Parameters (--set NAME=VALUE)", own),
        ("Parameters of every workload", common),
    ] {
        if parameters.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{title}:");
        for (name, p) in parameters {
            let about = format!("{} ({}; default {})", p.explanation, p.range(), p.default);
            text.push_str(&entry(name, &about, style().width));
        }
    }
    if !e.results.is_empty() {
        let rows = e.results.iter();
        let rows = rows.map(|(n, r)| (n.as_str(), r.explanation.as_str()));
        let _ = write!(text, "\nResults:\n{}", table(rows));
    }
    print(&text)
}

/// A name and its description, with aligned lines.
fn entry(name: &str, about: &str, width: usize) -> String {
    const INDENT: usize = 15;
    let mut text = format!("  {name:<12}");
    let mut column = text.chars().count();
    for word in about.split_whitespace() {
        let length = word.chars().count();
        if column + 1 + length > width && column >= INDENT {
            text.push_str(&format!("\n{:1$}", "", INDENT - 1));
            column = INDENT - 1;
        }
        text.push(' ');
        text.push_str(word);
        column += 1 + length;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_explanations_stay_in_their_column() {
        let text = entry("name", "one two three four five six", 28);
        assert_eq!(
            text,
            "  name         one two three\n               four five six\n"
        );
        let long = entry("a-name-that-is-longer", "x", 40);
        assert_eq!(long, "  a-name-that-is-longer x\n");
    }
}
