//! Workloads of a user's own.

use std::path::Path;
use std::process::Command;

use trapless_images::{Images, Progress, Project};
use trapless_ledger::document::LedgerFile;

use crate::runs::{scratch, trapless};

const WORKLOAD: &str = r#"
title = "A program of my own"

[guest]
harts = 2
script = '''
phase program
talk "$times" >/run/said || exit
result times "$(grep -c '^one and all$' /run/said)"
udprr 2>/dev/null
[ $? -lt 126 ] || exit 1
'''
files = { "/bin/talk" = "talk", "/bin/udprr" = "program", "/lib/data" = "data" }

[host]
script = '''
[ -x /bin/program ] || exit
vmm_start || exit
vmm_wait
'''
files = { "/bin/program" = "program" }

[parameters.times]
default = 3
maximum = 9
explanation = "How often"

[results.times]
explanation = "How often it was"
"#;

const TALK: &str =
    "#!/bin/sh\ni=0\nwhile [ $i -lt \"$1\" ]; do cat /lib/data/text/line; i=$((i + 1)); done\n";

fn command(folder: &Path, words: &str) -> Command {
    let mut command = trapless();
    command.current_dir(folder).args(words.split_whitespace());
    command
}

/// Promise: a workload in a file of the user's, with a script, a static program and data of its
/// own, runs in a guest and tells its results, without another image; its ledger says what it was;
/// a checkpoint of it is refused once one of its files has changed; and one that names it as its
/// base is it, but for what it says.
#[test]
fn a_users_workload_runs_with_its_own_files() {
    let folder = scratch("own-workload");
    std::fs::create_dir_all(folder.join("data/text")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("mine.toml", WORKLOAD);
    write("talk", TALK);
    write("data/text/line", "one and all\n");
    write(
        "trapless.toml",
        "[workloads.more]\nbase = \"ipi\"\ndefaults = { loops = 3 }\n",
    );
    let project = Project::new(None).folder().unwrap();
    let mut images = Images::open(&project, Progress::Silent).unwrap();
    let program = images.artefact("programs/udprr").unwrap().path;
    std::fs::copy(program, folder.join("program")).unwrap();

    let run = "run --machine sstc --workload ./mine.toml --json --checkpoint workload=saved";
    let output = command(&folder, run).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let ledger = LedgerFile::from_json(&String::from_utf8_lossy(&output.stdout)).unwrap();
    assert_eq!(ledger.run.workload, "mine");
    let times = &ledger.run.measurements[0];
    assert_eq!((times.name.as_str(), times.value), ("times", 3.0));
    assert!(ledger.phases.iter().any(|phase| phase.name == "program"));
    let configuration = &ledger.run.configuration;
    assert_eq!(configuration["workload file"], "mine.toml");
    let shown = command(&folder, "workloads ./mine.toml").output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let content = configuration["workload content"].replace("sha256 ", "");
    assert!(content.len() == 64 && shown.contains(&content), "{shown}");

    write("data/text/line", "all and one\n");
    let output = command(&folder, "resume saved").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("files of the workload"), "{error}");

    let run = "run --machine sstc --workload more --json";
    let output = command(&folder, run).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let ledger = LedgerFile::from_json(&String::from_utf8_lossy(&output.stdout)).unwrap();
    assert_eq!(ledger.run.workload, "more");
    assert_eq!(ledger.run.configuration["workload base"], "ipi");
    let messages = ledger
        .run
        .measurements
        .iter()
        .find(|m| m.name == "messages");
    assert_eq!(messages.unwrap().value, 48.0);
}
