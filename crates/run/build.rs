//! Records the revision of the source, for ledgers.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn git(command: &mut Command) -> Option<String> {
    let out = command.output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8_lossy(&out.stdout).trim().to_string())
}

/// The commit, with `-dirty` if the source has changed since.
fn revision(folder: &str) -> Option<String> {
    // In a new clone git would refresh the index, which cargo would take for a change.
    let index = Path::new(&env::var_os("OUT_DIR")?).join("index");
    fs::copy(Path::new(folder).join("index"), &index).ok()?;
    git(Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .env("GIT_INDEX_FILE", index))
}

fn main() {
    let folder = git(Command::new("git").args(["rev-parse", "--absolute-git-dir"]));
    let revision = folder.as_deref().and_then(revision);
    let revision = revision.unwrap_or_else(|| "unknown".into());
    println!("cargo:rustc-env=TRAPLESS_REVISION={revision}");
    // HEAD changes with commits, the index with staged files.
    for file in ["HEAD", "index", "logs/HEAD"] {
        if let Some(folder) = &folder {
            println!("cargo:rerun-if-changed={folder}/{file}");
        }
    }
}
