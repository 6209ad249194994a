//! A shell over pipes.

use std::io::{BufReader, Read, Write};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::runs::{Running, runs, trapless};

/// Longest wait for output: much longer than a boot takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Reads until `wanted` has come. Returns all that came.
fn until(output: &Receiver<u8>, wanted: &str) -> String {
    let mut seen = Vec::new();
    while !seen.ends_with(wanted.as_bytes()) {
        match output.recv_timeout(PATIENCE) {
            Ok(byte) => seen.push(byte),
            Err(_) => panic!("no {wanted:?} in: {}", String::from_utf8_lossy(&seen)),
        }
    }
    String::from_utf8_lossy(&seen).into_owned()
}

/// Promise: who answers a prompt sees it first, though its line is not complete.
#[test]
fn prompt_is_shown_before_its_answer_is_typed() {
    // The images are there when the runs have been made.
    runs();
    let mut command = trapless();
    command.arg("boot").stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut shell = Running(command.spawn().expect("the command starts"));
    let mut keyboard = shell.0.stdin.take().expect("it is piped");
    let screen = shell.0.stdout.take().expect("it is piped");
    let (send, output) = channel();
    std::thread::spawn(move || {
        for byte in BufReader::new(screen).bytes().map_while(Result::ok) {
            if send.send(byte).is_err() {
                return;
            }
        }
    });
    until(&output, "\n/ # ");
    keyboard.write_all(b"echo $((6 * 7))\n").expect("it reads");
    let answer = until(&output, "\n/ # ");
    assert!(answer.contains("\n42\r\n"), "{answer}");
    keyboard.write_all(b"exit\n").expect("it reads");
    let end = until(&output, "Power down\r\n");
    let status = shell.0.wait().expect("it ends");
    assert!(status.success(), "{status}: {end}");
}
