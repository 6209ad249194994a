//! Running programs by a command.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::platform::Platform;
use crate::programs::Program;

/// How a program ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// All checks hold.
    Passed,
    /// This check does not.
    Failed {
        /// Its number.
        check: u64,
        /// What it is about.
        text: String,
    },
    /// The program did not end in time.
    Hung,
    /// The command failed in another way.
    Broken {
        /// How.
        text: String,
    },
    /// The platform lacks something.
    Skipped {
        /// What.
        text: String,
    },
}

impl Verdict {
    /// What an exit code of a program with these checks means.
    pub fn of(code: u64, checks: &[String]) -> Self {
        let Some(index) = code.checked_sub(1) else {
            return Self::Passed;
        };
        match usize::try_from(index).ok().and_then(|i| checks.get(i)) {
            Some(text) => Self::Failed {
                check: code,
                text: text.clone(),
            },
            None => Self::Broken {
                text: format!("it ended with {code}, which is the number of no check"),
            },
        }
    }

    /// One line about the verdict on a program, as `tests/conformance` reads it.
    pub fn line(&self, program: &Program) -> String {
        format!("{} ({}): {self}", program.name, program.rules.join(" "))
    }

    /// Whether something is wrong.
    pub fn is_bad(&self) -> bool {
        !matches!(self, Self::Passed | Self::Skipped { .. })
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed { check, text } => write!(f, "FAILED check {check}: {text}"),
            Self::Hung => f.write_str("HUNG: it did not end in time"),
            Self::Broken { text } => write!(f, "BROKEN: {text}"),
            Self::Skipped { text } => write!(f, "skipped: {text}"),
        }
    }
}

/// Runs a program by `command`, in which `{elf}`, `{harts}` and `{name}` stand for the file, the
/// number of harts of the platform and the name of the program. Its words are separated by spaces;
/// no shell is involved. Its exit status must be that of the program: 0, or the number of the
/// check that failed.
///
/// # Errors
/// A sentence, if the file cannot be written or the command not started.
pub fn run(
    program: &Program,
    platform: &Platform,
    command: &str,
    scratch: &Path,
    limit: Duration,
) -> Result<Verdict, String> {
    if let Some(text) = program.missing(platform) {
        return Ok(Verdict::Skipped { text });
    }
    let built = program.build(platform);
    let elf = scratch.join(format!("{}.elf", program.name));
    std::fs::write(&elf, &built.elf).map_err(|e| format!("cannot write {}: {e}", elf.display()))?;
    let fill = |word: &str| {
        word.replace("{elf}", &elf.to_string_lossy())
            .replace("{harts}", &platform.harts.len().to_string())
            .replace("{name}", program.name)
    };
    let mut words = command.split_whitespace().map(fill);
    let first = words.next().ok_or("the command is empty")?;
    let child = Command::new(&first)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("cannot start {first}: {e}"))?;
    let status = wait(child, limit).map_err(|e| format!("{first}: {e}"))?;
    let _ = std::fs::remove_file(&elf);
    Ok(match status {
        None => Verdict::Hung,
        Some(status) => match status.code() {
            Some(code) => Verdict::of(u64::from(code.unsigned_abs()), &built.checks),
            None => Verdict::Broken {
                text: status.to_string(),
            },
        },
    })
}

/// The exit status; `None` if it took too long.
fn wait(
    mut child: Child,
    limit: Duration,
) -> Result<Option<std::process::ExitStatus>, std::io::Error> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A status is that of a check only if there is such a check.
    #[test]
    fn statuses_are_numbers_of_checks() {
        let checks = ["first".to_owned(), "second".to_owned()];
        assert_eq!(Verdict::of(0, &checks), Verdict::Passed);
        let failed = Verdict::of(2, &checks);
        assert_eq!(failed.to_string(), "FAILED check 2: second");
        assert!(failed.is_bad());
        assert!(matches!(Verdict::of(3, &checks), Verdict::Broken { .. }));
    }
}
