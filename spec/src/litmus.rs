//! Runs the litmus tests of `spec/memory-model/` with herd7: each as it is, and once more without
//! each rule that it needs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A litmus test, as the comment at its head describes it.
pub struct Test {
    name: String,
    path: PathBuf,
    /// Whether the final condition can be reached.
    reachable: bool,
    /// Rules without any one of which it can be reached.
    rules: Vec<String>,
}

/// The folder of the model.
fn folder() -> PathBuf {
    crate::root().join("spec/memory-model")
}

/// All tests, sorted by name.
///
/// # Errors
/// If a file cannot be read, or its head does not say what is expected.
pub fn tests() -> Result<Vec<Test>, String> {
    let folder = folder().join("tests");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Result<Test, String> {
    let at = |reason: &str| format!("{}: {reason}", path.display());
    let text = std::fs::read_to_string(path).map_err(|e| at(&e.to_string()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    if !text.starts_with(&format!("LISA {name}\n")) {
        return Err(at("the first line is not LISA and the file's name"));
    }
    let head = text.split("*)").next().unwrap_or_default();
    let value = |key: &str| head.split_once(key).map(|(_, value)| value.trim());
    let (reachable, rules) = match (value("Rules:"), value("Expected:")) {
        (Some(rules), None) => (false, rules.split_whitespace().map(String::from).collect()),
        (None, Some("Sometimes")) => (true, Vec::new()),
        (None, Some("Never")) => (false, Vec::new()),
        _ => {
            return Err(at(
                "write Rules: RULE..., Expected: Never or Expected: Sometimes",
            ));
        }
    };
    Ok(Test {
        name: name.into_owned(),
        path: path.into(),
        reachable,
        rules,
    })
}

/// Text of the model, without a rule if one is named.
fn model(without: Option<&str>) -> String {
    let rule = without.map_or(String::new(), |rule| {
        format!("let {} = 0\n", rule.to_lowercase())
    });
    format!("\"Xtrapless\"\ninclude \"rules.cat\"\n{rule}include \"axioms.cat\"\n")
}

/// Whether `herd` reaches the final condition of a test.
fn reached(herd: &str, test: &Test, without: Option<&str>) -> Result<bool, String> {
    let place = crate::root().join("target/litmus");
    let file = place.join(format!("without-{}.cat", without.unwrap_or("nothing")));
    std::fs::create_dir_all(&place)
        .and_then(|()| std::fs::write(&file, model(without)))
        .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    let output = Command::new(herd)
        .arg("-I")
        .arg(folder())
        .arg("-bell")
        .arg(folder().join("xtrapless.bell"))
        .arg("-model")
        .arg(&file)
        // Candidates that break coherence are the model's to refuse.
        .args(["-optace", "false"])
        .arg(&test.path)
        .output()
        .map_err(|e| format!("cannot run {herd}: {e}; name it as `litmus PROGRAM`"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let observation = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("Observation {} ", test.name)));
    match observation.and_then(|words| words.split_whitespace().next()) {
        Some("Never") => Ok(false),
        Some("Sometimes" | "Always") => Ok(true),
        _ => Err(format!(
            "{herd} cannot check {}: {}",
            test.path.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// Checks one test; returns what it found wrong.
fn check(herd: &str, test: &Test) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    if reached(herd, test, None)? != test.reachable {
        let verdict = if test.reachable { "not " } else { "" };
        wrong.push(format!("{}: its outcome is {verdict}possible", test.name));
    }
    for rule in &test.rules {
        if !reached(herd, test, Some(rule))? {
            wrong.push(format!("{}: it does not need {rule}", test.name));
        }
    }
    Ok(wrong)
}

/// What the runs without rules must show, if there are any.
fn sometimes(without: &[String]) -> String {
    if without.is_empty() {
        String::new()
    } else {
        format!("; Sometimes{}", without.join(","))
    }
}

/// Checks all tests and prints a line for each.
///
/// # Errors
/// Everything that is not as the tests say.
pub fn run(herd: &str) -> Result<(), String> {
    let mut wrong = Vec::new();
    let tests = tests()?;
    for test in &tests {
        let found = check(herd, test)?;
        let expected = if test.reachable { "Sometimes" } else { "Never" };
        let needs: Vec<String> = test.rules.iter().map(|r| format!(" without {r}")).collect();
        let verdict = if found.is_empty() { "ok" } else { "WRONG" };
        println!("{verdict} {}: {expected}{}", test.name, sometimes(&needs));
        wrong.extend(found);
    }
    if wrong.is_empty() {
        println!("{} litmus tests passed", tests.len());
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Rules of the chapter that the model does not hold as a relation: ORD-1 is the model itself,
    /// ORD-10 follows from MEM-3, ORD-12 is about progress.
    const NO_RELATION: [&str; 3] = ["ORD-1", "ORD-10", "ORD-12"];

    fn text(path: &str) -> String {
        std::fs::read_to_string(crate::root().join(path)).unwrap()
    }

    /// Names between each `before` and the next `after`.
    fn names<'a>(text: &'a str, before: &str, after: char) -> BTreeSet<&'a str> {
        text.split(before)
            .skip(1)
            .filter_map(|rest| rest.split(after).next())
            .collect()
    }

    #[test]
    fn each_litmus_test_of_the_chapter_is_checked() {
        let chapter = text("spec/chapters/ordering.adoc");
        let drawn: BTreeSet<String> = names(&chapter, "\n.LIT-", ':')
            .iter()
            .map(|n| format!("LIT-{n}"))
            .collect();
        let all = tests().unwrap();
        let checked = all
            .iter()
            .map(|t| t.name.clone())
            .filter(|n| n.starts_with("LIT-"));
        assert_eq!(drawn, checked.collect());
    }

    #[test]
    fn each_rule_of_the_chapter_is_needed_by_a_test() {
        let chapter = text("spec/chapters/ordering.adoc");
        let rules = text("spec/memory-model/rules.cat");
        let relations = names(&rules, "\nlet ", ' ');
        let all = tests().unwrap();
        let needed: BTreeSet<&str> = all
            .iter()
            .flat_map(|t| &t.rules)
            .map(String::as_str)
            .collect();
        for rule in &needed {
            assert!(
                relations.contains(rule.to_lowercase().as_str()),
                "{rule} is no relation"
            );
        }
        for number in names(&chapter, "\n[[ORD-", ']') {
            let rule = format!("ORD-{number}");
            let open = NO_RELATION.contains(&rule.as_str());
            assert!(
                open != needed.contains(rule.as_str()),
                "no test needs {rule}"
            );
        }
    }
}
