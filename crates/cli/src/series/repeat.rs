//! The command that repeats one run of a series.

use crate::plan::Plan;
use crate::workload::RunId;

/// `trapless run` with what made `run` what it is, and its console shown.
pub fn command(plan: &Plan, run: &RunId) -> String {
    let mut words: Vec<String> = ["trapless", "run", "--machine", &run.machine]
        .map(Into::into)
        .into();
    words.extend(plan.args.for_run(run).words());
    words.push("--console".into());
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    quoted.join(" ")
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._=+,-/:".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_words_that_were_meant() {
        let words = ["a b", "it's", "", "x=1", "$(y)"];
        let text = words.map(quoted).join(" ");
        assert_eq!(text, r"'a b' 'it'\''s' '' x=1 '$(y)'");
        let script = format!("printf '%s|' {text}");
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .output();
        assert_eq!(output.unwrap().stdout, b"a b|it's||x=1|$(y)|");
    }
}
