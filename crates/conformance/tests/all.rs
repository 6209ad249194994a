//! All programs on the Rust model, and all rules of the specification.

use std::collections::BTreeSet;
use std::path::Path;

use trapless_conformance::platform::Platform;
use trapless_conformance::{machine, programs, rules};

/// Names of rules in the text: `[[ORD-2]]`, at the beginning of a line.
fn rules_of_the_text() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/chapters");
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).expect("the specification is there") {
        let path = entry.expect("the folder can be read").path();
        if path.extension().is_none_or(|e| e != "adoc") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("the chapter can be read");
        for line in text.lines() {
            let name = line
                .strip_prefix("[[")
                .and_then(|rest| rest.split_once("]]"));
            let is_rule = |name: &str| {
                let (word, number) = name.split_once('-').unwrap_or((name, ""));
                let upper = !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase());
                upper && number.parse::<u32>().is_ok()
            };
            if let Some((name, _)) = name.filter(|(name, _)| is_rule(name)) {
                assert!(names.insert(name.to_owned()), "{name} is there twice");
            }
        }
    }
    assert!(names.len() > 100, "the chapters have rules");
    names
}

/// Every rule has a program or a reason why there is none, and no rule is named that does not
/// exist.
#[test]
fn every_rule_has_a_program_or_a_reason() {
    let known: BTreeSet<String> = rules::all().iter().map(|r| r.name.to_owned()).collect();
    let text = rules_of_the_text();
    let missing: Vec<_> = text.difference(&known).collect();
    assert!(
        missing.is_empty(),
        "neither a program nor a reason: {missing:?}"
    );
    let unknown: Vec<_> = known.difference(&text).collect();
    assert!(unknown.is_empty(), "no such rule: {unknown:?}");
}

/// Names of programs are names of files, and belong to one program each.
#[test]
fn programs_have_names_of_their_own() {
    let mut names = BTreeSet::new();
    for program in programs::all() {
        let simple = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        assert!(program.name.bytes().all(simple), "{}", program.name);
        assert!(
            names.insert(program.name),
            "{} is there twice",
            program.name
        );
        assert!(!program.rules.is_empty(), "{} tests nothing", program.name);
    }
}

/// The model passes all programs; numbers of checks fit into an exit status.
#[test]
fn the_model_passes() {
    let mut bad = Vec::new();
    for program in programs::all() {
        let platform = machine::platform(program);
        let checks = program.build(&platform).checks.len();
        assert!(
            (1..=255).contains(&checks),
            "{}: {checks} checks",
            program.name
        );
        let verdict = machine::run(program, &platform, |_| ());
        if verdict.is_bad() {
            bad.push(format!("{}: {verdict}", program.name));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// The example files of platforms can be read.
#[test]
fn platforms_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("platforms");
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        Platform::read(&entry.expect("it can be read").path()).unwrap();
    }
}
