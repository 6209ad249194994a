//! What the command says of wrong options.

use std::process::Command;

/// Promise: it builds and runs what is in the project folder that is named or its own, never what
/// happens to lie where it is called.
#[test]
fn a_folder_that_is_no_project_is_refused() {
    let program = env!("CARGO_BIN_EXE_trapless-bench");
    let output = Command::new(program)
        .args(["--project", "/dev", "--only", "boot"])
        .output();
    let output = output.expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("/dev is no project folder"), "{text}");
}
