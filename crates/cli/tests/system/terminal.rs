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

/// Promise: an unfinished prompt line is shown before input is read.
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

/// A KVM host with a shell whose input is this file.
fn boot_with(input: &str, options: &[&str]) -> Running {
    runs();
    let mut command = trapless();
    command.arg("boot").args(options);
    command.stdin(std::fs::File::open(input).expect("it is there"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Running(command.spawn().expect("the command starts"))
}

/// All output of a machine, and its exit status.
fn end(mut machine: Running) -> (String, Option<i32>) {
    let mut text = String::new();
    let stdout = machine.0.stdout.take().expect("it is piped");
    let stderr = machine.0.stderr.take().expect("it is piped");
    for mut stream in [Box::new(stdout) as Box<dyn Read>, Box::new(stderr)] {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("it can be read");
        text.push_str(&String::from_utf8_lossy(&bytes));
    }
    (text, machine.0.wait().expect("it ends").code())
}

/// Promise: lines that are there before the shell reach it, whatever drivers do meanwhile.
#[test]
fn a_script_on_standard_input_is_typed_when_the_shell_listens() {
    let script = concat!(env!("CARGO_TARGET_TMPDIR"), "/typed");
    std::fs::write(script, "echo $((6 * 7))\nexit\n").expect("it can be written");
    let (text, status) = end(boot_with(script, &[]));
    assert!(status == Some(0) && text.contains("\n42\r\n"), "{text}");
}

/// Promise: a kernel panic ends the command with status 1 and the kernel's reason.
#[test]
fn a_kernel_that_panics_ends_the_command() {
    let append = "console=ttyS0 quiet cryptomgr.notests rdinit=/none init=/none root=/dev/none";
    let (text, status) = end(boot_with("/dev/null", &["--append", append]));
    assert_eq!(status, Some(1), "{text}");
    assert!(
        text.contains("trapless: Kernel panic - not syncing: "),
        "{text}"
    );
}

/// Promise: a machine that waits for input which cannot come costs next to nothing.
#[test]
fn an_idle_machine_without_input_leaves_the_processor_alone() {
    let machine = boot_with("/dev/null", &[]);
    let path = format!("/proc/{}/stat", machine.0.id());
    let ticks = || -> u64 {
        let text = std::fs::read_to_string(&path).expect("it runs");
        let words = text.rsplit(')').next().unwrap_or_default();
        let words = words.split_whitespace().skip(11).take(2);
        words.map(|n| n.parse::<u64>().expect("a number")).sum()
    };
    // Until it boots no more, and has been idle for the time that the help says.
    let mut before = ticks();
    for _ in 0..60 {
        std::thread::sleep(Duration::from_secs(2));
        let now = ticks();
        // Hundredths of a second.
        if now > 100 && now - before < 10 {
            return;
        }
        before = now;
    }
    panic!("it is still busy");
}

/// Promise: `--script` types what it says when it says so, in virtual time: the session is the same
/// each time and with both engines; and what does not come fails the command.
#[test]
fn scripts_type_in_virtual_time() {
    runs();
    let folder = tempfile::tempdir().expect("a folder");
    let session = |text: &str, options: &[&str]| {
        let file = folder.path().join("script");
        std::fs::write(&file, text).expect("it can be written");
        let mut command = trapless();
        command.args(["boot", "--script"]).arg(&file).args(options);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut machine = Running(command.spawn().expect("the command starts"));
        let (mut shown, mut stderr) = (String::new(), String::new());
        let pipe = machine.0.stderr.take();
        machine
            .0
            .stdout
            .take()
            .expect("it is piped")
            .read_to_string(&mut shown)
            .expect("text");
        pipe.expect("it is piped")
            .read_to_string(&mut stderr)
            .expect("text");
        (shown, stderr, machine.0.wait().expect("it ends").code())
    };
    let ask = "expect # \nsend cat /proc/uptime; echo $((6 * 7))\nexpect \\n42\\r\n";
    let off = format!("{ask}send exit\n");
    let first = session(&off, &[]);
    assert_eq!(first.2, Some(0), "{first:?}");
    assert!(first.0.contains("\n42\r\n") && first.0.contains("Power down"));
    assert_eq!(session(&off, &["--engine", "interp"]).0, first.0);
    assert_eq!(session(&format!("{ask}end\n"), &[]).2, Some(0));
    let (_, stderr, status) = session(&format!("{ask}timeout 1\nexpect nobody\n"), &[]);
    assert_eq!(status, Some(1));
    assert!(
        stderr.contains("line 5") && stderr.contains("1 s"),
        "{stderr}"
    );
    // `end` leaves a machine that is on; without it the machine has to power off.
    let (_, stderr, status) = session(&format!("{ask}timeout 1\n"), &[]);
    assert_eq!(
        (status, stderr.contains("still on")),
        (Some(1), true),
        "{stderr}"
    );
}
