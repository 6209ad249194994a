//! Broken images of the real kernel's.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::runs::{Running, runs, trapless};

/// Where the kernel is.
fn kernel() -> PathBuf {
    // The images are there when the runs have been made.
    runs();
    let output = trapless().args(["images", "kernel", "--json"]).output();
    let output = output.expect("the command starts");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let found = find(&json).expect("the kernel has a path");
    PathBuf::from(found)
}

/// The first `path` in `json`.
fn find(json: &serde_json::Value) -> Option<&str> {
    match json {
        serde_json::Value::Array(list) => list.iter().find_map(find),
        serde_json::Value::Object(map) => match map.get("path") {
            Some(path) => path.as_str(),
            None => map.values().find_map(find),
        },
        _ => None,
    }
}

/// Promise: a kernel that is cut off is refused with a sentence and exit status 2.
#[test]
fn cut_kernels_are_refused() {
    let whole = std::fs::read(kernel()).expect("the kernel can be read");
    for len in [63, 64, 200, 1000, 1 << 20, whole.len() / 2, whole.len() - 1] {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kernel-{len}"));
        std::fs::write(&file, &whole[..len]).expect("the scratch folder can be written");
        let mut command = trapless();
        command.args(["boot", "--kernel"]).arg(&file);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut boot = Running(command.spawn().expect("the command starts"));
        // A cut that is not noticed runs for ever.
        let started = Instant::now();
        let status = loop {
            match boot.0.try_wait().expect("it can be waited for") {
                Some(status) => break status,
                None => assert!(
                    started.elapsed() < Duration::from_secs(20),
                    "cut at {len} runs"
                ),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut text = String::new();
        let mut error = boot.0.stderr.take().expect("it is a pipe");
        error.read_to_string(&mut text).expect("messages are text");
        assert_eq!(status.code(), Some(2), "cut at {len}: {text}");
        assert!(
            text.starts_with("trapless: ") && text.contains("truncated"),
            "{text}"
        );
        std::fs::remove_file(file).expect("it was just written");
    }
}

/// Promise: what is no initrd is the kernel's business: it says so on the console, and the command
/// continues.
#[test]
fn a_broken_initrd_is_reported_by_the_kernel() {
    let initrd = Path::new(env!("CARGO_TARGET_TMPDIR")).join("broken-initrd");
    let noise: Vec<u8> = (0u32..100_000)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    std::fs::write(&initrd, noise).expect("the scratch folder can be written");
    let mut command = trapless();
    command
        .args(["boot", "--harts", "1", "--kernel"])
        .arg(kernel());
    command.arg("--initrd").arg(initrd);
    command.args(["--append", "console=ttyS0 cryptomgr.notests"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut machine = Running(command.spawn().expect("the command starts"));
    let mut out = machine.0.stdout.take().expect("it is a pipe");
    let (started, mut text, mut buffer) = (Instant::now(), String::new(), [0; 4096]);
    while !text.contains("Kernel panic - not syncing: VFS: Unable to mount root fs") {
        assert!(started.elapsed() < Duration::from_secs(120), "{text}");
        let count = out.read(&mut buffer).expect("the console can be read");
        assert!(count > 0, "the command ended: {text}");
        text += &String::from_utf8_lossy(&buffer[..count]);
    }
    assert!(
        machine.0.try_wait().is_ok_and(|status| status.is_none()),
        "it still runs"
    );
}
