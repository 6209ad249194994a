//! How the command ends when something outside it, or the program in it, does not: readers that go
//! away, full disks, pipes without a writer, Ctrl-C, and programs that trap for ever.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// How long the end may take on a busy computer.
const PATIENCE: Duration = Duration::from_secs(20);

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("endings-{name}"))
}

fn succeed(command: &mut Command) {
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
}

/// A bare-metal program; `options` are the linker's.
fn program(name: &str, source: &str, options: &[&str]) -> PathBuf {
    let (text, object) = (scratch(&format!("{name}.S")), scratch(&format!("{name}.o")));
    let file = scratch(&format!("{name}.elf"));
    std::fs::write(&text, source).expect("it can be written");
    let mut assembler = Command::new("riscv64-linux-gnu-as");
    succeed(
        assembler
            .arg("-march=rv64gc")
            .arg("-o")
            .args([&object, &text]),
    );
    let mut linker = Command::new("riscv64-linux-gnu-ld");
    linker.args(["-N", "-Ttext=0x80000000"]).args(options);
    succeed(linker.arg("-o").args([&file, &object]));
    file
}

/// Prints lines for ever.
fn printer() -> PathBuf {
    let source = ".globl _start\n_start: li t0, 0x10000000\nli t1, 'x'\nli t2, 10\n\
                  1: sb t1, 0(t0)\nsb t2, 0(t0)\nj 1b\n";
    program("printer", source, &[])
}

/// Prints a line and ends with status 0.
fn greeter() -> PathBuf {
    greeter_linked("greeter", &[])
}

fn greeter_linked(name: &str, options: &[&str]) -> PathBuf {
    let source = ".globl _start, tohost\n_start: li t0, 0x10000000\nli t1, 'x'\nsb t1, 0(t0)\n\
                  li t1, 10\nsb t1, 0(t0)\nla t0, tohost\nli t1, 1\nsd t1, 0(t0)\n1: j 1b\n\
                  .align 6\ntohost: .dword 0\n";
    program(name, source, options)
}

fn trapless(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapless"));
    command
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// Waits for the end of `child`.
fn end(child: &mut Child) -> ExitStatus {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("it is ours") {
            return status;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("it runs");
    panic!("it does not end");
}

/// Its output and how it ended; it must do so by itself.
fn output(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    end(&mut child);
    child.wait_with_output().expect("it has ended")
}

fn printed(child: &mut Child) -> String {
    let mut text = String::new();
    let stderr = child.stderr.as_mut().expect("it is piped");
    stderr.read_to_string(&mut text).expect("it is text");
    text
}

fn interrupt(child: &Child) {
    signal(child, "INT");
}

fn signal(child: &Child, name: &str) {
    succeed(Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]));
}

/// Promise: a program that was linked to RAM without further ado, so that the linker put the file's
/// headers and a note below it, runs; for one with code below RAM the error says what to do.
#[test]
fn headers_below_ram_are_no_part_of_a_program() {
    let ordinary = ["--no-omagic", "--build-id"];
    let file = greeter_linked("headers", &ordinary);
    let mut readelf = Command::new("riscv64-linux-gnu-readelf");
    let segments = output(readelf.arg("-lW").arg(&file)).stdout;
    let segments = String::from_utf8_lossy(&segments).into_owned();
    assert!(segments.contains("0x0000000000010000"), "{segments}");
    let ran = output(trapless(&["exec"]).arg(&file));
    assert_eq!((ran.status.code(), &*ran.stdout), (Some(0), &b"x\n"[..]));
    let below = [&ordinary[..], &["-Ttext=0x7fff0000"]].concat();
    let refused = output(trapless(&["exec"]).arg(greeter_linked("below", &below)));
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(
        text.contains("outside RAM") && text.contains("-Wl,-n"),
        "{text}"
    );
}

/// Promise: a program whose traps have no handler ends with an error instead of running for ever.
#[test]
fn a_program_that_only_traps_is_stopped_with_a_sentence() {
    let source = ".globl _start\n_start: lw t0, 0(zero)\n";
    let file = program("unhandled", source, &[]);
    let file = file.to_str().expect("UTF-8");
    for more in [&[][..], &["--engine", "both"], &["--harts", "2"]] {
        let output = output(trapless(&["exec", file]).args(more));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            text.contains("set mtvec") && text.lines().count() == 1,
            "{text}"
        );
    }
    let output = output(&mut trapless(&[
        "exec",
        file,
        "--max-instructions",
        "1000000",
    ]));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("within 1000000 instructions and traps"),
        "{text}"
    );
}

/// Promise: a run that is given up ends at the same instant with each engine, and so does its
/// ledger: in a loop of traps between instructions, in one of instructions, and where nothing but
/// traps happens.
#[test]
fn a_run_that_is_given_up_has_the_same_ledger_with_each_engine() {
    let handler = "_start: la t0, 1f\ncsrw mtvec, t0\n";
    let trapping = format!(".globl _start\n{handler}.align 2\n1: addi t1, t1, 1\necall\n");
    let running = format!(".globl _start\n{handler}.align 2\n1: addi t1, t1, 1\nj 1b\n");
    let hopeless = ".globl _start\n_start: lw t0, 0(zero)\n".to_string();
    for (name, source) in [("loop", trapping), ("spin", running), ("void", hopeless)] {
        let file = program(name, &source, &[]);
        let ledgers = ["jit", "interp", "both"].map(|engine| {
            let ledger = scratch(&format!("{name}-{engine}.json"));
            let output = output(
                trapless(&["exec", "--harts", "2", "--max-instructions", "1234567"])
                    .args(["--engine", engine, "--ledger"])
                    .args([&ledger, &file]),
            );
            assert_eq!(output.status.code(), Some(2), "{name}, {engine}");
            std::fs::read_to_string(&ledger).expect("there is one")
        });
        assert!(
            ledgers[1..].iter().all(|ledger| *ledger == ledgers[0]),
            "{name}"
        );
    }
}

/// Promise: `| head` ends the command without a word, as with other programs.
#[test]
fn the_command_ends_quietly_when_its_reader_has_gone() {
    let file = printer();
    for words in [&["exec"][..], &["boot", "--firmware", "none", "--kernel"]] {
        let mut command = trapless(words);
        let child = command.arg(&file).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("it starts");
        let mut line = [0; 2];
        let mut stdout = child.stdout.take().expect("it is piped");
        stdout.read_exact(&mut line).expect("it prints");
        drop(stdout);
        assert_eq!(end(&mut child).code(), Some(141), "{words:?}");
        assert_eq!(printed(&mut child), "");
    }
    for words in [&["machines", "sstc"][..], &["workloads"], &["man"]] {
        let (theirs, ours) = UnixStream::pair().expect("there is room");
        drop(ours);
        let mut command = trapless(words);
        let child = command.stdout(OwnedFd::from(theirs)).spawn();
        let mut child = child.expect("it starts");
        assert_eq!(end(&mut child).code(), Some(141), "{words:?}");
        assert_eq!(printed(&mut child), "");
    }
}

/// Promise: output that did not fit is an error, never a success and never a panic.
#[test]
fn a_full_disk_behind_standard_output_is_reported() {
    let file = greeter();
    let file = file.to_str().expect("UTF-8");
    let ended = output(&mut trapless(&["exec", file]));
    assert_eq!(
        (ended.status.code(), &*ended.stdout),
        (Some(0), &b"x\n"[..])
    );
    let full = || File::create("/dev/full").expect("Linux has it");
    let ledger = scratch("greeter.json");
    let ledger = ledger.to_str().expect("UTF-8");
    succeed(&mut trapless(&["exec", file, "--ledger", ledger]));
    for words in [
        &["exec", file][..],
        &["report", ledger],
        &["machines"],
        &["machines", "sstc", "--json"],
    ] {
        let mut child = trapless(words).stdout(full()).spawn().expect("it starts");
        let code = end(&mut child).code();
        let text = printed(&mut child);
        assert_eq!(code, Some(3), "{words:?}: {text}");
        assert!(text.contains("cannot write to standard output"), "{text}");
    }
    let mut command = trapless(&["exec", file]);
    let mut child = command.stdout(Stdio::null()).stderr(full()).spawn();
    assert_eq!(end(child.as_mut().expect("it starts")).code(), Some(0));
}

/// Promise: Ctrl-C ends every kind of run soon.
#[test]
fn an_interrupt_ends_a_run_of_two_engines_soon() {
    let file = program(
        "forever",
        ".globl _start\n_start: addi t0, t0, 1\nj _start\n",
        &[],
    );
    let file = file.to_str().expect("UTF-8");
    for (engine, name, status) in [
        ("jit", "INT", 130),
        ("interp", "TERM", 143),
        ("both", "HUP", 129),
    ] {
        let mut command = trapless(&["exec", file, "--engine", engine]);
        let mut child = command.stdout(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(700));
        let started = Instant::now();
        signal(&child, name);
        assert_eq!(end(&mut child).code(), Some(status), "{engine}");
        // 0.2 s where nothing else runs.
        assert!(
            started.elapsed() < Duration::from_secs(3),
            "{engine}: {:?}",
            started.elapsed()
        );
    }
}

/// Promise: a disk that becomes full is reported, and leaves no part of a file that looks complete.
#[test]
fn a_file_that_becomes_too_large_for_its_disk_is_reported_and_removed() {
    let source = ".globl _start\n_start: li t0, 0x100000\nli t1, 0x5555\nsw t1, 0(t0)\n1: j 1b\n";
    let program = program("off", source, &[]);
    for option in ["--trace", "--ledger"] {
        let file = scratch(&format!("full{option}"));
        // It may be there from an earlier test, or not.
        let _ = std::fs::remove_file(&file);
        // No file may have a byte: that is as on a full disk, if
        // the signal that goes with it is ignored.
        let script = "trap '' XFSZ; ulimit -f 0; exec \"$0\" boot \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_trapless")]);
        command
            .args(["--firmware", "none", "--kernel"])
            .arg(&program);
        command.arg(option).arg(&file).stderr(Stdio::piped());
        let output = output(command.stdin(Stdio::null()));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{option}: {text}");
        assert!(text.contains("cannot write"), "{option}: {text}");
        let name = file.file_name().expect("a name").to_string_lossy();
        let entries = std::fs::read_dir(file.parent().expect("a folder")).expect("it is there");
        let left = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
        let left: Vec<String> = left.filter(|n| n.starts_with(&*name)).collect();
        assert_eq!(left, [""; 0], "{option}");
    }
}

/// What `boot` says of a program that has not ended after a second of virtual time.
fn errors_of_a_second(program: &Path) -> String {
    let mut boot = trapless(&["boot", "--firmware", "none", "--time-limit", "1"]);
    let output = output(boot.arg("--kernel").arg(program));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    text
}

/// Promise: a machine that does not come to its end is stopped after the time that it was given,
/// and its last line of output is repeated.
#[test]
fn a_machine_that_hangs_is_stopped_in_time() {
    let source = ".globl _start\n_start: li t0, 0x10000000\nli t1, 'x'\nsb t1, 0(t0)\n\
                  li t1, 10\nsb t1, 0(t0)\n1: j 1b\n";
    let file = program("hangs", source, &[]);
    let text = errors_of_a_second(&file);
    assert!(
        text.contains("did not power off within 1 s of virtual time (last line: x)"),
        "{text}"
    );
}

/// Promise: a guest that errs and reboots without end does not fill the terminal, and reboots do
/// not extend the time that it was given.
#[test]
fn reboots_reset_neither_the_time_limit_nor_the_complaints() {
    // The device tree's first virtio device is notified of a queue that it does not have. Then 10
    // ms later: reset.
    let source = ".globl _start\n_start: li t0, 0x10001000\nli t1, 99\nsw t1, 0x50(t0)\n\
                  li t0, 5000000\n1: addi t0, t0, -1\nbnez t0, 1b\n\
                  li t0, 0x100000\nli t1, 0x7777\nsw t1, 0(t0)\n2: j 2b\n";
    let file = program("errs", source, &[]);
    let text = errors_of_a_second(&file);
    assert!(
        text.contains("did not power off within 1 s of virtual time"),
        "{text}"
    );
    assert_eq!(
        text.matches("queue that does not exist").count(),
        20,
        "{text}"
    );
    assert!(text.contains("(further errors are not shown)"), "{text}");
}

/// Promise: a pipe that gives nothing is waited for aloud, and Ctrl-C ends that.
#[test]
fn a_pipe_that_nobody_writes_to_can_be_interrupted() {
    let fifo = scratch("fifo");
    let _ = std::fs::remove_file(&fifo);
    succeed(Command::new("mkfifo").arg(&fifo));
    let name = fifo.to_str().expect("UTF-8");
    let mut child = trapless(&["exec", name]).spawn().expect("it starts");
    let mut word = [0; 7];
    let stderr = child.stderr.as_mut().expect("it is piped");
    stderr
        .read_exact(&mut word)
        .expect("it says what it waits for");
    assert_eq!(&word, b"Waiting");
    interrupt(&child);
    assert_eq!(end(&mut child).code(), Some(130));
    // Input of a writer that opens the pipe late arrives.
    let child = trapless(&["exec", name]).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("it starts");
    std::thread::sleep(Duration::from_millis(300));
    let elf = std::fs::read(greeter()).expect("it is there");
    let mut writer = File::options()
        .write(true)
        .open(&fifo)
        .expect("it has a reader");
    writer.write_all(&elf).expect("it is read");
    drop(writer);
    assert_eq!(end(&mut child).code(), Some(0));
}

/// Promise: damaged symbols do not fill the disk.
#[test]
fn a_signature_as_large_as_memory_is_refused() {
    let source = ".globl _start, tohost, begin_signature\n_start: la t0, tohost\nli t1, 1\n\
                  sd t1, 0(t0)\n1: j 1b\n.align 6\ntohost: .dword 0\nbegin_signature: .dword 7\n";
    let file = program(
        "signature",
        source,
        &["--defsym", "end_signature=0xF0000000"],
    );
    let signature = scratch("signature.txt");
    let _ = std::fs::remove_file(&signature);
    let mut command = trapless(&["exec", file.to_str().expect("UTF-8")]);
    let output = output(command.arg("--signature").arg(&signature));
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("begin_signature and end_signature"), "{text}");
    assert!(!signature.exists());
}

/// Promise: what lies in the current folder is never run, however it is called.
#[test]
fn the_current_folder_is_no_project_unless_it_is_named() {
    let folder = scratch("project");
    for name in ["images", "experiments", "vmm"] {
        std::fs::create_dir_all(folder.join(name)).expect("it can be made");
    }
    let mine = "title = \"mine\"\nexplanation = \"e\"\nmeasures = \"m\"\n\
                [guest]\nharts = 1\nmemory = \"256M\"\nscript = \"true\"\n";
    std::fs::write(folder.join("experiments/mine.toml"), mine).expect("it can be written");
    let list = |command: &mut Command| {
        let output = output(command.current_dir(&folder).env_remove("TRAPLESS_PROJECT"));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let usual = list(&mut trapless(&["workloads"]));
    assert!(
        usual.contains("timer") && !usual.contains("mine"),
        "{usual}"
    );
    let named = list(&mut trapless(&["workloads", "--project", "."]));
    assert!(
        named.contains("mine") && !named.contains("timer"),
        "{named}"
    );
    let wrong = output(&mut trapless(&["workloads", "--project", "/dev"]));
    let text = String::from_utf8_lossy(&wrong.stderr);
    assert!(
        wrong.status.code() == Some(2) && text.contains("no project folder"),
        "{text}"
    );
}

/// Promise: a cache that cannot be made is reported with the variable that names another one.
#[test]
fn without_a_place_for_the_cache_the_error_says_what_to_set() {
    let project = scratch("packed");
    for name in ["images", "experiments", "prebuilt"] {
        std::fs::create_dir_all(project.join(name)).expect("it can be made");
    }
    std::fs::write(project.join("prebuilt/packages.json"), "{}").expect("it can be written");
    let error = |home: Option<&str>| {
        let mut command = trapless(&["images", "--project"]);
        command.arg(&project);
        for variable in ["TRAPLESS_CACHE", "XDG_CACHE_HOME", "HOME"] {
            command.env_remove(variable);
        }
        let output = output(command.envs(home.map(|home| ("HOME", home))));
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    for home in [None, Some("/proc/nobody")] {
        let error = error(home);
        assert!(
            error.contains("set TRAPLESS_CACHE to a folder of your own"),
            "{error}"
        );
    }
    assert!(error(None).contains("HOME is not set"));
}

/// Promise: what only this workload has comes first, and no line is longer than a terminal.
#[test]
fn a_workload_shows_its_own_parameters_first() {
    let output = output(&mut trapless(&["workloads", "timer"]));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let at = |words: &str| {
        text.find(words)
            .unwrap_or_else(|| panic!("{words}: {text}"))
    };
    let common = at("Parameters of every workload:");
    assert!(
        at("  wakeups ") < common && common < at("  irqchip "),
        "{text}"
    );
    let parameters = text[common..].lines();
    for line in parameters.take_while(|line| !line.is_empty()) {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

/// Completions of the last of these words, as a shell gets them.
fn completed(words: &[&str]) -> String {
    let last = words.len().to_string();
    let mut command = trapless(&[&["--", "trapless"], words].concat());
    command.env("COMPLETE", "bash").env("_CLAP_IFS", "\n");
    command
        .env("_CLAP_COMPLETE_INDEX", last)
        .env("_CLAP_COMPLETE_COMP_TYPE", "9");
    let output = output(command.env("_CLAP_COMPLETE_SPACE", "false"));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Promise: shells complete options and the names of machines, workloads and parameters, and there
/// is a manual page for each subcommand, with the sections that are looked for.
#[test]
fn completions_and_manual_pages_name_every_subcommand() {
    for shell in ["bash", "zsh", "fish"] {
        let output = output(&mut trapless(&["completions", shell]));
        let script = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(script.contains("COMPLETE"), "{shell}");
    }
    for (words, name) in [
        (&["comp"][..], "compare"),
        (&["run", "--guest-h"], "--guest-harts"),
        (&["run", "--machine", ""], "sstc"),
        (&["compare", "--machines", "sbi,ss"], "sstc"),
        (&["run", "--workload", "ti"], "timer"),
        (&["run", "--workload", "timer", "--set", "wake"], "wakeups="),
        (&["workloads", "mi"], "mixed"),
    ] {
        let found = completed(words);
        assert!(found.contains(name), "{words:?}: {found}");
    }
    assert!(!completed(&["run", "--machine", "ss"]).contains("aia"));
    let folder = scratch("man");
    let written = output(&mut trapless(&["man", folder.to_str().expect("UTF-8")]));
    assert!(written.status.success());
    for name in [
        "trapless",
        "trapless-run",
        "trapless-exec",
        "trapless-explore",
    ] {
        let page = std::fs::read_to_string(folder.join(format!("{name}.1")));
        let page = page.expect(name);
        let sections = [
            "OPTIONS",
            "EXAMPLES",
            "EXIT STATUS",
            "ENVIRONMENT",
            "FILES",
            "SEE ALSO",
        ];
        for section in sections {
            let quoted = format!(".SH \"{section}\"");
            assert!(
                page.contains(&format!(".SH {section}")) || page.contains(&quoted),
                "{name}: {section}"
            );
        }
    }
}

/// Stores `count` sectors of zeroes to the disk in the first slot, one request after the other, and
/// powers off.
fn disk_writer(sectors: u32) -> PathBuf {
    let source = format!(
        ".globl _start\n_start: li s0, 0x10001000\nli s1, 0x80010000\n\
         li t0, 3\nsw t0, 0x70(s0)\nli t0, 1\nsw t0, 0x24(s0)\nsw t0, 0x20(s0)\n\
         li t0, 11\nsw t0, 0x70(s0)\nsw zero, 0x30(s0)\nli t0, 4\nsw t0, 0x38(s0)\n\
         sw s1, 0x80(s0)\nsw zero, 0x84(s0)\nli t0, 0x80011000\nsw t0, 0x90(s0)\nsw zero, 0x94(s0)\n\
         li t0, 0x80012000\nsw t0, 0xa0(s0)\nsw zero, 0xa4(s0)\nli t0, 1\nsw t0, 0x44(s0)\n\
         li t0, 15\nsw t0, 0x70(s0)\n\
         li s2, 0\nli s3, {sectors}\nli s4, 0x80013000\nli s5, 0x80011000\nli s6, 0x80012000\n\
         1: li t0, 1\nsw t0, 0(s4)\nsw zero, 4(s4)\nsd s2, 8(s4)\n\
         sd s4, 0(s1)\nli t0, 16\nsw t0, 8(s1)\nli t0, 0x10001\nsw t0, 12(s1)\n\
         li t0, 0x80014000\nsd t0, 16(s1)\nli t0, 65536\nsw t0, 24(s1)\nli t0, 0x20001\nsw t0, 28(s1)\n\
         addi t0, s4, 16\nsd t0, 32(s1)\nli t0, 1\nsw t0, 40(s1)\nli t0, 2\nsw t0, 44(s1)\n\
         lhu t1, 2(s5)\nandi t2, t1, 3\nslli t2, t2, 1\nadd t2, t2, s5\nsh zero, 4(t2)\n\
         addi t1, t1, 1\nslli t1, t1, 48\nsrli t1, t1, 48\nsh t1, 2(s5)\nfence\nsw zero, 0x50(s0)\n\
         2: lhu t2, 2(s6)\nbne t1, t2, 2b\nlbu t3, 16(s4)\nli t0, 0x10000000\nli t4, '0'\n\
         add t4, t4, t3\nsb t4, 0(t0)\naddi s2, s2, 128\nbltu s2, s3, 1b\nli t4, 10\nsb t4, 0(t0)\n\
         li t0, 0x100000\nli t1, 0x5555\nsw t1, 0(t0)\n3: j 3b\n"
    );
    program("disk-writer", &source, &[])
}

/// Promise: a file that reaches the limit on the size of files (`ulimit -f`) is an I/O error of the
/// guest's, or a sentence; what has been written stays.
#[test]
fn the_limit_on_the_size_of_files_is_an_error_like_a_full_disk() {
    let disk = scratch("limited.img");
    let file = File::create(&disk).expect("it can be made");
    file.set_len(8 << 20).expect("it can grow");
    let program = disk_writer(8192);
    let image = format!("{},rw,format=raw", disk.display());
    // In blocks of 512 bytes (dash): one MiB.
    let script = "ulimit -f 2048; exec \"$0\" boot --firmware none --ram 16M \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_trapless")]);
    command.args(["--disk", &image, "--kernel"]).arg(&program);
    let output = output(command.stdin(Stdio::null()).stderr(Stdio::piped()));
    let text = String::from_utf8_lossy(&output.stderr);
    let console = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text} {console}");
    assert!(text.contains("cannot write the disk image"), "{text}");
    // 64 requests of 64 KiB: the first sixteen succeed.
    assert!(console.starts_with(&"0".repeat(16)), "{console}");
    assert!(console.contains('1'), "{console}");
}

/// Promise: memory that cannot be had is a sentence, wherever a run needs it.
#[test]
fn too_little_memory_is_reported() {
    let program = greeter();
    let mut refused = 0;
    for megabytes in [
        60, 100, 150, 200, 300, 400, 600, 900, 1_100, 1_250, 1_400, 1_700,
    ] {
        let script = format!(
            "ulimit -v {}; exec \"$0\" exec --ram 1G \"$@\"",
            megabytes << 10
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_trapless")]);
        let output = output(
            command
                .arg(&program)
                .stdin(Stdio::null())
                .stderr(Stdio::piped()),
        );
        let text = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code();
        assert!(
            matches!(code, Some(0 | 2)),
            "{megabytes} MiB: {:?} {text}",
            output.status
        );
        assert!(text.lines().count() <= 1, "{megabytes} MiB: {text}");
        refused += u32::from(code == Some(2));
    }
    assert!(refused >= 6, "{refused}");
}

/// Promise: what a guest and its files say does not drive the terminal, unless the console is asked
/// for.
#[test]
fn files_do_not_drive_the_terminal() {
    let folder = scratch("escapes");
    std::fs::create_dir_all(&folder).expect("it can be made");
    let text = "title = \"a\\u001b[2Jb\"\nexplanation = \"c\\u009b31md\"\nmeasures = \"e\"\n\
                [guest]\nharts = 1\nmemory = \"256M\"\nscript = \"true\"\n";
    std::fs::write(folder.join("esc.toml"), text).expect("it can be written");
    for words in [
        &["workloads", "./esc.toml"][..],
        &["workloads", "./esc.toml", "--json"],
        &["run", "--machine", "\u{1b}[2Jx", "--workload", "timer"],
    ] {
        let output = output(trapless(words).current_dir(&folder));
        for text in [output.stdout, output.stderr] {
            let text = String::from_utf8_lossy(&text).into_owned();
            let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
            assert!(!text.contains(steers), "{words:?}: {text:?}");
        }
    }
}

/// Promise: while packages arrive, Ctrl-C ends the command and what it has started, whatever the
/// mirror does; so does the end of the command by a signal that it cannot catch.
#[test]
fn an_interrupt_ends_what_waits_for_a_mirror() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mirror = format!("http://{}/debian", silent.local_addr().expect("it has one"));
    // It takes connections, and never answers.
    std::thread::spawn(move || silent.incoming().collect::<Vec<_>>());
    let cache = scratch("silent-mirror");
    for (signal, code) in [("-INT", Some(130)), ("-KILL", None)] {
        let _ = std::fs::remove_dir_all(&cache);
        let mut command = trapless(&["images", "--refresh"]);
        command
            .env("TRAPLESS_CACHE", &cache)
            .env("TRAPLESS_MIRROR", &mirror);
        command.env_remove("http_proxy");
        let mut child = command.spawn().expect("it starts");
        let config = cache.join("apt");
        let fetching = || {
            let processes = std::fs::read_dir("/proc").expect("Linux").flatten();
            let lines = processes.filter_map(|p| std::fs::read(p.path().join("cmdline")).ok());
            let name = config.to_string_lossy().into_owned();
            lines
                .filter(|line| String::from_utf8_lossy(line).contains(&name))
                .count()
        };
        let wait = |what: &str, done: &dyn Fn() -> bool| {
            let started = Instant::now();
            while !done() {
                assert!(started.elapsed() < PATIENCE, "{signal}: {what}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        wait("apt does not start", &|| fetching() > 0);
        succeed(Command::new("kill").args([signal, &child.id().to_string()]));
        assert_eq!(end(&mut child).code(), code);
        wait("apt goes on", &|| fetching() == 0);
    }
}

/// Promise: Ctrl-C ends a sweep with a sentence, not a traceback, from its first moment on: the
/// signals wait until the Python program can take them.
#[test]
fn an_interrupt_of_a_sweep_waits_until_python_has_started() {
    let python = scratch("python");
    let text = "#!/bin/sh\n[ \"$1\" = -m ] || exit 0\nexec grep SigBlk: /proc/self/status\n";
    std::fs::write(&python, text).expect("it can be written");
    succeed(Command::new("chmod").arg("+x").arg(&python));
    let printed = output(trapless(&["sweep", "x.toml"]).env("TRAPLESS_PYTHON", &python));
    let printed = String::from_utf8(printed.stdout).expect("it is text");
    let mask = printed.split_whitespace().nth(1).expect("there is a mask");
    let mask = u64::from_str_radix(mask, 16).expect("it is hexadecimal");
    // Bits of SIGINT (2) and SIGTERM (15)
    let signals = 1 << (2 - 1) | 1 << (15 - 1);
    assert_eq!(mask & signals, signals, "{printed}");
}
