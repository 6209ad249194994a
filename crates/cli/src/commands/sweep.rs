//! `trapless sweep`: many runs, made by Dask. What a sweep is, is written in Python
//! (`python/trapless/sweep`); this finds a Python that can run it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use trapless_images::Project;

use crate::output;

/// Names the Python to use.
const VARIABLE: &str = "TRAPLESS_PYTHON";
/// Packages without which no sweep runs, one per line; their modules have the same names. The
/// others are checked where they are needed.
const PACKAGES: &str = include_str!("../../../../python/trapless/sweep/needs.txt");
/// The options: a Python without the packages could not print them.
const HELP: &str = include_str!("../../../../python/trapless/sweep/help.txt");
/// Program that prints which of them a Python lacks; its exit status is then 3.
const CHECK: &str = "\
import importlib.util, sys
missing = [m for m in sys.argv[1:] if importlib.util.find_spec(m) is None]
old = sys.version_info < (3, 11)
print('it is older than 3.11' if old else 'it has no ' + ', '.join(missing))
sys.exit(3 if old or missing else 0)";

/// `trapless sweep`. All options are those of the Python program, which explains them itself.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct SweepArgs {
    /// A file that says what to run, and options; `trapless sweep --help` explains both.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    pub arguments: Vec<OsString>,
}

/// Executes the Python program in place of this one.
///
/// # Errors
/// If there is no Python with the packages that it needs.
pub fn main(args: &SweepArgs, project: &Project) -> Result<ExitCode> {
    if args.arguments.iter().any(|a| a == "--help" || a == "-h") {
        output::print(HELP)?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = project.folder()?;
    let sources = folder.join("python");
    let path = search_path(&sources)?;
    let python = python(&folder, &path)?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(&python);
    command
        .args(["-m", "trapless.sweep", "--program"])
        .arg(program)
        .args(&args.arguments)
        .env("PYTHONPATH", path);
    if project.is_named() {
        command.env("TRAPLESS_PROJECT", folder.canonicalize().unwrap_or(folder));
    }
    // A Ctrl-C while Python starts would end in a traceback of its own modules: the Python program
    // takes the signal when it can say what is kept.
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    signals.thread_block().context("cannot block signals")?;
    let failure = command.exec();
    signals.thread_unblock().context("cannot unblock signals")?;
    Err(failure).with_context(|| format!("cannot start {}", python.display()))
}

/// Python's search path with the project's own packages first.
fn search_path(sources: &Path) -> Result<OsString> {
    let others = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let others = std::env::split_paths(&others).filter(|path| !path.as_os_str().is_empty());
    std::env::join_paths(std::iter::once(sources.to_path_buf()).chain(others))
        .context("cannot name Python's packages: a folder has a colon in its name")
}

/// The Python that the user names, or the first that has what is needed: that of the user's
/// environment, of `scripts/tools sweep`, or of the computer.
fn python(folder: &Path, path: &OsString) -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        let wrong = |reason| anyhow!("{VARIABLE} is {}, but {reason}", named.display());
        check(&named, path).map_err(wrong)?;
        return Ok(named);
    }
    let environment = std::env::var_os("VIRTUAL_ENV").map(|v| Path::new(&v).join("bin/python"));
    let tools = folder.join("target/tools/sweep/bin/python");
    let made = is_source(folder).then_some(tools);
    let candidates = environment.into_iter().chain(made);
    let candidates = candidates.chain(["python3".into()]);
    let mut reasons = Vec::new();
    for candidate in candidates {
        match check(&candidate, path) {
            Ok(()) => return Ok(candidate),
            Err(reason) => reasons.push(format!("{}: {reason}", candidate.display())),
        }
    }
    Err(missing(folder, &reasons))
}

/// Whether this is the source tree, which can make a Python for sweeps.
fn is_source(folder: &Path) -> bool {
    folder.join("scripts/tools").is_file()
}

/// What to do where no Python can run a sweep, for these reasons.
fn missing(folder: &Path, reasons: &[String]) -> anyhow::Error {
    let reasons = reasons.join("; ");
    if is_source(folder) {
        return anyhow!(
            "no Python here can run a sweep ({reasons}). `scripts/tools sweep` makes one"
        );
    }
    anyhow!(
        "no Python here can run a sweep ({reasons}). Make one with\n  python3 -m venv \
         ~/trapless-sweep\n  ~/trapless-sweep/bin/pip install {}\nand name it: \
         {VARIABLE}=~/trapless-sweep/bin/python",
        packages().join(" ")
    )
}

/// Names of the packages.
fn packages() -> Vec<&'static str> {
    PACKAGES.lines().collect()
}

/// Whether this Python has what is needed; if not, why.
fn check(python: &Path, path: &OsString) -> Result<(), String> {
    let mut command = Command::new(python);
    command.args(["-c", CHECK]).args(packages());
    command.env("PYTHONPATH", path).stdin(Stdio::null());
    let output = command
        .output()
        .map_err(|error| format!("it cannot be started ({error})"))?;
    let printed = String::from_utf8_lossy(&output.stdout).trim().to_string();
    match output.status.code() {
        Some(0) => Ok(()),
        Some(3) => Err(printed),
        _ => Err("it cannot run a program of one line".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a Python that cannot run a sweep is refused with what it lacks.
    #[test]
    fn a_python_without_packages_says_which() {
        let folder = tempfile::tempdir().unwrap();
        let path = OsString::new();
        let missing = check(&folder.path().join("python"), &path).unwrap_err();
        assert!(missing.starts_with("it cannot be started"), "{missing}");
        let bare = Command::new("python3")
            .args(["-I", "-S", "-c", CHECK, "distributed", "json"])
            .output();
        if let Ok(bare) = bare {
            assert_eq!(bare.status.code(), Some(3));
            let printed = String::from_utf8_lossy(&bare.stdout);
            assert!(
                printed.contains("distributed") || printed.contains("3.11"),
                "{printed}"
            );
        }
    }

    /// Promise: where nothing can be made, the user reads commands that make a Python for sweeps.
    #[test]
    fn an_installed_program_says_what_to_install() {
        let folder = tempfile::tempdir().unwrap();
        let error = missing(folder.path(), &["python3: it has no rich".into()]).to_string();
        for part in [
            "pip install distributed",
            "psutil",
            "TRAPLESS_PYTHON=",
            "no rich",
        ] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!error.contains("scripts/tools"), "{error}");
        assert!(HELP.contains("--dry-run") && HELP.contains("TRAPLESS_PYTHON"));
    }

    #[test]
    fn the_project_comes_first_in_the_search_path() {
        let path = search_path(Path::new("/project/python")).unwrap();
        let first = std::env::split_paths(&path).next();
        assert_eq!(first, Some(PathBuf::from("/project/python")));
        assert!(search_path(Path::new("/a:b")).is_err());
    }
}
